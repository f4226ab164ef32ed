"""The page of test runs in a real browser: every number is an answer's, every word is earned, and it can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import contracts
from tests.app.test_job_report_page import opened, shown
from tests.support.browser import looks_right, violations
from tests.support.commands import Ran, call
from tests.support.ledgers import PROJECT, Past

HOSTILE = "t.py::x[<img src=x onerror=alert(1)></script>]"
SCOPED = {"argsSource": "args", "args": ["t.py"], "paths": ["t.py"], "narrowing": []}


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Eight runs: full, flaky by identical executions, retried, scoped, killed, and one that goes on."""
    made = Past(tmp_path_factory.mktemp("past"))
    tests = {"t.py::a": "passed", "t.py::b": "passed", HOSTILE: "passed"}
    made.run(tests, seconds=0.5)
    made.run({**tests, "t.py::b": "failed"}, seconds=0.7)
    made.run({**tests, HOSTILE: "failed>passed"}, seconds=0.2)
    made.run({"t.py::a": "passed"}, selection=SCOPED)
    made.run(tests, end={"stop": "stopping after 1 failures"}, selected=[*tests, "t.py::never"])
    made.run({**tests, "t.py::new": "failed"}, seconds=2.0, workers=8, tree={"tree": "7" * 40})
    made.run(tests, managed=True, trigger="manual", seconds=1.0, preconditions=[])
    made.run({"t.py::a": "running"}, finish=False)
    return made


def ask(past: Past, *words: str) -> Ran:
    return call("ledger-query", "--ktx-dir", str(past.root / ".ktx"), "--project", PROJECT, *words, cwd=past.root)


@pytest.fixture(scope="module")
def page(past: Past) -> Path:
    done = ask(past, "report", "--html", "runs.html")
    assert (done.status, done.out) == (0, "") and f"wrote {past.root}/runs.html" in done.err
    return past.root / "runs.html"


def test_what_the_page_holds_is_what_the_questions_answer(past: Past, page: Path) -> None:
    text = page.read_text("utf-8").split('<script type="application/json" id="data">')[1].split("</script>")[0]
    data = json.loads(text)
    for name, words in {"report": ("report",), "flaky": ("flaky",), "slowest": ("slowest", "--limit", "50")}.items():
        contracts.validate("answer", data[name])
        assert data[name] == ask(past, *words, "--json").document, name
    assert data["movers"] == ask(past, "compare", *data["movers"]["subject"], "--limit", "50", "--json").document
    assert ask(past, "report", "--html", "-").out.startswith("<!doctype html>")


def test_only_a_report_is_a_page(past: Past) -> None:
    done = ask(past, "last", "--html", "x.html")
    assert done.status == 2 and "--html is of `report`" in done.err and not (past.root / "x.html").exists()


def test_an_empty_ledger_is_a_page_too(chromium: Any, tmp_path: Path) -> None:
    made = Past(tmp_path)
    assert ask(made, "report", "--html", "r.html").status == 0
    drawn = opened(chromium, tmp_path / "r.html")
    assert drawn.inner_text("#lead") == "No run is recorded." and drawn.inner_text("#badge") == "no run has ended"
    assert "that none is flaky cannot be said" in drawn.inner_text("#tests-note") and violations(drawn) == []


def test_runs_scope_authority_and_words(chromium: Any, past: Past, page: Path) -> None:
    drawn = opened(chromium, page)
    assert drawn.inner_text("h1") == PROJECT and drawn.inner_text("#badge").startswith("last run: ")
    assert len(shown(drawn)) == 8 and drawn.locator(".column").count() == 7, "the one that goes on has no duration yet"
    assert drawn.locator("img").count() == 0, "a test's id is text"
    drawn.click(".chip[data-kind=scope][data-word=full]")
    full = len(shown(drawn))
    assert full == drawn.locator(".column:not(.scoped)").count() == drawn.locator(".column").count() == 5
    drawn.click(".chip[data-kind=verdict][data-word=failed]")
    assert drawn.inner_text("#shown") == f"{len(shown(drawn))} of 8 runs" and len(shown(drawn)) == 2
    drawn.locator(".unit:not([hidden]) .open").nth(1).click()
    detail = drawn.inner_text(".detail")
    assert "not started by test-run" in detail and "t.py::b" in detail and "Authority: none" in detail
    assert drawn.url.split("#")[1].startswith("scope=full&verdict=failed&open=2026")
    words = drawn.locator(".tested .word").all_inner_texts()
    assert sorted(words) == ["failing", "flaky", "passed on retry"]
    (flaky,) = (box for box in drawn.locator(".tested").all() if "flaky" in box.inner_text())
    flaky.locator("summary").click()
    assert "identical executions of one test with both outcomes" in flaky.inner_text()
    outcomes = flaky.locator("tbody tr").all_inner_texts()
    assert any("failed" in one for one in outcomes) and any("passed" in one for one in outcomes)
    assert "From run" in drawn.inner_text("#movers-note") and "takes longer" in drawn.inner_text("#movers")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_overlaps(chromium: Any, page: Path, tmp_path: Path, width: int) -> None:
    drawn = opened(chromium, page, "light", width)
    assert looks_right(drawn, tmp_path / "light.png") == []
    drawn.emulate_media(color_scheme="dark")
    assert looks_right(drawn, tmp_path / "dark.png") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_keys_paper_and_phone(chromium: Any, page: Path, scheme: str) -> None:
    drawn = opened(chromium, page, scheme)
    press = drawn.keyboard.press
    press("j")
    press("Enter")
    press("n")
    press("Enter")
    assert drawn.locator(".detail").count() == 2
    drawn.locator(".tested summary").first.press("Enter")
    assert drawn.locator("details[open]").count() == 1
    drawn.evaluate("scrollTo(0, 0)")  # a row half below the sticky head is a small target, on any page
    assert violations(drawn) == []
    press("?")
    assert drawn.locator("dialog[open]").count() == 1 and violations(drawn) == []
    press("Escape")
    press("/")
    drawn.keyboard.type("never there")
    assert drawn.locator("#none").is_visible()
    press("Escape")
    assert len(shown(drawn)) == 8
    drawn.set_viewport_size({"width": 380, "height": 800})
    assert drawn.evaluate("document.documentElement.scrollWidth <= innerWidth") and violations(drawn) == []
    assert drawn.pdf().startswith(b"%PDF-")
