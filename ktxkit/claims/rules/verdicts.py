"""Each claim against the ledger: true, false (with the rows), unknown. A run says nothing about a later edit.

All claims of a message, with the rulings on them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ktxkit.claims.rules import DURATION, asserted, lexicon_words, quotes
from ktxkit.claims.rules.frames import tells_of_a_run
from ktxkit.claims.rules.grammar import bare_text, claims
from ktxkit.claims.rules.text import sentences
from ktxkit.claims.rules.words import RECORDED_KINDS, Claim, Qualifier, Record, fits
from ktxkit.ledger.rules.evidence import all_forms, rule
from ktxkit.ledger.rules.rows import BAD, tally
from ktxkit.ledger.rules.scope import HOLD_STILL, changed_meanwhile, is_prose

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
    read the file, and no test. `module(path)`: (record of the run, outcomes of the module's tests), newest first.
    `skipped(run)`: the tests that a run skipped, with their reasons.
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
    module: Callable[[str], Sequence[tuple[Record, frozenset[str]]]] = lambda path: ()
    skipped: Callable[[str], Sequence[str]] = lambda run: ()


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
    if any(one.kind == "skipped" for one in claim.qualifiers):
        claim = replace(claim, numbers={**claim.numbers, "skipped": 0})
    excepted = [one.value for one in claim.qualifiers if one.kind == "except"]
    if excepted and claim.kind in ("green", "counts", "file"):
        claim, facts = _but(claim, facts, " ".join(excepted).split())
    return _placed(claim, _qualified(claim, facts), facts)


# -- what a claim excepts


def _but(claim: Claim, facts: ClaimEvidence, excepted: Sequence[str]) -> tuple[Claim, ClaimEvidence]:
    """The claim without its exceptions, and the runs without the failures that it excepts.

    Of what is excepted without a name it is not known which failures are meant, nor that the rest is all.
    """
    if "*" in excepted:
        claim = replace(claim, part=True, full=False)
    if claim.numbers == {"failed": 0}:
        claim = replace(claim, kind="green", ended=True, numbers={})
    elif claim.kind == "green" and "passed" in claim.numbers:
        claim = replace(claim, numbers={"selected": claim.numbers["passed"]})
    return claim, replace(facts, runs=[_without(run, excepted) for run in facts.runs])


def _without(run: Record, excepted: Sequence[str]) -> Record:
    """A run as it were without its failures of these tests, or without as many as are excepted."""
    known, counts = run.get("failures", ()), run["counts"]
    many = sum(int(one) for one in excepted if one.isdigit())
    left = [one for one in known if not any(_is_named(one["test"], name) for name in excepted)]
    left = [] if len(left) <= many else left
    made = {**run, "failures": left}
    bad = sum(counts.get(key, 0) for key in ("failed", "errors", "crashed"))
    if run["verdict"] == "failed" and run["state"] == "finished" and not left and bad == len(known):
        made["verdict"] = "failed" if counts.get("collectionErrors") else "passed"
    why = run["scope"].get("why", ())
    if why and all(_is_of(one, excepted) for one in why):
        made["scope"] = {"kind": "full"}
    return made


def _is_named(test: str, name: str) -> bool:
    """Whether a name means a test: the id or its end, without parameters too, a class, or its module."""
    plain = f"/{test}"
    ids = {plain, plain.partition("[")[0], plain.rpartition("::")[0], plain.partition("::")[0]}
    return any(one.endswith((f"/{name}", f"::{name}", f"/{name}.py")) for one in ids)


def _is_of(why: str, excepted: Sequence[str]) -> bool:
    """Whether a reason that a run is not full is what a claim excepts."""
    return why.endswith(" deselected") or any(name in why for name in excepted if not name.isdigit() and name != "*")


# -- what qualifies a claim


def _qualified(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    """The ruling by the runs that are as each qualifier says. What no record tells makes no difference."""
    held = {"file": _file, "test": _test}.get(claim.kind, _run)
    demands = [one for one in claim.qualifiers if one.kind in RECORDED_KINDS]
    for one in demands:
        fitting = [run for run in facts.runs if fits(run, one, facts.skipped) is not False]
        if not any(_is_here(run, facts) for run in fitting):
            ruling = held(claim, facts)
            here = next((run for run in facts.runs if _is_here(run, facts)), None)
            return ruling if here is None or ruling is None or ruling.rule else _elsewhere(claim, one, here)
        some = replace(facts, runs=fitting, outcomes=_outcomes_of(one, facts))
        ruling = held(claim, some)
        if ruling is not None and ruling.rule:
            return ruling
    return ruling if demands else held(claim, facts)


def _outcomes_of(one: Qualifier, facts: ClaimEvidence) -> Callable[[str], Sequence[tuple[Record, str]]]:
    return lambda test: [ran for ran in facts.outcomes(test) if fits(ran[0], one, facts.skipped) is not False]


def _is_here(run: Record, facts: ClaimEvidence) -> bool:
    return facts.tree is not None and _tree(run) == facts.tree


def _elsewhere(claim: Claim, one: Qualifier, run: Record) -> ClaimRuling:
    """What would be true, but of no run that is as the claim's qualifier says."""
    said = claim.sentence.text[one.start : one.end].strip(" ,().")
    environment = run.get("environment", {})
    had = {
        "workers": f"{run.get('workers')} workers",
        "wider": f"{run['scope']['kind']} run, {', '.join(run['scope'].get('why', ()))}".rstrip(", "),
        "platform": environment.get("platform"),
        "machine": environment.get("platform"),
    }.get(one.kind, f"{environment.get('implementation', 'Python')} {environment.get('python')}")
    message = f"no run of this content is recorded that was made {said!r}: the last one has {had}"
    return ClaimRuling(
        claim, "unknown", "claim-unknown", "error", message, "run them so, or leave it out", (_row(run),)
    )


