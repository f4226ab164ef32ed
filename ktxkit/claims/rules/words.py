"""What qualifies a statement about tests: where, on what, with what and when it was so, and what it includes.

A sentence is read without its qualifiers, and they are kept with what it says: a record tells of some whether it is so.

What it excepts, of how many it speaks, and which clauses beside it speak of something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ktxkit.base.rules.named import NamedTuple
from ktxkit.claims.rules.text import SENTENCE_LIMIT, SPELLED, Sentence, number


class Qualifier(NamedTuple):
    """What restricts or widens a statement. `kind` with its `value`:

    python (3.11), implementation (PyPy), platform (linux), machine (arm64), workers (`0`, `+` or a number), skipped
    (0), wider (what is included beyond the usual), elsewhere (CI), except (names, how many, or `*` for some without
    a name), number (of how many tests it speaks), and `any` for all that no record could tell.
    """

    start: int
    end: int
    kind: str
    value: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim. `kind`: counts, green, ran, test, file. `full`: of the whole suite. `numbers` by our words.

    `ended`: all that it says is how something ended (`pytest exits 0`, `ran without failures`), not that tests passed.
    """

    kind: str
    sentence: Sentence
    start: int
    end: int
    full: bool = False
    numbers: Mapping[str, int] = field(default_factory=dict)
    test: str = ""
    outcome: str = ""
    ended: bool = False
    part: bool = False
    topic: str = ""
    qualifiers: tuple[Qualifier, ...] = ()

    @property
    def text(self) -> str:
        return self.sentence.text[self.start : self.end].strip()

    @property
    def says_passed(self) -> bool:
        """Whether it says that tests passed, in no number."""
        return self.kind == "green" and not self.ended


