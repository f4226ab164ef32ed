"""The questions of `ledger-query`: how many subjects each takes, who answers, which columns its text form shows."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ktxkit.base.errors import CannotRun
from ktxkit.ledger.asking import Ask

if TYPE_CHECKING:
    from ktxkit.base.contracts import Document
    from ktxkit.store.world import World

RUN_COLUMNS = ("what", "run", "started", "scope", "state", "verdict", "tests", "wall", "trigger", "why")

JOB_COLUMNS = ("job", "state", "target", "created", "units", "outcomes")
UNIT_COLUMNS = ("position", "unit", "outcome", "patch", "paths", "lease", "reason", "source")
TRACE_COLUMNS = ("at", "level", "phase", "event", "unit", "ms", "error", "data", "source")
LIVE_COLUMNS = ("run", "asked", "started", "elapsed", "done", "total", "tests", "busy", "inFlight", "state")
TEST_COLUMNS = ("test", "outcome", "total", "setup", "call", "teardown", "worker", "occurrence", "attempt")


class Question(NamedTuple):
    """`answer` is `wing.module:function`; it is imported when the question is asked."""

    answer: str
    least: int = 0
    most: int = 0
    columns: tuple[str, ...] = ()
    project: bool = True


QUESTIONS: dict[str, Question] = {
    "last": Question("ledger.run_answers:last", columns=RUN_COLUMNS),
    "last-full": Question("ledger.run_answers:last_full", columns=RUN_COLUMNS),
    "last-scoped": Question("ledger.run_answers:last_scoped", columns=RUN_COLUMNS),
    "run": Question("ledger.run_answers:one_run", 1, 1, ("what", "test", "message", "cause", "since")),
    "runs": Question("ledger.run_answers:runs", columns=RUN_COLUMNS),
    "report": Question("app.ledger_page:summary", columns=(*RUN_COLUMNS, "authoritative")),
    "slowest": Question("ledger.test_answers:slowest", 0, 1, TEST_COLUMNS),
    "fixtures": Question(
        "ledger.test_answers:fixtures", 0, 1, ("fixture", "base", "scope", "count", "total", "longest")
    ),
    "compare": Question("ledger.test_answers:compare", 2, 2),
    "history": Question("ledger.test_answers:history", 1, 1, ("started", "run", "scope", *TEST_COLUMNS[1:], "message")),
    "flaky": Question(
        "ledger.word_answers:flaky", 0, 1, ("test", "word", "executions", "why", "run", "outcome", "attempt")
    ),
    "explain": Question("ledger.word_answers:explain", 1, 2),
    "live": Question("ledger.live_answers:live", 0, 1, LIVE_COLUMNS),
    "provenance": Question(
        "ingest.provenance:provenance",
        1,
        1,
        ("kind", "how", "rawPath", "artifact", "action", "sync", "run", "job", "unit", "event", "test", "source"),
    ),
    "banner": Question("ledger.banner:banner", project=False),
    "graph": Question("ledger.exports:graph_lines"),
    "rules": Question("ledger.exports:rules", 0, 0, ("word", "also", "needs", "means", "say", "why"), project=False),
    "jobs": Question("ledger.job_answers:all_jobs", 0, 0, JOB_COLUMNS, project=False),
    "job": Question("ledger.job_answers:one_job", 1, 1, UNIT_COLUMNS, project=False),
    "trace": Question("ledger.job_answers:trace", 1, 1, TRACE_COLUMNS, project=False),
}


# What other options of the command turn a question into.
QUESTIONS["ctrf"] = Question("ledger.exports:ctrf_report", 0, 1)
QUESTIONS["page"] = Question("app.ledger_page:render")
QUESTIONS["prolog"] = Question("ledger.exports:prolog", project=False)
ASKED = tuple(name for name in QUESTIONS if name not in ("ctrf", "prolog", "page"))


def variant(name: str, form: str | None, html: bool, prolog: bool) -> str:
    """What the other options turn a question into. Raises CannotRun for one that it has not."""
    if html and name != "report":
        raise CannotRun("--html is of `report`", hint="ledger-query report --html FILE")
    if form == "ctrf" and name not in ("run", "last"):
        raise CannotRun("--format ctrf is of `run` and `last`", hint="ledger-query run RUN --format ctrf")
    return "ctrf" if form == "ctrf" else "prolog" if prolog else "page" if html else name


def asked(world: World, name: str, subject: Sequence[str], projects: Sequence[str], **more: object) -> Ask:
    """The question as it is asked. Raises CannotRun for a wrong number of subjects or an unresolvable project."""
    question = QUESTIONS[name]
    if not question.least <= len(subject) <= question.most:
        need = str(question.most) if question.least == question.most else f"{question.least} to {question.most}"
        raise CannotRun(f"{name} takes {need} subjects, not {len(subject)}", hint="see ledger-query --help")
    named: tuple[str, ...] = tuple(projects)
    if question.project and not named:
        from ktxkit.ledger import projects as resolver

        named = (resolver.resolve(world),)
    return Ask(subject=tuple(subject), projects=named, **more)  # type: ignore[arg-type]


def ask(world: World, name: str, subject: Sequence[str], projects: Sequence[str], **more: object) -> Document | bytes:
    """The answer; bytes where the question is an export. Raises CannotRun as `asked` does."""
    module, _, function = QUESTIONS[name].answer.partition(":")
    answering = getattr(importlib.import_module(f"ktxkit.{module}"), function)
    found: Document | bytes = answering(world, asked(world, name, subject, projects, **more))
    return found
