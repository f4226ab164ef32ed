"""Which executions of a test are identical, and which word their outcomes allow.

Two executions are identical where node id, tree (untracked files included), environment, selection, worker count and
scheduling with its order are, and nothing generated was written between them. A word is `true` only with the rows that
show it; a missing fact makes an execution no evidence, never evidence against.

Whether a word may be said, decided from the rule file.

Derivations: why a word or a property holds, as a tree whose leaves are recorded rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ktxkit.ledger.rules.fold import FINISHED, IMPORTED
from ktxkit.ledger.rules.rows import BAD, Row, Verdict, none_ran
from ktxkit.ledger.rules.scope import WAY_OUT, as_configured

if TYPE_CHECKING:
    from ktxkit.base.documents import RunRecord

REPETITIONS = 2  # identical executions that `flaky` needs
BUSY = 1.0  # load for each processor from which a machine counts as busy
PARTS = ("tree", "environment", "selection", "workers", "scheduling", "ordering", "generated", "load")
WORDS = {  # what a part is called to a person
    "tree": "the sources (tree)",
    "selection": "which tests ran (selection)",
    "ordering": "their order (ordering)",
    "generated": "files that git ignores (generated: a digest of their names, sizes and times)",
    "load": "the machine's load",
}
# A single difference between passing and failing executions, and the word for it.
NARROWER = (
    ("order_dependent", frozenset({"ordering", "selection"})),
    ("concurrency_dependent", frozenset({"workers", "scheduling"})),
    ("environment_dependent_failure", frozenset({"environment"})),
    ("load_dependent", frozenset({"load"})),
)
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Execution:
    """One execution of one test; `key` has a value for each of PARTS, None where it is not known."""

    run: str
    outcome: str
    key: Key
    occurrence: int = 1
    attempt: int = 1
    retried: bool = False
    started: str = ""

    @property
    def side(self) -> str:
        """`good`, `bad`, or empty: a skipped or expected failure is no evidence of either."""
        if self.outcome in BAD:
            return "bad"
        return "good" if self.outcome in ("passed", "xpassed") else ""

    def row(self) -> Row:
        made = {"run": self.run, "outcome": self.outcome, "started": self.started, "attempt": self.attempt}
        return made | {part: value for part, value in zip(PARTS, self.key, strict=True) if value is not None}


@dataclass(frozen=True)
class WordVerdict:
    """A word with its verdict, the reason, and the executions that it rests on."""

    word: str
    verdict: str
    reason: str
    rows: tuple[Execution, ...]


def key_of(record: RunRecord) -> dict[str, Any]:
    """The parts of an execution's identity that the record of its run gives."""
    environment, tree = record.get("environment", {}), record.get("tree", {})
    order = record.get("order", {})
    workers = record.get("workers")
    ordering = record.get("orderDigest")
    if workers and order:
        ordering = f"{order.get('by')} {order.get('seed', '')}".strip()
    load, processors = record.get("load"), environment.get("processors")
    return {
        "tree": tree.get("tree"),
        "environment": environment.get("digest"),
        "selection": record.get("ids"),
        "workers": workers,
        "scheduling": record.get("scheduling"),
        "ordering": ordering,
        "generated": tree.get("generated"),
        "load": None if load is None or not processors else load / processors,
    }


def load_class(load: float | None) -> str | None:
    """`busy` or `idle`: what of a load average is part of an identity."""
    return None if load is None else ("busy" if load >= BUSY else "idle")


def judge(executions: Sequence[Execution], repetitions: int = REPETITIONS) -> WordVerdict:
    """The word that the executions of one test allow: the strongest that is shown, or `unknown`."""
    flaky = is_flaky(executions, repetitions)
    if flaky.verdict == "true":
        return flaky
    for found in (on_retry(executions), *(narrower(executions, word, parts) for word, parts in NARROWER)):
        if found is not None:
            return found
    last = failing(executions)
    if last is None:
        return WordVerdict("unknown", "unknown", flaky.reason, flaky.rows)
    both = {one.side for one in executions} >= {"good", "bad"}
    return replace(last, reason=f"{last.reason}; flaky is not shown: {flaky.reason}") if both else last


