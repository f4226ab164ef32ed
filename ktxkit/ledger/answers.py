"""The rule file of words (contract `lexicon`), the one source of gate, reminder, documentation and rulebase.

Which word may be said of a test, and the derivation of any such goal down to its rows.

Questions about runs, answered from the ledger's index: the last one, the last full and scoped ones, one, all.

Questions about tests, answered from the ledger's index: the slowest, the costliest fixtures, two runs compared, one
test's history.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import kinds
from ktxkit.base.errors import CannotRun
from ktxkit.ledger import asking, index_file
from ktxkit.ledger.asking import FULL, LAST, SCOPED, LedgerQuery, ensure, find, pick, record_of, running, source
from ktxkit.ledger.index_file import EXECUTIONS, FEW, OUTCOMES, PASSED, Index
from ktxkit.ledger.rules import evidence
from ktxkit.ledger.rules.evidence import PARTS, REPETITIONS, Execution, WordVerdict, judge, load_class
from ktxkit.ledger.rules.rows import SHIFT, Changes, Row, Verdict, answer, not_comparable, passed, run_row, why_unknown
from ktxkit.store import config
from ktxkit.store.config import read_yaml
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, Lexicon


CONTRACT = "lexicon"


@cache
def load() -> Lexicon:
    """The rules that come with ktxkit."""
    return read_yaml(Path(__file__).resolve().parent / "rules" / "lexicon.yaml", kinds.LEXICON)


def reminder() -> list[str]:
    """What test-run says before a run: the rules in a few lines."""
    rules = load()
    refused = ", ".join(rule["word"] for rule in rules["refused"])
    earned = ", ".join(rule["word"] for rule in rules["words"])
    return [
        *(f"  - {text}" for text in rules["reminders"]),
        f"  - Words that must be earned (`ledger-query explain`): {earned}.",
        f"  - Words that are refused: {refused}.",
    ]


OF_RUN = {"passed": evidence.passed, "full": evidence.full, "authoritative": evidence.authoritative}
OF_TEST = (
    *(
        "passed",
        "flaky",
        "passed_on_retry",
        "order_dependent",
        "concurrency_dependent",
        "environment_dependent_failure",
    ),
    *("load_dependent", "failing", "slow"),
)
SLOW = 1.0  # seconds from which a test is slow where the project says nothing (`ledger.slowSeconds`)


def repetitions(world: World) -> int:
    """How many identical executions `flaky` needs here."""
    return int(config.ledger(world).get("repetitions", REPETITIONS))


def executions(index: Index, projects: tuple[str, ...], tests: list[str] | None) -> dict[str, list[Execution]]:
    """The executions of tests, oldest first; of all that have both outcomes or were retried where none is named."""
    marks = ", ".join("?" for _ in projects)
    some = f"AND t.test IN ({', '.join('?' for _ in tests)})" if tests is not None else ""
    mixed = "" if tests is not None else "AND (t.retried > 0 OR t.bad > 0)"
    rows = index.rows(
        "SELECT t.test, r.occurrence, r.attempt, r.outcome, r.verdict, runs.run, runs.started, runs.tree,"
        " runs.environment, runs.selection, runs.workers, runs.scheduling, runs.ordering, runs.generated, runs.load"
        f" {EXECUTIONS} WHERE t.project IN ({marks}) {some} {mixed}"
        " ORDER BY runs.rid, r.occurrence, r.attempt",
        *projects,
        *(tests or ()),
    )
    found: dict[str, list[Execution]] = defaultdict(list)
    for row in rows:
        row["load"] = load_class(row["load"]) or "not recorded"
        outcome = row["outcome"] if row["verdict"] is None else row["verdict"]
        found[row["test"]].append(
            Execution(
                run=row["run"],
                outcome=OUTCOMES[outcome],
                key=tuple(row[part] for part in PARTS),
                occurrence=row["occurrence"],
                attempt=row["attempt"],
                retried=row["verdict"] is None,
                started=row["started"] or "",
            )
        )
    return found


def flaky(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Whether a test may be called flaky, or the narrower word; without a test, every test that has a word."""
    index, least = ensure(world), repetitions(world)
    if ask.subject:
        return _one(index, ask, least)
    found = executions(index, ask.projects, None)
    judged = {test: judge(ran, least) for test, ran in sorted(found.items())}
    rows = [
        {"test": test, "word": said.word, "executions": len(found[test]), "why": said.reason}
        for test, said in judged.items()
    ]
    shown = [row for row in rows if row["word"] != "unknown"]
    any_flaky = any(said.word == "flaky" for said in judged.values())
    facts = {"tests": len(shown), "repetitions": least}
    reason = (
        ""
        if any_flaky
        else "no test has shown both outcomes in identical executions; that none is flaky cannot be said"
    )
    verdict: Verdict = "true" if any_flaky else "unknown"
    return answer("flaky", shown, project=ask.project, verdict=verdict, facts=facts, reason=reason)


