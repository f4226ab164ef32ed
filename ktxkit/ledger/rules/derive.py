"""Derivations: why a word or a property holds, as a tree whose leaves are recorded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktxkit.ledger.rules.answers import Row, Verdict
from ktxkit.ledger.rules.evidence import PARTS, Execution, Said
from ktxkit.ledger.rules.states import FINISHED

Node = dict[str, Any]
ROWS_SHOWN = 50


def node(goal: str, verdict: str, because: Sequence[Node] = (), rows: Sequence[Row] = ()) -> Node:
    made: Node = {"goal": goal, "verdict": verdict}
    if because:
        made["because"] = list(because)
    if rows:
        made["rows"] = list(rows)
    return made


def all_of(goal: str, because: Sequence[Node]) -> Node:
    """True where everything below is, false where anything below is false, else unknown."""
    words = [below["verdict"] for below in because]
    verdict = "false" if "false" in words else ("unknown" if "unknown" in words else "true")
    return node(goal, verdict, because)


def _is(goal: str, found: bool | None, rows: Sequence[Row] = ()) -> Node:
    return node(goal, "unknown" if found is None else ("true" if found else "false"), rows=rows)


def passed(record: Mapping[str, Any], row: Row) -> Node:
    """Why a run passed, or not."""
    counts = record["counts"]
    bad = {key: counts[key] for key in ("failed", "errors", "crashed", "collectionErrors") if counts.get(key)}
    ended = record["state"] == FINISHED
    failures = [{"test": one["test"], "outcome": one["outcome"]} for one in record.get("failures", ())][:ROWS_SHOWN]
    return all_of(
        f"passed({record['run']})",
        [
            _is(f"it is finished (it is {record['state']})", True if ended else None, [row]),
            _is(
                f"no test failed ({', '.join(f'{n} {word}' for word, n in bad.items()) or 'none did'})",
                not bad,
                failures,
            ),
            _is(f"its exit status is 0 ({record.get('exitStatus', 'not known')})", _zero(record) if ended else None),
        ],
    )


def _zero(record: Mapping[str, Any]) -> bool | None:
    status = record.get("exitStatus")
    return None if status is None else status == 0


def full(record: Mapping[str, Any], row: Row) -> Node:
    """Why a run's scope is full, or is not."""
    scope, counts = record["scope"], record["counts"]
    selection = record.get("selection", {})
    narrowing = [{"option": one["option"], "value": one["value"]} for one in selection.get("narrowing", ())]
    source = selection.get("argsSource", "unknown")
    below = [
        _is(
            f"its arguments are pytest's own choice ({source})",
            None if source == "unknown" else source != "args",
            [row],
        ),
        _is("no option narrowed it", not narrowing, narrowing),
        _is("nothing was deselected", _none(counts, "deselected")),
        _is("nothing was removed from the collection", _none(counts, "removed")),
        _is("every module was collected", not counts.get("collectionErrors")),
        _is(f"all that was selected ran to its end (it is {record['state']})", record["state"] == FINISHED),
        _is("the recording is complete", not any(record.get("lost", {}).get(k) for k in ("dropped", "faults", "torn"))),
    ]
    made = all_of(f"full({record['run']})", below)
    if scope["kind"] != "full" and made["verdict"] == "true":
        made["verdict"] = "false"
    return made


def _none(counts: Mapping[str, int], key: str) -> bool | None:
    return None if key not in counts else counts[key] == 0


def authoritative(record: Mapping[str, Any], row: Row) -> Node:
    """Why a run may be relied upon for the tree it ran on, or may not."""
    tree, after = record.get("tree", {}).get("tree"), record.get("treeAfter", {}).get("tree")
    preconditions = [
        {"precondition": one["name"], "verified": one["verified"]} for one in record.get("preconditions", ())
    ]
    same = None if tree is None or after is None else tree == after
    return all_of(
        f"authoritative({record['run']})",
        [
            full(record, row),
            _is("test-run started it and verified the preconditions", bool(record.get("managed")), preconditions),
            _is("every precondition held", all(one["verified"] for one in preconditions)),
            _is("it ran inside no other run", "parent" not in record),
            _is(f"the tree {tree or 'is not known, which'} was the same at its end", same),
        ],
    )


def word(test: str, asked: str, said: Said) -> Node:
    """Why a word may be said of a test: the executions that show it, part by part."""
    holds: Verdict = "true" if said.word == asked and said.verdict == "true" else "unknown"
    rows = [_execution(one, said.rows) for one in said.rows[:ROWS_SHOWN]]
    if holds == "true":
        return node(f"{asked}({test})", "true", [node(said.reason, "true", rows=rows)])
    instead = [node(f"{said.word}({test}): {said.reason}", said.verdict, rows=rows)]
    return node(f"{asked}({test})", holds, instead)


def _execution(one: Execution, others: Sequence[Execution]) -> Row:
    """An execution, with only those parts of its key in which the rows differ."""
    differ = [i for i in range(len(PARTS)) if len({other.key[i] for other in others}) > 1]
    parts = {PARTS[i]: _short(one.key[i]) for i in differ}
    return {"run": one.run, "outcome": one.outcome, "attempt": one.attempt, **parts, "identical": not differ}


def _short(value: Any) -> Any:
    if value is None:
        return "(not known)"
    return value[:15] if isinstance(value, str) and value.startswith("b3:") else value