def is_flaky(executions: Sequence[Execution], repetitions: int = REPETITIONS) -> WordVerdict:
    """`true` where at least `repetitions` identical executions have both outcomes; else unknown, never false."""
    groups: dict[Key, list[Execution]] = defaultdict(list)
    blind = 0
    for one in executions:
        if not one.side or one.attempt > 1 or one.retried:
            continue  # a retry is not an identical execution: the first attempt ran before it
        if any(value is None for value in one.key):
            blind += 1
        else:
            groups[(*one.key, one.occurrence)].append(one)
    for found in groups.values():
        if len(found) >= repetitions and {one.side for one in found} == {"good", "bad"}:
            reason = f"{len(found)} identical executions, with both outcomes"
            return WordVerdict("flaky", "true", reason, tuple(found))
    sides = {one.side for one in executions if one.side}
    longest = max((len(found) for found in groups.values()), default=0)
    if len(sides) < 2:
        reason = f"{len(executions)} executions, no two of which differ in outcome"
    elif blind:
        reason = f"of {blind} executions not all is known that would make them identical"
    else:
        reason = f"no {repetitions} identical executions differ in outcome (at most {longest} are identical)"
        reason += _differing(executions)
    return WordVerdict("flaky", "unknown", reason, tuple(executions))


def _differing(executions: Sequence[Execution]) -> str:
    """In what the executions that could have been identical are not."""
    keys = [one.key for one in executions if one.side and one.attempt == 1 and not one.retried]
    parts = [WORDS.get(part, part) for part, *found in zip(PARTS, *keys, strict=True) if len(set(found)) > 1]
    return f"; they differ in {', '.join(parts)}" if parts else ""


def on_retry(executions: Sequence[Execution]) -> WordVerdict | None:
    """Failed and then passed within one run."""
    failed = {(one.run, one.occurrence) for one in executions if one.retried}
    rows = [one for one in executions if (one.run, one.occurrence) in failed]
    last = {(one.run, one.occurrence): one for one in sorted(rows, key=lambda one: one.attempt)}
    if any(one.side == "good" for one in last.values()):
        return WordVerdict(
            "passed_on_retry", "true", "failed, and passed when it was run again in the same run", tuple(rows)
        )
    return None


def narrower(executions: Sequence[Execution], word: str, parts: frozenset[str]) -> WordVerdict | None:
    """Where passing and failing executions differ in `parts` alone, and each value of them has one outcome."""
    rest: dict[Key, list[Execution]] = defaultdict(list)
    for one in executions:
        if one.side and not one.retried and one.attempt == 1:
            same = tuple(None if part in parts else value for part, value in zip(PARTS, one.key, strict=True))
            known = all(value is not None for part, value in zip(PARTS, one.key, strict=True) if part != "generated")
            if known:
                rest[(*same, one.occurrence)].append(one)
    for found in rest.values():
        sides: dict[Key, set[str]] = defaultdict(set)
        for one in found:
            sides[tuple(v for part, v in zip(PARTS, one.key, strict=True) if part in parts)].add(one.side)
        if len(sides) > 1 and all(len(each) == 1 for each in sides.values()) and len(set.union(*sides.values())) == 2:
            reason = f"its outcome differs only where {' and '.join(sorted(parts))} differ"
            return WordVerdict(word, "true", reason, tuple(found))
    return None


def blind_outcomes(record: Mapping[str, Any]) -> dict[str, str]:
    """The outcomes that a run's record tells by itself, without its events: of the tests that did not pass."""
    return {one["test"]: one["outcome"] for one in record.get("failures", ())}


def names_failures(record: Mapping[str, Any]) -> bool:
    """Whether a run's record names each test that did not pass."""
    counts = record["counts"]
    return bool(counts.get("passed", 0) + len(record.get("failures", ())) == counts.get("selected", -1))


def failing(executions: Sequence[Execution]) -> WordVerdict | None:
    """It failed the last time that it ran."""
    ran = [one for one in executions if one.side]
    if ran and ran[-1].side == "bad":
        return WordVerdict("failing", "true", "it failed the last time that it ran", (ran[-1],))
    return None