_FEW = "one|two|three|four|five|six|seven|eight|nine|ten"
_VERSION = r"v?\d+(?:\.\d+)*(?:\.x|\+)?"
_PYTHON = (
    r"(?:(?:c?python|pypy|graalpy|py)[\s-]?[23](?:\.\d{1,2}){0,2}t?|py[23]\d{0,2}|pypy|c?python(?:\s3)?|graalpy"
    r"|v?3\.\d{1,2}(?:\.\d+)?t?(?!\s?(?:m?s|secs?|seconds?|min\w*)\b))(?![\w%]|\.\d)\+?"
)
_LINUX = "linux|ubuntu|debian|fedora|centos|rhel|alpine|archlinux|arch linux|nixos|suse|opensuse|mint|wsl2?"
_PLATFORMS = {
    "linux": _LINUX,
    "macos": r"mac\s?os(?:\sx)?|os\s?x|darwin|mac",
    "windows": r"windows|win(?:32|64|10|11)",
    "bsd": r"(?:free|open|net)?bsd",
}
_MACHINES = {
    "x86_64": "x86[_-]64|amd64|x64",
    "arm64": r"arm64|aarch64|apple silicon|m[1-4]",
    "i386": "i[36]86|x86",
    "other": r"armv?[67]\w*|arm|s390x|ppc64\w*|riscv\w*|mips\w*",
}
_OS = rf"(?:{'|'.join(_PLATFORMS.values())}|{'|'.join(_MACHINES.values())})(?:-latest|\s?{_VERSION})?(?:\slinux)?"
_CI = (
    r"(?:(?:the|our)\s)?(?:(?:github|gitlab|circle|travis|azure|drone)[\s-]?(?:ci|actions|pipelines)"
    r"|ci(?:/cd)?|travis|jenkins|appveyor|buildbots?"
    r"|build\s(?:server|farm|machine|bot)s?|server|pipeline)(?!-)|remotely"
)
_HERE = r"locally|local(?=\s*(?:$|[.,;)]))|here|at\shome"
_ADJECTIVES = (
    r"latest|current|newest|oldest|lowest|minimal|minimum|maximum|updated|new|supported|fresh"
    r"|freshly\s\w+|clean|local|own|development|dev|stock|plain|virtual"
    r"|working|separate|empty|pristine|temporary|single|final|actual|cold|warm|production|released|pinned"
    r"|\w+-bit|linux|docker|python|nix|conda|build|test"
)
_OWN = r"(?:(?:the|a|an|my|our|this|its|their)\s)"
_MANY = r"(?:(?:every|each|all|both|any|several|two|three|four|\d+)\s(?:of\s)?(?:(?:the|our|my)\s)?)"
_PLACES = (
    r"machines?|laptops?|box|computers?|workstations?|desktop|side|end|system|setup|hardware|branch|commit"
    r"|tree|revision|head|checkout|clone|worktree|copy"
    r"|venv|virtualenv|environments?|env|containers?|vm|sandbox|chroot|image|platforms?|architectures?"
    r"|os(?:es)?|oses|(?:python\s|interpreter\s)?versions?|interpreters?|pythons|configurations?"
    r"|backends?|modes?|dependencies|deps|requirements|dependency\sversions?|locale|time\s?zone|shell"
    r"|device|vms?|hosts?(?!\w)"
)
_TOOLS = (
    r"(?:pytest[-\s])?xdist|pytest-\w+|coverage(?:\.py)?|valgrind|memcheck|[aumtl]san|sanitizers?|gdb"
    r"|strace|qemu|rosetta|hypothesis"
    r"|docker|podman|kubernetes|nix|conda|uv|hatch|poetry|pdm|load|stress|heavy\sload|optimi[sz]ation"
)
_OPTION = (
    r"`?(?:-n[\s=]?(?:\d+|auto|logical)|-{1,2}[A-Za-z][\w-]*(?:=\S+?|\s(?:error|all|ignore|always))?"
    r"|[A-Z][A-Z_]{2,}=[^\s,;]+?)`?(?=$|[\s.,;:)`])"
    r"(?:\s(?:flag|option|set|enabled|on|given|switched\son))?"
)
_WORKERS = rf"(?:\d+|{_FEW}|several|many|multiple|parallel)\s(?:workers?|process(?:es)?|cores|cpus|threads|jobs)"
_SET = (
    r"enabled|disabled|turned\s(?:on|off|into\serrors)|switched\s(?:on|off)|activated|installed|as\serrors"
    r"|set|removed|present|running"
)
_WITHOUT = (
    r"(?:(?:any|a|the)\s)?(?:xdist|coverage|network(?:\saccess)?|internet(?:\saccess)?|root|docker|gpu"
    r"|parallelism|cache|optional\s\w+)"
)
_SERVICE = rf"(?!status|exit|code|gcc|clang|g\+\+|icc|msvc)(?:the\s)?[A-Za-z][\w.+-]*\s?{_VERSION}(?!\w)"
_TIME = (
    r"in\s(?:(?:about|around|under|less\sthan|roughly|just|only|some|~)\s)*(?:(?:\d+(?:\.\d+)?|an?"
    rf"|{_FEW})\s?(?:ms|s|secs?|seconds?|m|min|minutes?|h|hours?)|no\stime)\b"
)
_ORDER = (
    r"in\s(?:(?:any|random|reverse|every|a\srandom|whatever|a\sdifferent)\sorder|isolation|parallel"
    r"|sequence|serial|(?:a|one)\ssingle\sprocess|one\sprocess)|serially|sequentially|individually"
    r"|one\sby\sone|(?:on\s(?:its|their)\sown|alone|in\sisolation)(?:\sand\s(?:in\sthe\s(?:full"
    r"|whole)\s(?:run|suite)|together))?|with\s(?:a\s)?(?:random|shuffled)\s(?:ordering|order|seeds?)"
)
_NOUN = rf"(?:{_OWN}?|{_MANY})(?:(?:{_ADJECTIVES})\s)*(?:{_PLACES})(?!\w)"
_THING = (
    rf"(?:{_CI}|{_HERE}|{_PYTHON}|{_OWN}?(?:(?:{_ADJECTIVES})\s)*{_OS}(?!\w)(?:\s(?:{_PLACES}|server))?"
    rf"|{_NOUN}|(?:{_TOOLS})(?:\s{_VERSION})?(?![\w-])|{_OPTION}|{_WORKERS})"
)
_PREPOSITION = r"(?:on|in|under|inside|within|with|using|against|at|from|across|via|for)"
_WITH_PLACE = rf"with\s(?!{_MANY}|(?:(?:the|a|an)\s)?(?:{_ADJECTIVES})\s)(?:{_OWN})?(?:{_PLACES})(?!\w)"
_ADVERB = rf"(?:with\sand\swithout\s\w+|{_HERE}|remotely|{_ORDER}|{_TIME}|everywhere)"
_PHRASE = (
    rf"(?:(?!{_WITH_PLACE}){_PREPOSITION}\s(?:both\s|either\s)?{_THING}(?:\s\({_THING}\))?|(?:with"
    rf"|under)\s[^,;:.()]{{1,40}}?\s(?:{_SET})\b|without\s{_WITHOUT}|{_ADVERB}"
    rf"|(?:with|against|on)\s{_SERVICE})"
)
_BASE = (
    r"(?:(?:when\s)?(?:applied|rebased|based|built)\s)?on\stop\sof\s(?:(?:the|current|latest|today's"
    r"|upstream)\s)*[\w./@{}-]*\w\}?|(?:when\s)?(?:rebased|applied|merged)\s(?:on(?:to)?|to|into|with)\s"
    r"(?:(?:the|current|latest)\s)*[\w./-]+|with\s[\w./-]+\smerged(?:\sin)?|against\s(?:(?:the|current"
    r"|latest)\s)*(?:main|master|trunk|head)"
)
_WHEN = (
    r"(?:both\s)?before\sand\safter(?:\s(?:this|the|my|that)(?:\s\w+)?)?|after\s(?:the|a|this|that"
    r"|my)\s(?:\w+\s)?(?:rebase|merge|change|fix|move|rename|update|upgrade|refactoring|cleanup)"
    r"|as\sof\s(?:now|today|writing|head|this\s\w+)|at\s(?:this|the)\s(?:point|time"
    r"|moment)(?:\sof\swriting)?|right\snow|today|yesterday(?:\s(?:evening|morning))?|this\s(?:morning"
    r"|evening|afternoon)"
    r"|(?:once|one)\s(?:more|again)|(?:\d+|ten|five|three|twice|several|many)\s?(?:times|x)?\sin\sa\srow"
    r"|(?:\d+|two|three|four|five|ten|twenty|fifty|several|many)\stimes|(?:so\sfar)|to\sdate"
    r"|before\s(?:the\s)?commit|when\srun(?=,|\s(?:with|under|on|in|via))(?:\s{_PHRASE})?|,?\sci\s(?:says"
    r"|reports|agrees)"
)
_NEXT = (
    r"(?:,\s?(?:and|or|also)?\s?|\s?[/+&]\s?|\s(?:and|or|as\swell\sas|plus|to|through|and\salso"
    rf"|but\salso)\s|\s)(?:also\s|both\s)?(?:{_PHRASE}|{_THING}|without(?=[,.;:]|$))(?!\w)"
)
QUALIFIED = re.compile(
    rf"(?<![\w-])(?:both\s|either\s|even\s|also\s)?(?:{_PHRASE}|{_BASE}|{_WHEN}|\((?:{_THING}"
    rf"|{_PHRASE})(?:{_NEXT})*\)|(?<=,\s)(?:{_PYTHON}|{_OS})(?=[,.]|$))(?:{_NEXT})*(?!\w)(?:,?\s(?:too"
    r"|as\swell|alike))?(?=\s|$|[.,;:!)\]/\[&+*|=-])",
    re.IGNORECASE,
)
OPENING = re.compile(  # what only introduces a sentence
    r"(?:^|(?<=[.;:(]\s))\W*(?:obviously|happily|thankfully|luckily|fortunately|gladly|naturally|finally"
    r"|fwiw|afaict|afaics|afaik|for\sthe\srecord|to\sbe\s(?:clear|sure)|"
    r"as\sfar\sas\s(?:i|we)\s(?:can\s)?(?:see|tell|know)|of\scourse|nb|btw|fyi|good\snews|indeed"
    r"|as\sa\sresult|overall|in\sshort|all\sin\sall|note(?:\sthat)?|yes|yay|again|also|when(?=\s(?:i"
    r"|we)\s(?:run|re-?run)\s)|"
    r"(?:and\s)?as\s(?:expected|before|always|usual))(?:[,:]\s|\s(?=(?:all|every|the|tests?|each|no|i\srun"
    r"|we\srun|i\sre|we\sre)\b))",
    re.IGNORECASE,
)
_NO_SORT = (
    r"(?:now|is|are|was|were|full|whole|entire|complete|pass|passes|passed|passing|green|ok|suite|it|they"
    r"|that|which|tests?|ones|still|all|every|each|run|ran|new|no|zero|any|without|to|for|of)\b"
)
_SORTS = (
    rf"(?:(?:the|those|these|our|my|all|any)\s)*(?P<{{}}>(?:(?!{_NO_SORT})[\w/-]+(?:,\s|\sand\s"
    rf"|\s)){{{{1,4}}}}?)(?:ones|tests?|cases|suites?|checks|markers?)(?:\smarked\s(?P<{{}}>[\w-]+))?"
)
_HOW = r"\s*(?:now\s|still\s)*(?:pass|are\s|is\s|succeed)"
_END = rf"(?:[,)](?={_HOW})|(?=\s*(?:$|[.,;)])|{_HOW}))"
_ADDED = r"[\s,(]{1,3}(?:and\s)?"
WIDER = re.compile(
    rf"{_ADDED}(?:including|incl\.|inclusive\sof|even|plus|also|with)\s(?:{_SORTS.format('a', 'b')}"
    r"|those\s(?:\w+\s){0,2}(?:marked|tagged)\s(?:as\s)?(?P<c>[\w-]+))(?:\s(?:enabled|included|on|as\swell|too))?"
    rf"{_END}|{_ADDED}(?:with\s)?{_SORTS.format('d', 'e')}\s(?:included|enabled|as\swell|too|and\sall)(?:,|{_END})"
    rf"|(?:^|(?<=[.;:(]\s))(?:with|including)\s{_SORTS.format('f', 'g')}(?:\s(?:enabled|included|on))?,(?=\s)"
    r"|[\s,(]{1,3}(?:and\s)?(?:with\s)?(?P<every>(?:nothing|none|no\stests?)\s(?:was\s|were\s|is\s)?(?:deselected|excluded"
    rf"|left\sout)|no\s(?:deselections|exclusions)){_END}|{_ADDED}(?P<rhetoric>(?:without|no)\sexceptions?){_END}"
    rf"|{_ADDED}(?:with\s)?(?P<unskipped>(?:nothing|none|no\stests?|not\sone|not\sa\ssingle\sone)\s(?:was\s"
    r"|were\s|is\s)?"
    rf"skipped|(?:no|zero|0)\s(?:skips|skipped)|without\s(?:any\s)?skips){_END}",
    re.IGNORECASE,
)


