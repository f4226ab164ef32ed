"""Ingestion jobs end to end: every phase that can fail, what is tried again, provenance, the cache, hostile workers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import sandbox
from tests.support.commands import Ran, call, script, spawn
from tests.support.repos import Repo

LEAD = """
import json, os, shutil, signal, subprocess, sys, time
from pathlib import Path
unit = json.loads(Path(os.environ["KTX_UNIT_FILE"]).read_bytes())
key, here = unit["unitKey"], Path(__file__).parent
with open(here / "ran", "a") as ran:
    ran.write(key + "\\n")
def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
def page(name, body):
    put(f"wiki/global/{name}.md", f"---\\nsummary: x\\n---\\n\\n{body}\\n")
def result(**said):
    Path(os.environ["KTX_RESULT"]).write_text(json.dumps({"schemaVersion": 1, **said}))
"""
SOURCE = """name: m
table: a.m
grain: [id]
columns: [{name: id, type: string}, {name: arr, type: number}]
joins: []
measures:
  - {name: MEASURE, expr: sum(arr)}
"""
CENTS, DOLLARS = SOURCE.replace("MEASURE", "total_cents"), SOURCE.replace("MEASURE", "total_dollars")
STALE = "page('segments', 'ARR is `m.total_cents`.')"


@dataclass(frozen=True)
class Place:
    """A repository, a staged bundle beside it, and a worker."""

    repo: Repo
    top: Path

    @property
    def bundle(self) -> Path:
        return self.top / "bundle"

    def card(self, number: int, **more: Any) -> None:
        made = {
            "metabaseId": number,
            "name": f"Card {number}",
            "collectionId": number,
            "resolvedSql": f"select {number}",
        }
        path = self.bundle / "cards" / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**made, **more}))

    def worker(self, body: str) -> list[str]:
        path = self.top / "worker.py"
        path.write_text(LEAD + body + "\n")
        return [sys.executable, str(path)]

    def ran(self) -> list[str]:
        """Units whose worker ran since the last time that this was asked."""
        path = self.top / "ran"
        found = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def run(self, *args: str, worker: list[str] | None = None) -> Ran:
        words = ["metabase", str(self.bundle), "--connection", "w", *args, "--json"]
        return call("ingest-run", *words, *(["--", *worker] if worker else []), cwd=self.repo.path)

    def has(self, path: str) -> bool:
        return bool(self.repo.git("ls-tree", "--name-only", "main", path))


@pytest.fixture
def place(repo: Repo, tmp_path: Path) -> Place:
    made = Place(repo, tmp_path)
    made.card(1)
    made.card(2)
    return made


def outcomes(ran: Ran) -> dict[str, str]:
    return {one["key"]: one["outcome"] for one in ran.document["workUnits"]}


def events(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(ran.document["tracePath"]).read_text().splitlines()]


GOOD = "page(key, 'About ' + key)"
# phase: (arguments, worker's body, preparation, status)
PHASES: dict[str, tuple[list[str], str, str, int]] = {
    "snapshot": ([], GOOD, "damaged", 2),
    "projection": ([], GOOD, "projection", 3),
    "units": ([], "sys.exit(3)", "", 3),
    "reconcile": (["--reconcile", "exit 7"], GOOD, "", 3),
    "gates": (["--reconcile", "touch {top}/late"], GOOD, "gate", 3),
    "provenance": (
        [],
        GOOD + "\nresult(actions=[{'path': f'wiki/global/{key}.md', 'rawPaths': ['cards/no.json']}])",
        "",
        1,
    ),
    "landing": ([], GOOD, "dirty", 1),
}


def prepared(place: Place, what: str) -> None:
    if what == "damaged":
        (place.bundle / "cards/2.json").write_text("{")
    elif what == "projection":  # a page refers to a source that this sync removes
        columns = [{"name": "n", "base_type": "type/Integer"}]
        place.card(3, type="model", name="Daily", resultMetadata=columns)
        assert place.run(worker=place.worker("")).status == 0
        place.repo.write("wiki/global/p.md", "---\nsummary: x\nsl_refs: [w/daily]\n---\n")
        place.repo.commit()
        (place.bundle / "cards/3.json").unlink()
    elif what == "gate":  # a gate that is content with each unit, and not with the whole
        run = f"test ! -e {place.top}/late || test ! -e wiki/global/card-1.md"
        place.repo.write("ktx-gates.yaml", json.dumps({"gates": [{"gate": "command", "name": "own", "run": run}]}))
        place.repo.commit()
    elif what == "dirty":
        place.repo.write("wiki/global/card-1.md", "mine\n")


def explained(repo: Repo, ran: Ran, phase: str, before: str) -> None:
    """The target did not move; report and trace say in which phase it ended, and why."""
    assert repo.git("rev-parse", "main") == before
    assert ran.document["failure"]["phase"] == phase and ran.document["failure"]["message"]
    assert ran.document["status"] == "failed" and ran.document["outcome"] == "error"
    last = events(ran)[-1]
    assert last["event"] == "ingest_failed" and last["level"] == "error"
    assert (last["data"]["phase"], last["data"]["message"]) == (phase, ran.document["failure"]["message"])
    report = repo.path / f".ktx/jobs/{ran.document['jobId']}/report.json"
    assert json.loads(report.read_bytes())["failure"] == ran.document["failure"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_failure_leaves_a_report_a_trace_and_the_target(place: Place, phase: str) -> None:
    args, body, preparation, status = PHASES[phase]
    prepared(place, preparation)
    before = place.repo.head
    ran = place.run(*(word.format(top=place.top) for word in args), worker=place.worker(body))
    assert ran.status == status, ran.out + ran.err
    explained(place.repo, ran, phase, before)


def test_a_branch_that_a_unit_moved_ends_the_job_in_integration(place: Place) -> None:
    """Nothing is integrated on what is not ours; the target stays, a person must look."""
    body = GOOD + "\nfull = f'refs/ktx/jobs/{unit[\"jobId\"]}/integration'\n"
    body += "subprocess.run(['git', 'update-ref', full, 'HEAD'], check=True)"
    before = place.repo.head
    ran = place.run(worker=place.worker(body))
    assert ran.status == 4
    explained(place.repo, ran, "integration", before)


CONNECTOR = """
from ktxkit.ingest.connectors.interface import Staged
from ktxkit.ingest.rules.planning import Proposal
from ktxkit.ingest.rules.projection import Projection
class Own:
    warnings = ()
    def detect(self, place): return "it is there"
    def stage(self, origin, sink):
        sink.put("a.txt", b"a")
        return Staged()
    def read(self, snapshot, setting): return self
    def in_scope(self, raw_path, before): return True
    def project(self): return Projection(errors=("it cannot be read",) if ERRORS else ())
    def plan(self): return [Proposal("unit", "unit", (RAW,))]
