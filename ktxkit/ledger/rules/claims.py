"""Words of the lexicon said of tests or runs. As a predicate a word must be earned; as an attribute (`fix the flaky
test_x`) it tells which test is meant, and is looked at only where the ledger knows the test.

Each claim against the ledger: true, false (with the rows), unknown. A run says nothing about a later edit.

All claims of a message, with the rulings on them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from typing import Any

from ktxkit.ledger.rules.claim_frames import tells_of_a_run
from ktxkit.ledger.rules.claim_grammar import Claim, asserted, claims, quotes
from ktxkit.ledger.rules.claim_text import Sentence, sentences
from ktxkit.ledger.rules.lexicon import all_forms, rule
from ktxkit.ledger.rules.rows import BAD, tally
from ktxkit.ledger.rules.scope import changed_meanwhile

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


Record = Mapping[str, Any]
PROSE = ("*.md", "*.rst")  # where the project says nothing (`claims.prose` in .ktx-config.yaml)
TEST_DATA = frozenset({"test", "tests", "testing", "testdata", "test_data", "fixtures", "golden", "snapshots"})
NEVER_PROSE = ("requirements*.txt", "constraints*.txt", "CMakeLists.txt", "conf.py", "conftest.py", ".ktx-config.yaml")
PATHS_SHOWN = 5
NONE_PASSED = "no test passed"
ALIKE = 0.75  # from this similarity on, a quoted error is the recorded one, altered


@dataclass(frozen=True)
class ClaimEvidence:
    """What the ledger and git have for a text. `tree` is the content that the text speaks of, None where not known.

    `runs`: ended runs of this project, newest first, none inside another. `changed(tree)`: the paths that differ from
    that tree, None where it cannot be told. `uncommitted`: paths whose present content is not what is being committed.
    `tests(name)`: recorded node ids that a name means. `outcomes(test)`: (record of the run, outcome), newest first.
    `word(predicate, test)`: true, false or unknown. `errors`: recorded error messages. `prose(path)`: whether people
    read the file, and no test.
    """

    tree: str | None
    runs: Sequence[Record]
    changed: Callable[[str], Sequence[str] | None]
    tests: Callable[[str], Sequence[str]]
    outcomes: Callable[[str], Sequence[tuple[Record, str]]]
    word: Callable[[str, str], str]
    errors: Sequence[str] = ()
    uncommitted: frozenset[str] = frozenset()
    lexicon: Mapping[str, Any] = field(default_factory=dict)
    prose: Callable[[str], bool] = lambda path: is_prose(path)


@dataclass(frozen=True)
class ClaimRuling:
    """`rule` is empty where the claim is borne out; `level` error or warning."""

    claim: Claim
    verdict: str
    rule: str = ""
    level: str = "error"
    message: str = ""
    hint: str = ""
    rows: tuple[str, ...] = ()


def judge(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    """The ruling on a claim; None where it is nothing that a ledger could bear out or refute."""
    if claim.kind in ("word", "attribute"):
        return _word(claim, facts)
    if claim.kind == "quote":
        return _quote(claim, facts)
    if claim.kind == "file":
        return _file(claim, facts)
    if claim.kind == "test":
        return _test(claim, facts)
    return _run(claim, facts)


# -- runs


def _run(claim: Claim, facts: ClaimEvidence) -> ClaimRuling:
    here = [run for run in facts.runs if facts.tree is not None and _tree(run) == facts.tree]
    fitting = [run for run in here if not claim.full or run["scope"]["kind"] == "full"]
    if (claim.part or claim.topic) and here and here[0]["verdict"] == "failed":
        return _of_some(claim, here[0])
    good = next((run for run in _candidates(claim, fitting) if satisfied(claim, run)), None)
    later = here[: here.index(good)] if good is not None and claim.kind == "green" and claim.full else ()
    failed = next(_failing(later, facts), None)
    if failed is not None:
        run, test = failed
        return _false(claim, run, f"{test} failed there, and has not passed since on this content")
    if good is not None:
        return _left_out(claim, good)
    if fitting:
        return _false(claim, fitting[0], NONE_PASSED if claim.says_passed and not _passed(fitting[0]) else "")
    if here:
        why = f"no full run on this content: the last one is {_scope(here[0])}"
        return _false(claim, here[0], why)
    older = [run for run in facts.runs if not claim.full or run["scope"]["kind"] == "full"]
    match = next((run for run in older if satisfied(claim, run)), None)
    if match is not None and claim.kind == "green" and older[0] is not match and _same_but_prose(older[0], facts):
        return _false(claim, older[0], "and only prose was edited since that run")
    if match is not None:
        return _stale(claim, match, facts)
    if older:
        return _false(claim, older[0], "and that run predates the last edit")
    if facts.runs:
        return _false(claim, facts.runs[0], f"no full run is recorded: the last one is {_scope(facts.runs[0])}")
    hint = "run the tests (test-run), or say that they were not run"
    return ClaimRuling(claim, "unknown", "claim-unknown", "error", "no run is recorded that could bear this out", hint)


def _of_some(claim: Claim, run: Record) -> ClaimRuling:
    """Of some of the tests, where the run failed: false where those that failed are of the topic, or none passed."""
    failed = [failure["test"] for failure in run.get("failures", ())]
    topic = claim.topic.lower().rstrip("s")
    meant = [test for test in failed if topic and topic in test.lower()]
    if meant or not _passed(run):
        return _false(claim, run, f"{meant[0]} failed there" if meant else NONE_PASSED)
    message = f"the last run of this content failed ({tally(run['counts'])}); of which tests this speaks is not told"
    return ClaimRuling(claim, "unknown", "claim-partial", "warning", message, rows=(_row(run),))


def _failing(runs: Sequence[Record], facts: ClaimEvidence) -> Iterator[tuple[Record, str]]:
    """Each failure of these runs of the content whose test has not passed in a still later run of it."""
    for run in runs:
        for failure in run.get("failures", ()):
            newest = _newest(failure["test"], facts)
            if newest is None or newest[1] in BAD:
                yield run, failure["test"]


def _fails(test: str, facts: ClaimEvidence) -> bool:
    newest = _newest(test, facts)
    return newest is not None and newest[1] in BAD


def _newest(test: str, facts: ClaimEvidence) -> tuple[Record, str] | None:
    """The newest execution of a test on the content."""
    ran = facts.outcomes(test)
    return next((one for one in ran if facts.tree is not None and _tree(one[0]) == facts.tree), None)


def _candidates(claim: Claim, runs: Sequence[Record]) -> Sequence[Record]:
    """Numbers may be those of any run of this content; that tests pass must hold of the newest."""
    return runs if claim.kind in ("counts", "ran") else runs[:1]


def satisfied(claim: Claim, run: Record) -> bool:
    """Whether a run is as the claim says."""
    if claim.kind == "ran":
        return run["state"] == "finished" if claim.full else True
    if (claim.kind == "green" and run["verdict"] != "passed") or (claim.says_passed and not _passed(run)):
        return False
    return all(_count(run, word) & {said} for word, said in claim.numbers.items())


def _passed(run: Record) -> int:
    """How many tests passed: one that was skipped, or failed as expected, shows nothing of the code."""
    passed: int = sum(run["counts"].get(word, 0) for word in ("passed", "xpassed"))
    return passed


def _count(run: Record, word: str) -> set[int]:
    """The numbers that may stand for a word: of tests by their verdict, or of pytest's own summary."""
    counts, reported = run["counts"], run.get("reported", {})
    if word == "selected":
        return {counts.get("selected", -1), sum(counts.get(key, 0) for key in ("passed", "failed", "errors"))}
    bad = counts.get("failed", 0) + counts.get("errors", 0) + counts.get("crashed", 0)
    found = {counts.get(word, 0), reported.get(word, 0)}
    return found | {bad} if word == "failed" else found


