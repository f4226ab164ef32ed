"""Two clean patches that together break a reference: told, set aside, or repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.commands import Ran, call
from tests.support.gates import page, source
from tests.support.jobs import job_file, outcomes, trace, unit
from tests.support.repos import Repo

MART = source("mart", measures="total net")
PAGE = page("Total is `mart.total`.\n\nNet is `mart.net`.\n", "sl_refs: [mart.total, mart]\n")["wiki/global/page.md"]


@pytest.fixture
def layer(repo: Repo) -> Repo:
    for name, text in MART.items():
        repo.write(name, text)
    repo.commit("a source")
    return repo


def run(repo: Repo, *args: str, **more: Any) -> Ran:
    (path,) = MART
    units = [
        unit("page", f"mkdir -p wiki/global && cat > wiki/global/page.md <<'END'\n{PAGE}END"),
        unit("rename", f"sed -i s/total/gross/ {path}"),
    ]
    return call("job-run", str(job_file(repo, {"units": units, **more})), "--job", "j1", *args, cwd=repo.path)


def receipt(repo: Repo, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repo.path / f".ktx/jobs/j1/units/{name}/receipt.json").read_text())
    return found


def test_the_second_is_set_aside_and_names_the_page_that_it_never_touched(layer: Repo) -> None:
    ran = run(layer)
    assert ran.status == 3, ran.err
    assert outcomes(layer) == {"page": "accepted", "rename": "semantic_conflict"}
    findings = receipt(layer, "0002-rename")["findings"]
    assert {(one["rule"], one["path"], one["line"]) for one in findings} == {("stale-entity", "wiki/global/page.md", 3)}
    assert layer.show("main", "wiki/global/page.md").decode() == PAGE


def test_on_conflict_prune_takes_out_what_dangles_and_lands_both(layer: Repo) -> None:
    ran = run(layer, "--on-conflict", "prune")
    assert ran.status == 0, ran.out + ran.err
    assert outcomes(layer) == {"page": "accepted", "rename": "accepted"}
    left = PAGE.replace("[mart.total, mart]", "[mart]").replace("Total is `mart.total`.", "Total is.")
    assert layer.show("main", "wiki/global/page.md").decode() == left
    assert (layer.path / "wiki/global/page.md").read_text() == left
    written = receipt(layer, "0002-rename")
    taken = [(one["kind"], one["artifact"], one["removedRef"]) for one in written["pruned"]]
    assert taken == [
        ("inline", "wiki/global/page.md", "mart.total"),
        ("sl_ref", "wiki/global/page.md", "mart.total"),
    ]
    assert sorted(entry["path"] for entry in written["paths"]) == ["semantic-layer/wh/mart.yaml", "wiki/global/page.md"]
    report = json.loads((layer.path / ".ktx/jobs/j1/report.json").read_text())
    assert report["prunedReferences"] == written["pruned"]
    (told,) = [event for event in trace(layer) if event["event"] == "patch_accepted" and "pruned" in event["data"]]
    assert told["data"]["pruned"] == written["pruned"]


def test_stored_patches_are_never_altered(layer: Repo) -> None:
    run(layer, onConflict="prune")
    patch = layer.path / ".ktx/ingest-patches/j1/0001-page.patch"
    assert "+Total is `mart.total`." in patch.read_text()
    assert "page.md" not in (layer.path / ".ktx/ingest-patches/j1/0002-rename.patch").read_text()


def test_what_cannot_be_pruned_is_set_aside(layer: Repo) -> None:
    (path,) = MART
    units = [unit("bad", f"sed -i 's/count(id)/count(nothing)/' {path}"), unit("good", "echo g > g.txt")]
    ran = call("job-run", str(job_file(layer, {"units": units, "onConflict": "prune"})), "--job", "j1", cwd=layer.path)
    assert ran.status == 3
    assert outcomes(layer) == {"bad": "semantic_conflict", "good": "accepted"}


def test_what_a_projection_breaks_ends_the_job_at_its_final_gates(layer: Repo) -> None:
    """Units start from a projection and are not charged with it; the target never has it."""
    (path,) = MART
    layer.write("wiki/global/page.md", PAGE)
    before = layer.commit("a page")
    ran = run(layer, project=f"sed -i s/total/gross/ {path}")
    assert ran.status == 3 and layer.git("rev-parse", "main") == before
    report = json.loads((layer.path / ".ktx/jobs/j1/report.json").read_text())
    assert report["failure"]["phase"] == "gates" and "wiki/global/page.md" in report["failure"]["message"]
    assert trace(layer)[-1]["data"]["phase"] == "gates"
    assert "final_artifact_gates_failed" in {event["event"] for event in trace(layer)}


def test_a_landing_that_replays_asks_the_gates_as_the_job_does(repo: Repo) -> None:
    """The repository's own gates say no to everything; the job file names others."""
    repo.write("ktx-gates.yaml", json.dumps({"gates": [{"gate": "command", "run": "false"}]}))
    repo.write("lax.yaml", json.dumps({"gates": [{"gate": "command", "run": "true"}]}))
    repo.commit("gates")
    move = f"git -C {repo.path} commit -q --allow-empty -m moved"
    path = job_file(repo, {"gates": {"config": "lax.yaml"}, "units": [unit("a", f"echo a > a; {move}")]})
    ran = call("job-run", path, "--job", "j1", cwd=repo.path)
    assert (ran.status, outcomes(repo)) == (1, {"a": "accepted"}), ran
    landed = call("job-land", "--job", "j1", "--rebase", cwd=repo.path)
    assert landed.status == 0, landed
    assert repo.show("main", "a") == b"a\n"