connector = Own()
"""


@pytest.mark.parametrize(
    ("raw", "errors", "phase"), [("a.txt", False, ""), ("b.txt", False, "plan"), ("a.txt", True, "projection")]
)
def test_a_connector_of_somebody_else(repo: Repo, tmp_path: Path, raw: str, errors: bool, phase: str) -> None:
    """Found by its entry point; what it plans or projects wrongly ends the job in that phase."""
    info = tmp_path / "lib" / "own-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ktxkit.connectors]\nown = own_connector:connector\n")
    text = CONNECTOR.replace("RAW", repr(raw)).replace("ERRORS", str(errors))
    (tmp_path / "lib" / "own_connector.py").write_text(text)
    command = "mkdir -p wiki/global; printf -- '---\\nsummary: x\\n---\\n' > wiki/global/a.md"
    words = ["own", str(tmp_path), "--connection", "w", "--json", "--", "sh", "-c", command]
    before = repo.head
    ran = spawn("ingest-run", *words, cwd=repo.path, env={"PYTHONPATH": str(tmp_path / "lib")})
    if phase:
        assert ran.status in (2, 3)
        explained(repo, ran, phase, before)
    else:
        assert ran.status == 0 and repo.git("ls-tree", "--name-only", "main", "wiki/global/a.md")


@pytest.mark.parametrize("first", ["card-1", "card-2"])
@pytest.mark.parametrize("known", [False, True])
def test_cards_that_disagree_about_a_measure_are_caught_in_either_order(place: Place, first: str, known: bool) -> None:
    if known:
        place.repo.write("semantic-layer/w/m.yaml", CENTS)
        place.repo.commit()
    own = f"put('semantic-layer/w/m.yaml', {CENTS!r})" if not known else "pass"
    body = f"if key == {first!r}:\n    {STALE}\n    {own}\nelse:\n    put('semantic-layer/w/m.yaml', {DOLLARS!r})"
    ran = place.run(worker=place.worker(body))
    assert ran.status == 3 and ran.json["outcome"] == "partial"
    assert sorted(word for key, word in outcomes(ran).items() if key != "reconcile") == [
        "accepted", "semantic_conflict" if known else "textual_conflict",
    ]  # fmt: skip
    assert call("gate-check", "--all", cwd=place.repo.path).status == 0


def test_a_page_from_before_the_job_cannot_be_made_stale(place: Place) -> None:
    place.repo.write("semantic-layer/w/m.yaml", CENTS)
    place.repo.write("wiki/global/segments.md", "---\nsummary: x\n---\n\nARR is `m.total_cents`.\n")
    before = place.repo.commit()
    ran = place.run(worker=place.worker(f"put('semantic-layer/w/m.yaml', {DOLLARS!r})"))
    assert ran.status == 3 and place.repo.git("rev-parse", "main") == before
    assert outcomes(ran)["card-1"] == "semantic_conflict"
    assert "total_cents" in ran.document["workUnits"][0]["reason"]


def test_provenance_names_the_row_and_leaves_nothing_behind(place: Place) -> None:
    body = GOOD + "\nresult(actions=[{'path': 'wiki/global/none.md', 'rawPaths': ['cards/1.json']}])"
    ran = place.run(worker=place.worker(body))
    assert ran.status == 1 and "wiki/global/none.md" in ran.document["failure"]["message"]
    answer = call("ledger-query", "provenance", "cards/1.json", "--json", cwd=place.repo.path)
    assert answer.document["rows"] == []


def test_provenance_is_answered_in_both_directions(place: Place) -> None:
    body = "page('both', 'x ' + key) if key == 'card-1' else None\nresult(actions=[{'path': 'wiki/global/both.md', "
    body += "'rawPaths': ['cards/1.json']}] if key == 'card-1' else [])"
    assert place.run(worker=place.worker(body)).status == 0
    (place.repo.path / ".ktx/jobs/begun").mkdir()  # what a start that was killed left
    assert call("ledger-query", "jobs", cwd=place.repo.path).status == 0

    def asked(what: str) -> list[tuple[str, str | None, str]]:
        answer = call("ledger-query", "provenance", what, "--json", cwd=place.repo.path)
        return [(row["rawPath"], row.get("artifact"), row["action"]) for row in answer.document["rows"]]

    assert asked("cards/1.json") == asked("both") == [("cards/1.json", "both", "wiki_written")]
    assert asked("wiki/global/both.md") == asked("both")
    assert asked("cards/2.json") == [("cards/2.json", None, "skipped")]


def test_what_failed_is_tried_again_and_its_report_superseded(place: Place) -> None:
    body = "if key == 'card-2' and not (here / 'go').exists():\n    sys.exit(4)\n" + GOOD
    worker = place.worker(body)
    first = place.run(worker=worker)
    assert first.status == 3 and first.json["outcome"] == "partial" and place.has("wiki/global/card-1.md")
    place.ran()
    (place.top / "go").touch()
    second = place.run(worker=worker)
    assert second.status == 0 and place.ran() == ["card-2"]
    assert second.document["overrideOf"] == first.document["jobId"]
    old = call("job-report", "--json", "--job", first.document["jobId"], cwd=place.repo.path)
    assert old.document["supersededBy"] == second.document["jobId"] and old.document["outcome"] == "partial"
    assert place.run(worker=worker).json["outcome"] == "noop" and place.ran() == []


def test_a_damaged_account_fails_its_unit_only_and_unfinished_work_is_not_done(place: Place) -> None:
    body = (
        GOOD
        + "\nPath(os.environ['KTX_RESULT']).write_text('{') if key == 'card-1' else result(unfinished=['cards/2.json'])"
    )
    ran = place.run(worker=place.worker(body))
    assert ran.json["outcome"] == "partial" and outcomes(ran) == {
        "card-1": "failed",
        "card-2": "accepted",
        "reconcile": "noop",
    }
    place.ran()
    assert place.run(worker=place.worker(GOOD)).status == 0
    assert sorted(place.ran()) == ["card-1", "card-2"]


def test_work_is_replayed_from_the_cache_and_recomputed_once_where_it_no_longer_fits(place: Place) -> None:
    worker = place.worker(GOOD)
    assert place.run("--reconcile", "exit 1", worker=worker).status == 3
    assert sorted(place.ran()) == ["card-1", "card-2"]
    place.repo.write("wiki/global/card-2.md", "---\nsummary: by hand\n---\n")
    place.repo.commit()
    ran = place.run("--reconcile", "true", worker=worker)
    assert place.ran() == ["card-2"] and outcomes(ran)["card-1"] == "accepted"
    assert "work_unit_cache_patch_materialized" in {one["event"] for one in events(ran)}
    place.card(1, name="Other")
    assert place.run(worker=worker).status == 0 and place.ran() == ["card-1"]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "in the checkout"])
def test_a_worker_that_was_edited_is_another_one(place: Place, committed: bool) -> None:
    """Its work is not taken from the cache, wherever it lies; before it is committed it is run from the checkout."""

    def agent(text: str) -> None:
        page = f"---\\nsummary: x\\n---\\n\\n{text}\\n"
        script = f"#!/bin/sh\nmkdir -p wiki/global && printf -- '{page}' > wiki/global/$KTX_UNIT.md\n"
        place.repo.write("agent.sh", script)
        (place.repo.path / "agent.sh").chmod(0o755)
        if committed:
            place.repo.commit(text)

    for text in ("one", "two"):
        agent(text)
        ran = place.run("--everything", "--reconcile", "true", worker=["./agent.sh"])
        assert ran.status == 0, ran
        assert place.repo.show("main", "wiki/global/card-1.md").endswith(f"\n{text}\n".encode())
    first = spawn(
        "ingest-run", "metabase", str(place.bundle), "--connection", "w", "--", "./agent.sh", cwd=place.repo.path
    )
    note = "note: not committed, so run from your checkout: ./agent.sh"
    assert "nothing to do (--everything runs every unit)" in first.err and (note in first.err) is not committed


def test_what_failed_says_the_command_that_takes_it_up(place: Place) -> None:
    body = "if key == 'card-2' and not (here / 'go').exists():\n    sys.exit(4)\n" + GOOD
    worker = place.worker(body)
    partial = place.run(worker=worker)
    line = shlex.join(["ingest-run", "metabase", str(place.bundle), "--connection", "w", "--", *worker])
    assert partial.document["next"] == line
    nothing = place.run("--everything", worker=place.worker("sys.exit(4)"))
    assert nothing.status == 3 and nothing.document["next"] == line
    place.worker(body)
    verified = place.run("--everything", "--verify", "true", worker=worker)
    assert verified.document["next"] == "the same ingest-run again: what did not land is taken up"
    (place.top / "go").touch()
    taken = spawn(*shlex.split(line), cwd=place.repo.path)
    assert taken.status == 0 and "next: git show" in taken.out, taken


def test_a_replayed_unit_that_the_gates_refuse_is_recomputed_once(place: Place) -> None:
    place.repo.write("semantic-layer/w/m.yaml", CENTS)
    place.repo.commit()
    body = f"{STALE} if key == 'card-1' and not (here / 'go').exists() else page(key, 'x')"
    worker = place.worker(body)
    assert place.run("--reconcile", "exit 1", worker=worker).status == 3
    place.ran()
    (place.top / "go").touch()
    place.repo.write("semantic-layer/w/m.yaml", DOLLARS)
    place.repo.commit()
    ran = place.run(worker=worker)
    assert ran.status == 0 and place.ran() == ["card-1"] and outcomes(ran)["card-1"] == "accepted"
    assert [one["event"] for one in events(ran)].count("work_unit_cache_stale_recompute") == 1


def test_what_only_deleted_raw_files_led_to_goes_unless_somebody_edited_it(place: Place) -> None:
    place.card(3)
    assert place.run().status == 0
    place.repo.write("wiki/global/card-2.md", place.repo.show("main", "wiki/global/card-2.md") + b"\nBy hand.\n")
    place.repo.commit()
    for number in (1, 2):
        (place.bundle / f"cards/{number}.json").unlink()
    ran = place.run()
    assert ran.status == 0 and ran.document["evictionsApplied"] == ["wiki/global/card-1.md"]
    assert ran.document["evictionsKept"] == ["wiki/global/card-2.md"]
    why = {one["key"]: one.get("why") for one in ran.document["workUnits"]}["evictions"]
    assert why == ["cards/1.json deleted", "cards/2.json deleted"]
    assert not place.has("wiki/global/card-1.md") and place.has("wiki/global/card-2.md")
    assert place.run().json["outcome"] == "noop"
    (place.bundle / "cards/3.json").unlink()
    assert place.run().status == 2, "a directory without cards is no source"
    assert place.run("--allow-empty").status == 0 and not place.has("wiki/global/card-3.md")


def test_what_landed_elsewhere_or_was_taken_back_has_not_landed(place: Place) -> None:
    git = place.repo.git
    git("branch", "other")
    place.repo.write(".ktx-config.yaml", "ingest:\n  keepSnapshots: 1\n")
    before = place.repo.commit()
    assert place.run().status == 0
    ran = place.run("--target", "other")
    assert ran.status == 0 and ran.document["diffSummary"]["added"] == 2, ran.out
    assert git("ls-tree", "--name-only", "other", "wiki/global/card-1.md")
    place.card(1, resolvedSql="select 100")
    assert place.run().document["diffSummary"]["modified"] == 1
    assert place.run("--job", "nothing").json["outcome"] == "noop", "the snapshot of the other card is gone"
    again = call("ingest-run", "--resume", "nothing", cwd=place.repo.path)
    assert again.status == 1 and "nothing was to land" in again.err
    git("reset", "-q", "--hard", before)
    ran = place.run()
    assert ran.status == 0 and ran.document["diffSummary"]["added"] == 2 and place.has("wiki/global/card-1.md")


def test_duplicates_are_subsumed_and_near_ones_listed(place: Place) -> None:
    place.card(3)
    text = "The very same words of a page that two units made, long enough to be compared with others"
    body = f"page(key, {text!r} + (' and a little more' if key == 'card-3' else ''))"
    ran = place.run(worker=place.worker(body))
    assert ran.status == 0 and ran.document["reconciliation"]["outcome"] == "accepted"
    assert place.has("wiki/global/card-1.md") and not place.has("wiki/global/card-2.md")
    assert [(one["path"], one["into"]) for one in ran.document["artifactResolutions"]] == [
        ("wiki/global/card-2.md", "wiki/global/card-1.md")
    ]
    assert [one["path"] for one in ran.document["nearDuplicates"]] == ["wiki/global/card-3.md"]
    answer = call("ledger-query", "provenance", "cards/2.json", "--json", cwd=place.repo.path)
    assert [(row["artifact"], row["action"]) for row in answer.document["rows"]] == [("card-1", "subsumed")]


def killed_when(place: Place, words: list[str], reached: Callable[[], bool]) -> None:
    """An ingestion that is killed as soon as something is on the disk."""
    running = subprocess.Popen([script("ingest-run"), *words], cwd=place.repo.path, stderr=subprocess.DEVNULL)
    while not reached():
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.communicate()


def test_a_killed_ingestion_resumes_with_every_collected_patch(place: Place) -> None:
    """What its report says of the source is what it would have said without the kill."""
    place.repo.write(".ktx-config.yaml", "ingest:\n  keepSnapshots: 1\n")
    place.repo.commit()
    place.card(7)
    assert place.run().status == 0
    page = place.repo.show("main", "wiki/global/card-2.md")
    place.repo.write("wiki/global/card-2.md", page + b"\nBy hand.\n")
    place.repo.commit()
    for number in (2, 7):
        (place.bundle / f"cards/{number}.json").unlink()
    for number in range(3, 7):
        place.card(number)
    body = "while key == 'card-5' and not (here / 'go').exists():\n    time.sleep(0.05)\n" + GOOD
    worker = place.worker(body)
    job = place.repo.path / ".ktx/jobs/j"

    def reached() -> bool:
        """The fifth card's worker is at work, and all before it are in."""
        receipts = len(list(job.glob("units/*/receipt.json")))
        return receipts == 3 and (place.top / "ran").exists() and "card-5" in (place.top / "ran").read_text()

    words = ["metabase", str(place.bundle), "--connection", "w", "--job", "j", "--max-parallel", "1", "--", *worker]
    killed_when(place, words, reached)
    place.ran()
    (place.top / "go").touch()
    assert spawn("job-run", "--resume", "j", cwd=place.repo.path).status == 1
    ran = spawn("ingest-run", "--resume", "j", "--json", cwd=place.repo.path)
    assert ran.status == 0 and sorted(place.ran()) == ["card-5", "card-6"]
    assert set(outcomes(ran).values()) <= {"accepted", "noop"}
    assert len(ran.document["snapshotsRemoved"]) == 1
    assert ran.document["evictionsApplied"] == ["wiki/global/card-7.md"]
    assert ran.document["evictionsKept"] == ["wiki/global/card-2.md"]
    assert spawn("ingest-run", "--resume", "j", cwd=place.repo.path).status == 1


