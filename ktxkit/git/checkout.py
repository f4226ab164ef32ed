"""A checkout that must follow its branch: what is in its way, the fast-forward that is the move, and the way back.

A checkout in which a candidate is verified: its state before and after, and what appeared in it put aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ktxkit.base import files, process
from ktxkit.base.removal import delete_own
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git import child
from ktxkit.git.git import Git, GitFailed, GitResult
from ktxkit.git.repository import SMALL, parse_worktrees, registrations
from ktxkit.git.rules.checkout import CheckoutSnapshot, Obstacle, Signature, Status, obstacles, parents
from ktxkit.git.rules.patch import ABSENT, Entry, index_info, parse_staged
from ktxkit.git.staging import beyond_a_link

FAST_FORWARD = (
    "merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-verify", "--no-verify-signatures", "--no-squash",
    "--no-autostash",
)  # fmt: skip


class BranchHome(NamedTuple):
    """A worktree that has a branch, and how; `present`: its directory is there; `locked`: git is told to leave it."""

    path: Path
    operation: str
    present: bool
    locked: bool


CHECKED_OUT = "checked out"


def homes(git: Git, common_dir: Path, ref: str) -> list[BranchHome]:
    """Where a branch lives, with git's whole notion of it (branch.c, prepare_checked_out_branches): checked out, being
    rebased or bisected, or named by `rebase --update-refs`, in any worktree that is registered, missing ones too."""
    known = parse_worktrees(git.run("worktree", "list", "--porcelain", "-z").out)
    found = [
        BranchHome(entry.path, CHECKED_OUT, entry.path.is_dir(), entry.locked)
        for entry in known
        if entry.branch == ref and not entry.bare
    ]
    for admin in (common_dir, *registrations(common_dir)):
        how = _under_way(admin, os.fsencode(ref))
        if how:
            path = _stands_at(admin) if admin != common_dir else known[0].path  # the main one is the first
            found.append(BranchHome(path, how, path.is_dir(), (admin / "locked").exists()))
    return found


def _stands_at(admin: Path) -> Path:
    """The worktree of a registration, by its `gitdir` file."""
    return Path(os.fsdecode(_content(admin / "gitdir"))).parent


def _under_way(admin: Path, ref: bytes) -> str:
    """What a git that is not finished will do to a branch; empty where nothing. Files: wt-status.c, sequencer.c."""
    short = ref.removeprefix(b"refs/heads/")
    if ref in (_content(admin / "rebase-merge/head-name"), _content(admin / "rebase-apply/head-name")):
        return "being rebased"
    if _content(admin / "BISECT_START") in (ref, short) and (admin / "BISECT_LOG").exists():
        return "being bisected"
    if ref in _content(admin / "rebase-merge/update-refs").split(b"\n"):
        return "to be moved by a rebase (--update-refs)"
    return ""


def checkouts(common_dir: Path) -> list[Path]:
    """The top of every checkout of a repository that is there, read from files: the main one, where `.git` is its name,
    and each that is registered."""
    main = [common_dir.parent] if common_dir.name == ".git" else []
    return [top for top in (*main, *map(_stands_at, registrations(common_dir))) if top.is_dir()]


def locked(common_dir: Path, path: Path) -> bool:
    """Whether git is told to leave the worktree at `path` alone (`git worktree lock`), there or not."""
    return any((admin / "locked").exists() for admin in registrations_of(common_dir, path))


def registrations_of(common_dir: Path, path: Path) -> list[Path]:
    """The administrative directories of the worktree at `path`, there or not."""
    names = {os.path.realpath(path), _as_named(path)}
    found = ((admin, _stands_at(admin)) for admin in registrations(common_dir))
    return [admin for admin, top in found if names & {os.path.realpath(top), _as_named(top)}]


def _as_named(path: Path) -> str:
    """A path whose last name is taken as it is, a link too."""
    return os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118


def _content(path: Path) -> bytes:
    """A small file of a git directory without its last line break; empty where there is none."""
    return files.read(path, SMALL).removesuffix(b"\n") if path.is_file() else b""


def in_the_way(git: Git, entries: Sequence[Entry], status: Status) -> list[Obstacle]:
    """What the checkout that `git` runs in has at the paths of a change that is not as its index has it."""
    top = os.fsencode(git.cwd)
    added = [entry.path for entry in entries if entry.change == "added"]
    there = {path: kind for path in {*added, *_above(added)} if (kind := _kind(top, path))}
    inside = {path: list(_files(top, path)) for path in added if there.get(path) == "directory"}
    # a submodule that is only at another commit than its gitlink stays so, as git leaves it
    dirty = [item.path for item in status.changed if item.sub == "N..."] + [*status.unmerged, *status.untracked]
    return obstacles(entries, [*dirty, *_hidden(git, top)], there, inside)


def _above(paths: Iterable[bytes]) -> set[bytes]:
    return {parent for path in paths for parent in parents(path)}


def _hidden(git: Git, top: bytes) -> list[bytes]:
    """Entries whose edits git does not show and a fast-forward would overwrite."""
    found = []
    for item in git.run("ls-files", "-v", "-z").nul:
        tag, path = item[:1], item[2:]
        if tag.islower() or (tag == b"S" and os.path.lexists(top + b"/" + path)):
            found.append(path)
    return found


def _kind(top: bytes, path: bytes) -> str:
    """What stands at a path, never looked for through a link on the way to it; empty where nothing does."""
    full = top + b"/" + path
    if any(os.path.islink(top + b"/" + parent) for parent in parents(path)) or not os.path.lexists(full):  # noqa: PTH114
        return ""
    return "directory" if os.path.isdir(full) and not os.path.islink(full) else "file"  # noqa: PTH112, PTH114


def _files(top: bytes, path: bytes) -> Iterable[bytes]:
    for where, names in files.walk(top + b"/" + path):
        for name in names:
            yield os.path.relpath(where + b"/" + name, top)


def make_way(git: Git, entries: Sequence[Entry]) -> bool:
    """Remove files of a change that a fast-forward stops at though nobody touched them: they are as a checkout of the
    old side writes them, which `restore` does where it comes to that. True where there were any."""
    found = child.in_doubt(git, {entry.path for entry in entries})
    for path in found:
        _drop(os.fsencode(git.cwd), path)
    return bool(found)


def fast_forward(git: Git, new: str) -> GitResult:
    """Move branch, index and files together. How it ended is the caller's to judge, by what is there then; nothing is
    overwritten that git can see."""
    return git.attempt(*FAST_FORWARD, new)


class UserSettings(NamedTuple):
    """What a landing needs to know of the user's configuration."""

    filters: bool  # one is configured that writes files
    sign: bool  # `commit.gpgSign`
    name: str
    email: str


