"""Which uncommitted paths of a child worktree are taken, and the account of those that are not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktxkit.core.patch import entries_of, parse_staged, staged
from ktxkit.core.paths_policy import CandidatePathPolicy, PathClass
from ktxkit.core.status import Status
from ktxkit.core.text import path_fields, plural, printable
from ktxkit.effects.git import Git, GitFailed
from ktxkit.effects.staging import is_plain_directory, stage
from ktxkit.errors import Refused

NAMED = 5  # names in one message


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


def choose(
    status: Status,
    policy: Mapping[str, Any],
    copied: Sequence[str],
    attempt: CandidatePathPolicy | None = None,
) -> Chosen:
    """What could become source by the path policy that the observer has too.

    `attempt`: the policy of a lease, whose snapshot of the ignore rules decides; without a lease git says what is
    ignored. What the unit staged or committed is work, whatever its class.
    """
    rules = attempt or CandidatePathPolicy(
        tuple(policy.get("deliverables", ())),
        tuple(policy.get("generated", ())),
        frozenset(name.encode("utf-8", "surrogateescape") for name in copied),
    )
    take, excluded, ignored = [], [], []
    for path, tracked, git_ignored in _all(status):
        verdict = rules.classify(path, tracked=tracked, ignored=None if attempt else git_ignored)
        unkeepable = verdict.path_class is PathClass.CONTROL and not git_ignored and not path.startswith(b".ktx/")
        if verdict.candidate or unkeepable:  # a name like `.GIT`: taken, so that it is refused by name, never left out
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
    """The tree of HEAD with those paths as the worktree has them, by an index of our own; the user's filters apply.

    Raises Refused for a name that git cannot take (`.GIT`, `git~1`): update-index passes such ones over and answers 0.
    """
    if not paths:
        found = git.resolve(head, "tree")
        assert found is not None
        return found
    private = git.having(GIT_INDEX_FILE=str(index))
    private.run("read-tree", head)
    stage(private, paths)
    listed = set(private.run("ls-files", "-z").nul)
    left = [path for path in paths if path not in listed and _is_file(os.fsencode(git.cwd) + b"/" + path)]
    if left:
        shown = ", ".join(printable(path) for path in left[:NAMED])
        raise Refused(
            f"git cannot take {plural(len(left), 'name')}: {shown}",
            where=str(git.cwd),
            hint="rename them, or remove them; nothing was touched",
        )
    return private.text("write-tree")


def is_as(git: Git, scratch: Path, paths: Sequence[bytes], patch: Mapping[str, Any]) -> bool:
    """Whether those uncommitted paths stand in the worktree exactly as a patch document has them, and no others differ.

    Both must count from the same commit. Much less work than a tree of the whole repository, and only a shortcut to it:
    what fails here is False, and fails there too where it must.
    """
    try:
        entries = entries_of(patch)
    except ValueError:
        return False
    if {entry.path for entry in entries} != set(paths):
        return False
    private = git.having(GIT_INDEX_FILE=str(scratch / "index-of-paths"))
    top = os.fsencode(git.cwd)
    try:
        # A file that became a directory is a deletion: an empty index has nothing to delete, and git stops there.
        stage(private, [path for path in paths if not is_plain_directory(top, path)])
        return parse_staged(private.run("ls-files", "-s", "-z").out) == staged(entries)
    except GitFailed:
        return False


def _is_file(path: bytes) -> bool:
    """A file or a link stands there; a directory in a file's place has entries of its own."""
    return os.path.islink(path) or os.path.isfile(path)  # noqa: PTH113, PTH114
