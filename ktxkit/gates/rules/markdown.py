"""Inline text of CommonMark, read in linear time for what the gates ask: code spans, page links, comments.

The precedence of the specification (0.31, section 6): backslash escapes, code spans, autolinks and HTML first, then
links with the bracket stack of its appendix. The destination and the label of a link and the alternative text of an
image hold no code. Positions count characters from 0.

What a CommonMark body says: code spans, page links and comments, each with its place.

Blocks by markdown-it-py: preset commonmark with tables, `maxNesting` 200 (the preset's 20 silently drops what is
inside), labels that start with `^` kept out of the link definitions (they are footnotes). Inline text by `inline.scan`,
which is linear where markdown-it is quadratic and knows the place of each span. Lines and columns count from 1, in
characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from typing import Any

from ktxkit.base.rules.strict_yaml import YamlProblem

LABEL_LIMIT = 999  # characters of a link label, by the specification
PAREN_LIMIT = 32  # nested parentheses in a destination

_SPECIAL = re.compile(r"[\\`<\[\]]|!(?=\[)")
_TICKS = re.compile("`+")
_AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\x00-\x20]*>")
_MAIL = re.compile(
    r"<[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*>"
)
_ATTRIBUTE = r"""(?:\s+[a-zA-Z_:][a-zA-Z0-9:._-]*(?:\s*=\s*(?:[^"'=<>`\x00-\x20]+|'[^']*'|"[^"]*"))?)"""
_TAG = re.compile(rf"<[A-Za-z][A-Za-z0-9-]*{_ATTRIBUTE}*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>")
_WIKI_LINK = re.compile(r"\[\[([^\[\]\n|]+)(?:\|[^\[\]\n]*)?\]\]")
_LABEL = re.compile(r"\[((?:[^\\\[\]]|\\.){0,999})\]", re.DOTALL)
_POINTED = re.compile(r"<(?:[^<>\n\\]|\\.)*>")
_TITLE = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)""", re.DOTALL)
_SPACE = re.compile(r"[ \t\n]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """`kind` is code, link (`[[page]]`) or comment; `text` what it holds; `start` and `end` where it stands."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class _Bracket:
    """An open bracket: where its text starts, whether an image's, and how many pieces were found before it."""

    start: int
    image: bool
    pieces: int
    around: bool = False  # whether another bracket stands in it: then its text is no label


def scan(text: str, labels: Container[str] = frozenset()) -> list[Piece]:
    """The pieces of one inline text, in order. `labels`: the normalised labels of the document's link definitions."""
    return _Scanner(text, labels).run()


def normalised(label: str) -> str:
    """A link label as it is compared: case folded, white space collapsed (CommonMark 6.3)."""
    return " ".join(label.split()).lower().upper()


def code_text(raw: str) -> str:
    """What a code span shows: line ends are spaces; one space at both ends is off unless all is space."""
    text = raw.replace("\n", " ")
    if len(text) > 2 and text[0] == text[-1] == " " and text.strip(" "):
        return text[1:-1]
    return text


def html_pieces(content: str) -> list[Piece]:
    """The comments of a block of HTML."""
    found = []
    at = content.find("<!--")
    while at >= 0 and (end := content.find("-->", at + 4)) >= 0:
        found.append(Piece("comment", content[at + 4 : end].strip(), at, end + 3))
        at = content.find("<!--", end + 3)
    return found


class _Scanner:
    def __init__(self, text: str, labels: Container[str]) -> None:
        self.text = text
        self.labels = labels
        self.pieces: list[Piece] = []
        self.brackets: list[_Bracket] = []
        self.dead = 0  # brackets below this height that are no image's cannot open a link: links do not nest
        self.runs: dict[int, list[int]] | None = None
        self.absent: set[str] = set()  # closers that do not occur any more

    def run(self) -> list[Piece]:
        position = 0
        while found := _SPECIAL.search(self.text, position):
            at = found.start()
            char = found[0]
            if char == "\\":
                position = at + 2
            elif char == "`":
                position = self.ticks(at)
            elif char == "<":
                position = self.pointed(at)
            elif char == "]":
                position = self.close(at)
            else:
                position = self.open(at, image=char == "!")
        return self.pieces

    def ticks(self, at: int) -> int:
        found = _TICKS.match(self.text, at)
        assert found is not None
        begin = found.end()
        if self.runs is None:
            self.runs = {}
            for run in _TICKS.finditer(self.text, at):
                self.runs.setdefault(run.end() - run.start(), []).append(run.start())
        starts = self.runs.get(begin - at, [])
        index = bisect_right(starts, at)
        if index == len(starts):
            return begin
        end = starts[index]
        self.pieces.append(Piece("code", code_text(self.text[begin:end]), at, end + begin - at))
        return end + begin - at

    def pointed(self, at: int) -> int:
        for pattern in (_AUTOLINK, _MAIL, _TAG):
            if found := pattern.match(self.text, at):
                return found.end()
        if self.text.startswith("<!--", at):
            return self.comment(at)
        for opener, closer in (("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">")):
            if self.text.startswith(opener, at) and (opener != "<!" or self.text[at + 2 : at + 3].isascii()):
                if opener == "<!" and not self.text[at + 2 : at + 3].isalpha():
                    continue
                end = self.find(closer, at + len(opener))
                return at + 1 if end < 0 else end + len(closer)
        return at + 1

    def comment(self, at: int) -> int:
        for short in ("<!-->", "<!--->"):
            if self.text.startswith(short, at):
                return at + len(short)
        end = self.find("-->", at + 4)
        if end < 0:
            return at + 1
        self.pieces.append(Piece("comment", self.text[at + 4 : end].strip(), at, end + 3))
        return end + 3

    def find(self, closer: str, at: int) -> int:
        """Where a closer stands, looked for once only where there is none."""
        if closer in self.absent:
            return -1
        end = self.text.find(closer, at)
        if end < 0:
            self.absent.add(closer)
        return end

    def open(self, at: int, *, image: bool) -> int:
        begin = at + (2 if image else 1)
        found = None if image else _WIKI_LINK.match(self.text, at)
        if found:
            self.pieces.append(Piece("link", found[1], at, found.end()))
            return found.end()
        self.brackets.append(_Bracket(begin, image, len(self.pieces)))
        return begin

    def close(self, at: int) -> int:
        if not self.brackets:
            return at + 1
        bracket = self.brackets.pop()
        height = len(self.brackets)
        if height:
            self.brackets[-1].around = True
        alive = bracket.image or height >= self.dead
        self.dead = min(self.dead, height)
        end = self.target(bracket, at) if alive else -1
        if end < 0:
            return at + 1
        if bracket.image:
            del self.pieces[bracket.pieces :]
        else:
            self.dead = height
        return end

    def target(self, bracket: _Bracket, at: int) -> int:
        """The end of the link whose text ends at `at`; -1 where it is none."""
        end = _destination(self.text, at + 1)
        if end >= 0:
            return end
        label, end = "", at + 1
        if found := _LABEL.match(self.text, at + 1):
            label, end = found[1], found.end()
        if not label and not bracket.around:
            label = self.text[bracket.start : min(at, bracket.start + LABEL_LIMIT + 1)]
        if len(label) > LABEL_LIMIT or normalised(label) not in self.labels:
            return -1
        return end


def _destination(text: str, at: int) -> int:
    """The end of `(destination "title")` at `at`; -1 where there is none."""
    if not text.startswith("(", at):
        return -1
    position = _skip(text, at + 1)
    pointed = _POINTED.match(text, position)
    if pointed:
        position = pointed.end()
    elif text.startswith("<", position):
        return -1
    else:
        position = _bare(text, position)
    after = _skip(text, position)
    if after > position and (title := _TITLE.match(text, after)):
        after = _skip(text, title.end())
    return after + 1 if text.startswith(")", after) else -1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


_BARE = re.compile(r"[^\\()\x00-\x20\x7f]+|\\[^\x00-\x20]|\\|[()]")


def _bare(text: str, at: int) -> int:
    """The end of a destination without pointed brackets: balanced parentheses, no space, no control character."""
    depth = 0
    for found in _BARE.finditer(text, at):
        if found.start() != at:
            break
        if found[0] == "(":
            depth += 1
            if depth > PAREN_LIMIT:
                return at
        elif found[0] == ")":
            if depth == 0:
                return at
            depth -= 1
        at = found.end()
    return at


NESTING_LIMIT = 200
SIZE_LIMIT = 256 * 1024  # bytes of a page
VISIT_LIMIT = 50_000  # times that a line is looked at: once, but in quotes in quotes once for each
BLOCK_LIMIT = 50_000  # tokens of a page's blocks (a paragraph has 3, a list item 5, a cell 3): half a second

_LINE = re.compile("\r\n|\n|\r")
_BLANKS = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class InlineSpan:
    """A piece of inline text and where it starts (a code span: at its first backtick). `alone` on its line."""

    text: str
    line: int
    column: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What was found. Code spans are as CommonMark renders them: line ends are spaces, one space at each end is off."""

    codes: tuple[InlineSpan, ...] = ()
    links: tuple[InlineSpan, ...] = ()
    comments: tuple[InlineSpan, ...] = ()
    problems: tuple[YamlProblem, ...] = ()


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
        return Body(problems=(YamlProblem("md-size", first_line, 1, message, "split the page"),))
    labels = env.get("references", {}).keys()
    found: dict[str, list[InlineSpan]] = {"code": [], "link": [], "comment": []}
    places = _Places(lines, first_line)
    deep: YamlProblem | None = None
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


def _too_deep(line: int) -> YamlProblem:
    return YamlProblem("md-nesting", line, 1, f"nested deeper than {NESTING_LIMIT}: what is inside cannot be checked")


class _Places:
    """Where the pieces of a block's content are in the file."""

    def __init__(self, lines: list[str], first_line: int) -> None:
        self.lines = lines
        self.first_line = first_line
        self.cursor: dict[int, int] = {}

    def take(self, content: str, start: int, pieces: list[Piece], spans: dict[str, list[InlineSpan]]) -> None:
        row, begin, end = start, 0, _line_end(content, 0)
        for piece in pieces:
            while end < piece.start:
                row, begin, end = row + 1, end + 1, _line_end(content, end + 1)
            row_here = min(row, len(self.lines) - 1)
            rest = content[piece.start : min(end, piece.end)]
            column = self._column(row_here, rest.rstrip(), piece.start - begin)
            alone = _blanks_end(content, begin) == piece.start and _blanks_end(content, piece.end) >= end
            spans[piece.kind].append(InlineSpan(piece.text, row_here + self.first_line, column + 1, alone))

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