LOOSE = re.compile(  # of all tests any adverbial may be said; what they pass on, or to whom, is none
    r"\b(?:(?:all|every|each|none\sof)\s(?:single\s|of\s|the\s|our\s|\d+\s){0,3}(?:(?:unit|existing"
    r"|integration|new|old|python)\s){0,2}tests?|(?:full|whole|entire|complete|test|the\s(?!old|other"
    r"|previous|upstream)\w+)\s(?:test\s)?suite)\s+"
    r"(?:(?:now|still|all|again|also|then|currently|finally|will)\s+|(?:is|are|was|were|runs?|ran|stays?"
    r"|remains?|have|has)\s+)*(?:pass(?:es|ed|ing)?|green|ok|succeed(?:s|ed)?|clean|fails?)"
    r"(?P<tail>,?\s+(?:on|in|with|without(?!\s\w+ing\b)|under|using|against|at|inside|within|across|behind|after|from"
    r"|following|thanks\sto|like|same|just|exactly|even|also|equally"
    r"|during|since|despite|regardless|irrespective|whatever|whichever|for|out\sof|as|throughout|straight"
    r"|first"
    r"|every|each|no|offline|online|alone|together|to\s(?:my|our)|(?:\d+|two|three|five|ten)\s(?:times|x\b"
    r"|out)|(?!hope|prob|presum|suppos|appar|only|near|most|part|rare|hard|poss|bare|unlike)\w+ly)(?![\w-])"
    r"(?!\s+(?:an?\s)?(?:errors?|failures?|success|problems?|issues?|regressions?|fix|patch|change)\b)"
    r"(?:(?!\b(?:through|into|is|are|was|were|has|have|means|only|except|but|if|when(?!\srun\b)|unless|until|not"
    r"|fail\w*|whether|once|because|so"
    r"|hence|and(?!\s(?:on|in|with|without|as|under|at|an?|the)\b|\s\w+(?:\s\w+)?\s*(?:$|[.,;)]))|where"
    r"|that|which|who|their|its|own|other|another|upstream|theory|luck|accident|chance|old|previous|parent)\b"
    r"|\bto\s(?!my|our|date)|\b(?:gcc|clang|g\+\+|icc|msvc)\b)(?:[^.,;:!?()]|\.(?=\d)))*)"
    r"(?=\s*(?:$|[.,;:!)(]|\band\b|\bso\b))",
    re.IGNORECASE,
)