OLD = "def f():\n    try:\n        g()\n    except OSError:{}\n        pass\n"
NEW = "\n\ndef {}():\n    try:\n        g()\n    except OSError:{}\n        pass\n"
WAIVED = "  # gate-ok: it may be gone"


@pytest.mark.parametrize(
    ("old", "new", "lands"),
    [
        (OLD.format(WAIVED), "\n\nX = 1\n", True),  # what was waived there before stays so
        (OLD.format(""), "\n\nX = 1\n", True),  # what was there before is inherited
        (OLD.format(WAIVED), NEW.format("h", WAIVED), False),
        (OLD.format(""), NEW.format("h", WAIVED), False),
        (OLD.format(""), NEW.format("h", ""), False),  # of the same kind as an old one, and another one
        (OLD.format(""), NEW.format("f", ""), False),
        ("X = 1\n", NEW.format("h", WAIVED), False),
    ],
)
def test_a_unit_waives_nothing_of_its_own(repo: Repo, old: str, new: str, lands: bool) -> None:
    repo.write("ktx-gates.yaml", "gates:\n  - gate: swallow\n")
    repo.write("a.py", old)
    repo.commit("code")
    change = unit("a", f"cat >> a.py <<'END'\n{new}END")
    ran = call("job-run", job_file(repo, {"units": [change]}), "--job", "j1", cwd=repo.path)
    assert (ran.status, outcomes(repo)) == ((0, {"a": "accepted"}) if lands else (3, {"a": "semantic_conflict"})), ran
    if not lands:
        assert {one["rule"] for one in receipt(repo, "0001-a")["findings"]} == {"swallowed-exception"}
    else:
        repo.write("a.py", old + NEW.format("h", WAIVED))  # a person may, by hand
        repo.git("add", "a.py")
        assert call("gate-check", "--index", cwd=repo.path).status == 0


@pytest.mark.parametrize("made", ["", "mkdir -p knowledge/wiki/global; echo x > knowledge/wiki/global/x.txt; "])
def test_a_root_that_is_nowhere_lands_nothing(layer: Repo, made: str) -> None:
    """Nothing would be looked at: a broken reference landed with status 0. One that a unit makes is there."""
    layer.write("ktx-gates.yaml", "root: knowledge\n")
    start = layer.commit("a root that is not there")
    path = job_file(layer, {"units": [unit("u", f"{made}sed -i s/total/gross/ {next(iter(MART))}")]})
    ran = call("job-run", str(path), "--job", "j1", cwd=layer.path)
    assert ran.status == (0 if made else 2), ran.out + ran.err
    assert made or "the root knowledge is no directory of what is looked at" in ran.out + ran.err
    assert (layer.git("rev-parse", "main") == start) == (not made)
