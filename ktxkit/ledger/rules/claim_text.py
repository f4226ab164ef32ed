"""A message as sentences with their places. Code, quotations, links and foreign trailers claim nothing.

The words of a sentence as letters, one for each part of speech that a claim about tests is made of.

`The whole suite is still green` is `DQSBAJ`; a word that says nothing here is `X`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktxkit.base.rules.named import NamedTuple
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


SPELLED = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
OTHER = "X"
LETTERS = {
    "T": "tests testcases unittests doctests unit-tests specs ut uts",  # things that pass
    "t": "test testcase testing test-case doctest",
    "S": "suite suites testsuite testsuites test-suite test-suites",
    "r": "run runs execution executions",
    "R": "rest remainder",
    "P": "pytest py.test tox nox ctest jest vitest mocha rspec phpunit nextest",
    "L": "lint linter linters linting mypy ruff flake8 pyright typecheck type-checks typechecks build builds docs"
    " checks",
    "Q": "all every each both full whole entire complete single last",
    "D": "the our my its these those this",
    "a": "a an",
    "o": "of",
    "c": "and & plus",
    "u": "to",
    "K": "unit integration functional regression acceptance smoke e2e end-to-end backend frontend new existing"
    " old added related relevant affected remaining other python pytest doc local previously type cargo jest"
    " latest newest overall npm javascript rust",
    "V": "pass passes passed passing succeed succeeds succeeded succeeding work works worked working",
    "J": "green ok okay fine good clean successful happy passing success",
    "M": "successfully cleanly well through",
    "A": "now still again also then currently finally completely fully just already indeed locally once always yet",
    "B": "is are was were be been being stay stays stayed remain remains remained keep keeps kept look looks looked"
    " went go goes come comes came turn turns turned getting got says say",
    "d": "do does did",
    "H": "have has had",
    "W": "ran running executed execute executes finish finishes finished complete completes completed end"
    " ends ended rerun re-run reran re-ran executing done",
    "b": "back out",
    "k": "continue continues continued",
    "N": "no zero without nothing none 0",
    "n": "none-of",
    "F": "failure failures failing failed fail fails error errors broken broke break breaks red"
    " problem problems issue issues fault faults regressions",
    "p": "they it everything them which",
    "i": "i we",
    "s": "status result results outcome state verdict",
    "y": "yes true",
}  # fmt: skip
NUMBER_WORDS = frozenset(SPELLED[1:])
_LETTER = {word: letter for letter, words in reversed(LETTERS.items()) for word in words.split()}
_COMMAND = (
    r"(?:(?:uv|poetry|pipenv|hatch|pdm|rye)\srun\s)?(?:make\s(?:tests?|check|lint)|cargo\s(?:nextest\srun|test)|go\stest(?:\s\./\.\.\.)?|(?:npm|yarn|pnpm|bun)(?:\srun)?\stest|"
    r"(?:mvn|gradle|\./gradlew|bazel|dotnet|mix|swift|rake|php\sartisan)\stest|python3?\s-m\s(?:pytest|unittest(?:\sdiscover)?)|"
    r"(?:pytest|py\.test|tox|nox|ctest|jest|vitest))"
)
TOKEN = re.compile(
    rf"(?P<command>`{_COMMAND}[^`\n]{{0,80}}`|\b{_COMMAND}(?:\s-[emknp]\s[\w./,-]+|\s-{{1,2}}[a-z][\w=-]*)*(?![\w-]))"
    r"|(?P<path>`?(?:[\w.-]+/)+[\w.-]+`?|`?(?:test_\w+|\w+_test)\.py(?:::\w+)*`?)"
    r"|(?P<percent>\b100\s?(?:%|percent\b))|(?P<none>\bnot\s(?:a\ssingle|one|any|a)\b|\bno\smore\b)|(?P<recent>\bmost\srecent\b)|(?P<cases>\btest[\s-](?:cases|files|modules|classes)\b)|(?P<case>\btest[\s-](?:case|file|module|class)\b)"
    r"|(?P<good>:(?:white_check_mark|heavy_check_mark|green_circle|tada):|[\u2705\u2714\u2713\u2611\U0001f7e2\U0001f389\U0001f44d]\ufe0f?)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?![\w]|\.\d)|\d+(?![\w]|\.\d))|(?P<word>\w+(?:['\u2019.-]\w+)*)|(?P<other>\S)",
    re.IGNORECASE,
)
_LEET = str.maketrans("01345$@|", "oleassal")


OWNED = re.compile(r"\s(?:\w+\s)?(?:tests?|cases|runs?|status|results?|outcome|output|suites?)\b", re.IGNORECASE)
KINDS = {"percent": "Q", "good": "E", "path": OTHER, "none": "N", "cases": "T", "case": "t", "recent": "K"}


class Word(NamedTuple):
    """A word of a sentence, with where it stands in it."""

    text: str
    start: int
    end: int


def _letter(word: str) -> str:
    if word in ("IT", "ITs"):
        return "T"
    lower = word.lower()
    found = _LETTER.get(lower) or ("n" if lower in NUMBER_WORDS else "")
    if not found and any(char in "01345$@|" for char in lower) and not lower.isdigit():
        found = _LETTER.get(lower.translate(_LEET), "")  # pa5s
    if not found and "I" in word[1:]:
        found = _LETTER.get(word.replace("I", "l").lower(), "")  # AII
    return found or OTHER


def words(text: str, plain: str) -> tuple[str, list[Word]]:
    """The letters of a sentence and its words; what is quoted or code is another word, unless it is a test command."""
    letters, found = [], []
    for token in TOKEN.finditer(text):
        kind = token.lastgroup or ""
        hidden = not plain[token.start() : token.end()].strip()
        if hidden and not (kind == "command" and token[0].startswith("`")):
            letter = OTHER
        elif kind == "command":
            letter = "P"
        elif kind == "word":
            letter = _letter(token[0])
        elif kind == "number":
            letter = "N" if token[0] == "0" else "n"
        elif kind in KINDS:
            letter = KINDS[kind]
        else:
            letter = {"\u2013": "-", "\u2014": "-", "&": "c", "+": "c", "!": "."}.get(token[0], token[0])
            letter = letter if letter in ",;:.-=()[]/%c" else "~"
        parts = _parts(token[0], token.start(), text) if letter == OTHER and kind == "word" else []
        found += parts or [Word(token[0], token.start(), token.end())]
        letters += [_letter(part.text) for part in parts] or [letter]
    return "".join(letters), found


def _parts(word: str, at: int, text: str) -> list[Word]:
    """The words of a trailer's name (`Tests-Passed`), if they are all known; `suite's` is `suite is`."""
    short = re.fullmatch(r"(\w+)(['\u2019](?:s|re))", word, re.IGNORECASE)
    if short is not None and _letter(short[1]) in "TSPtp" and not OWNED.match(text, at + len(word)):
        middle = at + len(short[1])
        return [Word(short[1], at, middle), Word("is", middle, at + len(word))]
    parts = [Word(part[0], at + part.start(), at + part.end()) for part in re.finditer(r"[^-]+", word)]
    return parts if len(parts) > 1 and all(_letter(part.text) != OTHER for part in parts) else []


def number(text: str) -> int:
    word = text.strip().lower()
    if word in SPELLED:
        return SPELLED.index(word)
    return 0 if word in ("no", "none") else int(word.replace(",", ""))
