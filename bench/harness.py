"""What the rows of the bench share: the row, its measure, and repositories to measure in."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
ENV = {
    **{key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "KTX_", "PYTHON"))},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.invalid",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.invalid",
}
Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One comparison. `make` prepares a fresh place for each round and returns our and the peer's work.

    A work is timed; where it returns a float, that is the figure instead, in `unit`. `rounds` bounds a long row's.
    """

    name: str
    peer: str
    target: float
    make: Callable[[Path], tuple[Work, Work]]
    unit: str = "s"
    rounds: int = 100


@dataclass(frozen=True)
class Measured:
    row: Row
    ours: list[float]
    peers: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.peers)


def run(*argv: str | Path, cwd: Path, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> bytes:
    done = subprocess.run(list(map(str, argv)), cwd=cwd, env=ENV, input=stdin, capture_output=True, check=False)
    if done.returncode not in ok:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


def ours(name: str) -> Path:
    return BIN / name


def repository(place: Path, files: int) -> Path:
    """A repository with so many small files in folders of a hundred."""
    repo = place / "repo"
    for number in range(files):
        folder = repo / f"d{number // 100:04d}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        (folder / f"f{number:06d}.txt").write_text(f"file {number}\n" + "line\n" * 8)
    run("git", "init", "-q", "-b", "main", repo, cwd=place)
    run("git", "add", "-A", cwd=repo)
    run("git", "commit", "-q", "-m", "base", cwd=repo)
    return repo


def measure(row: Row, rounds: int) -> Measured:
    """Each round in a fresh place; the peer first, so that what the first one warms serves ours no more than it."""
    mine: list[float] = []
    peers: list[float] = []
    for _ in range(min(rounds, row.rounds)):
        with tempfile.TemporaryDirectory(prefix="ktx-bench-") as folder:
            our_work, peer_work = row.make(Path(folder))
            for work, found in ((peer_work, peers), (our_work, mine)):
                began = time.perf_counter()
                said = work()
                found.append(said if isinstance(said, float) else time.perf_counter() - began)
    return Measured(row, mine, peers)
