"""Running a test suite with its scope recorded: its id is ours, its end is seen, its record is closed with both."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit import __version__
from ktxkit.base import files, identity, owners, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.ledger import OFF, ON, VARIABLE, asking, chain, ledger
from ktxkit.ledger.asking import ensure, new_run_id
from ktxkit.ledger.event_log import EventWriter
from ktxkit.ledger.rules.payload import clean, head
from ktxkit.ledger.rules.scope import after_pytest
from ktxkit.store import config as settings
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.affected.runtime import RecordedTrace
    from ktxkit.base.documents import LedgerLine, RunnerSelection


TELLING = {"-h", "--help", "-V", "--version", "--markers", "--cache-show"}  # pytest tells something and runs nothing
FAILED = 1  # pytest's status where tests failed
PRECONDITION_LIMIT = 60.0  # seconds
PROBE_LIMIT = 30.0  # seconds for an interpreter to say what it has
PROFILES = "ledger/profiles"
WHOLE = (("full",), ("affected",))  # scopes that are no paths


class RunArguments(NamedTuple):
    """What a selection gives pytest.

    `paths`: empty where all of it is meant; `nothing`: no test is. `facts`: for the run's record.
    """

    paths: tuple[str, ...] = ()
    nothing: bool = False
    facts: RunnerSelection | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class RunRequest:
    """What is to be run. `scope` is `full`, `affected`, or paths; of `affected`, `paths` are what is meant.

    `script`: the environment's own `pytest`, where that was named: it does not find modules in the working directory.
    """

    pytest: tuple[str, ...]
    scope: tuple[str, ...] = ()
    cprofile: bool = False
    trace: bool = False
    profile: str = ""
    trigger: str = ""
    python: str = ""
    script: str = ""
    project: str = ""
    paths: tuple[str, ...] = ()
    affected: RunnerSelection | None = None
    child_status: bool = False


@dataclass(frozen=True)
class RunResult:
    """How it ended: the child's status as a shell has it, and the closing line where the run was recorded.

    The status is 1 where the child's is 0 and the record says that a test failed. `lacks`: why nothing was recorded.
    """

    run: str
    status: int
    line: LedgerLine | None
    preconditions: tuple[Document, ...]
    kept: RecordedTrace | None = None
    lacks: tuple[str, ...] = ()
    is_off: bool = False  # KTX_LEDGER says that nothing is recorded


def run(world: World, wish: RunRequest, *, stdout: int | None = None) -> RunResult:
    """Verify the preconditions, run pytest in our place, close the run with what is known of its end.

    Where KTX_LEDGER is off, pytest is run and nothing is recorded; where it names a directory, that is the store.
    `stdout`: a descriptor for what pytest prints there, instead of ours. Raises CannotRun.
    """
    place = world.env.get(VARIABLE, "")
    if place.lower() in OFF:
        return _unrecorded(world, wish, stdout)
    named = place and place.lower() not in ON
    return _recorded(World(world.cwd, world.env, ktx_dir=str(world.cwd / place)) if named else world, wish, stdout)


def remind(world: World) -> None:
    """Say what may be said of a run. Raises CannotRun outside of a repository, where its store is to record the run."""
    from ktxkit.ledger import answers

    place = world.env.get(VARIABLE, "").lower()
    if not place or place in ON:
        _ = world.repository
    sys.stderr.write("\n".join(["test-run: what may be said of this run", *answers.reminder(), ""]))


def _recorded(world: World, wish: RunRequest, stdout: int | None) -> RunResult:
    _ = world.writable_store
    run_id = new_run_id(world.clock.now())
    config = settings.ledger(world)
    preconditions = tuple(verify(world, one) for one in config.get("preconditions", ()))
    runner: Document = {
        "run": run_id,
        "project": wish.project or asking.resolve(world),
        "trigger": wish.trigger or trigger(world.env),
        "preconditions": list(preconditions),
        "variables": config.get("environment", []),
        "runner": {"name": "test-run", "version": __version__, "cprofile": wish.cprofile}
        | {"owner": owners.hold(world.writable_store.root).document()},
    }
    if wish.scope:
        runner["declared"] = wish.scope[0] if wish.scope in WHOLE else "paths"
    if wish.affected is not None:
        runner["runner"]["affected"] = wish.affected
    env = {**world.env, "KTX_RUNNER": json.dumps(runner), VARIABLE: str(world.store.root)}
    if wish.profile:
        env["KTX_ENV_PROFILE"] = wish.profile
    if wish.trace:
        from ktxkit.affected import runtime

        env |= runtime.environment(world, run_id)
    began = world.clock.monotonic()
    status = process.attached(argv(world, wish, run_id), cwd=world.cwd, env=env, stdout=stdout)
    line = _close(world, run_id, status, world.clock.monotonic() - began)
    kept = runtime.keep(world, run_id, line) if wish.trace else None
    ended = FAILED if status == 0 and not wish.child_status and _did_not_pass(line, wish.pytest) else status
    lacks = _lacks(world, wish.python or python_of(world)) if line is None and ended else ()
    return RunResult(run_id, 128 - ended if ended < 0 else ended, line, preconditions, kept, lacks)


def _lacks(world: World, python: str) -> tuple[str, ...]:
    """What an interpreter lacks for a run that is recorded, each with the next step."""
    code = "import importlib.util as u; print(*(n for n in ('pytest', 'ktxkit') if u.find_spec(n) is None))"
    try:
        missing = process.run(process.Command([python, "-c", code], world.cwd, world.env, PROBE_LIMIT)).out.split()
    except CannotRun:
        return ()  # pytest's own start has said so
    name = shlex.quote(python)
    found = []
    if b"pytest" in missing:
        found.append(f"{name} has no pytest: activate the project's environment, or name it: --python EXE")
    if b"ktxkit" in missing:
        found.append(
            f"{name} has no ktxkit, whose plugin records: {name} -m pip install {shlex.quote(identity.requirement())}"
        )
    return tuple(found)


def _unrecorded(world: World, wish: RunRequest, stdout: int | None) -> RunResult:
    """Run pytest alone. Raises CannotRun where what is asked for is kept in the ledger's store."""
    if wish.trace or wish.cprofile:
        what = "--trace" if wish.trace else "--cprofile"
        raise CannotRun(f"{VARIABLE} is off: {what} would have nowhere to keep what it sees", hint=f"unset {VARIABLE}")
    status = process.attached(argv(world, wish, ""), cwd=world.cwd, env=world.env, stdout=stdout)
    return RunResult("", 128 - status if status < 0 else status, None, (), is_off=True)


