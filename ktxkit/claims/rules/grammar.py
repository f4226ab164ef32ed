"""What sentences say of test runs, and what takes it back, as patterns over a sentence's plain text.

From sentences to claims about test runs. What is wished, asked, supposed, planned or told of elsewhere is none.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from ktxkit.claims.rules import UNKNOWN, asserted, is_older, without_ci
from ktxkit.claims.rules.frames import frames
from ktxkit.claims.rules.text import BOUNDARY, SPELLED, TAIL, Sentence, number
from ktxkit.claims.rules.words import APART, APPOSED, Claim, Qualifier, beside, contrasted, qualified

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
EDGE = r"(?=\s*(?:$|[.,;:!)\]/\[&+*|~=]|#\d|[^\w\s\x00-\x7f]|in\s\d|\d+/\d|and\b|\bout of\b|-\s|\())"

COUNT = re.compile(
    rf"(?<!python\s)(?<!py\s)(?<!version\s)(?<!level\s)(?<!phase\s)(?<!stage\s)(?<!but\s)(?<!except\s)(?<!least\s)(?<!most\s)(?<!about\s)(?<!just\s)(?<!roughly\s)(?<!nearly\s)(?<!than\s)(?<!only\s)(?<!\d\sof\s)(?<![#.\w-])\b{N.format('n')}(?:\s?(?:/"
    rf"|of|out\sof)\s?{N.format('of')})?\s(?:of\s(?:the|our|its"
    rf"|these)\s)?(?:{KIND}\s)*{TESTS}\s(?:{NOW}\s)*"
    rf"(?:(?:have|has)\s)?(?P<word>{GOOD}|{BAD}|skipped|ok\b|{IS}\s(?:{NOW}\s)*(?:{GREEN}|failing|red"
    r"|skipped)|green)\b",
    re.IGNORECASE,
)
MORE = re.compile(  # `2 tests passed, 1 failed`
    rf"(?:[,;]|\s(?:and|but))\s(?:(?:and|but)\s)?{N.format('n')}\s(?:of\sthem\s)?(?:(?:have|has|{IS})\s)?(?:{NOW}\s)*"
    rf"(?P<word>{GOOD}|{BAD}|skipped|xfailed|failures?)\b(?=\s*(?:$|[.,;)!]|in\s\d|(?:and|but)\b))",
    re.IGNORECASE,
)
JOINING = re.compile(r"[\s,;/|]+(?:and\s|but\s)?|\s(?:and|but)\s", re.IGNORECASE)
CI_FIRST = re.compile(r"(?:(?:the|our)\s)?ci\b[^;,]*?(?=;|,|\sand\s|\sbut\s)", re.IGNORECASE)
SUMMARY = re.compile(
    rf"(?<![\w.%-])(?P<n>\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}|no|zero)\s"
    r"(?P<word>passed|passing|pass|failed|failing|failures?|fail|errors?|skipped|skips?|xfailed|xpassed"
    rf"|deselected){EDGE}",
    re.IGNORECASE,
)
ALL_OF = re.compile(  # no word says of what: nothing but the whole clause, or a fraction
    rf"(?:(?:^|[.,;:(]\s?|\b(?:and|so|now)\s)all\s(?:of\s)?(?:the\s)?(?P<n>{NUMBER})\s(?:of\sthem\s)?"
    rf"|(?<![\w./-])(?P<m>\d{{1,7}})\s?(?:/|of|out\sof)\s?(?P<of>\d{{1,7}})\s)"
    rf"(?:{IS}\s)?(?:{NOW}\s)*(?:pass|passed|passing|green){EDGE}",
    re.IGNORECASE,
)
RATE = re.compile(
    rf"\b100\s?(?:%|percent)\s(?:(?P<rate>pass(?:ed|ing)?\srate)|{GOOD}|green)\b"
    rf"|\b(?P<is>pass\srate)\s?(?:{IS}\s|of\s|:\s?|\s)100\s?(?:%|percent)",
    re.IGNORECASE,
)
STATUS = re.compile(
    rf"\bexit\s(?:code|status)\sof\s(?:pytest|the\s(?:tests|suite))\s?(?::|is|was)\s?(?:0|zero){EDGE}"
    rf"|\b(?:pytest|the\s(?:tests|suite|test\srun))\s(?:{NOW}\s)*(?:exits?|exited|returns?|returned|ends?"
    rf"|ended)\s(?:with\s)?(?:(?:exit\s)?(?:status|code)\s)?(?:0|zero){EDGE}"
    rf"|\bpytest\s?:\s?(?P<n>\d{{1,7}})/(?P=n){EDGE}",
    re.IGNORECASE,
)
RESULT_OF = re.compile(r"\b(?:runs?|results?|suite|tests?|pytest)\s?:\s*$", re.IGNORECASE)
PRINTED = re.compile(  # the last line of unittest, RSpec, mocha and their kin
    rf"\W*ran\s{N.format('ran')}\stests?\sin\s[\d.]+\s?m?s\W*OK\b|\W*{N.format('examples')}\s(?:examples"
    rf"|scenarios|specs|assertions),\s(?:no|0)\sfailures{EDGE}"
    rf"|\W*{N.format('of')}(?:\stests?)?\s(?:were\s)?(?:run|executed)[,;]\s{NUMBER}\s(?:failed|failures?"
    rf"|successful|passed){EDGE}"
    rf"|\W*{N.format('passing')}\spassing\s\([\d.]+\s?m?s\)\W*\Z"
    r"|\W*(?:(?:result|status|outcome|verdict)\s?:\s?)?(?:PASS(?:ED)?|OK"
    rf"|GREEN)\s?[:(]\s?(?:all\s)?{N.format('tests')}\s(?:unit\s)?tests{EDGE}",
    re.IGNORECASE,
)
FRACTION = re.compile(rf"\b(?:{KIND}|all)\stests?\s(?P<n>\d{{1,7}})/(?P=n){EDGE}", re.IGNORECASE)
PASSING = re.compile(rf"\W*{N.format('n')}\s(?:passing|green|successful)\stests\W*\Z", re.IGNORECASE)
VERIFIED = re.compile(
    r"(?:^|[.,;:(]\s?|\b(?:and|i|we)\s)(?:verified|validated|tested|checked|confirmed)\s(?:this\s"
    r"|it\s)?(?:with|against|using|by\srunning)\s"
    r"(?:(?:the|our)\s)?(?:(?:full|whole|entire|complete)\s(?:test[\s-]?)?suite|all\s(?:of\s)?(?:the\s)?tests)\b"
    + EDGE,
    re.IGNORECASE,
)
ONLY = re.compile(
    r"\bthe\s(?:only|one)\s(?:remaining\s)?(?:failing\stest|test\sthat\s(?:still\s)?fails|test\sfailure)\s(?:is|was)\b"
    r"(?=\s(?:still\s)?[`\w./:]*test_\w)",
    re.IGNORECASE,
)
ALONE = re.compile(
    r"\W*(?:(?:there\s(?:were|are)\s)?(?:no|zero|0)\s(?:test\s)?failures?"
    r"|(?:test\s)?failures\s?[:=]\s?(?:0|none|zero))\W*\Z",
    re.IGNORECASE,
)
_GOODS = r"pass(?:es|ed|ing)?|ok|green|successes|successful|succeeded"
_BADS = r"not\sok|fail(?:s|ures?|ed|ing)?|errors?|red|skip(?:s|ped)?|xfailed|xpassed|deselected"
_UNITS = r"(?:unit\s)?(?:tests?|specs?|test\scases|examples)(?:\s(?:run|total|in\stotal|executed|completed))?|total"
_ITEM = rf"(?:{NUMBER}|none)\s(?:{_UNITS}|{_GOODS}|{_BADS})\b"
LISTED = re.compile(  # `64 tests, 64 passes, 0 failures`
    rf"(?:^|(?<=[.:;(>=]\s)|(?<=\())\W{{0,20}}{_ITEM}(?:(?:,|;|\s/|\sand|,\sand)\s{_ITEM})+(?=\s*(?:$|[.,;)/\](]|in\s\d))",
    re.IGNORECASE,
)
ITEM = re.compile(
    rf"\b(?P<n>{NUMBER}|none)\s(?:(?P<unit>{_UNITS})|(?P<good>{_GOODS})|(?P<bad>{_BADS}))\b", re.IGNORECASE
)
ACROSS = re.compile(
    r"(?:^|[.,;:(]\s?)\W{0,20}(?:no|zero|0)\s(?:failures?|failed)\s(?:in|across|out\sof|over|from|for|of"
    rf"|among)\s(?:all\s|any\sof\s|the\s|a\stotal\sof\s)*{N.format('n')}(?:\s{TESTS}{EDGE}|\W*\Z)|(?:^"
    rf"|[.,;:(]\s?)\W{{0,20}}(?:out\s)?of\s(?:all\s|the\s)*{N.format('m')}\s{TESTS},?\s(?:none|no\sone"
    rf"|not\sone)\sfail(?:s|ed)?{EDGE}|(?:^|[.,;:(]\s?)\W{{0,20}}(?:no\stest|not\sone"
    rf"|none)\s(?:out\s)?of\s{N.format('o')}(?:\stests)?\sfail(?:s|ed)?{EDGE}",
    re.IGNORECASE,
)
WHOLE_FRACTION = re.compile(
    rf"(?:^|(?<=[.,;:(]\s))\W*(?:[\w-]+\s){{0,3}}(?:(?:tests?|suite|specs)(?:\s(?:passing|passed|pass|green"
    rf"|ok)\s?:?|\s?:)|(?:passing|passed|green)\stests\s?:)\s(?:all\s)?(?P<n>\d{{1,7}})\s?(?:/|of"
    rf"|out\sof)\s?(?P=n){EDGE}"
    rf"|(?:^|(?<=[.,;:(]\s))(?P<m>\d{{1,7}})\s?(?:/|of|out\sof)\s?(?P=m)\s(?:tests\s)?(?:green|ok)\W*\Z"
    rf"|^\W*passed\s(?:all\s)?(?P<k>\d{{1,7}})\s?(?:/|of|out\sof)\s?(?P=k)(?:\stests)?{EDGE}",
    re.IGNORECASE,
)
CONFIRMED = re.compile(
    r"\b(?:(?:all|every|each|the|our|existing|new|unit|full|whole|entire)\s)*(?:tests?"
    rf"|(?:test\s)?suite)\s(?:{NOW}\s)*(?:(?:must|should|have\sto|need\sto"
    r"|ought\sto)\s(?:all\s)?(?:be\sgreen|pass)|pass(?:es)?|(?:is|are|stays?"
    rf"|remains?)\s(?:{NOW}\s)*(?:green"
    r"|passing))\W+(?:and\s|which\s|yes,?\s)*(?:they|it|which)\s(?:all\s|still\s|now\s)*(?:do|does|did|are"
    r"|is)"
    rf"(?=\s*(?:now|indeed|all)?\s*(?:$|[.,;!)]))",
    re.IGNORECASE,
)
RAN_ALL = re.compile(r"\ball\s(?:the\s)?tests|\b(?:full|whole|entire|complete)\b|\bsuite\b", re.IGNORECASE)
EVERYTHING = re.compile(
    r"\b(?:everything(?:\s(?:in|under|below)\s[\w./-]*tests?\b[\w./-]*)?|all\sof\sthem|they\sall|all"
    r"|it\sall|the\swhole\sthing|the\slot)(?:'s|\s)\s?(?:(?:is|are|was|were|came\sback"
    rf"|comes\sback)\s)?(?:{NOW}\s)*"
    rf"(?:green|pass(?:es|ed)?|passing|ok|okay)\b",
    re.IGNORECASE,
)
TALLY_WORDS = {
    "count": "selected", "tests": "selected", "total": "selected", "run": "selected", "ok": "passed", "pass": "passed",
    "passed": "passed", "passes": "passed", "successes": "passed", "succeeded": "passed", "fail": "failed",
    "fails": "failed", "failed": "failed", "failing": "failed", "failures": "failed", "failure": "failed",
    "errors": "errors", "skipped": "skipped", "broken": "failed",
}  # fmt: skip
KEY = (
    r"(?:test\scount|number\sof\s(?:failed|failing)\stests|(?:failed|failing|passed|broken)\stests?|tests?[\s-](?:run"
    r"|passed|failed|failures|errors|failing)|"
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
    r"\W*(?:number\sof\s)?(?:failed|failing|passed|broken)\stests|\W*tests?[\s-](?:run|passed|failed"
    r"|failures|errors|failing)",
    re.IGNORECASE,
)
BAD_KEY = re.compile(r"\W*(?:fail|error)", re.IGNORECASE)
OK_OF = re.compile(rf"(?:^|[.:;,])\W*ok\s\((?P<n>{COUNTED})\s(?:unit\s)?tests?\b", re.IGNORECASE)
ABOUT_TESTS = re.compile(r"\btest(?:s|ed|ing)?\b|\bsuite\b|\bpytest\b|\btest_\w+", re.IGNORECASE)
NAME = r"(?P<test>(?:[\w./-]+\.py::)?(?:[\w]+::)*test_\w+(?:\[[^\]\s]*\])?)"
SINGLE_NAME = re.compile(NAME.replace("?P<test>", "?:"))
NAMED = re.compile(
    rf"{NAME}(?:(?:\s(?:and|or)\s"
    r"|,\s)(?:[\w./-]+\.py::)?(?:\w+::)*test_\w+)*`?(?:\s?[:-]?\s(?P<label>PASSED|FAILED)\b"
    rf"|\s?[:-]\s?(?P<said>passed|failed|pass|ok|OK|green)\b{FOLLOWED}"
    rf"|\s(?:(?:is|was|has\sbeen)\s(?:now\s)?fixed,?\sand\s)?(?:{NOW}\s)*(?:ha(?:s"
    rf"|ve)\s(?:{NOW}\s)?(?=passed))?(?P<word>pass(?:es|ed)?|succeeds?|succeeded|is\s(?:{NOW}\s)?(?:passing"
    r"|green)|are\s(?:passing|green)|fails?|failed|"
    rf"is\s(?:{NOW}\s)?failing|(?:keeps|continues\sto)\s(?:fail|pass)(?:ing)?)(?:\s(?!only)\w+ly)?\b{FOLLOWED})"
)

PATH = re.compile(r"(?<![\w./-])[\w./-]*(?:test_\w+|\w_test)\.py")
FILE = re.compile(
    rf"{PATH.pattern}(?:(?:,\sand\s|,\s|\sand\s){PATH.pattern})*\s(?:{NOW}\s)*(?:pass(?:es|ed)?|(?:is|are)\s(?:(?:{NOW}"
    rf"|fully|completely)\s)?(?:passing|green)){FOLLOWED}"
)
WORDS = {
    "pass": "passed", "succ": "passed", "gree": "passed", "clea": "passed", "fail": "failed", "red": "failed",
    "brea": "failed", "brok": "failed", "erro": "errors", "skip": "skipped", "xfai": "xfailed", "xpas": "xpassed",
    "dese": "deselected", "ok": "passed",
}  # fmt: skip


def claims(sentence: Sentence, after_run: bool = False) -> Iterator[Claim]:
    """The claims of a sentence; none where it is a question, a wish, a condition, or says itself that it is unknown."""
    plain = sentence.plain
    if plain.rstrip().endswith("?"):
        return
    bare, places, qualifiers = qualified(sentence)
    for confirmed in CONFIRMED.finditer(bare.plain):
        start, end = places[confirmed.start()], places[confirmed.end() - 1] + 1
        yield Claim(
            "green", sentence, start, end, full=bool(RAN_ALL.search(confirmed[0])), qualifiers=tuple(qualifiers)
        )
        return
    found = [*_counts(bare), *_framed(bare, after_run), *_greens(bare), *_rest(bare)]
    kept: list[Claim] = []
    for claim in sorted(found, key=lambda one: (one.start, -one.end)):
        if not any(claim.start < other.end and other.start < claim.end for other in kept):
            kept.append(claim)
    for claim in _joined(bare, kept):
        start, end = places[claim.start], places[claim.end - 1] + 1
        apart = {at for span in beside(plain, start, end) for at in range(*span)}
        related = [one for one in qualifiers if one.start not in apart]
        ours = [one for one in related if not _is_apart(plain, start, end, one)]
        gone = apart | {at for one in qualifiers if one.kind == "except" for at in range(one.start, one.end)}
        if UNKNOWN.search(without_ci(_blanked(plain, range(len(plain)), apart))):
            continue
        alone = _blanked(bare.plain, places, gone - {*range(start, end)})
        if asserted(bare, claim, alone) and not contrasted(alone, claim, related):
            ours += _of_server(plain, start, apart, ours)
            claim = _of_how_many(claim, bare.plain, ours)
            yield replace(claim, sentence=sentence, start=start, end=end, qualifiers=tuple(ours))


def _is_apart(plain: str, start: int, end: int, one: Qualifier) -> bool:
    """Whether something between a claim and a qualifier parts them; what is excepted may be a clause of its own."""
    if one.kind == "except":
        return False
    return APART.search(plain, *sorted((max(start, one.start), min(end, one.end)))) is not None


def _blanked(text: str, places: Sequence[int], gone: Container[int]) -> str:
    """The text without the characters whose places are gone."""
    return "".join(" " if place in gone else char for char, place in zip(text, places, strict=True))


def _of_server(plain: str, start: int, apart: Container[int], ours: Sequence[Qualifier]) -> list[Qualifier]:
    """`CI is green and all tests pass` may speak of what ran there, unless it says `here`."""
    told = CI_FIRST.match(plain)
    if told is None or 0 not in apart or any(one.kind == "here" for one in ours) or plain[told.end()] == ";":
        return []
    return [Qualifier(0, told.end(), "elsewhere", told[0])] if start >= told.end() else []


def _of_how_many(claim: Claim, plain: str, qualifiers: Sequence[Qualifier]) -> Claim:
    """A claim of tests with their number in apposition: `all tests pass, 12 of them`."""
    found = APPOSED.match(plain, claim.end) or APPOSED.match(claim.text)
    said = [number(found["n"] or found["inside"])] if found else []
    said += [int(one.value) for one in qualifiers if one.kind == "number"]
    if not said or claim.numbers or claim.kind not in ("green", "ran"):
        return claim
    return replace(claim, numbers={"selected" if claim.kind == "ran" else "passed": said[0]})


def _joined(sentence: Sentence, found: Sequence[Claim]) -> Iterator[Claim]:
    """Counts that stand side by side are one claim of one run."""
    last: Claim | None = None
    for one in found:
        between = "" if last is None else sentence.plain[last.end : one.start]
        both = last is not None and last.kind == one.kind == "counts" and JOINING.fullmatch(between)
        if last is not None and both and not {*last.numbers} & {*one.numbers}:
            last = replace(last, end=one.end, numbers={**last.numbers, **one.numbers})
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def bare_text(sentence: Sentence) -> tuple[str, str]:
    """The text of a sentence without its qualifiers, and its plain form."""
    bare, _, _ = qualified(sentence)
    return bare.text, bare.plain


def word_of(text: str) -> str:
    """`passed`, `failed`, ... of any form of the verb."""
    forms = ((part, start) for part in reversed(text.lower().split()) for start in WORDS)
    return next(WORDS[start] for part, start in forms if part.startswith(start))


def _counts(sentence: Sentence) -> Iterator[Claim]:
    """Numbers with outcomes. A summary needs one number that is surely about tests; then the others count too."""
    plain = sentence.plain
    for found in COUNT.finditer(plain):
        if not TAIL.match(plain, found.end()) or sentence.text[found.end() : found.end() + 2].strip() in ("`", '"'):
            continue  # `one test passes a path`
        numbers = {word_of(found["word"]): number(found["n"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        end = found.end()
        while (more := MORE.match(plain, end)) and word_of(more["word"]) not in numbers:
            numbers[word_of(more["word"])], end = number(more["n"]), more.end()
        yield Claim("counts", sentence, found.start(), end, numbers=numbers)
    for found in ALL_OF.finditer(plain):
        numbers = {"passed": number(found["n"] or found["m"])}
        if found["of"]:
            numbers["selected"] = number(found["of"])
        yield Claim("counts", sentence, *found.span(), numbers=numbers)
    summary = [found for found in SUMMARY.finditer(plain) if not is_older(plain, found.start())]
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
    for found in LISTED.finditer(plain):
        yield from _listed(sentence, found)
    for found in OK_OF.finditer(plain):
        yield Claim("counts", sentence, *found.span(), numbers={"passed": number(found["n"])})


def _listed(sentence: Sentence, match: re.Match[str]) -> Iterator[Claim]:
    """`64 tests, 64 passes`; of failures alone only where nothing else is said."""
    numbers: dict[str, int] = {}
    for one in ITEM.finditer(match[0]):
        bad = "failed" if (one["bad"] or "").startswith("not") else word_of(one["bad"] or one["good"] or "pass")
        numbers["selected" if one["unit"] else bad] = number(one["n"])
    alone = not any(numbers.values()) and sentence.plain.strip(" .!") == match[0].strip()
    if len(numbers) > 1 and ("selected" in numbers or {"passed", "failed"} <= set(numbers) or alone):
        yield Claim("counts", sentence, *match.span(), numbers=numbers)


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


def _rest(sentence: Sentence) -> Iterator[Claim]:
    plain = sentence.plain
    if ALONE.match(plain):
        yield Claim("counts", sentence, 0, len(plain.rstrip()), numbers={"failed": 0})
    printed = PRINTED.match(plain)
    if printed is not None:
        counted = next(text for text in printed.groups() if text)
        yield Claim("counts", sentence, *printed.span(), numbers={"selected": number(counted), "failed": 0})
    for found in ACROSS.finditer(plain):
        yield Claim(
            "counts",
            sentence,
            *found.span(),
            numbers={"selected": number(found["n"] or found["m"] or found["o"]), "failed": 0},
        )
    for found in WHOLE_FRACTION.finditer(plain):
        yield Claim(
            "counts", sentence, *found.span(), numbers={"passed": number(found["n"] or found["m"] or found["k"])}
        )
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
        for path, start, end in _each(PATH, found):
            yield Claim("file", sentence, start, end, test=path)
    for found in NAMED.finditer(sentence.text):
        outcome = "failed" if "fail" in (found["word"] or found["label"] or found["said"]).lower() else "passed"
        for name, start, end in _each(SINGLE_NAME, found):
            yield Claim("test", sentence, start, end, test=name, outcome=outcome)


def _each(pattern: re.Pattern[str], match: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """Each of the names that a predicate is said of, with its place; the last has the predicate."""
    found = list(pattern.finditer(match.string, match.start(), match.end()))
    for at, one in enumerate(found):
        yield one[0], one.start(), one.end() if at + 1 < len(found) else match.end()