SETTINGS = r"^(filter\..*\.(smudge|process)|commit\.gpgsign|user\.(name|email))$"


def settings_of(git: Git) -> UserSettings:
    """The user's settings where `git` runs, in one question. Raises GitFailed for a value that git cannot read."""
    found = {}
    for entry in git.run("config", "-z", "--get-regexp", SETTINGS, ok=(0, 1)).nul:
        key, _, value = entry.partition(b"\n")
        found[key] = value.decode("utf-8", "surrogateescape")
    return UserSettings(
        filters=any(key.startswith(b"filter.") for key in found),
        sign=b"commit.gpgsign" in found and git.text("config", "--type=bool", "commit.gpgSign") == "true",
        name=found.get(b"user.name", ""),
        email=found.get(b"user.email", ""),
    )


def cannot_smudge(git: Git, entries: Sequence[Entry], new: str, scratch: Path) -> str:
    """Why the files of a change cannot be written here: a required filter that fails. Empty where they can.

    To be asked only where a filter is configured at all, since it writes them once more.
    """
    wanted = [entry.path for entry in entries if entry.new.kind in ("regular", "executable")]
    private = git.having(GIT_INDEX_FILE=str(scratch / "index"))
    private.run("read-tree", new)
    out = scratch / "out"
    files.make_dirs(out)
    block = b"".join(path + b"\0" for path in wanted)
    answer = private.run("checkout-index", "-f", "-z", "--stdin", f"--prefix={out}/", stdin=block, ok=None)
    delete_own(out)
    return "" if answer.status == 0 else answer.err.decode("utf-8", "replace").strip()