_TEST = r"`?(?:[\w./-]+\.py(?:::\w+)*|(?:\w+::)*(?:test_\w+|Test[A-Z]\w*(?:::\w+)?))(?:\[[^\]\s`]*\])?`?(?![\w/.]*\w)"
_TESTS = rf"(?:the\s(?:[\w-]+\s){{0,3}})?{_TEST}(?:(?:,\s(?:and\s)?|\s(?:and|or)\s){_TEST})*"
_SOME = (
    r"(?:(?:the|these|those|some|several|my|our|a\sfew|known|flaky|slow)\s(?:[\w-]+\s){0,3}?"
    r"(?:ones?|tests?|cases|failures?)|(?:[\w-]+\s){1,2}(?:ones|tests|failures))"
    r"(?:\s(?:of|in|for|that|which|marked)\s[^,.;:()]{1,60})?"
)
_FAILS = r"\s(?:(?:still|now|always|also|has|is)\s)*(?:fail(?:s|ed|ing)?|red|broken|hang(?:s|ing)?|error(?:s|ed)?)\b"
_BUT = (
    r"(?:except(?:ing)?(?:\sfor)?|with\s(?:the\s)?(?:(?:sole|only|single)\s)?exceptions?\sof|(?:apart|aside)\sfrom"
    r"|other\sthan|save(?:\sfor)?|excluding|besides|barring|not\scounting|but(?:\sfor|\snot)|(?P<but{}>but))"
)
EXCEPTED = re.compile(  # what is named fails, or may; a predicate of its own is read beside it
    rf"(?P<said>(?<=[\w)])[,;]?\s(?:{_BUT.format(0)}|(?:and\s|but\s|it'?s\s)?only|)\s?(?P<fails>{_TESTS})(?={_FAILS}))"
    rf"|[,;]?\s\(?{_BUT.format(1)}\s(?:(?P<tests>{_TESTS})|(?P<count>{_FEW}|\d{{1,4}})(?:\s(?:tests?|failures?|exceptions?))?"
    rf"(?=\s*(?:$|[.,;)]))|(?P<some>{_SOME})(?!{_FAILS})(?(but1)(?:(?<=\bones)|(?=\s*(?:$|[.,;)])))))\)?(?!\w)"
    rf"|(?<=\ball)\sbut\s(?P<all>{_FEW}|\d{{1,4}})(?=\s(?:of\s(?:the\s)?)?tests?\b)"
    rf"|,?\s\(?(?:with\s)?(?P<exception>one|a\ssingle|{_FEW})\sexceptions?\)?(?!\w)"
    rf"|,\s(?P<aside>{_TESTS})\s(?:aside|apart|excepted|excluded)(?!\w)",
    re.IGNORECASE,
)
_ALL_OF_THEM = rf"(?:all\s(?:of\sthe\s)?)?(?P<n>\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}|{_FEW})"
OF_THEM = re.compile(rf",\s{_ALL_OF_THEM}\sof\sthem,(?=\s)", re.IGNORECASE)
APPOSED = re.compile(  # of how many tests it was said
    rf"(?:,|:|\s-{{1,2}}|\s\(|\swith)\s?{_ALL_OF_THEM}\s(?:of\sthem|in\s(?:total|all)|altogether|tests?(?:\sin\s(?:total|all))?)"
    r"\)?(?=\s*(?:$|[.,;)!]))|(?:^|.*\s)\((?:all\s)?(?P<inside>\d{1,7})(?:\sof\sthem|\stests)?\)",
    re.IGNORECASE,
)


