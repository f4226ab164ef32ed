"""Trees for property tests: drawn by Hypothesis, written as loose objects without a process, checked out with os calls.

The object ids are computed here, independently of the code under test (gitformat-objects: a header, zlib; a tree's
entries sorted as if a directory's name ended in `/`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from ktxkit.store.rules.paths_policy import volatile
from ktxkit.work.rules.policy import is_control

REGULAR, EXECUTABLE, LINK = "100644", "100755", "120000"


class File(NamedTuple):
    """What stands at a path."""

    mode: str
    content: bytes


Files = Mapping[bytes, File]


@dataclass
class Store:
    """A writer of loose objects into an object directory."""

    objects: Path
    known: set[str] = field(default_factory=set, repr=False)

    @staticmethod
    def name(kind: str, content: bytes) -> str:
        """The id of an object, which need not be written."""
        return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()

    def put(self, kind: str, content: bytes) -> str:
        """Write an object; returns its id."""
        data = f"{kind} {len(content)}\0".encode() + content
        oid = hashlib.sha1(data).hexdigest()
        path = self.objects / oid[:2] / oid[2:]
        if oid not in self.known and not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(data, 1))
        self.known.add(oid)
        return oid

    def tree(self, files: Files) -> str:
        """The tree of files by path; parents are made of the paths."""
        names: dict[bytes, File | dict[bytes, File]] = {}
        for path, file in files.items():
            first, slash, rest = path.partition(b"/")
            if slash:
                inner = names.setdefault(first, {})
                assert isinstance(inner, dict), path
                inner[rest] = file
            else:
                names[first] = file
        entries = []
        for name, what in names.items():
            mode, oid = ("40000", self.tree(what)) if isinstance(what, dict) else (what.mode, self.blob(what))
            entries.append((name + b"/" if isinstance(what, dict) else name, mode, name, oid))
        lines = (b"%s %s\0" % (mode.encode(), name) + bytes.fromhex(oid) for _, mode, name, oid in sorted(entries))
        return self.put("tree", b"".join(lines))

    def blob(self, file: File) -> str:
        return self.put("blob", file.content)

    def commit(self, files: Files, *parents: str) -> str:
        who = "A <a@example.invalid> 1700000000 +0000"
        lines = [f"tree {self.tree(files)}", *(f"parent {p}" for p in parents), f"author {who}", f"committer {who}"]
        return self.put("commit", "\n".join([*lines, "", "m", ""]).encode())

    def forget(self) -> None:
        """Remove every object, so that what is read next is proven to come from elsewhere."""
        shutil.rmtree(self.objects)
        (self.objects / "info").mkdir(parents=True)
        (self.objects / "pack").mkdir()
        self.known.clear()


def materialise(top: Path, old: Files, new: Files) -> None:
    """Edit a checkout of `old` into `new` with file operations only, as a unit would."""
    for name in sorted(old, reverse=True):
        if name not in new or new[name] != old[name]:
            gone = _place(top, name)
            gone.unlink()
            while gone.parent != top and not any(gone.parent.iterdir()):
                gone = gone.parent
                gone.rmdir()
    for name, file in new.items():
        if old.get(name) == file:
            continue
        path = _place(top, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == LINK:
            path.symlink_to(os.fsdecode(file.content))
        else:
            path.write_bytes(file.content)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def _place(top: Path, name: bytes) -> Path:
    return top / os.fsdecode(name)


# -- what is drawn ---------------------------------------------------------------------------------

ODD = [
    b"a", b"b", b"c.txt", b"d", b"sp ace", b" lead", b"trail ", b"tab\there", b"new\nline", b'quo"te', b"back\\slash",
    b"-dash", b":colon", b"*glob", b"[x]", b"!bang", b"#hash", b"\xff\xfe", b"caf\xc3\xa9", b"cafe\xcc\x81", b"A",
    b"caf\xe9.txt",
    b"a.txt", b"a-b", b"a0", b"\x01ctl", b"{x,y}", b"$HOME", b"%41", b"x" * 120,
]  # fmt: skip


def _usable(name: bytes) -> bool:
    """A name that git keeps, and that no policy of ours speaks of."""
    return (
        name not in (b"", b".", b"..")
        and b"git" not in name.lower()
        and not volatile(name + b"/x")
        and not volatile(name)
        and not is_control(name.decode("utf-8", "surrogateescape"))
    )


_RANDOM = st.binary(min_size=1, max_size=6).map(lambda b: b.replace(b"\0", b"").replace(b"/", b"")).filter(_usable)
NAME = st.sampled_from(ODD) | _RANDOM
FEW = st.sampled_from(ODD[:6])  # so that the two sides of a merge meet
LINE = st.sampled_from([b"one\n", b"two\n", b"three\n", b"four\n", b"\n", b"crlf\r\n", b"caf\xc3\xa9\n", b"\xff\n"])


def _text(lines: list[bytes], *, last: bytes) -> bytes:
    return b"".join(lines) + last


TEXT = st.builds(_text, st.lists(LINE, max_size=12), last=st.sampled_from([b"", b"", b"no newline"]))
BINARY = st.binary(max_size=60).map(lambda b: b"\0" + b)
CONTENT = TEXT | TEXT | BINARY | st.binary(max_size=40)
FILE = st.one_of(
    st.builds(File, st.just(REGULAR), CONTENT),
    st.builds(File, st.sampled_from([REGULAR, EXECUTABLE]), CONTENT),
    st.builds(File, st.just(LINK), st.sampled_from([b"a", b"../b", b"no/such", b"\xff", b"sp ace"])),
)


def paths(name: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(name, min_size=1, max_size=3).map(b"/".join)


def put(files: dict[bytes, File], path: bytes, file: File) -> None:
    """Place a file; what is in its way, as a file or as a directory, goes."""
    for other in list(files):
        if other.startswith(path + b"/") or path.startswith(other + b"/"):
            del files[other]
    files[path] = file


@st.composite
def trees(draw: st.DrawFn, name: st.SearchStrategy[bytes] = NAME, size: int = 8) -> dict[bytes, File]:
    """A tree of at most `size` files."""
    made: dict[bytes, File] = {}
    for path in draw(st.lists(paths(name), max_size=size)):
        put(made, path, draw(FILE))
    return made


def _edited(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    at = draw(st.integers(0, len(lines)))
    new = draw(st.lists(LINE, max_size=2))
    return b"".join(lines[:at] + new + lines[at + draw(st.integers(0, 1)) :])


@st.composite
def edits(draw: st.DrawFn, base: Files, name: st.SearchStrategy[bytes] = NAME, most: int = 4) -> dict[bytes, File]:
    """The base with some edits: modify, replace, delete, add, mode, kind, move, copy, a directory in a file's place."""
    made = dict(base)
    for _ in range(draw(st.integers(0, most))):
        what = draw(st.sampled_from(["modify", "modify", "replace", "delete", "add", "mode", "move", "copy", "dir"]))
        here = draw(st.sampled_from(sorted(made))) if made else b""
        if what == "add" or not made:
            put(made, draw(paths(name)), draw(FILE))
        elif what == "modify":
            made[here] = made[here]._replace(content=_edited(draw, made[here].content).replace(b"\0", b"") or b"x")
        elif what == "replace":
            made[here] = draw(FILE)
        elif what == "delete":
            del made[here]
        elif what == "mode" and made[here].mode != LINK:
            made[here] = made[here]._replace(mode=EXECUTABLE if made[here].mode == REGULAR else REGULAR)
        elif what in ("move", "copy"):
            file = made[here]
            if what == "move":
                del made[here]
            put(made, draw(paths(name)), file)
        elif what == "dir":
            put(made, here + b"/" + draw(name), draw(FILE))
    return made
