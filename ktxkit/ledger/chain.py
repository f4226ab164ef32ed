"""The chain of the ledger's lines: linked by digest, and anchored at its end by the head document.

The head counts the lines and has the digest of the last one. It is written after each append, under the same lock, when
the line is on the disk: so a ledger with fewer lines, or with another line at that place, has lost some. A line after
those that the head counts is linked to them: its writer was killed before it wrote the head.

The same end is marked in two places that are not beside it: in the ledger's lock file, and in the git directory of a
store at its usual place. So a tail that is gone together with the head, or an older copy of both, is noticed. A mark is
written after the head and can be behind it, never ahead. A mark of which no ledger is left is of one that went with its
store: the first line of a new ledger then enters the loss. Whoever removes all marks with the rest is not noticed.

The store's own key: the recorder seals the events of a run with it (HMAC-SHA256 of their digest), so that a file that
comes back from elsewhere can be told from one that somebody wrote or edited. It keeps out mistakes and those who cannot
read the store, not the user whom the store belongs to.
"""

from __future__ import annotations

import hmac
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract, KtxError
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import checked, digest, link, own_hash
from ktxkit.base.rules.text import plural
from ktxkit.ledger.event_log import EventWriter, encode
from ktxkit.ledger.rules.fold import LOST
from ktxkit.store.rules import names
from ktxkit.store.tracing import Journal
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerHead, LedgerLine

CONTRACT = "ledger-line"
MEND = "put the file back from a copy; without one `ledger-append --repair` keeps what is whole and says what is lost"
CUT = "lines are missing at its end: {} of at least {} are there"
KEY_BYTES = 32
SEAL = b"ktxkit run events\0"


def journal(world: World) -> Journal[LedgerLine]:
    return Journal(world.store.path(names.LEDGER), kinds.LEDGER_LINE, world.clock)


def locked(world: World) -> AbstractContextManager[int]:
    """The lock under which lines are linked."""
    return flocked(world.store.path(names.LEDGER_LOCK), clock=world.clock)


MARK_BYTES = 4096  # more are no mark


def append(world: World, body: Mapping[str, Any]) -> LedgerLine:
    """Link a line to the last one and append it, durably; then the head. The caller holds the lock.

    Raises BrokenContract where the ledger is not what its head says; then nothing is written.
    """
    last = tip(world)
    if last is not None and not world.store.exists(names.LEDGER_HEAD):
        set_head(world, last)  # its writer was killed before the head, or it is of an earlier version
    if last is None and (count := gone(world)):
        last = enter_loss(world, body["project"], f"a ledger of {plural(count, 'line')}, with its store", count)
    return _append(world, last, body)


def _append(world: World, last: LedgerLine | None, body: Mapping[str, Any]) -> LedgerLine:
    line = cast("LedgerLine", link(last, {"schemaVersion": 1, **body, "at": timestamp(world.clock.now())}))
    journal(world).append([line], durable=True)  # judges it
    set_head(world, line)
    return line


def enter_loss(world: World, project: str, what: str, count: int) -> LedgerLine:
    """An entry at the end of the order for what is lost: which runs these were, whether they were full and what they
    came to is not known, so that nothing before it is the last word any more. The caller holds the lock.
    """
    at = timestamp(world.clock.now())
    run = f"lost-{world.clock.now():%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
    why = f"lost from the ledger: {what}"
    record = {
        "run": run, "project": project, "trigger": LOST, "mode": "run", "startedAt": at, "state": "damaged",
        "verdict": "incomplete", "counts": {}, "lost": {"damaged": count, "fault": why},
        "scope": {"kind": "partial", "why": [why]}, "authoritative": False, "against": [why],
    }  # fmt: skip
    none = {"bytes": 0, "digest": digest(b""), "records": 0, "torn": 0}
    _append(world, journal(world).last(), {"kind": "run-opened", "run": run, "project": project})
    closed = {"kind": "run-closed", "run": run, "project": project, "events": none, "record": record}
    return _append(world, journal(world).last(), closed)


def tip(world: World) -> LedgerLine | None:
    """The last line, or None in an empty ledger. Raises BrokenContract where it is not what the head says."""
    lines = journal(world)
    last = lines.last()
    for known in ends(world):
        fits(known, last["seq"] if last else 0, last["hash"] if last else "", lines.path)
    return last


def set_head(world: World, line: LedgerLine) -> None:
    """The line is the last one, and marked as that. The caller holds the lock."""
    made: LedgerHead = {
        "schemaVersion": 1,
        "kind": "ledger-head",
        "lines": line["seq"],
        "hash": line["hash"],
        "at": line["at"],
    }
    world.store.write(kinds.LEDGER_HEAD, names.LEDGER_HEAD, made)
    _set_marks(world, contracts.compact(made))


