"""Answers: a question, three-valued where it has a yes or no, always with the rows that support it (contract `answer`).

Absent facts are absent keys. `unknown` never collapses into `false`: an absence is only asserted where all that could
show the contrary was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ktxkit.core.text import printable

Verdict = Literal["true", "false", "unknown"]
Row = dict[str, Any]
CELL_SHOWN = 100  # characters of a value in a table


def answer(
    question: str,
    rows: Sequence[Row],
    *,
    subject: Sequence[str] = (),
    project: str = "",
    verdict: Verdict | None = None,
    reason: str = "",
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document. Keys without a value are left out."""
    made: dict[str, Any] = {"schemaVersion": 1, "kind": "answer", "question": question}
    if subject:
        made["subject"] = list(subject)
    if project:
        made["project"] = project
    if verdict is not None:
        made["verdict"] = verdict
    if reason:
        made["reason"] = reason
    known = {key: value for key, value in (facts or {}).items() if value is not None}
    if known:
        made["facts"] = known
    made["rows"] = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return made


def lines(document: Mapping[str, Any], columns: Sequence[str] = ()) -> list[str]:
    """An answer for people: verdict and facts, then the rows as a table of `columns`."""
    said = [f"verdict: {document['verdict']}"] if "verdict" in document else []
    facts = dict(document.get("facts", {}))
    derivation = facts.pop("derivation", None)
    said += [f"{key}: {_cell(value)}" for key, value in facts.items()]
    if "reason" in document:
        said.append(printable(document["reason"]))
    if derivation is not None:
        return [*said, *([""] if said else []), *tree(derivation)]
    rows = document["rows"]
    if rows:
        said += [*([""] if said else []), *table(rows, columns or list(rows[0]))]
    return said or ["nothing recorded"]


def tree(node: Mapping[str, Any], depth: int = 0) -> list[str]:
    """A derivation, indented: each goal with its verdict, what it follows from, and at the leaves the rows."""
    said = [f"{'  ' * depth}{node['verdict']}: {printable(node['goal'])}"]
    for below in node.get("because", ()):
        said += tree(below, depth + 1)
    rows = node.get("rows", ())
    if rows:
        said += [
            "  " * (depth + 1) + line for line in table(rows, list(dict.fromkeys(key for row in rows for key in row)))
        ]
    return said


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Rows in columns; a column that no row has is left out."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    used = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    grid = [[columns[i] for i in used], *[[row[i] for i in used] for row in cells]]
    widths = [max(len(row[i]) for row in grid) for i in range(len(used))]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in grid]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{3 if abs(value) >= 1 else 6}f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    text = printable(str(value))
    return text if len(text) <= CELL_SHOWN else text[: CELL_SHOWN - 3] + "..."
