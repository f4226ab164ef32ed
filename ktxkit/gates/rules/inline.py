"""Inline text of CommonMark, read in linear time for what the gates ask: code spans, links of all kinds, comments.

The precedence of the specification (0.31, section 6): backslash escapes, code spans, autolinks and HTML first, then
links with the bracket stack of its appendix. The destination and the label of a link and the alternative text of an
image hold no code. Positions count characters from 0.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape

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
ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}  # `lower` makes some letters longer
_CODE = re.compile(r"<code(?:\s[^<>]*)?>", re.IGNORECASE)
_LEADS = re.compile(  # where a tag of HTML leads, as a link or an image
    r"""<(?:a|img|source|video)\b(?:\s[^<>]*?)?\s(?:href|src)\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'=<>`]+))""",
    re.IGNORECASE,
)
_VERBATIM = re.compile(r"<(pre|script|style|textarea)\b|<!--", re.IGNORECASE)
ANY_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Piece:
    """`kind` is code, link (`[[page]]`), comment, html (`<code>`) or target (where a Markdown link or image leads);
    `text` what it holds; `start` and `end` where it stands. Of a target `label` is what a reader sees of it.
    """

    kind: str
    text: str
    start: int
    end: int
    label: str = ""


@dataclass(slots=True)
class _Bracket:
    """An open bracket: where its text starts, whether an image's, and how many pieces were found before it."""

    start: int
    image: bool
    pieces: int
    around: bool = False  # whether another bracket stands in it: then its text is no label


def scan(text: str, labels: Mapping[str, str] | None = None) -> list[Piece]:
    """The pieces of one inline text, in order. `labels`: where the document's link definitions lead, by normalised
    label."""
    return sorted(_Scanner(text, {} if labels is None else labels).run(), key=lambda piece: piece.start)


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
    """The comments of a block of HTML, and its `<code>` outside of them and of `<pre>`."""
    found = []
    at = 0
    lower = content.translate(_LOWER)
    while opener := _next_html(content, at):
        closer = "-->" if opener[0] == "<!--" else f"</{opener[1] or 'code'}"
        end = lower.find(closer.lower(), opener.end())
        if opener[0] == "<!--" and end >= 0:
            found.append(Piece("comment", content[opener.end() : end].strip(), opener.start(), end + 3))
        elif leads := _LEADS.match(opener[0]):
            found.append(_led(leads, opener.start(), opener.end()))
            end = -1
        elif opener[0].lower().startswith("<code") and end >= 0:
            found.append(Piece("html", html_text(content[opener.end() : end]), opener.start(), end))
        at = opener.end() if end < 0 else end + len(closer)
    return found


_NEXT_HTML = re.compile(rf"{_VERBATIM.pattern}|{_CODE.pattern}|{_LEADS.pattern}", re.IGNORECASE)


def _led(leads: re.Match[str], start: int, end: int) -> Piece:
    """A target in HTML; nothing of it is shown."""
    return Piece("target", unescape(leads[1] or leads[2] or leads[3] or ""), start, end)


def _next_html(content: str, at: int) -> re.Match[str] | None:
    return _NEXT_HTML.search(content, at)


def html_text(inner: str) -> str:
    """What a reader sees of HTML inside an element."""
    return " ".join(unescape(ANY_TAG.sub("", inner)).split())


def target_text(raw: str) -> str:
    """A link's destination without its brackets, escapes and entities (CommonMark 6.3)."""
    bare = raw[1:-1] if raw.startswith("<") else raw
    return unescape(ESCAPED.sub(lambda found: f"&#{ord(found[1])};", bare))


