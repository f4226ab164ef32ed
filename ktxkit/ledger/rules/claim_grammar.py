"""What sentences say of test runs, and what takes it back, as patterns over a sentence's plain text.

From sentences to claims about test runs. What is wished, asked, supposed, planned or told of elsewhere is none.

Error texts that a message quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ktxkit.ledger.rules.claim_frames import BOUNDARY, LEAD, TAIL, VOUCHED, frames
from ktxkit.ledger.rules.claim_text import SPELLED, Sentence, number

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
FOLLOWED = f"(?={TAIL.pattern})"
EDGE = r"(?=\s*(?:$|[.,;:!)\]/\[&+*|~]|#\d|[^\w\s\x00-\x7f]|in\s\d|\d+/\d|and\b|\bout of\b|-\s|\())"

COUNT = re.compile(
    rf"(?<!python\s)(?<!py\s)(?<!version\s)(?<!level\s)(?<!phase\s)(?<!stage\s)(?<![#.\w-])\b{N.format('n')}(?:\s?(?:/|of|out\sof)\s?{N.format('of')})?\s(?:of\s(?:the|our|its|these)\s)?(?:{KIND}\s)*{TESTS}\s(?:{NOW}\s)*"
    rf"(?:(?:have|has)\s)?(?P<word>{GOOD}|{BAD}|skipped|ok\b|{IS}\s(?:{NOW}\s)*(?:{GREEN}|failing|red|skipped)|green)\b",
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
    rf"\b100\s?(?:%|percent)\s(?:(?P<rate>pass(?:ed|ing)?\srate)|{GOOD}|green)\b|\b(?P<is>pass\srate)\s?(?:{IS}\s|of\s|:\s?|\s)100\s?(?:%|percent)",
    re.IGNORECASE,
)
STATUS = re.compile(
    rf"\bexit\s(?:code|status)\sof\s(?:pytest|the\s(?:tests|suite))\s?(?::|is|was)\s?(?:0|zero){EDGE}"
    rf"|\b(?:pytest|the\s(?:tests|suite|test\srun))\s(?:{NOW}\s)*(?:exits?|exited|returns?|returned|ends?|ended)\s(?:with\s)?(?:(?:exit\s)?(?:status|code)\s)?(?:0|zero){EDGE}"
    rf"|\bpytest\s?:\s?(?P<n>\d{{1,7}})/(?P=n){EDGE}",
    re.IGNORECASE,
)
RESULT_OF = re.compile(r"\b(?:runs?|results?|suite|tests?|pytest)\s?:\s*$", re.IGNORECASE)
PRINTED = re.compile(  # the last line of unittest, RSpec, mocha and their kin
    rf"\W*ran\s{N.format('ran')}\stests?\sin\s[\d.]+\s?m?s\W*OK\b|\W*{N.format('examples')}\s(?:examples|scenarios|specs|assertions),\s(?:no|0)\sfailures{EDGE}"
    rf"|\W*{N.format('of')}(?:\stests?)?\s(?:were\s)?(?:run|executed)[,;]\s{NUMBER}\s(?:failed|failures?|successful|passed){EDGE}"
    rf"|\W*{N.format('passing')}\spassing\s\([\d.]+\s?m?s\)\W*\Z"
    rf"|\W*(?:(?:result|status|outcome|verdict)\s?:\s?)?(?:PASS(?:ED)?|OK|GREEN)\s?[:(]\s?(?:all\s)?{N.format('tests')}\s(?:unit\s)?tests{EDGE}",
    re.IGNORECASE,
)
FRACTION = re.compile(rf"\b(?:{KIND}|all)\stests?\s(?P<n>\d{{1,7}})/(?P=n){EDGE}", re.IGNORECASE)
PASSING = re.compile(rf"\W*{N.format('n')}\s(?:passing|green|successful)\stests\W*\Z", re.IGNORECASE)
VERIFIED = re.compile(
    r"(?:^|[.,;:(]\s?|\b(?:and|i|we)\s)(?:verified|validated|tested|checked|confirmed)\s(?:this\s|it\s)?(?:with|against|using|by\srunning)\s"
    r"(?:(?:the|our)\s)?(?:(?:full|whole|entire|complete)\s(?:test[\s-]?)?suite|all\s(?:of\s)?(?:the\s)?tests)\b"
    + EDGE,
    re.IGNORECASE,
)
ONLY_BEFORE = re.compile(r"\bonly\s$", re.IGNORECASE)
ONLY = re.compile(
    r"\bthe\s(?:only|one)\s(?:remaining\s)?(?:failing\stest|test\sthat\s(?:still\s)?fails|test\sfailure)\s(?:is|was)\b"
    r"(?=\s(?:still\s)?[`\w./:]*test_\w)",
    re.IGNORECASE,
)
ALONE = re.compile(r"\W*(?:no|zero|0)\s(?:test\s)?failures?\W*\Z", re.IGNORECASE)
RAN_ALL = re.compile(r"\ball\s(?:the\s)?tests|\b(?:full|whole|entire|complete)\b|\bsuite\b", re.IGNORECASE)
EVERYTHING = re.compile(
    rf"\b(?:everything(?:\s(?:in|under|below)\s[\w./-]*tests?\b[\w./-]*)?|all\sof\sthem|they\sall|all|it\sall|the\swhole\sthing|the\slot)(?:'s|\s)\s?(?:(?:is|are|was|were|came\sback|comes\sback)\s)?(?:{NOW}\s)*"
    rf"(?:green|pass(?:es|ed)?|passing|ok|okay)\b",
    re.IGNORECASE,
)
TALLY_WORDS = {
    "tests": "selected", "total": "selected", "run": "selected", "ok": "passed", "pass": "passed", "passed": "passed",
    "passes": "passed", "successes": "passed", "succeeded": "passed", "fail": "failed", "fails": "failed",
    "failed": "failed", "failing": "failed", "failures": "failed", "failure": "failed", "errors": "errors",
    "skipped": "skipped", "broken": "failed",
}  # fmt: skip
KEY = (
    r"(?:number\sof\s(?:failed|failing)\stests|(?:failed|failing|passed|broken)\stests?|tests?[\s-](?:run|passed|failed|failures|errors|failing)|"
    r"tests|total|pass(?:ed|es)?|fail(?:s|ed|ures?)?|errors|skipped|ok|successes|succeeded)"
)
COUNTED = r"(?:\d{1,3}(?:,\d{3})+|\d{1,7}|none|zero)"
PAIR = re.compile(rf"\b(?P<key>{KEY})\s?[:=]?\s?(?P<n>{COUNTED})\b", re.IGNORECASE)
TALLY = re.compile(
    rf"(?:(?<=[.,;:(]\s)|^\W*)(?:{KEY}\s?[:=]\s?{COUNTED}\b(?![.]\d)(?:[\s,;/|-]*{KEY}\s?[:=]\s?{COUNTED}\b)*"
    rf"|{KEY}\s{COUNTED}\b(?:[\s,;/|-]*{KEY}\s{COUNTED}\b)+)(?=\s*(?:$|[.,;)/\](]|of\s\d|in\s\d))",
    re.IGNORECASE,
)
SURE = re.compile(
    r"\W*(?:number\sof\s)?(?:failed|failing|passed|broken)\stests|\W*tests?[\s-](?:run|passed|failed|failures|errors|failing)",
    re.IGNORECASE,
)
BAD_KEY = re.compile(r"\W*(?:fail|error)", re.IGNORECASE)
OK_OF = re.compile(rf"(?:^|[.:;,])\W*ok\s\((?P<n>{COUNTED})\s(?:unit\s)?tests?\b", re.IGNORECASE)
ABOUT_TESTS = re.compile(r"\btest(?:s|ing)?\b|\bsuite\b|\bpytest\b|\btest_\w+", re.IGNORECASE)
NAME = r"(?P<test>(?:[\w./-]+\.py::)?(?:[\w]+::)*test_\w+(?:\[[^\]\s]*\])?)"
NAMED = re.compile(
    rf"{NAME}(?:(?:\s(?:and|or)\s|,\s)(?:[\w./-]+\.py::)?(?:\w+::)*test_\w+)*`?(?:\s?[:-]?\s(?P<label>PASSED|FAILED)\b|\s?[:-]\s?(?P<said>passed|failed|pass|ok|OK|green)\b{FOLLOWED}"
    rf"|\s(?:(?:is|was|has\sbeen)\s(?:now\s)?fixed,?\sand\s)?(?:{NOW}\s)*(?:ha(?:s|ve)\s(?:{NOW}\s)?(?=passed))?(?P<word>pass(?:es|ed)?|succeeds?|succeeded|is\s(?:{NOW}\s)?(?:passing|green)|are\s(?:passing|green)|fails?|failed|"
    rf"is\s(?:{NOW}\s)?failing|(?:keeps|continues\sto)\s(?:fail|pass)(?:ing)?)\b{FOLLOWED})"
)

# What turns a sentence into no claim about a run that was. Strong: as far back as the clause goes; weak: only up to the
# last comma or `and`.
STRONG = re.compile(
    r"\b(?:if|unless|until|till|when|whenever|once|whether|so\sthat|such\sthat|in\sorder|ensure[sd]?|ensuring|where|simulat(?:e|es|ing)|imagine|suppose|in\scase|as\s(?:soon|long)\sas|such\sas|the\smoment|"
    r"mak(?:e|es|ing)(?:\ssure)?|lets?|letting|gets?|getting|keeps?|keeping|allows?|wants?|expects?|(?<!as\s)expected|hope|hopefully|"
    r"should|shall|would|could|can|have\sto|has\sto|cannot|can't|may|might|must|needs?|needed|will|won't|requires?|required|assum(?:e|es|ing)|"
    r"wait|waits|how|why|examples?|e\.g|previously|formerly|used\sto|no\slonger|originally|claims?|claimed|said|pretend|"
    r"verify\sthat|check\sthat|assert\sthat|see\sthat|say\sthat|says\sthat|think|thought|believe|helps?)\b",
    re.IGNORECASE,
)
WEAK = re.compile(
    r"\b(?:while|so|to|check|checks|asserts?|before|after|because|since|although|only|instead|rather|than|what|which|like|"
    r"reports?|reported|prints?|shows?|fix|fixes|fixed|not|never|n't|doesn't|don't|didn't|isn't|aren't|wasn't|weren't|almost|nearly|"
    r"most|some|many|several|few|that)\b",
    re.IGNORECASE,
)
REPORTED = re.compile(
    r"\b(?:verified|checked|confirmed|(?:pytest|suite|run|test\s(?:log|output|report))\s(?:now\s)?(?:reports?|says|shows?|has|had)|see|saw)(?:\sthat)?\s$",
    re.IGNORECASE,
)
ENVIRONMENT = (
    r"windows|macos?|osx|linux|arm\w*|aarch64|i386|x86\w*|amd64|s390x|ppc\w*|mips\w*|hurd|\w*bsd|musl|wasm\w*|android|ios|solaris|cygwin|msys2?|jenkins|travis|github|main|master|"
    r"trunk|tip|python\s?\d|py\d|other|some|old|new|big|debian|ubuntu|fedora|(?:the\s)?\w+\s(?:platform|compiler|branch|machine|host)"
)
ELSEWHERE = re.compile(
    rf"\b(?:upstream|elsewhere|(?:on|for|with)\s(?!(?:my|our|this)\b|the\s(?:new|final|current|latest)\b)(?:{ENVIRONMENT})\b|with\s(?:g\+\+|gcc|clang|icx|icc|msvc|\w+cert|-O\d|\w+\s\d+\.\d)|in\s(?:the\s)?(?:ci|"
    r"travis|jenkins|zuul|debian|sid|fedora|upstream)\b|ci\b(?!-)|buildbots?|buildd|autopkgtests?|zuul|jenkins|travis|debci|reproducible|"
    r"without\s(?!(?:(?:any|a|an|the|further|more|single|test|functional|visible|behaviou?ral)\s){0,2}(?:change|modification|issue|problem|error|failure|failing|fail|warning|trouble|"
    r"regression|skip)s?\b)|under\s(?!pytest|tox|nox)|against\s(?!this\b|my\b|our\b|the\s(?:current|final|new)\b)|if\s|when\s|unless\s|except|only\s|using\s)",
    re.IGNORECASE,
)
PLACED = re.compile(  # a condition that stands before it
    r"(?:^|[.;(]\s?)\W*(?:with|using|given)\s(?!(?:this|that|these|those|it|my|our|all|the\s(?:fix|patch|change|commit|new|final|code)s?)\b)"
    r"(?![^,;]*\b(?:\w{2,}ed|gone|in\splace|applied)\s*,\s*$)[^,;]*,\s*$",
    re.IGNORECASE,
)
CI_CLAUSE = re.compile(r"[;,]\s(?:(?:and|but|the)\s)*ci\b[^;,]*|^(?:the\s)?ci\b[^;]*(?=;)", re.IGNORECASE)
IMPERATIVES = ("pass", "run", "add", "test", "let", "do", "try", "allow", "use")
WISHED = re.compile(  # a label that says what is to be, or who says it
    r"\b(?:acceptance|criteria|criterion|rules?|goals?|requirements?|definition\sof\sdone|policy|condition|expected|expectation|"
    r"how\sto\s\w+|to\s?do|next(?:\ssteps?)?|wanted|target|template|examples?(?:\sof)?|known\s\w+|badge|upstream)(?:\s\w+)?\s?:[^:;]*$"
    r"|\b(?:see|issue|bug|ticket)\s#?[\w-]+\s?:[^:;]*$|\b(?:probably|presumably|possibly|perhaps|maybe|supposedly|apparently|guess|suppose|trust|seems?|looks?\s(?:like|as)|made|"
    r"doubt|confident|sure)\s[^,;:]*$",
    re.IGNORECASE,
)
HEDGED = re.compile(
    r"[\s,(\[-]*(?:hopefully|i\s(?:think|hope|believe|guess|suppose|assume)|probably|presumably|supposedly|maybe|perhaps|"
    r"in\stheory|tbd|todo|wip|to\sbe|before(?!\s(?:i|we)\b))\b|\s?:\s?(?:no(?!\s(?:failures?|errors?|problems?|issues?|regressions?))|not|n/a|todo|tbd|unknown|pending|false|failed)\b",
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
    rf"(?<![\w./-])(?P<file>[\w./-]*(?:test_\w+|\w_test)\.py)\s(?:{NOW}\s)*(?:passes|passed|is\s(?:(?:{NOW}|fully|completely)\s)?(?:passing|green)){FOLLOWED}"
)
WORDS = {
    "pass": "passed", "succ": "passed", "gree": "passed", "clea": "passed", "fail": "failed", "red": "failed",
    "brea": "failed", "brok": "failed", "erro": "errors", "skip": "skipped", "xfai": "xfailed", "xpas": "xpassed",
    "dese": "deselected", "ok": "passed",
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
    part: bool = False
    topic: str = ""

    @property
    def text(self) -> str:
        return self.sentence.text[self.start : self.end].strip()

    @property
    def says_passed(self) -> bool:
        """Whether it says that tests passed, in no number."""
        return self.kind == "green" and not self.ended


def claims(sentence: Sentence, after_run: bool = False) -> Iterator[Claim]:
    """The claims of a sentence; none where it is a question, a wish, a condition, or says itself that it is unknown."""
    plain = sentence.plain
    if plain.rstrip().endswith("?") or UNKNOWN.search(_without_ci(plain)):
        return
    found = [*_counts(sentence), *_framed(sentence, after_run), *_greens(sentence), *_rest(sentence)]
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
    plain, start = sentence.plain, claim.start
    if _older(plain, start) or HEDGED.match(plain, claim.end):
        return False
    if VOUCHED.search(plain[:start]) is None and (WISHED.search(plain[:start]) or _supposed(plain, claim)):
        return False
    if sentence.subject and claim.kind != "counts" and not _own_clause(plain, start) and _imperative(plain):
        return False
    ours = _without_ci(plain)
    if not ours[start : claim.end].strip():
        return False  # it stands in the clause about CI itself
    if PLACED.search(plain[:start]) or ELSEWHERE.search(ours, claim.end):
        return False
    return not ELSEWHERE.search(_before(LEAD.sub("", ours[:start]), claim))


def _supposed(plain: str, claim: Claim) -> bool:
    """Whether something before it, in its clause, makes it a wish, a condition or somebody else's word."""
    start = claim.start
    clause = max(0, *(plain.rfind(mark, 0, start) for mark in (";", ":", " but ", " however ", "(")))
    near = max(clause, plain.rfind(",", 0, start), plain.rfind(" and ", 0, start))
    told = REPORTED.search(plain[:start].rstrip() + " ")
    said = SAID.search(plain, near, start)
    lead = LEAD.search(plain[:start])
    stop = start if said is None or (said["because"] and PAST.search(claim.text)) else said.start()
    stop = min(stop, lead.start()) if lead is not None else stop
    stop = len(_before(plain[:stop], claim))
    return bool(STRONG.search(plain, clause, start) or (not told and WEAK.search(plain, near, stop)))


