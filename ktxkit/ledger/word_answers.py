"""Which word may be said of a test, and the derivation of any such goal down to its rows."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.ledger.asking import Ask
from ktxkit.ledger.index_file import EXECUTIONS, OUTCOMES, Index
from ktxkit.ledger.ledger_index import ensure
from ktxkit.ledger.picking import find, source
from ktxkit.ledger.rules import derive
from ktxkit.ledger.rules.answers import Verdict, answer
from ktxkit.ledger.rules.evidence import PARTS, REPETITIONS, Execution, Said, is_flaky, judge, load_class
from ktxkit.ledger.rules.rows import run_row
from ktxkit.store import settings
from ktxkit.store.world import World

OF_RUN = {"passed": derive.passed, "full": derive.full, "authoritative": derive.authoritative}
OF_TEST = (
    *("flaky", "passed_on_retry", "order_dependent", "concurrency_dependent", "environment_dependent_failure"),
    *("load_dependent", "failing"),
)


def repetitions(world: World) -> int:
    """How many identical executions `flaky` needs here."""
    return int(settings.ledger(world).get("repetitions", REPETITIONS))


def executions(index: Index, projects: tuple[str, ...], tests: list[str] | None) -> dict[str, list[Execution]]:
    """The executions of tests, oldest first; of all that have both outcomes or were retried where none is named."""
    marks = ", ".join("?" for _ in projects)
    some = f"AND t.test IN ({', '.join('?' for _ in tests)})" if tests is not None else ""
    mixed = "" if tests is not None else "AND (t.retried > 0 OR t.bad > 0)"
    rows = index.rows(
        "SELECT t.test, r.occurrence, r.attempt, r.outcome, r.verdict, runs.run, runs.started, runs.tree,"
        " runs.environment, runs.selection, runs.workers, runs.scheduling, runs.ordering, runs.generated, runs.load"
        f" {EXECUTIONS} WHERE t.project IN ({marks}) {some} {mixed}"
        " ORDER BY runs.seq, r.occurrence, r.attempt",
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


def flaky(world: World, ask: Ask) -> Document:
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


def _one(index: Index, ask: Ask, least: int) -> Document:
    (test,) = ask.subject
    ran = executions(index, ask.projects, [test]).get(test, [])
    said = judge(ran, least) if ran else Said("unknown", "unknown", "no execution of it is recorded", ())
    bad = sum(one.side == "bad" for one in ran)
    facts: dict[str, Any] = {"word": said.word, "executions": len(ran), "failed": bad, "repetitions": least}
    if ran and not bad:
        # 95 % confidence: no failure in N executions bounds the rate by 3/N (the rule of three).
        facts["rateBelow"] = round(min(1.0, 3 / len(ran)), 4)
    verdict: Verdict = "true" if said.word == "flaky" else "unknown"
    rows = [one.row() for one in said.rows]
    return answer("flaky", rows, subject=[test], project=ask.project, verdict=verdict, reason=said.reason, facts=facts)


def explain(world: World, ask: Ask) -> Document:
    """The derivation of a goal: `passed RUN`, `full RUN`, `authoritative RUN`, `flaky TEST` and the other words."""
    name, subject = _goal(ask.subject)
    index = ensure(world)
    if name in OF_RUN:
        run = find(index, ask, subject)
        if not run["closed"]:
            derivation = derive.node(f"{name}({run['run']})", "unknown", [derive.node("it is running", "true")])
        else:
            record = json.loads(run["record"])
            line = run_row(record, source(run))
            row = {key: line[key] for key in ("run", "started", "state", "tests", "source")}
            derivation = OF_RUN[name](record, row)
    else:
        ran = executions(index, ask.projects, [subject]).get(subject, [])
        said = is_flaky(ran, repetitions(world)) if name == "flaky" and not ran else judge(ran, repetitions(world))
        derivation = derive.word(subject, name, said)
    return answer(
        "explain",
        leaves(derivation),
        subject=[f"{name}({subject})"],
        project=ask.project,
        verdict=derivation["verdict"],
        facts={"derivation": derivation},
    )


def _goal(words: tuple[str, ...]) -> tuple[str, str]:
    """`word(subject)` or `word subject`."""
    name, subject = words[0], words[1] if len(words) > 1 else ""
    if not subject and name.endswith(")") and "(" in name:
        name, _, rest = name.partition("(")
        subject = rest[:-1]
    known = (*OF_RUN, *OF_TEST)
    if name not in known or not subject:
        raise CannotRun(
            f"cannot explain {' '.join(words)!r}", hint=f"a goal is WORD(SUBJECT), with one of {', '.join(known)}"
        )
    return name, subject


def leaves(node: derive.Node) -> list[dict[str, Any]]:
    """The rows of a derivation, in order."""
    return [*node.get("rows", ()), *(row for below in node.get("because", ()) for row in leaves(below))]
