"""Words of the lexicon said of tests or runs. As a predicate a word must be earned; as an attribute (`fix the flaky
test_x`) it tells which test is meant, and is looked at only where the ledger knows the test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from ktxkit.ledger.rules.claims.grammar import Claim, asserted
from ktxkit.ledger.rules.claims.text import Sentence

NAME = r"(?:[\w./-]+\.py::)?(?:\w+::)*test_\w+(?:\[[^\]\s]*\])?"
THING = r"(?:tests?|test\s?cases?|test\s?suite|suite|test\srun|run|failures?|pytest|it|this|they)"
BE = r"(?:is|are|was|were|looks|look|seems|seem|appears|appear|seemed|looked|became|remains?|got)"
ADVERB = r"(?:just|only|simply|merely|clearly|probably|likely|a|an|still|also|now|known|quite|very|too|really|the)"
NUMBER = re.compile(r"\d+(?:\.\d+)?\s?(?:ms|s|secs?|seconds?|min|minutes?|m|h|hours?)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:is|are)\b", re.IGNORECASE)
_ABOUT = re.compile(r"\btests?\b|\btest_\w+|\bsuite\b|\bpytest\b|\bfailures?\b|\btest\srun\b", re.IGNORECASE)
_IMPERATIVE = re.compile(
    r"\W*(?:\[[^\]]*\]\s*|[\w./-]+:\s+)*(?:fix|fixes|fixed|mark|marks|skip|skips|remove|removes|removed|disable|disables|disabled|retry|"
    r"deflake|unflake|avoid|avoids|prevent|prevents|handle|handles|address|addresses|reduce|reduces|speed|stabili[sz]e|make|add|adds|drop|"
    r"work|workaround|tolerate|ignore|revert|reword|document|update|test|quarantine|xfail|rerun|bump|use|try|let|allow|detect|investigate|"
    r"temporarily|do|don't|delete|move|refactor|split|rename|improve|increase|raise|extend|change|disabling|skipping|marking|fixing)\b",
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


def words(sentence: Sentence, forms: Mapping[str, str]) -> Iterator[Claim]:
    """The words that a sentence says; `forms` gives each form's word, phrases before their parts."""
    plain = sentence.plain
    if plain.rstrip().endswith("?") or not _ABOUT.search(sentence.text):
        return
    lower = plain.lower()
    taken: list[tuple[int, int]] = []
    for form in forms:
        if not _occurs(form, lower):
            continue
        for claim in _of_form(sentence, form, forms[form]):
            if not any(claim.start < end and start < claim.end for start, end in taken):
                taken.append((claim.start, claim.end))
                yield claim


def _occurs(form: str, lower: str) -> bool:
    return form.lower() in lower or form.lower() in lower.replace("-", " ")


def _of_form(sentence: Sentence, form: str, word: str) -> Iterator[Claim]:
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