class _Scanner:
    def __init__(self, text: str, labels: Mapping[str, str]) -> None:
        self.text = text
        self.labels = labels
        self.pieces: list[Piece] = []
        self.brackets: list[_Bracket] = []
        self.dead = 0  # brackets below this height that are no image's cannot open a link: links do not nest
        self.runs: dict[int, list[int]] | None = None
        self.absent: set[str] = set()  # closers that do not occur any more
        self.lower: str | None = None

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
        begin, end = self.span(at)
        if end < 0:
            return begin
        self.pieces.append(Piece("code", code_text(self.text[begin:end]), at, end + begin - at))
        return end + begin - at

    def span(self, at: int) -> tuple[int, int]:
        """Where the content of the code span that opens at `at` begins and ends; an end of -1 where none does."""
        found = _TICKS.match(self.text, at)
        assert found is not None
        begin = found.end()
        if self.runs is None:
            self.runs = {}
            for run in _TICKS.finditer(self.text, at):
                self.runs.setdefault(run.end() - run.start(), []).append(run.start())
        starts = self.runs.get(begin - at, [])
        index = bisect_right(starts, at)
        return begin, -1 if index == len(starts) else starts[index]

    def pointed(self, at: int) -> int:
        for pattern in (_AUTOLINK, _MAIL, _TAG):
            if found := pattern.match(self.text, at):
                if pattern is _AUTOLINK:
                    self.pieces.append(Piece("target", found[0][1:-1], at, found.end(), found[0][1:-1]))
                elif _CODE.fullmatch(found[0]):
                    self.code(at, found.end())
                elif leads := _LEADS.match(found[0]):
                    self.pieces.append(_led(leads, at, found.end()))
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

    def code(self, at: int, begin: int) -> None:
        """The text of a `<code>` element, which is scanned as any other afterwards."""
        end = self.find("</code", begin)
        if end >= 0 and "`" not in self.text[begin:end]:
            self.pieces.append(Piece("html", html_text(self.text[begin:end]), at, end))

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
        """Where a closer stands, in letters of any case; looked for once only where there is none."""
        if closer in self.absent:
            return -1
        if self.lower is None:
            self.lower = self.text.translate(_LOWER)
        end = self.lower.find(closer, at)
        if end < 0:
            self.absent.add(closer)
        return end

    def open(self, at: int, *, image: bool) -> int:
        """A bracket. CommonMark knows no wiki links: what is in one is read on as any text in brackets."""
        begin = at + (2 if image else 1)
        found = _WIKI_LINK.match(self.text, begin - 1)
        if found and self.is_whole(found):
            self.pieces.append(Piece("link", found[1], begin - 1, found.end()))
        self.brackets.append(_Bracket(begin, image, len(self.pieces)))
        return begin

    def is_whole(self, link: re.Match[str]) -> bool:
        """Whether no code span reaches over the end of a wiki link, or stands in what it names."""
        at = link.start()
        while found := _TICKS.search(self.text, at, link.end()):
            begin, end = self.span(found.start())
            if end >= 0 and (found.start() < link.end(1) or end >= link.end() - 1):
                return False
            at = begin if end < 0 else end + begin - found.start()
        return True

    def close(self, at: int) -> int:
        if not self.brackets:
            return at + 1
        bracket = self.brackets.pop()
        height = len(self.brackets)
        if height:
            self.brackets[-1].around = True
        alive = bracket.image or height >= self.dead
        self.dead = min(self.dead, height)
        end, target = self.target(bracket, at) if alive else (-1, "")
        if end < 0:
            return at + 1
        if bracket.image:
            del self.pieces[bracket.pieces :]
        else:
            self.dead = height
        start = bracket.start - (2 if bracket.image else 1)
        self.pieces.append(Piece("target", target, start, end, self.text[bracket.start : at]))
        return end

    def target(self, bracket: _Bracket, at: int) -> tuple[int, str]:
        """The end of the link whose text ends at `at`, and where it leads; -1 where it is none."""
        end, raw = _destination(self.text, at + 1)
        if end >= 0:
            return end, target_text(raw)
        label, end = "", at + 1
        if found := _LABEL.match(self.text, at + 1):
            label, end = found[1], found.end()
        if not label and not bracket.around:
            label = self.text[bracket.start : min(at, bracket.start + LABEL_LIMIT + 1)]
        if len(label) > LABEL_LIMIT or normalised(label) not in self.labels:
            return -1, ""
        return end, self.labels[normalised(label)]


def _destination(text: str, at: int) -> tuple[int, str]:
    """The end of `(destination "title")` at `at`, and the destination as it is written; -1 where there is none."""
    if not text.startswith("(", at):
        return -1, ""
    start = _skip(text, at + 1)
    pointed = _POINTED.match(text, start)
    if pointed:
        position = pointed.end()
    elif text.startswith("<", start):
        return -1, ""
    else:
        position = _bare(text, start)
    after = _skip(text, position)
    if after > position and (title := _TITLE.match(text, after)):
        after = _skip(text, title.end())
    return (after + 1, text[start:position]) if text.startswith(")", after) else (-1, "")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


_BARE = re.compile(r"(?:[^\\()\x00-\x20\x7f]+|\\[^\x00-\x20]|\\)*([()])?")  # up to a parenthesis, and this


def _bare(text: str, at: int) -> int:
    """The end of a destination without pointed brackets: balanced parentheses, no space, no control character."""
    depth = 0
    for found in _BARE.finditer(text, at):
        if found.start() != at or found.end() == at:
            break
        if found[1] == "(":
            depth += 1
            if depth > PAREN_LIMIT:
                return found.start(1)
        elif found[1] == ")":
            if depth == 0:
                return found.start(1)
            depth -= 1
        at = found.end()
    return at
