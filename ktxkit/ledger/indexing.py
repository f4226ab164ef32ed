"""The index brought up to the ledger: runs that died are closed, new lines go in, what does not fit is made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.digests import digest
from ktxkit.ledger import ledger
from ktxkit.ledger.index_file import Index
from ktxkit.ledger.rules import chain
from ktxkit.ledger.rules.attempt import Attempt
from ktxkit.ledger.rules.evidence import key_of
from ktxkit.ledger.rules.fold import Fold
from ktxkit.store.rules import names
from ktxkit.store.world import World


def close_ended(world: World, index: Index) -> None:
    """Write the closing line of each run that has ended without one."""
    for (run,) in index.db.execute("SELECT run FROM runs WHERE closed = 0 ORDER BY seq").fetchall():
        if ledger.events_path(world, run).exists():
            ledger.settle(world, run)


def update(world: World, index: Index) -> None:
    """Read the lines that are new. One process fills it, others wait."""
    path = world.store.path(names.LEDGER)
    place = index.unread(path)
    if place is not None and (not path.exists() or place[0] == ledger.whole_size(path)):
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


def _fill(world: World, index: Index, path: Path, start: int, previous: dict[str, Any] | None) -> None:
    for offset, raw, line in new_lines(path, start, previous):
        if line["kind"] == "run-opened":
            index.open_run(line)
        elif line["kind"] == "run-closed":
            _close(world, index, line)
        index.set_mark(path, offset, raw, line)


def new_lines(path: Path, start: int, previous: dict[str, Any] | None) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
    """Each whole line from an offset on, with its own offset and bytes; contract and link are checked."""
    check = contracts.checker(ledger.CONTRACT)
    with open(path, "rb") as stream:
        stream.seek(start)
        offset = start
        for raw in stream:
            if not raw.endswith(b"\n"):
                return  # torn, or being written
            where = f"{path}: byte {offset}"
            try:
                line = contracts.parse(raw, where)
                if not check(line):
                    contracts.validate(ledger.CONTRACT, line, where)
                list(chain.checked([line], previous))
            except BrokenContract as error:
                hint = f"{error.hint}; {ledger.MEND}" if error.hint else ledger.MEND
                raise BrokenContract(error.message, where=error.where, hint=hint) from error
            except ValueError as error:
                raise BrokenContract(str(error), where=str(path), hint=ledger.MEND) from error
            yield offset, raw, line
            offset += len(raw)
            previous = line


def _close(world: World, index: Index, line: dict[str, Any]) -> None:
    fold, why = events_of(world, line)
    rid = index.close_run(line, key_of(line["record"]), fold is not None, why)
    if fold is not None:
        index.add_results(rid, line["project"], attempts(fold), fold.plain)
        index.add_fixtures(rid, fold.fixtures)


def events_of(world: World, line: dict[str, Any]) -> tuple[Fold | None, str]:
    """The fold of a closed run's events where they are what the ledger says they were; else None and why."""
    path = ledger.events_path(world, line["run"])
    said = line["events"]
    try:
        data = files.read(path, limit=1 << 40)[: said["bytes"]]
    except FileNotFoundError:
        return None, "its events are gone"
    if digest(data) != said["digest"]:
        return None, "its events were changed after it was closed"
    fold = ledger.fold_of(data, path, aside=True)
    fold.untangle()
    return fold, ""


def attempts(fold: Fold) -> Iterator[tuple[Attempt, str | None]]:
    """Each attempt, with the verdict beside the last one of a test."""
    for (test, occurrence, _), one in fold.attempts.items():
        last = fold.last[(test, occurrence)] is one
        verdict = fold.verdict(one) if last else None
        yield one, ("interrupted" if verdict == "running" else verdict)