def _left_out(claim: Claim, run: Record) -> ClaimRuling:
    """True; but a text that counts what passed and leaves out what failed is told so, or that nothing passed."""
    counts = run["counts"]
    if claim.ended and not _passed(run):
        message = f"true, but {NONE_PASSED}: {tally(counts)}"
        return ClaimRuling(claim, "true", "claim-partial", "warning", message, rows=(_row(run),))
    bad = sum(counts.get(key, 0) for key in ("failed", "errors", "crashed", "collectionErrors"))
    if claim.kind == "counts" and bad and not {"failed", "errors"} & set(claim.numbers):
        message = f"true, but it leaves out what failed: {tally(counts)}"
        return ClaimRuling(claim, "true", "claim-partial", "warning", message, rows=(_row(run),))
    return ClaimRuling(claim, "true", rows=(_row(run),))


def _false(claim: Claim, run: Record, why: str) -> ClaimRuling:
    said = f"the ledger has {tally(run['counts'])} ({run['state']}, scope {_scope(run)})"
    message = f"{said}; {why}" if why else said
    hint = "correct it, or run what it claims"
    return ClaimRuling(claim, "false", "claim-false", "error", message, hint, rows=(_row(run),))


def _stale(claim: Claim, run: Record, facts: ClaimEvidence) -> ClaimRuling:
    """The rule that finds most: the run was on other content than what is spoken of."""
    tree = _tree(run)
    changed = None if tree is None or facts.tree is None else facts.changed(tree)
    row = (_row(run),)
    if changed is None:
        after = run.get("treeAfter", {})
        why = f": {changed_meanwhile(run.get('tree', {}), after)}" if after.get("tree") and tree is None else ""
        message = f"run {run['run']} was as claimed, but on which content is not known{why}"
        return ClaimRuling(claim, "unknown", "claim-unknown", "error", message, "run the tests again", row)
    shown = ", ".join(changed[:PATHS_SHOWN]) + (
        f" and {len(changed) - PATHS_SHOWN} more" if len(changed) > PATHS_SHOWN else ""
    )
    prose = bool(changed) and all(map(facts.prose, changed))
    if changed and not prose and set(changed) <= facts.uncommitted:
        message = f"run {run['run']} had files that are not being committed: {shown}"
        return ClaimRuling(
            claim, "unknown", "claim-uncommitted", "error", message, "commit them, or run without them", row
        )
    if prose:
        message = f"run {run['run']} predates edits of prose: {shown}"
        return ClaimRuling(claim, "unknown", "claim-stale", "warning", message, rows=row)
    message = f"run {run['run']} predates the last edit: {shown}"
    return ClaimRuling(claim, "false", "claim-stale", "error", message, "run the tests again on what is there now", row)


