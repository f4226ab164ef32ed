"""Runs that nobody here opened: reports of others, and events that lie in the store and have no line.

Mending a damaged ledger: what is whole stays, what is damaged is moved aside, what can be made good is.

Lines are kept up to the first that is broken. The runs of the others are entered again from their events: as recorded
where their seal proves it, else as imported. What has neither a line nor events is lost, and said to be.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural
from ktxkit.ledger import chain, ledger
from ktxkit.ledger.index_file import Index
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine


YOUNG = 3600.0  # seconds in which a run of which nothing is known may still begin, or go on elsewhere
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def enter(world: World, run: str, project: str) -> LedgerLine | None:
    """The lines of a run that nobody here opened; None where it has them."""
    with chain.locked(world):
        if ledger.is_closed(world, run):
            return None
        if run not in ledger.open_runs(world):
            chain.append(world, {"kind": "run-opened", "run": run, "project": project})
    return ledger.settle(world, run)


def adopt(world: World, run: str) -> LedgerLine | None:
    """Enter a run that has events in the store and no line: whoever recorded it was killed before it wrote one, or the
    line is lost. None where its recorder may live, or the file is none of a run.
    """
    path = world.store.path(names.events_file(run))
    try:
        data = files.read(path, ledger.SIZE_LIMIT)
        age = world.clock.now().timestamp() - path.stat().st_mtime
    except (OSError, BrokenContract):
        return None  # told by `git ktx doctor`
    fold = ledger.fold_of(data)
    if fold.start.get("run", run) != run or not RUN_ID.fullmatch(run):
        return None
    life = ledger.life_of(world, fold)
    if life == "alive" or ledger.runner_lives(world, fold) or (not fold.end and life == "unknown" and age < YOUNG):
        return None
    return enter(world, run, fold.start.get("project", "unknown"))


def in_order(world: World, runs: Iterable[str]) -> list[str]:
    """Runs that have events and no line, in the order in which they began."""
    starts = _starts(world, runs)
    return sorted(starts, key=starts.__getitem__)


def _starts(world: World, runs: Iterable[str]) -> dict[str, tuple[str, str, int, str, str]]:
    """When runs began, to be compared: the boots of machines by the wall clock, within one by the processes' starts,
    which no step of a clock changes. A run's id alone has seconds: two of one second would be ordered by chance.
    """
    found = {run: _start(world, run) for run in runs}
    boots: dict[str, str] = {}
    for boot, _, at in found.values():
        boots[boot] = min(at, boots.get(boot, at))
    return {run: (boots[boot], boot, ticks, at, run) for run, (boot, ticks, at) in found.items()}


def _start(world: World, run: str) -> tuple[str, int, str]:
    """Boot, start of the process in it (clock ticks) and time of a run's first event; without one, time of the file."""
    path = world.store.path(names.events_file(run))
    try:
        with files.reading(path) as stream:
            first = next((line for line in itertools.islice(stream, 2) if line.strip()), b"")
        start = ledger.fold_of(first).start
        owner = start.get("owner")
        if start:
            at = start.get("at", run)
            return (owner["bootId"], owner["startTime"], at) if owner else (f"{at} {run}", 0, at)
        modified = path.stat().st_mtime
    except (OSError, BrokenContract):
        modified = world.clock.now().timestamp()
    at = timestamp(datetime.fromtimestamp(modified, UTC))
    return f"{at} {run}", 0, at


ASIDE = "ledger/damaged"
SHOWN = 5  # lost runs that are named


class Repaired(NamedTuple):
    """What became of a ledger. `lost` are runs that neither a line nor events tell of any more; `missing` are lines
    of which not even the run is known.
    """

    moved: tuple[str, ...] = ()
    kept: int = 0
    entered: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    missing: int = 0

    def lines(self) -> list[str]:
        """What is said of it."""
        if not (self.moved or self.lost or self.missing):
            return [f"the ledger is whole: {self.kept} lines", *(f"entered: {run}" for run in self.entered)]
        told = [f"moved aside: {path}" for path in self.moved]
        told.append(f"kept: {self.kept} lines")
        told += [f"entered again from its events: {run}" for run in self.entered]
        told += [f"lost: {run}" for run in self.lost]
        return [*told, *([f"lost: {self.missing} lines of runs that are not known"] if self.missing else [])]


class RemainingLines(NamedTuple):
    """What stays of a ledger's lines. `gone` is how many the others are, `named` the runs that `naming` of them name,
    `until` when the last of them was written (nanoseconds).
    """

    lines: list[LedgerLine]
    moved: list[str]
    named: list[str]
    gone: int = 0
    naming: int = 0
    until: int = 0


def repair(world: World, project: str = "") -> Repaired:
    """Mend the ledger; a loss is entered for each project that it has, and for this one. Raises CannotRun where its
    store cannot be written.
    """
    _ = world.writable_store
    aside = f"{ASIDE}/{world.clock.now():%Y%m%dT%H%M%S}Z-{os.urandom(2).hex()}"
    ended = _ended(world)
    with chain.locked(world):
        kept = _cut_back(world, aside)
    moved = kept.moved + _events_aside(world, kept.lines, aside)
    entered = _enter(world, kept.named)
    # One that was killed had no closing line to lose.
    closed = sum(line["record"]["state"] != "killed" for line in ledger.settle_all(world))
    there = _named(_raw(world.store.path(names.LEDGER)))
    lost = tuple(run for run in kept.named if run not in there)
    # What ended after the last line was written had no line to lose.
    again = [run for run in set(entered) - set(kept.named) if ended[run] <= kept.until]
    known = kept.naming + 2 * len(again) + closed
    missing = max(0, kept.gone - known)
    if lost or missing:
        _enter_loss(world, project, lost, missing)
    return Repaired(tuple(moved), len(kept.lines), entered, lost, missing)


