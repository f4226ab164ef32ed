"""A wiki page: its front matter, what its CommonMark body says, and the facts that gates ask about.

Front matter is the block between `---` and `---` (or `...`) at the very start of a page. The opener is line 1 and
exactly `---` with blanks after it; CRLF, CR and a byte-order mark are taken. What is not closed is a problem, and so is
what looks like front matter after blank lines: no reader would see it.

A body's blocks are read by markdown-it-py: preset commonmark with tables and GFM's footnotes, `maxNesting` 200 (the
preset's 20 silently drops what is inside). Inline text by `inline.scan`, which is linear where markdown-it is quadratic
and knows the place of each span. Lines and columns count from 1, in characters.

Facts are plain JSON values, so that they can be kept by blob id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.plain_validity import Violation
from ktxkit.base.rules.strict_yaml import Node, YamlProblem
from ktxkit.gates.rules import source, spelling, suppressions, targets
from ktxkit.gates.rules.inline import Piece, html_pieces, scan

NESTING_LIMIT = 200
SIZE_LIMIT = 256 * 1024  # bytes of a page
VISIT_LIMIT = 50_000  # times that a line is looked at: once, but in quotes in quotes once for each
BLOCK_LIMIT = 50_000  # tokens of a page's blocks (a paragraph has 3, a list item 5, a cell 3): half a second

_LINE = re.compile("\r\n|\n|\r")
_BLANKS = re.compile(r"\s*")
_INDENT = re.compile(r"\n[ \t]+")
_ID = re.compile(r"""<[A-Za-z][^<>]*?\s(?:id|name)\s*=\s*["']?([^"'\s<>]+)""", re.IGNORECASE)
_HYPHENS = re.compile(r"-+[ \t]*(?:\n|\Z)")
_ONE_COLUMN = re.compile(r"(?:\|[ \t]*:?-+:?[ \t]*\|?|:?-+:?[ \t]*\||:-+:?|-+:)[ \t]*(?:\n|\Z)")
_BEHIND = "behind a link definition"  # of a parser's notes: the line after the newest one
_FOOTNOTE = re.compile(r"\[\^[^\]\s\x00]+\]:[ \t]*")


@dataclass(frozen=True, slots=True)
class InlineSpan:
    """A piece of inline text and where it starts (a code span: at its first backtick). `alone` on its line."""

    text: str
    line: int
    column: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What was found. Code spans are as CommonMark renders them: line ends are spaces, one space at each end is off.

    `html`: the text of `<code>` elements; `targets`: where Markdown's own links and images lead; `anchors`: the names
    of the page's headings, as GitHub makes them, and of its HTML.
    """

    codes: tuple[InlineSpan, ...] = ()
    links: tuple[InlineSpan, ...] = ()
    comments: tuple[InlineSpan, ...] = ()
    problems: tuple[YamlProblem, ...] = ()
    html: tuple[InlineSpan, ...] = ()
    targets: tuple[InlineSpan, ...] = ()
    anchors: tuple[str, ...] = ()


def read(text: str, first_line: int = 1) -> Body:
    """Read a body; `first_line` is the line in the file that its first line has. Never raises."""
    if not any(mark in text for mark in ("`", "[", "<", "#", "\n=", "\n-", "\r=", "\r-")):
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
    return _gathered(text, tokens, env.get("references", {}), _Positions(lines, first_line))


def _gathered(text: str, tokens: list[Any], references: Mapping[str, Any], places: _Positions) -> Body:
    """What the blocks hold. `references`: the link definitions by label, as the parser keeps them."""
    labels = {label: str(one["href"]) for label, one in references.items()}
    found: dict[str, list[InlineSpan]] = {kind: [] for kind in ("code", "link", "comment", "html", "target")}
    problems: list[YamlProblem] = []
    headings = _Headings(references)
    for before, token in zip([None, *tokens], tokens, strict=False):
        start = token.map[0] if token.map else 0
        if token.level >= NESTING_LIMIT - 1 and not problems:
            problems.append(_too_deep(places.first_line + start))
        if token.type == "inline":
            content = _INDENT.sub("\n", token.content)
            pieces = scan(content, labels)
            places.take(content, start, pieces, found)
            if before is not None and before.type == "heading_open":
                headings.take(content)
        elif token.type == "html_block":
            places.take(token.content, start, html_pieces(token.content), found)
    return Body(
        codes=tuple(found["code"]),
        links=tuple(found["link"]),
        comments=tuple(found["comment"]),
        problems=tuple(problems),
        html=tuple(found["html"]),
        targets=tuple(found["target"]),
        anchors=(*targets.slugs(headings.found), *(_ID.findall(text) if "<" in text else ())),
    )


_OWN_ID = re.compile(r"\s*\{:?\s*#([^\s}]+)[^}]*\}\s*\Z")
_MARKED = re.compile(r"[\\`*_~<&\[!]")  # what a heading without any of these says is its text
HEADING_LIMIT = 300  # characters of a heading that are read: nobody links to a longer one
HEADINGS_LIMIT = 64 * 1024  # characters of a page's headings in which markup is looked for


class _Headings:
    """The headings of a page as a reader sees them, each with the name that it gives itself (`{#name}`)."""

    def __init__(self, references: Mapping[str, Any]) -> None:
        self.references = references
        self.found: list[tuple[str, str]] = []
        self.left = HEADINGS_LIMIT

    def take(self, content: str) -> None:
        own = _OWN_ID.search(content[:HEADING_LIMIT])
        text = content[: own.start() if own else HEADING_LIMIT]
        if _MARKED.search(text) and self.left > 0:
            self.left -= len(text)
            tokens = _inline().parseInline(text, {"references": self.references})[0].children
            text = "".join("\n" if one.type[-5:] == "break" else one.content for one in tokens if _shows(one))
        self.found.append((text.strip(), own[1] if own else ""))


def _shows(token: Any) -> bool:
    return token.type in ("text", "code_inline", "softbreak", "hardbreak")


@cache
def _inline() -> Any:
    """Inline text as GitHub renders it, for headings: an anchor is made of what is shown."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark").enable("strikethrough")
    setattr(made, "validateLink", lambda url: True)  # noqa: B010 - every destination is a link to CommonMark
    return made


