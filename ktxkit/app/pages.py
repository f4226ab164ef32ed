"""The report of a job as one page, with the evidence that a reader wants next to it: patches, output, conflict sides.

Evidence shares a budget, so that a job of any size makes a page that opens.

The ledger of test runs as one page: runs over time, what took longest, what changed, which words tests have earned.

The page holds answers as `ledger-query` gives them, so that it can say nothing that a question would not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ktxkit import __version__
from ktxkit.app.rules.report_text import head, page, tail
from ktxkit.base import files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.text import path_bytes
from ktxkit.ledger import answers
from ktxkit.ledger.answers import load
from ktxkit.ledger.asking import FULL, LAST, LedgerQuery, ensure, pick, record_of, running
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.rules import evidence
from ktxkit.ledger.rules.evidence import judge
from ktxkit.ledger.rules.rows import answer, not_comparable
from ktxkit.observer import status
from ktxkit.observer.attempt import ObserverAttempt
from ktxkit.observer.rules.status import clock_facts
from ktxkit.store.leases import LeaseLocation
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, Report, ReportWorkUnit


BUDGET = 12_000_000  # characters of evidence in one page
PATCH_LIMIT = 200_000  # characters of one patch
OUTPUT_LIMIT = 20_000  # characters of one stream
SIDE_LIMIT = 20_000  # characters of one side of a conflict
CONFLICTS_SHOWN = 200  # conflicting paths of one page whose sides are shown; the rest is named
BINARY = "(binary)"
Held = Literal["base", "integratedOn", "patchCommit"]
SIDES: dict[str, Held] = {"base": "base", "ours": "integratedOn", "theirs": "patchCommit"}  # and the commit of each


def render_report(world: World, report: Report) -> bytes:
    """The page. Evidence that is not there any more is left out."""
    share = BUDGET // max(1, len(report["workUnits"]))
    evidence = {}
    left = CONFLICTS_SHOWN
    for unit in report["workUnits"]:
        found = _evidence(world, unit, share, left) | _observer(world, report["jobId"], unit)
        left -= min(left, len(found.get("conflicts", ())))
        if found:
            evidence[str(unit["position"])] = found
    title = f"{report['jobId']}: {report.get('outcome', report['status'])}"
    data = {"version": __version__, "report": report, "evidence": evidence}
    return page(asset("report.html"), asset("report.css"), asset("common.js") + asset("report.js"), title, data)


def deliver(world: World, page: bytes, destination: str) -> tuple[bytes | None, list[str]]:
    """The page for stdout (`-`), or what to say of the file that it was written to."""
    if destination == "-":
        return page, []
    path = files.write_named(world.cwd, destination, page)
    return None, [f"wrote {path} ({_size(len(page))})"]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{-(-count // 1000)} kB"


def asset(name: str) -> str:
    """A text that the pages are made of."""
    return resources.files("ktxkit.app").joinpath("assets", name).read_text("utf-8")


def _evidence(world: World, unit: ReportWorkUnit, share: int, conflicts_left: int) -> Document:
    found: Document = {}
    found |= _text("stdout", unit.get("stdoutPath"), min(OUTPUT_LIMIT, share // 3), tail)
    found |= _text("stderr", unit.get("stderrPath"), min(OUTPUT_LIMIT, share // 3), tail)
    found |= _text("patch", unit.get("patchPath"), min(PATCH_LIMIT, share // 3), head)
    log = unit.get("verification", {}).get("log")
    found |= _text("verification", log, min(OUTPUT_LIMIT, share // 3), tail)
    conflicts = unit.get("conflicts", ())
    if conflicts and conflicts_left:
        found["conflicts"] = [
            {**conflict, **(_sides(world, unit, conflict) if number < conflicts_left else {})}
            for number, conflict in enumerate(conflicts)
        ]
    return found


def _observer(world: World, job: str, unit: ReportWorkUnit) -> Document:
    """The two clocks of a unit that was observed. What cannot be read of them is named, it is no reason for no page."""
    place = LeaseLocation(
        world, names.unit_dir(job, unit["position"], unit["key"]), job, names.ref_part(unit["position"], unit["key"])
    )
    try:
        lease = place.lease()
        if lease is None or not world.store.exists(names.observer_journal(lease)):
            return {}
        return {"observer": clock_facts(status.clocks(ObserverAttempt.of(place, lease)))}
    except BrokenContract as error:
        return {"observer": {"problem": f"{error.location}: {error.message}"}}


def _text(name: str, path: str | None, limit: int, cut: Callable[[str, int], tuple[str, bool]]) -> Document:
    if path is None:
        return {}
    try:
        data = files.read_part(Path(path), 4 * limit, from_end=cut is tail)
    except OSError:
        return {}  # evidence that was cleaned away; the report still names where it was
    whole = data.total <= len(data.content)
    text, short = cut(data.content.decode("utf-8", "replace"), limit)
    return {name: text, **({f"{name}Cut": True} if short or not whole else {})} if text.strip() else {}


def _sides(world: World, unit: ReportWorkUnit, conflict: Mapping[str, Any]) -> dict[str, str]:
    """What base, integration branch and unit hold at a conflicting path, where git still has them."""
    sides = {}
    path = path_bytes(conflict)
    for name, key in SIDES.items():
        if key in unit:
            revision = unit[key].encode("ascii") + b":" + path
            answer = world.git.at(world.repository.directory).run(
                "cat-file", "blob", revision, ok=(0, 128), twice=(128,)
            )
            if answer.status == 0:
                text = BINARY if b"\0" in answer.out[:8000] else answer.out.decode("utf-8", "replace")
                sides[name] = head(text, SIDE_LIMIT)[0]
    return sides


RUNS_SHOWN = 500
TESTS_SHOWN = 50  # that took longest, or changed most
WORDS_SHOWN = 200  # tests with a word, with their executions
FAILURES_SHOWN = 20  # of one run
MESSAGE_SHOWN = 2000  # characters
TRIED = 50  # earlier runs that are tried for one that is comparable


def summary(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The runs, newest first, with counts over them: what the page's head says."""
    found = answers.runs(world, ask)
    rows = found["rows"]
    words = answers.flaky(world, ask)["facts"]["tests"]
    verdicts = Counter(row["verdict"] for row in rows if "verdict" in row)
    facts = {
        **found["facts"],
        "full": sum(row.get("scope") == "full" for row in rows),
        "authoritative": sum(bool(row.get("authoritative")) for row in rows),
        "verdicts": dict(sorted(verdicts.items())) or None,
        "words": words,
        "running": running(ensure(world), ask) or None,
    }
    return answer("report", rows, project=ask.project, facts=facts)