HOSTILE = """
if key == 'card-1':
    subprocess.Popen(['setsid', 'sleep', '600'], stdin=-3, stdout=-3, stderr=-3)
elif key == 'card-2':
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
elif key == 'card-3':
    shutil.rmtree(os.getcwd())
    sys.exit()
elif key == 'card-4':
    Path(os.environ['KTX_RAW_ROOT'], 'cards/1.json').write_text('changed')
elif key == 'card-5':
    subprocess.run(['git', 'config', 'core.hooksPath', str(here)], check=True)
    subprocess.run(['git', 'config', 'core.bare', 'true'], check=True)
    time.sleep(0.3)
elif key == 'card-6':
    store = Path(os.environ['KTX_DIR'])
    put(store / 'jobs/stray.txt', 'x')
    put(store / f'jobs/{unit["jobId"]}/stray.json', '{}')
    put(store / f'worktrees/{unit["jobId"]}/0007-card-7/wiki/global/card-7.md', 'planted')
    put(store.parent / 'wiki/global/mine.md', 'x')
elif key == 'card-8':
    print('loud' * 5_000_000)
page(key, 'About ' + key)
"""


def test_hostile_workers_are_contained_and_named(place: Place) -> None:
    for number in range(3, 9):
        place.card(number)
    before = (place.repo.path / ".git/config").read_bytes()
    ran = place.run("--time-limit", "10", "--max-parallel", "2", worker=place.worker(HOSTILE))
    assert outcomes(ran) == {
        "card-1": "accepted", "card-2": "failed", "card-3": "failed", "card-4": "accepted", "card-5": "accepted",
        "card-6": "accepted", "card-7": "blocked", "card-8": "accepted", "reconcile": "noop",
    }  # fmt: skip
    units = {one["key"]: one for one in ran.document["workUnits"]}
    assert any("sleep 600" in stray for stray in units["card-1"]["strays"])
    assert "cards/1.json was changed while units ran" in ran.document["warnings"][-1]
    assert "changed" not in place.repo.git("grep", "-h", "select", "main", "--", "raw-sources")
    assert (place.repo.path / ".git/config").read_bytes() == before
    assert "config config: core.hookspath" in [one["what"] for one in units["card-5"]["touched"] if one["putBack"]]
    assert "checkout wiki/global/mine.md" in {one["what"] for one in units["card-6"]["touched"]}
    job = ran.document["jobId"]
    for path in ("jobs/stray.txt", f"jobs/{job}/stray.json"):
        assert any(path in one for one in ran.document["warnings"]), path
    assert units["card-7"]["reason"] and not place.has("wiki/global/card-7.md")
    assert units["card-8"]["stdoutBytes"] == 20_000_001 and units["card-8"]["stdoutCut"]


