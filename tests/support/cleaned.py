"""After a test that ended a job, `git ktx clean --yes` removes nothing that what stays does not hold.

What is there before: each blob that a ref leads to, and each file of a worktree that git does not ignore. Of a blob
that is gone afterwards each line must be somewhere: a merge wrote it into another blob.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.support.commands import call
from tests.support.repos import Repo

ENDS = ("report.json", "landing.json")
SAMPLE = 12  # of so many tests one, where not every one is looked at


def is_wanted(name: str, full: bool) -> bool:
    return full or zlib.crc32(name.encode()) % SAMPLE == 0


def check(place: Path) -> int:
    """Of every repository below `place` in which a job has ended. How many were checked."""
    ended = {path.parents[3] for name in ENDS for path in place.rglob(f".ktx/jobs/*/{name}")}
    return sum(_is_checked(Repo(path)) for path in sorted(ended))


def _is_checked(repo: Repo) -> bool:
    if any(path.is_fifo() for path in repo.path.rglob("*")):
        return False  # the git of this check would wait for its other end
    if not (repo.path / ".git").is_dir() or not repo.git("rev-parse", "-q", "--verify", "HEAD", check=False):
        return False
    before = _lines(repo, _accepted(repo))
    done = call("git-ktx", "clean", "--yes", cwd=repo.path)
    if done.status != 0:
        return False  # the test damaged the store: clean says so, and removes nothing more
    after = _lines(repo)
    kept = {line for lines in after.values() for line in lines}
    lost = {oid: lines - kept for oid, lines in before.items() if oid not in after and lines - kept}
    assert not lost, (repo.path, lost, done.out)
    return True


def _accepted(repo: Repo) -> list[str]:
    """Refs of what a job landed: it is in the target, also where a later unit of the job wrote over a line of it."""
    found = []
    for path in repo.path.glob(".ktx/jobs/*/report.json"):
        try:
            report = json.loads(path.read_bytes())
        except ValueError:
            continue  # gate-ok: the test damaged it, and nothing of its job counts as landed
        if "commitSha" in report:
            job = f"refs/ktx/*/{report['jobId']}"
            units = [unit for unit in report["workUnits"] if unit["outcome"] in ("accepted", "subsumed", "noop")]
            found += [f"{job}/integration", *(f"{job}/{unit['position']:04}-*" for unit in units)]
    return found


def _lines(repo: Repo, passed_over: Sequence[str] = ()) -> dict[str, set[bytes]]:
    """The lines of each blob that refs lead to, and of each file of work, by object id or path."""
    words = ["rev-list", "--objects", "--no-object-names", *(f"--exclude={ref}" for ref in passed_over), "--all"]
    listed = repo.git(*words, check=False).splitlines()
    found: dict[str, set[bytes]] = {}
    data, at = repo.git_bytes("cat-file", "--batch", stdin="\n".join(listed).encode()), 0
    while at < len(data):
        end = data.index(b"\n", at)
        oid, kind, *size = data[at:end].split(b" ")
        length = int(size[0]) if size else -1
        if kind == b"blob":
            found[oid.decode()] = set(data[end + 1 : end + 1 + length].splitlines())
        at = end + length + 2 if size else end + 1
    for link in repo.path.glob(".ktx/worktrees/*/*/.git"):
        tree = Repo(link.parent)
        for name in tree.git_bytes("ls-files", "-z", "-co", "--exclude-standard", check=False).split(b"\0"):
            path = tree.path / name.decode("utf-8", "surrogateescape")
            if name and path.is_file() and not path.is_symlink():
                found[str(path)] = set(path.read_bytes().splitlines())
    return found
