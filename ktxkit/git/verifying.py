"""The checkout of a candidate, and a command in it: state before and after, output in a private log, nothing left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from ktxkit.base import files, owners, process
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.unit_process import end_strays
from ktxkit.git.child import read_status
from ktxkit.git.git import Git, GitFailed
from ktxkit.git.rules.checkout import CheckoutSnapshot, Signature


class VerificationResult(NamedTuple):
    """How a verification command ended. `status` is negative for a signal; 127 where it could not be started."""

    status: int
    timed_out: bool
    seconds: float
    strays: tuple[str, ...] = ()


def snapshot(git: Git) -> CheckoutSnapshot:
    """The semantic state of the checkout that `git` stands at the top of."""
    status = read_status(git)
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
    for path in read_status(git, ignored="matching").ignored:
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


def run_command(
    command: process.Command,
    *,
    log: Path,
    nonce: str,
    clock: Callable[[], float],
    started: Callable[[int], None],
) -> VerificationResult:
    """Run to its end or its limit, stdin closed, both streams in `log`; its group and strays are ended then.

    `started` is told the process group. The nonce in its environment lets recovery find what it left.
    """
    files.make_dirs(log.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(log, flags, files.PRIVATE_FILE), "wb", buffering=0) as stream:
        began = clock()
        try:
            child = process.start(
                command._replace(env={**command.env, owners.NONCE: nonce}), stdout=stream, stderr=stream
            )
        except CannotRun as error:
            if error.machinery:
                raise
            stream.write(f"{error.message}\n".encode("utf-8", "backslashreplace"))
            return VerificationResult(process.NOT_STARTED, False, clock() - began)
        in_time = process.wait_or_end(child, command.limit, started)
    return VerificationResult(child.returncode, not in_time, clock() - began, end_strays(nonce))


def end_recorded(pgid: int, started: int) -> None:
    """End the process group of a verification whose holder died; never another one that has its number now."""
    if owners.start_time(pgid) in (started, None):
        process.signal_group(pgid, signal.SIGKILL)


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