def is_prose(path: str, patterns: Sequence[str] = PROSE) -> bool:
    """Whether a file is read by people and by no test. A pattern without a slash is of names, in any directory.

    What tests or builds read is never prose, whatever a pattern says.
    """
    *folders, name = path.split("/")
    if TEST_DATA & set(folders) or any(fnmatch(name, pattern) for pattern in NEVER_PROSE):
        return False
    return any(fnmatch(path if "/" in pattern else name, pattern) for pattern in patterns)


def _same_but_prose(run: Record, facts: ClaimEvidence) -> bool:
    """Whether what was edited since a run is prose alone."""
    tree = _tree(run)
    changed = None if tree is None or facts.tree is None else facts.changed(tree)
    return changed is not None and all(map(facts.prose, changed))


def _tree(run: Record) -> str | None:
    """The tree that a run speaks for: the same before and after it."""
    tree: str | None = run.get("tree", {}).get("tree")
    return tree if tree is not None and run.get("treeAfter", {}).get("tree") in (tree, None) else None


def _scope(run: Record) -> str:
    scope = run["scope"]
    return " ".join([scope["kind"], *scope.get("paths", ())[:2], *(f"({why})" for why in scope.get("why", ())[:2])])


def _row(run: Record) -> str:
    return f"{run['run']} {run.get('startedAt', '')} {_scope(run)}: {tally(run['counts'])}"


# -- one test