def test_two_ingestions_of_a_source_at_once_take_turns(place: Place) -> None:
    worker = place.worker("while not (here / 'go').exists():\n    time.sleep(0.05)\n" + GOOD)
    words = ["metabase", str(place.bundle), "--connection", "w", "--", *worker]
    running = subprocess.Popen([script("ingest-run"), *words], cwd=place.repo.path, stderr=subprocess.DEVNULL)
    try:
        while not (place.top / "ran").exists():
            assert running.poll() is None
        refused = place.run("--wait", "0")
        assert refused.status == 1 and "another process" in refused.json["error"]["message"]
    finally:
        (place.top / "go").touch()
        running.wait()
    assert running.returncode == 0


def test_an_unborn_branch_and_what_projected_files_others_edited(tmp_path: Path) -> None:
    place = Place(Repo.init(tmp_path / "new"), tmp_path)
    columns = [{"name": "n", "base_type": "type/Integer"}]
    place.card(1, type="model", name="Daily", resultMetadata=columns)
    assert place.run().status == 0
    source = "semantic-layer/w/daily.yaml"
    place.repo.write(source, place.repo.show("main", source) + b"measures:\n  - {name: total, expr: sum(n)}\n")
    place.repo.commit()
    place.card(1, type="model", name="Daily", resultMetadata=[*columns, {"name": "m", "base_type": "type/Text"}])
    ran = place.run()
    assert ran.status == 0 and ran.document["projectionResult"]["kept"] == [source]
    assert b"total" in place.repo.show("main", source)


