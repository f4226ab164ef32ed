"""The kinds of breaking change that a selector must not miss: each a small project, a change, and the tests that break.

One file each in `kinds/`: what breaks, what a precise answer leaves out, files before (`-- path`) and after (`== path`)
the change. Seventeen are those of a comparison in which testmon 2.2 missed eight. Its list names the eight; of the nine
that were caught it names ten words, of which the change of an ini file broke nothing and reran everything.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Kind(NamedTuple):
    """`before`: files of the project; `change`: new contents (None: deleted); `breaks`, `keeps`: node ids."""

    name: str
    origin: str
    before: dict[str, str]
    change: dict[str, str | None]
    breaks: list[str]
    keeps: list[str]
    environment: dict[str, str] = {}  # noqa: RUF012 - a value

    @property
    def after(self) -> dict[str, str]:
        return {path: text for path, text in {**self.before, **self.change}.items() if text is not None}


def files_of(text: str) -> dict[str, str]:
    """Files that stand in one, each behind a line `-- path`."""
    found: dict[str, str] = {}
    path = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("-- "):
            path = line[3:].strip()
            found[path] = ""
        else:
            found[path] += line
    return found


def load(place: Path) -> Kind:
    """One kind from its file."""
    said: dict[str, list[str]] = {"kind": [], "breaks": [], "keeps": [], "environment": []}
    files: dict[str, dict[str, list[str] | None]] = {"--": {}, "==": {}}
    lines: list[str] | None = None
    for line in place.read_text("utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if word in files and rest:
            path, _, deleted = rest.partition(" ")
            lines = files[word][path] = None if deleted else []
        elif lines is None:
            said[word].append(rest)
        else:
            lines.append(line)
    before, change = (
        {p: None if t is None else "".join(f"{one}\n" for one in t) for p, t in files[w].items()} for w in files
    )
    environment = dict(one.split("=", 1) for one in said["environment"])
    kept = {path: text for path, text in before.items() if text is not None}
    return Kind(place.stem, said["kind"][0], kept, change, said["breaks"], said["keeps"], environment)


KINDS = [load(place) for place in sorted((Path(__file__).parent / "kinds").glob("*.txt"))]
USES = [load(place) for place in sorted((Path(__file__).parent / "uses").glob("*.txt"))]
SEVENTEEN = [kind for kind in KINDS if "testmon" in kind.origin]
