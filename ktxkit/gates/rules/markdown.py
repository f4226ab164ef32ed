"""What a CommonMark body says: code spans, page links and comments, each with its place.

Blocks by markdown-it-py: preset commonmark with tables, `maxNesting` 200 (the preset's 20 silently drops what is
inside), labels that start with `^` kept out of the link definitions (they are footnotes). Inline text by `inline.scan`,
which is linear where markdown-it is quadratic and knows the place of each span. Lines and columns count from 1, in
characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from ktxkit.base.rules.yaml_nodes import Problem
from ktxkit.gates.rules.inline import Piece, html_pieces, scan

NESTING_LIMIT = 200
SIZE_LIMIT = 256 * 1024  # bytes of a page
VISIT_LIMIT = 50_000  # times that a line is looked at: once, but in quotes in quotes once for each
BLOCK_LIMIT = 50_000  # tokens of a page's blocks (a paragraph has 3, a list item 5, a cell 3): half a second

_LINE = re.compile("\r\n|\n|\r")
_BLANKS = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of inline text and where it starts (a code span: at its first backtick). `alone` on its line."""

    text: str
    line: int
    column: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What was found. Code spans are as CommonMark renders them: line ends are spaces, one space at each end is off."""

    codes: tuple[Span, ...] = ()
    links: tuple[Span, ...] = ()
    comments: tuple[Span, ...] = ()
    problems: tuple[Problem, ...] = ()


def read(text: str, first_line: int = 1) -> Body:
    """Read a body; `first_line` is the line in the file that its first line has. Never raises."""
    if not any(mark in text for mark in ("`", "[[", "<!--")):
        return Body()
    lines = _LINE.split(text)
    env: dict[str, Any] = {}
    try:
        tokens = _parser().parse("\n".join(lines), env)
    except RecursionError:
        return Body(problems=(_too_deep(first_line),))
    except _TooMuch:
        message = (
            f"it has more than {BLOCK_LIMIT} block tokens, or more than {VISIT_LIMIT} lines (in quotes each again)"
        )
        return Body(problems=(Problem("md-size", first_line, 1, message, "split the page"),))
    labels = env.get("references", {}).keys()
    found: dict[str, list[Span]] = {"code": [], "link": [], "comment": []}
    places = _Places(lines, first_line)
    deep: Problem | None = None
    for token in tokens:
        start = token.map[0] if token.map else 0
        if token.level >= NESTING_LIMIT - 1 and deep is None:
            deep = _too_deep(first_line + start)
        if token.type == "inline":
            places.take(token.content, start, scan(token.content, labels), found)
        elif token.type == "html_block":
            places.take(token.content, start, html_pieces(token.content), found)
    problems = () if deep is None else (deep,)
    return Body(tuple(found["code"]), tuple(found["link"]), tuple(found["comment"]), problems)


def _too_deep(line: int) -> Problem:
    return Problem("md-nesting", line, 1, f"nested deeper than {NESTING_LIMIT}: what is inside cannot be checked")


class _Places:
    """Where the pieces of a block's content are in the file."""

    def __init__(self, lines: list[str], first_line: int) -> None:
        self.lines = lines
        self.first_line = first_line
        self.cursor: dict[int, int] = {}

    def take(self, content: str, start: int, pieces: list[Piece], found: dict[str, list[Span]]) -> None:
        row, begin, end = start, 0, _line_end(content, 0)
        for piece in pieces:
            while end < piece.start:
                row, begin, end = row + 1, end + 1, _line_end(content, end + 1)
            row_here = min(row, len(self.lines) - 1)
            rest = content[piece.start : min(end, piece.end)]
            column = self._column(row_here, rest.rstrip(), piece.start - begin)
            alone = _blanks_end(content, begin) == piece.start and _blanks_end(content, piece.end) >= end
            found[piece.kind].append(Span(piece.text, row_here + self.first_line, column + 1, alone))

    def _column(self, row: int, piece: str, fallback: int) -> int:
        """A block's content lacks what stands before it in the line (quote and list marks, table cells)."""
        line = self.lines[row]
        start = self.cursor.get(row, 0)
        for wanted in (piece, piece.replace("|", "\\|"), piece[:1]):
            at = line.find(wanted, start)
            if at >= 0:
                self.cursor[row] = at + len(wanted)
                return at
        return fallback


def _blanks_end(content: str, at: int) -> int:
    """Where the white space at `at` ends (a copy of the line for each of its spans would be quadratic)."""
    found = _BLANKS.match(content, at)
    assert found is not None
    return found.end()


def _line_end(content: str, at: int) -> int:
    end = content.find("\n", at)
    return len(content) if end < 0 else end


@cache
def _parser() -> Any:
    """Blocks only: the inline text is read by `inline.scan`."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"maxNesting": NESTING_LIMIT}).enable("table")
    made.core.ruler.disable(["inline", "text_join"])
    reference = next(rule.fn for rule in made.block.ruler.__rules__ if rule.name == "reference")

    def not_footnotes(state: Any, start: int, end: int, silent: bool) -> bool:
        begin = state.bMarks[start] + state.tShift[start]
        return not state.src.startswith("[^", begin) and bool(reference(state, start, end, silent))

    made.block.ruler.at("reference", not_footnotes)
    made.core.ruler.at("block", _bounded)
    ruled = next(rule.fn for rule in made.block.ruler.__rules__ if rule.name == "hr")

    def counted(state: Any, start: int, end: int, silent: bool) -> bool:
        state.visits += 1
        if state.visits > VISIT_LIMIT:
            raise _TooMuch
        return bool(ruled(state, start, end, silent))

    made.block.ruler.at("hr", counted, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    return made


class _TooMuch(Exception):
    """A page whose blocks would take too long: narrow rows of a wide table, lists in lists."""


def _bounded(state: Any) -> None:
    """The blocks of a page, but for one that never ends."""
    from markdown_it.rules_block import StateBlock

    class Bounded(StateBlock):
        visits = 0

        def push(self, *args: Any) -> Any:
            if len(self.tokens) >= BLOCK_LIMIT:
                raise _TooMuch
            return super().push(*args)

    blocks = Bounded(state.src, state.md, state.env, state.tokens)
    state.md.block.tokenize(blocks, blocks.line, blocks.lineMax)
