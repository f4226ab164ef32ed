"""The index brought up to the ledger: runs that died are closed, new lines go in, what does not fit is made again.

The ledger of test runs: one opening and one closing line for each, linked by digest, never rewritten.

A run is closed by its own plugin or by `test-run`; one that died, by whoever looks next. The closing line carries the
record that the pure fold makes of the run's events, and the digest of those events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import contracts, files, kinds, owners
from ktxkit.base.errors import BrokenContract
from ktxkit.base.owners import OwnerState
from ktxkit.base.rules.digests import digest, link, own_hash
from ktxkit.ledger import chain, event_log
from ktxkit.ledger.event_log import Artifacts
from ktxkit.ledger.index_file import GONE, Index
from ktxkit.ledger.rules.evidence import key_of
from ktxkit.ledger.rules.fold import IMPORTED, Fold, Life, TestAttempt
from ktxkit.ledger.rules.scope import against_authority, derive, less_than
from ktxkit.store.rules import names
from ktxkit.store.tracing import RECORD_LIMIT
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine, RunEvent, RunRecord, RunRecordScope


def close_ended(world: World, index: Index) -> None:
    """Write the closing line of each run that has ended without one."""
    for (run,) in index.db.execute("SELECT run FROM runs WHERE closed = 0 ORDER BY seq").fetchall():
        settle(world, run)


def update(world: World, index: Index) -> None:
    """Read the lines that are new. One process fills it, others wait. Raises BrokenContract where lines are damaged,
    or missing at the end."""
    known = chain.ends(world)
    _read(world, index, anchored=bool(known))
    chain.check_end(world, known, index.last())


def _read(world: World, index: Index, *, anchored: bool) -> None:
    """Read on. Where nothing else says where the ledger ends, what the index has read of it does."""
    path = world.store.path(names.LEDGER)
    chain.require_file(path)
    place = index.unread(path)
    if place is not None and (not path.exists() or place[0] == whole_size(path)):
        return
    index.db.execute("BEGIN IMMEDIATE")
    try:
        place = index.unread(path)
        before = 0
        if place is None:
            before = 0 if anchored else (index.last() or {"seq": 0})["seq"]
            index.clear()
            place = (0, None)
        if path.exists():
            index.fill()
            _fill(world, index, path, *place)
        if (there := (index.last() or {"seq": 0})["seq"]) < before:
            raise BrokenContract(chain.CUT.format(there, before), location=str(path), hint=chain.MEND)
        index.db.execute("COMMIT")
    except BaseException:
        index.db.execute("ROLLBACK")
        raise


def _fill(world: World, index: Index, path: Path, start: int, previous: Mapping[str, Any] | None) -> None:
    for offset, raw, line in chain.new_lines(path, start, previous):
        if line["kind"] == "run-opened":
            index.open_run(line)
        elif line["kind"] == "run-closed":
            _close(world, index, line)
        index.set_mark(path, offset, raw, line)


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
        data = files.read(path, limit=SIZE_LIMIT)[: said["bytes"]]
    except FileNotFoundError:
        return None, GONE if said["bytes"] else line["record"].get("lost", {}).get("fault", GONE)
    except (BrokenContract, OSError) as error:
        return None, f"its events cannot be read: {error}"
    if digest(data) != said["digest"]:
        return None, "its events were changed after it was closed"
    fold = fold_of(data, aside=True)
    fold.untangle()
    return fold, ""


def intact(world: World, line: LedgerLine) -> bool:
    """Whether a run's events are what its closing line says of them: there, and unchanged."""
    path = events_path(world, line["run"])
    if line["kind"] != "run-closed":
        return True
    if not os.path.lexists(path):
        return not line["events"]["bytes"]  # there never were any
    try:
        return digest(files.read(path, SIZE_LIMIT)[: line["events"]["bytes"]]) == line["events"]["digest"]
    except (BrokenContract, OSError):
        return False


def missing_artifacts(world: World, line: LedgerLine) -> list[str]:
    """The artifacts that a run's record and events name and that are gone, or not what their names say."""
    record = line.get("record", {})
    if line["kind"] != "run-closed" or record.get("trigger") == IMPORTED or record.get("lost", {}).get("unkept"):
        return []
    kept = Artifacts(world.store.path(names.ARTIFACTS))
    there = line["events"]["bytes"] and intact(world, line)
    data = files.read(events_path(world, line["run"]), SIZE_LIMIT) if there else b""
    named = {name.decode("ascii") for name in NAMED.findall(data)} | {record.get("ids", "")} - {""}
    return [name for name in named if not kept.has(name)]


def attempts(fold: Fold) -> Iterator[tuple[TestAttempt, str | None]]:
    """Each attempt, with the verdict beside the last one of a test."""
    for (test, occurrence, _), one in fold.attempts.items():
        last = fold.last[(test, occurrence)] is one
        verdict = fold.verdict(one) if last else None
        yield one, ("interrupted" if verdict == "running" else verdict)


