"""Questions over several runs: what became slower, since when a test fails; and what a run warned of.

What the documents and the trace of jobs say: the questions `jobs`, `job` and `trace` of `ledger-query`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.named import NamedTuple
from ktxkit.ledger import asking, event_log, index_file, ledger
from ktxkit.ledger.answers import run_of_question, without_rows
from ktxkit.ledger.asking import LAST, NEWEST, NO_TEST, LedgerQuery, ensure, find_test, record_of
from ktxkit.ledger.index_file import CODE, EXECUTIONS, OUTCOMES, PASSED, Index
from ktxkit.ledger.rules.evidence import names_failures
from ktxkit.ledger.rules.rows import BAD, SHIFT, Row, Verdict, answer, not_comparable
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import LEVELS
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World
from ktxkit.work.report import events_of, no_longer_in
from ktxkit.work.rules.reasons import first_obstacle
from ktxkit.work.rules.report import LANDED as IN
from ktxkit.work.rules.report import left_out

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, Receipt


LOOKED_AT = 200  # earlier runs among which comparable ones are looked for
COMPARED = 10  # comparable runs that a run is held against
NEEDED = 3
SHARE, LEAST = 0.2, 0.05  # of the median, and seconds: a smaller difference is none
DEVIATIONS = 3  # by which it must exceed the noise
SCALE = 1.4826  # from the median absolute deviation to a standard deviation, for normal noise


def slower(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The tests that take longer than in the comparable runs before, by more than their noise, and since which run."""
    index = ensure(world)
    run = run_of_question(index, ask)
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
        known = [(rid, times[place]) for rid, times in zip(earlier, before, strict=True) if place in times]
        step = _step([now, *(took for _, took in known)])
        if step is not None:
            found.append(
                (now - step.usual, place, now, step, run["rid"] if step.after == 1 else known[step.after - 2][0])
            )
    found.sort(key=lambda one: (-one[0], one[1]))
    rows = _slower_rows(index, found[: ask.limit or 10])
    facts |= {"slower": len(found), "threshold": f"{SHARE:.0%}, {LEAST:g} s and {DEVIATIONS} times the noise"}
    verdict: Verdict = "true" if found else "false"
    return answer("slower", rows, subject=[run["run"]], project=ask.project, verdict=verdict, facts=facts)


def _slower_rows(index: Index, found: Sequence[tuple[float, int, float, _Slower, int]]) -> list[Row]:
    """A row for each: by how much, its place, its time now, what was before, and the run since which it is so."""
    named = index.names({one[1] >> SHIFT for one in found})
    runs = sorted({one[4] for one in found})
    marks = ", ".join("?" for _ in runs)
    ids = {row["rid"]: row["run"] for row in index.rows(f"SELECT rid, run FROM runs WHERE rid IN ({marks})", *runs)}
    return [
        {"test": named[place >> SHIFT], "was": round(step.usual, 6), "now": now, "delta": round(delta, 6)}
        | {"noise": round(step.noise, 6), "runs": step.before, "since": ids[since]}
        for delta, place, now, step, since in found
    ]


class _Slower(NamedTuple):
    """Of times, the newest first: how many are slow, how many are before them, and what was usual then, in seconds."""

    after: int
    before: int
    usual: float
    noise: float


def _step(times: Sequence[float]) -> _Slower | None:
    """Where the newest times became longer than all before them, by more than the noise of those; None where not."""
    for after in range(1, len(times) - NEEDED + 1):
        slow, known = min(times[:after]), times[after:]
        usual = median(known)
        noise = SCALE * median(abs(one - usual) for one in known)
        if slow > max(known) and slow - usual > max(DEVIATIONS * noise, SHARE * usual, LEAST):
            return _Slower(after, len(known), usual, noise)
    return None


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
    blind = [
        one
        for one in asking.blind(index, ask, asking.gap(index, ask).get("rid", 0))
        if not names_failures(record_of(one))
    ]
    if blind and verdict == "false":
        verdict, reason = "unknown", f"not known of run {blind[0]['run']}: {blind[0]['why']}"
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
    run = run_of_question(index, ask)
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