Node = dict[str, Any]
ROWS_SHOWN = 50


def node(goal: str, verdict: str, because: Sequence[Node] = (), rows: Sequence[Row] = ()) -> Node:
    made: Node = {"goal": goal, "verdict": verdict}
    if because:
        made["because"] = list(because)
    if rows:
        made["rows"] = list(rows)
    return made


def all_of(goal: str, because: Sequence[Node]) -> Node:
    """True where everything below is, false where anything below is false, else unknown."""
    words = [below["verdict"] for below in because]
    verdict = "false" if "false" in words else ("unknown" if "unknown" in words else "true")
    return node(goal, verdict, because)


def _is(goal: str, found: bool | None, rows: Sequence[Row] = ()) -> Node:
    return node(goal, "unknown" if found is None else ("true" if found else "false"), rows=rows)


def passed(record: RunRecord, row: Row) -> Node:
    """Why a run passed, or not."""
    counts = record["counts"]
    bad = {key: counts[key] for key in ("failed", "errors", "crashed", "collectionErrors") if counts.get(key)}
    ended = record["state"] == FINISHED
    failures = [{"test": one["test"], "outcome": one["outcome"]} for one in record.get("failures", ())][:ROWS_SHOWN]
    return all_of(
        f"passed({record['run']})",
        [
            _is(f"it is finished (it is {record['state']})", True if ended else None, [row]),
            _is(
                f"no test failed ({', '.join(f'{n} {word}' for word, n in bad.items()) or 'none did'})",
                not bad,
                failures,
            ),
            _is("a test of it ran", None if none_ran(record) else True),
            _is(f"its exit status is 0 ({record.get('exitStatus', 'not known')})", _zero(record) if ended else None),
        ],
    )


def _zero(record: RunRecord) -> bool | None:
    status = record.get("exitStatus")
    return None if status is None else status == 0


def full(record: RunRecord, row: Row) -> Node:
    """Why a run's scope is full, or is not."""
    scope, counts = record["scope"], record["counts"]
    selection = record.get("selection", {})
    narrowing = [{"option": one["option"], "value": one["value"]} for one in selection.get("narrowing", ())]
    source = selection.get("argsSource", "unknown")
    below = [
        _is(
            f"its arguments are pytest's own choice ({source})",
            None if source == "unknown" else source != "args",
            [row],
        ),
        _is("it was recorded here, not imported", record.get("trigger") != IMPORTED),
        _is("no option narrowed it", not narrowing, narrowing),
        _is(
            f"nothing took part in it that is in no commit{WAY_OUT if record.get('unversioned') else ''}",
            not record.get("unversioned"),
            [{"file": name} for name in record.get("unversioned", ())][:ROWS_SHOWN],
        ),
        _is(f"nothing was deselected{_but_configured(selection)}", _none(counts, "deselected")),
        _is("nothing was removed from the collection", _none(counts, "removed")),
        _is("every module was collected", not counts.get("collectionErrors")),
        _is(f"all that was selected ran to its end (it is {record['state']})", record["state"] == FINISHED),
        _is("the recording is complete", not any(record.get("lost", {}).get(k) for k in ("dropped", "faults", "torn"))),
    ]
    made = all_of(f"full({record['run']})", below)
    if scope["kind"] != "full" and made["verdict"] == "true":
        made["verdict"] = "false"
    return made


def _but_configured(selection: Mapping[str, Any]) -> str:
    own = as_configured(selection)
    return f", {own}" if own else ""


def _none(counts: Mapping[str, Any], key: str) -> bool | None:
    """Whether none is counted, but for those that the project's own configuration leaves out."""
    return None if key not in counts else counts[key] == counts.get(f"{key}ByConfiguration", 0)


