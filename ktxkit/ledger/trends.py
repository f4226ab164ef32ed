"""Questions over several runs: what became slower, since when a test fails; and what a run warned of."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ktxkit.ledger import event_log, index_file, ledger
from ktxkit.ledger.answers import asked_run, without_rows
from ktxkit.ledger.asking import LAST, NEWEST, NO_TEST, LedgerQuery, ensure, find_test, record_of
from ktxkit.ledger.index_file import EXECUTIONS, OUTCOMES, PASSED, Index
from ktxkit.ledger.rules.rows import BAD, SHIFT, Row, Verdict, answer, not_comparable
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer

LOOKED_AT = 200  # earlier runs among which comparable ones are looked for
COMPARED = 10  # comparable runs that a run is held against
NEEDED = 3
SHARE, LEAST = 0.2, 0.05  # of the median, and seconds: a smaller difference is none
DEVIATIONS = 3  # by which it must exceed the noise
SCALE = 1.4826  # from the median absolute deviation to a standard deviation, for normal noise


def slower(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The tests that took longer in a run than in the comparable ones before it, by more than their noise."""
    index = ensure(world)
    run = asked_run(index, ask)
    if not run["ingested"]:
        return without_rows("slower", run)
    earlier = _comparable(index, ask, run)
    facts: Row = {"run": run["run"], "comparable": len(earlier)}
    if len(earlier) < NEEDED:
        reason = (
            f"{len(earlier)} earlier runs are comparable with it (scope, environment, workers); {NEEDED} are needed"
        )
        return answer("slower", [], subject=[run["run"]], project=ask.project, reason=reason, facts=facts)
    before = [_times(index, rid) for rid in earlier]
    found = []
    for place, now in _times(index, run["rid"]).items():
        known = [times[place] for times in before if place in times]
        if len(known) >= NEEDED:
            usual = median(known)
            noise = SCALE * median(abs(one - usual) for one in known)
            if now > max(known) and now - usual > max(DEVIATIONS * noise, SHARE * usual, LEAST):
                found.append((now - usual, place, usual, now, noise, len(known)))
    found.sort(key=lambda one: (-one[0], one[1]))
    named = index.names({one[1] >> SHIFT for one in found})
    rows: list[Row] = [
        {"test": named[place >> SHIFT], "was": round(usual, 6), "now": now, "delta": round(delta, 6)}
        | {"noise": round(noise, 6), "runs": count}
        for delta, place, usual, now, noise, count in found[: ask.limit or 10]
    ]
    facts |= {"slower": len(found), "threshold": f"{SHARE:.0%}, {LEAST:g} s and {DEVIATIONS} times the noise"}
    verdict: Verdict = "true" if found else "false"
    return answer("slower", rows, subject=[run["run"]], project=ask.project, verdict=verdict, facts=facts)


def _comparable(index: Index, ask: LedgerQuery, run: Row) -> list[int]:
    """The newest runs before it that are comparable with it."""
    marks = ", ".join("?" for _ in ask.projects)
    where = f"project IN ({marks}) AND {LAST} AND ingested = 1 AND rid < ?"
    sql = f"SELECT * FROM runs WHERE {where} ORDER BY {NEWEST} LIMIT ?"
    record = record_of(run)
    found = index.rows(sql, *ask.projects, run["rid"], LOOKED_AT)
    return [one["rid"] for one in found if not not_comparable(record_of(one), record)][:COMPARED]


def _times(index: Index, rid: int) -> dict[int, float]:
    """Seconds of each test that passed, by place: one that failed took another time."""
    columns = index_file.load(index.db, rid).judged()
    return {
        place: us / 1e6
        for place, verdict, us in zip(columns.places, columns.verdicts, columns.totals, strict=True)
        if verdict == PASSED
    }


def failing_since(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The tests whose newest execution failed, each with the run in which its unbroken failures began."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    some = "AND t.test = ?" if ask.subject else "AND t.bad > 0"
    sql = (
        f"SELECT t.test, r.verdict, runs.run, runs.started, runs.commit_id {EXECUTIONS} WHERE t.project IN ({marks})"
        f" {some} AND r.verdict IS NOT NULL ORDER BY t.test, {NEWEST}, r.occurrence"
    )
    rows: list[Row] = []
    ran: dict[str, list[Row]] = {}
    subject = [find_test(index, ask, name) for name in ask.subject]
    for row in index.rows(sql, *ask.projects, *(test for test, _ in subject)):
        ran.setdefault(row["test"], []).append(row)
    for test, executions in ran.items():
        rows += _since(test, executions)
    rows.sort(key=lambda row: (row["since"] or "", row["test"]), reverse=True)
    verdict: Verdict = "true" if rows else "false" if ran or not ask.subject else "unknown"
    reason = "" if ran or not subject else subject[0][1] or NO_TEST
    shown = rows[: ask.limit or len(rows)]
    facts = {"failing": len(rows)}
    return answer(
        "failing-since",
        shown,
        subject=[test for test, _ in subject],
        project=ask.project,
        verdict=verdict,
        reason=reason,
        facts=facts,
    )


def _since(test: str, executions: list[Row]) -> list[Row]:
    """One row where the newest execution failed. A skipped one neither ends nor begins it."""
    told = [one for one in executions if OUTCOMES[one["verdict"]] in (*BAD, "passed", "xpassed")]
    bad: list[Row] = []
    for one in told:
        if OUTCOMES[one["verdict"]] not in BAD:
            break
        bad.append(one)
    if not bad:
        return []
    first, good = bad[-1], told[len(bad)] if len(told) > len(bad) else None
    row: Row = {"test": test, "since": first["started"], "run": first["run"], "commit": first["commit_id"]}
    row |= {"failures": len(bad), "source": names.events_file(first["run"])}
    return [row | ({"passedLast": good["run"], "passedAt": good["commit_id"]} if good else {})]


def warnings(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The different warnings of a run (the last full one, or the last), in the order in which they came up."""
    index = ensure(world)
    run = asked_run(index, ask)
    if not run["ingested"]:
        return without_rows("warnings", run)
    rows: list[Row] = []
    for offset, event in event_log.read(ledger.events_path(world, run["run"])):
        if event and event["event"] == "warning":
            where = f"{event['path']}:{event['line']}" if event.get("path") else None
            rows.append(
                {"category": event["category"], "message": event["message"], "at": where, "when": event.get("when")}
                | {"source": f"{names.events_file(run['run'])}#{offset}"}
            )
    counted = record_of(run).get("warnings", len(rows))
    facts = {"run": run["run"], "warnings": counted, "different": len(rows)}
    return answer("warnings", rows[: ask.limit or len(rows)], subject=[run["run"]], project=ask.project, facts=facts)
