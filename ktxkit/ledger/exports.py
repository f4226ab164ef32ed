"""What the ledger hands to other tools: CTRF reports, a graph, a Prolog rulebase.

The ledger as nodes and edges, for whoever joins them in a graph database. Ids are qualified by the project, so that
loading the same thing twice changes nothing.

The rules of words as a Prolog rulebase. Rules only: the facts are reached through `ledger_verdict/4`, which asks
`ledger-query`; nothing measured is ever asserted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.ledger import answers
from ktxkit.ledger.asking import LedgerQuery, ensure, find
from ktxkit.ledger.index_file import OUTCOMES, Index
from ktxkit.ledger.rules.evidence import forms
from ktxkit.ledger.rules.rows import Row, answer
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, RunRecord


def ctrf_report(world: World, ask: LedgerQuery) -> bytes:
    """A run as a CTRF report (default: the last one). Raises CannotRun where its tests are not known."""
    index = ensure(world)
    run = find(index, ask, ask.subject[0] if ask.subject else "last")
    if not run["ingested"]:
        raise CannotRun(
            f"the tests of {run['run']} are not known: {run['why'] or 'it is running'}",
            hint="`ledger-query runs` lists others; a run must have ended and have its events",
        )
    document = _ctrf(json.loads(run["record"]), _attempts(index, run["rid"]))
    return (json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


STATUS = {
    "passed": "passed", "xpassed": "passed", "failed": "failed", "error": "failed", "crashed": "failed",
    "skipped": "skipped", "xfailed": "skipped", "interrupted": "other", "unknown": "other",
}  # fmt: skip


def _ctrf(record: RunRecord, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A run of ours as a CTRF report (ctrf-io/ctrf, working draft 0.0.0).

    `rows` are the attempts of the run in order, with the verdict beside each last one.

    Scope, authority and what never ran have no place in CTRF's core: they are in `extra`.
    """
    tests = _tests(record, rows)
    start = _ms(record.get("startedAt"))
    words = [test["status"] for test in tests]
    tree = record.get("tree", {})
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "runId": record["run"],
        "generatedBy": "ktxkit",
        "results": {
            "tool": {"name": "pytest", "version": record.get("tools", {}).get("pytest", "unknown")},
            "summary": {
                "tests": len(tests),
                **{word: words.count(word) for word in ("passed", "failed", "skipped", "pending", "other")},
                "start": start,
                "stop": start + round(record.get("wallSeconds", 0) * 1000),
            },
            "tests": tests,
            "environment": {"commit": tree["commit"]} if "commit" in tree else {},
            "extra": {
                key: record[key] for key in ("scope", "state", "verdict", "authoritative", "project") if key in record
            },
        },
    }


