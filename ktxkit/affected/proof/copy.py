"""A checkout of its own in which a suite runs on mutated files. The user's tree is never written to."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ktxkit.base import files, process
from ktxkit.git import scratch
from ktxkit.store.world import World

REGULAR = ("100644", "100755")
ARGUMENTS_BYTES = 100_000  # of node ids on one command line; more of them go through a file
NO_TESTS = 5  # pytest's status where none was collected
PLUGINS = ("-p", "no:cacheprovider", "-p", "ktx_proof_told")
TOLD = "KTX_PROOF_TOLD"
PLUGIN = """import json, os
ran, failed = {}, {}
def pytest_runtest_logreport(report):
    ran[report.nodeid] = None
    if report.failed:
        failed[report.nodeid] = None
def pytest_collectreport(report):
    if report.failed:
        failed[report.nodeid] = None
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        with open(os.environ["KTX_PROOF_TOLD"], "w") as stream:
            json.dump({"ran": len(ran), "failed": len(failed), "first": next(iter(failed), "")}, stream)
"""


class Outcome(NamedTuple):
    """One run. `noticed`: it did not pass; `failed`: how many tests did not, and the first of them."""

    noticed: bool
    late: bool
    failed: int
    ran: int
    first: str
    seconds: float
    said: str = ""


@dataclass(frozen=True)
class Copy:
    """The checkout. `words`: more arguments for pytest; `roots`: directories that modules are imported from."""

    world: World
    top: Path
    python: str
    words: Sequence[str] = ()
    roots: Collection[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        return files.read(self.top / path)

    def write(self, path: str, data: bytes) -> None:
        files.write_atomic(self.top / path, data, mode=(self.top / path).stat().st_mode & 0o777, durable=False)

    def run(self, tests: Sequence[str] | None, limit: float | None = None, *, first: bool = False) -> Outcome:
        """The tests (None: all). `limit` in seconds; `first`: no further than the first that fails."""
        if tests is not None and not tests:
            return Outcome(False, False, 0, 0, "", 0.0)
        clock = self.world.clock
        began = clock.monotonic()
        with self._ids(tests or ()) as ids:
            argv = [self.python, "-m", "pytest", "-q", "--tb=no", f"--rootdir={self.top}", *PLUGINS]
            words = [*argv, *(["-x"] if first else []), *self.words, *ids]
            done = process.run(words, cwd=self.top, env=self._environment(), timeout=limit)
        seconds = clock.monotonic() - began
        told = self._told()
        said = (done.err or done.out)[-2000:].decode("utf-8", "backslashreplace").strip()
        noticed = done.timed_out or done.status not in (0, NO_TESTS)
        return Outcome(noticed, done.timed_out, told["failed"], told["ran"], told["first"], seconds, said)

    @property
    def _beside(self) -> Path:
        return self.top.parent / "beside"

    def _told(self) -> dict[str, Any]:
        """What the plugin wrote; nothing where pytest did not come to its end."""
        try:
            found: dict[str, Any] = json.loads(files.read(self._beside / "told.json"))
        except (FileNotFoundError, ValueError):
            return {"ran": 0, "failed": 0, "first": ""}
        files.remove(self._beside / "told.json")
        return found

    @contextmanager
    def _ids(self, tests: Sequence[str]) -> Iterator[list[str]]:
        """Node ids as arguments; through a file, as pytest has it since 8.2, where they are too many."""
        if sum(len(one) for one in tests) < ARGUMENTS_BYTES:
            yield list(tests)
            return
        place = self._beside / "ids.txt"
        files.write_atomic(place, "\n".join(tests).encode("utf-8", "surrogateescape") + b"\n", durable=False)
        yield [f"@{place}"]

    def _environment(self) -> dict[str, str]:
        """The user's, but nothing is recorded or cached, and modules come from the copy before any installed one."""
        kept = {key: value for key, value in self.world.env.items() if not key.startswith(("KTX_", "GIT_"))}
        paths = [str(self._beside), *(str(self.top / root) for root in sorted(self.roots))]
        paths += [self._moved(one) for one in kept.get("PYTHONPATH", "").split(os.pathsep) if one]
        more = {
            TOLD: str(self._beside / "told.json"),
            "KTX_LEDGER": "off",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        return {**kept, **more, **self.env}

    def _moved(self, place: str) -> str:
        """A directory of the user's checkout is the copy's."""
        top = self.world.repository.top
        full = os.path.normpath(self.world.cwd / place)
        if top is None or os.path.commonpath([full, os.path.realpath(top)]) != os.path.realpath(top):
            return place
        return str(self.top / os.path.relpath(full, os.path.realpath(top)))


@contextmanager
def opened(
    world: World,
    entries: Mapping[str, tuple[str, str]],
    loose: Mapping[str, bytes],
    mutated: Collection[str],
    python: str,
    words: Sequence[str] = (),
) -> Iterator[Copy]:
    """A copy of a tree. `entries`: path to mode and id; `loose`: bytes that are no object yet, by id."""
    kept = [(mode, os.fsencode(path), oid) for path, (mode, oid) in entries.items() if oid not in loose]
    kept = [one for one in kept if one[0] != "160000"]
    with scratch.checkout(world, kept) as top:
        for path, (mode, oid) in entries.items():
            if oid in loose:
                _loose(top / path, mode, loose[oid])
        files.write_new(top.parent / "beside" / "ktx_proof_told.py", PLUGIN.encode())
        yield Copy(world, top, python, tuple(words), roots_of(entries, mutated))


def _loose(place: Path, mode: str, data: bytes) -> None:
    files.make_dirs(place.parent)
    if mode in REGULAR:
        files.write_atomic(place, data, mode=int(mode[-3:], 8), durable=False)
    else:
        place.symlink_to(os.fsdecode(data))


def roots_of(paths: Collection[str], mutated: Collection[str]) -> set[str]:
    """The directories that mutated files are imported from: the nearest ones that are no package; always the top."""
    packages = {path.rpartition("/")[0] for path in paths if path.endswith("__init__.py")}
    found = {"."}
    for path in mutated:
        folder = path.rpartition("/")[0]
        while folder in packages and folder:
            folder = folder.rpartition("/")[0]
        if not any(one.startswith((f"{folder}/test_", f"{folder}/conftest.py")) for one in paths):
            found.add(folder or ".")
    return found