def _one(index: Index, ask: LedgerQuery, least: int) -> LedgerAnswer:
    test, none = asking.find_test(index, ask, ask.subject[0])
    ran = executions(index, ask.projects, [test]).get(test, [])
    said = judge(ran, least) if ran else WordVerdict("unknown", "unknown", none or "no execution of it is recorded", ())
    bad = sum(one.side == "bad" for one in ran)
    facts: dict[str, Any] = {"word": said.word, "executions": len(ran), "failed": bad, "repetitions": least}
    if ran and not bad:
        # 95 % confidence: no failure in N executions bounds the rate by 3/N (the rule of three).
        facts["rateBelow"] = round(min(1.0, 3 / len(ran)), 4)
    verdict: Verdict = "true" if said.word == "flaky" else "unknown"
    rows = [one.row() for one in said.rows]
    return answer("flaky", rows, subject=[test], project=ask.project, verdict=verdict, reason=said.reason, facts=facts)


def explain(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The derivation of a goal: `passed RUN`, `full RUN`, `authoritative RUN`, `passed TEST`, `flaky TEST` and others.

    Of a test that never ran each word is unknown, and that is the reason.
    """
    name, subject = _goal(ask.subject)
    index = ensure(world)
    if name in OF_RUN and not (name == "passed" and _is_test(index, ask, subject)):
        derivation, reason = _of_a_run(index, ask, name, subject), ""
    else:
        subject, none = asking.find_test(index, ask, subject)
        derivation = _of_a_test(world, index, ask, name, subject, none)
        first: list[evidence.Node] = derivation.get("because", [])
        reason = first[0]["goal"] if first and derivation["verdict"] == "unknown" else ""
    return answer(
        "explain",
        leaves(derivation),
        subject=[f"{name}({subject})"],
        project=ask.project,
        verdict=derivation["verdict"],
        reason=reason,
        facts={"derivation": derivation},
    )


def _is_test(index: Index, ask: LedgerQuery, subject: str) -> bool:
    """Whether a subject is a test's id or name; a run's id has no `::`."""
    a_run = subject.partition("~")[0] in ("last", "last-full", "last-scoped")
    return not a_run and ("::" in subject or not asking.find_test(index, ask, subject)[1])


def _of_a_run(index: Index, ask: LedgerQuery, name: str, subject: str) -> evidence.Node:
    run = find(index, ask, subject)
    if not run["closed"]:
        return evidence.node(f"{name}({run['run']})", "unknown", [evidence.node("it is running", "true")])
    line = _of_run(run)
    return OF_RUN[name](record_of(run), {key: line[key] for key in ("run", "started", "state", "tests", "source")})


def _of_a_test(world: World, index: Index, ask: LedgerQuery, name: str, test: str, none: str) -> evidence.Node:
    ran = executions(index, ask.projects, [test]).get(test, [])
    goal = f"{name}({test})"
    if not ran:
        blind = asking.not_known(index, ask)[0]
        why = "; ".join(one for one in (none or asking.NO_TEST, blind) if one)
        return evidence.node(goal, "unknown", [evidence.node(why, "unknown")])
    if all(one.outcome == "skipped" for one in ran):
        count = f"{len(ran)} execution{'s' * (len(ran) > 1)}"
        rows = [one.row() for one in ran[-evidence.ROWS_SHOWN :]]
        return evidence.node(
            goal, "unknown", [evidence.node(f"it never ran: skipped in {count}", "unknown", rows=rows)]
        )
    if name == "slow":
        return _slow(world, index, ask, test)
    if name == "passed":
        return _passed(index, ask, test, ran)
    return evidence.word(test, name, judge(ran, repetitions(world)))


def _passed(index: Index, ask: LedgerQuery, test: str, ran: list[Execution]) -> evidence.Node:
    """Whether a test passed in the newest run that has it; unknown where a later one may have had it."""
    newest = [one for one in ran if one.run == ran[-1].run and not one.retried]
    rid = find(index, ask, ran[-1].run)["rid"]
    later = [run for run in asking.blind(index, ask, rid + 1) if not evidence.names_failures(record_of(run))]
    if later:
        why = f"whether it ran in {later[0]['run']} is not known: {later[0]['why']}"
        return evidence.node(f"passed({test})", "unknown", [evidence.node(why, "unknown")])
    said: Verdict = "unknown"
    if any(one.side == "bad" for one in newest):
        said = "false"
    elif newest and all(one.side == "good" for one in newest):
        said = "true"
    outcomes = ", ".join(sorted({one.outcome for one in newest}))
    below = evidence.node(
        f"in {ran[-1].run} it {outcomes or 'was not judged'}", said, rows=[one.row() for one in newest]
    )
    return evidence.node(f"passed({test})", said, [below])


def _slow(world: World, index: Index, ask: LedgerQuery, test: str) -> evidence.Node:
    """Whether a test is longer than the project's threshold, by its newest run in which it passed."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = (
        f"SELECT runs.run, runs.started, r.* {EXECUTIONS} WHERE t.project IN ({marks}) AND t.test = ?"
        f" AND r.verdict = {PASSED} ORDER BY {asking.NEWEST}, r.total DESC LIMIT ?"
    )
    found = index.rows(sql, *ask.projects, test, ask.limit or 10)
    spans = ("total", "setup", "call", "teardown")
    rows = [
        {"run": row["run"], "started": row["started"]} | {key: row[key] / 1e6 for key in spans if row[key] is not None}
        for row in found
    ]
    return evidence.slow(test, rows, float(config.ledger(world).get("slowSeconds", SLOW)))


