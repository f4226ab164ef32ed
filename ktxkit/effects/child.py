"""A child worktree, read without touching it: HEAD, operations in progress, status, hidden entries, special files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ktxkit.core.child import ChildState
from ktxkit.core.status import Status, parse_status
from ktxkit.effects.git import Git, GitFailed
from ktxkit.errors import Refused

MARKS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "sequencer": "cherry-pick or revert of several commits",
    "BISECT_LOG": "bisect",
}
# What decides cleanliness besides content, set so that no edit hides; the user's filters stay on.
HONEST = {
    "core.checkStat": "default",
    "core.trustctime": "true",
    "core.ignoreStat": "false",
    "core.safecrlf": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.preloadIndex": "true",
    "status.renames": "false",
    "status.relativePaths": "false",
    "diff.ignoreSubmodules": "none",
}


def honest(git: Git, top: Path) -> Git:
    """The runner for a checkout in which no edit hides. `core.fileMode` is on where the file system has modes."""
    modes = {"core.fileMode": "true"} if keeps_modes(top) else {}
    return Git(top, git.env, {**git.config, **HONEST, **modes})


def keeps_modes(top: Path) -> bool:
    """Whether a file here can lack the executable bit: git's own file in the checkout does."""
    mark = top / ".git"
    probe = mark if mark.is_file() else mark / "HEAD"
    return probe.is_file() and not probe.stat().st_mode & stat.S_IXUSR


def read_state(git: Git, scratch: Path) -> ChildState:
    """The state of the checkout that `git` (see `honest`) runs in; `scratch` is an empty directory of ours.

    Raises Refused for an unborn HEAD.
    """
    head, branch, operations = _head(git)
    status = read_status(git, ignored="traditional")
    return ChildState(
        head=head,
        branch=branch,
        operations=operations,
        hidden=tuple(hidden(git, scratch)),
        special=tuple(special_files(git)),
        status=status,
    )


def read_status(git: Git, *, ignored: str = "") -> Status:
    """git's own view, every file named. `ignored`: `traditional` names each file, `matching` folds directories."""
    how = [f"--ignored={ignored}"] if ignored else []
    flags = ["--porcelain=v2", "-z", "-uall", "--ignore-submodules=none", "--no-renames", *how]
    return parse_status(git.run("status", *flags).out)


def _head(git: Git) -> tuple[str, str | None, tuple[str, ...]]:
    """The commit of HEAD, the full ref that it is on (None: detached), and what is not finished here.

    Raises Refused for an unborn HEAD.
    """
    first = next(iter(MARKS))
    asked = ("HEAD^{commit}", "--symbolic-full-name", "HEAD", "--path-format=absolute", "--git-path", first)
    answer = git.run("rev-parse", *asked, ok=None)
    if answer.status != 0:
        if git.resolve("HEAD") is None:
            raise Refused("HEAD has no commit", where=str(git.cwd), hint="commit something first")
        raise GitFailed(answer)
    head, branch, path = answer.text.split("\n", 2)
    return head, branch if branch != "HEAD" else None, _unfinished(path.removesuffix(first))


def operations(git: Git) -> tuple[str, ...]:
    """What is not finished here: a merge, a rebase and their kin."""
    first = next(iter(MARKS))
    return _unfinished(git.text("rev-parse", "--path-format=absolute", "--git-path", first).removesuffix(first))


def _unfinished(admin: str) -> tuple[str, ...]:
    return tuple(what for mark, what in MARKS.items() if os.path.lexists(admin + mark))


def hidden(git: Git, scratch: Path) -> list[bytes]:
    """Index entries whose edits git hides: assume-unchanged; skip-worktree where the file is there, or should be."""
    hits, skipped = [], []
    for item in git.run("ls-files", "-v", "-z").nul:
        tag, path = item[:1], item[2:]
        if tag == b"S":
            skipped.append(path)
        elif tag.islower():
            hits.append(path)
    top = os.fsencode(git.cwd)
    absent = [path for path in skipped if not os.path.lexists(top + b"/" + path)]
    wanted = set(inside_sparse(git, absent, scratch))
    present = set(skipped) - set(absent)
    return sorted({*hits, *present, *wanted})


def inside_sparse(git: Git, paths: Sequence[bytes], scratch: Path) -> list[bytes]:
    """Those of the paths that the sparse patterns want in the checkout; all of them where it is not sparse.

    The patterns are those of gitignore(5), so `check-ignore` answers, in an empty repository where no other rule is.
    """
    if not paths:
        return []
    if git.run("config", "--type=bool", "core.sparseCheckout", ok=(0, 1)).text != "true":
        return list(paths)
    patterns = git.text("rev-parse", "--path-format=absolute", "--git-path", "info/sparse-checkout")
    asked = Git(scratch, git.env, {"core.excludesFile": patterns})
    asked.run("init", "-q", "--template=", str(scratch))
    return _check_ignore(asked, "--no-index", paths)


def _nul(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def special_files(git: Git) -> list[bytes]:
    """Fifos, sockets and devices that git passes over in silence, but for those it is told to ignore."""
    found = sorted(_special(os.fsencode(git.cwd)))
    if not found:
        return []
    return sorted(set(found) - set(_check_ignore(git, "--index", found)))


def _check_ignore(git: Git, index: str, paths: Sequence[bytes]) -> list[bytes]:
    """Those of the paths that are ignored. Under GIT_LITERAL_PATHSPECS=1 check-ignore refuses every path."""
    env = {"GIT_LITERAL_PATHSPECS": "0"}
    return git.run("check-ignore", index, "-z", "--stdin", stdin=_nul(paths), ok=(0, 1), env=env).nul


def _special(top: bytes) -> Iterator[bytes]:
    pending = [b""]
    while pending:
        inside = pending.pop()
        with os.scandir(top + b"/" + inside) as listing:
            entries = list(listing)
        if inside and any(entry.name == b".git" for entry in entries):
            continue  # another repository's
        for entry in entries:
            path = inside + b"/" + entry.name if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != b".git":
                    pending.append(path)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                yield path
