"""The report's page in a real browser: what it shows, keys, filters, both colour schemes, accessibility, size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktxkit.app import pages
from ktxkit.base import contracts
from ktxkit.store.rules import names
from ktxkit.store.world import World
from tests.support.browser import looks_right, violations
from tests.support.commands import call
from tests.support.gates import page as page_file
from tests.support.gates import source
from tests.support.jobs import job_file, unit
from tests.support.report_job import report
from tests.support.repos import Repo


def page_of(body: str, more: str = "") -> str:
    (text,) = page_file(body, more).values()
    return text


HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def job(repo: Repo) -> Repo:
    """A job by hand: one accepted, one textual conflict with it, one accepted, one no-op, one still open."""
    repo.write("wiki/a.md", "one\ntwo\nthree\n")
    repo.commit()
    for key in ("one", HOSTILE, "three", "four", "five"):
        assert call("worktree-open", "--job", "j1", "--unit", key, cwd=repo.path).status == 0
    trees = sorted((repo.path / ".ktx/worktrees/j1").iterdir())
    (trees[0] / "wiki/a.md").write_text("one\nTWO\nthree\n")
    (trees[1] / "wiki/a.md").write_text("one\ndeux\nthree\n")
    (trees[2] / "wiki/c.md").write_text("<b>new</b>\n")
    for command in ("patch-collect", "patch-apply"):
        for key in ("one", HOSTILE, "three", "four"):
            call(command, "--job", "j1", "--unit", key, cwd=repo.path)
    assert call("job-land", "--job", "j1", cwd=repo.path).status == 0
    return repo


def opened(chromium: Any, path: Path, scheme: str = "light", width: int = 1360) -> Any:
    """The page, drawn; anything it logs, asks of a network or fails at is an error."""
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(20_000)
    page.on("console", lambda message: pytest.fail(message.text))
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("dialog", lambda dialog: pytest.fail("a dialog: content was run"))
    page.on("request", lambda request: request.url.startswith("file:") or pytest.fail(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.ready")
    return page


def shown(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('.unit')].filter(r => !r.hidden).map(r => r.querySelector('.open').textContent)"
    )
    return found


def test_a_real_job(chromium: Any, job: Repo, tmp_path: Path) -> None:
    done = call("job-report", "j1", "--html", str(tmp_path / "r.html"), cwd=job.path)
    assert (done.status, done.out) == (0, "") and f"wrote {tmp_path}/r.html" in done.err
    page = opened(chromium, tmp_path / "r.html")
    assert page.inner_text("#badge") == "partial" and page.inner_text("h1") == "j1"
    assert page.inner_text("#lead").startswith("2 of 5 units landed on main as ")
    assert shown(page) == [HOSTILE, "five", "one", "three", "four"], "what failed comes first"
    assert page.locator("img").count() == 0, "a unit's key is text"
    page.click(".chip[data-word=textual_conflict]")
    assert shown(page) == [HOSTILE]
    page.click(".unit:not([hidden]) .open")
    detail = page.inner_text(".detail")
    assert "Ours: the integration branch" in detail and "TWO" in detail and "deux" in detail
    assert page.locator(".three .differs").all_inner_texts() == ["TWO", "deux"]
    assert page.locator(".diff .d-del").all_inner_texts() == ["-two"]
    assert page.locator(".diff .d-add").all_inner_texts() == ["+deux"]
    assert page.url.endswith("#outcome=textual_conflict&open=2")
    again = opened(chromium, tmp_path / "r.html")
    again.goto(page.url)
    again.reload()
    again.wait_for_function("document.documentElement.dataset.ready")
    assert shown(again) == [HOSTILE] and again.locator(".detail").count() == 1


def test_every_cut_is_shown_in_text_and_page(chromium: Any, repo: Repo, tmp_path: Path) -> None:
    """`onConflict: prune` alters what a person wrote: each place of it is told, as text, on both."""
    repo.write("semantic-layer/wh/mart.yaml", source("mart", measures="total net")["semantic-layer/wh/mart.yaml"])
    repo.write("wiki/global/page.md", page_of("`mart.total` and [[gone|<b>x</b>]].\n", "sl_refs: [mart.total, mart]\n"))
    repo.write("wiki/global/gone.md", page_of("Here.\n"))
    repo.commit("knowledge")
    units = [
        unit("rename", "sed -i s/total/gross/ semantic-layer/wh/mart.yaml"),
        unit("away", "rm wiki/global/gone.md"),
    ]
    path = job_file(repo, {"onConflict": "prune", "units": units})
    assert call("job-run", path, "--job", "j1", cwd=repo.path).status == 0
    report = json.loads((repo.path / ".ktx/jobs/j1/report.json").read_text())
    assert call("job-report", "j1", "--html", str(tmp_path / "r.html"), cwd=repo.path).status == 0
    page = opened(chromium, tmp_path / "r.html")
    cuts = page.locator("#cuts li").all_inner_texts()
    where = "wiki/global/page.md"
    assert sorted(cuts) == [
        f"{where}: code span mart.total", f"{where}: link [[gone]]", f"{where}: sl_refs entry mart.total"
    ]  # fmt: skip
    assert len(cuts) == len(report["prunedReferences"])
    text = " ".join(call("job-report", "j1", cwd=repo.path).out.split())
    assert all(cut in text for cut in cuts)
    assert page.locator("#left-section").is_hidden() and page.locator("#warnings-section").is_hidden()
    assert violations(page) == []


def test_the_observers_two_clocks(chromium: Any, repo: Repo, tmp_path: Path) -> None:
    for key in ("watched", "not", "torn"):
        call("worktree-open", "--job", "j1", "--unit", key, cwd=repo.path)
        if key != "not":
            call("worktree-watch", "--once", "--job", "j1", "--unit", key, cwd=repo.path)
    (tree,) = (repo.path / ".ktx/worktrees/j1").glob("*-watched")
    (tree / "new<b>.md").write_text("new\n")
    call("worktree-watch", "--once", "--job", "j1", "--unit", "watched", cwd=repo.path)
    proof = (
        "trace-append",
        "--job",
        "j1",
        "--unit",
        "watched",
        "--phase",
        "work_unit",
        "--event",
        "tests_passed",
        "--proof",
        "r1",
    )
    assert call(*proof, cwd=tree).status == 0
    lease = json.loads((repo.path / ".ktx/jobs/j1/units/0003-torn/lease.json").read_text())
    attempt = names.attempt_dir(names.attempt_name(lease))
    (repo.path / ".ktx" / attempt / "worktree-observer/activity.jsonl").write_text("{}\n")
    assert call("job-report", "j1", "--html", str(tmp_path / "r.html"), cwd=repo.path).status == 0
    page = opened(chromium, tmp_path / "r.html")
    for number in range(3):
        page.locator(".open").nth(number).click()
    watched, bare, torn = page.locator(".detail").all_inner_texts()
    assert "creating new<b>.md" in watched and "seq=1 tests_passed" in watched and "only single looks" in watched
    assert "two clocks" not in bare and "two clocks" in torn and "Not to be trusted" in torn


def test_stdout_and_json(job: Repo) -> None:
    done = call("job-report", "j1", "--html", "-", cwd=job.path)
    assert done.status == 0 and done.out.startswith("<!doctype html>") and done.err == ""
    text = done.out.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    contracts.validate("report", json.loads(text)["report"])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 24 units with every kind of outcome."""
    place = tmp_path_factory.mktemp("page")
    Repo.init(place / "repo")
    made = report(24)
    contracts.validate("report", made)
    path = place / "r.html"
    path.write_bytes(pages.render_report(World(place / "repo", {}), made))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_in_both_colour_schemes(chromium: Any, sample: Path, scheme: str) -> None:
    page = opened(chromium, sample, scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert violations(page) == []
    for number in (0, 4, 6, 7):
        page.locator(".open").nth(number).click()
    page.evaluate("scrollTo(0, 0)")  # else a row may be half below the head of the table
    page.keyboard.press("?")
    assert page.locator("dialog[open]").count() == 1
    assert violations(page) == []
    page.keyboard.press("Escape")
    assert violations(page) == []
    page.set_viewport_size({"width": 380, "height": 800})
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling on a phone"


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_overlaps(chromium: Any, sample: Path, tmp_path: Path, width: int) -> None:
    page = opened(chromium, sample, "light", width)
    assert looks_right(page, tmp_path / "light.png") == []
    page.emulate_media(color_scheme="dark")
    page.locator(".open").nth(1).click()
    page.evaluate("scrollTo(0, 0)")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert looks_right(page, tmp_path / "dark.png") == []


def test_it_begins_with_the_answer_and_the_next_command(chromium: Any, repo: Repo, tmp_path: Path) -> None:
    units = [unit("a", "echo 1 > f"), unit("b", "echo 'the needle' >&2; exit 2"), unit("c", "true")]
    file = job_file(repo, {"connectionId": "local", "sourceKey": "manual", "units": units})
    assert call("job-run", file, "--job", "j1", "-q", cwd=repo.path).status == 3
    assert call("job-report", "j1", "--html", str(tmp_path / "r.html"), cwd=repo.path).status == 0
    page = opened(chromium, tmp_path / "r.html")
    assert page.inner_text("#next") == "Next: job-run --resume j1 --failed"
    assert page.inner_text("#lead").startswith("1 of 3 units landed on main as ")
    assert shown(page) == ["b", "a", "c"]
    page.fill("#search", "needle")
    assert shown(page) == ["b"], "the end of what it printed is searched, too"
    text = page.inner_text("body").lower()
    for word in ("isolated diff", "projection", "fence", "epoch", "source"):
        assert word not in text, word


def test_keys_alone(chromium: Any, sample: Path) -> None:
    page = opened(chromium, sample)
    press = page.keyboard.press
    press("j")
    assert page.evaluate("document.activeElement.textContent") == "pages/topic-0005"
    press("n")
    assert page.evaluate("document.activeElement.textContent") == "pages/topic-0007"
    press("Enter")
    assert page.locator(".detail").count() == 1
    press("k")
    assert page.evaluate("document.activeElement.textContent") == "pages/topic-0005"
    press("/")
    page.keyboard.type("TOTAL_arr_cents")
    assert shown(page) == ["pages/topic-0007", "pages/topic-0015", "pages/topic-0023"]
    assert page.inner_text("#shown") == "3 of 24 units"
    page.keyboard.type(" nothing has this")
    assert page.locator("#none").is_visible()
    press("Escape")
    assert len(shown(page)) == 24
    press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_sorting(chromium: Any, sample: Path) -> None:
    page = opened(chromium, sample)
    head = page.locator("[role=columnheader]")
    assert head.nth(0).get_attribute("aria-sort") is None and shown(page)[0] == "pages/topic-0005"
    head.nth(2).locator("button").click()
    words = page.locator(".unit .word").all_inner_texts()
    assert words == sorted(words) and head.nth(2).get_attribute("aria-sort") == "ascending"
    head.nth(0).locator("button").click()
    head.nth(0).locator("button").click()
    assert shown(page)[0] == "pages/topic-0024"


def test_it_prints(chromium: Any, sample: Path) -> None:
    page = opened(chromium, sample, "dark")
    assert page.pdf().startswith(b"%PDF-")
    page.emulate_media(media="print")
    assert not page.locator(".controls").is_visible() and page.locator(".unit").nth(23).is_visible()


def test_without_scripts_it_says_so(chromium: Any, sample: Path) -> None:
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(sample.as_uri())
    assert "scripts are switched off" in page.inner_text("body")


def test_two_thousand_units_fit_and_filter(chromium: Any, repo: Repo, tmp_path: Path) -> None:
    made = report(2000, 48)
    for entry in made["workUnits"]:
        path = tmp_path / f"{entry['position']}.patch"
        path.write_text("diff --git a/x b/x\n" + "+a line that says something <here>\n" * 3000)
        entry["patchPath"] = str(path)
    contracts.validate("report", made)
    data = pages.render_report(World(repo.path, {}), made)
    assert len(data) < 20_000_000
    (tmp_path / "r.html").write_bytes(data)
    page = opened(chromium, tmp_path / "r.html")
    page.fill("#search", "topic-1999")
    assert shown(page) == ["pages/topic-1999"]
    page.fill("#search", "")
    assert len(shown(page)) == 2000
    page.locator(".open").nth(1998).click()
    assert "cut here; all of it is in" in page.inner_text(".detail")
