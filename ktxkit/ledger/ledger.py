"""The index brought up to the ledger: runs that died are closed, new lines go in, what does not fit is made again.

The ledger of test runs: one opening and one closing line for each, linked by digest, never rewritten.

A run is closed by its own plugin or by `test-run`; one that died, by whoever looks next. The closing line carries the
record that the pure fold makes of the run's events, and the digest of those events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import contracts, files, kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.base.lock import flocked
from ktxkit.base.owners import Standing
from ktxkit.base.rules.digests import checked, digest, link
from ktxkit.ledger import event_log
from ktxkit.ledger.event_log import Artifacts
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.rules import scan
from ktxkit.ledger.rules.evidence import key_of
from ktxkit.ledger.rules.fold import Fold, Life, TestAttempt
from ktxkit.ledger.rules.scope import against_authority, derive, less_than
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine, RunEvent, RunRecord, RunRecordScope


def close_ended(world: World, index: Index) -> None:
    """Write the closing line of each run that has ended without one."""
    for (run,) in index.db.execute("SELECT run FROM runs WHERE closed = 0 ORDER BY seq").fetchall():
        if events_path(world, run).exists():
            settle(world, run)


def update(world: World, index: Index) -> None:
    """Read the lines that are new. One process fills it, others wait."""
    path = world.store.path(names.LEDGER)
    place = index.unread(path)
    if place is not None and (not path.exists() or place[0] == whole_size(path)):
        return
    index.db.execute("BEGIN IMMEDIATE")
    try:
        place = index.unread(path)
        if place is None:
            index.clear()
            place = (0, None)
        if path.exists():
            index.fill()
            _fill(world, index, path, *place)
        index.db.execute("COMMIT")
    except BaseException:
        index.db.execute("ROLLBACK")
        raise


def _fill(world: World, index: Index, path: Path, start: int, previous: Mapping[str, Any] | None) -> None:
    for offset, raw, line in new_lines(path, start, previous):
        if line["kind"] == "run-opened":
            index.open_run(line)
        elif line["kind"] == "run-closed":
            _close(world, index, line)
        index.set_mark(path, offset, raw, line)


def new_lines(path: Path, start: int, previous: Mapping[str, Any] | None) -> Iterator[tuple[int, bytes, LedgerLine]]:
    """Each whole line from an offset on, with its own offset and bytes; contract and link are checked."""
    check = contracts.checker(CONTRACT)
    with open(path, "rb") as stream:
        stream.seek(start)
        offset = start
        for raw in stream:
            if not raw.endswith(b"\n"):
                return  # torn, or being written
            where = f"{path}: byte {offset}"
            try:
                line: LedgerLine = contracts.parse(raw, where)
                if not check(line):
                    contracts.validate(CONTRACT, line, where)
                list(checked([line], previous))
            except BrokenContract as error:
                hint = f"{error.hint}; {MEND}" if error.hint else MEND
                raise BrokenContract(error.message, where=error.where, hint=hint) from error
            except ValueError as error:
                raise BrokenContract(str(error), where=str(path), hint=MEND) from error
            yield offset, raw, line
            offset += len(raw)
            previous = line


def _close(world: World, index: Index, line: LedgerLine) -> None:
    fold, why = events_of(world, line)
    rid = index.close_run(line, key_of(line["record"]), fold is not None, why)
    if fold is not None:
        index.add_results(rid, line["project"], attempts(fold), fold.plain)
        index.add_fixtures(rid, fold.fixtures)


def events_of(world: World, line: LedgerLine) -> tuple[Fold | None, str]:
    """The fold of a closed run's events where they are what the ledger says they were; else None and why."""
    path = events_path(world, line["run"])
    said = line["events"]
    try:
        data = files.read(path, limit=1 << 40)[: said["bytes"]]
    except FileNotFoundError:
        return None, "its events are gone"
    if digest(data) != said["digest"]:
        return None, "its events were changed after it was closed"
    fold = fold_of(data, path, aside=True)
    fold.untangle()
    return fold, ""


def attempts(fold: Fold) -> Iterator[tuple[TestAttempt, str | None]]:
    """Each attempt, with the verdict beside the last one of a test."""
    for (test, occurrence, _), one in fold.attempts.items():
        last = fold.last[(test, occurrence)] is one
        verdict = fold.verdict(one) if last else None
        yield one, ("interrupted" if verdict == "running" else verdict)


CONTRACT = "ledger-line"
MEND = (
    "put the file back from a copy; without one move it aside, and a new ledger begins (its runs are not answered from)"
)
EVENT = "run-event"
FEW = 100  # records that are judged without importing an engine for it
NEWLINE = b"\n"


