"""The newest runtime map of a project, read under its contract.

A traced run: what its processes are told, and how what they wrote becomes the runtime map.

The map names the tree and the git id of each file that it was made from. A run whose tree changed while it ran leaves
no map: which content its observations belong to is not known.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.affected.rules.runtime_trace import Trace, TraceFold
from ktxkit.affected.traced import begin, tracer
from ktxkit.base import contracts, files, kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.text import nearest
from ktxkit.ledger import ledger
from ktxkit.ledger.rules.rows import Verdict, answer
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import AffectedTrace, AffectedTraceEnd, AffectedTraceHeader, LedgerAnswer, LedgerLine
    from ktxkit.ledger.asking import LedgerQuery


CONTRACT = "affected-trace"
HINT = "make it anew: test-run --trace --scope full"


def latest(world: World, project: str | None = None) -> Trace | None:
    """The newest map, of the project where one is named; None where there is none. Raises BrokenContract."""
    for name in reversed(world.store.children(names.AFFECTED_TRACES)):
        found = load(world.store.path(f"{names.AFFECTED_TRACES}/{name}"))
        if project in (None, found.header["project"]):
            return found
    return None


def load(path: Path) -> Trace:
    """A map whole; its records are judged when they are looked at. Raises BrokenContract where it is torn."""
    lines = files.read(path, limit=1 << 40).split(b"\n")
    lines.pop()
    end = contracts.loads(kinds.AFFECTED_TRACE, lines[-1], str(path)) if lines else None
    if end is None or end["record"] != "end" or end["records"] != len(lines) - 1:
        raise BrokenContract("the runtime map is not whole", location=str(path), hint=HINT)
    return Trace(lines, lambda line: _parse(line, path))


def _parse(line: bytes, path: Path) -> AffectedTrace:
    return contracts.loads(kinds.AFFECTED_TRACE, line, str(path))


def what_covers(world: World, ask: LedgerQuery) -> LedgerAnswer:
    """The tests that ran a definition of a file, or opened it, by the newest runtime map. Never that none does."""
    path = ask.subject[0].removeprefix("./").rstrip("/")
    found = next((one for project in ask.projects for one in [latest(world, project)] if one is not None), None)
    if found is None:
        reason = _no_such_file(world, path) or "there is no runtime map: test-run --trace --scope full makes one"
        return answer("what-covers", [], subject=[path], project=ask.project, verdict="unknown", reason=reason)
    ran: dict[str, set[str]] = {}
    for name, contexts in found.definitions(path).items():
        for test in found.tests(contexts):
            ran.setdefault(test, set()).add(name)
    opened = found.tests_opening(path)
    rows = [
        {"test": test, "definitions": sorted(ran.get(test, ())) or None}
        | {"how": " and ".join(how for how, some in (("ran", ran), ("opened", opened)) if test in some)}
        | {"source": names.affected_trace(found.header["run"])}
        for test in sorted({*ran, *opened})
    ]
    facts = {"run": found.header["run"], "tests": len(rows), "incomplete": len(found.incomplete) or None}
    now = _blobs(world, [path]).get(path) if world.repository.top is not None else None
    facts["changedSince"] = found.blob(path) != now if now is not None and found.blob(path) is not None else None
    nothing = "the map has no test that ran or opened it; what was not observed is not known"
    reason = "" if rows else _no_such_file(world, path) or nothing
    shown = rows[: ask.limit or len(rows)]
    verdict: Verdict = "true" if rows else "unknown"
    return answer(
        "what-covers", shown, subject=[path], project=ask.project, verdict=verdict, reason=reason, facts=facts
    )


def _no_such_file(world: World, path: str) -> str:
    """That the checkout has no file of this name, and which it has of a like one; empty where it has it."""
    top = world.repository.top
    if top is None or os.path.lexists(top / path):
        return ""
    near = nearest(path, (os.fsdecode(one) for one in world.git.at(top).run("ls-files", "-z").nul))
    return f"no file {path} is known{': did you mean ' + ' or '.join(near) + '?' if near else ''}"


KEPT = 3  # maps that stay
SITE = "site"


REASONS = 5  # that are told


@dataclass(frozen=True)
class RecordedTrace:
    """What became of a trace: its place, or why there is none; `why` tests were not seen completely, with counts."""

    path: Path | None
    tests: int = 0
    incomplete: int = 0
    why: str = ""


def environment(world: World, run: str) -> dict[str, str]:
    """What makes every Python of the run write what it runs. Raises CannotRun outside a checkout."""
    top = world.repository.top
    if top is None:
        raise CannotRun("there is no checkout to trace", hint="stand in one, or leave --trace out")
    raw = world.writable_store.path(names.affected_raw(run))
    for name in world.store.children(names.AFFECTED_RAW):
        if ledger.is_closed(world, name):  # its test-run was killed before it could fold
            _remove(world.store.path(names.affected_raw(name)))
    files.write_new(raw / SITE / "sitecustomize.py", begin.shim_text().encode())
    paths = [str(raw / SITE), *filter(None, [world.env.get("PYTHONPATH")])]
    told = {begin.DIRECTORY: str(raw), begin.TOP: os.path.realpath(top), tracer.CONTEXT: ""}
    return told | {"PYTHONPATH": os.pathsep.join(paths)}


def keep(world: World, run: str, line: LedgerLine | None) -> RecordedTrace:
    """Fold what the processes wrote, keep the map, and remove what they wrote."""
    raw = world.store.path(names.affected_raw(run))
    try:
        return _keep(world, run, raw, line)
    finally:
        _remove(raw)


def _keep(world: World, run: str, raw: Path, line: LedgerLine | None) -> RecordedTrace:
    record = line["record"] if line else None
    tree = record.get("tree", {}).get("tree") if record is not None else None
    if record is None or tree is None or tree != record.get("treeAfter", {}).get("tree"):
        return RecordedTrace(None, why="the tree that it ran on is not known, or changed while it ran")
    fold = TraceFold()
    for place in sorted(raw.glob("*.ndjson")):
        fold.feed(_lines(place))
    alive = {(pid, start) for pid, _, _, start, _ in fold.started if owners.start_time(pid) == start}
    fold.close(alive)
    tests = [one for one in fold.contexts.values() if one.kind == "test"]
    if not tests:
        return RecordedTrace(None, why="no test was seen: the plugin or the tracer did not start")
    header: AffectedTraceHeader = {
        "record": "header", "schemaVersion": 1, "kind": "affected-trace", "run": run,
        "at": timestamp(world.clock.now()), "tree": tree, "project": record["project"],
        "python": record.get("environment", {}).get("python", _python()),
        "contexts": len(fold.contexts), "tests": len({one.name for one in tests}), "definitions": len(fold.names),
        "edges": len(fold.edges), "faults": fold.faults,
    }  # fmt: skip
    place = world.store.path(names.affected_trace(run))
    with files.written_aside(place) as fd:
        _write(fd, place, header, fold.records(_blobs(world, fold.paths())))
    _prune(world)
    lacking = {one.name: one.why for one in tests if one.why}
    why = Counter(text for found in lacking.values() for text in set(found))
    reasons = "; ".join(f"{text} ({count})" for text, count in why.most_common(REASONS))
    return RecordedTrace(place, len({one.name for one in tests}), len(lacking), reasons)


def _write(fd: int, place: Path, first: AffectedTraceHeader, records: Iterator[AffectedTrace]) -> None:
    count, block = 0, []
    for record in (first, *records):
        count += 1
        block.append(contracts.line(kinds.AFFECTED_TRACE, record, f"{place}:{count}"))
        if len(block) >= 1000:
            files.write_all(fd, b"".join(block))
            block = []
    end: AffectedTraceEnd = {"record": "end", "records": count}
    block.append(contracts.line(kinds.AFFECTED_TRACE, end, str(place)))
    files.write_all(fd, b"".join(block))


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _lines(place: Path) -> Iterator[Any]:
    """What one process wrote; a torn line is given as None."""
    with files.reading(place) as stream:
        for line in stream:
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    yield None


def _blobs(world: World, paths: list[str]) -> dict[str, str]:
    """The git id of each regular file, as `git add` would make it."""
    top = world.repository.top
    assert top is not None
    there = [one for one in paths if "\n" not in one and (top / one).is_file() and not (top / one).is_symlink()]
    if not there:
        return {}
    answer = world.git.at(top).run("hash-object", "--stdin-paths", stdin="\n".join(there).encode() + b"\n")
    return dict(zip(there, answer.lines, strict=True))


def _prune(world: World) -> None:
    for name in world.store.children(names.AFFECTED_TRACES)[:-KEPT]:
        world.store.remove(f"{names.AFFECTED_TRACES}/{name}")


def _remove(raw: Path) -> None:
    """A process that outlives the run may still write: what it adds goes with the next clean."""
    for folder, _, found in os.walk(raw, topdown=False):
        for name in found:
            files.remove(Path(folder) / name)
        try:
            os.rmdir(folder)  # noqa: PTH106
        except OSError:
            return  # gate-ok: see above
