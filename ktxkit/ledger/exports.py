"""What the ledger hands to other tools: CTRF reports, a graph, a Prolog rulebase."""

from __future__ import annotations

import json
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.ledger import lexicon
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.index_file import OUTCOMES, Index
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.picking import find
from ktxkit.ledger.rules import ctrf, graph
from ktxkit.ledger.rules.answers import answer
from ktxkit.store.world import World


def ctrf_report(world: World, ask: Ask) -> bytes:
    """A run as a CTRF report (default: the last one). Raises CannotRun where its tests are not known."""
    index = ensure(world)
    run = find(index, ask, ask.subject[0] if ask.subject else "last")
    if not run["ingested"]:
        raise CannotRun(
            f"the tests of {run['run']} are not known: {run['why'] or 'it is running'}",
            hint="`ledger-query runs` lists others; a run must have ended and have its events",
        )
    document = ctrf.report(json.loads(run["record"]), _attempts(index, run["rid"]))
    return (json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def graph_lines(world: World, ask: Ask) -> bytes:
    """Every closed run of the projects as JSON Lines of nodes and edges; each element once, sorted by run."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    runs = index.rows(f"SELECT * FROM runs WHERE project IN ({marks}) AND closed = 1 ORDER BY seq", *ask.projects)
    seen: set[str] = set()
    lines: list[str] = []
    for run in runs:
        rows = [row | {"suite": suite_of(row["test"])} for row in _attempts(index, run["rid"])]
        for element in graph.elements(json.loads(run["record"]), rows):
            key = element["id"]
            if key not in seen:
                seen.add(key)
                lines.append(json.dumps(element, separators=(",", ":"), ensure_ascii=True) + "\n")
    return "".join(lines).encode("ascii")


def suite_of(test: str) -> str:
    """The file that a test stands in, before the first `::`: a grouping; nothing else is read from an id."""
    return test.partition("::")[0] or test


def _attempts(index: Index, rid: int) -> list[dict[str, Any]]:
    sql = "SELECT * FROM results JOIN tests USING (tid) WHERE rid = ? ORDER BY tid, occurrence, attempt"
    rows = index.rows(sql, rid)
    for row in rows:
        row["outcome"] = OUTCOMES[row["outcome"]]
        row["verdict"] = None if row["verdict"] is None else OUTCOMES[row["verdict"]]
    return rows


def rules(world: World, ask: Ask) -> Document:
    """The rules of the words: what each needs, and what is refused."""
    found = lexicon.load()
    rows = [
        {"word": one["word"], "also": one.get("also"), "needs": one["needs"], "means": one["means"]}
        for one in found["words"]
    ]
    rows += [
        {"word": one["word"], "also": one.get("also"), "say": one["say"], "why": one["why"]} for one in found["refused"]
    ]
    return answer("rules", rows, facts={"reminders": found["reminders"]})


def prolog(world: World, ask: Ask) -> bytes:
    """The same as a Prolog rulebase."""
    from ktxkit.ledger.rules.prolog import rulebase

    return rulebase(lexicon.load()).encode("utf-8")