def test_a_page_that_a_person_edited_is_merged_with_what_its_card_says_now(place: Place) -> None:
    page = "wiki/global/card-1.md"

    def edited(old: str, new: str) -> None:
        text = place.repo.show("main", page).decode()
        assert old in text
        place.repo.write(page, text.replace(old, new))
        place.repo.commit("by hand")

    place.card(1, description="What it is.")
    assert place.run().status == 0
    edited("# Card 1\n", "# The first card\n")
    for sql in ("select 10", "select 11"):
        place.card(1, description="What it is.", resolvedSql=sql)
        ran = place.run()
        assert ran.status == 0 and ran.document["workUnits"][0]["outcome"] == "accepted", ran.out
        text = place.repo.show("main", page).decode()
        assert sql in text and "# The first card" in text
        assert any(f"{page} was edited" in one for one in ran.document["warnings"])
    edited("select 11", "select 12 -- by hand")
    before = place.repo.head
    place.card(1, description="What it is.", resolvedSql="select 13")
    ran = place.run()
    assert ran.status == 3 and outcomes(ran)["card-1"] == "textual_conflict"
    assert ran.document["workUnits"][0]["conflicts"][0]["path"] == page
    assert b"select 12 -- by hand" in place.repo.show("main", page)
    assert place.repo.git("diff", "--name-only", before, "main", "--", "wiki") == ""


