"""From sentences to claims about test runs. What is wished, asked, supposed, planned or told of elsewhere is none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ktxkit.ledger.rules.claims.patterns import (
    ABOUT_TESTS,
    ALL,
    ALL_OF,
    ALONE,
    ARROW,
    CI_CLAUSE,
    COUNT,
    ELSEWHERE,
    ENDED,
    EVERYTHING,
    FILE,
    FULL_HAS,
    HEDGED,
    IN_FULL,
    LABEL,
    LABELLED,
    NAMED,
    NONE_BAD,
    PASSES,
    PAST,
    PLAIN,
    RAN,
    RAN_ALL,
    RATE,
    SAID,
    SPELLED,
    STATUS,
    STRONG,
    SUITE,
    SUMMARY,
    TARGET,
    TOLD,
    UNKNOWN,
    WEAK,
    WORDS,
)
from ktxkit.ledger.rules.claims.text import Sentence


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
    told = TOLD.search(plain[: claim.start].rstrip() + " ")
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
