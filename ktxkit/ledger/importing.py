"""Taking runs of others into the ledger: each file is one run, taken in once, whatever it is called."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts, files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun, Refused
from ktxkit.base.rules.digests import digest
from ktxkit.ledger import asking, chain, event_log, ledger, repair
from ktxkit.ledger.event_log import Artifacts
from ktxkit.ledger.rules import importers
from ktxkit.ledger.rules.fold import IMPORTED
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from ktxkit.base.documents import LedgerLine

FORMATS = ("events", "reportlog", "junit", "ctrf")
STORE = "store"  # a whole store of ours, such as a job of the same pipeline hands over
REPORTS = {"reportlog": "reportlog line", "junit": "JUnit XML report", "ctrf": "CTRF report"}


def take_all(
    world: World, kind: str, paths: Sequence[str], project: str = "", run: str = ""
) -> list[tuple[str, LedgerLine | None]]:
    """Take each file in as a run of its own; with `run`, all of them as the parts of one run of that id.

    Raises as `take` does, and Refused where there is a run of that id with other content.
    """
    if kind == STORE:
        if run:
            raise CannotRun("a store's runs have their ids", hint="leave out --run")
        return [one for path in paths for one in take_store(world, path)]
    if not run:
        return [take(world, kind, [path], project) for path in paths]
    if kind == "events" or not repair.RUN_ID.fullmatch(run):
        what = "an event file has its own id" if kind == "events" else f"{run[:200]!r} cannot be the id of a run"
        raise CannotRun(what, hint="an id has up to 128 letters, digits, `.`, `_` and `-`, and is of reports")
    return [take(world, kind, paths, project, run)]


def take(
    world: World, kind: str, paths: Sequence[str], project: str = "", run: str = ""
) -> tuple[str, LedgerLine | None]:
    """Take one run in. Returns its id, and its closing line: None where it was there already.

    Raises CannotRun where there is no such file, BrokenContract where it is not of its kind; then nothing is written.
    """
    store = world.writable_store
    chain.tip(world)
    found = [(str(world.cwd / path), _bytes(world.cwd / path)) for path in paths]
    named = run
    if kind == "events":
        run, body = _own(world, found[0][1], found[0][0])
    else:
        run = run or f"imported-{digest(found[0][1])[3:19]}"
        importer = importers.Importer(Artifacts(store.path(names.ARTIFACTS)).keep)
        parts = [_read(kind, data, where, importer) for where, data in found]
        began = min((at for at, _ in parts if at is not None), default=None)
        began = began or datetime.fromtimestamp((world.cwd / paths[0]).stat().st_mtime, UTC)  # where none says so
        title = named or (world.cwd / paths[0]).name
        events = importers.joined([events for _, events in parts])
        head = _start(run, kind, title, project or asking.resolve(world), began)
        body = b"".join(_framed(event) for event in [head, *events])
    target = store.path(names.events_file(run))
    if target.exists() or ledger.is_closed(world, run):
        if named and (not target.exists() or files.read(target, ledger.SIZE_LIMIT) != body):
            raise Refused(f"there is a run {run} already, of other reports", hint="a run is closed once: name another")
        return run, None
    files.write_atomic(target, body)
    if kind == "events":
        _artifacts_beside(world.cwd / paths[0], body, Artifacts(store.path(names.ARTIFACTS)))
    start = next(event for _, event in event_log.read(target) if event)
    return run, repair.enter(world, run, start["project"])


def _artifacts_beside(events: Path, data: bytes, kept: Artifacts) -> None:
    """Keep the artifacts that events name and that lie beside them, as in a store that was written instead of this."""
    beside = Artifacts(events.resolve().parent.parent / "artifacts")
    for found in set(ledger.NAMED.findall(data)):
        if beside.has(name := found.decode("ascii")):
            kept.keep(beside.load(name))


def take_store(world: World, directory: str) -> list[tuple[str, LedgerLine | None]]:
    """Take the ledger of another store in. Where this one has none yet it goes on as this store's own, as it is: lines,
    head, key, events and artifacts. Else each of its runs is taken as an event file is.

    Raises CannotRun where there is none, BrokenContract where it is damaged; then nothing is written.
    """
    other = World(world.cwd, world.env, ktx_dir=str(world.cwd / directory))
    if not other.store.exists(names.LEDGER):
        hint = "name the directory that has ledger/ (a `.ktx`)"
        raise CannotRun("there is no ledger", location=str(world.cwd / directory), hint=hint)
    closed = [line for line in chain.lines(other) if line["kind"] == "run-closed"]
    store = world.writable_store
    artifacts = Artifacts(store.path(names.ARTIFACTS))
    for path in _files(other, names.ARTIFACTS):
        artifacts.keep(files.read(path, ledger.SIZE_LIMIT))
    events = [path for path in _files(other, names.EVENTS) if path.suffix == ".ndjson"]
    if store.exists(names.LEDGER):
        return [take(world, "events", [str(path)]) for path in events]
    with chain.locked(world):
        for path in events:
            files.write_atomic(store.path(f"{names.EVENTS}/{path.name}"), files.read(path, ledger.SIZE_LIMIT))
        for name in (names.LEDGER_KEY, names.LEDGER_HEAD, names.LEDGER):  # the lines last: they make it a ledger
            if other.store.exists(name):
                files.write_atomic(store.path(name), files.read(other.store.path(name), ledger.SIZE_LIMIT))
    return [(line["run"], line) for line in closed]


def _files(world: World, folder: str) -> list[Path]:
    """The files below a folder of a store, sorted. Raises BrokenContract for what is no regular file."""
    top = os.fspath(world.store.path(folder))
    found = sorted(Path(place) / name for place, listed in files.walk(top) for name in listed)
    for path in found:
        if path.is_symlink() or not path.is_file():
            raise BrokenContract("it is not a regular file", location=str(path), hint="a store has no links")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return files.read(path, ledger.SIZE_LIMIT)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CannotRun("no such file", location=str(path), hint="ledger-append takes the paths of reports") from error


def _own(world: World, data: bytes, where: str) -> tuple[str, bytes]:
    """An event file of ours from elsewhere: every record must be one; what is torn is kept so.

    It is marked as imported, unless its seal proves that a recorder of this store wrote it, and nobody else.
    """
    proven = ledger.sealed(world, data, proven=True)
    run = ""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line or (event_log.record(line) is None and run):
            continue  # blank, or torn: the reader counts it
        record = contracts.loads(ledger.EVENT, line, f"{where}:{number}")
        run = run or record.get("run", "")
        if not run:
            raise BrokenContract(
                "its first record is not run_started",
                location=where,
                hint="the file may be cut at its beginning: take the whole event file",
            )
        if record["event"] == "run_started":
            if record["run"] != run:
                raise BrokenContract(
                    "records of two runs", location=f"{where}:{number}", hint="take each run's own file"
                )
            if not proven:
                lines[number - 1] = _framed(record | {"trigger": IMPORTED, "managed": False}).strip()
    if not run:
        raise BrokenContract(
            "no record of a test run", location=where, hint="--from names the format; the file may be another's"
        )
    return run, b"\n".join(lines)


def _framed(event: Document) -> bytes:
    contracts.validate(ledger.EVENT, event)
    return b"\n" + json.dumps(event, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _start(run: str, kind: str, name: str, project: str, began: datetime) -> Document:
    return {
        "event": "run_started",
        "schemaVersion": 1,
        "t": 0,
        "run": run,
        "at": timestamp(began),
        "project": project,
        "trigger": IMPORTED,
        "managed": False,
        "mode": "run",
        "tools": {"format": kind, "name": name[:200]},
    }


def _read(kind: str, data: bytes, where: str, importer: importers.Importer) -> tuple[datetime | None, list[Document]]:
    """When the run began, where the file says so, and its events. Raises BrokenContract, with file and line, for what
    is not of its kind.
    """
    at = [0]
    try:
        if kind == "reportlog":
            events = list(importers.from_reportlog(_lines(data, where, at), importer))
            return reportlog_start(_lines(data, where, at)), events
        if kind == "junit":
            root = _junit(data, where)
            return junit_start(root), list(importers.from_junit(root, importer))
        document = contracts.parse(data, where)
        return ctrf_start(document), list(importers.from_ctrf(document, importer))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        said = f"{error.args[0]!r} is missing or no known word" if isinstance(error, KeyError) else str(error)
        said = (
            "something in it is of another kind than it must be"
            if isinstance(error, AttributeError | TypeError)
            else said
        )
        raise BrokenContract(
            f"not a {REPORTS[kind]}: {said}",
            location=f"{where}:{at[0]}" if at[0] else where,
            hint="the file may be truncated, or of another format (--from)",
        ) from error


def _lines(data: bytes, where: str, at: list[int]) -> Iterator[dict[str, Any]]:
    """reportlog writes NaN and lone surrogates, and its last line may be torn: then there is nothing after it."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise BrokenContract(
                f"not a reportlog line: {error}",
                location=f"{where}:{number}",
                hint="the file may be truncated, or of another format (--from)",
            ) from error
        if not isinstance(record, dict):
            raise BrokenContract(
                "not a reportlog line: an object is expected",
                location=f"{where}:{number}",
                hint="the file may be truncated, or of another format (--from)",
            )
        at[0] = number
        yield record


