"""Changed means changed: a file whose bytes are what a checkout writes is untouched, whatever the clean filter says.

git asks the other way round: it cleans the file and compares with the blob. With a blob of CRLF under `text eol=crlf`,
or a filter that is not idempotent, a file is then modified in a checkout where nobody was, and only now and then: where
the times in the index are old enough git does not look. Sources: gitattributes(5), "eol"; racy-git in git's technical
documentation.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from ktxkit.base.identity import git_dir_of
from ktxkit.git.git import Git
from ktxkit.git.rules.child import SUBMODULE_NONE, Status
from ktxkit.git.rules.patch import Entry, index_info
from ktxkit.git.staging import beyond_a_link

PLAIN_FILES = ("100644", "100755")
BLOCK = 1 << 20


def settled(git: Git, status: Status) -> Status:
    """The status of the checkout that `git` runs at the top of, without files that are as a checkout writes them."""
    found = as_checked_out(
        git,
        [
            item.path
            for item in status.changed
            if item.xy == ".M" and item.sub == SUBMODULE_NONE and item.head[:6] in PLAIN_FILES
        ],
    )
    if not found:
        return status
    return status._replace(changed=tuple(item for item in status.changed if item.path not in found))


def as_checked_out(git: Git, paths: Sequence[bytes]) -> frozenset[bytes]:
    """Those tracked paths whose files, bytes and executable bit, are what a checkout of the index writes now."""
    top = os.fsencode(git.cwd)
    known: dict[bytes, bool] = {}
    there = [path for path in paths if not beyond_a_link(top, path, known) and _is_plain(top + b"/" + path)]
    if not there or not _may_convert(git, there):
        return frozenset()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ktx-written-") as aside:
        block = b"".join(path + b"\0" for path in there)
        # a required filter that fails is no answer to any path; the others are written all the same
        git.run("checkout-index", "-f", "-q", "-z", "--stdin", f"--prefix={aside}/", stdin=block, ok=None)
        written = os.fsencode(aside)
        return frozenset(path for path in there if _are_equal(written + b"/" + path, top + b"/" + path))


def touched(git: Git, scratch: Path, entries: Sequence[Entry], tree: str) -> tuple[str, list[Entry]]:
    """The tree, which the entries lead to, without files that nobody touched; and the entries of those.

    They stand in the worktree as a checkout of the old side writes them, and were staged or committed as git reads
    them. There are none where the change touches attributes: it says then how files are to be read.
    """
    same = _untouched(git, scratch / "index-of-base", entries)
    if not same:
        return tree, []
    private = git.having(GIT_INDEX_FILE=str(scratch / "index-touched"))
    private.run("read-tree", tree)
    private.run("update-index", "-z", "--index-info", stdin=index_info(same))
    return private.text("write-tree"), same


def _untouched(git: Git, index: Path, entries: Sequence[Entry]) -> list[Entry]:
    if any(entry.path.rpartition(b"/")[2] == b".gitattributes" for entry in entries):
        return []
    wanted = [e for e in entries if e.old.mode == e.new.mode and e.old.mode in PLAIN_FILES]
    if not wanted or not _may_convert(git, [entry.path for entry in wanted]):
        return []
    private = git.having(GIT_INDEX_FILE=str(index))
    private.run("update-index", "-z", "--index-info", stdin=index_info(wanted))
    found = as_checked_out(private, [entry.path for entry in wanted])
    return [entry for entry in wanted if entry.path in found]


def _may_convert(git: Git, paths: Iterable[bytes]) -> bool:
    """Whether attributes, or the user's settings, may make of a blob another file."""
    if git.config.get("core.autocrlf") != "false" or git.config.get("core.attributesFile") != os.devnull:
        return True
    admin = git_dir_of(git.cwd)
    if admin is None or os.path.lexists(_common(admin) / "info/attributes"):
        return True
    top = os.fsencode(git.cwd)
    folders = {path.rpartition(b"/")[0] for path in paths}
    above = {b"/".join(parts[:depth]) for parts in (f.split(b"/") for f in folders) for depth in range(len(parts) + 1)}
    return any(os.path.lexists(top + b"/" + folder + b"/.gitattributes") for folder in above)


def _common(admin: Path) -> Path:
    """The common directory of a git directory. Source: gitrepository-layout(5), "commondir"."""
    named = admin / "commondir"
    return admin / os.fsdecode(named.read_bytes().rstrip(b"\n")) if named.is_file() else admin


def _is_plain(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _are_equal(written: bytes, there: bytes) -> bool:
    if not (_is_plain(written) and _is_plain(there)):
        return False
    one, other = os.lstat(written), os.lstat(there)
    if one.st_size != other.st_size or (one.st_mode ^ other.st_mode) & stat.S_IXUSR:
        return False
    with open(written, "rb") as left, open(there, "rb") as right:
        while block := left.read(BLOCK):
            if block != right.read(BLOCK):
                return False
    return True