def journal(world: World) -> Journal[LedgerLine]:
    return Journal(world.store.path(names.LEDGER), kinds.LEDGER_LINE, world.clock)


def locked(world: World) -> AbstractContextManager[int]:
    """The lock under which lines are linked."""
    return flocked(world.store.path(names.LEDGER_LOCK), clock=world.clock)


def append(world: World, body: Mapping[str, Any]) -> LedgerLine:
    """Link a line to the last one and append it, durably. The caller holds the lock."""
    lines = journal(world)
    linked = link(lines.last(), {"schemaVersion": 1, **body, "at": timestamp(world.clock.now())})
    line = cast("LedgerLine", linked)  # `append` judges it
    lines.append([line], durable=True)
    return line


def opened(world: World, run: str, project: str, *, parent: str | None = None, **facts: Any) -> LedgerLine:
    """The opening line of a run that this process records."""
    owner = owners.hold(world.writable_store.root).document()
    body = {"kind": "run-opened", "run": run, "project": project, "owner": owner, **facts}
    with locked(world):
        return append(world, body | ({"parent": parent} if parent else {}))


def lines(world: World) -> Iterator[Document]:
    """Every line, its contract and its link checked. Raises BrokenContract."""
    path = world.store.path(names.LEDGER)
    try:
        yield from cast(Iterator[Document], checked(journal(world).records()))
    except ValueError as error:
        raise BrokenContract(str(error), where=str(path), hint=MEND) from error


def events_path(world: World, run: str) -> Path:
    return world.store.path(names.events_file(run))


def whole_size(path: Path) -> int:
    """Bytes up to and with the last newline: what a reader may take of a file that grows or was torn."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        while size:
            start = max(0, size - 65536)
            stream.seek(start)
            found = stream.read(size - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            size = start
    return 0


def fold_events(world: World, run: str, size: int) -> Fold:
    """The fold of the first `size` bytes of a run's events. Raises BrokenContract for an unknown record."""
    path = events_path(world, run)
    return fold_of(files.read(path, limit=1 << 40)[:size], path)


def fold_of(data: bytes, path: Path, *, aside: bool = False) -> Fold:
    """The fold of events as they were read from `path`; `aside` as `scan.feed` has it."""
    told = 0

    def other(line: bytes, place: int) -> RunEvent | None:
        nonlocal told
        told += 1
        record = event_log.record(line)
        if record is not None and (told < FEW or not contracts.checker(EVENT)(record)):
            try:
                contracts.validate(EVENT, record)
            except BrokenContract as error:
                where = f"{path}:{data.count(NEWLINE, 0, place) + 1}"
                raise BrokenContract(error.message, where=where, hint=error.hint) from error
        return record

    return scan.feed(Fold(), data, other, aside=aside)


def life_of(world: World, fold: Fold) -> Life:
    """Whether the process that records a run still lives; that of a run of another machine is not known."""
    owner = fold.start.get("owner")
    if owner is None:
        return "unknown"
    standing = owners.standing(owners.Owner.of(owner), world.store.root)
    return "dead" if standing is Standing.DEAD else "alive" if standing is Standing.ALIVE else "unknown"


def ids_of(world: World, fold: Fold) -> list[str] | None:
    """The ids that were selected, or None where they are not kept."""
    return kept_ids(world, fold.collected.get("ids"))


def kept_ids(world: World, name: str | None) -> list[str] | None:
    """A list of node ids by its digest, sorted; None where it is not kept."""
    if name is None:
        return None
    try:
        body = Artifacts(world.store.path(names.ARTIFACTS)).load(name)
    except BrokenContract:
        return None  # what never ran is then counted, not named
    return cast(list[str], contracts.parse(b"[" + body.strip().replace(b"\n", b",") + b"]", name))


def record_of(world: World, fold: Fold, life: Life) -> RunRecord:
    """The record: the fold's facts, with scope and authority derived."""
    record = fold.result(life, ids_of(world, fold))
    record["scope"] = _compared(world, record, derive(record))
    against = against_authority(record)
    record["authoritative"] = not against
    if against:
        record["against"] = against
    return record


def _compared(world: World, record: RunRecord, scope: RunRecordScope) -> RunRecordScope:
    """A run that lacks what the last full run on the very same tree had is not full."""
    if scope["kind"] != "full" or "ids" not in record:
        return scope
    before = _last_full(world, record.get("project", "unknown"), record.get("tree", {}).get("tree"))
    if before is None or "ids" not in before or before["ids"] == record["ids"]:
        return scope
    return less_than(scope, kept_ids(world, before["ids"]), kept_ids(world, record["ids"]))