def _before(text: str, claim: Claim) -> str:
    """What stands before it, without the `only` of `only test_x fails`, which restricts what failed."""
    failed = claim.outcome == "failed" or "failed" in claim.numbers
    return ONLY_BEFORE.sub("", text) if failed else text


def _own_clause(plain: str, start: int) -> bool:
    """Whether a clause of its own begins with it, after what the subject says is done."""
    return bool(re.search(r"(?:;|\.|,|\s-|\()\s*$", plain[:start]))


def _without_ci(plain: str) -> str:
    """The sentence with a clause of its own about CI blanked out: it places nothing that is said beside it."""
    return CI_CLAUSE.sub(lambda found: " " * len(found[0]), plain)


def _imperative(text: str) -> bool:
    """A subject like `Pass all tests to ...` or `Run tests ...` describes the change."""
    first = re.match(
        r"\W*(?:\[[^\]]*\]\s*|[\w./()-]+:\s+)*([A-Za-z]+)\b(?![\s-](?:suite|run|results?|status|plan|is|was|ok|passed)\b)(?=\s*\w)",
        text,
    )
    return first is not None and first[1].lower() in IMPERATIVES


def word_of(text: str) -> str:
    """`passed`, `failed`, ... of any form of the verb."""
    forms = ((part, start) for part in reversed(text.lower().split()) for start in WORDS)
    return next(WORDS[start] for part, start in forms if part.startswith(start))


