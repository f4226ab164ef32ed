"""Questions about runs, answered from the ledger's index: the last one, the last full and scoped ones, one, all."""

from __future__ import annotations

import json
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.picking import FULL, LAST, SCOPED, find, pick, record_of, running, source
from ktxkit.ledger.rules.answers import Row, answer
from ktxkit.ledger.rules.rows import passed, run_row
from ktxkit.store.rules import names
from ktxkit.store.world import World


def last(world: World, ask: Ask) -> Document:
    """The last run, with the last full and the last scoped one beside it; and what is running now."""
    index = ensure(world)
    rows = [
        _row(index, ask, where, what) for where, what in ((LAST, "last"), (FULL, "last full"), (SCOPED, "last scoped"))
    ]
    going = running(index, ask)
    found = pick(index, ask, LAST)
    reason = "" if found else "no run is recorded"
    if found and passed(record_of(found)) == "unknown":
        reason = f"the last run is {found['state']}: whether its tests pass is not known"
    return answer(
        "last",
        [row for row in rows if row],
        project=ask.project,
        verdict=passed(record_of(found)),
        reason=reason,
        facts={"running": going or None, "note": index.note or None},
    )


def _row(index: Index, ask: Ask, where: str, what: str) -> Row:
    found = pick(index, ask, where)
    return run_row(record_of(found) or {}, source(found), what) if found else {}


def last_full(world: World, ask: Ask) -> Document:
    """The last full run; and the ids that the full run before it had and it lacks."""
    return _last_of(world, ask, "last-full", FULL, "no full run is recorded")


def last_scoped(world: World, ask: Ask) -> Document:
    """The last run that was not full, with its scope."""
    return _last_of(world, ask, "last-scoped", SCOPED, "no scoped run is recorded")


def _last_of(world: World, ask: Ask, question: str, where: str, none: str) -> Document:
    index = ensure(world)
    found = pick(index, ask, where)
    if found is None:
        return answer(question, [], project=ask.project, verdict="unknown", reason=none)
    record = record_of(found) or {}
    lacks = lacking(world, index, ask, found) if question == "last-full" else {}
    facts = lacks | {"running": running(index, ask) or None}
    row = run_row(record, source(found), question.replace("-", " "))
    return answer(question, [row], project=ask.project, verdict=passed(record), facts=facts)


def lacking(world: World, index: Index, ask: Ask, run: dict[str, Any]) -> dict[str, Any]:
    """What the full run before this one had and this one has not."""
    before = pick(index, ask, f"{FULL} AND seq < {int(run['seq'])}")
    if before is None or before["selection"] == run["selection"]:
        return {}
    from ktxkit.ledger import ledger

    old, new = ledger.kept_ids(world, before["selection"]), ledger.kept_ids(world, run["selection"])
    if old is None or new is None:
        return {"lacks": "not known: the list of ids is gone"}
    missing = sorted(set(old) - set(new))
    return {"lacksCount": len(missing), "lacks": missing[:100], "lacksOf": before["run"]} if missing else {}


def one_run(world: World, ask: Ask) -> Document:
    """All that is recorded of a run; its rows are the tests that did not pass."""
    index = ensure(world)
    found = find(index, ask, ask.subject[0])
    if not found["closed"]:
        return answer(
            "run", [], subject=[found["run"]], verdict="unknown", reason="it is running: see `ledger-query live`"
        )
    record = record_of(found) or {}
    rows: list[Row] = [{"test": one["test"], "what": one["outcome"], **one} for one in record.get("failures", ())]
    rows += [{"test": one["test"], "what": "in flight", "since": one["since"]} for one in record.get("inFlight", ())]
    rows += [{"test": one, "what": "never ran"} for one in record.get("notRun", ())]
    rows += [{"test": one["node"], "what": "not collected", **one} for one in record.get("collectErrors", ())]
    rows = [{**row, "source": names.events_file(found["run"])} for row in rows]
    facts = run_row(record, source(found)) | {"phases": record.get("phases"), "lost": record.get("lost")}
    facts |= {key: record.get(key) for key in ("workers", "scheduling", "warnings", "duplicates", "stop", "argv")}
    return answer("run", rows, subject=[found["run"]], project=ask.project, verdict=passed(record), facts=facts)


def runs(world: World, ask: Ask) -> Document:
    """The runs, newest first, `--limit` of them; runs inside runs are marked."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    where = f"project IN ({marks})"
    total = index.rows(f"SELECT count(*) AS n FROM runs WHERE {where}", *ask.projects)[0]["n"]
    found = index.rows(f"SELECT * FROM runs WHERE {where} ORDER BY seq DESC LIMIT ?", *ask.projects, ask.limit or 20)
    rows = [
        run_row(json.loads(row["record"]), source(row), f"inside {row['parent']}" if row["parent"] else "")
        if row["closed"]
        else {"run": row["run"], "state": "running or not closed", "source": source(row)}
        for row in found
    ]
    return answer("runs", rows, project=ask.project, facts={"runs": total, "shown": len(rows)})
