"""Trees compared, patched and merged in a neutral directory. Trees decide; a patch is the proven record of one side."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ktxkit.base import files, process
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.text import printable
from ktxkit.git import staging
from ktxkit.git.git import Git, GitFailed, GitResult
from ktxkit.git.listing import RAW
from ktxkit.git.neutral import Neutral
from ktxkit.git.rules.patch import Entry, Merged, index_info, parse_merge, parse_raw, parse_staged, staged

COPY = 1024 * 1024  # bytes moved at once
ROLES, SIDE = ("author", "committer"), "ktxkit <ktxkit@invalid> 0 +0000"
PATCH = (
    "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--inter-hunk-context=0",
    "--diff-algorithm=myers", "--ignore-submodules=none", "--submodule=short", f"-O{os.devnull}",
)  # fmt: skip


def changes(neutral: Neutral, old: str, new: str) -> list[Entry]:
    """What differs between two trees (ids of trees or commits), by the paths git reports."""
    if old == new:
        return []
    trees = (None, None) if neutral.promised else (neutral.tree_of(old), neutral.tree_of(new))
    if trees[0] is None or trees[1] is None:
        return parse_raw(_raw(neutral, old, new))  # it fetches, or says itself, what is missing
    return neutral.differ.entries(trees[0], trees[1])


def changed(git: Git, old: str, new: str) -> list[Entry]:
    """The same, asked of one git in a checkout."""
    return parse_raw(git.run(*RAW, old, new, "--").out)


def _raw(neutral: Neutral, *args: str) -> bytes:
    answer = neutral.git.run(*RAW, *args, "--", ok=None if neutral.promised else (0,))
    if answer.status != 0 and neutral.promised:  # a clone without trees
        neutral.promised.warm(*RAW, *args, "--")
        answer = neutral.git.run(*RAW, *args, "--")
    return answer.out


def prefetch(neutral: Neutral, oids: Iterable[str]) -> None:
    """In a partial clone, fetch those of the objects that are missing, at once. Raises CannotRun where none can."""
    if neutral.promised is None:
        return
    asked = sorted(set(oids))
    block = "".join(f"{oid}\n" for oid in asked).encode("ascii")
    told = neutral.git.run("cat-file", "--batch-check", stdin=block).lines
    missing = [line.partition(" ")[0] for line in told if line.endswith(" missing")]
    if missing:
        neutral.promised.fetch(missing)


def changed_objects(neutral: Neutral, tree: str, entries: Iterable[Entry]) -> list[str]:
    """Ids of every tree (the root too) and blob that the new tree has where it differs from the old one."""
    blobs, parents = [], {b""}
    for entry in entries:
        if entry.new.kind not in ("absent", "gitlink"):
            blobs.append(entry.new.oid)
        parent = entry.path.rpartition(b"/")[0]
        while parent not in parents:
            parents.add(parent)
            parent = parent.rpartition(b"/")[0]
    found = [neutral.objects.entry(tree, parent) for parent in sorted(parents) if parent]
    return [tree, *(entry.oid for entry in found if entry is not None and entry.mode == "040000"), *blobs]


class NoPatchError(Exception):
    """A change that no patch can carry; says why. Its objects can."""


def write_patch(
    neutral: Neutral,
    old: str,
    new: str,
    path: Path,
    limit: int,
    entries: Sequence[Entry] | None = None,
    proven: Callable[[], None] = lambda: None,
) -> tuple[str, int]:
    """The patch from tree to tree, streamed to a file and proved before the file has its name: its digest and bytes.

    `proven` is called between; where it raises, whatever was at `path` stays.

    Raises NoPatchError (and whatever was at `path` stays) where it has more than `limit` bytes, or does not make the
    new tree of the old one: git cannot read the name of an empty or binary file back from its header where that is
    ambiguous (`a /a `).
    """
    entries = changes(neutral, old, new) if entries is None else entries
    with files.written_aside(path) as fd:
        try:
            written = _streamed(neutral, old, new, fd, limit)
        except GitFailed:  # once more, from the beginning: it only reads
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            written = _streamed(neutral, old, new, fd, limit)
        aside = Path(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
        if not reproduces(neutral, entries, aside):
            raise NoPatchError("a patch of it would not make the same tree: git cannot read one of its names back")
        proven()
    return written


def _streamed(neutral: Neutral, old: str, new: str, fd: int, limit: int) -> tuple[str, int]:
    from blake3 import blake3

    hasher, size = blake3(), 0
    child = neutral.git.start(*PATCH, old, new, "--", stdin=process.NO_INPUT)
    assert child.stdout is not None and child.stderr is not None
    try:
        while chunk := child.stdout.read(COPY):
            size += len(chunk)
            if size > limit:
                child.kill()
                raise NoPatchError(f"git applies no patch of more than {limit} bytes")
            hasher.update(chunk)
            files.write_all(fd, chunk)
        err = child.stderr.read()
        if child.wait() != 0:
            raise GitFailed(GitResult(("git", *PATCH, old, new, "--"), neutral.directory, child.returncode, b"", err))
    finally:
        child.stdout.close()
        child.stderr.close()
        child.wait()
    return f"b3:{hasher.hexdigest()}", size


def file_digest(path: Path) -> tuple[str, int]:
    """Digest and bytes of a file, a chunk at a time. Raises OSError."""
    from blake3 import blake3

    hasher, size = blake3(), 0
    fd = files.open_regular(path)
    try:
        while chunk := os.read(fd, COPY):
            hasher.update(chunk)
            size += len(chunk)
    finally:
        os.close(fd)
    return f"b3:{hasher.hexdigest()}", size


def reproduces(neutral: Neutral, entries: Iterable[Entry], patch: Path) -> bool:
    """Whether the patch turns the old sides of the entries into exactly their new sides, on an index of its own."""
    entries = list(entries)
    with _new_index(neutral, "proof") as git:
        git.run("update-index", "-z", "--index-info", stdin=index_info(entries))
        if not _applied(git, patch) and not _applied(git, patch):  # what fails leaves the index as it was
            return False
        return parse_staged(git.run("ls-files", "-s", "-z").out) == staged(entries)


def tree_with_patch(neutral: Neutral, base_tree: str, patch: Path, *, bare: bool = False) -> str:
    """The tree that the patch makes of the base tree. Raises BrokenContract (invalid_patch) where it does not apply.

    `bare`: no document of ours names that base, a person does.
    """
    with _new_index(neutral, "apply") as git:
        git.run("read-tree", base_tree)
        if not _applied(git, patch) and not _applied(git, patch) and not _applied_when_fetched(neutral, git, patch):
            if bare:
                raise _not_taken(git.run("apply", "--cached", "--check", os.fspath(patch), ok=None), patch)
            raise BrokenContract(
                "the patch does not apply to the base tree that its document names",
                location=str(patch),
                hint="collect it again; a patch is applied to its own base, never to another tree",
                outcome="invalid_patch",
            )
        return git.text("write-tree")


def _not_taken(answer: GitResult, patch: Path) -> BrokenContract:
    """Why git does not take a patch that came from elsewhere."""
    said = next(iter(answer.err.splitlines()), b"").removeprefix(b"error: ")
    if b"No valid patches" in said or b"unrecognized input" in said:
        return BrokenContract(
            "there is no patch in it that git can read",
            location=str(patch),
            hint="PATCH is what `git diff --binary` or `patch-collect -o FILE` writes",
            outcome="invalid_patch",
        )
    made = "make it with `git diff --binary`, or patch-collect -o FILE"
    return BrokenContract(
        f"the patch does not apply to --base: {printable(said)}",
        location=str(patch),
        hint=made if b"without full index line" in said else "name the commit that it was made from with --base REV",
        outcome="invalid_patch",
    )


def _applied(git: Git, patch: Path) -> bool:
    """Whether git applied it to its index: all of it, or nothing. Raises GitFailed where it gave no answer."""
    return git.run("apply", "--cached", "--whitespace=nowarn", os.fspath(patch), ok=None).status == 0


def _applied_when_fetched(neutral: Neutral, git: Git, patch: Path) -> bool:
    """In a partial clone a patch that came from elsewhere may need blobs that nobody named."""
    if neutral.promised is None:
        return False
    env = {"GIT_INDEX_FILE": git.env["GIT_INDEX_FILE"]}
    neutral.promised.warm("apply", "--cached", "--check", os.fspath(patch), env=env)
    return _applied(git, patch)


@contextmanager
def _new_index(neutral: Neutral, name: str) -> Iterator[Git]:
    """An index that was never used: a reused one gave a false alarm."""
    path = neutral.directory / f"index-{name}"
    files.remove(path)
    try:
        yield neutral.index(name)
    finally:
        files.remove(path)


def merge(neutral: Neutral, base_tree: str, integration_tree: str, unit_tree: str, *, wide: bool = False) -> Merged:
    """The three-way merge of trees, on synthetic commits (a shallow clone has no history to merge by).

    The synthetic commits stay in the neutral directory and go with it; what the merge writes is in the user's store,
    flushed: where it is `wide`, as one pack.
    """
    ours = neutral.directory / "objects"
    base = _commit(ours, base_tree)
    unit = _commit(ours, unit_tree, base)
    integration = _commit(ours, integration_tree, base)
    store = Path(neutral.git.env["GIT_OBJECT_DIRECTORY"])
    words = ("merge-tree", "--write-tree", "-z", integration, unit)
    if not wide:
        return _merged(neutral.git.run(*words, ok=(0, 1), env=staging.stores(store, ours)))
    place = neutral.directory / "new"
    with staging.aside(place, store, ours) as env:
        answer = neutral.git.configured(**staging.QUICK).run(*words, ok=(0, 1), env=env)
        if answer.status == 0:
            staging.admit(neutral.git, place, store)
    return _merged(answer)


def _merged(answer: GitResult) -> Merged:
    try:
        return parse_merge(answer.out, answer.status)
    except ValueError as error:  # a status that is an answer, and none
        raise GitFailed(answer, hint=str(error)) from error


def _commit(objects: Path, tree: str, *parents: str) -> str:
    """A commit of ours in a private object directory, written as a loose object: a spawn costs more than all else.

    Source: git's documentation of its internals, "Object Storage".
    """
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), *(f"{role} {SIDE}" for role in ROLES)]
    body = "\n".join([*lines, "", "side", ""]).encode("ascii")
    data = b"commit %d\0" % len(body) + body
    import hashlib

    oid = (hashlib.sha256 if len(tree) == 64 else hashlib.sha1)(data, usedforsecurity=False).hexdigest()
    path = objects / oid[:2] / oid[2:]
    if not path.exists():
        files.write_new(path, zlib.compress(data, 1))
    return oid


def write_files(git: Git, tree: str, entries: Sequence[Entry]) -> None:
    """Write the new side of entries, as `tree` has it, into the files of the checkout that `git` stands at the top of.

    The index stays as it is. What stands there is overwritten: the caller has looked.
    """
    names = b"".join(entry.path + b"\0" for entry in entries)
    if names:
        words = ("--worktree", "--no-overlay", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run("restore", f"--source={tree}", *words, stdin=names)


def commit_tree(neutral: Neutral, tree: str, parent: str | None, message: str, seconds: int) -> str:
    """A commit of ours: no hooks, no signature, fixed author, time from the clock (seconds since the epoch)."""
    parents = ("-p", parent) if parent else ()
    git = neutral.as_author(seconds)
    return git.run("commit-tree", tree, *parents, "-F", "-", stdin=message.encode("utf-8", "surrogateescape")).text
