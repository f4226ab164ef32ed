"""`git status --porcelain=v2 -z`, parsed. Source: git-status(1), "Porcelain Format Version 2"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SUBMODULE_NONE = "N..."


@dataclass(frozen=True)
class Changed:
    """A tracked path that differs. `xy`: index against HEAD, worktree against index; `sub` as git has it."""

    path: bytes
    xy: str
    sub: str = SUBMODULE_NONE
    head: str = ""  # mode and id in HEAD; zeros where HEAD has no such path

    @property
    def intent_to_add(self) -> bool:
        return self.xy == ".A"


@dataclass(frozen=True)
class Status:
    """What git says of a checkout. A name that ends in `/` is a nested repository (or a folded ignored directory)."""

    changed: tuple[Changed, ...] = ()
    unmerged: tuple[bytes, ...] = ()
    untracked: tuple[bytes, ...] = ()
    ignored: tuple[bytes, ...] = field(default=(), compare=False)
    head: str = ""  # the commit of HEAD, where it was asked for

    @property
    def clean(self) -> bool:
        return not (self.changed or self.unmerged or self.untracked)

    @property
    def staged_only(self) -> tuple[bytes, ...]:
        """Paths whose staged content is neither that of HEAD nor that of the file."""
        return tuple(item.path for item in self.changed if item.xy[0] not in ".D" and item.xy[1] != ".")

    @property
    def dirty(self) -> list[bytes]:
        """Every path with uncommitted work, sorted."""
        return sorted({*(item.path for item in self.changed), *self.unmerged, *self.untracked})


def parse_status(data: bytes) -> Status:
    """Raises ValueError for output that is not of this format."""
    changed: list[Changed] = []
    unmerged: list[bytes] = []
    untracked: list[bytes] = []
    head = ""
    ignored: list[bytes] = []
    fields: Iterator[bytes] = iter(data.split(b"\0"))
    for line in fields:
        if line.startswith(b"# branch.oid "):
            head = line[13:].decode("ascii")
        if not line or line.startswith(b"# "):
            continue
        kind = line[:2]
        if kind == b"1 ":
            words = line.split(b" ", 8)
            xy, sub, mode, oid = (words[number].decode("ascii") for number in (1, 2, 3, 6))
            changed.append(Changed(words[8], xy, sub, f"{mode} {oid}"))
        elif kind == b"2 ":
            words = line.split(b" ", 9)
            changed.append(Changed(words[9], words[1].decode("ascii"), words[2].decode("ascii")))
            changed.append(Changed(next(fields), "D.", SUBMODULE_NONE))
        elif kind == b"u ":
            unmerged.append(line.split(b" ", 10)[10])
        elif kind == b"? ":
            untracked.append(line[2:])
        elif kind == b"! ":
            ignored.append(line[2:])
        else:
            raise ValueError(f"not a status line: {line[:80]!r}")
    return Status(tuple(changed), tuple(unmerged), tuple(untracked), tuple(ignored), head)
