"""Which uncommitted paths of a child worktree are taken, and the account of those that are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktxkit.core.paths_policy import CandidatePathPolicy, PathClass
from ktxkit.core.status import Status
from ktxkit.core.text import path_fields
from ktxkit.effects.git import Git


@dataclass(frozen=True)
class Chosen:
    """`take`: uncommitted paths to collect. The others: path and why it is not collected."""

    take: tuple[bytes, ...]
    excluded: tuple[tuple[bytes, str], ...] = ()
    ignored: tuple[bytes, ...] = ()

    def account(self, sample: int) -> dict[str, Any]:
        """Counts with a sample of each, for the document."""
        made: dict[str, Any] = {}
        if self.excluded:
            shown = [{**path_fields(path), "reason": why} for path, why in self.excluded[:sample]]
            made["excluded"] = {"count": len(self.excluded), "sample": shown}
        if self.ignored:
            shown = [{**path_fields(path), "reason": "git-ignored"} for path in self.ignored[:sample]]
            made["ignored"] = {"count": len(self.ignored), "sample": shown}
        return made


def choose(status: Status, policy: Mapping[str, Any], copied: Sequence[str]) -> Chosen:
    """What could become source by the path policy that the observer has too; git says what is ignored."""
    rules = CandidatePathPolicy(
        tuple(policy.get("deliverables", ())),
        tuple(policy.get("generated", ())),
        frozenset(name.encode("utf-8", "surrogateescape") for name in copied),
    )
    take, excluded, ignored = [], [], []
    for path, tracked, git_ignored in _all(status):
        verdict = rules.classify(path, tracked=tracked, ignored=git_ignored)
        if verdict.candidate:
            take.append(path)
        elif git_ignored and verdict.path_class not in (PathClass.COPIED, PathClass.CONTROL):
            ignored.append(path)
        elif not git_ignored:
            excluded.append((path, verdict.reason))
    return Chosen(tuple(sorted(take)), tuple(sorted(excluded)), tuple(sorted(ignored)))


def _all(status: Status) -> Iterator[tuple[bytes, bool, bool]]:
    """Path, whether it is tracked, whether git ignores it."""
    for item in status.changed:
        yield item.path, True, False
    for path in status.untracked:
        yield path, False, False
    for path in status.ignored:
        yield path, False, True


def tree_of_worktree(git: Git, index: Path, paths: Sequence[bytes], head: str) -> str:
    """The tree of HEAD with those paths as the worktree has them, by an index of our own; the user's filters apply."""
    if not paths:
        found = git.resolve(head, "tree")
        assert found is not None
        return found
    private = git.having(GIT_INDEX_FILE=str(index))
    private.run("read-tree", head)
    block = b"".join(path + b"\0" for path in paths)
    private.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=block)
    return private.text("write-tree")