def test_snapshots_are_kept_as_many_as_the_configuration_says(place: Place) -> None:
    """Provenance of what is gone is answered all the same, also by digest, and what is deleted is still known."""
    place.repo.write(".ktx-config.yaml", "ingest:\n  keepSnapshots: 1\n")
    place.repo.write("raw-sources/w/metabase/by-hand/x", "x")
    place.repo.commit()
    removed = []
    for number in range(2):
        place.card(1, resolvedSql=f"select {100 + number}")
        ran = place.run()
        assert ran.status == 0
        removed.append(len(ran.document.get("snapshotsRemoved", ())))
    assert removed == [0, 1]
    kept = place.repo.git("ls-tree", "--name-only", "main", "raw-sources/w/metabase/").split()
    assert len(kept) == 2 and kept[-1].endswith("by-hand"), "one, and what is no snapshot"
    assert place.repo.git("status", "--porcelain") == ""
    assert call("gate-check", "--all", cwd=place.repo.path).status == 0
    rows = call("ledger-query", "provenance", "cards/1.json", "--json", cwd=place.repo.path).document["rows"]
    assert len({row["sync"] for row in rows}) == 2
    journal = next(place.repo.path.glob(".ktx/provenance/*/rows.jsonl")).read_text().splitlines()
    first = json.loads(journal[0])
    asked = call("ledger-query", "provenance", first["rawContentHash"], "--json", cwd=place.repo.path).document["rows"]
    assert [(row["rawPath"], row["sync"], row["how"]) for row in asked] == [("cards/1.json", first["syncId"], "digest")]
    (place.bundle / "cards/2.json").unlink()
    ran = place.run()
    assert ran.status == 0 and not place.has("wiki/global/card-2.md"), "it was last changed in a snapshot that is gone"


