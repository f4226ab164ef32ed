"""A message as sentences with their places. Code, quotations, links and foreign trailers claim nothing.

Where a clause begins and ends, and what takes back what it says.

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
SENTENCE_LIMIT = 4000  # characters; what is longer is no sentence
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_TRAILER = re.compile(
    r"(signed-off-by|co-authored-by|tested-by|reviewed-by|acked-by|reported-by|suggested-by|cc|fixes"
    r"|closes|refs?|see|link|"
    r"bug|closes-bug|related-bug|partial-bug|implements|change-id|depends-on|reviewed-on|git-svn-id|url|https?)\s*:",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_BOX = re.compile(r"\s*(?:(?:[-*+\u2022]|\d{1,3}[.)])\s+)?(?:\[(?P<tick>[ xX]?)\](?!\()|\u2610|\u2611|\u2612)\s+")
_OPEN = re.compile(r"\[ ?\]|\u2610")
FORMER = re.compile(r"\W*(?:before|previously|old|expected|wanted)\b[^:]{0,20}:\s*$", re.IGNORECASE)
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

    `origin` has the offset in the paragraph of each character; `places` those at which each of its lines begins;
    `heading` is the line with a colon that a list's item stands under.
    """

    text: str
    plain: str
    subject: bool
    origin: Sequence[int]
    places: Sequence[tuple[int, int]]
    heading: str = ""

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in the text."""
        found = self.origin[offset]
        begun = [at for at in self.places if at[0] <= found][-1]
        return begun[1], found - begun[0] + 1


def sentences(message: str) -> Iterator[Sentence]:
    """The sentences of a message, in order. The first line is its subject."""
    heading, typed = "", message.split("\n")
    for paragraph in _paragraphs(message):
        first = typed[paragraph[0][0] - 1]
        goes_on = (_LIST.match(first) and not _BOX.match(first)) or FORMER.match(heading)
        heading = heading if goes_on else ""
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
                yield Sentence(text[begin:end], masked[begin:end], subject, origin[begin:end], starts, heading)
            begin = cut.end() if cut else end
        heading = text if text.rstrip().endswith(":") else heading


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
    "K": "slow fast final unit integration functional regression acceptance smoke e2e end-to-end backend frontend new"
    " existing old added related relevant affected remaining other python pytest doc local previously type cargo jest"
    " latest newest overall npm javascript rust",
    "V": "pass passes passed passing succeed succeeds succeeded succeeding work works worked working",
    "J": "green ok okay fine good clean successful happy passing success",
    "M": "successfully cleanly well through",
    "A": "now still again also then currently finally completely fully just already indeed locally once always yet",
    "B": "is are was were be been being stay stays stayed remain remains remained keep keeps kept look looks looked"
    " went go goes come comes came turn turns turned getting got says say",
    "d": "do does did",
    "H": "have has had",
    "W": "ran looped repeated running executed execute executes finish finishes finished complete completes completed"
    " end ends ended rerun re-run reran re-ran executing done",
    "b": "back out",
    "k": "continue continues continued",
    "N": "no zero without nothing none 0",
    "n": "none-of",
    "F": "failure failures failing failed fail fails error errors broken broke break breaks red"
    " problem problems issue issues fault faults regressions",
    "z": "don't doesn't no-longer",
    "p": "they it everything them which",
    "i": "i we",
    "s": "status result results outcome state verdict",
    "y": "yes true",
}  # fmt: skip
NUMBER_WORDS = frozenset(SPELLED[1:])
_LETTER = {word: letter for letter, words in reversed(LETTERS.items()) for word in words.split()}
_COMMAND = (
    r"(?:(?:uv|poetry|pipenv|hatch|pdm|rye)\srun\s)?(?:make\s(?:tests?|check|lint)|cargo\s(?:nextest\srun"
    r"|test)|go\stest(?:\s\./\.\.\.)?|(?:npm|yarn|pnpm|bun)(?:\srun)?\stest|"
    r"(?:mvn|gradle|\./gradlew|bazel|dotnet|mix|swift|rake|php\sartisan)\stest|python3?\s-m\s(?:pytest"
    r"|unittest(?:\sdiscover)?)|"
    r"(?:pytest|py\.test|tox|nox|ctest|jest|vitest))"
)
TOKEN = re.compile(
    rf"(?P<command>`{_COMMAND}[^`\n]{{0,80}}`|\b{_COMMAND}(?:\s-[emknp]\s[\w./,-]+|\s-{{1,2}}[a-z][\w=-]*)*(?![\w-]))"
    r"|(?P<path>`?(?:[\w.-]+/)+[\w.-]+`?|`?(?:test_\w+|\w+_test)\.py(?:::\w+)*`?)"
    r"|(?P<percent>\b100\s?(?:%|percent\b))|(?P<none>\bnot\s(?:a\ssingle|one|any|a)\b|\bno\smore\b)"
    r"|(?P<longer>\bno\slonger\b)|(?P<recent>\bmost\srecent\b)|(?P<cases>\btest[\s-](?:cases|files|modules"
    r"|classes)\b)|(?P<case>\btest[\s-](?:case|file|module|class)\b)"
    r"|(?P<good>:(?:white_check_mark|heavy_check_mark|green_circle|tada):"
    r"|[\u2705\u2714\u2713\u2611\U0001f7e2\U0001f389\U0001f44d]\ufe0f?)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?![\w]|\.\d)|\d+(?![\w]|\.\d))|(?P<word>\w+(?:['\u2019.-]\w+)*)|(?P<other>\S)",
    re.IGNORECASE,
)
_LEET = str.maketrans("01345$@|", "oleassal")


OWNED = re.compile(r"\s(?:\w+\s)?(?:tests?|cases|runs?|status|results?|outcome|output|suites?)\b", re.IGNORECASE)
KINDS = {
    "percent": "Q",
    "good": "E",
    "path": OTHER,
    "none": "N",
    "longer": "z",
    "cases": "T",
    "case": "t",
    "recent": "K",
}


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


# -- where a clause begins and ends

_MACHINE = r"(?:my|our|this|the)\s(?:own\s)?(?:machine|laptop|box|side|end|computer|system|branch|commit|tree|revision|"
_MACHINE += r"version|head|final|current|latest)"
_CHANGE = (
    r"(?:this|these|that|the|my|our)(?:\s(?:new|final|last))?(?:\s(?:patch|change|changes|fix|fixes|commit"
    r"|branch|refactoring|"
    r"refactor|merge|rebase|rename|code|version))?"
)
TAIL = re.compile(
    r"\s*(?:$|[.,;:!)\]/\[&+*|~=}]|\((?!\))|#\d|[^\w\s\x00-\x7f]|-{1,2}\s|-$|100\s?%|\d+\s?/\s?\d+|in\s\d|"
    r"(?:and|but|so|again|now|too(?=\s*(?:$|[.,;)!]))|also|still|already|finally|locally|here|cleanly"
    r"|successfully|fine|ok|well|today|anyway|"
    r"afterwards|everywhere|throughout|except|then|while|both|when|if|unless|under|against|until|once)\b|"
    r"as\s(?:before|expected|always|usual|well|of\s(?:this|now))\b|at\s(?:last|once)\b|"
    rf"(?:on|from|in)\s{_MACHINE}\b|(?:with|after|since)\s{_CHANGE}(?=\s*(?:$|[^\w\s]|applied\b|in\b))"
    r"|(?:for\s(?:me|us|all|both)|this\stime)\b|"
    r"(?:with|under|using|via)\s(?:pytest|tox|nox|unittest)\b|with\s(?:success|it|them|no|zero|0|both)\b"
    r"|with(?:out)?\s(?:(?:any|a|the|further|more)\s)?(?:single\s)?"
    r"(?:change|modification|issue|problem|error|failure|fail|warning|trouble|regression)s?\b|without\sit\b|"
    r"(?:unchanged|unmodified|untouched)\b|end[\s-]to[\s-]end\b|from\s(?:start|beginning)\sto\s(?:end|finish)\b|"
    r"(?:(?:were|was|are)\s)?(?:left|observed|seen|found|reported|remain(?:s|ed|ing)?)(?=\s*(?:$|[.,;)!]"
    r"|in\sthe))|at\s(?:this|that)\s\w+\b|(?:both|each|every)\stimes?\b|twice\b|"
    r"(?:after|since|during|throughout|despite|even)\b|before\s(?:i|we|push\w*|commit\w*|this"
    r"|the\s(?:commit|push|merge|rebase))\b|"
    r"on\sthe\s(?!parent|previous|old|other|base|earlier|original)\w+\s(?:tree|commit|branch|head|state"
    r"|code|version)\b|on\s(?:(?:the|a)\s)?(?:first|second"
    r"|third|last|every|each|all|both|clean|fresh)\b|from\s(?:top|the\sfirst)\b|right\snow\b|"
    r"at\s(?:the\smoment|present)\b|for\snow\b|in\s(?:all|every|each)\s(?:\w+\s)?(?:environment|mode"
    r"|configuration|variant)s?\b|"
    r"in\s(?:full|total|both|order|any\sorder|random\sorder|parallel|sequence|the\ssuite)\b|across\s(?:the"
    r"|all)\b|every\b|any\s?(?:more|longer)\b|by\s(?:this|that|it|these|(?:the|my)\s(?:change|patch"
    r"|commit))s?\b)",
    re.IGNORECASE,
)
LABEL_TAIL = re.compile(
    r"\s*(?:$|[.,;!)\][|/]|\((?!\))|#\d|[^\w\s\x00-\x7f]|-\s|in\s\d|\d+\s?/\s?\d+|(?:locally|again|now"
    r"|here|so\sfar|both\stimes|(?:each|every)\stime|twice)\b|on\smy\b|"
    rf"on\s{_MACHINE}\b)",
    re.IGNORECASE,
)
BOUNDARY = re.compile(
    r"(?:^|[.,;:!?()\[\]&+*|~#\u2013\u2014]|[^\w\s\x00-\x7f]|(?:^|\s)--?(?=\s)|\b(?:and|but|so|that"
    r"|because|now|then|still|also|again|"
    r"finally|yes|ok|locally|afterwards|thus|hence|currently|of\scourse|at\slast|after\sthis|with\sthis"
    r"|with)|(?:^|[.;:(]\s?)(?:re-?)?running)\s*$",
    re.IGNORECASE,
)
LEAD = re.compile(
    r"(?:^|[.,;:!(]\s?|\b(?:and|but)\s)(?:(?:and|but|also|now|then|still|again|finally)\s)*"
    r"(?:in\sthe\send|at\sthe\send|to\s(?:my|our)\ssurprise|as\s(?:expected|before|always|usual)|happily"
    r"|luckily|fortunately),?\s*$"
    r"|(?:^|[.,;:!(]\s?|\b(?:and|but)\s)(?:(?:and|but|also|now|then|still|again|finally)\s)*"
    r"(?:with|after|as\sof|since)\s(?:(?:this|that|these|those)(?:\s[\w-]+){0,3}|(?:the|my)(?:\s[\w-]+){1,3})\s*$"
    r"|(?:^|[.;(]\s?)(?:before|prior\sto|after)\s(?:push|commit|merg|land|send|submitt"
    r"|rebas)ing(?:\s(?:this|it|that))?,?\s(?:(?:i|we)\s(?:have\s|also\s)*)?$",
    re.IGNORECASE,
)
ALL_BUT = re.compile(r"\b(?:all|none|nothing|everything|every|any)\sbut\s*$", re.IGNORECASE)
VOUCHED = re.compile(
    r"(?:(?:^|[.,;:!(]\s?|\b(?:and|but)\s)(?:and\s|but\s|also\s)*(?:i|we)(?:['\u2019]ve|\shave"
    r"|\scan)?\s(?:also\s|now\s|just\s)?"
    r"(?:verified|confirmed|checked|validated|confirm|say(?:\swith\s\w+)?|report|see|made\ssure|ensured)"
    r"|(?:^|[.,;:!(]\s?|\band\s)"
    r"(?:verified|confirmed|checked|validated|confirming|made\ssure|ensured|it\swas\s(?:verified|confirmed"
    r"|checked|ensured)))"
    r"(?:\s(?:that|locally)){0,2}\s*$",
    re.IGNORECASE,
)

# -- what takes a statement back

# What turns a sentence into no claim about a run that was. Strong: as far back as the clause goes; weak: only up to the
# last comma or `and`.
STRONG = re.compile(
    r"\b(?:if|unless|until|till|when|whenever|once|whether|so\sthat|such\sthat|in\sorder|ensure[sd]?"
    r"|ensuring|where|simulat(?:e|es|ing)|imagine|suppose|in\scase|as\s(?:soon|long)\sas|such\sas"
    r"|the\smoment|(?:fixture|sample|dummy|fake)s?|"
    r"mak(?:e|es|ing)(?:\ssure)?|lets?|letting|(?<!\bi\s)(?<!\bwe\s)gets?|getting|back\sthen|last\s(?:week"
    r"|year|month)|in\s(?:19|20)\d\d|(?:log|output|report)\sof\s(?:the|a|their)\s(?!test|suite|run|full"
    r"|last)\w+\s(?:says|shows|has)|a\s(?:run|suite|test)\s(?:\w+\s){0,4}?shows?\sthat|keeps?|keeping"
    r"|allows?|wants?|expects?"
    r"|according\sto|nobody|no\sone|(?<!as\s)expected|hope|hopefully|"
    r"should|shall|would|could|can|have\sto|has\sto|cannot|can't|may|might|must|needs?|needed|will|won't"
    r"|requires?|required|assum(?:e|es|ing)|"
    r"wait|waits|how|why|examples?|e\.g|previously(?!\s(?:failing|failed|red|broken|skipped))|formerly"
    r"|used\sto|no\slonger|originally|claims?|claimed|said|pretend|"
    r"verify\sthat|check\sthat|assert\sthat|see\sthat|say\sthat|says\sthat|think|thought|believe|helps?)\b",
    re.IGNORECASE,
)
WEAK = re.compile(
    r"\b(?:while|so|to|check|checks|asserts?|before|after|because|since|although|only|instead|rather|than"
    r"|what|which|like|"
    r"reports?|reported|prints?|shows?|fix|fixes|fixed|not|never|n't|doesn't|don't|didn't|isn't|aren't"
    r"|wasn't|weren't|almost|nearly|"
    r"most|some|many|several|few|that)\b",
    re.IGNORECASE,
)
REPORTED = re.compile(
    r"\b(?:verified|checked|confirmed|(?:pytest|suite|run|test\s(?:log|output"
    r"|report))\s(?:now\s)?(?:reports?|says|shows?|has|had)|see|saw)(?:\sthat)?\s$",
    re.IGNORECASE,
)
ENVIRONMENT = (
    r"windows|macos?|osx|linux|arm\w*|aarch64|i386|x86\w*|amd64|s390x|ppc\w*|mips\w*|hurd|\w*bsd|musl"
    r"|wasm\w*|android|ios|solaris|cygwin|msys2?|jenkins|travis|github|main|master|"
    r"trunk|tip|python\s?\d|py\d|other|some|old|new|big|debian|ubuntu|fedora|(?:the\s)?\w+\s(?:platform"
    r"|compiler|branch|machine|host)"
)
ELSEWHERE = re.compile(
    r"\b(?:upstream|elsewhere|after\sthe\s(?:previous|last|first|earlier|parent)\b|(?:on|for"
    r"|with)\s(?!(?:my|our|this)\b|the\s(?:new|final|current"
    rf"|latest)\b)(?:{ENVIRONMENT})\b|with\s(?:g\+\+|gcc|clang|icx|icc|msvc|\w+cert|-O\d|\w+\s\d+\.\d)"
    r"|in\s(?:the\s)?(?:ci|"
    r"travis|jenkins|zuul|debian|sid|fedora|upstream)\b|ci\b(?!-)|buildbots?|buildd|autopkgtests?|zuul"
    r"|jenkins|travis|debci|reproducible|"
    r"without\s(?!(?:touching|changing|modifying|editing)|(?:(?:any|a|an|the|further|more|single|test"
    r"|functional|visible|behaviou?ral)\s){0,2}(?:change|modification|issue|problem|error|failure|failing"
    r"|fail|warning|trouble|"
    r"regression|skip)s?\b)|under\s(?!pytest|tox|nox)|against\s(?!this\b|my\b|our\b|the\s(?:current|final"
    r"|new)\b)|if\s|when\s|unless\s|except|only\s|using\s(?!pytest|tox|nox|unittest))",
    re.IGNORECASE,
)
PLACED = re.compile(  # a condition that stands before it
    r"(?:^|[.;(]\s?)\W*(?:with|using|given)\s(?!(?:this|that|these|those|it|my|our|all|the\s(?:fix|patch"
    r"|change|commit|new|final|code)s?)\b)"
    r"(?![^,;]*\b(?:\w{2,}ed|gone|in\splace|applied)\s*,\s*$)[^,;]*,\s*$",
    re.IGNORECASE,
)
CI_CLAUSE = re.compile(r"[;,]\s(?:(?:and|but|the)\s)*ci\b[^;,]*|^(?:the\s)?ci\b[^;]*(?=;)", re.IGNORECASE)
WISHED = re.compile(  # a label that says what is to be, or who says it
    r"\b(?:acceptance|criteria|criterion|rules?|goals?|requirements?|definition\sof\sdone|policy|condition"
    r"|expected|expectation|"
    r"how\sto\s\w+|to\s?do|(?<!test[\s-])plan|roadmap|wish|idea|next(?:\ssteps?)?|wanted|target"
    r"|old(?:\sbehaviou?r)?|template"
    r"|examples?(?:\sof)?|known\s\w+|badge|upstream|line\sreads|reads|prints|displays|text|title|string"
    r"|banner)(?:\s\w+)?\s?:[^:;]*$"
    r"|\b(?:see|issue|bug|ticket)\s#?[\w-]+\s?:[^:;]*$|\b(?:probably|presumably|possibly|perhaps|maybe"
    r"|supposedly|apparently|guess|suppose|trust|seems?|looks?\s(?:like|as)|made|"
    r"doubt|confident|sure)\s[^,;:]*$",
    re.IGNORECASE,
)
HEDGED = re.compile(
    r"[\s,(\[-]*(?:hopefully|i\s(?:think|hope|believe|guess|suppose|assume)|probably|presumably|supposedly"
    r"|maybe|perhaps|"
    r"in\stheory|(?:but\s)?for\sthe\swrong|even\sthough|until|till|save\sfor|by\s(?:accident|chance|luck)"
    r"|for\sthe\swrong|vacuously"
    r"|apart\sfrom|bar\s(?:one|two)|tbd|todo|wip|to\sbe|before(?!\s(?:i|we|commit\w*|push\w*)\b))\b"
    r"|\s?:\s?(?:no(?!\s(?:failures?|errors?|problems?|issues?|regressions?))|not|n/a|todo|tbd|unknown"
    r"|pending|false|failed)\b",
    re.IGNORECASE,
)
WANTED = re.compile(  # what a list is of
    r"\b(?:ensur(?:es?|ing)|requir(?:es?|ements?)|checks?\sthat|must|checklist|before|previously|old"
    r"|wanted|should|will|to\s?do"
    r"|criteria|goals?|(?<!test\s)(?<!test-)plans?|verif(?:y|ies)|expect(?:s|ed)?"
    r"|wants?|needs?|next|rules?|policy|steps|if|when|unless|not)\b[^:]*:\s*$",
    re.IGNORECASE,
)