def _placed(claim: Claim, ruling: ClaimRuling | None, facts: ClaimEvidence) -> ClaimRuling | None:
    """What was seen by a server alone is in no ledger: an error only where this very content failed here."""
    kinds = {one.kind for one in claim.qualifiers}
    if ruling is None or not ruling.rule or "elsewhere" not in kinds or "here" in kinds:
        return ruling
    newest = next((run for run in facts.runs if _is_here(run, facts)), None)
    if newest is not None and newest["verdict"] == "failed":
        return ruling
    message = f"what ran there is not in this ledger; of what is: {ruling.message}"
    return replace(ruling, verdict="unknown", rule="claim-unknown", level="warning", message=message)


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
        hint = HOLD_STILL if why else "run the tests again"
        return ClaimRuling(claim, "unknown", "claim-unknown", "error", message, hint, row)
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
    """A name that stands for several tests is true of any of them; the parameters of one must all pass."""
    groups = dict[str, list[str]]()
    for test in facts.tests(claim.test):
        groups.setdefault(test.partition("[")[0], []).append(test)
    if not groups and claim.outcome == "passed":
        module = f"{claim.test}.py" if "::" not in claim.test else ""
        ran = facts.module(module) if module else ()
        return _of_module(claim, module, ran, facts) if ran else _never_ran(claim, "test", facts)
    if claim.outcome == "failed" and len(groups) != 1:
        return None
    ruled = [_of_group(claim, tests, facts) for tests in groups.values()]
    return next((one for one in ruled if one is None or not one.rule), ruled[0])


def _of_group(claim: Claim, tests: Sequence[str], facts: ClaimEvidence) -> ClaimRuling | None:
    """Of the ids of one test: that they pass must hold of all, that it fails of any."""
    ruled = [_of_test(claim, test, facts) for test in tests]
    wrong = [one for one in ruled if one is not None and one.rule]
    if claim.outcome == "failed":
        return None if None in ruled or len(wrong) < len(ruled) else wrong[0]
    return wrong[0] if wrong else ruled[0]


def _never_ran(claim: Claim, what: str, facts: ClaimEvidence) -> ClaimRuling:
    message = f"no {what} of that name has run in any recorded run"
    rows = tuple(map(_row, facts.runs[:1]))
    return ClaimRuling(claim, "unknown", "claim-unknown", "error", message, "run it, or correct the name", rows)


def _of_test(claim: Claim, test: str, facts: ClaimEvidence) -> ClaimRuling | None:
    ran = facts.outcomes(test)
    here = [(run, outcome) for run, outcome in ran if _is_here(run, facts)]
    wanted = {"passed": ("passed", "xpassed"), "failed": BAD}[claim.outcome]
    if here:
        run, outcome = here[0]
        if outcome in wanted:
            return ClaimRuling(claim, "true", rows=(_row(run),))
        message = f"{test} {outcome} in run {run['run']}"
        return ClaimRuling(claim, "false", "claim-false", "error", message, "correct it", (_row(run),))
    if claim.outcome == "failed":
        return None  # a failure that is told of is mostly what the change mends: it was on other content
    older = next((run for run, outcome in ran if outcome in wanted), None)
    if older is not None:
        return _stale(claim, older, facts)
    message = f"{test} has not passed in any recorded run"
    rows = tuple(_row(run) for run, _ in ran[:1])
    return ClaimRuling(claim, "false", "claim-false", "error", message, "run it", rows)


def _file(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    """A module by its path: none of its tests failed on the content, and some passed."""
    path = claim.test.removeprefix("./")
    here = [run for run in facts.runs if _is_here(run, facts)]
    of_it = (one for one in _failing(here, facts) if f"/{one[1].partition('::')[0]}".endswith(f"/{path}"))
    found = next(of_it, None)
    if found is not None:
        return _false(claim, found[0], f"{found[1]} failed, and has not passed since")
    return _of_module(claim, path, facts.module(path), facts)


def _of_module(
    claim: Claim, path: str, ran: Sequence[tuple[Record, frozenset[str]]], facts: ClaimEvidence
) -> ClaimRuling:
    if not ran:
        return _never_ran(claim, "module", facts)
    here = [one for one in ran if _is_here(one[0], facts)]
    wanted = {"passed", "xpassed"}
    if here:
        run, outcomes = here[0]
        good = outcomes & wanted and not outcomes & {*BAD}
        why = f"{path}: {', '.join(sorted(outcomes))}"
        return ClaimRuling(claim, "true", rows=(_row(run),)) if good else _false(claim, run, why)
    older = next((run for run, outcomes in ran if outcomes & wanted and not outcomes & {*BAD}), None)
    return _false(claim, ran[0][0], f"{path} has not passed") if older is None else _stale(claim, older, facts)


# -- words and quotations


def _word(claim: Claim, facts: ClaimEvidence) -> ClaimRuling | None:
    named = facts.tests(claim.test) if claim.test else ()
    if claim.kind == "attribute" and len(named) != 1:
        return None

    def ask(predicate: str, test: str) -> str:
        if predicate == "measured_slow":
            return "true" if DURATION.search(claim.sentence.text) else "unknown"
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
        after_run = tells_of_a_run(*bare_text(sentence))
        yield from lexicon_words(sentence, forms, asserted)
        yield from quotes(sentence)


def rulings(message: str, facts: ClaimEvidence) -> list[ClaimRuling]:
    """The ruling on each claim of a message, in order; claims that the ledger has nothing to say to are left out."""
    judged = (judge(claim, facts) for claim in claims_in(message, facts.lexicon))
    return [ruling for ruling in judged if ruling is not None]
