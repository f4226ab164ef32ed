"""Whether a sentence asserts what it says of a run: what stands before and beside it may suppose, wish or place it.

Words of the lexicon said of tests or runs, and error texts that a message quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from ktxkit.claims.rules.text import (
    CI_CLAUSE,
    ELSEWHERE,
    HEDGED,
    LEAD,
    PLACED,
    REPORTED,
    STRONG,
    VOUCHED,
    WANTED,
    WEAK,
    WISHED,
    Sentence,
)
from ktxkit.claims.rules.words import Claim

IMPERATIVES = ("pass", "run", "add", "test", "let", "do", "try", "allow", "use")
CONDITION = re.compile(r"(?:^|[.;:]\s)\W*with\s$", re.IGNORECASE)  # `With all tests green, tag the release`
AND_THEN = re.compile(r",\s(?!(?:this|that|these|the|it|i|we|all|a|an|no|there|nothing|everything|my|our)\b)[a-z]+\s")
SAID = re.compile(
    r"\bafter\s(?:this|that)(?:\s(?:change|fix|commit|patch))?\s*$|(?P<because>\bbecause\s*$)", re.IGNORECASE
)
PAST = re.compile(r"\b(?:passed|was|were|succeeded)\b", re.IGNORECASE)
UNKNOWN = re.compile(
    r"\b(?:not\s(?:been\s)?(?:run|verified|tested|checked|re-?run)|(?:haven't|have\snot|did\snot|didn't"
    r"|were\snot|was\snot|weren't|wasn't)\s(?:yet\s)?"
    r"(?:been\s)?(?:run|re-?run|tested|verified|checked)|untested|unverified|unknown|no\stests?\s(?:were"
    r"|was|have\sbeen)\srun|not\sknown)\b",
    re.IGNORECASE,
)
LABELLED = re.compile(r"\b(?P<older>before|previously)\s?:|\b(?:after|now|afterwards)\s?:|;", re.IGNORECASE)
ARROW = re.compile(r"\s?(?:->|=>|\u2192)\s?\d")
ONLY_BEFORE = re.compile(r"\bonly\s$", re.IGNORECASE)


def is_older(plain: str, at: int) -> bool:
    """Whether what is said there is of an older run: labelled `before:`, or left of an arrow to other numbers."""
    labels = list(LABELLED.finditer(plain, 0, at))
    return bool(labels and labels[-1]["older"]) or ARROW.search(plain, at) is not None


def asserted(sentence: Sentence, claim: Claim, alone: str = "") -> bool:
    """Whether it is said of a run that was made here: nothing before it in its clause supposes, nothing places it.

    `alone`: the sentence's plain text without the clauses that speak of something else.
    """
    plain, start = sentence.plain, claim.start
    if WANTED.search(sentence.heading) or is_older(plain, start) or HEDGED.match(plain, claim.end):
        return False
    if VOUCHED.search(plain[:start]) is None and (WISHED.search(plain[:start]) or _supposed(plain, claim)):
        return False
    if sentence.subject and claim.kind != "counts" and not _own_clause(plain, start) and _imperative(plain):
        return False
    if CONDITION.search(plain[:start]) and AND_THEN.match(plain, claim.end):
        return False
    ours = without_ci(alone or plain)
    if not ours[start : claim.end].strip():
        return False  # it stands in the clause about CI itself
    if PLACED.search((alone or plain)[:start]) or ELSEWHERE.search(ours, claim.end):
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


def without_ci(plain: str) -> str:
    """The sentence with a clause of its own about CI blanked out: it places nothing that is said beside it."""
    return CI_CLAUSE.sub(lambda found: " " * len(found[0]), plain)


def _imperative(text: str) -> bool:
    """A subject like `Pass all tests to ...` or `Run tests ...` describes the change."""
    first = re.match(
        r"\W*(?:\[[^\]]*\]\s*|[\w./()-]+:\s+)*([A-Za-z]+)\b(?![\s-](?:suite|run|results?|status|plan|is|was|ok"
        r"|passed)\b)(?=\s*\w)",
        text,
    )
    return first is not None and first[1].lower() in IMPERATIVES


# -- words of the lexicon, and quotations

NAME = r"(?:[\w./-]+\.py::)?(?:\w+::)*test_\w+(?:\[[^\]\s]*\])?"
THING = r"(?:tests?|test\s?cases?|test\s?suite|suite|test\srun|run|failures?|pytest|it|this|they)"
BE = r"(?:is|are|was|were|looks|look|seems|seem|appears|appear|seemed|looked|became|remains?|got)"
ADVERB = r"(?:just|only|simply|merely|clearly|probably|likely|a|an|still|also|now|known|quite|very|too|really|the)"
DURATION = re.compile(r"\d+(?:\.\d+)?\s?(?:ms|s|secs?|seconds?|min|minutes?|m|h|hours?)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:is|are)\b", re.IGNORECASE)
_ABOUT = re.compile(r"\btests?\b|\btest_\w+|\bsuite\b|\bpytest\b|\bfailures?\b|\btest\srun\b", re.IGNORECASE)
_IMPERATIVE = re.compile(
    r"\W*(?:\[[^\]]*\]\s*|[\w./-]+:\s+)*(?:fix|fixes|fixed|mark|marks|skip|skips|remove|removes|removed"
    r"|disable|disables|disabled|retry|"
    r"deflake|unflake|avoid|avoids|prevent|prevents|handle|handles|address|addresses|reduce|reduces|speed"
    r"|stabili[sz]e|make|add|adds|drop|"
    r"work|workaround|tolerate|ignore|revert|reword|document|update|test|quarantine|xfail|rerun|bump|use"
    r"|try|let|allow|detect|investigate|"
    r"temporarily|do|don't|delete|move|refactor|split|rename|improve|increase|raise|extend|change"
    r"|disabling|skipping|marking|fixing)\b",
    re.IGNORECASE,
)


@cache
def _patterns(form: str) -> tuple[re.Pattern[str], ...]:
    word = re.escape(form).replace(r"\ ", r"[\s-]")
    subject = rf"(?:(?P<name>{NAME})|(?P<thing>{THING}))"
    edge = (
        r"(?=\s*(?:$|[.,;:!)\]]|(?:on|in|at|under|again|now|for|because|since|and|but|when|so|due|as|here|there)\b|,))"
    )
    verb = re.compile(
        rf"\b{subject}\s(?:{ADVERB}\s|sometimes\s|often\s)*(?:{BE}\s)?(?:{ADVERB}\s)*{word}{edge}", re.IGNORECASE
    )
    noun = re.compile(
        rf"\b{subject}\s(?:{BE}\s)(?:{ADVERB}\s)*{word}\s(?:test|tests|failure|failures|one|error|errors|timeout)\b",
        re.IGNORECASE,
    )
    attribute = re.compile(rf"\b{word}\s(?:\w+\s){{0,2}}?(?P<name>{NAME})|(?P<after>{NAME})\s\({word}\)", re.IGNORECASE)
    return verb, noun, attribute


def lexicon_words(
    sentence: Sentence, forms: Mapping[str, str], asserted: Callable[[Sentence, Claim], bool]
) -> Iterator[Claim]:
    """The words that a sentence says; `forms` gives each form's word, phrases before their parts.

    As a predicate a word must be earned; as an attribute (`fix the flaky test_x`) it tells which test is meant.
    """
    plain = sentence.plain
    if plain.rstrip().endswith("?") or not _ABOUT.search(sentence.text):
        return
    lower = plain.lower()
    taken: list[tuple[int, int]] = []
    for form in forms:
        if not _occurs(form, lower):
            continue
        for claim in _of_form(sentence, form, forms[form], asserted):
            if not any(claim.start < end and start < claim.end for start, end in taken):
                taken.append((claim.start, claim.end))
                yield claim


def _occurs(form: str, lower: str) -> bool:
    return form.lower() in lower or form.lower() in lower.replace("-", " ")


def _of_form(sentence: Sentence, form: str, word: str, asserted: Callable[[Sentence, Claim], bool]) -> Iterator[Claim]:
    verb, noun, attribute = _patterns(form)
    present = word == "failing"  # what was failing is mostly what the change mends
    described = bool(_IMPERATIVE.match(sentence.plain))
    for pattern in (verb, noun):
        for found in pattern.finditer(sentence.text):
            if sentence.plain[found.start() : found.end()].strip() != found[0].strip() and not found["name"]:
                continue  # inside a quotation
            if present and not _PRESENT.search(found[0]):
                continue
            claim = Claim("word", sentence, *found.span(), test=found["name"] or "", outcome=form)
            if not described and asserted(sentence, claim):
                yield claim
    for found in attribute.finditer(sentence.text):
        name = found["name"] or found["after"]
        yield Claim("attribute", sentence, *found.span(), test=name, outcome=form)


_QUOTED = re.compile(
    r"[`\"“']+(?P<text>(?:[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)|assert)\b[^`\"”\n]{4,400}?)[`\"”']+"
)


def quotes(sentence: Sentence) -> Iterator[Claim]:
    """Quoted texts that begin like an error or an assertion."""
    for found in _QUOTED.finditer(sentence.text):
        yield Claim("quote", sentence, *found.span(), outcome=found["text"].strip())
