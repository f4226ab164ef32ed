"""The commit of a submodule's checkout, read without git: its configuration and hooks are the unit's to write.

Source: gitrepository-layout(5): `.git` is a directory or a file that names one; HEAD is an id or `ref: NAME`; a ref is
a file of that name or a line of packed-refs.

A child worktree, read without touching it: HEAD, operations in progress, status, hidden entries, special files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.errors import KtxError, Refused
from ktxkit.base.identity import git_dir_of
from ktxkit.base.reading import OPEN_DIRECTORY, small_file
from ktxkit.base.rules.text import printable
from ktxkit.git.git import Begun, Git, GitFailed, GitResult
from ktxkit.git.rules.checkout import ChildState, Status, parse_status
from ktxkit.git.staging import as_checked_out, settled

UNSEEN = re.compile(rb"^(?:warning|error): could not open directory '(.*)': ", re.MULTILINE)  # git's dir.c
_ID = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = re.compile(rb"refs/[A-Za-z0-9._/@+-]+\Z")


def gitlink_id(directory: int, name: bytes, admin: bytes) -> str | None:
    """The id; `""` where the submodule is not checked out; None where it cannot be read, or lies outside of `admin`.

    `directory` is the descriptor of the directory that the submodule lies in.
    """
    try:
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    except OSError:
        return None
    try:
        if ".git" not in os.listdir(fd):  # noqa: PTH208
            return ""
        place = _git_dir(fd, admin)
        if place is None:
            return None
        try:
            return head_of_directory(place)
        finally:
            os.close(place)
    finally:
        os.close(fd)


def _git_dir(fd: int, admin: bytes) -> int | None:
    """An open descriptor of the submodule's git directory."""
    try:
        return os.open(b".git", OPEN_DIRECTORY, dir_fd=fd)
    except OSError:
        pointer = small_file(fd, b".git")
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return None
    here = os.readlink(f"/proc/self/fd/{fd}".encode())  # noqa: PTH115
    place = os.path.realpath(os.path.join(here, pointer[8:].rstrip(b"\n")))  # noqa: PTH118
    if not admin or not place.startswith(admin.rstrip(b"/") + b"/"):
        return None
    try:
        return os.open(place, OPEN_DIRECTORY)
    except OSError:
        return None


def head_of_directory(directory: int) -> str | None:
    """The commit that HEAD of an open git directory names; None where it names none."""
    head = (small_file(directory, b"HEAD") or b"").strip()
    if _ID.match(head):
        return head.decode("ascii")
    ref = head.removeprefix(b"ref: ")
    if ref == head or not _REF.match(ref) or b".." in ref:
        return None
    loose = (_ref_file(directory, ref) or b"").strip()
    if _ID.match(loose):
        return loose.decode("ascii")
    packed = small_file(directory, b"packed-refs", 1 << 24) or b""
    found = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(ref) + rb"$", packed, re.MULTILINE)
    return found.group(1).decode("ascii") if found else None


def _ref_file(place: int, ref: bytes) -> bytes | None:
    """A ref's file, each directory on the way opened without following a link."""
    opened = []
    try:
        at = place
        *directories, last = ref.split(b"/")
        for part in directories:
            at = os.open(part, OPEN_DIRECTORY, dir_fd=at)
            opened.append(at)
        return small_file(at, last)
    except OSError:
        return None
    finally:
        for fd in opened:
            os.close(fd)


MARKS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "sequencer": "cherry-pick or revert of several commits",
    "BISECT_LOG": "bisect",
}
FIRST_MARK = next(iter(MARKS))
HERE = (
    "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-path", "index", "--git-path", FIRST_MARK,
    "HEAD^{commit}", "--symbolic-full-name", "HEAD",
)  # fmt: skip
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
    """The runner for a unit's checkout, in which no edit hides. `core.fileMode` is on where the file system has modes:
    git wrote them there when it made the worktree."""
    modes = {"core.fileMode": "true"} if keeps_modes(top) else {}
    return Git(top, git.env, {**git.config, **HONEST, **modes})


def honest_to_owner(git: Git, top: Path) -> Git:
    """The same for a checkout of the user's own, whose modes may mean nothing to them (`core.fileMode=false`)."""
    return Git(top, git.env, {**git.config, **HONEST})


def keeps_modes(top: Path) -> bool:
    """Whether a file here can lack the executable bit: git's own file in the checkout does."""
    mark = top / ".git"
    probe = mark if mark.is_file() else mark / "HEAD"
    return probe.is_file() and not probe.stat().st_mode & stat.S_IXUSR


class Here:
    """Where a checkout stands."""

    def __init__(
        self, top: Path, common_dir: Path, index: Path, operations: tuple[str, ...], head: str, branch: str | None
    ) -> None:
        self.top = top
        self.common_dir = common_dir  # shared by all worktrees
        self.index = index
        self.operations = operations  # what is not finished
        self.head = head  # commit
        self.branch = branch  # full ref; None where HEAD is detached


