"""Answers: a question, three-valued where it has a yes or no, always with the rows that support it (contract `answer`).

Absent facts are absent keys. `unknown` never collapses into `false`: an absence is only asserted where all that could
show the contrary was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ktxkit.base.rules.text import printable

Verdict = Literal["true", "false", "unknown"]
Row = dict[str, Any]
CELL_SHOWN = 100  # characters of a value in a table
WHOLE_SHOWN = 2000  # characters of one that has lines of its own
NAMES = ("run", "job", "unit", "what", "word")  # they stay in the row, unless they are half of it
WHOLE = ("test", "source", "rawPath", "artifact", "fixture")  # to be copied
WIDTH = 80  # columns
GAP = "  "


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


def lines(document: Mapping[str, Any], columns: Sequence[str] = (), width: int = WIDTH) -> list[str]:
    """An answer for people: verdict and facts, then the rows as a table of `columns`. `width` is the screen's."""
    said = [f"verdict: {document['verdict']}"] if "verdict" in document else []
    facts = dict(document.get("facts", {}))
    derivation = facts.pop("derivation", None)
    for key, value in facts.items():
        said += wrapped(f"{key}: {_cell(value, WHOLE_SHOWN)}", width, 2)
    if "reason" in document:
        said += wrapped(printable(document["reason"]), width)
    if derivation is not None:
        return [*said, *([""] if said else []), *tree(derivation, width)]
    rows = document["rows"]
    if rows:
        said += [*([""] if said else []), *table(rows, columns or list(rows[0]), width)]
    return said or ["nothing recorded"]


def outcome(document: Mapping[str, Any]) -> str:
    """The word of an answer: runs that cannot be compared are refused; a list without what is damaged is not whole."""
    if document["question"] == "compare" and str(document.get("reason")).startswith("not comparable"):
        return "refused"
    return "broken_contract" if "damaged" in document.get("facts", {}) else "done"


def tree(node: Mapping[str, Any], width: int = WIDTH, depth: int = 0) -> list[str]:
    """A derivation, indented: each goal with its verdict, what it follows from, and at the leaves the rows."""
    lead = "  " * depth
    said = [lead + line for line in wrapped(f"{node['verdict']}: {printable(node['goal'])}", width - len(lead), 4)]
    for below in node.get("because", ()):
        said += tree(below, width, depth + 1)
    rows = node.get("rows", ())
    if rows:
        lead += "  "
        keys = list(dict.fromkeys(key for row in rows for key in row))
        said += [lead + line for line in table(rows, keys, width - len(lead))]
    return said


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], width: int = WIDTH) -> list[str]:
    """Rows in columns; a column that no row has is left out.

    Where they do not fit, the widest columns are said below each row, in whole words: an id that is longer than the
    screen stays in one piece, to be copied.
    """
    kept = list(rows)
    used = [column for column in columns if any(_cell(row.get(column)) for row in kept)]
    widths = {column: max(len(column), *(len(_cell(row.get(column))) for row in kept)) for column in used}
    below: list[str] = []
    while len(widths) > 1 and sum(widths.values()) + len(GAP) * (len(widths) - 1) > width:
        below.append(
            max(widths, key=lambda column: (column not in NAMES or widths[column] > width // 2, widths[column]))
        )
        del widths[below[-1]]
    said = [_line({column: column for column in widths}, widths)]
    for row in kept:
        said.append(_line({column: _cell(row.get(column)) for column in widths}, widths))
        for column in (column for column in used if column in below):
            text = _cell(row.get(column), WHOLE_SHOWN)
            if text:
                told = f"{column}: {text}"
                said += [f"    {line}" for line in ([told] if column in WHOLE else wrapped(told, width - 4, 2))]
    return said


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return GAP.join(cells[column].ljust(width) for column, width in widths.items()).rstrip()


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Lines of whole words, later ones indented; a text with a word that fits no line stays in one piece."""
    if len(text) <= width or any(len(word) + indent > width for word in text.split()):
        return [text]
    import textwrap

    return textwrap.wrap(
        text, max(width, 20), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _cell(value: Any, limit: int = CELL_SHOWN) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{3 if abs(value) >= 1 else 6}f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_cell(item, limit)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item, limit) for item in value)
    text = printable(str(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."
