"""A message as sentences with their places. Code, quotations, links and foreign trailers claim nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktxkit.base.rules.text import LOOK_ALIKES

LINE_LIMIT = 2000  # characters of a line that are read
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_TRAILER = re.compile(
    r"(signed-off-by|co-authored-by|tested-by|reviewed-by|acked-by|reported-by|suggested-by|cc|fixes|closes|refs?|see|link|"
    r"bug|closes-bug|related-bug|partial-bug|implements|change-id|depends-on|reviewed-on|git-svn-id|url|https?)\s*:",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_BOX = re.compile(r"\s*(?:(?:[-*+\u2022]|\d{1,3}[.)])\s+)?(?:\[(?P<tick>[ xX]?)\](?!\()|\u2610|\u2611|\u2612)\s+")
_OPEN = re.compile(r"\[ ?\]|\u2610")
_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!cf\.)(?<!etc\.)[\"')\]]*\s+(?=[A-Z0-9\"'(`\[])|\s+[\u2013\u2014]\s+"
)
_MASKED = (
    re.compile(r"`[^`\n]*`"),
    re.compile(r'"[^"\n]{1,300}"'),
    re.compile(r"(?<![A-Za-z0-9])'[^'\n]{2,300}'(?![A-Za-z0-9])"),
    re.compile(r"“[^”\n]*”"),
    re.compile(r"\bhttps?://\S+"),
    re.compile(r"<[^>\n]*>"),
    re.compile(r"\[(?:skip|no) (?:ci|actions)\]|\[(?:ci|actions) skip\]", re.IGNORECASE),  # told to a server
)


_SPACES = re.compile(r"\s+")
_MARKS = (
    re.compile(r"(?<![\w*/])(?P<mark>\*{1,3})(?=\w)[^*\n]+(?<=[\w.,;:!])(?P<end>(?P=mark))(?![\w*/])"),
    re.compile(r"(?<![\w/])(?P<mark>_{1,3})(?=[A-Za-z])[^_\n]+(?<=[\w.,;:!])(?P<end>(?P=mark))(?![\w/])"),
    re.compile(
        r"(?<![`\w])(?P<mark>`)(?:all|every|tests?|suite|pytest|pass(?:es|ed)?|green)(?P<end>`)(?![`\w])", re.IGNORECASE
    ),
)


@dataclass(frozen=True)
class Sentence:
    """`plain` is the text with quoted and coded parts blanked out, of the same length; line and column count from 1.

    `origin` has the offset in the paragraph of each character; `places` those at which each of its lines begins.
    """

    text: str
    plain: str
    subject: bool
    origin: Sequence[int]
    places: Sequence[tuple[int, int]]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in the text."""
        found = self.origin[offset]
        begun = [at for at in self.places if at[0] <= found][-1]
        return begun[1], found - begun[0] + 1


def sentences(message: str) -> Iterator[Sentence]:
    """The sentences of a message, in order. The first line is its subject."""
    for paragraph in _paragraphs(message):
        text = " ".join(line for _, line in paragraph)
        starts, at = [], 0
        for number, line in paragraph:
            starts.append((at, number))
            at += len(line) + 1
        text, origin = normalised(text)
        masked = mask(text)
        begin = 0
        for cut in [*_END.finditer(masked), None]:
            end = cut.start() if cut else len(text)
            if text[begin:end].strip():
                subject = [line for at, line in starts if at <= origin[begin]][-1] == 1
                yield Sentence(text[begin:end], masked[begin:end], subject, origin[begin:end], starts)
            begin = cut.end() if cut else end


def normalised(text: str) -> tuple[str, list[int]]:
    """The text with one space for any white space and without emphasis; and where each of its characters stood."""
    gone = {
        at
        for pattern in _MARKS
        for found in pattern.finditer(text)
        for group in ("mark", "end")
        for at in range(*found.span(group))
    }
    if not text.isascii():
        text = "".join(map(alike, text))
        gone.update(at for at, char in enumerate(text) if char == INVISIBLE)
    gone.update(at for found in _SPACES.finditer(text) for at in range(found.start() + 1, found.end()))
    kept = [at for at in range(len(text)) if at not in gone]
    return "".join(" " if text[at].isspace() else text[at] for at in kept), kept


INVISIBLE = "\u200b"


def alike(char: str) -> str:
    """The character that it looks like; what shows nothing is INVISIBLE. Always one character."""
    if char.isascii():
        return char
    if unicodedata.category(char) in ("Cf", "Mn"):
        return INVISIBLE
    plain = unicodedata.normalize("NFKC", char).translate(LOOK_ALIKES)
    return plain if len(plain) == 1 else char


def mask(text: str) -> str:
    """The text with what is quoted, coded or linked blanked out."""
    for pattern in _MASKED:
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def _paragraphs(message: str) -> Iterator[list[tuple[int, str]]]:
    """Runs of lines that belong together. A list item, a header and an indented block begin a new one.

    One that begins with a box that nobody ticked is left out: it says what is still to be done.
    """
    for found in _runs(message):
        box = _BOX.match(found[0][1])
        if box is None or not _OPEN.search(box[0]):
            yield [(found[0][0], _blank(found[0][1])), *found[1:]]


def _runs(message: str) -> Iterator[list[tuple[int, str]]]:
    open_fence, found = "", list[tuple[int, str]]()
    for number, raw in enumerate(message.split("\n"), start=1):
        line = raw.rstrip("\r")[:LINE_LIMIT]
        fence = _FENCE.match(line)
        if open_fence or fence:
            open_fence = (
                "" if open_fence and fence and fence[1] == open_fence else open_fence or (fence[1] if fence else "")
            )
            line = ""
        skipped = not line.strip() or line.lstrip().startswith((">", "|")) or _TRAILER.match(line) or _code(line, found)
        if found and (skipped or _LIST.match(line) or _BOX.match(line) or number == 2):
            yield found
            found = []
        if not skipped:
            found.append((number, line))
    if found:
        yield found


def _blank(line: str) -> str:
    """A list item's marker and its box are no part of the sentence; their place is kept."""
    marker = _BOX.match(line) or _LIST.match(line)
    return " " * marker.end() + line[marker.end() :] if marker else line


def _code(line: str, before: list[tuple[int, str]]) -> bool:
    """An indented block is code or output, unless it goes on with a list item."""
    indented = line.startswith(("    ", "\t"))
    goes_on = bool(before) and (before[-1][1].startswith("  ") or _LIST.match(before[-1][1]) is not None)
    return indented and not _LIST.match(line) and not goes_on
