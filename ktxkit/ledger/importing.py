"""Taking runs of others into the ledger: each file is one run, taken in once, whatever it is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktxkit.base import contracts, files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.ledger import asking, event_log, ledger
from ktxkit.ledger.event_log import Artifacts
from ktxkit.ledger.rules import importers
from ktxkit.store.rules import names
from ktxkit.store.world import World

FORMATS = ("events", "reportlog", "junit", "ctrf")
REPORTS = {"reportlog": "reportlog line", "junit": "JUnit XML report", "ctrf": "CTRF report"}
SIZE_LIMIT = 4 << 30  # bytes


def take(world: World, kind: str, name: str, project: str = "") -> tuple[str, Document | None]:
    """Take a file in. Returns the run's id, and its closing line: None where it was there already.

    Raises CannotRun where there is no such file, BrokenContract where it is not of its kind; then nothing is written.
    """
    path = world.cwd / name
    try:
        data = files.read(path, SIZE_LIMIT)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CannotRun("no such file", where=str(path), hint="ledger-append takes the paths of reports") from error
    store = world.writable_store
    if kind == "events":
        run, body = _own(data, str(path))
    else:
        run = f"imported-{digest(data)[3:19]}"
        keep = Artifacts(store.path(names.ARTIFACTS)).keep
        head = _start(world, run, kind, str(path), project or asking.resolve(world), path.stat().st_mtime)
        body = b"".join(_framed(event) for event in [head, *_events(kind, data, str(path), keep)])
    target = store.path(names.events_file(run))
    if target.exists():
        return run, None
    files.write_atomic(target, body)
    start = next(event for _, event in event_log.read(target) if event)
    with ledger.locked(world):
        ledger.append(world, {"kind": "run-opened", "run": run, "project": start["project"]})
    return run, ledger.settle(world, run, imported=True)


def _own(data: bytes, where: str) -> tuple[str, bytes]:
    """An event file of ours from elsewhere: every record must be one; a torn tail is dropped."""
    run = ""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line:
            try:
                record = contracts.loads(ledger.EVENT, line, f"{where}:{number}")
            except BrokenContract:
                if not run:
                    raise
                continue  # torn; the reader counts it
            run = run or record.get("run", "")
            if not run:
                raise BrokenContract(
                    "its first record is not run_started",
                    where=where,
                    hint="the file may be cut at its beginning: take the whole event file",
                )
    if not run:
        raise BrokenContract(
            "no record of a test run", where=where, hint="--from names the format; the file may be another's"
        )
    return run, data


def _framed(event: Document) -> bytes:
    contracts.validate(ledger.EVENT, event)
    return b"\n" + json.dumps(event, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _start(world: World, run: str, kind: str, where: str, project: str, modified: float) -> Document:
    from datetime import UTC, datetime

    return {
        "event": "run_started",
        "schemaVersion": 1,
        "t": 0,
        "run": run,
        "at": timestamp(datetime.fromtimestamp(modified, UTC)),
        "project": project,
        "trigger": "imported",
        "managed": False,
        "mode": "run",
        "tools": {"format": kind, "name": Path(where).name[:200]},
    }


def _events(kind: str, data: bytes, where: str, keep: importers.Keep) -> Iterator[Document]:
    """The events of a file. Raises BrokenContract, with file and line, for what is not of its kind."""
    at = [0]
    try:
        if kind == "reportlog":
            yield from importers.from_reportlog(_lines(data, where, at), keep)
        elif kind == "junit":
            yield from importers.from_junit(_cases(data, where), keep)
        else:
            yield from importers.from_ctrf(contracts.parse(data, where), keep)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        said = f"{error.args[0]!r} is missing or no known word" if isinstance(error, KeyError) else str(error)
        raise BrokenContract(
            f"not a {REPORTS[kind]}: {said}",
            where=f"{where}:{at[0]}" if at[0] else where,
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
        except ValueError as error:
            if number == len(lines):
                return
            raise BrokenContract(
                f"not a reportlog line: {error}",
                where=f"{where}:{number}",
                hint="the file may be truncated, or of another format (--from)",
            ) from error
        if not isinstance(record, dict):
            raise BrokenContract(
                "not a reportlog line: an object is expected",
                where=f"{where}:{number}",
                hint="the file may be truncated, or of another format (--from)",
            )
        at[0] = number
        yield record


def _cases(data: bytes, where: str) -> Iterator[dict[str, Any]]:
    """The test cases of a JUnit XML file. A document type is refused: entities can make a small file huge."""
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise BrokenContract(
            "a document type declaration is not taken",
            where=where,
            hint="take the DOCTYPE out: what it declares could read files or grow without end",
        )
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise BrokenContract(
            f"not XML: {error}", where=where, hint="the file may be truncated, or of another format (--from)"
        ) from error
    if root.tag not in ("testsuites", "testsuite"):
        raise BrokenContract(
            f"not JUnit XML: its root is {root.tag[:50]!r}",
            where=where,
            hint="--from names the format; JUnit XML begins with testsuites or testsuite",
        )
    for case in root.iter("testcase"):
        yield {
            "name": case.get("name", ""),
            "classname": case.get("classname", ""),
            "file": case.get("file", ""),
            "time": _seconds(case.get("time"), where),
            "problems": [
                {"tag": child.tag, "message": child.get("message") or "", "text": child.text or ""}
                for child in case
                if child.tag in ("failure", "error", "skipped")
            ],
        }


def _seconds(text: str | None, where: str) -> float:
    try:
        return float((text or "0").replace(",", ""))
    except ValueError as error:
        raise BrokenContract(f"not a time: {text!r}", where=where, hint="seconds, as in 0.25") from error