def _junit(data: bytes, where: str) -> Element:
    """The root of a JUnit XML file. A document type is refused: entities can make a small file huge."""
    from xml.etree import ElementTree

    if any(
        word.encode(form) in data for word in ("<!DOCTYPE", "<!ENTITY") for form in ("ascii", "utf-16-le", "utf-16-be")
    ):
        raise BrokenContract(
            "a document type declaration is not taken",
            location=where,
            hint="take the DOCTYPE out: what it declares could read files or grow without end",
        )
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise BrokenContract(
            f"not XML: {error}", location=where, hint="the file may be truncated, or of another format (--from)"
        ) from error
    for one in root.iter():  # writers differ in capitals, and some have a namespace
        one.tag = one.tag.rpartition("}")[2].lower()
        for key in [key for key in one.attrib if key != key.lower()]:
            one.attrib.setdefault(key.lower(), one.attrib.pop(key))
    if root.tag not in importers.SUITES:
        raise BrokenContract(
            f"not JUnit XML: its root is {root.tag[:50]!r}",
            location=where,
            hint="--from names the format; JUnit XML begins with testsuites or testsuite",
        )
    return root


# -- when a run began


def junit_start(root: importers.Element) -> datetime | None:
    """When a JUnit report says that its run began: the earliest of its time stamps; one without a zone is of UTC."""
    stamps = [text for suite in root.iter() if suite.tag in importers.SUITES and (text := suite.get("timestamp"))]
    return min((at for text in stamps if (at := _moment(text)) is not None), default=None)


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None  # a stamp that is none tells nothing; then the time of the file is taken
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def ctrf_start(document: Mapping[str, Any]) -> datetime | None:
    """When a CTRF report says that its run began (milliseconds since 1970)."""
    results = document.get("results")
    summary = results.get("summary") if isinstance(results, Mapping) else None
    return _since_epoch(summary.get("start") if isinstance(summary, Mapping) else None, 1000)


def reportlog_start(records: Iterable[Mapping[str, Any]]) -> datetime | None:
    """When the first phase of a reportlog began (seconds since 1970)."""
    starts = [one.get("start") for one in records if one.get("$report_type") == "TestReport"]
    return min((at for one in starts if (at := _since_epoch(one, 1)) is not None), default=None)


def _since_epoch(number: object, unit: int) -> datetime | None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number / unit < LAST_SECOND:
        return None
    return datetime.fromtimestamp(number / unit, UTC)


LAST_SECOND = 253402300800  # of the year 9999