def _goal(words: tuple[str, ...]) -> tuple[str, str]:
    """`word(subject)` or `word subject`."""
    name, subject = words[0], words[1] if len(words) > 1 else ""
    if not subject and name.endswith(")") and "(" in name:
        name, _, rest = name.partition("(")
        subject = rest[:-1]
    name = "slow" if name == "measured_slow" else name  # what the lexicon calls it
    known = tuple(dict.fromkeys((*OF_RUN, *OF_TEST)))
    if name not in known or not subject:
        raise CannotRun(
            f"cannot explain {' '.join(words)!r}", hint=f"a goal is WORD(SUBJECT), with one of {', '.join(known)}"
        )
    return name, subject


def leaves(node: evidence.Node) -> list[dict[str, Any]]:
    """The rows of a derivation, in order."""
    return [*node.get("rows", ()), *(row for below in node.get("because", ()) for row in leaves(below))]


def last(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The last run, with the last full and the last scoped one beside it; and what is running now."""
    index = ensure(world)
    rows = [
        _row(index, ask, where, what) for where, what in ((LAST, "last"), (FULL, "last full"), (SCOPED, "last scoped"))
    ]
    going = running(index, ask)
    found = pick(index, ask, LAST)
    reason = why_unknown(record_of(found)) if found else f"no run is recorded{asking.under_others(index, ask)}"
    return answer(
        "last",
        [row for row in rows if row],
        project=ask.project,
        verdict=passed(record_of(found)),
        reason=reason,
        facts={"running": going or None, "note": index.note or None},
    )


def _row(index: Index, ask: LedgerQuery, where: str, what: str) -> Row:
    found = pick(index, ask, where)
    return _of_run(found, what) if found else {}


def _of_run(run: Row, what: str = "") -> Row:
    """A run's row from its record; where its tests are not known any more, `evidence` says why."""
    return run_row(record_of(run), source(run), what) | ({"evidence": run["why"]} if run["why"] else {})


def last_full(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The last full run; and the ids that the full run before it had and it lacks."""
    return _last_of(world, ask, "last-full", FULL, "no full run is recorded")


def last_scoped(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The last run that was not full, with its scope."""
    return _last_of(world, ask, "last-scoped", SCOPED, "no scoped run is recorded")


def _last_of(world: World, ask: LedgerQuery, question: str, where: str, none: str) -> LedgerAnswer:
    index = ensure(world)
    found = pick(index, ask, where)
    if found is None:
        others = asking.under_others(index, ask)
        return answer(question, [], project=ask.project, verdict="unknown", reason=f"{none}{others}")
    record = record_of(found)
    lacks = lacking(world, index, ask, found) if question == "last-full" else {}
    facts = lacks | {"running": running(index, ask) or None}
    row = _of_run(found, question.replace("-", " "))
    said = passed(record), why_unknown(record)
    if question == "last-full" and (after := asking.gap(index, ask)).get("rid", 0) > found["rid"]:
        lost = record_of(after)["lost"].get("fault", "it is damaged")
        said = "unknown", f"whether it is the last full one is not known: run {after['run']} after it: {lost}"
    return answer(question, [row], project=ask.project, verdict=said[0], reason=said[1], facts=facts)


def lacking(world: World, index: Index, ask: LedgerQuery, run: dict[str, Any]) -> dict[str, Any]:
    """What the full run before this one had and this one has not."""
    before = pick(index, ask, f"{FULL} AND rid < {int(run['rid'])}")
    if before is None or before["selection"] == run["selection"]:
        return {}
    from ktxkit.ledger import ledger

    old, new = ledger.kept_ids(world, before["selection"]), ledger.kept_ids(world, run["selection"])
    if old is None or new is None:
        return {"lacks": "not known: the list of ids is gone"}
    missing = sorted(set(old) - set(new))
    return {"lacksCount": len(missing), "lacks": missing[:100], "lacksOf": before["run"]} if missing else {}


def run_by_id(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """All that is recorded of a run; its rows are the tests that did not pass."""
    index = ensure(world)
    found = find(index, ask, ask.subject[0])
    if not found["closed"]:
        return answer(
            "run", [], subject=[found["run"]], verdict="unknown", reason="it is running: see `ledger-query live`"
        )
    record = record_of(found)
    rows: list[Row] = [{"test": one["test"], "what": one["outcome"], **one} for one in record.get("failures", ())]
    rows += [{"test": one["test"], "what": "in flight", "since": one["since"]} for one in record.get("inFlight", ())]
    rows += [{"test": one, "what": "never ran"} for one in record.get("notRun", ())]
    rows += [{"test": one["node"], "what": "not collected", **one} for one in record.get("collectErrors", ())]
    rows = [{**row, "source": names.events_file(found["run"])} for row in rows]
    facts = _of_run(found) | {"phases": record.get("phases"), "lost": record.get("lost")}
    facts |= {key: record.get(key) for key in ("workers", "scheduling", "warnings", "duplicates", "stop", "argv")}
    said = passed(record), why_unknown(record)
    return answer(
        "run", rows, subject=[found["run"]], project=ask.project, verdict=said[0], reason=said[1], facts=facts
    )


def runs(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The runs, newest first, `--limit` of them; runs inside runs are marked."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    where = f"project IN ({marks})"
    total = index.rows(f"SELECT count(*) AS n FROM runs WHERE {where}", *ask.projects)[0]["n"]
    found = index.rows(
        f"SELECT * FROM runs WHERE {where} ORDER BY {asking.NEWEST} LIMIT ?", *ask.projects, ask.limit or 20
    )
    rows = [
        _of_run(row, f"inside {row['parent']}" if row["parent"] else "")
        if row["closed"]
        else {"run": row["run"], "state": "running or not closed", "source": source(row)}
        for row in found
    ]
    reason = "" if rows else f"no run is recorded{asking.under_others(index, ask)}"
    return answer("runs", rows, project=ask.project, reason=reason, facts={"runs": total, "shown": len(rows)})


def run_of_question(index: Index, ask: LedgerQuery) -> dict[str, Any]:
    """The run that is asked about: named, or the last full one, or the last."""
    if ask.subject:
        return find(index, ask, ask.subject[0])
    return pick(index, ask, FULL) or find(index, ask, "last")


def without_rows(question: str, run: dict[str, Any]) -> LedgerAnswer:
    reason = run["why"] or "it is running: its tests are not folded yet"
    return answer(question, [], subject=[run["run"]], verdict="unknown", reason=reason)


def slowest(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The slowest tests of a run (the last full one, or the last), in seconds; setup, call and teardown apart."""
    index = ensure(world)
    run = run_of_question(index, ask)
    if not run["ingested"]:
        return without_rows("slowest", run)
    limit = ask.limit or 10
    least, slow = index_file.load(index.db, run["rid"]).slowest(limit)
    some = f"tid IN ({', '.join(map(str, slow))}) AND" if len(slow) <= FEW else ""
    sql = (
        f"SELECT * FROM results JOIN tests USING (tid) WHERE rid = ? AND {some} total >= ?"
        " ORDER BY total DESC, test, occurrence, attempt LIMIT ?"
    )
    rows = [_test_row(row, names.events_file(run["run"])) for row in index.rows(sql, run["rid"], least, limit)]
    tests, us = index_file.sums(index.db, run["rid"])
    facts = {"run": run["run"], "scope": run["scope"], "tests": tests, "seconds": us / 1e6}
    return answer("slowest", rows, subject=[run["run"]], project=ask.project, facts=facts)


def _test_row(row: dict[str, Any], place: str) -> Row:
    spans = {key: row[key] / 1e6 for key in ("total", "setup", "call", "teardown") if row.get(key) is not None}
    made: Row = {"test": row["test"], "outcome": OUTCOMES[row["outcome"]], **spans, "worker": row.get("worker")}
    for key in ("occurrence", "attempt"):
        if row[key] > 1:
            made[key] = row[key]
    return made | {"source": place}


def fixtures(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The fixtures of a run whose setup cost most in all, in seconds."""
    index = ensure(world)
    run = run_of_question(index, ask)
    if not run["ingested"]:
        return without_rows("fixtures", run)
    sql = "SELECT * FROM fixtures WHERE rid = ? ORDER BY total DESC, base, fixture LIMIT ?"
    rows = [
        {
            "fixture": row["fixture"],
            "base": row["base"] or None,
            "scope": row["scope"],
            "count": row["count"],
            "total": row["total"] / 1e6,
            "longest": row["longest"] / 1e6,
            "source": names.events_file(run["run"]),
        }
        for row in index.rows(sql, run["rid"], ask.limit or 10)
    ]
    return answer("fixtures", rows, subject=[run["run"]], project=ask.project, facts={"run": run["run"]})


def compare(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """What changed from one run to another: outcomes, tests come and gone, time. Only of runs that are comparable."""
    index = ensure(world)
    first, second = (find(index, ask, name) for name in ask.subject)
    for run in (first, second):
        if not run["ingested"]:
            return without_rows("compare", run)
    subject = [first["run"], second["run"]]
    differ = not_comparable(record_of(first), record_of(second))
    if differ:
        reason = f"not comparable: {', '.join(row['differs'] for row in differ)}"
        return answer("compare", differ, subject=subject, project=ask.project, verdict="unknown", reason=reason)
    rows, counts = _changes(index, first["rid"], second["rid"], ask.limit or 20)
    totals = [index_file.sums(index.db, run["rid"])[1] for run in (first, second)]
    walls = [record_of(run).get("wallSeconds") for run in (first, second)]
    facts = counts | {"wall": walls, "testSeconds": [total / 1e6 for total in totals]}
    return answer("compare", rows, subject=subject, project=ask.project, facts=facts)


def _changes(index: Index, first: int, second: int, limit: int) -> tuple[list[Row], dict[str, Any]]:
    """Changed outcomes first, then what came and went, then the largest differences in time."""
    found = Changes(index_file.load(index.db, first), index_file.load(index.db, second), limit)
    numbers = {place >> SHIFT for place, _, _ in (*found.verdicts, *found.slower)}
    named = index.names(numbers | found.gone | found.come)
    # Where a test has several occurrences, those that did not pass at first come first.
    changed = sorted((named[place >> SHIFT], was == PASSED, place, was, now) for place, was, now in found.verdicts)
    rows: list[Row] = [
        {"test": test, "change": f"{OUTCOMES[was]} -> {OUTCOMES[now]}"} for test, _, _, was, now in changed
    ]
    for tests, word in ((found.gone, "gone"), (found.come, "new")):
        rows += [{"test": test, "change": word} for test in sorted(named[number] for number in tests)]
    slower = [(-abs(now - was), named[place >> SHIFT], was / 1e6, now / 1e6) for place, was, now in found.slower]
    for _, test, before, after in sorted(slower, key=itemgetter(0, 1)):
        row = {"test": test, "change": "time", "was": before, "now": after, "delta": round(after - before, 6)}
        rows.append(row)
    return rows, {"outcomesChanged": len(changed), "gone": len(found.gone), "new": len(found.come)}


def history(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """Every recorded execution of a test, newest first."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    sql = (
        "SELECT run, started, commit_id, tree, runs.scope, r.*, t.test"
        f" {EXECUTIONS} WHERE t.project IN ({marks}) AND t.test = ?"
        f" ORDER BY {asking.NEWEST}, r.occurrence, r.attempt LIMIT ?"
    )
    test, none = asking.find_test(index, ask, ask.subject[0])
    found = index.rows(sql, *ask.projects, test, ask.limit or 1_000_000)
    rows = [
        {"run": row["run"], "started": row["started"], **_test_row(row, names.events_file(row["run"]))}
        | {"message": row["message"], "commit": row["commit_id"], "tree": row["tree"], "scope": row["scope"]}
        for row in found
    ]
    reason, blind = asking.not_known(index, ask)
    if not rows:
        reason = reason or none or asking.NO_TEST
    facts = {"executions": len(rows), "notIngested": blind or None}
    return answer("history", rows, subject=[test], project=ask.project, reason=reason, facts=facts)