Facts = Mapping[str, Any]
EVENT = "run-event"
NAMED = re.compile(rb'"(?:ids|ref|manifest)":\s?"(b3:[0-9a-f]{64})"')  # of what is kept by its content
SIZE_LIMIT = 1 << 40  # bytes of an event file
AFTER_SEAL = ("phase", "warning", "worker", "fixtures", "runner_ended")  # said by hooks that run later than ours
SEAL_LOOK = 20  # records at the end of a run among which its seal is looked for
LISTS = ("inFlight", "notRun", "failures", "collectErrors", "duplicates")
KEPT = (
    "run",
    "project",
    "parent",
    "trigger",
    "managed",
    "mode",
    "startedAt",
    "finishedAt",
    "state",
    "verdict",
    "counts",
)
EPOCH = "1970-01-01T00:00:00.000Z"
FEW = 100  # records that are judged without importing an engine for it
NEWLINE = b"\n"


def opened(world: World, run: str, project: str, *, parent: str | None = None, **facts: Any) -> LedgerLine:
    """The opening line of a run that this process records."""
    owner = owners.hold(world.writable_store.root).document()
    body = {"kind": "run-opened", "run": run, "project": project, "owner": owner, **facts}
    with chain.locked(world):
        return chain.append(world, body | ({"parent": parent} if parent else {}))


def events_path(world: World, run: str) -> Path:
    return world.store.path(names.events_file(run))


