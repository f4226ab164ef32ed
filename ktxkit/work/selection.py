"""Which uncommitted paths of a child worktree are taken, and the account of those that are not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import files
from ktxkit.base.errors import Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields, plural, printable
from ktxkit.git import merging, staging
from ktxkit.git.git import Git, GitFailed
from ktxkit.git.neutral import Neutral
from ktxkit.git.rules.checkout import Status
from ktxkit.git.rules.patch import Entry, entries_of, index_info, parse_staged, staged
from ktxkit.git.staging import is_plain_directory, stage
from ktxkit.store.rules.paths_policy import CandidatePathPolicy, PathClass

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import LeftOutPath, LeftOutPaths

    class LeftOut(TypedDict, total=False):
        """What a patch document says of paths that were not collected."""

        excluded: LeftOutPaths
        ignored: LeftOutPaths

    from ktxkit.base.documents import Patch

NAMED = 5  # names in one message


class Chosen(NamedTuple):
    """`take`: uncommitted paths to collect. The others: path and why it is not collected."""

    take: tuple[bytes, ...]
    excluded: tuple[tuple[bytes, str], ...] = ()
    ignored: tuple[bytes, ...] = ()

    def account(self, sample: int) -> LeftOut:
        """Counts with a sample of each, for the document."""
        made: LeftOut = {}
        if self.excluded:
            shown: list[LeftOutPath] = [{**path_fields(path), "reason": why} for path, why in self.excluded[:sample]]
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
    *,
    as_opened: bool = True,
) -> Chosen:
    """What git does not ignore is work; names that look like build output say nothing here.

    `attempt`: the policy of a lease. `as_opened`: the repository's own ignore rules are those of its snapshot; where
    somebody changed them since, they hide nothing that the snapshot does not ignore. What is left out by the policy's
    patterns is told; what the unit staged or committed is work, whatever git ignores.
    """
    rules = attempt or CandidatePathPolicy(
        tuple(policy.get("deliverables", ())),
        tuple(policy.get("generated", ())),
        frozenset(name.encode("utf-8", "surrogateescape") for name in copied),
    )
    take, excluded, ignored = [], [], []
    for path, tracked, git_ignored in _all(status):
        ignored_here = git_ignored and (as_opened or rules.ignore.ignored(path))
        verdict = rules.work(path, tracked=tracked, ignored=ignored_here)
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


class Staging(NamedTuple):
    """The tree of the chosen paths, by a copy of the checkout's index, which `git` has.

    The objects of many paths are written into `scratch` first, and go into the store as one pack.
    """

    git: Git
    paths: Sequence[bytes]
    neutral: Neutral
    scratch: Path

    @property
    def _store(self) -> Path:
        return Path(self.neutral.git.env["GIT_OBJECT_DIRECTORY"])

    @property
    def _writing(self) -> Git:
        if len(self.paths) <= staging.MANY:
            return self.git
        return self.git.having(**staging.stores(self.scratch / "new", self._store)).configured(**staging.QUICK)

    def stage(self, status: Status) -> None:
        """Make of the index HEAD's with those paths as the worktree has them.

        What was staged is taken back first, so that the worktree's content is read; where the checkout leaves out a
        path that was staged (sparse), what was staged is the work.
        """
        if not self.paths:
            return
        top, taken = os.fsencode(self.git.cwd), set(self.paths)
        if len(self.paths) > staging.MANY:
            files.make_dirs(self.scratch / "new")
        staged_only = {
            item.path
            for item in status.changed
            if item.xy in ("M.", "A.", "T.") and item.path in taken and not os.path.lexists(top + b"/" + item.path)
        }
        back = [item for item in status.changed if item.xy[0] != "." and item.path not in staged_only]
        if back:
            lines = b"".join(b"%s\t%s\0" % (item.head.encode("ascii"), item.path) for item in back)
            self.git.run("update-index", "-z", "--index-info", stdin=lines)
        stage(self._writing, [path for path in self.paths if path not in staged_only])

    def tree(self, head: str) -> str:
        """The tree, whose objects are in the store then. Raises Refused as `tree_of_worktree` does."""
        if not self.paths:
            found = self.neutral.tree_of(head)
            assert found is not None, "HEAD has a commit"
            return found
        tree = self._writing.text("write-tree")
        if self._writing is not self.git:
            staging.admit(self.neutral.git, self.scratch / "new", self._store)
        there = {entry.path for entry in merging.changes(self.neutral, head, tree) if entry.new.kind != "absent"}
        left = [path for path in self.paths if path not in there and _is_file(os.fsencode(self.git.cwd) + b"/" + path)]
        if left:  # as HEAD has it, or not taken at all
            kept = set(self.git.run("ls-files", "-z").nul)
            _require_taken(self.git, [path for path in left if path not in kept])
        return tree


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
    _require_taken(private, [path for path in paths if path not in listed])
    return private.text("write-tree")


def _require_taken(git: Git, absent: Sequence[bytes]) -> None:
    """Raises Refused where a file stands at a path that the index has not."""
    left = [path for path in absent if _is_file(os.fsencode(git.cwd) + b"/" + path)]
    if left:
        shown = ", ".join(printable(path) for path in left[:NAMED])
        raise Refused(
            f"git cannot take {plural(len(left), 'name')}: {shown}",
            location=str(git.cwd),
            hint="rename them, or remove them; nothing was touched",
        )


def without_left_out(
    git: Git, scratch: Path, entries: Sequence[Entry], tree: str, rules: CandidatePathPolicy
) -> tuple[str, list[tuple[bytes, str]]]:
    """The tree, which the entries lead to, without what the policy's patterns leave out, and those paths with the
    reason: what a unit committed or staged is left out as what it left is."""
    found = [(entry, rules.work(entry.path, tracked=True, ignored=False)) for entry in entries if rules.generated]
    out = [(entry, verdict.reason) for entry, verdict in found if verdict.path_class is PathClass.GENERATED]
    if not out:
        return tree, []
    private = git.having(GIT_INDEX_FILE=str(scratch / "index-left-out"))
    private.run("read-tree", tree)
    new = b"".join(b"0 %s\t%s\0" % (b"0" * len(tree), entry.path) for entry, _ in out if entry.old.kind == "absent")
    private.run("update-index", "-z", "--index-info", stdin=new + index_info([entry for entry, _ in out]))
    return private.text("write-tree"), [(entry.path, reason) for entry, reason in out]


def is_as(git: Git, scratch: Path, paths: Sequence[bytes], patch: Patch) -> bool:
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
    except GitFailed as error:
        if error.machinery:
            raise
        return False


def _is_file(path: bytes) -> bool:
    """A file or a link stands there; a directory in a file's place has entries of its own."""
    return os.path.islink(path) or os.path.isfile(path)  # noqa: PTH113, PTH114
