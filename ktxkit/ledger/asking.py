"""A project's name from the address of its origin.

Which project a repository is: every run, record and answer is qualified by it.

Ids of test runs.

The index, as new as the ledger. Where nothing is new, what would read it in is not even loaded.

A question as it was asked.

Runs picked from the index. It loads little: the banner must have answered before other commands have begun.

The questions of `ledger-query`: how many subjects each takes, who answers, which columns its text form shows.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest
from ktxkit.store.rules import names

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, RunRecord
    from ktxkit.ledger.index_file import Index
    from ktxkit.ledger.rules.rows import Row
    from ktxkit.store.world import World


_SCP = re.compile(r"(?:[^@/]+@)?([^/:@]+):(?!//)(.+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]*)(?::[0-9]+)?/(.*)", re.IGNORECASE)


def from_url(url: str) -> str:
    """`host/owner/name`, the same for every way to write an address; never with a password. A path: `file:PATH`."""
    found = _URL.fullmatch(url)
    if found is None:
        scp = _SCP.fullmatch(url)
        if scp is None or url.startswith(("/", ".")):
            return f"file:{url.rstrip('/').removesuffix('.git')}"
        found = scp
    host, path = found[1].lower(), found[2].strip("/").removesuffix(".git").strip("/")
    return f"{host}/{path}" if host else f"file:/{path}"


VARIABLE = "KTX_PROJECT"


def resolve(world: World) -> str:
    """KTX_PROJECT, else `git config ktx.project`, else origin's address without its credentials, else the repository's
    place on this machine. Raises CannotRun outside a repository: there is no default.
    """
    if world.env.get(VARIABLE):
        return world.env[VARIABLE]
    try:
        repository = world.repository
    except KtxError as error:
        raise CannotRun(
            f"no project: {error.message}",
            location=error.location,
            hint=f"run inside a repository, set {VARIABLE}, or name one with --project",
        ) from error
    found = world.git.run("config", "--null", "--get-regexp", r"^(ktx\.project|remote\.origin\.url)$", ok=(0, 1))
    pairs = dict(entry.decode("utf-8", "replace").partition("\n")[::2] for entry in found.nul)
    if pairs.get("ktx.project"):
        return pairs["ktx.project"]
    if pairs.get("remote.origin.url"):
        return from_url(pairs["remote.origin.url"])
    return f"file:{repository.default_store.parent}"


def resolved(world: World) -> str:
    """As `resolve`; empty where there is none."""
    try:
        return resolve(world)
    except CannotRun:
        return ""


def new_run_id(now: datetime) -> str:
    """Sorts by time; unique by its tail."""
    import secrets

    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def ensure(world: World, *, settle: bool = True) -> Index:
    """The index, as new as the ledger. Raises BrokenContract where a line is broken, or lines are missing."""
    from ktxkit.ledger.index_file import Index

    place = world.store.path(names.LEDGER_INDEX)
    index = Index(place if place.parent.is_dir() else Path(":memory:"))  # a question makes no store
    if not index.holds(world.store.path(names.LEDGER)) or not _anchored(world, index):
        from ktxkit.ledger import ledger

        ledger.update(world, index)
    if settle:
        _settle(world, index)
    return index


def _anchored(world: World, index: Index) -> bool:
    """Whether the last line that is in is the one that head and marks name; told without an engine for contracts."""
    import json

    try:
        last = index.last() or {}
        head = json.loads(files.read(world.store.path(names.LEDGER_HEAD)))
        lock, *own = world.store.ledger_marks()
        marks = [_text(lock) or b"null", *(_text(path) for path in own if path.exists())]
        found = [one for one in (head, *map(json.loads, marks)) if one is not None]
        return all(one["lines"] == last.get("seq") and one["hash"] == last.get("hash") for one in found)
    except (BrokenContract, OSError, ValueError, RecursionError, KeyError, TypeError):
        return False  # then it is read as a document, which says what is wrong with it


def _text(path: Path) -> bytes:
    try:
        return files.read(path)
    except FileNotFoundError:
        return b""


def _settle(world: World, index: Index) -> None:
    """Close what has ended, and enter what was recorded and has no line."""
    strays = index.strays(world.store.path(names.EVENTS))
    open_runs = index.db.execute("SELECT 1 FROM runs WHERE closed = 0 LIMIT 1").fetchone()
    if not strays and not open_runs and not index.outdated:
        return
    from ktxkit.ledger import ledger

    if index.outdated:
        index.clear()
    if ledger.writable(world):
        from ktxkit.ledger import repair

        for run in repair.in_order(world, strays):
            repair.adopt(world, run)
        ledger.close_ended(world, index)
    ledger.update(world, index)


class LedgerQuery(NamedTuple):
    """What is asked about, of which projects, and how much of the answer is wanted (0: the question's own measure)."""

    subject: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    limit: int = 0
    event: str = ""
    unit: str = ""
    level: str = "trace"
    follow: bool = False
    commit: Callable[[str], tuple[str, str] | None] | None = None  # id and tree of a revision

    @property
    def project(self) -> str:
        return ", ".join(self.projects)


NEWEST = "runs.rid DESC"  # in the order in which they were opened: no step of a clock changes that
LAST = "closed = 1 AND parent IS NULL AND mode = 'run'"
SCOPED = f"{LAST} AND scope != 'full'"
FULL = f"{LAST} AND scope = 'full'"


def source(line: dict[str, Any]) -> str:
    return f"{names.LEDGER}#{line['seq']}"


def pick(index: Index, ask: LedgerQuery, condition: str, before: int = 0, *values: str) -> dict[str, Any] | None:
    """The newest run of the asked projects that fits; with `before` the one so many such runs before it."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND {condition} ORDER BY {NEWEST} LIMIT 1 OFFSET ?"
    found = index.rows(sql, *ask.projects, *values, before)
    return found[0] if found else None


@overload
def record_of(row: dict[str, Any]) -> RunRecord: ...
@overload
def record_of(row: dict[str, Any] | None) -> RunRecord | None: ...
def record_of(row: dict[str, Any] | None) -> RunRecord | None:
    """The record of a run's row."""
    if row is None:
        return None
    import json

    found: RunRecord = json.loads(row["record"])
    return found


def under_others(index: Index, ask: LedgerQuery, way: str = "--project") -> str:
    """That the store has runs of other projects, where it has none of those that are asked about: `; 3 runs ...`.

    `way`: what names the project there.
    """
    marks = ", ".join("?" for _ in ask.projects)
    sql = "SELECT project, count(*) AS n FROM runs WHERE parent IS NULL GROUP BY project ORDER BY n DESC"
    if index.rows(f"SELECT 1 FROM runs WHERE project IN ({marks}) LIMIT 1", *ask.projects):
        return ""
    found = index.rows(sql)
    count = sum(row["n"] for row in found)
    if not count:
        return ""
    others = "another project" if len(found) == 1 else f"{len(found)} other projects"
    return f"; {count} run{' stands' if count == 1 else 's stand'} here under {others}: {way} {found[0]['project']}"


def gap(index: Index, ask: LedgerQuery) -> Row:
    """The newest run that nothing is known of for certain: lines that are lost, or events that were damaged. What ran
    before it is not the last word: whether it was full, and failed, is not known. Empty where there is none.
    """
    from ktxkit.ledger.rules.fold import IMPORTED

    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND {LAST} AND state = 'damaged' ORDER BY {NEWEST}"
    found = index.rows(sql, *ask.projects)
    return next((row for row in found if record_of(row).get("trigger") != IMPORTED), {})


def blind(index: Index, ask: LedgerQuery, since: int = 0) -> list[Row]:
    """Closed runs whose tests are not in the index: their events are gone, or were changed. Newest first."""
    marks = ", ".join("?" for _ in ask.projects)
    where = f"project IN ({marks}) AND {LAST} AND ingested = 0 AND rid >= ?"
    return index.rows(f"SELECT * FROM runs WHERE {where} ORDER BY {NEWEST}", *ask.projects, since)


def not_known(index: Index, ask: LedgerQuery) -> tuple[str, int]:
    """Of how many runs the tests are not known one by one, in words and as a number."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT run, why FROM runs WHERE project IN ({marks}) AND ingested = 0 ORDER BY {NEWEST}"
    found = index.rows(sql, *ask.projects)
    if not found:
        return "", 0
    count = f"{len(found)} run{'s' * (len(found) > 1)}"
    return f"not known of {count}: {found[0]['run']} ({found[0]['why'] or 'running'})", len(found)


def running(index: Index, ask: LedgerQuery) -> list[str]:
    """Runs that were opened and not closed."""
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT run FROM runs WHERE project IN ({marks}) AND closed = 0 AND parent IS NULL ORDER BY seq"
    return [row["run"] for row in index.rows(sql, *ask.projects)]


def find(index: Index, ask: LedgerQuery, run: str) -> dict[str, Any]:
    """A run by its id, a unique beginning of it, `last`, `last-full`, `last-scoped` (`last~1`: the one before), or the
    newest one of a branch or commit. Raises CannotRun.
    """
    words = {"last": LAST, "last-full": FULL, "last-scoped": SCOPED}
    name, _, back = run.partition("~")
    if name in words and (back.isdigit() or run == name):
        row = pick(index, ask, words[name], int(back or 0))
        if row is None:
            others = under_others(index, ask)
            raise CannotRun(f"there is no {run} run{others}", hint="`ledger-query runs` lists those there are")
        return row
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT * FROM runs WHERE project IN ({marks}) AND substr(run, 1, ?) = ? ORDER BY seq"
    rows = index.rows(sql, *ask.projects, len(run), run)
    exact = [row for row in rows if row["run"] == run] or rows
    if len(exact) == 1:
        return exact[0]
    of_commit = _of_commit(index, ask, run) if not exact else None
    if of_commit is not None:
        return of_commit
    known = [row["run"] for row in index.rows("SELECT run FROM runs ORDER BY seq DESC LIMIT 1000")]
    near = [row["run"] for row in exact[:3]] or nearest(run, known)
    hint = f"did you mean {' or '.join(near)}?" if near else "`ledger-query runs` lists those there are"
    raise CannotRun(f"{'several runs begin' if exact else 'no run begins'} with {run!r}", hint=hint)


def _of_commit(index: Index, ask: LedgerQuery, name: str) -> Row | None:
    """The newest run on what a revision has, else the newest that began at it. Raises CannotRun where there is none."""
    commit = ask.commit(name) if ask.commit is not None else None
    if commit is None:
        return None
    found = pick(index, ask, f"{LAST} AND tree = ?", 0, commit[1]) or pick(
        index, ask, f"{LAST} AND commit_id = ?", 0, commit[0]
    )
    if found is None:
        raise CannotRun(
            f"no run of {name} ({commit[0][:12]}) is recorded", hint="`ledger-query runs` lists those there are"
        )
    return found


NO_TEST = "no recorded run has executed a test of this id"
NEAR_AMONG = 5000  # ids among which a near one is looked for


def find_test(index: Index, ask: LedgerQuery, name: str) -> tuple[str, str]:
    """The id of a recorded test: whole, or what stands behind its last `::` where it is of one test alone; and, where
    there is no such test, what is to be said.
    """
    marks = ", ".join("?" for _ in ask.projects)
    sql = f"SELECT test FROM tests WHERE project IN ({marks})"
    if index.rows(f"{sql} AND test = ? LIMIT 1", *ask.projects, name):
        return name, ""
    tail = f"::{name}"
    found = [
        row["test"]
        for row in index.rows(f"{sql} AND substr(test, ?) = ? ORDER BY 1 LIMIT 4", *ask.projects, -len(tail), tail)
    ]
    if len(found) == 1:
        return found[0], ""
    ids = [row["test"] for row in index.rows(f"{sql} LIMIT ?", *ask.projects, NEAR_AMONG)]
    tails = {one.rpartition("::")[2]: one for one in reversed(ids)}
    near = found[:3] or nearest(name, ids) or [tails[tail] for tail in nearest(name, tails)]
    return name, f"{NO_TEST}{': did you mean ' + ' or '.join(near) + '?' if near else ''}"


RUN_COLUMNS = ("what", "run", "started", "scope", "state", "verdict", "tests", "wall", "trigger", "why", "evidence")

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
    "last": Question("ledger.answers:last", columns=RUN_COLUMNS),
    "last-full": Question("ledger.answers:last_full", columns=RUN_COLUMNS),
    "last-scoped": Question("ledger.answers:last_scoped", columns=RUN_COLUMNS),
    "run": Question("ledger.answers:run_by_id", 1, 1, ("what", "test", "message", "cause", "since")),
    "runs": Question("ledger.answers:runs", columns=RUN_COLUMNS),
    "report": Question("app.pages:summary", columns=(*RUN_COLUMNS, "authoritative")),
    "slowest": Question("ledger.answers:slowest", 0, 1, TEST_COLUMNS),
    "fixtures": Question("ledger.answers:fixtures", 0, 1, ("fixture", "base", "scope", "count", "total", "longest")),
    "compare": Question("ledger.answers:compare", 2, 2),
    "slower": Question("ledger.questions:slower", 0, 1, ("was", "now", "delta", "noise", "runs", "since", "test")),
    "failing-since": Question(
        "ledger.questions:failing_since", 0, 1, ("since", "run", "commit", "failures", "passedLast", "test")
    ),
    "skipped": Question("ledger.questions:skipped", 0, 1, ("what", "occurrence", "reason", "test")),
    "warnings": Question("ledger.questions:warnings", 0, 1, ("category", "at", "when", "message")),
    "what-covers": Question("affected.runtime:what_covers", 1, 1, ("test", "definitions", "how")),
    "history": Question("ledger.answers:history", 1, 1, ("started", "run", "scope", *TEST_COLUMNS[1:], "message")),
    "flaky": Question("ledger.answers:flaky", 0, 1, ("test", "word", "executions", "why", "run", "outcome", "attempt")),
    "explain": Question("ledger.answers:explain", 1, 2),
    "live": Question("ledger.live:live", 0, 1, LIVE_COLUMNS),
    "provenance": Question(
        "ingest.provenance:provenance",
        1,
        1,
        ("kind", "how", "rawPath", "artifact", "action", "sync", "run", "job", "unit", "event", "test", "source"),
    ),
    "banner": Question("app.banner:banner", project=False),
    "graph": Question("ledger.exports:graph_lines"),
    "rules": Question("ledger.exports:rules", 0, 0, ("word", "also", "needs", "means", "say", "why"), project=False),
    "jobs": Question("ledger.questions:all_jobs", 0, 0, JOB_COLUMNS, project=False),
    "job": Question("ledger.questions:job_by_id", 1, 1, UNIT_COLUMNS, project=False),
    "trace": Question("ledger.questions:trace", 1, 1, TRACE_COLUMNS, project=False),
}


# What other options of the command turn a question into.
QUESTIONS["ctrf"] = Question("ledger.exports:ctrf_report", 0, 1)
QUESTIONS["page"] = Question("app.pages:render_ledger")
QUESTIONS["prolog"] = Question("ledger.exports:prolog", project=False)
PUBLIC_QUESTIONS = tuple(name for name in QUESTIONS if name not in ("ctrf", "prolog", "page"))


LIMITED = ("runs", "slowest", "fixtures", "compare", "history")  # the best are asked for, or the newest


def not_obeyed(name: str, *, follow: bool) -> list[str]:
    """When options of ledger-query are not obeyed, and which: those that the question has no use for."""
    found = [f"of `{name}`{' --follow' if follow else ''}"]
    found += [] if name in LIMITED else ["limit"]
    found += [] if name == "trace" else ["event", "unit", "level"]
    found += [] if QUESTIONS[name].project else ["project"]
    found += [] if name == "rules" else ["prolog"]
    found += [] if name == "live" else ["follow"]
    return found + (["format", "html"] if follow else ["redis"])


def variant(name: str, form: str | None, html: bool, prolog: bool) -> str:
    """What the other options turn a question into. Raises CannotRun for one that it has not."""
    if html and name != "report":
        raise CannotRun("--html is of `report`", hint="ledger-query report --html FILE")
    if form == "ctrf" and name not in ("run", "last"):
        raise CannotRun("--format ctrf is of `run` and `last`", hint="ledger-query run RUN --format ctrf")
    return "ctrf" if form == "ctrf" else "prolog" if prolog else "page" if html else name


def query_of(world: World, name: str, subject: Sequence[str], projects: Sequence[str], **more: object) -> LedgerQuery:
    """The question as it is asked. Raises CannotRun for a wrong number of subjects or an unresolvable project."""
    question = QUESTIONS[name]
    if not question.least <= len(subject) <= question.most:
        need = str(question.most) if question.least == question.most else f"{question.least} to {question.most}"
        text = f"{name} takes {need} subject{'' if need == '1' else 's'}, not {len(subject)}"
        raise CannotRun(text, hint="see ledger-query --help")
    named: tuple[str, ...] = tuple(projects)
    if question.project and not named:
        named = (resolve(world),)
    return LedgerQuery(tuple(subject), named, commit=lambda name: _commit(world, name), **more)  # type: ignore[arg-type]


def _commit(world: World, name: str) -> tuple[str, str] | None:
    """The id and the tree of a revision; None where git knows none, or there is no repository."""
    try:
        git = world.git
        commit, tree = git.resolve(name), git.resolve(name, "tree")
    except KtxError:
        return None
    return (commit, tree) if commit and tree else None


def ask(
    world: World, name: str, subject: Sequence[str], projects: Sequence[str], **more: object
) -> LedgerAnswer | bytes:
    """The answer; bytes where the question is an export. Raises CannotRun as `asked` does."""
    module, _, function = QUESTIONS[name].answer.partition(":")
    answering = getattr(importlib.import_module(f"ktxkit.{module}"), function)
    found: LedgerAnswer | bytes = answering(world, query_of(world, name, subject, projects, **more))
    return found