def _enter_loss(world: World, project: str, lost: tuple[str, ...], missing: int) -> None:
    """An entry for each project that is known."""
    projects = {line["project"] for line in chain.lines(world)} | ({project} if project else set())
    what = [f"run {run}" for run in lost[:SHOWN]] + ([f"{plural(missing, 'line')} of unknown runs"] if missing else [])
    text = f"{', '.join(what)}{' ...' if len(lost) > SHOWN else ''}"
    for known in sorted(projects or {"unknown"}):
        with chain.locked(world):
            chain.enter_loss(world, known, text, len(lost) + missing)


def _cut_back(world: World, aside: str) -> RemainingLines:
    """Keep the lines up to the first that is broken; where they are not those that the head knows, none."""
    path = world.store.path(names.LEDGER)
    told, bad_head = chain.heads(world)
    known = told[0]["lines"] if told else _indexed(world)
    until = chain.marked_at(world, known) if told else _indexed_at(world)
    lines, size = _whole(path)
    raw = files.read(path.resolve(), ledger.SIZE_LIMIT) if path.is_file() else b""
    replaced = any(len(lines) >= one["lines"] and lines[one["lines"] - 1]["hash"] != one["hash"] for one in told)
    if replaced:
        lines, size = [], 0  # another ledger was put in its place
    cut = len(lines) < known
    odd = os.path.lexists(path) and (path.is_symlink() or not path.is_file())
    if not (cut or odd or bad_head or b"\n" in raw[size:]):
        return RemainingLines(lines, [], [])
    moved = [_move(world, path, f"{aside}/{path.name}")] if os.path.lexists(path) else []
    if bad_head and world.store.exists(names.LEDGER_HEAD):
        moved.append(_move(world, world.store.path(names.LEDGER_HEAD), f"{aside}/head.json"))
    _begin_again(world, path, raw[:size], lines)
    rest = [line for line in raw[size:].splitlines() if line.strip(b"\0 ")]
    named = [] if replaced else [line for line in rest if ledger.line_head(line)[1]]
    gone = max(known - len(lines), len(named)) or int(bool(rest))
    return RemainingLines(lines, moved, _named(named), gone, len(named), until)


def _ended(world: World) -> dict[str, int]:
    """When each file of events was last written: nanoseconds."""
    place = world.store.path(names.EVENTS)
    return {path.stem: path.lstat().st_mtime_ns for path in place.glob("*.ndjson")} if place.is_dir() else {}


def _indexed_at(world: World) -> int:
    path = world.store.path(names.LEDGER_INDEX)
    return path.stat().st_mtime_ns if path.is_file() else 0


def _indexed(world: World) -> int:
    """How many lines the index has read."""
    path = world.store.path(names.LEDGER_INDEX)
    return int((Index(path).last() or {"seq": 0})["seq"]) if path.is_file() else 0


def _named(lines: list[bytes]) -> list[str]:
    """The runs that lines name, each once."""
    return [run for run in dict.fromkeys(ledger.line_head(line)[1] for line in lines) if run]


def _begin_again(world: World, path: Path, data: bytes, kept: list[LedgerLine]) -> None:
    """The ledger of these lines, and its head. Killed in between it is damaged as before, and is mended again."""
    files.write_atomic(path, data)
    if kept:
        chain.set_head(world, kept[-1])
    else:
        chain.forget_end(world)
        files.sync_dir(path.parent)
    world.store.remove(names.LEDGER_INDEX)  # it has read lines that are gone


def _whole(path: Path) -> tuple[list[LedgerLine], int]:
    """The lines up to the first that is broken, and their bytes."""
    kept: list[LedgerLine] = []
    size = 0
    try:
        if path.is_file():
            for offset, raw, line in chain.new_lines(path, 0, None):
                kept.append(line)
                size = offset + len(raw)
    except BrokenContract:
        return kept, size
    return kept, size


def _events_aside(world: World, kept: list[LedgerLine], aside: str) -> list[str]:
    """Move event files away that are not what the ledger says they are, or no files of events."""
    moved = []
    for line in kept:
        path = ledger.events_path(world, line["run"])
        if not ledger.intact(world, line) and os.path.lexists(path):
            moved.append(_move(world, path, f"{aside}/events/{path.name}"))
            path.unlink(missing_ok=True)
    return moved


def _move(world: World, path: Path, name: str) -> str:
    """A file is copied, for what takes its place comes later; what is none (a directory, a pipe) is renamed."""
    place = world.store.path(name)
    files.make_dirs(place.parent)
    if path.is_file() and not path.is_symlink():
        files.write_atomic(place, files.read(path, ledger.SIZE_LIMIT))
    else:
        path.rename(place)
        files.sync_dir(place.parent)
    return str(place)


def _enter(world: World, named: list[str]) -> tuple[str, ...]:
    """Enter the runs that have events and no line, those that were named first, in their order."""
    known = _named(_raw(world.store.path(names.LEDGER)))
    place = world.store.path(names.EVENTS)
    strays = {path.stem for path in place.glob("*.ndjson")} - set(known) if place.is_dir() else set()
    order = [run for run in named if run in strays]
    starts = _starts(world, strays)
    for run in sorted(strays - set(order), key=starts.__getitem__):
        later = (at for at, other in enumerate(order) if starts[other] > starts[run])
        order.insert(next(later, len(order)), run)
    return tuple(run for run in order if adopt(world, run) is not None)


def _raw(path: Path) -> list[bytes]:
    return files.read(path, ledger.SIZE_LIMIT).splitlines() if path.is_file() else []
