"""The list of worktrees for people: one line for each, and what the list says as a whole."""

from __future__ import annotations

from ktxkit.base.contracts import Document
from ktxkit.base.rules.text import plural, printable


def lines(document: Document) -> list[str]:
    """Path, what it is, how it stands; the last line counts what is dead and what was cleared."""
    rows = document["worktrees"]
    said = [f"{printable(row['path'])}  {_what(row)}  {_how(row)}" for row in rows]
    dead = [row for row in rows if "dead" in row]
    pruned = sum(1 for row in rows if row.get("pruned"))
    total = f"{plural(len(rows), 'worktree')}, {len(dead)} dead" + (f", {pruned} cleared" if pruned else "")
    return [*said, total, *damaged_lines(document)]


def damaged_lines(document: Document) -> list[str]:
    """Documents that cannot be read, and what they would say is not known."""
    return [f"Damaged: {printable(row['where'])}: {printable(row['message'])}" for row in document.get("damaged", ())]


def outcome(document: Document) -> str:
    """The word of a list: what could be read is shown, but a damaged document is status 5."""
    return "broken_contract" if "damaged" in document else "done"


def _what(row: Document) -> str:
    if "unitKey" in row:
        return printable(f"unit {row['unitKey']} of {row['jobId']}, attempt {row['attempt']}")
    branch = row.get("branch", "").removeprefix("refs/heads/")
    return printable(f"{row['kind']} {branch}" if branch else str(row["kind"]))


def _how(row: Document) -> str:
    parts = [row.get("state", "present" if row["present"] else "gone")]
    parts += [f"as {row['outcome']}"] if "outcome" in row else []
    parts += [f"in use by {', '.join(map(str, row['busy'][:5]))}"] if "busy" in row else []
    parts += [f"dead: {row['dead']}"] if "dead" in row else []
    parts += ["cleared"] if row.get("pruned") else []
    parts += [f"kept at {row['atticRef']}"] if "atticRef" in row else []
    parts += [f"stays: {printable(row['kept'])}"] if "kept" in row else []
    return ", ".join(parts)