def _excepting(match: re.Match[str]) -> list[Qualifier]:
    """The tests that are named, how many, or `*`."""
    names = match["fails"] or match["tests"] or match["aside"]
    if names:
        return [Qualifier(*match.span(), "except", " ".join(one.strip("`") for one in re.findall(_TEST, names)))]
    count = match["count"] or match["all"] or match["exception"]
    said = "1" if (count or "").lower().startswith(("a ", "one")) else str(number(count)) if count else "*"
    return [Qualifier(*match.span(), "except", said)]


def _of_them(match: re.Match[str]) -> list[Qualifier]:
    return [Qualifier(*match.span(), "number", str(number(match["n"])))]


# -- clauses beside a claim

_STATE = (
    r"\s(?:(?:is|was|has|stays|still|now|also|says|looks)\s)*(?:green|ok|happy|pass\w*|fail\w*|red|pending|broken)\b"
)
_CLAUSE = re.compile(r";\s|,?\s(?:and|but|while|whereas|though|although)\s|,\s|\s-{1,2}\s")
_STATEMENT = re.compile(
    rf"\W*(?:(?:(?:the|our)\s)?(?:{_CI}){_STATE}|upstream\s(?:is|was|has)\b|(?:only\s)?(?:the|an?|i|we|my|our|there)\s"
    r"|docs?\s|(?:fix|add|drop|remov|updat|renam|mov|rework|rewrit|rewrot|refactor|chang|clean|bump|switch|split"
    r"|replac|delet|revert|simplif)(?:e|es|ed|s|t|y|ied|te|ped|es)?\s)",
    re.IGNORECASE,
)
_SPEAKS_OF_THEM = re.compile(
    r"\b(?:tests?|suite|specs|pytest|tox|them|they|those|these|this|that|it|ones?|none|all|everything|any|run|ran"
    r"|results?|if|when|unless|until)\b|\btest_|\b(?:i|we)\s(?:have\s|did\s|had\s)?(?:not|n't)\s(?:verif|test|check|run|confirm)\w*\s*$",
    re.IGNORECASE,
)
_SERVERS = re.compile(rf"\W*(?:(?:the|our)\s)?(?:{_CI}){_STATE}", re.IGNORECASE)