def forget_end(world: World) -> None:
    """There is no line any more, and nothing says that there was one. The caller holds the lock."""
    world.store.path(names.LEDGER_HEAD).unlink(missing_ok=True)
    _set_marks(world, b"")


def _set_marks(world: World, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    for path in world.store.ledger_marks():
        try:
            if path.name == names.LEDGER_MARK:  # never empty, whenever its writer is killed
                files.write_atomic(path, data) if data else path.unlink(missing_ok=True)
                continue
            fd = os.open(path, flags, files.PRIVATE_FILE)
        except OSError:  # gate-ok: where it cannot be written (an isolated unit) it stays behind, and says less
            continue
        try:
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
        finally:
            os.close(fd)


def _mark(path: Path) -> LedgerHead | None:
    """A mark of the end; None where there is none. Raises BrokenContract for what is none, an empty file as well: only
    the lock file has been one before it was a mark.
    """
    try:
        data = files.read(path, MARK_BYTES).strip(b"\0 \n")
    except OSError:
        return None  # not there, or not to be read: then it says nothing
    if not data and path.name == names.LEDGER_MARK:
        raise BrokenContract("the mark of the ledger's end is empty", location=str(path), hint=MEND)
    return contracts.loads(kinds.LEDGER_HEAD, data, str(path)) if data else None


def ends(world: World) -> list[LedgerHead]:
    """What is known of the ledger's end, the furthest first: by its head, and by the marks.

    Raises BrokenContract where any of it is damaged, or the head is gone: a store with a mark has had one, and one with
    a key has had one since its second line.
    """
    try:
        found = world.store.read_optional(kinds.LEDGER_HEAD, names.LEDGER_HEAD)
        marks = marked(world)
    except BrokenContract as error:
        raise BrokenContract(error.message, location=error.location, hint=MEND) from error
    lasting = marks or (os.path.lexists(world.store.path(names.LEDGER_KEY)) and _has_lines(world, 2))
    if found is None and lasting:
        # Looked for once more: lines may have been written since.
        found = world.store.read_optional(kinds.LEDGER_HEAD, names.LEDGER_HEAD)
        if found is None:
            raise BrokenContract(
                "the ledger's head is gone: whether lines are missing at its end is not known",
                location=str(world.store.path(names.LEDGER_HEAD)),
                hint=MEND,
            )
    return _furthest([*([found] if found else []), *marks])


def _furthest(known: list[LedgerHead]) -> list[LedgerHead]:
    return sorted(known, key=lambda one: one["lines"], reverse=True)


def marked(world: World) -> list[LedgerHead]:
    """The marks of the end. The git directory's is one of this ledger only where anything of a ledger is left: it
    outlives a store that was removed as a whole. Raises BrokenContract.
    """
    found = _marks(world)
    return [mark for path, mark in found if path.name != names.LEDGER_MARK or len(found) > 1 or _is_left(world, path)]


def _marks(world: World) -> list[tuple[Path, LedgerHead]]:
    return [(path, mark) for path in world.store.ledger_marks() if (mark := _mark(path)) is not None]


def gone(world: World) -> int:
    """How many lines a ledger had of which nothing is left but the mark in the git directory: its store was removed as
    a whole (`git clean -fdx`). 0 where none was, or what is left tells by itself. Raises BrokenContract.
    """
    return 0 if marked(world) else max((mark["lines"] for _, mark in _marks(world)), default=0)


def marked_at(world: World, lines: int) -> int:
    """When the ledger was last said to have so many lines, by the head or a mark: nanoseconds, 0 where none does."""
    times = [0]
    for path in (world.store.path(names.LEDGER_HEAD), *world.store.ledger_marks()):
        try:
            mark = _mark(path)
        except BrokenContract:  # gate-ok: one that is damaged tells no time; `heads` says that it is
            continue
        if mark is not None and mark["lines"] == lines:
            times.append(path.stat().st_mtime_ns)
    return max(times)


def _is_left(world: World, mark: Path) -> bool:
    """Whether anything of a ledger is left; events only where they are older than the mark."""
    of_it = (names.LEDGER_KEY, names.LEDGER_HEAD, names.LEDGER, names.LEDGER_INDEX)
    if any(os.path.lexists(world.store.path(name)) for name in of_it):
        return True
    since = mark.stat().st_mtime_ns
    place = world.store.path(names.EVENTS)
    return place.is_dir() and any(path.lstat().st_mtime_ns < since for path in place.iterdir())


def heads(world: World) -> tuple[list[LedgerHead], bool]:
    """What of the head and the marks can be read, the furthest first; and whether any is damaged or the head gone."""
    found: list[LedgerHead] = []
    bad = False
    for path in (world.store.path(names.LEDGER_HEAD), *world.store.ledger_marks()):
        try:
            mark = _mark(path)
        except BrokenContract:
            bad = True
            continue
        if mark is not None:
            found.append(mark)
    try:
        ends(world)
    except BrokenContract:
        bad = True
    return _furthest(found), bad


def _has_lines(world: World, least: int) -> bool:
    """Whether the ledger has so many lines."""
    path = world.store.path(names.LEDGER)
    require_file(path)
    if not path.exists():
        return False
    with files.reading(path) as stream:
        return sum(line.endswith(b"\n") for line in itertools.islice(stream, least)) == least


def fits(known: LedgerHead, lines: int, last: str, path: Path) -> bool:
    """Whether the last line is the head's; False where there are more. Raises BrokenContract where it cannot be."""
    if lines < known["lines"]:
        raise BrokenContract(CUT.format(lines, known["lines"]), location=str(path), hint=MEND)
    if lines == known["lines"] and last != known["hash"]:
        raise BrokenContract(f"line {lines} is not the one that was written there", location=str(path), hint=MEND)
    return lines == known["lines"]


def lines(world: World) -> Iterator[LedgerLine]:
    """Every line: contract, link and end are checked. Raises BrokenContract."""
    known = ends(world)
    path = world.store.path(names.LEDGER)
    count, last = 0, ""
    require_file(path)
    if path.exists():
        for _, _, line in new_lines(path, 0, None):
            count, last = line["seq"], line["hash"]
            for end in known:
                if count == end["lines"]:
                    fits(end, count, last, path)
            yield line
    for end in known:
        fits(end, count, last, path)


def new_lines(path: Path, start: int, previous: Mapping[str, Any] | None) -> Iterator[tuple[int, bytes, LedgerLine]]:
    """Each whole line from an offset on, with its own offset and bytes; contract and link are checked."""
    check = contracts.checker(CONTRACT)
    with files.reading(path) as stream:
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
                raise BrokenContract(error.message, location=error.location, hint=hint) from error
            except ValueError as error:
                raise BrokenContract(str(error), location=str(path), hint=MEND) from error
            yield offset, raw, line
            offset += len(raw)
            previous = line


def require_own(line: LedgerLine, path: Path) -> None:
    """Raises BrokenContract for a line that is not what its digest says: of one that is read without the others."""
    if line["hash"] != own_hash(line):
        raise BrokenContract(f"line {line['seq']} was changed", location=str(path), hint=MEND)


def require_file(path: Path) -> None:
    """Raises BrokenContract for what is no regular file, where anything is: a pipe could be waited for without end, a
    link could lead anywhere.
    """
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise BrokenContract("it is not a regular file", location=str(path), hint=MEND)


def check_end(world: World, known: Sequence[LedgerHead], last: Mapping[str, Any] | None) -> None:
    """Hold what was read against the ends that were known before it. `last`: number and digest of the last line.

    Raises BrokenContract where lines are missing, or another one stands in an end's place.
    """
    path = world.store.path(names.LEDGER)
    before = {
        end["lines"]: end
        for end in known
        if not fits(end, last["seq"] if last else 0, last["hash"] if last else "", path)
    }
    for _, _, line in new_lines(path, 0, None) if before else ():
        if line["seq"] in before:
            fits(before.pop(line["seq"]), line["seq"], line["hash"], path)
        if not before:
            return


# -- the key


def key(world: World) -> bytes | None:
    """The store's key, or None where there is none that can be used."""
    try:
        found = files.read(world.store.path(names.LEDGER_KEY), 1024)
        raw = bytes.fromhex(found.decode("ascii").strip())
    except (OSError, BrokenContract, ValueError):
        return None  # then nothing is proven by it, and what comes from elsewhere is imported
    return raw if len(raw) == KEY_BYTES else None


def own_key(world: World) -> bytes | None:
    """The store's key, made where there is none yet."""
    place = world.store.path(names.LEDGER_KEY)
    if not os.path.lexists(place):
        with locked(world):
            if not os.path.lexists(place):
                files.write_atomic(place, secrets.token_hex(KEY_BYTES).encode("ascii") + b"\n")
    return key(world)


def seal(secret: bytes, events: bytes) -> str:
    """What a closing event carries: proof that whoever wrote the bytes before it has the key."""
    return "hmac:" + hmac.digest(secret, SEAL + digest(events).encode("ascii"), "sha256").hex()


def put_sealed(world: World, writer: EventWriter, record: Mapping[str, Any]) -> str:
    """Write the record that closes a run's events, with its seal where the store has a key or can be given one.

    Returns it as it was written.
    """
    made = encode(record)
    try:
        secret = own_key(world)
        if secret is not None:
            proof = secret
            made = writer.seal(lambda events: encode({**record, "mac": seal(proof, events)}))
    except (OSError, KtxError):
        secret = None  # a store that cannot be written: the run is recorded without a seal
    if secret is None:
        writer.last_word(made)
    writer.flush()
    return made
