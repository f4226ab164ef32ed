"""Reading a staged directory: in order of the paths, no link followed, nothing left out without a word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract, CannotRun

FILE_LIMIT = 64 * 1024 * 1024  # bytes of one raw file
DEPTH_LIMIT = 32


FILE, DIRECTORY, LINK, SPECIAL = "file", "directory", "symbolic link", "special file"


class Found(NamedTuple):
    """Something below a directory: its raw path, its path, and which of the four kinds it is."""

    name: str
    path: Path
    kind: str


def walk(top: Path) -> Iterator[Found]:
    """Everything below `top` but git's and our own directories; a directory comes before what is in it.

    Names that are not UTF-8 come with surrogates; whoever keeps them must refuse them. Raises CannotRun for a directory
    that cannot be read: what is in it must not be taken for deleted.
    """
    if not top.is_dir():
        raise CannotRun("no such directory", where=str(top), hint="name the directory of a staged bundle")
    yield from _walk(top, "", 0)


def _walk(directory: Path, prefix: str, depth: int) -> Iterator[Found]:
    if depth > DEPTH_LIMIT:
        raise CannotRun(
            f"more than {DEPTH_LIMIT} directories in each other",
            where=str(directory),
            hint="name a directory further down, or look for one that holds itself",
        )
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise _unreadable(directory, error) from error
    for entry in entries:
        if entry.name in (".git", ".ktx"):
            continue
        one = Found(f"{prefix}{entry.name}", Path(entry.path), _kind(entry))
        yield one
        if one.kind == DIRECTORY:
            yield from _walk(one.path, f"{one.name}/", depth + 1)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return DIRECTORY
    return FILE if entry.is_file(follow_symlinks=False) else SPECIAL


def _unreadable(path: Path, error: OSError) -> CannotRun:
    return CannotRun(
        f"cannot read it: {error.strerror}",
        where=str(path),
        hint="check permissions, and that nobody removed it meanwhile",
    )


def no_file(one: Found, expected: str = "a file of the source") -> CannotRun:
    """The error for what stands in a raw file's place and is none: left out, it would be taken for deleted."""
    return CannotRun(
        f"it is a {one.kind}, where {expected} is expected",
        where=str(one.path),
        hint="put the file or directory itself there (no link is followed), or remove it if it is gone at the source",
    )


def content(path: Path) -> bytes:
    """A raw file's bytes. Raises CannotRun where it is too large, gone, or cannot be read."""
    try:
        return files.read(path, FILE_LIMIT)
    except OSError as error:
        raise _unreadable(path, error) from error
    except BrokenContract as error:
        raise CannotRun(error.message, where=str(path), hint=error.hint) from error