def beside(plain: str, start: int, end: int) -> list[tuple[int, int]]:
    """The clauses of a sentence, but that of start to end, that state something of their own and speak of no test.

    They place nothing, take nothing back and qualify nothing. A comma ends a clause only beside the claim itself.
    """
    found = []
    cuts = [one.span() for one in _CLAUSE.finditer(plain) if not start < one.start() < end]
    edges = [(0, 0), *cuts, (len(plain), len(plain))]
    for (_, begin), (stop, _) in pairwise(edges):
        part = plain[begin:stop]
        apart = stop <= start or end <= begin
        server = _SERVERS.match(part) and not re.search(r"\btests?\b|\bsuite\b", part, re.IGNORECASE)
        if apart and (server or (_STATEMENT.match(part) and not _SPEAKS_OF_THEM.search(part))):
            found.append((begin, stop))
    return found


def qualified(sentence: Sentence) -> tuple[Sentence, list[int], list[Qualifier]]:
    """The sentence without its qualifiers, the offset that each of its characters had, and the qualifiers, in order."""
    found, gone, text = list[Qualifier](), set[int](), sentence.text
    readers = (
        *((EXCEPTED, _excepting), (OF_THEM, _of_them), (WIDER, _extension)),
        *((LOOSE, _demands), (QUALIFIED, _demands), (OPENING, _nothing)),
    )
    for pattern, read in readers:
        for match in pattern.finditer(text) if len(text) <= SENTENCE_LIMIT else ():
            start, end = match.span("tail" if pattern is LOOSE else 0)
            if sentence.plain[start:end].strip() or "`" in match[0]:
                found += read(match)
                if pattern is EXCEPTED and match["said"]:
                    continue
                gone.update(range(start, end))
                text = text[:start] + "\n" * (end - start) + text[end:]
    if not gone:
        return sentence, list(range(len(text))), sorted(found)
    kept = list[int]()
    for at, char in enumerate(text):
        if at in gone or (char == " " and (not kept or text[kept[-1]] == " ")):
            continue
        if char in ".,;:)" and kept and text[kept[-1]] == " ":
            kept.pop()
        kept.append(at)
    text, plain = ("".join(one[at] for at in kept) for one in (sentence.text, sentence.plain))
    bare = Sentence(
        text, plain, sentence.subject, [sentence.origin[at] for at in kept], sentence.places, sentence.heading
    )
    return bare, kept, sorted(found)