def _did_not_pass(line: LedgerLine | None, words: Sequence[str]) -> bool:
    """Whether what ran says that the suite did not pass, whatever became of pytest's own status.

    A plan runs nothing; neither does what only tells something. Else no record is no pass.
    """
    if line is None:
        return not TELLING & set(words)
    record = line["record"]
    return record.get("mode", "run") == "run" and record["verdict"] in ("failed", "incomplete")


def argv(world: World, wish: RunRequest, run_id: str) -> list[str]:
    """pytest with our plugin asked for by name: it loads even where plugins are not loaded by themselves."""
    python = wish.python or python_of(world)
    profiled: list[str] = []
    if wish.cprofile:
        place = world.store.path(f"{PROFILES}/{run_id}.prof")
        files.make_dirs(place.parent)
        profiled = ["-m", "cProfile", "-o", str(place)]
    paths = wish.paths if wish.scope in WHOLE else wish.scope
    started = [wish.script] if wish.script else ["-m", "pytest"]
    return [python, *profiled, *started, "-p", "ktxkit", *wish.pytest, *paths]


def script_of(world: World, python: str) -> str:
    """The `pytest` beside an interpreter, where it is a script for Python; empty where there is none."""
    place = os.path.join(os.path.dirname(python), "pytest")  # noqa: PTH118,PTH120
    try:
        with (world.cwd / place).open("rb") as stream:
            first = stream.readline(1000)
    except OSError:
        return ""
    is_python = first.startswith(b"#!") and (b"python" in first or b"pypy" in first or first.startswith(b"#!/bin/sh"))
    return place if is_python else ""


def plain(world: World, words: Sequence[str], python: str = "") -> tuple[str, str, tuple[str, ...]]:
    """Of a command line: the interpreter that it names, or whose pytest, by path; the script, where `pytest` itself is
    named and not `python -m pytest`; and pytest's arguments. A file or directory called pytest is what is to be run.

    `python`: an interpreter that is named elsewhere, and is used instead.
    """
    count = after_pytest(words)
    if count == 1 and "/" not in words[0] and (world.cwd / words[0]).exists():
        count = 0
    if not python and count == 3 and "/" in words[0]:
        python = words[0]
    if (
        not python and count == 1 and "/" in words[0]
    ):  # a pytest of that environment, whether it is the active one or not
        beside = os.path.join(os.path.dirname(words[0]), "python")  # noqa: PTH118,PTH120
        python = beside if (world.cwd / beside).exists() else ""
    script = script_of(world, python or python_of(world)) if count == 1 else ""
    return python, script, tuple(words[count:])


