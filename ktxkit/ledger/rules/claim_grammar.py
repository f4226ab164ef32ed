"""What sentences say of test runs, and what takes it back, as patterns over a sentence's plain text.

From sentences to claims about test runs. What is wished, asked, supposed, planned or told of elsewhere is none.

Error texts that a message quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ktxkit.ledger.rules.claim_text import Sentence

SPELLED = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}|no|{'|'.join(SPELLED)})"
N = rf"(?P<{{}}>{NUMBER.replace('{', '{{').replace('}', '}}')})"
TESTS = r"(?:tests?|test\s?cases?|testcases?|specs|checks\sin\sthe\stest\ssuite)"
KIND = r"(?:unit|integration|functional|regression|acceptance|smoke|e2e|end-to-end|backend|frontend|new|existing|old|"
KIND += r"added|related|relevant|affected|remaining|other|these|those|python|pytest|doc|local)"
NOW = r"(?:now|still|all|again|also|then|currently|both)"
GOOD = r"(?:pass(?:es|ed|ing)?|succeed(?:s|ed|ing)?)"
IS = r"(?:is|are|was|were|stays?|remains?)"
GREEN = r"(?:green|passing|clean|successful)"
BAD = r"(?:fail(?:s|ed|ing)?|error(?:s|ed)?(?:\sout)?|break|broke)"
THE_SUITE = (
    r"(?:(?:the|our|its)\s)?(?:(?:full|whole|entire|complete)\s)?(?:test[\s-]?suite|suite\sof\stests|(?<=full\s)suite)"
)
TAIL = (
    r"(?=\s*(?:$|[.,;:!?)\]/(\[&+*|~]|#\d|[^\w\s\x00-\x7f]|-\s|100\s?%|in\s\d|(?:again|now|for|with|and|but|after|before|in|on|since|as|except|locally|here|cleanly|"
    r"successfully|without|when|if|unless|under|once|until|so|because|too|fine|ok|at|by|while|then|today|this\stime)\b))"
)
EDGE = r"(?=\s*(?:$|[.,;:!)\]/\[&+*|~]|#\d|[^\w\s\x00-\x7f]|in\s\d|\d+/\d|and\b|\bout of\b|-\s|\())"

ALL = re.compile(
    rf"(?:\b(?P<lead>all|every|each|both)\s(?:(?:single|one)\s)?|\b100\s?(?:%|percent)\s)(?:of\s)?(?:all\s)?(?:(?:the|our|its|my)\s)?"
    rf"(?P<count>{NUMBER}\s(?:of\s(?:the\s|our\s)?)?)?(?:suite's\s)?(?P<kind>{KIND}\s)*{TESTS}\s(?:{NOW}\s)*"
    rf"(?:{GOOD}|(?:{IS}\s)?(?:{NOW}\s)*(?:ok|okay)\b|{IS}\s(?:{NOW}\s)*{GREEN}){TAIL}",
    re.IGNORECASE,
)
SUITE = re.compile(
    rf"\b(?:{THE_SUITE}|(?:the\s)?(?:full|whole|entire|complete)\s(?:suite|(?:test\s)?run))\s?(?:{NOW}\s)*"
    rf"(?:{GOOD}|(?:{IS}\s)?(?:{NOW}\s)*(?:{GREEN}|all\sgreen))\b",
    re.IGNORECASE,
)
PLAIN = re.compile(
    rf"(?:^\s?|(?:[.,;:(\]&+]|[^\w\s\x00-\x7f])\s?|\b(?:and|the|our|{KIND}|that|but)\s)"
    rf"(?P<said>(?:{KIND}\s)?tests\s(?:{NOW}\s)*(?:pass(?:ed)?|green|{IS}\s(?:{NOW}\s)*(?:{GREEN}|ok)){TAIL})",
    re.IGNORECASE,
)
COUNT = re.compile(
    rf"(?<!python\s)(?<!py\s)(?<!version\s)(?<!level\s)(?<!phase\s)(?<!stage\s)(?<![#.\w-])\b{N.format('n')}(?:\s?(?:/|of|out\sof)\s?{N.format('of')})?\s(?:{KIND}\s)*{TESTS}\s(?:{NOW}\s)*"
    rf"(?:(?:have|has)\s)?(?P<word>{GOOD}|{BAD}|skipped|{IS}\s(?:{NOW}\s)*(?:{GREEN}|failing|red|skipped))\b",
    re.IGNORECASE,
)
SUMMARY = re.compile(
    rf"(?<![\w.%-])(?P<n>\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}|no|zero)\s"
    rf"(?P<word>passed|passing|pass|failed|failing|failures?|fail|errors?|skipped|skips?|xfailed|xpassed|deselected){EDGE}",
    re.IGNORECASE,
)
ALL_OF = re.compile(  # no word says of what: nothing but the whole clause, or a fraction
    rf"(?:(?:^|[.,;:(]\s?|\b(?:and|so|now)\s)all\s(?:of\s)?(?:the\s)?(?P<n>{NUMBER})\s(?:of\sthem\s)?"
    rf"|(?<![\w./-])(?P<m>\d{{1,7}})\s?(?:/|of|out\sof)\s?(?P<of>\d{{1,7}})\s)"
    rf"(?:{IS}\s)?(?:{NOW}\s)*(?:pass|passed|passing|green){EDGE}",
    re.IGNORECASE,
)
RATE = re.compile(
    rf"\b100\s?(?:%|percent)\s(?:(?P<rate>pass(?:ed|ing)?\srate)|{GOOD}|green)\b|\b(?P<is>pass\srate)\s(?:{IS}|of)\s100\s?(?:%|percent)",
    re.IGNORECASE,
)
ENDED = re.compile(
    rf"\b(?:(?P<what>{THE_SUITE}|(?:full|whole|entire|complete)\s(?:(?:test\s)?run|suite)|the\ssuite)|(?:(?:all|the|our)\s)?tests|(?:the\s)?test\srun)\s(?:{NOW}\s)*"
    r"(?:(?:ran|runs?|finish(?:es|ed)?|completes?d?|c[ao]mes?\sback|ends?|ended)\s(?:clean(?:ly)?|green|successfully|"
    r"(?P<without>without\s(?:(?:any|a\ssingle)\s)?(?:failures?|errors?)|with\s(?:no|zero|0)\s(?:failures?|errors?))))\b",
    re.IGNORECASE,
)
STATUS = re.compile(
    rf"\bpytest\s(?:{NOW}\s)*(?:exits?|exited|returns?|returned|ends?|ended)\s(?:with\s)?(?:(?:exit\s)?(?:status|code)\s)?(?:0|zero){EDGE}"
    rf"|\bpytest\s?:\s?(?P<n>\d{{1,7}})/(?P=n){EDGE}",
    re.IGNORECASE,
)
TARGET = re.compile(
    rf"(?<![\w-])`?(?:make\s(?:tests?|check)|tox|nox)`?\s(?:{NOW}\s)*(?:pass(?:es|ed)|{IS}\s(?:{NOW}\s)*{GREEN}){TAIL}"
)
PASSES = re.compile(rf"\bpass(?:es|ed|ing)\s(?:all\s)?{N.format('n')}\s(?:{KIND}\s)*{TESTS}\b", re.IGNORECASE)
NONE_BAD = re.compile(
    rf"(?<![\w.,/%-])(?:no|zero|0|without(?:\sany|\sa\ssingle)?)\s(?:(?:test|more)\s)?(?P<what>failures?|failing\stests|failed\stests|"
    rf"skipped\stests|skips|test\serrors)\b|\b(?:no|none\sof\s(?:the|our|all)|not\s(?:a\ssingle|one|any))\s{TESTS}\s(?:{NOW}\s)*"
    rf"(?P<verb>fail(?:s|ed)?|skipped|{IS}\s(?:failing|skipped))\b|\b(?:nothing\s(?P<fails>fails|failed)|no\s(?P<worse>regressions))\sin\s(?:the|our)\s(?:\w+\s)?suite\b",
    re.IGNORECASE,
)
ALONE = re.compile(r"\W*(?:no|zero|0)\s(?:test\s)?failures?\W*\Z", re.IGNORECASE)
FULL_HAS = re.compile(r"\b(?:full|whole|entire|complete)\s(?:test[\s-]?)?(?:suite|run)\s\w+\s$", re.IGNORECASE)
IN_FULL = re.compile(
    r"\s(?:in|on|of|for|across)\s(?:the\s|a\s)?(?:full|whole|entire|complete)\s(?:test[\s-]?)?(?:suite|run)\b",
    re.IGNORECASE,
)
RAN = re.compile(
    r"\b(?:i\s|we\s)?(?:have\s)?(?:just\s)?(?:re-?)?ran\s(?P<what>(?:the\s|our\s)?(?:full|whole|entire|complete)\s(?:test[\s-]?)?suite|"
    r"(?:the\s|our\s)?test[\s-]?suite|all\s(?:of\s)?(?:the\s|our\s)?tests|the\stests)\b"
    r"|\b(?P<noun>(?:full|whole|entire|complete)\s(?:test[\s-]?)?suite)\swas\s(?:re-?)?run\b",
    re.IGNORECASE,
)
RAN_ALL = re.compile(r"\ball\s(?:the\s)?tests|\b(?:full|whole|entire|complete)\b|\bsuite\b", re.IGNORECASE)
EVERYTHING = re.compile(
    rf"\b(?:everything|all\sof\sthem|they\sall|all|it\sall)\s(?:(?:is|are|was|were|came\sback|comes\sback)\s)?(?:{NOW}\s)*"
    rf"(?:green|pass(?:es|ed)?|passing)\b",
    re.IGNORECASE,
)
LABEL = re.compile(
    rf"(?:(?:^|[.;,]\s|\s-\s)(?:tests?|test\s?suite|full\ssuite|suite|(?:ran\s)?pytest|test\srun|full\srun|test\sresults?)\s?:\s?(?:all\s|everything\s)?"
    rf"(?:green|pass(?:ed|ing|es)?|ok|clean|good|fine)|\bpytest\s(?:is\s)?(?:green|passes|passed)"
    rf"|^\W*(?:the\s)?tests\sok|\b(?:full\s)?test\srun\s(?:is|was)\s(?:green|clean)|\b(?:the\s)?suite\s(?:(?:is|was)\s)?(?:{NOW}\s)*(?:green|passes|passed|passing)){EDGE}",
    re.IGNORECASE,
)
ABOUT_TESTS = re.compile(r"\btests?\b|\bsuite\b|\bpytest\b|\btest_\w+", re.IGNORECASE)
NAME = r"(?P<test>(?:[\w./-]+\.py::)?(?:[\w]+::)*test_\w+(?:\[[^\]\s]*\])?)"
NAMED = re.compile(
    rf"{NAME}\s(?:{NOW}\s)*(?P<word>passes|passed|is\s(?:{NOW}\s)?(?:passing|green)|fails|failed|is\s(?:{NOW}\s)?failing)\b"
)

# What turns a sentence into no claim about a run that was. Strong: as far back as the clause goes; weak: only up to the
# last comma or `and`.
STRONG = re.compile(
    r"\b(?:if|unless|until|till|when|whenever|once|whether|so\sthat|such\sthat|in\sorder|ensure[sd]?|ensuring|"
    r"mak(?:e|es|ing)(?:\ssure)?|lets?|letting|gets?|getting|keeps?|keeping|allows?|wants?|expect(?:s|ed)?|hope|hopefully|"
    r"should|shall|would|could|can|have\sto|has\sto|cannot|can't|may|might|must|needs?|needed|will|won't|requires?|required|assum(?:e|es|ing)|"
    r"wait|waits|how|why|example|e\.g|previously|formerly|used\sto|no\slonger|originally|claims?|claimed|said|pretend|"
    r"verify\sthat|check\sthat|assert\sthat|say\sthat|says\sthat|think|thought|believe|helps?)\b",
    re.IGNORECASE,
)
WEAK = re.compile(
    r"\b(?:while|so|to|check|checks|asserts?|before|after|because|since|although|only|instead|rather|than|what|which|like|"
    r"reports?|reported|prints?|shows?|fix|fixes|fixed|not|never|n't|doesn't|don't|didn't|isn't|aren't|wasn't|weren't|almost|nearly|"
    r"most|some|many|several|few|that)\b",
    re.IGNORECASE,
)
REPORTED = re.compile(
    r"\b(?:verified|checked|confirmed|(?:pytest|suite|run)\s(?:now\s)?(?:reports?|says|shows?|has|had)|see|saw)(?:\sthat)?\s$",
    re.IGNORECASE,
)
ENVIRONMENT = (
    r"windows|macos?|osx|linux|arm\w*|aarch64|i386|x86\w*|amd64|s390x|ppc\w*|mips\w*|hurd|kfreebsd|jenkins|travis|github|main|master|"
    r"trunk|tip|python\s?\d|py\d|other|some|old|new|big|debian|ubuntu|fedora|(?:the\s)?\w+\s(?:platform|compiler|branch|machine|host)"
)
ELSEWHERE = re.compile(
    rf"\b(?:upstream|elsewhere|(?:on|for|with)\s(?:{ENVIRONMENT})\b|with\s(?:g\+\+|gcc|clang|icx|icc|msvc|\w+cert|-O\d|\w+\s\d+\.\d)|in\s(?:the\s)?(?:ci|"
    r"travis|jenkins|zuul|debian|sid|fedora|upstream)\b|ci\b|buildbots?|buildd|autopkgtests?|zuul|jenkins|travis|debci|reproducible|"
    r"without\s|under\s|against\s|if\s|when\s|unless\s|except|only\s|using\s)",
    re.IGNORECASE,
)
CI_CLAUSE = re.compile(r"[;,]\s(?:(?:and|but|the)\s)*ci\b[^;,]*|^(?:the\s)?ci\b[^;]*(?=;)", re.IGNORECASE)
HEDGED = re.compile(
    r"[\s,(\[-]*(?:hopefully|i\s(?:think|hope|believe|guess|suppose|assume)|probably|presumably|supposedly|maybe|perhaps|"
    r"in\stheory|tbd|todo|wip|to\sbe\s)\b",
    re.IGNORECASE,
)
SAID = re.compile(
    r"\bafter\s(?:this|that)(?:\s(?:change|fix|commit|patch))?\s*$|(?P<because>\bbecause\s*$)", re.IGNORECASE
)
PAST = re.compile(r"\b(?:passed|was|were|succeeded)\b", re.IGNORECASE)
UNKNOWN = re.compile(
    r"\b(?:not\s(?:been\s)?(?:run|verified|tested|checked|re-?run)|(?:haven't|have\snot|did\snot|didn't|were\snot|was\snot|weren't|wasn't)\s(?:yet\s)?"
    r"(?:been\s)?(?:run|re-?run|tested|verified|checked)|untested|unverified|unknown|no\stests?\s(?:were|was|have\sbeen)\srun|not\sknown)\b",
    re.IGNORECASE,
)
LABELLED = re.compile(r"\b(?P<older>before|previously)\s?:|\b(?:after|now|afterwards)\s?:|;", re.IGNORECASE)
ARROW = re.compile(r"\s?(?:->|=>|\u2192)\s?\d")
FILE = re.compile(
    rf"(?<![\w./-])(?P<file>[\w./-]*(?:test_\w+|\w_test)\.py)\s(?:{NOW}\s)*(?:passes|passed|is\s(?:{NOW}\s)?(?:passing|green)){TAIL}"
)
WORDS = {
    "pass": "passed", "succ": "passed", "gree": "passed", "clea": "passed", "fail": "failed", "red": "failed",
    "brea": "failed", "brok": "failed", "erro": "errors", "skip": "skipped", "xfai": "xfailed", "xpas": "xpassed",
    "dese": "deselected",
}  # fmt: skip


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

    @property
    def text(self) -> str:
        return self.sentence.text[self.start : self.end].strip()

    @property
    def says_passed(self) -> bool:
        """Whether it says that tests passed, in no number."""
        return self.kind == "green" and not self.ended


def claims(sentence: Sentence) -> Iterator[Claim]:
    """The claims of a sentence; none where it is a question, a wish, a condition, or says itself that it is unknown."""
    plain = sentence.plain
    if plain.rstrip().endswith("?") or UNKNOWN.search(_without_ci(plain)):
        return
    found = [*_counts(sentence), *_greens(sentence), *_rest(sentence)]
    kept: list[Claim] = []
    for claim in sorted(found, key=lambda one: (one.start, -one.end)):
        if not any(claim.start < other.end and other.start < claim.end for other in kept):
            kept.append(claim)
    yield from (claim for claim in kept if asserted(sentence, claim))


def _older(plain: str, at: int) -> bool:
    """Whether what is said there is of an older run: labelled `before:`, or left of an arrow to other numbers."""
    labels = list(LABELLED.finditer(plain, 0, at))
    return bool(labels and labels[-1]["older"]) or ARROW.search(plain, at) is not None


def asserted(sentence: Sentence, claim: Claim) -> bool:
    """Whether it is said of a run that was made here: nothing before it in its clause supposes, nothing places it."""
    plain = sentence.plain
    if _older(plain, claim.start) or HEDGED.match(plain, claim.end):
        return False
    marks = [plain.rfind(mark, 0, claim.start) for mark in (";", ":", " but ", " however ", "(")]
    clause = max(0, *marks)
    near = max(clause, plain.rfind(",", 0, claim.start), plain.rfind(" and ", 0, claim.start))
    told = REPORTED.search(plain[: claim.start].rstrip() + " ")
    said = SAID.search(plain, near, claim.start)
    stop = claim.start if said is None or (said["because"] and PAST.search(claim.text)) else said.start()
    if STRONG.search(plain, clause, claim.start) or (not told and WEAK.search(plain, near, stop)):
        return False
    if sentence.subject and claim.kind != "counts" and _imperative(plain):
        return False
    ours = _without_ci(plain)
    if not ours[claim.start : claim.end].strip():
        return False  # it stands in the clause about CI itself
    return not ELSEWHERE.search(ours, claim.end) and not ELSEWHERE.search(ours, 0, claim.start)


def _without_ci(plain: str) -> str:
    """The sentence with a clause of its own about CI blanked out: it places nothing that is said beside it."""
    return CI_CLAUSE.sub(lambda found: " " * len(found[0]), plain)


def _imperative(text: str) -> bool:
    """A subject like `Pass all tests to ...` or `Run tests ...` describes the change."""
    first = re.match(r"\W*(?:\[[^\]]*\]\s*|[\w./-]+:\s+)*([A-Za-z]+)\b(?!\s(?:suite|run|results?)\b)", text)
    return (
        bool(first)
        and first is not None
        and first[1].lower() in ("pass", "run", "add", "test", "let", "do", "try", "allow", "use")
    )


def number(text: str) -> int:
    word = text.strip().lower()
    if word in SPELLED:
        return SPELLED.index(word)
    return 0 if word == "no" else int(word.replace(",", ""))


def word_of(text: str) -> str:
    """`passed`, `failed`, ... of any form of the verb."""
    forms = ((part, start) for part in reversed(text.lower().split()) for start in WORDS)
    return next(WORDS[start] for part, start in forms if part.startswith(start))


def _counts(sentence: Sentence) -> Iterator[Claim]:
    """Numbers with outcomes. A summary needs one number that is surely about tests; then the others count too."""
    plain = sentence.plain
    for found in COUNT.finditer(plain):
        numbers = {word_of(found["word"]): number(found["n"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        yield Claim("counts", sentence, *found.span(), numbers=numbers)
    for found in ALL_OF.finditer(plain):
        numbers = {"passed": number(found["n"] or found["m"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        yield Claim("counts", sentence, *found.span(), numbers=numbers)
    for found in PASSES.finditer(plain):
        yield Claim("counts", sentence, *found.span(), numbers={"passed": number(found["n"])})
    summary = [found for found in SUMMARY.finditer(plain) if not _older(plain, found.start())]
    words = [found["word"].lower() for found in summary]
    about_tests = re.search(r"\btests?\b|\bsuite\b|pytest", plain, re.IGNORECASE)
    sure = "passed" in words or ("passing" in words and about_tests) or (about_tests and "pass" in words)
    if summary and sure and not any(number(found["n"]) == 0 and found["word"] == "passed" for found in summary):
        numbers = {word_of(found["word"]): number(found["n"]) for found in summary}
        yield Claim("counts", sentence, summary[0].start(), summary[-1].end(), numbers=numbers)


def _greens(sentence: Sentence) -> Iterator[Claim]:
    plain = sentence.plain
    for found in ALL.finditer(plain):
        numbers = {"passed": number(found["count"].split()[0])} if found["count"] else {}
        yield Claim("green", sentence, *found.span(), full=_is_all(found), numbers=numbers)
    for found in SUITE.finditer(plain):
        yield Claim("green", sentence, *found.span(), full=True)
    for found in PLAIN.finditer(plain):
        yield Claim("green", sentence, *found.span("said"))
    for found in LABEL.finditer(plain):
        yield Claim("green", sentence, *found.span(), full=bool(re.search(r"suite|full", found[0], re.IGNORECASE)))
    for found in ENDED.finditer(plain):
        yield Claim("green", sentence, *found.span(), full=bool(found["what"]), ended=found["without"] is not None)
    for found in (*STATUS.finditer(plain), *TARGET.finditer(sentence.text)):
        yield Claim("green", sentence, *found.span(), ended="n" not in found.re.groupindex or found["n"] is None)
    for found in RATE.finditer(plain):
        if found["rate"] or found["is"] or ABOUT_TESTS.search(plain) or _is_alone(found, plain):
            yield Claim("green", sentence, *found.span(), full=bool(RAN_ALL.search(plain)))
    for found in EVERYTHING.finditer(plain):
        if ABOUT_TESTS.search(plain) or _is_alone(found, plain):
            yield Claim("green", sentence, *found.span(), full=bool(RAN_ALL.search(plain)))


def _is_alone(found: re.Match[str], plain: str) -> bool:
    """Whether it is all that the sentence says."""
    return not (plain[: found.start()] + plain[found.end() :]).strip(" .!-*")


def _is_all(found: re.Match[str]) -> bool:
    """Whether it is said of the whole suite."""
    return not found["kind"] and (found["lead"] or "").lower() != "both"


def _rest(sentence: Sentence) -> Iterator[Claim]:
    plain = sentence.plain
    for found in NONE_BAD.finditer(plain):
        about = re.search(r"\btests?\b|\bsuite\b|pytest|\brun\b", plain, re.IGNORECASE)
        if about or ALONE.match(plain):
            numbers = {word_of(found["what"] or found["verb"] or found["fails"] or "failed"): 0}
            whole = IN_FULL.match(plain, found.end()) is not None or FULL_HAS.search(plain[: found.start()]) is not None
            yield Claim("counts", sentence, *found.span(), full=whole, numbers=numbers)
    for found in RAN.finditer(plain):
        said = (found["what"] or found["noun"]).lower()
        full = said.startswith("all") or bool(re.search(r"full|whole|entire|complete|suite", said))
        yield Claim("ran", sentence, *found.span(), full=full)
    for found in FILE.finditer(plain):
        yield Claim("file", sentence, *found.span(), test=found["file"])
    for found in NAMED.finditer(sentence.text):
        outcome = "failed" if "fail" in found["word"] else "passed"
        yield Claim("test", sentence, *found.span(), test=found["test"], outcome=outcome)


_QUOTED = re.compile(
    r"[`\"“']+(?P<text>(?:[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)|assert)\b[^`\"”\n]{4,400}?)[`\"”']+"
)


def quotes(sentence: Sentence) -> Iterator[Claim]:
    """Quoted texts that begin like an error or an assertion."""
    for found in _QUOTED.finditer(sentence.text):
        yield Claim("quote", sentence, *found.span(), outcome=found["text"].strip())
