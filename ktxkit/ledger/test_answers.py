"""Questions about tests, answered from the ledger's index: the slowest, the costliest fixtures, two runs compared, one
test's history."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ktxkit.ledger import ledger_columns
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.index_file import EXECUTIONS, FEW, OUTCOMES, PASSED, Index
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.picking import FULL, find, pick, record_of
from ktxkit.ledger.rules.answers import Row, answer
from ktxkit.ledger.rules.columns import SHIFT, Changes
from ktxkit.ledger.rules.rows import not_comparable
from ktxkit.store.rules import names

if TYPE_CHECKING:
    from ktxkit.base.contracts import Document
    from ktxkit.store.world import World


def _asked_run(index: Index, ask: Ask) -> dict[str, Any]:
    """The run that is asked about: named, or the last full one, or the last."""
    if ask.subject:
        return find(index, ask, ask.subject[0])
    return pick(index, ask, FULL) or find(index, ask, "last")


def _without_rows(question: str, run: dict[str, Any]) -> Document:
    reason = run["why"] or "it is running: its tests are not folded yet"
    return answer(question, [], subject=[run["run"]], verdict="unknown", reason=reason)


def slowest(world: World, ask: Ask) -> Document:
    """The slowest tests of a run (the last full one, or the last), in seconds; setup, call and teardown apart."""
    index = ensure(world)
    run = _asked_run(index, ask)
    if not run["ingested"]:
        return _without_rows("slowest", run)
    limit = ask.limit or 10
    least, slow = ledger_columns.load(index.db, run["rid"]).slowest(limit)
    some = f"tid IN ({', '.join(map(str, slow))}) AND" if len(slow) <= FEW else ""
    sql = (
        f"SELECT * FROM results JOIN tests USING (tid) WHERE rid = ? AND {some} total >= ?"
        " ORDER BY total DESC, test, occurrence, attempt LIMIT ?"
    )
    rows = [_test_row(row, names.events_file(run["run"])) for row in index.rows(sql, run["rid"], least, limit)]
    tests, us = ledger_columns.sums(index.db, run["rid"])
    facts = {"run": run["run"], "scope": run["scope"], "tests": tests, "seconds": us / 1e6}
    return answer("slowest", rows, subject=[run["run"]], project=ask.project, facts=facts)


def _test_row(row: dict[str, Any], place: str) -> Row:
    spans = {key: row[key] / 1e6 for key in ("total", "setup", "call", "teardown") if row.get(key) is not None}
    made: Row = {"test": row["test"], "outcome": OUTCOMES[row["outcome"]], **spans, "worker": row.get("worker")}
    for key in ("occurrence", "attempt"):
        if row[key] > 1:
            made[key] = row[key]
    return made | {"source": place}


def fixtures(world: World, ask: Ask) -> Document:
    """The fixtures of a run whose setup cost most in all, in seconds."""
    index = ensure(world)
    run = _asked_run(index, ask)
    if not run["ingested"]:
        return _without_rows("fixtures", run)
    sql = "SELECT * FROM fixtures WHERE rid = ? ORDER BY total DESC, base, fixture LIMIT ?"
    rows = [
        {
            "fixture": row["fixture"],
            "base": row["base"] or None,
            "scope": row["scope"],
            "count": row["count"],
            "total": row["total"] / 1e6,
            "longest": row["longest"] / 1e6,
            "source": names.events_file(run["run"]),
        }
        for row in index.rows(sql, run["rid"], ask.limit or 10)
    ]
    return answer("fixtures", rows, subject=[run["run"]], project=ask.project, facts={"run": run["run"]})


def compare(world: World, ask: Ask) -> Document:
    """What changed from one run to another: outcomes, tests come and gone, time. Only of runs that are comparable."""
    index = ensure(world)
    first, second = (find(index, ask, name) for name in ask.subject)
    for run in (first, second):
        if not run["ingested"]:
            return _without_rows("compare", run)
    subject = [first["run"], second["run"]]
    differ = not_comparable(record_of(first) or {}, record_of(second) or {})
    if differ:
        reason = f"not comparable: {', '.join(row['differs'] for row in differ)}"
        return answer("compare", differ, subject=subject, project=ask.project, verdict="unknown", reason=reason)
    rows, counts = _changes(index, first["rid"], second["rid"], ask.limit or 20)
    totals = [ledger_columns.sums(index.db, run["rid"])[1] for run in (first, second)]
    walls = [(record_of(run) or {}).get("wallSeconds") for run in (first, second)]
    facts = counts | {"wall": walls, "testSeconds": [total / 1e6 for total in totals]}
    return answer("compare", rows, subject=subject, project=ask.project, facts=facts)


def _changes(index: Index, first: int, second: int, limit: int) -> tuple[list[Row], dict[str, Any]]:
    """Changed outcomes first, then what came and went, then the largest differences in time."""
    found = Changes(ledger_columns.load(index.db, first), ledger_columns.load(index.db, second), limit)
    numbers = {place >> SHIFT for place, _, _ in (*found.verdicts, *found.slower)}
    named = index.names(numbers | found.gone | found.come)
    # Where a test has several occurrences, those that did not pass at first come first.
    changed = sorted((named[place >> SHIFT], was == PASSED, place, was, now) for place, was, now in found.verdicts)
    rows: list[Row] = [
        {"test": test, "change": f"{OUTCOMES[was]} -> {OUTCOMES[now]}"} for test, _, _, was, now in changed
    ]
    for tests, word in ((found.gone, "gone"), (found.come, "new")):
        rows += [{"test": test, "change": word} for test in sorted(named[number] for number in tests)]
    slower = [(-abs(now - was), named[place >> SHIFT], was / 1e6, now / 1e6) for place, was, now in found.slower]
    for _, test, before, after in sorted(slower, key=itemgetter(0, 1)):
        row = {"test": test, "change": "time", "was": before, "now": after, "delta": round(after - before, 6)}
        rows.append(row)
    return rows, {"outcomesChanged": len(changed), "gone": len(found.gone), "new": len(found.come)}


def history(world: World, ask: Ask) -> Document:
    """Every recorded execution of a test, newest first."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    sql = (
        "SELECT run, started, commit_id, tree, runs.scope, r.*, t.test"
        f" {EXECUTIONS} WHERE t.project IN ({marks}) AND t.test = ?"
        " ORDER BY runs.seq DESC, r.occurrence, r.attempt LIMIT ?"
    )
    found = index.rows(sql, *ask.projects, ask.subject[0], ask.limit or 1_000_000)
    rows = [
        {"run": row["run"], "started": row["started"], **_test_row(row, names.events_file(row["run"]))}
        | {"message": row["message"], "commit": row["commit_id"], "tree": row["tree"], "scope": row["scope"]}
        for row in found
    ]
    blind = index.rows(f"SELECT run, why FROM runs WHERE project IN ({marks}) AND ingested = 0", *ask.projects)
    reason = f"not known of {len(blind)} runs: {blind[0]['run']} ({blind[0]['why'] or 'running'})" if blind else ""
    if not rows:
        reason = reason or "no recorded run has executed a test of this id"
    facts = {"executions": len(rows), "notIngested": len(blind) or None}
    return answer("history", rows, subject=ask.subject, project=ask.project, reason=reason, facts=facts)