def here(git: Git) -> Here | None:
    """Where the checkout stands, in one call; None where git cannot tell all of it: `why_not_here` says why."""
    answer = git.run("rev-parse", *HERE, ok=(0, 128), twice=(128,))
    lines = answer.lines
    if answer.status != 0 or len(lines) != 6:
        return None
    top, common, index, mark, head, branch = lines
    unfinished = _unfinished(mark.removesuffix(FIRST_MARK))
    return Here(Path(top), Path(common), Path(index), unfinished, head, branch if branch != "HEAD" else None)


def why_not_here(git: Git) -> KtxError:
    """Why git cannot tell where the checkout stands, though it is one."""
    if git.resolve("HEAD") is None:
        return Refused("HEAD has no commit", location=str(git.cwd), hint="commit something first")
    return GitFailed(git.run("rev-parse", *HERE, ok=None))


def on_copy(git: Git, index: Path, copy: Path) -> Git:
    """The runner on a copy of the checkout's index, which it may write. Where there is none, git takes it as empty.

    The copy has the time of the original: entries as young as it are looked at by content, not by their stat data.
    Source: racy-git in git's technical documentation.
    """
    try:
        files.copy_with_times(index, copy)
    except FileNotFoundError:
        return git.having(GIT_INDEX_FILE=str(copy))
    return git.having(GIT_INDEX_FILE=str(copy))


def read_state(git: Git, copy: Git, here: Here, scratch: Path) -> ChildState:
    """The state of the checkout that `git` (see `honest`) runs in, by a copy of its index; `scratch` is ours.

    Two gits and we look at the same time.
    """
    with begin_look(copy, ignored="traditional") as look:
        unseen, special = hidden(copy, scratch), special_files(git)
        status = looked(look, whole=True)
    return ChildState(
        head=here.head,
        branch=here.branch,
        operations=here.operations,
        hidden=tuple(unseen),
        special=tuple(special),
        status=status,
    )


def _status(ignored: str) -> tuple[str, ...]:
    how = (f"--ignored={ignored}",) if ignored else ()
    return ("status", "--porcelain=v2", "-z", "-uall", "--ignore-submodules=none", "--no-renames", *how)


def read_status(git: Git, *, ignored: str = "", whole: bool = False) -> Status:
    """git's own view, every file named, but for what is as a checkout writes it (see `untouched`).

    `ignored`: `traditional` names each file, `matching` folds directories. `whole`: as in `looked`.
    """
    answer = git.run(*_status(ignored))
    if whole:
        require_readable(answer)
    return settled(git, parse_status(answer.out))


def begin_look(git: Git, *, ignored: str = "") -> Begun:
    """Begin to read the status, the commit of HEAD with it; `looked` waits for it."""
    return git.begin(*_status(ignored), "--branch", "--no-ahead-behind")


def looked(look: Begun, *, whole: bool = False) -> Status:
    """What a look saw. `whole`: raises Refused where git could not look into a directory. Raises GitFailed."""
    answer = look.answer()
    if whole:
        require_readable(answer)
    return settled(look.git, parse_status(answer.out))


def require_readable(answer: GitResult) -> None:
    """Raises Refused where git answered, and says beside it that it could not look into a directory: what is in there
    may be work, and is in no list."""
    found = UNSEEN.search(answer.err)
    if found is not None:
        hint = "chmod u+rwx it, or remove it; nothing was touched"
        raise Refused(f"git cannot look into {printable(found[1])}", location=str(answer.cwd), hint=hint)


def in_doubt(git: Git, paths: Collection[bytes]) -> frozenset[bytes]:
    """Those of the paths that git takes for modified, and that are as a checkout writes them."""
    changed = parse_status(git.run(*_status("")).out).changed
    return as_checked_out(git, [item.path for item in changed if item.xy == ".M" and item.path in paths])


def operations(git: Git) -> tuple[str, ...]:
    """What is not finished in the checkout that `git` runs at the top of: a merge, a rebase and their kin."""
    return _unfinished(f"{git_dir(git)}/")


def git_dir(git: Git) -> Path:
    """The git directory of the checkout that `git` runs at the top of; git is asked where no plain `.git` says it.

    Source: gitrepository-layout(5), "gitfile".
    """
    return git_dir_of(git.cwd) or Path(git.text("rev-parse", "--absolute-git-dir"))


def _unfinished(admin: str) -> tuple[str, ...]:
    return tuple(what for mark, what in MARKS.items() if os.path.lexists(admin + mark))


def hidden(git: Git, scratch: Path) -> list[bytes]:
    """Index entries whose edits git hides: assume-unchanged; skip-worktree where the file is there, or should be."""
    hits, skipped = [], []
    listed = git.run("ls-files", "-v", "-z")
    if listed.out.startswith(b"H ") and listed.out.count(b"\0H ") + 1 == listed.out.count(b"\0"):
        return []  # nothing but entries like any other: no need to take 50,000 of them apart
    for item in listed.nul:
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
        place = top + b"/" + inside
        with os.scandir(place) as listing:
            entries = [entry for entry in listing if not entry.is_file(follow_symlinks=False)]
        if inside and os.path.lexists(place + b"/.git"):
            continue  # another repository's
        for entry in entries:
            path = inside + b"/" + entry.name if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != b".git":
                    pending.append(path)
            elif not entry.is_symlink():
                yield path