def _test(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    named = facts.tests(claim.test)
    if len(named) != 1:
        return None  # not a test that the ledger knows, or several and which is not said: nothing to hold it against
    ran = facts.outcomes(named[0])
    here = [(run, outcome) for run, outcome in ran if facts.tree is not None and _tree(run) == facts.tree]
    wanted = {"passed": ("passed", "xpassed"), "failed": BAD}[claim.outcome]
    if here:
        run, outcome = here[0]
        if outcome in wanted:
            return ClaimRuling(claim, "true", rows=(_row(run),))
        message = f"{named[0]} {outcome} in run {run['run']}"
        return ClaimRuling(claim, "false", "claim-false", "error", message, "correct it", (_row(run),))
    if claim.outcome == "failed":
        return None  # a failure that is told of is mostly what the change mends: it was on other content
    older = next((run for run, outcome in ran if outcome in wanted), None)
    if older is not None:
        return _stale(claim, older, facts)
    message = f"{named[0]} has not passed in any recorded run"
    return ClaimRuling(
        claim, "false", "claim-false", "error", message, "run it", tuple(_row(run) for run, _ in ran[:1])
    )


def _file(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    """A module by its path: held against the failures of its tests on the content, and against nothing else."""
    here = [run for run in facts.runs if facts.tree is not None and _tree(run) == facts.tree]
    of_it = (one for one in _failing(here, facts) if one[1].partition("::")[0] == claim.test.removeprefix("./"))
    found = next(of_it, None)
    return None if found is None else _false(claim, found[0], f"{found[1]} failed, and has not passed since")


# -- words and quotations


def _word(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    named = facts.tests(claim.test) if claim.test else ()
    if claim.kind == "attribute" and len(named) != 1:
        return None

    def ask(predicate: str, test: str) -> str:
        if predicate == "measured_slow":
            return "true" if NUMBER.search(claim.sentence.text) else "unknown"
        return facts.word(predicate, test) if test else "unknown"

    if any(rule(facts.lexicon, claim.outcome, test, ask).verdict == "true" for test in named):
        return ClaimRuling(claim, "true")
    if len(named) > 1 and claim.outcome == "failing" and any(_fails(test, facts) for test in named):
        return ClaimRuling(claim, "true")
    subject = named[0] if len(named) == 1 else ""
    ruled = rule(facts.lexicon, claim.outcome, subject, ask)
    if ruled.verdict == "refused":
        message = f"{ruled.word!r} is refused: {ruled.why}"
        return ClaimRuling(claim, "false", "word-refused", "error", message, f"say instead: {ruled.say}")
    if ruled.verdict in ("true", "free"):
        return ClaimRuling(claim, "true")
    what = subject or claim.test or "nothing that is named"
    message = f"{ruled.word!r} is not shown of {what}: it means {ruled.why}"
    hint = (
        f"`ledger-query flaky {subject}` tells which word holds"
        if subject
        else "name the test, or say that it is unknown"
    )
    level = "warning" if len(named) > 1 else "error"  # which of them is meant is not known: no accusation
    return ClaimRuling(claim, "unknown", "word-unearned", level, message, hint)


def _quote(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    """A quoted error that is nearly a recorded one was altered; one that is like none is about something else."""
    said = claim.outcome
    cut = said.rstrip(".… ") if said.endswith(("...", "…")) else said
    kind = cut.split()[0].partition(":")[0]
    best, near = 0.0, ""
    for message in facts.errors:
        first = message.split("\n")[0]
        if first.startswith(cut) or cut in message:
            return ClaimRuling(claim, "true", rows=(first,))
        if first.split()[:1] and first.split()[0].partition(":")[0] == kind:
            ratio = difflib.SequenceMatcher(None, cut, first[: len(cut) + 40], autojunk=False).ratio()
            if ratio > best:
                best, near = ratio, first
    if best < ALIKE:
        return None
    message = f"the recorded error is {near!r}"
    return ClaimRuling(
        claim, "false", "quote-altered", "error", message, "quote it verbatim; `...` at its end may cut it", (near,)
    )


def claims_in(message: str, lexicon: Mapping[str, Any]) -> Iterator[Claim]:
    """Everything in a message that could be held against a ledger."""
    forms = all_forms(lexicon)
    after_run = False
    for sentence in sentences(message):
        yield from claims(sentence, after_run)
        after_run = tells_of_a_run(sentence.text, sentence.plain)
        yield from words(sentence, forms)
        yield from quotes(sentence)


def rulings(message: str, facts: ClaimEvidence) -> list[ClaimRuling]:
    """The ruling on each claim of a message, in order; claims that the ledger has nothing to say to are left out."""
    judged = (judge(claim, facts) for claim in claims_in(message, facts.lexicon))
    return [ruling for ruling in judged if ruling is not None]