def _last_full(world: World, project: str, tree: str | None) -> RunRecord | None:
    """The record of the last full run of a tree; the ledger is searched from its end for the tree's digest."""
    path = world.store.path(names.LEDGER)
    if tree is None or not path.exists():
        return None
    data = files.read(path, limit=1 << 40)
    end = len(data)
    while (at := data.rfind(tree.encode("ascii"), 0, end)) >= 0:
        end = data.rfind(NEWLINE, 0, at) + 1
        close = data.find(NEWLINE, at)
        if close < 0:
            continue  # torn: the next append sees to it
        try:
            line = contracts.loads(kinds.LEDGER_LINE, data[end:close], str(path))
        except BrokenContract:
            continue  # gate-ok: a damaged line is told of by whoever reads the ledger; this run is closed in spite
        found = line.get("record")
        if found is None or line["project"] != project or found.get("tree", {}).get("tree") != tree:
            continue
        if found["scope"]["kind"] == "full":
            return found
    return None


def settle(world: World, run: str, *, imported: bool = False) -> LedgerLine | None:
    """Close a run that has ended: its closing line, or None where it goes on or cannot be told (another machine).

    An imported run has ended, whatever its file says of it.
    """
    path = events_path(world, run)
    size = whole_size(path)
    data = files.read(path, limit=1 << 40)[:size]
    fold = fold_of(data, path, aside=True)
    if not fold.start and not imported:
        fold.start = _unstarted(world, run)  # it ended before its first event
    life: Life = "dead" if imported else life_of(world, fold)
    if not fold.end and life != "dead":
        return None
    if runner_lives(world, fold):
        return None
    if size < path.stat().st_size:
        fold.torn += 1
    record = record_of(world, fold, "dead" if life == "dead" else life)
    events = {"bytes": size, "digest": digest(data), "records": fold.events, "torn": fold.torn}
    body = {"kind": "run-closed", "run": run, "project": record.get("project", "unknown"), "events": events}
    with locked(world):
        if is_closed(world, run):
            return None
        return append(world, body | {"record": {"run": run, **record}})


OPENED = ("run", "project", "owner", "parent", "at")  # what an opening line says of its run


def _unstarted(world: World, run: str) -> Document:
    """What the opening line says of a run that has no event which does."""
    path = world.store.path(names.LEDGER)
    if path.exists():
        with open(path, "rb") as stream:
            for raw in stream:
                if line_head(raw) == ("run-opened", run):
                    line = contracts.loads(CONTRACT, raw, str(path))
                    known: Document = {key: line[key] for key in OPENED if key in line}
                    return known | {"event": "run_started", "mode": "run"}
    return {}


def runner_lives(world: World, fold: Fold) -> bool:
    """`test-run` closes its own runs, with what it knows of the end; unless it is dead itself."""
    runner = fold.start.get("runner", {}).get("owner")
    if runner is None or fold.runner:
        return False
    return owners.standing(owners.Owner.of(runner), world.store.root) is Standing.ALIVE


def is_closed(world: World, run: str) -> bool:
    """Whether the ledger has a closing line of the run."""
    head = f'"kind":"run-closed","run":"{run}"'.encode("ascii")
    path = world.store.path(names.LEDGER)
    if not path.exists():
        return False
    with open(path, "rb") as stream:
        return any(head in line[:256] for line in stream)


def open_runs(world: World) -> list[str]:
    """The runs that were opened and not closed, oldest first; read from the lines' heads alone."""
    path = world.store.path(names.LEDGER)
    found: dict[str, None] = {}
    if path.exists():
        with open(path, "rb") as stream:
            for line in stream:
                kind, run = line_head(line)
                if kind == "run-opened":
                    found[run] = None
                elif kind == "run-closed":
                    found.pop(run, None)
    return list(found)


def line_head(line: bytes) -> tuple[str, str]:
    """Kind and run of a ledger line, from its first bytes; empty where it is torn."""
    parts = line[:256].split(b'"', 12)
    if len(parts) < 12 or parts[3] != b"kind":
        return "", ""
    return parts[5].decode("ascii", "replace"), parts[9].decode("ascii", "replace")


def settle_all(world: World) -> list[LedgerLine]:
    """Close every run that has ended without being closed. A run whose events are gone stays open: nothing is known."""
    closed = []
    for run in open_runs(world):
        if events_path(world, run).exists():
            line = settle(world, run)
            if line is not None:
                closed.append(line)
    return closed


def writable(world: World) -> bool:
    """Whether lines can be added to the ledger."""
    place = world.store.path(names.LEDGER)
    return os.access(place if place.exists() else world.store.root, os.W_OK)
