"""Kill a command at any of its effects, run it again, and compare with an undisturbed run.

A scenario is a repository that is made once and put back before each trial, at the same path (worktrees name each other
by absolute paths; leases name directories by their inode, which is written anew).

After the n-th effect is before the next one: the same state of the disk is tried once. Of a child that only reads, its
start and its end are one state with what was before them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.commands import Ran, call
from tests.support.faults import FULL, Killed, count_effects, run_failing, run_killed, spread
from tests.support.repos import Repo

# What differs between two undisturbed runs: times, random names, and the ids of what holds a time.
_VOLATILE = {
    "at",
    "since",
    "nonce",
    "owner",
    "durationMs",
    "startedAt",
    "completedAt",
    "collectedAt",
    "evidenceDigest",
    "environmentDigest",
    "commit",
    "after",
    "before",
    "head",
    "createdAt",
    "integrationHead",
    "verification",
    "replayed",
    "logDigest",
    "openedAt",
    "closedAt",
    "leaseId",
    "device",
    "inode",
    "birthTimeNs",
    "snapshotDigest",
    "reused",
}
LAST = "(the end)"
# The full suite in pieces: KTX_TEST_PART=3/12 is the fourth twelfth of the kills of each scenario.
PART = tuple(map(int, os.environ.get("KTX_TEST_PART", "0/1").split("/")))
TURNS = 1  # effects of the next command at which it is killed too, for each kill, in the full suite
READS = re.compile(
    r"(spawn|exit) git (--version|rev-parse|cat-file|diff-tree|diff|ls-files|ls-tree|symbolic-ref -q|for-each-ref|log|"
    r"status|check-ignore|check-ref-format|merge-base|rev-list|config (-z )?--(get|type|list)|worktree list|var) ?"
)
# Journals, locks and earlier verifications are evidence; their number tells how often somebody tried.
_EVIDENCE = re.compile(r"(?:\.jsonl|\.lock)(?:$|\.)|/\.lock$|/verifications/[0-9]+\.json$|^locks/owners/")


# Names that are new for each try: the log of a verification that failed (it is kept), an attempt of a worktree.
_RANDOM = re.compile(r"(verify)-[0-9a-f]+-[0-9a-f]+(?=\.log$)|(?<=^attempts/)[0-9a-f]{32}(?=/)")
_KIND = "..."


@dataclass(frozen=True)
class Scenario:
    """A command in a place that can be put back. `more` gives what else must be the same at the end.

    `status`: how the command ends. `next`: the arguments of the command that comes after a kill (it looks at what is
    there), and `settled`: other ends of it that are right.
    """

    command: str
    args: Sequence[str | Path]
    repo: Repo
    template: Path
    more: Callable[[Repo], Any] = lambda repo: None
    status: int = 0
    next: Callable[[Repo], Sequence[str | Path]] | None = None
    settled: Callable[[Ran], bool] = lambda ran: False
    look: Callable[[Repo], Any] | None = None
    varies: frozenset[str] = frozenset()  # keys of documents that tell how often somebody tried

    def reset(self) -> None:
        put(self.template, self.place, self.place)

    @property
    def place(self) -> Path:
        return self.repo.path.parent

    def state(self) -> dict[str, Any]:
        """What is left: refs by tree, documents without what differs between two runs, files, the checkout."""
        if self.look is not None:
            return dict(self.look(self.repo))
        store = self.repo.path / ".ktx"
        # what a killed process had written aside is swept by the next one, or bears its name
        paths = {str(path.relative_to(store)): path for path in store.rglob("*") if not path.is_dir()}
        names = {_RANDOM.sub(_KIND, name): path for name, path in sorted(paths.items()) if not _EVIDENCE.search(name)}
        return {
            "refs": self.refs(),
            "files": sorted(names),
            "attempts": len(list((store / "attempts").glob("*"))),
            "documents": {n: plain(path, self.varies) for n, path in names.items() if n.endswith(".json")},
            "status": self.repo.git("status", "--porcelain", "-uall"),
            "worktrees": self.repo.git("worktree", "list", "--porcelain").count("worktree "),
            "locks": [str(path) for path in (self.repo.path / ".git").rglob("*.lock")],
            "more": self.more(self.repo),
        }

    def refs(self) -> list[str]:
        """Each ref with its tree and the number of commits behind it."""
        found = []
        for line in self.repo.git("for-each-ref", "--format=%(refname) %(tree)").split("\n"):
            name = line.partition(" ")[0]
            found.append(f"{line} {self.repo.git('rev-list', '--count', name)}")
        return found

    def again(self) -> Sequence[str | Path]:
        return self.next(self.repo) if self.next is not None else self.args

    def run(self) -> Ran:
        return call(self.command, *self.again(), cwd=self.repo.path)

    def effects(self) -> list[str]:
        self.reset()
        return count_effects(self.command, self.args, self.repo.path, status=self.status)

    def must_end_well(self, what: str, wanted: dict[str, Any]) -> None:
        """The next command ends as an undisturbed one, and leaves what that leaves."""
        ran = self.run()
        assert ran.status == self.status or self.settled(ran), (what, ran)
        wrong = unlike(self.state(), wanted)
        assert not wrong, (what, wrong, ran)


def plain(path: Path, varies: frozenset[str] = frozenset()) -> Any:
    """A document without what differs between two runs."""
    return _without(json.loads(path.read_bytes()), _VOLATILE | varies)


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, keys) for key, item in value.items() if key not in keys}
    return [_without(item, keys) for item in value] if isinstance(value, list) else value


@dataclass
class Count:
    """How often a process was killed: the command itself, and the one after it."""

    first: int = 0
    second: int = 0


def survive(scenario: Scenario, most: int, twice: int) -> Count:
    """Kill at up to `most` effects in each way, run again (after being killed at `twice` effects of that), compare.

    In the full suite every effect is tried that leaves another state of the disk than the one before it, and for each
    kill `TURNS` effects of the next command, others each time.
    """
    effects = scenario.effects()
    wanted = scenario.state()
    count, total, wrong = Count(), len(effects), list[str]()
    for n, when in _points(effects, most):
        scenario.reset()
        if not isinstance(_killed(scenario, scenario.args, n, when), Killed):
            continue
        count.first += 1
        what = f"{scenario.command}: killed {when} {n} ({effects[n]})"
        try:
            _again(scenario, what, wanted, count, total, twice)
        except AssertionError as error:
            wrong.append(str(error))
            assert FULL, wrong
    assert not wrong, "\n".join(wrong)
    return count


def _again(scenario: Scenario, what: str, wanted: dict[str, Any], count: Count, total: int, twice: int) -> None:
    """The next command, killed too where it is its turn, and run to its end."""
    saved = scenario.template.parent / "mid"
    turns = _other(count.first, total, TURNS if FULL and twice else twice)
    if turns:
        put(scenario.place, saved, scenario.place)
    for m in turns:
        second = _killed(scenario, scenario.again(), m, "torn" if m % 3 == 0 else "before")
        count.second += isinstance(second, Killed)
        scenario.must_end_well(f"{what}, then {second}", wanted)
        put(saved, scenario.place, scenario.place)
    scenario.must_end_well(what, wanted)


def _points(effects: Sequence[str], most: int) -> list[tuple[int, str]]:
    """Where to kill: before each effect, in the middle of each that has one, and after the last."""
    changes = [n for n, effect in enumerate(effects) if not READS.match(effect)]
    halves = [n for n in changes if effects[n] == "os.write" or effects[n].startswith("spawn")]
    before = [n for n in range(len(effects)) if n == 0 or n - 1 in set(changes)]
    found = [(before[k], "before") for k in spread(before, most)]
    found += [(halves[k], "torn") for k in spread(halves, max(2, most // 2))]
    found.append((len(effects) - 1, "after"))
    return found[PART[0] :: PART[1]] if FULL else found


def _killed(scenario: Scenario, args: Sequence[str | Path], n: int, when: str) -> Ran | Killed:
    """Killed there; a child that dies with it gets some milliseconds first, others each time."""
    return run_killed(scenario.command, args, scenario.repo.path, n, when, delay=n % 6 * 0.001)


def _other(turn: int, total: int, count: int) -> list[int]:
    """Effects at which the next run is killed too: others in every turn, so that all get theirs."""
    return [(turn * 31 + k * total // max(count, 1)) % total for k in range(count)]


def endure(scenario: Scenario, most: int, errors: Sequence[str]) -> list[tuple[str, str, Ran]]:
    """Let the disk fail at up to `most` effects with each error; what the command said then. The next one repairs.

    Each must end with a status and a message, never with a traceback.
    """
    effects = scenario.effects()
    wanted = scenario.state()
    told = []
    for error in errors:
        hit = [n for n, effect in enumerate(effects) if effect.startswith(REFUSES[error])]
        for n in (hit[k] for k in spread(hit, most)):
            scenario.reset()
            ran = run_failing(scenario.command, scenario.args, scenario.repo.path, n, error)
            what = f"{scenario.command}: {error} at {n} ({effects[n]})"
            said_so(what, ran, scenario.status)
            told.append((error, effects[n], ran))
            scenario.must_end_well(f"{what}, which said {ran}", wanted)
    return told


REFUSES = {
    "ENOSPC": ("os.write", "os.open", "os.mkdir"),
    "EROFS": ("os.write", "os.open", "os.mkdir", "os.replace", "os.unlink", "os.fsync"),
    "EIO": ("os.fsync", "os.write", "os.replace"),
    "EMFILE": ("os.open", "spawn"),
    "ENOMEM": ("os.mkdir", "os.write", "spawn"),
}


def said_so(what: str, ran: Ran, well: int) -> None:
    """It ended as always (the fault was in what it may go without), or said what failed, where, and what to do."""
    assert "Traceback" not in ran.err, (what, ran)
    if ran.status == well:
        return
    assert ran.status in (1, 2, 3, 4), (what, ran)
    assert "hint: " in ran.err, (what, ran)


def unlike(found: Any, wanted: Any, place: str = "") -> list[str]:
    """Where two states differ, with both sides."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted({*found, *wanted})
        return [line for key in keys for line in unlike(found.get(key), wanted.get(key), f"{place}/{key}")]
    if isinstance(found, list) and isinstance(wanted, list):
        extra = [item for item in found if item not in wanted]
        missing = [item for item in wanted if item not in found]
        return (
            [f"{place}: too many {extra}, too few {missing}"] if extra or missing or len(found) != len(wanted) else []
        )
    return [] if found == wanted else [f"{place}: {found} instead of {wanted}"]


def put(source: Path, target: Path, place: Path) -> None:
    """A copy of everything instead of what is there. Leases whose directory was the source's mean the copy's now.

    `place`: what the paths inside lead to.
    """
    for item in target.iterdir() if target.exists() else ():  # the target itself may be a mount
        shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for path in target.rglob("lease.json"):
        lease = json.loads(path.read_text())
        inside = os.path.relpath(lease["path"], place)
        if (source / inside).is_dir() and (source / inside).stat().st_ino == lease["inode"]:
            lease["inode"] = (target / inside).stat().st_ino
            lease.pop("birthTimeNs", None)
            path.write_text(json.dumps(lease, indent=2) + "\n")


def template_of(repo: Repo, aside: Path) -> Path:
    """Keep the repository as it is, to be put back."""
    put(repo.path.parent, aside / "template", repo.path.parent)
    return aside / "template"