def whole_size(path: Path) -> int:
    """Bytes up to and with the last newline: what a reader may take of a file that grows or was torn.

    Raises BrokenContract for what is no regular file, which could be waited for without end.
    """
    chain.require_file(path)
    size = path.stat().st_size
    with files.reading(path) as stream:
        while size:
            start = max(0, size - 65536)
            stream.seek(start)
            found = stream.read(size - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            size = start
    return 0


def fold_events(world: World, run: str, size: int) -> Fold:
    """The fold of the first `size` bytes of a run's events."""
    return fold_of(files.read(events_path(world, run), limit=SIZE_LIMIT)[:size])


def fold_of(data: bytes, *, aside: bool = False) -> Fold:
    """The fold of events; `aside` as in `event_log.feed`. What is no event is passed over: the fold is damaged."""
    told = 0
    fold = Fold()

    def other(line: bytes, place: int) -> RunEvent | None:
        nonlocal told
        told += 1
        record = event_log.record(line)
        if record is not None and (told < FEW or not contracts.checker(EVENT)(record)):
            try:
                contracts.validate(EVENT, record)
            except BrokenContract as error:
                fold.spoil(f"line {data.count(NEWLINE, 0, place) + 1}: {error.message}")
                return None
        return record

    return event_log.feed(fold, data, other, aside=aside)


def life_of(world: World, fold: Fold) -> Life:
    """Whether the process that records a run still lives; that of a run of another machine is not known."""
    owner = fold.start.get("owner")
    if owner is None:
        return "unknown"
    standing = owners.state_of(owners.Owner.of(owner), world.store.root)
    return "dead" if standing is OwnerState.DEAD else "alive" if standing is OwnerState.ALIVE else "unknown"


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
    data = files.read(path, limit=SIZE_LIMIT)
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
        if (
            line["hash"] != own_hash(line)
            or found is None
            or line["project"] != project
            or found.get("tree", {}).get("tree") != tree
        ):
            continue
        if found["scope"]["kind"] == "full":
            return found
    return None


def settle(world: World, run: str) -> LedgerLine | None:
    """Close a run that has ended: its closing line, or None where it goes on or cannot be told (another machine).

    Events that are damaged or gone end the run as damaged. A run that nobody here opened has ended, and is an imported
    one unless its seal proves that a recorder of this store wrote it.
    """
    opening = _opening(world, run)
    found = _events(world, run, opening)
    if found is None:
        return None
    fold, events = found
    life: Life = life_of(world, fold) if "owner" in opening else "dead"
    if (life != "dead" and not fold.end) or ("owner" in opening and runner_lives(world, fold)):
        return None
    record = record_of(world, fold, life)
    project = record.get("project", "unknown")
    body = _writable({"kind": "run-closed", "run": run, "project": project, "events": events}, {"run": run, **record})
    with chain.locked(world):
        if is_closed(world, run):
            return None
        return chain.append(world, body)


def _events(world: World, run: str, opening: Facts) -> tuple[Fold, Facts] | None:
    """The fold of a run's events with what the closing line says of them; None where they cannot be read now."""
    gone = ""
    try:
        data = files.read(events_path(world, run), limit=SIZE_LIMIT)
    except FileNotFoundError:
        data, gone = b"", GONE
    except BrokenContract as error:
        data, gone = b"", f"its events: {error.message}"
    except OSError:
        return None  # nothing is known of it, as of a run on another machine
    whole = data[: data.rfind(NEWLINE) + 1]
    fold = fold_of(whole, aside=True)
    if gone:
        fold.spoil(gone)
    fold.torn += len(whole) < len(data)
    if fold.start and fold.start["run"] != run:
        fold.spoil(f"it is the record of run {fold.start['run']}")
        fold.start = {}
    differs = [key for key in SAME if key in opening and key in fold.start and fold.start[key] != opening[key]]
    if differs and "owner" in opening:
        fold.spoil(f"its {differs[0]} is not the one that the ledger has")
        fold.start |= {key: opening[key] for key in differs}
    if not fold.start:
        fold.start = {**opening, "event": "run_started", "mode": "run"}  # it ended before its first event
    _judge_origin(world, fold, whole, opening)
    events = {"bytes": len(whole), "digest": digest(whole), "records": fold.events, "torn": fold.torn}
    return fold, events


def _judge_origin(world: World, fold: Fold, data: bytes, opening: Facts) -> None:
    """Whose events these are: recorded here, or imported; and whether they are still those that were recorded."""
    if "owner" not in opening:
        if not sealed(world, data, proven=True):
            fold.start |= {"trigger": IMPORTED, "managed": False}
    elif not fold.damage and not sealed(world, data):
        fold.spoil("its events are not those that were recorded: they were changed, or lines of them are missing")


def sealed(world: World, data: bytes, *, proven: bool = False) -> bool:
    """Whether events are what their seal says. Without a seal, or a key to look at it: only where nothing is `proven`.

    To prove, the seal must be on the last record; else what follows it must not be of tests.
    """
    secret = chain.key(world)
    for begin, end in _last_lines(data):
        record = event_log.record(data[begin:end])
        mac = None if record is None else record.get("mac")
        if mac is not None:
            return not proven if secret is None else mac == chain.seal(secret, data[:begin])
        if proven:
            return False
        if record is None or record.get("event") not in AFTER_SEAL:
            return not _has_seal(data)
    return not proven


def _has_seal(data: bytes) -> bool:
    """Whether a seal stands in some record, behind which others were put."""
    return b'"mac":"hmac:' in data


def _last_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of the last lines that are not blank, the last one first."""
    end, count = len(data), 0
    while end > 0 and count < SEAL_LOOK:
        begin = data.rfind(NEWLINE, 0, end - 1) + 1
        if data[begin:end].strip():
            count += 1
            yield begin, end
        end = begin


def _writable(body: Facts, record: Facts) -> Facts:
    """A closing line that the ledger can have: of a record that it cannot, what matters most is kept.

    Else one run that nobody foresaw would never be closed, and end all answers.
    """
    why = ["its record was too long for the ledger, or not one that it can have"]
    scope = {"kind": "partial", "why": why}
    not_whole: Facts = {"lost": {"fault": why[0]}, "authoritative": False, "against": why, "scope": scope}
    short = {key: found for key, found in record.items() if key not in LISTS}
    least = {key: found for key, found in record.items() if key in KEPT}
    for made in (record, {**short, **not_whole}, {**least, **not_whole}):
        trial = link(None, {"schemaVersion": 1, **body, "record": made, "at": EPOCH})
        if contracts.checker(chain.CONTRACT)(trial) and len(contracts.compact(trial)) < RECORD_LIMIT // 2:
            return {**body, "record": made}
    verdict = "failed" if record["verdict"] == "failed" else "incomplete"
    bare = {"run": body["run"], "state": "damaged", "verdict": verdict, "counts": {}}
    return {**body, "project": "unknown", "record": {**bare, **not_whole}}


SAME = ("project", "owner", "parent")
OPENED = ("run", "project", "owner", "parent", "at")  # what an opening line says of its run


def _opening(world: World, run: str) -> Facts:
    """What the ledger's opening line says of a run; empty where there is none."""
    path = world.store.path(names.LEDGER)
    if path.exists():
        with files.reading(path) as stream:
            for raw in stream:
                if line_head(raw) == ("run-opened", run):
                    line = contracts.loads(chain.CONTRACT, raw, str(path))
                    return {key: line[key] for key in OPENED if key in line}
    return {}


def runner_lives(world: World, fold: Fold) -> bool:
    """`test-run` closes its own runs, with what it knows of the end; unless it is dead itself."""
    runner = fold.start.get("runner", {}).get("owner")
    if runner is None or fold.runner:
        return False
    return owners.state_of(owners.Owner.of(runner), world.store.root) is OwnerState.ALIVE


def is_closed(world: World, run: str) -> bool:
    """Whether the ledger has a closing line of the run."""
    head = f'"kind":"run-closed","run":"{run}"'.encode("ascii")
    path = world.store.path(names.LEDGER)
    if not path.exists():
        return False
    with files.reading(path) as stream:
        return any(head in line[:256] for line in stream)


def open_runs(world: World) -> list[str]:
    """The runs that were opened and not closed, oldest first; read from the lines' heads alone."""
    path = world.store.path(names.LEDGER)
    found: dict[str, None] = {}
    if path.exists():
        with files.reading(path) as stream:
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
    """Close every run that has ended without being closed."""
    closed = []
    for run in open_runs(world):
        line = settle(world, run)
        if line is not None:
            closed.append(line)
    return closed


def writable(world: World) -> bool:
    """Whether lines can be added to the ledger."""
    place = world.store.path(names.LEDGER)
    return os.access(place if place.exists() else world.store.root, os.W_OK)