def _nothing(match: re.Match[str]) -> list[Qualifier]:
    return []


def _extension(match: re.Match[str]) -> list[Qualifier]:
    start, end = match.span()
    if match["unskipped"]:
        return [Qualifier(start, end, "skipped", "0")]
    if match["rhetoric"]:
        return []
    said = " ".join(text for key in "abcdefg" if (text := match[key])) or "*"
    if re.fullmatch(rf"\s*(?:\d{{1,7}}|{_FEW})\s*", said, re.IGNORECASE):
        return [Qualifier(start, end, "number", str(number(said)))]
    return [Qualifier(start, end, "wider", said.lower())]


_ASKED = re.compile(
    r"(?P<python>(?:(?:c?python"
    rf"|py)[\s-]?)?(?<![\w.])v?(?P<minor>[23]\.\d{{1,2}}(?:\.\d+)?)t?\b(?!\s?(?:m?s|secs?|seconds?"
    r"|min\w*)\b)"
    rf"|\bpy(?P<short>[23]\d{{1,2}})\b)|\b(?P<implementation>pypy|graalpy)"
    r"|(?P<workers>-n[\s=]?(?P<count>\d+|auto|logical)|\bin\sparallel|\bxdist|\b(?P<many>\d+"
    rf"|{_FEW})\s(?:workers?|process(?:es)?))"
    r"|(?P<serial>\bserially|\bsequentially|\bwithout(?:\sxdist\b|\s*$)|\bin\s(?:a\ssingle|one)\sprocess|-p\sno:xdist)"
    + "".join(rf"|\b(?P<{name}>{text})(?![\w.])" for name, text in {**_PLATFORMS, **_MACHINES}.items())
    + rf"|(?P<elsewhere>\b(?:{_CI}|ci)(?!\w))|(?P<here>\b(?:{_HERE}|(?:my|our|this)\s\w+)\b)"
    r"|(?P<option>--(?:run-?)?(?P<wider>[a-z][\w-]*))",
    re.IGNORECASE,
)


_IS_WHEN = re.compile(rf"(?:both\s|even\s|also\s)?(?:{_WHEN}|{_TIME})", re.IGNORECASE)
_IS_SERVICE = re.compile(rf"(?:with|against|on)\s{_SERVICE}", re.IGNORECASE)
_BEFORE_VERSION = re.compile(
    r"(?:^|[,/+&(]\s?|\b(?:on|under|with|using|and|or|to|for|from|across|both|through|against|also|plus)\s)$",
    re.IGNORECASE,
)


def _demands(match: re.Match[str]) -> list[Qualifier]:
    """What a phrase says that a record could tell; `any` where nothing of it is such a thing."""
    start, end = match.span("tail" if match.re is LOOSE else 0)
    text = match["tail"] if match.re is LOOSE else match[0]
    made = list[Qualifier]()
    for found in _ASKED.finditer(text):
        one = found.groupdict()
        if one["python"]:
            if one["minor"] == one["python"] and not _BEFORE_VERSION.search(text[: found.start()]):
                continue  # another program's
            short = one["short"]
            made.append(Qualifier(start, end, "python", one["minor"] or f"{short[0]}.{short[1:]}"))
        elif one["implementation"]:
            made.append(Qualifier(start, end, "implementation", one["implementation"].lower()))
        elif one["workers"]:
            said = (one["count"] or one["many"] or "").lower()
            made.append(
                Qualifier(start, end, "workers", str(number(said)) if said.isdigit() or said in SPELLED else "+")
            )
        elif one["serial"]:
            made.append(Qualifier(start, end, "workers", "0"))
        elif one["option"]:
            made.append(Qualifier(start, end, "wider", one["wider"].lower()))
        elif one["elsewhere"]:
            made.append(Qualifier(start, end, "elsewhere", found[0]))
        elif one["here"]:
            made.append(Qualifier(start, end, "here"))
        else:
            name = next(key for key in (*_PLATFORMS, *_MACHINES) if one[key])
            made.append(Qualifier(start, end, "platform" if name in _PLATFORMS else "machine", name))
    return made or [
        Qualifier(start, end, "when" if _IS_WHEN.match(text) else "service" if _IS_SERVICE.match(text) else "any")
    ]


