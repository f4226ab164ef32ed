"""The commit of a submodule's checkout, read without git: its configuration and hooks are the unit's to write.

Source: gitrepository-layout(5): `.git` is a directory or a file that names one; HEAD is an id or `ref: NAME`; a ref is
a file of that name or a line of packed-refs.
"""

from __future__ import annotations

import os
import re

from ktxkit.base.reading import OPEN_DIRECTORY, small_file

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
            return _head(place)
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


def _head(place: int) -> str | None:
    head = (small_file(place, b"HEAD") or b"").strip()
    if _ID.match(head):
        return head.decode("ascii")
    ref = head.removeprefix(b"ref: ")
    if ref == head or not _REF.match(ref) or b".." in ref:
        return None
    loose = (_ref_file(place, ref) or b"").strip()
    if _ID.match(loose):
        return loose.decode("ascii")
    packed = small_file(place, b"packed-refs", 1 << 24) or b""
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