def test_what_dangles_is_pruned_where_that_is_wanted(place: Place) -> None:
    place.repo.write("semantic-layer/w/m.yaml", CENTS)
    place.repo.write("wiki/global/segments.md", "---\nsummary: x\nsl_refs: [w/m.total_cents]\n---\n\nText.\n")
    place.repo.commit()
    body = f"put('semantic-layer/w/m.yaml', {DOLLARS!r}) if key == 'card-1' else None"
    ran = place.run("--on-conflict", "prune", worker=place.worker(body))
    assert ran.status == 0, ran.out + ran.err
    assert [one["removedRef"] for one in ran.document["prunedReferences"]] == ["w/m.total_cents"]
    assert b"total_cents" not in place.repo.show("main", "wiki/global/segments.md")


def test_a_model_that_is_renamed_takes_its_page_with_it(place: Place) -> None:
    """Its source has another name then; the pages that name it are made anew in the same job."""
    model = {"type": "model", "resultMetadata": [{"name": "n", "base_type": "type/Integer"}]}
    place.card(1, **{**model, "name": "Daily"})
    place.card(2, referencedCardIds=[1])
    assert place.run().status == 0
    place.card(1, **{**model, "name": "Hourly"})
    ran = place.run()
    assert ran.status == 0, ran.out + ran.err
    assert set(outcomes(ran).values()) <= {"accepted", "noop"} and place.has("semantic-layer/w/hourly.yaml")
    pages = place.repo.git("grep", "-h", "w/", "main", "--", "wiki")
    assert "w/hourly" in pages and "w/daily" not in pages and not place.has("semantic-layer/w/daily.yaml")
    body = "page(key, 'x')"  # a worker that names a source that goes: nothing lands
    place.card(1, **{**model, "name": "Weekly"})
    before = place.repo.head
    ran = place.run(worker=place.worker(body.replace("page", "pass; #")))
    assert ran.status == 3
    explained(place.repo, ran, "gates", before)
    assert "hourly" in ran.document["failure"]["message"]


def test_what_a_sync_does_not_look_at_stays_as_it_is(place: Place) -> None:
    """Neither deleted nor projected away: its source, the pages that name it, and the names of others."""
    model = {"type": "model", "resultMetadata": [{"name": "n", "base_type": "type/Integer"}]}
    place.card(1, **{**model, "name": "Daily"})
    place.card(2, referencedCardIds=[1])
    assert place.run().status == 0
    config = {"syncMode": "ONLY", "selections": [{"selectionType": "collection", "metabaseObjectId": 2}]}
    (place.bundle / "sync-config.json").write_text(json.dumps(config))
    card = place.bundle / "cards/1.json"
    kept = card.read_bytes()
    card.unlink()
    place.card(2, referencedCardIds=[1], resolvedSql="select 22")
    before = place.repo.git("ls-tree", "-r", "main", "--", "semantic-layer", "wiki/global/daily-card-1.md")
    ran = place.run()
    assert ran.status == 0, ran.out + ran.err
    assert [one["key"] for one in ran.document["workUnits"]] == ["card-2", "reconcile"]
    assert place.repo.git("ls-tree", "-r", "main", "--", "semantic-layer", "wiki/global/daily-card-1.md") == before
    page = place.repo.show("main", "wiki/global/card-2.md")
    assert b"w/daily" in page and b"select 22" in page
    assert ran.document["diffSummary"] == {"added": 1, "modified": 1, "deleted": 0, "unchanged": 1}
    assert place.run().json["outcome"] == "noop"
    card.write_bytes(kept)
    assert place.run().json["outcome"] == "noop", "in scope again, and what it was"