def _counts(sentence: Sentence) -> Iterator[Claim]:
    """Numbers with outcomes. A summary needs one number that is surely about tests; then the others count too."""
    plain = sentence.plain
    for found in COUNT.finditer(plain):
        if not TAIL.match(plain, found.end()):
            continue  # `one test passes a path`
        numbers = {word_of(found["word"]): number(found["n"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        yield Claim("counts", sentence, *found.span(), numbers=numbers)
    for found in ALL_OF.finditer(plain):
        numbers = {"passed": number(found["n"] or found["m"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        yield Claim("counts", sentence, *found.span(), numbers=numbers)
    summary = [found for found in SUMMARY.finditer(plain) if not _older(plain, found.start())]
    words = [found["word"].lower() for found in summary]
    about_tests = re.search(r"\btests?\b|\bsuite\b|pytest", plain, re.IGNORECASE)
    alone = (
        len(summary) == 1
        and words[0] == "failed"
        and not (plain[: summary[0].start()] + plain[summary[0].end() :]).strip(" .!")
    )
    both = {"passed", "failed"} <= {word_of(word) for word in words}
    labelled = bool(summary and ABOUT_TESTS.search(plain) and RESULT_OF.search(plain[: summary[0].start()]))
    sure = "passed" in words or both or alone or labelled or (about_tests and {"passing", "pass"} & set(words))
    if summary and sure and not any(number(found["n"]) == 0 and found["word"].startswith("pass") for found in summary):
        numbers = {word_of(found["word"]): number(found["n"]) for found in summary}
        yield Claim("counts", sentence, summary[0].start(), summary[-1].end(), numbers=numbers)
    yield from _tallies(sentence)


def _tallies(sentence: Sentence) -> Iterator[Claim]:
    """`Tests run: 12, Failures: 0`: each number behind its word, as runners print them."""
    plain = sentence.plain
    for found in TALLY.finditer(plain):
        pairs = [(one["key"].lower(), one["n"]) for one in PAIR.finditer(found[0])]
        sure = len(pairs) > 1 or SURE.match(found[0]) or (ABOUT_TESTS.search(plain) and BAD_KEY.match(found[0]))
        numbers = {tallied(key): number(n) for key, n in pairs}
        if sure and not (
            len(pairs) == 1 and pairs[0][1].lower() in ("none", "no") and tallied(pairs[0][0]) == "selected"
        ):
            yield Claim("counts", sentence, *found.span(), numbers=numbers)
    for found in OK_OF.finditer(plain):
        yield Claim("counts", sentence, *found.span(), numbers={"passed": number(found["n"])})


def tallied(key: str) -> str:
    """Our word for a runner's: `Tests run` is what was selected."""
    words = [word for part in re.findall("[a-z]+", key) for word in (TALLY_WORDS.get(part),) if word]
    return next((word for word in words if word != "selected"), "selected")


def _framed(sentence: Sentence, after_run: bool) -> Iterator[Claim]:
    for one in frames(sentence.text, sentence.plain, after_run):
        kind = {"none": "counts", "failed": "counts"}.get(one.kind, one.kind)
        word = {"failed": "failed", "ran": "selected"}.get(one.kind, "passed")
        numbers = {"failed": 0} if one.kind == "none" else {} if one.number is None else {word: one.number}
        if one.number is not None and kind == "green" and not one.whole and not one.topic:
            kind = "counts"
        yield Claim(
            kind,
            sentence,
            one.start,
            one.end,
            full=one.whole,
            numbers=numbers,
            ended=one.ended and kind == "green",
            part=one.part,
            topic=one.topic,
        )


def _greens(sentence: Sentence) -> Iterator[Claim]:
    plain = sentence.plain
    for found in STATUS.finditer(plain):
        yield Claim("green", sentence, *found.span(), ended=found["n"] is None)
    for found in RATE.finditer(plain):
        if found["rate"] or found["is"] or ABOUT_TESTS.search(plain) or _is_alone(found, plain):
            yield Claim("green", sentence, *found.span(), full=bool(RAN_ALL.search(plain)))
    for found in EVERYTHING.finditer(plain):
        if not (TAIL.match(plain, found.end()) and BOUNDARY.search(plain[: found.start()])):
            continue
        if ABOUT_TESTS.search(sentence.text) or _is_alone(found, plain) or SUMMARY.search(plain):
            yield Claim("green", sentence, *found.span(), full=bool(RAN_ALL.search(plain)))


def _is_alone(match: re.Match[str], plain: str) -> bool:
    """Whether it is all that the sentence says."""
    return not (re.sub(r"\b(?:now|afterwards)\s?:?", "", plain[: match.start()]) + plain[match.end() :]).strip(" .!-*%")


def _is_all(match: re.Match[str]) -> bool:
    """Whether it is said of the whole suite."""
    return not match["kind"] and (match["lead"] or "").lower() != "both"


def _rest(sentence: Sentence) -> Iterator[Claim]:
    plain = sentence.plain
    if ALONE.match(plain):
        yield Claim("counts", sentence, 0, len(plain.rstrip()), numbers={"failed": 0})
    printed = PRINTED.match(plain)
    if printed is not None:
        counted = next(text for text in printed.groups() if text)
        yield Claim("counts", sentence, *printed.span(), numbers={"selected": number(counted), "failed": 0})
    for found in FRACTION.finditer(plain):
        yield Claim("counts", sentence, *found.span(), numbers={"passed": number(found["n"])})
    alone = PASSING.match(plain)
    if alone is not None:
        yield Claim("counts", sentence, *alone.span(), numbers={"passed": number(alone["n"])})
    for found in VERIFIED.finditer(plain):
        yield Claim("ran", sentence, *found.span(), full=True)
    for found in ONLY.finditer(sentence.text):
        yield Claim("counts", sentence, *found.span(), numbers={"failed": 1})
    for found in FILE.finditer(plain):
        yield Claim("file", sentence, *found.span(), test=found["file"])
    for found in NAMED.finditer(sentence.text):
        outcome = "failed" if "fail" in (found["word"] or found["label"] or found["said"]).lower() else "passed"
        yield Claim("test", sentence, *found.span(), test=found["test"], outcome=outcome)


_QUOTED = re.compile(
    r"[`\"“']+(?P<text>(?:[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)|assert)\b[^`\"”\n]{4,400}?)[`\"”']+"
)


def quotes(sentence: Sentence) -> Iterator[Claim]:
    """Quoted texts that begin like an error or an assertion."""
    for found in _QUOTED.finditer(sentence.text):
        yield Claim("quote", sentence, *found.span(), outcome=found["text"].strip())
