"""Runs picked from the index. It loads little: the banner must have answered before other commands have begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest
from ktxkit.store.rules import names

if TYPE_CHECKING:
    from ktxkit.ledger.asking import Ask
    from ktxkit.ledger.index_file import Index

LAST = "closed = 1 AND parent IS NULL AND mode = 'run'"
SCOPED = f"{LAST} AND scope != 'full'"
FULL = f"{LAST} AND scope = 'full'"


def source(line: dict[str, Any]) -> str:
    return f"{names.LEDGER}#{line['seq']}"


def pick(index: Index, ask: Ask, where: str) -> dict[str, Any] | None:
    """The newest run of the asked projects that fits."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND {where} ORDER BY started DESC, seq DESC LIMIT 1"
    found = index.rows(sql, *ask.projects)
    return found[0] if found else None


def record_of(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    import json

    found: dict[str, Any] = json.loads(row["record"])
    return found


def running(index: Index, ask: Ask) -> list[str]:
    """Runs that were opened and not closed."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT run FROM runs WHERE project IN ({marks}) AND closed = 0 AND parent IS NULL ORDER BY seq"
    return [row["run"] for row in index.rows(sql, *ask.projects)]


def find(index: Index, ask: Ask, run: str) -> dict[str, Any]:
    """A run by its id, a unique beginning of it, or `last`, `last-full`, `last-scoped`. Raises CannotRun."""
    words = {"last": LAST, "last-full": FULL, "last-scoped": SCOPED}
    if run in words:
        row = pick(index, ask, words[run])
        if row is None:
            raise CannotRun(f"there is no {run} run", hint="`ledger-query runs` lists those there are")
        return row
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND substr(run, 1, ?) = ? ORDER BY seq"
    rows = index.rows(sql, *ask.projects, len(run), run)
    exact = [row for row in rows if row["run"] == run] or rows
    if len(exact) == 1:
        return exact[0]
    known = [row["run"] for row in index.rows("SELECT run FROM runs ORDER BY seq DESC LIMIT 1000")]
    near = [row["run"] for row in exact[:3]] or nearest(run, known)
    hint = f"did you mean {' or '.join(near)}?" if near else "`ledger-query runs` lists those there are"
    raise CannotRun(f"{'several runs begin' if exact else 'no run begins'} with {run!r}", hint=hint)
