"""The chain of the ledger's lines: linked by digest, and anchored at its end by the head document.

The head counts the lines and has the digest of the last one. It is written after each append, under the same lock, when
the line is on the disk: so a ledger with fewer lines, or with another line at that place, has lost some. A line after
those that the head counts is linked to them: its writer was killed before it wrote the head.

The store's own key: the recorder seals the events of a run with it (HMAC-SHA256 of their digest), so that a file that
comes back from elsewhere can be told from one that somebody wrote or edited. It keeps out mistakes and those who cannot
read the store, not the user whom the store belongs to.
"""

from __future__ import annotations

import hmac
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract, KtxError
from ktxkit.base.lock import flocked
from ktxkit.base.rules.digests import checked, digest, link, own_hash
from ktxkit.ledger.event_log import EventWriter, encode
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


def append(world: World, body: Mapping[str, Any]) -> LedgerLine:
    """Link a line to the last one and append it, durably; then the head. The caller holds the lock.

    Raises BrokenContract where the ledger is not what its head says; then nothing is written.
    """
    last = tip(world)
    if last is not None and not world.store.exists(names.LEDGER_HEAD):
        set_head(world, last)  # its writer was killed before the head, or it is of an earlier version
    line = cast("LedgerLine", link(last, {"schemaVersion": 1, **body, "at": timestamp(world.clock.now())}))
    journal(world).append([line], durable=True)  # judges it
    set_head(world, line)
    return line


def tip(world: World) -> LedgerLine | None:
    """The last line, or None in an empty ledger. Raises BrokenContract where it is not what the head says."""
    lines = journal(world)
    last = lines.last()
    known = head(world)
    if known is not None:
        fits(known, last["seq"] if last else 0, last["hash"] if last else "", lines.path)
    return last


def set_head(world: World, line: LedgerLine) -> None:
    """The line is the last one. The caller holds the lock."""
    made: LedgerHead = {
        "schemaVersion": 1,
        "kind": "ledger-head",
        "lines": line["seq"],
        "hash": line["hash"],
        "at": line["at"],
    }
    world.store.write(kinds.LEDGER_HEAD, names.LEDGER_HEAD, made)


def head(world: World) -> LedgerHead | None:
    """The head document; None where none was written yet (no or one line, or a ledger of an earlier version).

    Raises BrokenContract where it is damaged, or gone: a store with a key has had one since its second line.
    """
    path = world.store.path(names.LEDGER_HEAD)
    try:
        found = world.store.read_optional(kinds.LEDGER_HEAD, names.LEDGER_HEAD)
    except BrokenContract as error:
        raise BrokenContract(error.message, location=error.location, hint=MEND) from error
    if found is None and os.path.lexists(world.store.path(names.LEDGER_KEY)) and _has_lines(world, 2):
        # Looked for once more: lines may have been written since.
        found = world.store.read_optional(kinds.LEDGER_HEAD, names.LEDGER_HEAD)
        if found is None:
            raise BrokenContract(
                "the ledger's head is gone: whether lines are missing at its end is not known",
                location=str(path),
                hint=MEND,
            )
    return found


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
    known = head(world)
    path = world.store.path(names.LEDGER)
    count, last = 0, ""
    require_file(path)
    if path.exists():
        for _, _, line in new_lines(path, 0, None):
            count, last = line["seq"], line["hash"]
            if known is not None and count == known["lines"]:
                fits(known, count, last, path)
            yield line
    if known is not None:
        fits(known, count, last, path)


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


def check_end(world: World, known: LedgerHead | None, last: Mapping[str, Any] | None) -> None:
    """Hold what was read against a head that was read before it. `last`: number and digest of the last line.

    Raises BrokenContract where lines are missing, or another one stands in the head's place.
    """
    if known is None:
        return
    path = world.store.path(names.LEDGER)
    if not fits(known, last["seq"] if last else 0, last["hash"] if last else "", path):
        for _, _, line in new_lines(path, 0, None):
            if line["seq"] == known["lines"]:
                fits(known, line["seq"], line["hash"], path)
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