def _too_deep(line: int) -> YamlProblem:
    return YamlProblem("md-nesting", line, 1, f"nested deeper than {NESTING_LIMIT}: what is inside cannot be checked")


class _Positions:
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
    as_github(made)
    made.core.ruler.at("block", _bounded)
    ruled = next(rule.fn for rule in made.block.ruler.__rules__ if rule.name == "hr")

    def counted(state: Any, start: int, end: int, silent: bool) -> bool:
        state.visits += 1
        if state.visits > VISIT_LIMIT:
            raise _TooMuch
        return bool(ruled(state, start, end, silent))

    made.block.ruler.at("hr", counted, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    return made


def as_github(parser: Any) -> None:
    """Teach a parser what cmark-gfm does with blocks: footnotes; a line of hyphens makes a heading, never a table; and
    lines that are indented behind a link definition are no code: it was the beginning of a paragraph, which they
    continue."""
    parser.block.ruler.before("reference", "footnote", _footnote, {"alt": ["paragraph", "reference"]})
    rules = {rule.name: rule.fn for rule in parser.block.ruler.__rules__}
    others = {rule.name: {"alt": rule.alt} for rule in parser.block.ruler.__rules__}
    parser.block.ruler.at("table", _as_tables(rules["table"], parser.block.ruler), others["table"])
    for name in ("reference", "lheading"):
        parser.block.ruler.at(name, _goes_on(rules[name]), others[name])
    parser.block.ruler.at(
        "code", lambda state, start, *rest: not _is_behind(state, start) and rules["code"](state, start, *rest)
    )


def _as_tables(rule: Callable[..., bool], ruler: Any) -> Callable[..., bool]:
    """The rule of tables, but for what is a heading with a line of hyphens below it, and with those of one column
    whose head has no bar: it gets one."""

    def table(state: Any, start: int, end: int, silent: bool) -> bool:
        if start + 1 >= end or _HYPHENS.match(state.src, state.bMarks[start + 1] + state.tShift[start + 1]):
            return False
        if rule(state, start, end, silent):
            return True
        begin, stop = state.bMarks[start] + state.tShift[start], state.eMarks[start]
        if not _ONE_COLUMN.match(state.src, state.bMarks[start + 1] + state.tShift[start + 1]):
            return False
        others = (one for one in ruler.getRules("paragraph") if one is not table)
        if "|" in state.src[begin:stop] or any(one(state, start, end, True) for one in others):
            return False
        was = state.src, state.bMarks[start], state.tShift[start]
        state.src += "|" + state.src[begin:stop]
        state.bMarks[start], state.tShift[start], state.eMarks[start] = len(was[0]), 0, len(state.src)
        found = rule(state, start, end, silent)
        state.src, state.bMarks[start], state.tShift[start] = was
        state.eMarks[start] = stop
        return found

    return table


def _is_behind(state: Any, line: int) -> bool:
    """Whether the line before is the last one of a link definition."""
    return bool(state.env.get(_BEHIND) == line)


def _goes_on(rule: Callable[..., bool]) -> Callable[..., bool]:
    """The rule, for which a line behind a link definition is not indented."""

    def read(state: Any, start: int, end: int, silent: bool) -> bool:
        indent = state.sCount[start]
        if _is_behind(state, start):
            state.sCount[start] = min(indent, state.blkIndent)
        found = rule(state, start, end, silent)
        state.sCount[start] = indent
        if found and not silent and rule.__name__ == "reference":
            state.env[_BEHIND] = state.line
        return found

    return read


def _footnote(state: Any, start: int, end: int, silent: bool) -> bool:
    """A definition of a footnote (GFM): what is indented by four below it is of it, as in a list item."""
    begin, stop = state.bMarks[start] + state.tShift[start], state.eMarks[start]
    if state.is_code_block(start):
        return False
    found = _FOOTNOTE.match(state.src, begin, stop)
    if found is None:
        return False
    if silent:
        return True
    was = state.bMarks[start], state.tShift[start], state.sCount[start], state.blkIndent, state.parentType
    token = state.push("footnote_open", "", 1)
    token.map = [start, end]
    state.bMarks[start], state.tShift[start] = found.end(), 0
    state.blkIndent += 4
    state.sCount[start] = state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, start, end)
    token.map[1] = state.line
    state.bMarks[start], state.tShift[start], state.sCount[start], state.blkIndent, state.parentType = was
    state.push("footnote_close", "", -1)
    return True


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
    problem: YamlProblem | None = None


