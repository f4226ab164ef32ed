"""Kill a command at any of its effects, run it again, and compare with an undisturbed run.

A scenario is a repository that is made once and put back before each trial, at the same path (worktrees name each other
by absolute paths).
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
from tests.support.faults import WHENS, Killed, count_effects, run_killed, spread
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
}
# Journals and locks are evidence; their number of lines tells how often somebody tried.
_EVIDENCE = re.compile(r"(?:\.jsonl|\.lock)(?:$|\.)|/\.lock$")


@dataclass(frozen=True)
class Scenario:
    """A command in a place that can be put back. `look` gives what must be the same at the end."""

    command: str
    args: Sequence[str | Path]
    repo: Repo
    template: Path
    more: Callable[[Repo], Any] = lambda repo: None

    def reset(self) -> None:
        shutil.rmtree(self.repo.path.parent)
        shutil.copytree(self.template, self.repo.path.parent, symlinks=True)

    def state(self) -> dict[str, Any]:
        """What is left: refs by tree, documents without what differs between two runs, files, the checkout."""
        store = self.repo.path / ".ktx"
        # what a killed process had written aside is swept by the next one, or bears its name
        names = sorted(str(path.relative_to(store)) for path in store.rglob("*") if not path.is_dir())
        return {
            "refs": self.refs(),
            "files": [name for name in names if not _EVIDENCE.search(name)],
            "documents": {name: plain(store / name) for name in names if name.endswith(".json")},
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

    def run(self) -> Ran:
        return call(self.command, *self.args, cwd=self.repo.path)

    def effects(self) -> list[str]:
        self.reset()
        return count_effects(self.command, self.args, self.repo.path)

    def killed(self, n: int, when: str) -> Ran | Killed:
        return run_killed(self.command, self.args, self.repo.path, n, when)


def plain(path: Path) -> Any:
    """A document without what differs between two runs."""
    return _without(json.loads(path.read_bytes()))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items() if key not in _VOLATILE}
    return [_without(item) for item in value] if isinstance(value, list) else value


def survive(scenario: Scenario, most: int, twice: int) -> int:
    """Kill at up to `most` effects in each way, run again (after being killed at `twice` effects of that), compare.

    Returns the number of kills. In the full suite every effect is tried.
    """
    effects = scenario.effects()
    wanted = scenario.state()
    kills = 0
    for when in WHENS:
        for n in spread(effects, most):
            scenario.reset()
            if not isinstance(scenario.killed(n, when), Killed):
                continue
            kills += 1
            saved = scenario.template.parent / "mid"
            for m in [None, *_other(n, len(effects), twice)]:
                if m is not None:
                    _put_back(scenario, saved)
                    kills += isinstance(scenario.killed(m, "after"), Killed)
                else:
                    _save(scenario, saved)
                again = scenario.run()
                what = f"{scenario.command}: killed {when} {n} ({effects[n]}), then {m}"
                assert again.status == 0, (what, again)
                wrong = unlike(scenario.state(), wanted)
                assert not wrong, (what, wrong)
    return kills


def _other(n: int, total: int, count: int) -> list[int]:
    """Effects at which the next run is killed too: others for every n, so that all get their turn."""
    return [(n * 31 + k * total // max(count, 1)) % total for k in range(count)]


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


def _save(scenario: Scenario, saved: Path) -> None:
    shutil.rmtree(saved, ignore_errors=True)
    shutil.copytree(scenario.repo.path.parent, saved, symlinks=True)


def _put_back(scenario: Scenario, saved: Path) -> None:
    shutil.rmtree(scenario.repo.path.parent)
    shutil.copytree(saved, scenario.repo.path.parent, symlinks=True)


def template_of(repo: Repo, aside: Path) -> Path:
    """Keep the repository as it is, to be put back."""
    shutil.copytree(repo.path.parent, aside / "template", symlinks=True)
    os.makedirs(aside, exist_ok=True)  # noqa: PTH103
    return aside / "template"