def restore(git: Git, entries: Sequence[Entry], quarantine: Path) -> list[bytes]:
    """Put the paths of a change back to their old side, in index and files, after a move that was cut off.

    Content that is neither side's is kept in `quarantine` first: a torn write of git, or a person's. Returns its paths.
    """
    kept = [entry.path for entry in entries if _foreign(git, entry)]
    for path in kept:
        _copy(os.fsencode(git.cwd) + b"/" + path, quarantine, path)
    gone = b"".join(
        b"%s %s\t%s\0" % (ABSENT.encode(), e.old.oid.encode(), e.path) for e in entries if e.old.mode == ABSENT
    )
    for entry in entries:
        if entry.old.mode == ABSENT:
            _drop(os.fsencode(git.cwd), entry.path)
    git.run("update-index", "-z", "--index-info", stdin=gone + index_info(entries))
    back = b"".join(e.path + b"\0" for e in entries if e.old.mode not in (ABSENT, "160000"))
    git.run("checkout-index", "-f", "-u", "-z", "--stdin", stdin=back)
    return kept


def index_lock(git: Git) -> Path:
    """Where git locks the index of this checkout."""
    return Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "index.lock"))


def remove_lock(git: Git) -> None:
    """Remove the index lock that `has_stale_lock` has found."""
    files.remove(index_lock(git))


def has_stale_lock(git: Git) -> bool:
    """Whether an index lock is there that no process has open, in a checkout where no git but ours ever works."""
    path = index_lock(git)
    return path.exists() and not process.has_open(path)


def run_alone(git: Git, *args: str) -> GitResult:
    """Run what may be run twice, in a checkout where no git but ours works: once more where it failed, without the
    lock that one of ours left there when it was killed. Raises GitFailed."""
    answer = git.attempt(*args)
    if answer.is_among((0,)):
        return answer
    if has_stale_lock(git):
        remove_lock(git)
    return git.run(*args)


def _foreign(git: Git, entry: Entry) -> bool:
    """Whether the file at the path is neither as the old side has it nor as the new one."""
    top = os.fsencode(git.cwd)
    full = top + b"/" + entry.path
    if beyond_a_link(top, entry.path, {}) or not os.path.lexists(full) or os.path.isdir(full):  # noqa: PTH112
        return False
    if os.path.islink(full):  # noqa: PTH114
        oid = git.run("hash-object", "--stdin", stdin=os.readlink(full)).text  # noqa: PTH115
    else:
        oid = git.text("hash-object", "--", entry.path)
    return oid not in (entry.old.oid, entry.new.oid)


def _copy(source: bytes, quarantine: Path, path: bytes) -> None:
    target = quarantine / os.fsdecode(path)
    files.make_dirs(target.parent)
    import shutil  # late: it loads every compression there is

    shutil.copy2(os.fsdecode(source), target, follow_symlinks=False)


def _drop(top: bytes, path: bytes) -> None:
    """Remove a file, and the directories above it that this leaves empty. Never through a link: that is elsewhere."""
    if beyond_a_link(top, path, {}):
        return
    try:
        os.unlink(top + b"/" + path)  # noqa: PTH108
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return  # gate-ok: it is not there, which is what was wanted
    for parent in sorted(parents(path), key=len, reverse=True):
        try:
            os.rmdir(top + b"/" + parent)  # noqa: PTH106
        except OSError:
            return  # gate-ok: not empty: others' files stand in it


