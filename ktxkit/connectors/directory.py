"""Reading a staged directory: regular files only, in order of their paths, no link followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ktxkit.effects import files
from ktxkit.errors import BrokenContract, CannotRun

FILE_LIMIT = 64 * 1024 * 1024  # bytes of one raw file
DEPTH_LIMIT = 32


def walk(top: Path) -> Iterator[tuple[str, Path, bool]]:
    """Raw path, path and whether it is a regular file, of everything below `top` but git's and our own directories.

    Names that are not UTF-8 come with surrogates; whoever keeps them must refuse them.
    """
    if not top.is_dir():
        raise CannotRun("no such directory", where=str(top), hint="name the directory of a staged bundle")
    yield from _walk(top, "", 0)


def _walk(directory: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path, bool]]:
    if depth > DEPTH_LIMIT:
        raise CannotRun(
            f"more than {DEPTH_LIMIT} directories in each other",
            where=str(directory),
            hint="name a directory further down, or look for one that holds itself",
        )
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        if entry.name in (".git", ".ktx"):
            continue
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{name}/", depth + 1)
        else:
            yield name, Path(entry.path), entry.is_file(follow_symlinks=False)


def content(path: Path) -> bytes:
    """A raw file's bytes. Raises CannotRun where it is too large, gone, or cannot be read."""
    try:
        return files.read(path, FILE_LIMIT)
    except OSError as error:
        raise CannotRun(
            f"cannot read it: {error.strerror}",
            where=str(path),
            hint="check permissions, and that nobody removed it meanwhile",
        ) from error
    except BrokenContract as error:
        raise CannotRun(error.message, where=str(path), hint=error.hint) from error
