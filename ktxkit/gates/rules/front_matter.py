"""Front matter: the block between `---` and `---` (or `...`) at the very start of a page, and the body after it.

The opener is line 1 and exactly `---` with blanks after it; CRLF, CR and a byte-order mark are taken. What is not
closed is a problem, and so is what looks like front matter after blank lines: no reader would see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ktxkit.base.rules.yaml_nodes import Problem, lines

_OPENER = re.compile(r"---[ \t]*\Z")
_CLOSER = re.compile(r"(?:---|\.\.\.)[ \t]*\Z")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*:(?:\s|\Z)")
_LEAD = 20  # lines before a displaced opener that are looked at


@dataclass(frozen=True, slots=True)
class Split:
    """A page's text in two. `front` is None where there is none; lines count from 1; `offset` is front's start."""

    front: str | None
    front_line: int
    offset: int
    body: str
    body_line: int
    body_offset: int
    problem: Problem | None = None


def split(text: str) -> Split:
    """Split a page whose byte-order mark is off. Never raises."""
    whole = lines(text)
    bare = [line.rstrip("\r\n") for line in whole]
    if not bare or not _OPENER.match(bare[0]):
        return Split(None, 0, 0, text, 1, 0, _displaced(bare))
    closer = next((n for n, line in enumerate(bare[1:], 1) if _CLOSER.match(line)), None)
    start = len(whole[0])
    if closer is None:
        problem = Problem("front-matter-unclosed", 1, 1, "front matter starts here and never ends", "add a line ---")
        return Split(None, 2, start, "", len(whole) + 1, len(text), problem)
    front = "".join(whole[1:closer])
    body_offset = start + len(front) + len(whole[closer])
    return Split(front, 2, start, text[body_offset:], closer + 2, body_offset)


def _displaced(bare: list[str]) -> Problem | None:
    """Front matter that blank lines or blanks before it have pushed out of its place."""
    first = next((n for n, line in enumerate(bare[:_LEAD]) if line.strip()), None)
    if first is None or not _OPENER.match(bare[first].lstrip()) or first + 1 >= len(bare):
        return None
    if not _KEY.match(bare[first + 1].lstrip()):
        return None
    return Problem(
        "front-matter-not-first",
        first + 1,
        len(bare[first]) - len(bare[first].lstrip()) + 1,
        "this looks like front matter but does not start the file, so that nobody reads it",
        "move --- to the first column of the first line",
    )