def authoritative(record: RunRecord, row: Row) -> Node:
    """Why a run may be relied upon for the tree it ran on, or may not."""
    tree, after = record.get("tree", {}).get("tree"), record.get("treeAfter", {}).get("tree")
    preconditions = [
        {"precondition": one["name"], "verified": one["verified"]} for one in record.get("preconditions", ())
    ]
    same = None if tree is None or after is None else tree == after
    changing = [
        {"option": one["option"], "value": one["value"]} for one in record.get("selection", {}).get("changing", ())
    ]
    return all_of(
        f"authoritative({record['run']})",
        [
            full(record, row),
            _is("test-run started it and verified the preconditions", bool(record.get("managed")), preconditions),
            _is("every precondition held", all(one["verified"] for one in preconditions)),
            _is("it ran inside no other run", "parent" not in record),
            _is("no option of the caller lets more pass", not changing, changing),
            _is(f"the tree {tree or 'is not known, which'} was the same at its end", same),
        ],
    )


def word(test: str, name: str, verdict: WordVerdict) -> Node:
    """Why a word may be said of a test: the executions that show it, part by part."""
    holds: Verdict = "true" if verdict.word == name and verdict.verdict == "true" else "unknown"
    rows = [_execution(one, verdict.rows) for one in verdict.rows[:ROWS_SHOWN]]
    if holds == "true":
        return node(f"{name}({test})", "true", [node(verdict.reason, "true", rows=rows)])
    instead = [node(f"{verdict.word}({test}): {verdict.reason}", verdict.verdict, rows=rows)]
    return node(f"{name}({test})", holds, instead)


def slow(test: str, rows: Sequence[Row], threshold: float) -> Node:
    """Why a test may be called slow: its newest passing execution against the threshold, in seconds."""
    goal = f"slow({test})"
    if not rows:
        return node(goal, "unknown", [node("no passing execution of it is recorded", "unknown")])
    newest = rows[0]
    parts = [key for key in ("setup", "call", "teardown") if newest.get(key)]
    most = max(parts, key=lambda key: newest[key], default="call")
    below = [
        _is(
            f"it took longer than {threshold:g} s in {newest['run']}: {newest['total']:.3f} s",
            newest["total"] > threshold,
            rows,
        ),
        node(f"most of it is its {most}: {newest.get(most, 0):.3f} s", "true"),
    ]
    return all_of(goal, below)


def _execution(one: Execution, others: Sequence[Execution]) -> Row:
    """An execution, with only those parts of its key in which the rows differ."""
    differ = [i for i in range(len(PARTS)) if len({other.key[i] for other in others}) > 1]
    parts = {PARTS[i]: _short(one.key[i]) for i in differ}
    return {"run": one.run, "outcome": one.outcome, "attempt": one.attempt, **parts, "identical": not differ}


def _short(value: Any) -> Any:
    if value is None:
        return "(not known)"
    return value[:15] if isinstance(value, str) and value.startswith("b3:") else value


# -- whether a word may be said: the Python twin of the Prolog rules


def forms(rule: Mapping[str, Any]) -> list[str]:
    return [rule["word"], *rule.get("also", ())]


Ask = Callable[[str, str], str]  # predicate, subject -> true, false or unknown


@dataclass(frozen=True)
class WordRuling:
    """`verdict` is true, false, unknown, refused, or free (no rule speaks of the word)."""

    word: str
    canonical: str
    verdict: str
    say: str = ""
    why: str = ""


def rule(lexicon: Mapping[str, Any], word: str, subject: str, ask: Ask) -> WordRuling:
    """Every need must be true; one that is false makes it false, else one that is unknown makes it unknown."""
    for refused in lexicon["refused"]:
        if word in forms(refused):
            return WordRuling(word, refused["word"], "refused", refused["say"], refused["why"])
    for earned in lexicon["words"]:
        if word in forms(earned):
            words = [ask(need, subject) for need in earned["needs"]]
            verdict = "false" if "false" in words else "unknown" if "unknown" in words else "true"
            return WordRuling(word, earned["word"], verdict, why=earned["means"])
    return WordRuling(word, word, "free")


def all_forms(lexicon: Mapping[str, Any]) -> dict[str, str]:
    """Each form of each word, with the word it is a form of; longest first, so that phrases go before their parts."""
    found = {form: one["word"] for one in (*lexicon["words"], *lexicon["refused"]) for form in forms(one)}
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item[0])))