def split(text: str) -> Split:
    """Split a page whose byte-order mark is off. Never raises."""
    whole = strict_yaml.lines(text)
    bare = [line.rstrip("\r\n") for line in whole]
    if not bare or not _OPENER.match(bare[0]):
        return Split(None, 0, 0, text, 1, 0, _displaced(bare))
    closer = next((n for n, line in enumerate(bare[1:], 1) if _CLOSER.match(line)), None)
    start = len(whole[0])
    if closer is None:
        problem = YamlProblem(
            "front-matter-unclosed", 1, 1, "front matter starts here and never ends", "add a line ---"
        )
        return Split(None, 2, start, "", len(whole) + 1, len(text), problem)
    front = "".join(whole[1:closer])
    body_offset = start + len(front) + len(whole[closer])
    return Split(front, 2, start, text[body_offset:], closer + 2, body_offset)


def _displaced(bare: list[str]) -> YamlProblem | None:
    """Front matter that blank lines or blanks before it have pushed out of its place."""
    first = next((n for n, line in enumerate(bare[:_LEAD]) if line.strip()), None)
    if first is None or not _OPENER.match(bare[first].lstrip()) or first + 1 >= len(bare):
        return None
    if not _KEY.match(bare[first + 1].lstrip()):
        return None
    return YamlProblem(
        "front-matter-not-first",
        first + 1,
        len(bare[first]) - len(bare[first].lstrip()) + 1,
        "this looks like front matter but does not start the file, so that nobody reads it",
        "move --- to the first column of the first line",
    )


Facts = dict[str, Any]
Judge = Callable[[str, Any], Sequence[Violation]]

CONTRACT = "artifact-page"
LISTS = {"refs": "refs", "sl_refs": "slRefs", "tables": "tables"}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = re.compile(rf"{_NAME}\Z")
_FROM = re.compile(r"from:\s*(\S(?:.*\S)?)\s*\Z", re.DOTALL)
_LINES = re.compile(r"#L[0-9]+(?:-L?[0-9]+)?\Z")


