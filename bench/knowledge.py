"""Mutation of knowledge: every source, measure, column, join and page of a tree is changed, one at a time.

    python -m bench.knowledge DIR [--under PREFIX] [--every N]

Each is emptied, cut off at every line, renamed, written in other letters (upper and lower case) and given an invisible
character. A plain search of the texts, which knows nothing of the gates, says which changes break something that
refers to what was changed; of each of these the gates must find something new. Unchanged trees have nothing new.
Prints the figures that stand in docs/gates.md, and what was missed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ktxkit.gates import facts as gate_facts
from ktxkit.gates.rules.artifacts import TreeFindings, judge
from ktxkit.gates.rules.findings import mark_inherited
from ktxkit.gates.rules.model import GateOptions, artifact_path
from ktxkit.gates.rules.scope import moved

Files = Mapping[bytes, bytes]
HIDDEN = "\u200b"
_NAME = re.compile(r"^(\s*(?:- )?(?:\{)?name: +)([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)
_TO = re.compile(r"^(\s*(?:- )?(?:\{)?to: +)([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)
_known: dict[str, Any] = {}


class Change(NamedTuple):
    """One changed tree. `what`: the name, or the line, that was changed; `breaks`: whether something refers to it."""

    kind: str
    how: str
    path: bytes
    files: Files
    breaks: bool
    what: str = ""


def facts_of(files: Files) -> dict[bytes, Any]:
    blobs = {hashlib.sha1(data).hexdigest(): data for data in files.values()}
    entries = [("100644", path, hashlib.sha1(data).hexdigest()) for path, data in sorted(files.items())]
    return gate_facts.of_tree(entries, b"", blobs.__getitem__, _known)


def judged(files: Files, former: frozenset[str] = frozenset()) -> TreeFindings:
    return judge(facts_of(files), frozenset(files), GateOptions(), former)


def modes(files: Files) -> dict[bytes, tuple[str, str]]:
    return {path: ("100644", hashlib.sha1(data).hexdigest()) for path, data in files.items()}


def found(base: TreeFindings, before: Files, change: Change, former: frozenset[str]) -> bool:
    """Whether the gates tell something of the change that they did not tell before."""
    after = judged(change.files, former)
    touched = sorted({path for path, _ in before.items() ^ change.files.items()})
    gone = moved(modes(before), modes(change.files), touched)
    new = mark_inherited(after.findings, base.findings, gone)
    return any(not one.inherited and one.severity in ("error", "warning") for one in new)


def changes(files: Files) -> Iterator[Change]:
    for path, data in sorted(files.items()):
        kind = artifact_path(path).kind
        if kind in ("source", "shard"):
            yield from _of_source(files, path, data.decode())
        elif kind == "page":
            yield from _of_page(files, path, data.decode())


def _with(files: Files, path: bytes, text: str | None, to: bytes | None = None) -> Files:
    made = {name: data for name, data in files.items() if name != path}
    if text is not None:
        made[to or path] = text.encode()
    return made


def _cuts(text: str) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    return ("".join(lines[:n]) for n in range(1, len(lines)))


def _of_source(files: Files, path: bytes, text: str) -> Iterator[Change]:
    used = Uses(files, path, text)
    yield Change("source", "emptied", path, _with(files, path, ""), True)
    for cut in _cuts(text):
        yield Change("source", "truncated", path, _with(files, path, cut), used.lost(cut), f"line {cut.count(chr(10))}")
    for match in _NAME.finditer(text):
        old = match[2]
        kind = "source" if match.start() == 0 or text[match.start()] == "n" else "entity"
        for how, new in (("renamed", f"{old}_x"), ("case", old.swapcase()), ("invisible", old[:1] + HIDDEN + old[1:])):
            changed = text[: match.start(2)] + new + text[match.end(2) :]
            breaks = how == "invisible" or used.lost(changed)
            yield Change(kind, how, path, _with(files, path, changed), breaks, old)
    for match in _TO.finditer(text):
        for how, new in (("renamed", f"{match[2]}_x"), ("case", match[2].swapcase()), ("invisible", match[2] + HIDDEN)):
            changed = text[: match.start(2)] + new + text[match.end(2) :]
            yield Change("join", how, path, _with(files, path, changed), True)


def _of_page(files: Files, path: bytes, text: str) -> Iterator[Change]:
    key = path.rpartition(b"/")[2].removesuffix(b".md").decode()
    link = re.compile(rf"\[\[{re.escape(key)}[\]#|]|^\s*- {re.escape(key)}$|\({re.escape(key)}\.md[)#]", re.MULTILINE)
    linked = any(link.search(data.decode("utf-8", "replace")) for name, data in files.items() if name != path)
    yield Change("page", "emptied", path, _with(files, path, ""), True)
    for cut in _cuts(text):
        yield Change("page", "truncated", path, _with(files, path, cut), cut.count("---\n") < 2)
    for how, new in (("renamed", f"{key}-x"), ("case", key.upper()), ("invisible", key + HIDDEN)):
        to = path.rpartition(b"/")[0] + b"/" + new.encode() + b".md"
        yield Change("page", how, path, _with(files, path, text, to), linked or how == "invisible")
    for match in re.finditer(r"`([A-Za-z_]\w*\.[A-Za-z_]\w*)`", text):
        source = match[1].partition(".")[0]
        own = any(name.endswith(f"/{source}.yaml".encode()) and b"/_schema/" not in name for name in files)
        table = re.compile(rf"table: .*\b{re.escape(match[1])}\s*$".encode(), re.MULTILINE)
        known = own or any(table.search(data) for name, data in files.items() if name.startswith(b"semantic-layer/"))
        changed = text[: match.end(1)] + HIDDEN + text[match.end(1) :]
        yield Change("reference", "invisible", path, _with(files, path, changed), known)


class Uses:
    """What the rest of a tree, and the file itself, say of the names that a file declares: by search alone."""

    def __init__(self, files: Files, path: bytes, text: str) -> None:
        self.path = path
        self.names = self._declared(text)
        self.pages = [data.decode("utf-8", "replace") for name, data in files.items() if name.endswith(b".md")]
        home = path.rpartition(b"/")[0]
        self.sources = [
            data.decode("utf-8", "replace")
            for name, data in files.items()
            if name != path and name.endswith((b".yaml", b".yml")) and name.startswith(home.partition(b"/_schema")[0])
        ]
        self.twins = {
            match[2]
            for name, data in files.items()
            if name != path and name.startswith(b"semantic-layer/")
            for match in [_NAME.search(data.decode("utf-8", "replace"))]
            if match is not None
        }
        for name, data in files.items():  # a connection that has the source too answers for it
            if name != path and b"/_schema/" in name:
                self.twins |= set(re.findall(r"^  ([A-Za-z_]\w*):\s*$", data.decode("utf-8", "replace"), re.MULTILINE))
        self.text = text

    @staticmethod
    def _declared(text: str) -> tuple[str, set[str]]:
        """The source's name, and its entities' names."""
        own = re.search(r"^name: +([A-Za-z_]\w*)", text, re.MULTILINE)
        names = {match[2] for match in _NAME.finditer(text)}
        return (own[1] if own else ""), names - ({own[1]} if own else set())

    def lost(self, changed: str) -> bool:
        """Whether something that referred to the file's source, or to one of its entities, does not find it now."""
        source, entities = self._declared(changed)
        old, before = self.names
        if old and source != old and old not in self.twins and self._source_used(old):
            return True
        return any(self._entity_used(old, name, changed) for name in before - entities)

    def _source_used(self, name: str) -> bool:
        join = re.compile(rf"^\s*(?:- )?\{{?to: +{re.escape(name)}\b", re.MULTILINE)
        span = rf"`(?:[\w-]+/)?(?:source:)?{re.escape(name)}\.\w+`|^\s*- (?:[\w-]+/)?{re.escape(name)}$"
        spans = re.compile(span, re.MULTILINE)
        return any(map(join.search, self.sources)) or any(map(spans.search, self.pages))

    def _entity_used(self, source: str, name: str, changed: str) -> bool:
        if not source or source in self.twins:
            return False
        span = re.compile(rf"`(?:[\w-]+/)?{re.escape(source)}\.{re.escape(name)}`")
        qualified = re.compile(rf"\b{re.escape(source)}\.{re.escape(name)}\b")
        rest = re.compile(rf"^grain:.*\b{re.escape(name)}\b|^\s*- {re.escape(name)}$", re.MULTILINE)
        own = re.search(rf"(?:expr|filter): .*\b{re.escape(name)}\b", changed, re.IGNORECASE)
        mine = rest.search(changed) or (own and f"name: {name.lower()}" not in changed.lower())
        return bool(mine) or any(map(span.search, self.pages)) or any(map(qualified.search, [*self.sources, changed]))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("directory", type=Path)
    asked.add_argument("--under", default="", help="where its files lie in a tree: semantic-layer/b2b/")
    asked.add_argument("--every", type=int, default=1, help="every Nth change only")
    args = asked.parse_args()
    top: Path = args.directory
    files = {
        (args.under + str(path.relative_to(top))).encode(): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and artifact_path((args.under + str(path.relative_to(top))).encode()).kind
    }
    base = judged(files)
    former = frozenset(base.layer.homes)
    assert not [one for one in mark_inherited(judged(files, former).findings, base.findings, {}) if not one.inherited]
    made: Counter[tuple[str, str]] = Counter()
    breaking: Counter[tuple[str, str]] = Counter()
    told: Counter[tuple[str, str]] = Counter()
    missed = []
    for number, change in enumerate(changes(files)):
        if number % args.every:
            continue
        row = change.kind, change.how
        made[row] += 1
        if change.breaks:
            breaking[row] += 1
            if found(base, files, change, former):
                told[row] += 1
            else:
                missed.append(change)
    for row in sorted(made):
        print(f"| {row[0]} | {row[1]} | {made[row]} | {breaking[row]} | {told[row]} |")
    print(f"| all | | {made.total()} | {breaking.total()} | {told.total()} |")
    for change in missed[:50]:
        print("missed:", change.kind, change.how, change.path.decode(), change.what, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