def ktx(place: Place, *args: str) -> str:
    return call("git-ktx", *args, cwd=place.repo.path).out


def test_a_job_that_ended_in_its_snapshot_is_shown_as_ended_and_can_be_cleared(place: Place) -> None:
    (place.bundle / "cards/2.json").write_text("{")
    assert place.run("--job", "bad").status == 2
    told = ktx(place, "status")
    assert told.startswith("No job is open.\n1 job ended without landing:\n  bad  failed in snapshot, 0 of 0")
    assert "next: ingest-run --resume bad, or start anew; git ktx clean --yes clears it" in told
    assert "records  bad: it ended in snapshot: no unit of it ran" in ktx(place, "clean")
    ktx(place, "clean", "--yes")
    assert "ended without" not in ktx(place, "status") and not (place.repo.path / ".ktx/jobs/bad").exists()
    assert place.run("--job", "bad").status == 2
    place.card(2)
    assert place.run("--job", "good").document["overrideOf"] == "bad"
    assert "ended without" not in ktx(place, "status"), "a later one took it up"
    assert not (place.repo.path / ".ktx/jobs/bad/raw").exists()
    ran = call("ingest-run", "--resume", "bad", cwd=place.repo.path)
    assert ran.status == 1 and "job good took up what bad left" in ran.err
    old = next((place.repo.path / ".ktx/ingest-cache").glob("*/*.json"))
    os.utime(old, (0, 0))
    assert "cache  ingest-cache: results of units from more than 30 days ago" in ktx(place, "clean", "--yes")
    assert not old.exists() and list((place.repo.path / ".ktx/ingest-cache").glob("*/*.json"))


def test_an_interrupted_ingestion_keeps_its_worktrees_until_it_is_taken_up(place: Place) -> None:
    worker = place.worker("while not (here / 'go').exists():\n    time.sleep(0.05)\n" + GOOD)
    words = ["metabase", str(place.bundle), "--connection", "w", "--job", "one", "--", *worker]
    running = subprocess.Popen([script("ingest-run"), *words], cwd=place.repo.path, stderr=subprocess.DEVNULL)
    while not (place.top / "ran").exists():
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    told = ktx(place, "status")
    assert "  one  aborted in units" in told and "next: ingest-run --resume one\n" in told and "left over" not in told
    assert "worktree" not in ktx(place, "clean")
    (place.top / "go").touch()
    assert place.run("--job", "two", worker=worker).status == 0
    assert "ended without" not in ktx(place, "status")
    ktx(place, "clean", "--yes")
    assert not list((place.repo.path / ".ktx/worktrees/one").glob("*"))


@pytest.mark.skipif(sandbox.landlock_version() < sandbox.LEAST, reason="this kernel has no Landlock")
def test_units_of_an_ingestion_can_be_isolated(place: Place) -> None:
    """The built-in workers need nothing more; a worker of one's own may write its account, and is stopped elsewhere."""
    assert place.run("--isolate").status == 0
    place.card(3)
    body = "page('one', 'x')\nresult(actions=[{'path': 'wiki/global/one.md', 'rawPaths': ['cards/3.json']}])\n"
    stopped = "try:\n    (here / 'elsewhere').touch()\nexcept PermissionError:\n    page('two', 'y')\n"
    worker = place.worker(body + stopped)
    (place.top / "ran").touch()
    ran = place.run("--write", str(place.top / "ran"), worker=worker)
    assert ran.status == 0 and place.has("wiki/global/one.md") and place.has("wiki/global/two.md"), ran.out
    assert not (place.top / "elsewhere").exists()


@pytest.mark.parametrize("url", ["http://me:hidden@127.0.0.1:9", "http://127.0.0.1:9/?key=hidden", "http://h/#hidden"])
def test_an_address_that_could_hold_a_secret_is_refused_and_kept_nowhere(place: Place, url: str) -> None:
    ran = call("ingest-run", "metabase", "--url", url, "--connection", "w", cwd=place.repo.path)
    assert ran.status == 2 and "a password, a query or a fragment" in ran.err and "hidden" not in ran.err + ran.out
    assert not (place.repo.path / ".ktx/jobs").exists()