def _tests(record: RunRecord, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each test once, its earlier attempts inside; then those that never ran."""
    tests: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    for row in rows:
        if row["verdict"] is None:
            before.append(_attempt(row))
            continue
        made = _test(row)
        if before:
            made |= {"retries": len(before), "retryAttempts": before, "flaky": made["status"] == "passed"}
            before = []
        tests.append(made)
    tests += [
        {"name": test, "status": "pending", "duration": 0, "rawStatus": "never ran"}
        for test in record.get("notRun", ())
    ]
    return tests


def _test(row: Mapping[str, Any]) -> dict[str, Any]:
    made = {
        "name": row["test"],
        "status": STATUS[row["verdict"]],
        "duration": round(row["total"] / 1000),
        "rawStatus": row["verdict"],
    }
    if row["message"] and made["status"] == "failed":
        made["message"] = row["message"]
    return made | ({"threadId": row["worker"]} if row["worker"] else {})


def _attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    made = {"attempt": row["attempt"], "status": STATUS[row["outcome"]], "duration": round(row["total"] / 1000)}
    return made | ({"message": row["message"]} if row["message"] else {})


def _ms(at: str | None) -> int:
    return 0 if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)


def graph_lines(world: World, ask: LedgerQuery) -> bytes:
    """Every closed run of the projects as JSON Lines of nodes and edges; each element once, sorted by run."""
    index = ensure(world)
    marks = ", ".join("?" for _ in ask.projects)
    runs = index.rows(f"SELECT * FROM runs WHERE project IN ({marks}) AND closed = 1 ORDER BY seq", *ask.projects)
    seen: set[str] = set()
    lines: list[str] = []
    for run in runs:
        rows = [row | {"suite": suite_of(row["test"])} for row in _attempts(index, run["rid"])]
        for element in elements(json.loads(run["record"]), rows):
            key = element["id"]
            if key not in seen:
                seen.add(key)
                lines.append(json.dumps(element, separators=(",", ":"), ensure_ascii=True) + "\n")
    return "".join(lines).encode("ascii")


def suite_of(test: str) -> str:
    """The file that a test stands in, before the first `::`: a grouping; nothing else is read from an id."""
    return test.partition("::")[0] or test


def _attempts(index: Index, rid: int) -> list[Row]:
    sql = "SELECT * FROM results JOIN tests USING (tid) WHERE rid = ? ORDER BY tid, occurrence, attempt"
    rows = index.rows(sql, rid)
    for row in rows:
        row["outcome"] = OUTCOMES[row["outcome"]]
        row["verdict"] = None if row["verdict"] is None else OUTCOMES[row["verdict"]]
    return rows


def rules(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The rules of the words: what each needs, and what is refused."""
    found = answers.load()
    rows = [
        {"word": one["word"], "also": one.get("also"), "needs": one["needs"], "means": one["means"]}
        for one in found["words"]
    ]
    rows += [
        {"word": one["word"], "also": one.get("also"), "say": one["say"], "why": one["why"]} for one in found["refused"]
    ]
    return answer("rules", rows, facts={"reminders": found["reminders"]})


def prolog(world: World, ask: LedgerQuery) -> bytes:
    """The same as a Prolog rulebase."""
    return rulebase(answers.load()).encode("utf-8")


Element = dict[str, Any]


def node_id(project: str, kind: str, name: str) -> str:
    """`kind:project#name`; a name too long for an id is its digest."""
    return f"{kind}:{project}#{name if len(name) <= 400 else digest(name.encode('utf-8'))}"


def elements(record: RunRecord, rows: Iterable[Row]) -> Iterator[Element]:
    """Nodes and edges of one run: the run, its commit and tree, each test and its suite, each execution as an edge."""
    project = record["project"]
    run = node_id(project, "run", record["run"])
    tree = record.get("tree", {})
    yield _node("project", f"project:{project}", {"name": project})
    keys: Final = ("startedAt", "wallSeconds", "state", "verdict", "authoritative", "trigger")
    facts = {key: record[key] for key in keys if key in record}
    yield _node("run", run, facts | {"scope": record["scope"]["kind"], "counts": record["counts"]})
    yield _edge("OF", run, f"project:{project}")
    for kind in ("commit", "tree"):
        if kind in tree:
            target = node_id(project, kind, tree[kind])
            yield _node(kind, target, {"oid": tree[kind]})
            yield _edge("ON", run, target)
    if "parent" in record:
        yield _edge("INSIDE", run, node_id(project, "run", record["parent"]))
    suites: set[str] = set()
    for row in rows:
        test, suite = node_id(project, "test", row["test"]), row["suite"]
        if suite not in suites:
            suites.add(suite)
            yield _node("suite", node_id(project, "suite", suite), {"name": suite})
        yield _node("test", test, {"name": row["test"]})
        yield _edge("PART_OF", test, node_id(project, "suite", suite))
        ran = {"outcome": row["outcome"], "seconds": row["total"] / 1e6, "attempt": row["attempt"]}
        yield _edge("EXECUTED", run, test, ran | {"occurrence": row["occurrence"]})


def _node(kind: str, name: str, facts: Mapping[str, Any]) -> Element:
    return {"element": "node", "kind": kind, "id": name, **facts}


def _edge(kind: str, start: str, end: str, facts: Mapping[str, Any] | None = None) -> Element:
    more = dict(facts or {})
    tail = f"/{more['occurrence']}.{more['attempt']}" if "attempt" in more else ""
    return {"element": "edge", "kind": kind, "id": f"{kind}:{start}->{end}{tail}", "from": start, "to": end, **more}


# -- the rules of words as a Prolog rulebase

HEAD = """% Generated by `ledger-query rules --prolog` from the lexicon; do not edit.
% ledger_verdict(+Predicate, +Subject, -Verdict, -Rows) asks `ledger-query explain` (on the PATH, in the working
% directory): true, false or unknown, with the recorded rows that it rests on. What cannot be asked is unknown, with no
% rows. A program that defines user:ledger_verdict/3 is asked instead. Unknown never becomes false: a word may be said
% only where each need is true.
:- module(lexicon, [word/2, refused/2, may_say/2, verdict/3, verdict/4, ledger_verdict/4, instead/2]).
:- use_module(library(lists)).
:- use_module(library(process)).
:- use_module(library(http/json)).
:- dynamic user:ledger_verdict/3.
:- multifile user:ledger_verdict/3.

"""
TAIL = """
verdict(Word, Subject, Verdict) :- verdict(Word, Subject, Verdict, _).

% Evidence is a list of Need-Rows.
verdict(Word, _, refused, []) :- refused(Word, _), !.
verdict(Word, Subject, Verdict, Evidence) :-
    word(Word, Canonical), !,
    findall(V-(Need-Rows), (needs(Canonical, Need), fact(Need, Subject, V, Rows)), Pairs),
    findall(V, member(V-_, Pairs), Vs),
    findall(E, member(_-E, Pairs), Evidence),
    all_of(Vs, Verdict).
verdict(_, _, free, []).

fact(Need, Subject, Verdict, []) :-
    predicate_property(user:ledger_verdict(_, _, _), number_of_clauses(N)), N > 0, !,
    user:ledger_verdict(Need, Subject, Verdict).
fact(Need, Subject, Verdict, Rows) :- ledger_verdict(Need, Subject, Verdict, Rows).

ledger_verdict(Predicate, Subject, Verdict, Rows) :-
    catch(asked(Predicate, Subject, Verdict, Rows), _, (Verdict = unknown, Rows = [])), !.
ledger_verdict(_, _, unknown, []).

asked(Predicate, Subject, Verdict, Rows) :-
    setup_call_cleanup(
        process_create(path('ledger-query'), [explain, Predicate, Subject, '--json'],
                       [stdout(pipe(Out)), stderr(null), process(Pid)]),
        json_read_dict(Out, Answer, [value_string_as_atom(true)]),
        (close(Out), process_wait(Pid, _))),
    Document = Answer.document,
    atom_string(Verdict, Document.verdict),
    memberchk(Verdict, [true, false, unknown]),
    Rows = Document.rows.

all_of(Vs, false) :- memberchk(false, Vs), !.
all_of(Vs, unknown) :- memberchk(unknown, Vs), !.
all_of(_, true).

may_say(Word, Subject) :- verdict(Word, Subject, Verdict), memberchk(Verdict, [true, free]).
"""


def rulebase(lexicon: Mapping[str, Any]) -> str:
    """The program: each form of a word with the word, what it needs, what is refused, and the rule that decides."""
    lines = []
    for rule in lexicon["words"]:
        lines += [f"word({atom(form)}, {atom(rule['word'])})." for form in forms(rule)]
    for rule in lexicon["refused"]:
        lines += [f"refused({atom(form)}, {atom(rule['say'])})." for form in forms(rule)]
    for rule in lexicon["words"]:
        lines += [f"needs({atom(rule['word'])}, {atom(need)})." for need in rule["needs"]]
    for rule in lexicon["words"]:
        lines += [f"instead({atom(rule['word'])}, {atom(other)})." for other in rule.get("instead", ())]
    grouped = sorted(lines, key=lambda line: ("word", "refused", "needs", "instead").index(line.partition("(")[0]))
    return HEAD + "\n".join(grouped) + "\n" + TAIL


def atom(text: str) -> str:
    """A quoted atom (ISO 6.4.2.1)."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