def python_of(world: World) -> str:
    """The interpreter of the active virtual environment, else our own."""
    active = world.env.get("VIRTUAL_ENV")
    found = Path(active) / "bin" / "python" if active else None
    return str(found) if found is not None and found.exists() else sys.executable


def trigger(env: Mapping[str, str]) -> str:
    """Who asked: KTX_TRIGGER, else CI, else whether a terminal is there."""
    if env.get("KTX_TRIGGER"):
        return env["KTX_TRIGGER"][:200]
    if env.get("CI"):
        return "ci"
    return "interactive" if sys.stdin is not None and sys.stdin.isatty() else "unattended"


def verify(world: World, precondition: Mapping[str, Any]) -> Document:
    """Run one declared precondition; it holds where its command ends with 0 in time."""
    command = precondition["run"]
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    cwd = world.repository.top or world.cwd
    limit = float(precondition.get("timeLimit", PRECONDITION_LIMIT))
    made: Document = {"name": precondition["name"]}
    try:
        done = process.run(process.Command(words, cwd, world.env, limit))
    except CannotRun as error:
        return made | {"verified": False, "said": error.message[:500]}
    said = printable((done.err or done.out).strip()[:500]) or (f"no answer in {limit:g} s" if done.timed_out else "")
    made |= {"verified": done.status == 0 and not done.timed_out, "status": max(-255, done.status)}
    return made | ({"said": said[:1000]} if said and not made["verified"] else {})


def _close(world: World, run_id: str, status: int, seconds: float) -> LedgerLine | None:
    """Say in the run's own events how its process ended, and close it. None where nothing was recorded."""
    path = ledger.events_path(world, run_id)
    if not path.exists():
        return None
    event: dict[str, Any] = {"event": "runner_ended", "t": round(seconds, 6), "at": timestamp(world.clock.now())}
    if status < 0:
        event["signal"] = process.signal_name(-status)
    else:
        event["exitStatus"] = status
    event["peakRssBytes"] = process.peak_rss_of_children()
    writer = EventWriter(path, join=True)
    chain.put_sealed(world, writer, event)
    writer.close()
    line = ledger.settle(world, run_id)
    ensure(world)
    return line


def notes(ran: RunResult) -> list[str]:
    """What is to be said of it on stderr."""
    from ktxkit.ledger.rules.rows import tally
    from ktxkit.ledger.rules.scope import CHANGED, HOLD_STILL

    if ran.is_off:
        return [f"test-run: {VARIABLE} is off: this run is NOT recorded, and nothing can be said of it"]
    broken = [f"test-run: precondition {one['name']} does not hold" for one in ran.preconditions if not one["verified"]]
    if ran.line is None and ran.status == 0:
        return [*broken, "test-run: no test was run, and nothing is recorded"]
    if ran.line is None:
        said = f"test-run: run {ran.run} is NOT recorded: the plugin never started; nothing is known of it"
        return [*broken, said, *(f"test-run: {why}" for why in ran.lacks)]
    record = ran.line["record"]
    scope = " ".join([record["scope"]["kind"], *record["scope"].get("why", [])])
    against = [why for why in record.get("against", ()) if not why.startswith("its scope is")]
    reasons = f": {'; '.join(against)}" if against else ""
    word = "authoritative" if record["authoritative"] else f"not authoritative{reasons}"
    told = [f"test-run: {ran.run} {record['state']}, {tally(record['counts'])}; scope {scope}; {word}"]
    told += [f"test-run: {HOLD_STILL}"] if any(why.startswith(CHANGED) for why in against) else []
    if ran.kept is not None and ran.kept.path is None:
        told.append(f"test-run: no trace is kept: {ran.kept.why}")
    elif ran.kept is not None:
        why = f": {printable(ran.kept.why)}" if ran.kept.why else ""
        told.append(
            f"test-run: traced {plural(ran.kept.tests, 'test')}, {ran.kept.incomplete} of them not completely{why}"
        )
    return [*broken, *told]


def guard(data: bytes) -> str:
    """What is to be said to someone about to run a bare pytest (a PreToolUse document), or nothing."""
    from ktxkit.ledger.rules.scope import bare

    try:
        document = json.loads(data)
        command = document["tool_input"]["command"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""  # not a document about a shell command: nothing of ours
    found = bare(command) if isinstance(command, str) else ""
    if not found:
        return ""
    text = head(clean(found)[0], 200)
    return f"tests are run by test-run here, so that the run is recorded: not `{text}` but `test-run -- ...`"