def facts_of(data: bytes, judge: Judge) -> Facts:
    """The facts of a page. `judge` tells where a value departs from a contract. Never raises."""
    facts: Facts = {"kind": "page", "problems": [], "ignores": []}
    facts |= {"refs": [], "slRefs": [], "tables": [], "spans": [], "words": [], "links": [], "comments": []}
    facts |= {"targets": [], "anchors": []}
    text, problem = decode(data)
    if problem is not None:
        facts["problems"].append(_problem(problem))
        return facts
    parts = split(text)
    if parts.problem is not None:
        facts["problems"].append(_problem(parts.problem))
    elif parts.front is None:
        missing = YamlProblem("front-matter-missing", 1, 1, "no front matter", "start the page with --- and a summary")
        facts["problems"].append(_problem(missing))
    if parts.front is not None:
        _front(facts, parts, judge)
    _body(facts, parts)
    return facts


def decode(data: bytes) -> tuple[str, YamlProblem | None]:
    if len(data) > SIZE_LIMIT:
        return "", YamlProblem("md-size", 1, 1, f"{len(data)} bytes are more than the {SIZE_LIMIT} that are read")
    try:
        return data.decode("utf-8").removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        line, column = strict_yaml.position(data[: error.start].decode("utf-8", "replace").removeprefix("\ufeff"), None)
        return "", YamlProblem("md-encoding", line, column, f"not UTF-8: byte 0x{data[error.start]:02x}")


def _problem(problem: YamlProblem, shift: int = 0) -> list[Any]:
    return [problem.rule, problem.line + shift, problem.column, problem.message, problem.hint, problem.level]


def _front(facts: Facts, parts: Split, judge: Judge) -> None:
    assert parts.front is not None
    shift = parts.front_line - 1
    parsed = strict_yaml.read_text(parts.front)
    problems = list(parsed.problems)
    root = parsed.root
    if root is None and not problems:
        root = Node("scalar", 1, 1, 0, 0)  # nothing, or comments alone, between the two lines
    if root is not None:
        empty = root.kind == "scalar" and root.plain is None
        checked = Node("map", 1, 1, 0, 0) if empty else root
        problems += map(_softened, source.judged(CONTRACT, checked, judge, dates=source.PAGE_DATES))
        for key, kept in LISTS.items():
            node = root.get(key) if root.kind == "map" else None
            for item in node.values() if node is not None else ():
                if item.kind == "scalar" and isinstance(item.plain, str) and not item.dateish:
                    facts[kept].append([item.plain, item.line + shift, item.column])
        facts["ignores"] += suppressions.in_yaml(parts.front, parts.front_line, source.scalars(root))
    facts["problems"] += [_problem(problem, shift) for problem in problems]


def _softened(problem: YamlProblem) -> YamlProblem:
    """A key that nobody reads is a warning, unless it nearly is one that gates read: then the gate would be off."""
    if problem.rule != "schema-unknown-key" or any(f"{key!r}" in problem.hint for key in source.GATED_KEYS):
        return problem
    return problem._replace(level="warning")


def _body(facts: Facts, parts: Split) -> None:
    body = read(parts.body, parts.body_line)
    facts["problems"] += [_problem(problem) for problem in body.problems]
    for span in (*body.codes, *body.html):
        if spelling.could_refer(span.text):
            facts["spans"].append([span.text, span.line, span.column])
        elif _WORD.match(span.text):
            facts["words"].append([span.text, span.line, span.column])
    facts["links"] = [[span.text.strip(), span.line, span.column] for span in body.links]
    local = [span for span in body.targets if targets.is_kept(span.text)]
    facts["targets"] = [[span.text.strip(), span.line, span.column] for span in local]
    facts["anchors"] = list(dict.fromkeys(body.anchors))
    for span in body.comments:
        if found := _FROM.match(span.text):
            facts["comments"].append([_LINES.sub("", found[1]), span.line, span.column])
        else:
            facts["ignores"] += suppressions.in_comment(span.text, span.line, span.column, span.alone)