APART = re.compile(r";|\b(?:but|while|whereas|although)\b")
CONTRAST = re.compile(
    r"\b(?:fail(?:s|ed|ing)?|hang(?:s|ing)?|crash(?:es|ed)?|red|broken|breaks?|times?\sout|skip(?:s|ped)?"
    r"|not|only|elsewhere)\b|n't\b",
    re.IGNORECASE,
)
_UNDONE = re.compile(r"\b(?:and|but)\s(?:then\s)?(?:fails?|hangs?|crash(?:es)?)\b", re.IGNORECASE)
ANY_TEST = re.compile(
    r"(?:the|a|this|that)\stest\s(?!suite|run|cases)|.*\b(?:no\slonger|don't|doesn't)\sfail", re.IGNORECASE
)
PLACES = ("python", "implementation", "platform", "machine", "elsewhere", "here")


def contrasted(plain: str, claim: Claim, qualifiers: Sequence[Qualifier]) -> bool:
    """Whether it tells on what a test passes and on what it does not, rather than how a run came out.

    `plain` is the sentence without its qualifiers and the clauses beside the claim.
    """
    kinds = {one.kind for one in qualifiers}
    if not kinds - {"wider", "skipped", "when", "here", "except", "number"}:
        return False
    if claim.numbers == {"passed": 0}:
        return True
    if claim.kind == "counts" and any(claim.numbers.get(word) for word in ("failed", "errors", "skipped")):
        return "passed" not in claim.numbers
    if claim.outcome == "failed" or ANY_TEST.match(claim.text) or (claim.topic and "service" in kinds):
        return True
    rest = plain[: claim.start] + plain[claim.end :]
    if _UNDONE.search(rest):
        return True
    return CONTRAST.search(rest if kinds & {*PLACES} else re.sub(r"^.*\bbut\b", "", rest) * ("but" in rest)) is not None


# -- against a record

Record = Mapping[str, Any]
RECORDED_KINDS = ("python", "implementation", "platform", "machine", "workers", "wider")


def fits(run: Record, qualifier: Qualifier, skipped: Callable[[str], Sequence[str]]) -> bool | None:
    """Whether a run is as a qualifier says; None where its record does not tell."""
    environment = run.get("environment", {})
    if qualifier.kind == "python":
        version: str = environment.get("python", "")
        return f"{version}.".startswith(f"{qualifier.value}.") if version else None
    if qualifier.kind == "implementation":
        named: str | None = environment.get("implementation")
        return None if named is None else named.lower() == qualifier.value
    if qualifier.kind in ("platform", "machine"):
        platform: str = environment.get("platform", "")
        return any(name in platform for name in SYSTEMS[qualifier.value]) if platform else None
    if qualifier.kind == "workers":
        workers = run.get("workers")
        return None if workers is None else workers > 0 if qualifier.value == "+" else workers == int(qualifier.value)
    return not _without(run, qualifier, skipped)


SYSTEMS = {
    "linux": ("linux",), "macos": ("macosx", "darwin"), "windows": ("win-", "win32", "cygwin"), "bsd": ("bsd",),
    "x86_64": ("x86_64", "amd64", "universal2"), "arm64": ("arm64", "aarch64", "universal2"),
    "i386": ("i386", "i686", "win32"), "other": ("armv", "s390x", "ppc", "riscv", "mips"),
}  # fmt: skip
COMMON = frozenset({"not", "and", "or", "test", "tests", "the", "deselect", "ignore", "glob"})


def _without(run: Record, one: Qualifier, skipped: Callable[[str], Sequence[str]]) -> str:
    """What a run left out of what is said to be included: by the project's own configuration, or skipped."""
    left: list[str] = [why for why in run["scope"].get("why", ()) if run["scope"]["kind"] == "full"]
    said: set[str] = set(re.findall(r"[a-z]{3,}", one.value)) - COMMON
    for why in left:
        named = set(re.findall(r"[a-z]{3,}", why.partition(":")[2].lower())) - COMMON
        if one.value == "*" or any(word in other or other in word for word in named for other in said):
            return why
    if said and run["counts"].get("skipped"):
        marks = (test for test in skipped(run["run"]) if any(word in test.lower() for word in said))
        return next((f"skipped {test}" for test in marks), "")
    return ""