def index_has(git: Git, entries: Sequence[Entry]) -> bool:
    """Whether the index has every path of a change as its new side."""
    paths = {entry.path for entry in entries}
    have = {item for item in parse_staged(git.run("ls-files", "-s", "-z").out) if item[2] in paths}
    return have == {(e.new.mode, e.new.oid, e.path) for e in entries if e.new.mode != ABSENT}


def head_of(git: Git) -> tuple[str, str]:
    """The commit of HEAD and the full ref of its branch ("HEAD": it is detached); empty where it has no commit."""
    words = ("rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
    answer = git.run(*words, ok=(0, 128), twice=(128,))
    head, _, branch = answer.text.partition("\n")
    return (head, branch) if answer.status == 0 else ("", "")


def status_of(git: Git) -> Status:
    """The status to compare before and after, with HEAD, ignored files, and ignored directories as such."""
    return child.looked(child.begin_look(git, ignored="matching"))


def snapshot(git: Git) -> CheckoutSnapshot:
    """The semantic state of the checkout that `git` stands at the top of."""
    status = child.read_status(git)
    facts = git.text("rev-parse", "HEAD", "HEAD^{tree}").split("\n")
    odd = [line for line in git.run("ls-files", "-v", "-z").nul if not line.startswith(b"H ")]
    tracked = repr((status.changed, status.unmerged, odd)).encode()
    return CheckoutSnapshot(
        head=facts[0],
        branch=git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text,
        head_tree=facts[1],
        index_tree=_index_tree(git) or "0" * len(facts[1]),
        status_digest=digest(tracked),
        untracked=frozenset(status.untracked),
    )


def _index_tree(git: Git) -> str:
    """The tree of the index; empty where it is unmerged: then it has none. Raises GitFailed."""
    answer = git.run("write-tree", ok=(0, 128), twice=(128,))
    if answer.status != 0 and b": unmerged (" not in answer.err:
        raise GitFailed(answer)
    return answer.text


def ignored_inventory(git: Git) -> dict[bytes, Signature]:
    """Every ignored file with its signature. Directories that are ignored as such are walked, not asked of git."""
    top = os.fsencode(git.cwd)
    found: dict[bytes, Signature] = {}
    for path in child.read_status(git, ignored="matching").ignored:
        if path.endswith(b"/"):
            _walk(top, path, found)
        else:
            _sign(top, path, found)
    return found


def _walk(top: bytes, path: bytes, found: dict[bytes, Signature]) -> None:
    pending = [path]
    while pending:
        inside = pending.pop()
        try:
            entries = list(os.scandir(top + b"/" + inside))
        except OSError:
            found[inside] = (-1,)  # it cannot be looked into: that it is there is all that is known
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(inside + entry.name + b"/")
            else:
                _sign(top, inside + entry.name, found)


def _sign(top: bytes, path: bytes, found: dict[bytes, Signature]) -> None:
    try:
        info = os.lstat(top + b"/" + path)
    except OSError:
        return  # gate-ok: it is not there: no signature says so
    found[path] = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)


def put_aside(git: Git, paths: Iterable[bytes], quarantine: Path) -> list[bytes]:
    """Move paths that appeared out of the checkout; never deleted, one may be a person's. Returns those moved."""
    top, moved = os.fsencode(git.cwd), []
    for path in sorted(paths):
        source = top + b"/" + path.rstrip(b"/")
        if not os.path.lexists(source):
            continue
        target = quarantine / os.fsdecode(path.rstrip(b"/"))
        files.make_dirs(target.parent)
        if os.path.lexists(target):
            target = target.with_name(f"{target.name}.{os.urandom(4).hex()}")
        import shutil

        shutil.move(os.fsdecode(source), target)
        moved.append(path)
        _prune(top, path)
    return moved


def _prune(top: bytes, path: bytes) -> None:
    """Remove the directories that a moved path leaves empty."""
    parts = path.rstrip(b"/").split(b"/")[:-1]
    while parts:
        try:
            os.rmdir(top + b"/" + b"/".join(parts))  # noqa: PTH106
        except OSError:
            return  # gate-ok: not empty: others' files stand in it
        parts.pop()