def skipped(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The tests of a run (the last full one, or the last) that were skipped, and the modules, each with the reason."""
    index = ensure(world)
    run = run_of_question(index, ask)
    if not run["ingested"]:
        return without_rows("skipped", run)
    place = names.events_file(run["run"])
    sql = "SELECT test, occurrence, message FROM results JOIN tests USING (tid) WHERE rid = ? AND verdict = ?"
    rows: list[Row] = [
        {"test": row["test"], "reason": row["message"], "source": place}
        | ({"occurrence": row["occurrence"]} if row["occurrence"] > 1 else {})
        for row in index.rows(f"{sql} ORDER BY 1, 2", run["rid"], CODE["skipped"])
    ]
    counts = record_of(run)["counts"]
    if counts.get("collectionSkips"):
        for offset, event in event_log.read(ledger.events_path(world, run["run"])):
            if event and event["event"] == "collect_report" and event["outcome"] == "skipped":
                rows.append({"test": event["node"], "what": "module", "reason": event.get("reason")})
                rows[-1]["source"] = f"{place}#{offset}"
    facts = {"run": run["run"], "scope": run["scope"], "skipped": counts.get("skipped", 0)}
    facts |= {"modules": counts.get("collectionSkips"), "withoutReason": sum(not row["reason"] for row in rows) or None}
    return answer("skipped", rows[: ask.limit or len(rows)], subject=[run["run"]], project=ask.project, facts=facts)


LANDED: dict[str, Verdict] = {"landed": "true", "open": "unknown"}
REASON_SHOWN = 400  # characters of a reason


def all_jobs(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Every job of the store, oldest first; those with a document that cannot be read are `damaged`, by its name."""
    found, damaged = [], []
    for name in jobs.begun(world):
        try:
            job = ActiveJob(world, world.store.read(kinds.JOB, names.job_doc(name)))
            found.append((job.document["createdAt"], name, _job_row(job)))
        except BrokenContract as error:
            damaged.append({"job": name, "where": error.location, "message": error.message})
    rows = [row for _, _, row in sorted(found, key=lambda one: one[:2])]
    return answer("jobs", rows, facts={"jobs": len(rows), "damaged": damaged or None})


def _job_row(job: ActiveJob) -> Row:
    words = Counter(row["outcome"] or "pending" for row in _unit_rows(job))
    return {
        "job": job.id,
        "state": job.state,
        "target": job.target,
        "created": job.document["createdAt"],
        "units": len(job.document["units"]),
        "outcomes": dict(sorted(words.items())) or None,
        "source": names.job_doc(job.id),
    }


def job_by_id(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """A job with its units in unit order. The verdict says whether it has landed; an open job's is unknown."""
    (job_id,) = ask.subject
    job = ActiveJob.load(world, job_id)
    facts = {key: job.document.get(key) for key in ("state", "target", "targetAtStart", "base", "landed")}
    facts["trace"] = names.trace_file(job_id) if world.store.exists(names.trace_file(job_id)) else None
    rows = _unit_rows(job)
    gone = no_longer_in(job)
    verdict = "false" if gone else LANDED.get(job.state, "false")
    reason = "" if verdict != "unknown" else "the job is open: whether it lands is not decided"
    reason = f"it {gone}: job-land --job {job_id} lands it again" if gone else reason
    return answer("job", rows, subject=[job_id], verdict=verdict, reason=reason, facts=facts)


def _unit_rows(job: ActiveJob) -> list[Row]:
    """Its units in unit order. Why a patch could not be judged is in no document of the unit: the trace has it."""
    rows = [_unit_row(job, unit) for unit in job.units]
    if job.state == "open" or all(row["outcome"] for row in rows):
        return rows
    left = left_out(events_of(job, []))
    for row in rows:
        said = left.get(row["unit"]) if row["outcome"] is None else None
        if said:
            row |= {"outcome": said["outcome"], "reason": said["message"][:REASON_SHOWN] or None}
            row["source"] = names.trace_file(job.id)
    return rows


def _unit_row(job: ActiveJob, unit: Unit) -> Row:
    """What lease, result, patch and receipt of a unit say; without a receipt or a failure it has no outcome."""
    lease = job.read(kinds.LEASE, "lease", unit)
    patch = job.read(kinds.PATCH, "patch", unit)
    receipt = job.read(kinds.RECEIPT, "receipt", unit)
    result = job.read(kinds.UNIT_RESULT, "result", unit)
    is_last = result and not receipt and (not lease or lease["attempt"] == result["attempt"])
    failed = result if result and is_last and result["outcome"] != "finished" else None
    last = "receipt" if receipt else "result" if failed else "patch" if patch else "lease" if lease else ""
    return {
        "position": unit.position,
        "unit": unit.key,
        "outcome": receipt["outcome"] if receipt else failed["outcome"] if failed else None,
        "patch": patch["outcome"] if patch else None,
        "paths": len(patch["paths"]) if patch else None,
        "lease": lease["state"] if lease else None,
        "reason": _reason(receipt) if receipt else failed.get("message") if failed else None,
        "commit": receipt.get("commit") if receipt else None,
        "source": job.unit_doc(unit, last) if last else names.job_doc(job.id),
    }


def _reason(receipt: Receipt) -> str | None:
    """The first thing that a receipt holds against its unit."""
    if receipt["outcome"] in IN:
        return None
    return str(receipt.get("message") or first_obstacle(receipt))[:REASON_SHOWN]


def trace(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The events of a job's trace, in the order of the file; `event`, `unit` and `level` narrow it."""
    (job_id,) = ask.subject
    path = names.trace_file(names.check_job(job_id))
    if not world.store.exists(path):
        ActiveJob.load(world, job_id)  # an unknown job is an error; a job without a trace is an answer
    journal = Journal(world.store.path(path), kinds.TRACE_EVENT, world.clock)
    rows, total, torn = [], 0, len(journal.torn())
    for number, record in enumerate(journal.records(), start=1):
        total += 1
        data = record.get("data", {})
        wanted = ask.event in ("", record["event"]) and ask.unit in ("", data.get("unitKey"))
        if wanted and LEVELS[record["level"]] <= LEVELS[ask.level]:
            rows.append(_event_row(record, f"{path}:{number}"))
    facts = {"trace": path, "events": total, "shown": len(rows), "torn": torn or None}
    reason = "" if total else "no event was written: nothing of this job can be told from a trace"
    return answer("trace", rows, subject=[job_id], reason=reason, facts=facts)


def _event_row(record: Mapping[str, Any], source: str) -> Row:
    data = {key: value for key, value in record.get("data", {}).items() if key != "unitKey"}
    error = record.get("error")
    return {
        "at": record["at"],
        "level": record["level"],
        "phase": record["phase"],
        "event": record["event"],
        "unit": record.get("data", {}).get("unitKey"),
        "ms": record.get("durationMs"),
        "error": f"{error['name']}: {error['message']}" if error else None,
        "data": data or None,
        "source": source,
    }
