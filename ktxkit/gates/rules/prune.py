"""Repair without invention: what cannot be loaded goes, and what dangles is taken out; nothing is put in.

Everything that is taken out is recorded. What an edit leaves is read again: the file must say what it said, without the
removed references and with nothing else changed, or the edit is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.text import printable
from ktxkit.base.rules.yaml_nodes import Node
from ktxkit.gates.rules import edits, front_matter, markdown
from ktxkit.gates.rules.edits import Edit
from ktxkit.gates.rules.findings import Finding

Facts = dict[str, Any]
JOINS = ("unknown-join-target", "join-case")
LISTS = {"refs": "ref", "sl_refs": "sl_ref", "tables": "table"}
LIST_RULES = {
    "unknown-page": ("refs",),
    "unknown-sl-ref": ("sl_refs",),
    "unknown-table": ("tables",),
    "stale-entity": ("sl_refs",),
    "unknown-connection": ("sl_refs",),
    "ref-format": ("sl_refs",),
}
SPAN_RULES = ("stale-entity", "unknown-source", "unknown-table", "unknown-connection")
UNLOADABLE = ("yaml-", "schema-", "not-a-file", "entity-name", "table-or-sql", "duplicate-entity", "orphan-overlay")


@dataclass(frozen=True, slots=True)
class Removal:
    """One thing that was taken out: `{kind, artifact, removedRef, absentTarget}`."""

    kind: str  # source, join, ref, sl_ref, table, link, inline or row
    artifact: bytes
    removed: str
    absent: str

    def document(self) -> dict[str, str]:
        values = (self.kind, printable(self.artifact), self.removed, self.absent)
        return dict(zip(("kind", "artifact", "removedRef", "absentTarget"), map(printable, values), strict=True))


@dataclass(slots=True)
class Pruned:
    """New content by path (None: the file goes), and what was taken out, in order."""

    files: dict[bytes, bytes | None] = field(default_factory=dict)
    removals: list[Removal] = field(default_factory=list)


def prune(
    findings: Iterable[Finding], facts: Mapping[bytes, Facts], read: Callable[[bytes], bytes], *, drop: bool
) -> Pruned:
    """What mends the findings, as far as taking out can. `drop`: files that cannot be loaded go as a whole."""
    made = Pruned()
    by_path: dict[bytes, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    for path in sorted(by_path):
        kind = facts.get(path, {}).get("kind")
        if kind == "sources":
            _source(made, path, by_path[path], facts[path], read, drop=drop)
        elif kind == "page":
            _page(made, path, by_path[path], read(path))
        elif kind == "provenance":
            _rows(made, path, by_path[path], read(path))
    return made


def _source(
    made: Pruned,
    path: bytes,
    findings: Sequence[Finding],
    facts: Facts,
    read: Callable[[bytes], bytes],
    *,
    drop: bool,
) -> None:
    fatal = [one for one in findings if one.rule.startswith(UNLOADABLE)]
    if fatal and drop:
        names = [entry["name"] for entry in facts["sources"]] or facts["names"] or [_stem(path)]
        made.files[path] = None
        made.removals += [Removal("source", path, name, fatal[0].message) for name in names]
        return
    gone = {place for one in findings if one.rule in JOINS for place in one.places}
    if not gone or fatal:
        return
    text, problem = strict_yaml.decode(read(path))
    root = strict_yaml.read_text(text).root if problem is None else None
    if root is None:
        return
    wanted: list[Edit] = []
    removals = []
    for name, holder in _holders(root):
        dangling = [(n, str(_target(item))) for n, item in _items(holder, "joins") if _place(item.get("to")) in gone]
        wanted += edits.without_items(text, holder, "joins", [n for n, _ in dangling])
        removals += [Removal("join", path, f"{name} -> {target}", target) for _, target in dangling]
    _settle(made, path, read(path), text, wanted, removals, lambda new: _same_yaml(text, new, {"joins"}))


def _stem(path: bytes) -> str:
    return path.rpartition(b"/")[2].rpartition(b".")[0].decode("utf-8", "surrogateescape")


def _holders(root: Node) -> Iterator[tuple[str, Node]]:
    """The maps that may have joins: a source itself, or each table of a shard."""
    tables = root.get("tables")
    if tables is None:
        name = root.get("name")
        yield str(name.plain if name is not None else ""), root
    for key, value in tables.items if tables is not None else ():
        if key is not None:
            yield str(key.plain), value


def _items(holder: Node, key: str) -> list[tuple[int, Node]]:
    node = holder.get(key)
    return list(enumerate(node.values() if node is not None else ()))


def _place(node: Node | None, shift: int = 0) -> tuple[int, int]:
    """Line and column in the file; `shift`: lines before the text that the node was read from."""
    return (node.line + shift, node.column) if node is not None and node.kind != "map" else (0, 0)


def _target(item: Node) -> Any:
    to = item.get("to") if item.kind == "map" else None
    return to.plain if to is not None else None


def _page(made: Pruned, path: bytes, findings: Sequence[Finding], data: bytes) -> None:
    text = data.decode("utf-8").removeprefix("\ufeff")
    parts = front_matter.split(text)
    body = _body(path, findings, text, parts)
    if body:
        done = edits.applied(text, [edit for edit, _ in body])
        if _body_says(done, text, [removal for _, removal in body]):
            text = done
            made.removals += [removal for _, removal in body]
            made.files[path] = _encoded(data, text)
    if parts.front is None:
        return
    root = strict_yaml.read_text(parts.front).root
    if root is None or root.kind != "map":
        return
    wanted: list[Edit] = []
    removals = []
    for key, kind in LISTS.items():
        gone = {place for one in findings if key in LIST_RULES.get(one.rule, ()) for place in one.places}
        dangling = [(n, item.plain) for n, item in _items(root, key) if _place(item, parts.front_line - 1) in gone]
        for start, end, new in edits.without_items(parts.front, root, key, [n for n, _ in dangling]):
            wanted.append((start + parts.offset, end + parts.offset, new))
        removals += [Removal(kind, path, ref, ref) for _, ref in dangling]
    front = parts.front
    _settle(made, path, data, text, wanted, removals, lambda new: _same_front(front, new))


def _body(path: bytes, findings: Sequence[Finding], text: str, parts: front_matter.Split) -> list[tuple[Edit, Removal]]:
    starts = edits.offsets(text)
    found = []
    read = markdown.read(parts.body, parts.body_line)
    spans = {place for one in findings if one.rule in SPAN_RULES for place in one.places}
    links = {place for one in findings if one.rule == "unknown-link" for place in one.places}
    for span in read.codes if spans else ():
        hit = (span.line, span.column) in spans
        edit = edits.without_span(text, starts[span.line - 1] + span.column - 1) if hit else None
        if edit is not None:
            found.append((edit, Removal("inline", path, span.text, span.text)))
    for span in read.links if links else ():
        key = span.text.strip()
        hit = (span.line, span.column) in links
        edit = edits.without_link(text, starts[span.line - 1] + span.column - 1) if hit else None
        if edit is not None:
            found.append((edit, Removal("link", path, f"[[{key}]]", key)))
    return _apart(found)


def _apart(found: list[tuple[Edit, Removal]]) -> list[tuple[Edit, Removal]]:
    """Edits that would overlap (two spans that leave a line empty between them) wait for the second pass."""
    kept: list[tuple[Edit, Removal]] = []
    for edit, removal in sorted(found, key=lambda one: one[0]):
        if not kept or kept[-1][0][1] <= edit[0]:
            kept.append((edit, removal))
    return kept


def _body_says(new: str, old: str, removals: Sequence[Removal]) -> bool:
    """Whether a body still says what it said but for what was removed, and front matter is untouched."""
    before, after = front_matter.split(old), front_matter.split(new)
    if before.front != after.front:
        return False
    said, says = markdown.read(before.body), markdown.read(after.body)
    codes = [span.text for span in said.codes]
    links = [f"[[{span.text.strip()}]]" for span in said.links]
    for removal in removals:
        kept = codes if removal.kind == "inline" else links
        if removal.removed not in kept:
            return False
        kept.remove(removal.removed)
    return sorted(codes) == sorted(span.text for span in says.codes) and sorted(links) == sorted(
        f"[[{span.text.strip()}]]" for span in says.links
    )


def _rows(made: Pruned, path: bytes, findings: Sequence[Finding], data: bytes) -> None:
    gone = {one.reference for one in findings if one.rule == "unknown-artifact"}
    text, problem = strict_yaml.decode(data)
    root = strict_yaml.read_text(text).root if problem is None else None
    if root is None or root.kind != "list" or root.style != "flow":
        return
    keys = [item.data().get("artifactKey") if item.kind == "map" else None for item in root.values()]
    indexes = [n for n, key in enumerate(keys) if key in gone]
    left = [item.data() for n, item in enumerate(root.values()) if n not in indexes]
    removals = [Removal("row", path, str(keys[n]), str(keys[n])) for n in indexes]

    def says(new: str) -> bool:
        again = strict_yaml.read_text(new).root
        return again is not None and again.data() == left

    _settle(made, path, data, text, edits.without_rows(root, indexes) if indexes else [], removals, says)


def _settle(
    made: Pruned,
    path: bytes,
    data: bytes,
    text: str,
    wanted: Sequence[Edit],
    removals: Sequence[Removal],
    proven: Callable[[str], bool],
) -> None:
    """Make the edits where their result is proven to say what it must."""
    if not wanted:
        return
    new = edits.applied(text, wanted)
    if proven(new):
        made.files[path] = _encoded(data, new)
        made.removals += removals


def _encoded(data: bytes, text: str) -> bytes:
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")


def _same_front(front: str, new: str) -> bool:
    parts = front_matter.split(new)
    return parts.front is not None and _same_yaml(front, parts.front, set(LISTS))


def _same_yaml(old: str, new: str, lists: set[str]) -> bool:
    """Whether two YAML texts differ in nothing but items that went from lists at these keys."""
    before, after = strict_yaml.read_text(old).root, strict_yaml.read_text(new).root
    return before is not None and after is not None and _lesser(before.data(), after.data(), lists)


def _lesser(old: Any, new: Any, lists: set[str], key: str = "") -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        gone = set(old) - set(new)
        return gone <= lists and not set(new) - set(old) and all(_lesser(old[k], new[k], lists, k) for k in new)
    if key in lists and isinstance(old, list) and isinstance(new, list):
        rest = iter(old)
        return all(any(item == one for one in rest) for item in new)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_lesser(a, b, lists) for a, b in zip(old, new, strict=True))
    return bool(old == new)
