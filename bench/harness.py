"""What the rows of the bench share: the row, its measure, and repositories to measure in."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

BIN = Path(sys.executable).parent
PEERS = BIN.parent / "peers/bin"  # what `make bench` installs beside our environment
PLACE = "KTX_BENCH_DIR"  # where rows of one bench share what takes long to make
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
Works = tuple[Work, Work]


class PeerMissing(Exception):
    """A peer that is not installed here."""


@dataclass(frozen=True)
class Row:
    """One comparison. `make(place, n)` prepares it at a size and returns our and the peer's work.

    A work is timed; where it returns a float, that is the figure instead, in `unit`. A work is called `rounds` times;
    with `fresh`, each time of another `make` in another place. `growth` are smaller sizes that are measured too.
    """

    name: str
    n: int
    of: str  # what n counts
    peer: str
    target: float
    make: Callable[[Path, int], Works]
    unit: str = "s"
    rounds: int = 5
    fresh: bool = False
    growth: tuple[int, ...] = ()
    seconds: float = 90.0  # of wall time, all told; then the row is ended
    rss: float | None = None  # MB that our process may have resident at most
    limit: float | None = None  # seconds that our side may take at most

    @property
    def title(self) -> str:
        return f"{self.name}, {self.n:,} {self.of}" if self.of else self.name


@dataclass
class Measured:
    """Figures of a row at one size, in the order in which they were taken."""

    n: int
    ours: list[float] = field(default_factory=list)
    peers: list[float] = field(default_factory=list)
    rss: float = 0.0  # MB, the most of our processes
    peer_rss: float = 0.0

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.peers)


_peak = [0.0]  # MB of the largest process since it was last set to 0


def run(*argv: str | Path, cwd: Path, stdin: Iterable[bytes] | Path = (), ok: tuple[int, ...] = (0,)) -> bytes:
    """A process to its end: its output. Its peak memory (and that of what it waited for) is noted.

    Linux counts what we have had ourselves as a child's: so nothing large is ever held here.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        open(stdin, "rb") if isinstance(stdin, Path) else tempfile.TemporaryFile() as given,
    ):
        if not isinstance(stdin, Path):
            given.writelines(stdin)
            given.seek(0)
        child = subprocess.Popen(list(map(str, argv)), cwd=cwd, env=ENV, stdin=given, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        _peak[0] = max(_peak[0], usage.ru_maxrss / 1024)
        err.seek(0)
        if child.returncode not in ok:
            said = err.read().decode(errors="replace")[-1000:]
            raise RuntimeError(f"{Path(argv[0]).name} {argv[1:4]} ended with {child.returncode}: {said}")
        out.seek(0)
        return out.read()


def ours(name: str) -> Path:
    return BIN / name


def peak() -> float:
    """MB: the largest process since the work began, or since the row was made."""
    return _peak[0]


def had(peak: float) -> None:
    """A work says what memory was had where its figure comes from, if that ran before."""
    _peak[0] = max(_peak[0], peak)


def peer(name: str) -> Path:
    """A peer that `make bench` installs, or that is on PATH. Raises PeerMissing."""
    found = PEERS / name if (PEERS / name).exists() else shutil.which(name)
    if found is None:
        raise PeerMissing(f"peer missing: {name}")
    return Path(found)


def shared(key: str, build: Callable[[Path], object]) -> Path:
    """A place that the rows of one bench share; `build` fills it the first time."""
    place = Path(os.environ[PLACE]) / key
    if not (place / ".made").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        build(place)
        (place / ".made").touch()
    return place


def repository(place: Path, files: int, size: int = 56) -> Path:
    """A repository with so many files of about `size` bytes in folders of a hundred, packed and checked out."""
    repo = place / "repo"
    run("git", "init", "-q", "-b", "main", repo, cwd=place)
    run("git", "fast-import", "--quiet", cwd=repo, stdin=history(files, size))
    run("git", "reset", "-q", "--hard", cwd=repo)
    os.sync()
    time.sleep(0.1)
    run("git", "update-index", "-q", "--refresh", cwd=repo)  # no entry is as young as the index
    return repo


def history(files: int, size: int) -> Iterable[bytes]:
    yield b"commit refs/heads/main\ncommitter bench <bench@example.invalid> 1700000000 +0000\ndata 5\nbase\n\n"
    for number in range(files):
        content = f"file {number}\n".encode() + b"line\n" * ((size - 12) // 5)
        yield b"M 100644 inline %b\ndata %d\n%b\n" % (name(number).encode(), len(content), content)


def name(number: int) -> str:
    return f"d{number // 100:04d}/f{number:06d}.txt"


def measure(row: Row, n: int, rounds: int, tell: Callable[[Measured], object]) -> None:
    """Take the figures of a row at a size; `tell` is called after each round, with all so far.

    The peer comes first: what the first one warms serves ours no more than the peer in the next round.
    """
    found = Measured(n)
    with tempfile.TemporaryDirectory(prefix="ktx-bench-", dir=os.environ[PLACE]) as folder:
        for number in range(rounds):
            if number == 0 or row.fresh:
                place = Path(folder) / str(number)
                place.mkdir()
                our_work, peer_work = row.make(place, n)
            peer_took, found.peer_rss = _timed(peer_work, found.peer_rss)
            our_took, found.rss = _timed(our_work, found.rss)
            found.peers.append(peer_took)
            found.ours.append(our_took)
            tell(found)


def _timed(work: Work, before: float) -> tuple[float, float]:
    """What a work took, and the larger of `before` and its peak memory."""
    _peak[0] = 0.0
    began = time.perf_counter()
    said = work()
    took = time.perf_counter() - began
    return said if isinstance(said, float) else took, max(before, _peak[0])