def render_ledger(world: World, ask: LedgerQuery) -> bytes:
    """The page. Raises BrokenContract where the ledger is damaged, as every question does."""
    index = ensure(world)
    flaky = answers.flaky(world, ask)
    flaky["rows"] = flaky["rows"][:WORDS_SHOWN]
    report = summary(world, ask._replace(limit=ask.limit or RUNS_SHOWN))
    some = ask._replace(limit=TESTS_SHOWN)
    data = {
        "version": __version__,
        "made": timestamp(world.clock.now()),
        "report": report,
        "failures": _failures(index, [row["run"] for row in report["rows"]]),
        "slowest": answers.slowest(world, some) if pick(index, ask, LAST) else answer("slowest", []),
        "movers": _movers(world, index, some),
        "flaky": flaky,
        "evidence": _run_evidence(world, index, ask, [row["test"] for row in flaky["rows"]]),
        "words": [{"word": one["word"], "means": one["means"]} for one in load()["words"]],
    }
    style, script = asset("report.css") + asset("ledger.css"), asset("common.js") + asset("ledger.js")
    return page(asset("ledger.html"), style, script, f"{ask.project}: test runs", data)


def _failures(index: Index, runs: list[str]) -> dict[str, list[Document]]:
    """The tests that did not pass, for each run that has any."""
    found = {}
    for row in index.rows("SELECT run, record FROM runs WHERE closed = 1"):
        failures = json.loads(row["record"]).get("failures", ())[:FAILURES_SHOWN] if row["run"] in runs else ()
        if failures:
            found[row["run"]] = [
                {"test": one["test"], "outcome": one["outcome"], "message": one.get("message", "")[:MESSAGE_SHOWN]}
                for one in failures
            ]
    return found


def _movers(world: World, index: Index, ask: LedgerQuery) -> LedgerAnswer:
    """The last full run (or the last) against the newest one before it that it may be compared with."""
    now = pick(index, ask, FULL) or pick(index, ask, LAST)
    if now is None:
        return answer("compare", [], verdict="unknown", reason="no run is recorded")
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND {LAST} AND ingested = 1 AND scope = ? AND rid < ?"
    earlier = index.rows(f"{sql} ORDER BY rid DESC LIMIT {TRIED}", *ask.projects, now["scope"], now["rid"])
    record = record_of(now)
    for was in earlier:
        if not not_comparable(record_of(was), record):
            return answers.compare(world, ask._replace(subject=(was["run"], now["run"])))
    reason = f"no earlier run is comparable with {now['run']}: same scope, environment, workers and scheduling"
    return answer("compare", [], verdict="unknown", reason=reason)


def _run_evidence(world: World, index: Index, ask: LedgerQuery, tests: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The executions that each word rests on, with those parts of their identity in which they differ."""
    least = answers.repetitions(world)
    found = {}
    for test, ran in (answers.executions(index, ask.projects, tests) if tests else {}).items():
        said = judge(ran, least)
        found[test] = answers.leaves(evidence.word(test, said.word, said))
    return found
