"""Taking things out of a text so that nothing else in it changes: items of YAML lists, spans and links of a page.

An edit is (start, end, replacement) in characters. What an edit leaves is proved by reading it again, elsewhere.

Repair without invention: what cannot be loaded goes, and what dangles is taken out; nothing is put in.

Everything that is taken out is recorded. What an edit leaves is read again: the file must say what it said, without the
removed references and with nothing else changed, or the edit is not made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.strict_yaml import Node, lines
from ktxkit.base.rules.text import printable
from ktxkit.gates.rules import inline, markdown
from ktxkit.gates.rules.findings import Finding

Edit = tuple[int, int, str]

_TICKS = re.compile("`+")
_MARKERS = re.compile(r"(?:[ \t]*(?:>|[-*+]|[0-9]{1,9}[.)]))*[ \t]*\Z")
_BLOCK = re.compile(r"[-+*#>|=~`<\[:]|[0-9]+[.)]")  # what begins something else than a paragraph, or may
_JOINING = ("`", "[", "]", "!", "<", "\\")
_CLOSING = ".,;:!?)]}"


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap."""
    end = len(text)
    for start, stop, replacement in sorted(set(edits), reverse=True):
        assert start <= stop <= end, "edits do not overlap"
        text, end = text[:start] + replacement + text[stop:], start
    return text


def without_items(text: str, holder: Node, key: str, indexes: Iterable[int]) -> list[Edit]:
    """Edits that take items out of the list at a key of a map; the last ones take the key along."""
    found = next(((name, value) for name, value in holder.items if name is not None and name.plain == key), None)
    if found is None or found[0] is None:
        return []
    return _without(text, found[0], found[1], set(indexes))


def _without(text: str, name: Node, value: Node, gone: set[int]) -> list[Edit]:
    items = [item for _, item in value.items]
    if value.style == "flow":
        return _flow(value, items, gone)
    if len(gone) < len(items):
        return [_block_item(text, items[index]) for index in sorted(gone)]
    start = _line_start(text, name.start)
    if text[start : name.start].strip():  # the key shares its line with a list mark: an empty list stays
        return [(name.end, _content_end(text, value), ": []")]
    return [(start, _line_end(text, _content_end(text, value)), "")]


def without_rows(root: Node, indexes: Iterable[int]) -> list[Edit]:
    """Edits that take items out of a document that is one flow list (JSON)."""
    return _flow(root, [item for _, item in root.items], set(indexes))


def _flow(value: Node, items: Sequence[Node], gone: set[int]) -> list[Edit]:
    if len(gone) == len(items):
        return [(value.start, value.end, "[]")]
    kept = [index for index in range(len(items)) if index not in gone]
    edits = []
    for index in sorted(gone):
        if index > kept[-1]:  # nothing is kept after it: from the end of the last that is
            continue
        edits.append((items[index].start, items[index + 1].start, ""))
    if kept[-1] + 1 < len(items):
        edits.append((items[kept[-1]].end, items[-1].end, ""))
    return edits


def _block_item(text: str, item: Node) -> Edit:
    start = _line_start(text, item.start)
    while not text[start : item.start].lstrip().startswith("-"):  # the mark stands alone on a line above
        start = _line_start(text, start - 1)
    return (start, _line_end(text, _content_end(text, item)), "")


def _content_end(text: str, node: Node) -> int:
    """Where a node's own text ends: a block's end mark lies at what follows it."""
    if node.kind == "scalar" or node.style == "flow" or not node.items:
        end = node.end
        while end > node.start and text[end - 1] in "\r\n \t" and node.style in ("|", ">"):
            end -= 1
        return end
    return _content_end(text, node.items[-1][1])


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _line_end(text: str, at: int) -> int:
    """The end of the line, its break included."""
    found = re.compile("\r\n|\n|\r").search(text, at)
    return found.end() if found else len(text)


def offsets(text: str) -> list[int]:
    """The offset of the start of each line, the first line's first."""
    starts, at = [], 0
    for line in lines(text):
        starts.append(at)
        at += len(line)
    return [*starts, at]


def without_span(text: str, at: int) -> Edit | None:
    """An edit that takes out the code span that starts at an offset; None where none does."""
    opener = _TICKS.match(text, at)
    if opener is None:
        return None
    closer = next((run for run in _TICKS.finditer(text, opener.end()) if run[0] == opener[0]), None)
    if closer is None:
        return None
    return _out_of_line(text, at, closer.end(), text[opener.end() : closer.start()].strip("`"))


def without_link(text: str, at: int) -> Edit | None:
    """An edit that takes out the `[[page]]` at an offset; of `[[page|label]]` the label stays."""
    end = text.find("]]", at)
    if not text.startswith("[[", at) or end < 0:
        return None
    label = text[at + 2 : end].partition("|")[2].strip()
    start = at - 1 if text[at - 1 : at] == "!" else at  # an embed
    return (start, end + 2, label) if label else _out_of_line(text, start, end + 2, text[at + 2 : end].strip())


def without_target(text: str, at: int) -> tuple[Edit, str] | None:
    """An edit that leaves of the Markdown link or image at an offset what a reader sees, and where it led. Of a link
    by reference and of an address in brackets None: what they are written with stands elsewhere, or is all there is.
    """
    end = _paragraph_end(text, at)
    piece = next((one for one in inline.scan(text[at:end]) if one.kind == "target" and one.start == 0), None)
    if piece is None or text.startswith("<", at):
        return None
    return (at, at + piece.end, piece.label), piece.text


def _paragraph_end(text: str, at: int) -> int:
    found = re.compile(r"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)").search(text, at)
    return found.start() if found else len(text)


def _out_of_line(text: str, start: int, end: int, words: str) -> Edit:
    """Blanks that would be left double, before a sign or at an end of the line go too; so does a line left empty.

    Where the line would turn into something else (`- x` left of `` `a` - x`` is a list), or what stands on both sides
    would join, the words stay as prose.
    """
    begin, finish = _line_start(text, start), _line_end(text, end)
    before = text[begin:start]
    if before[-1:] in _JOINING and text[end : end + 1] in _JOINING:
        return (start, end, words)
    rest = text[end:finish].rstrip("\r\n")
    if _MARKERS.match(before) and not rest.strip():
        after = text[finish : _line_end(text, finish)].strip()
        return (start, end, words) if after and not after.strip("=-") else (begin, finish, "")
    if _MARKERS.match(before):
        left = rest.lstrip(" \t")
        return (start, end, words) if _BLOCK.match(left) else (start, end + len(rest) - len(left), "")
    if not rest.strip() or rest[0] in " \t" + _CLOSING:
        return (begin + len(before.rstrip(" \t")), end, "")
    return (start, end, "")


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


class Removal(NamedTuple):
    """One thing that was taken out: `{kind, artifact, removedRef, absentTarget}`."""

    kind: str  # source, join, ref, sl_ref, table, link, inline or row
    artifact: bytes
    removed: str
    absent: str

    def document(self) -> dict[str, str]:
        values = (self.kind, printable(self.artifact), self.removed, self.absent)
        return dict(zip(("kind", "artifact", "removedRef", "absentTarget"), map(printable, values), strict=True))


class Pruned:
    """New content by path (None: the file goes), and what was taken out, in order."""

    __slots__ = ("files", "removals")

    def __init__(self) -> None:
        self.files: dict[bytes, bytes | None] = {}
        self.removals: list[Removal] = []


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
        wanted += without_items(text, holder, "joins", [n for n, _ in dangling])
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
    parts = markdown.split(text)
    body = _body(path, findings, text, parts)
    if body:
        done = applied(text, [edit for edit, _ in body])
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
        for start, end, new in without_items(parts.front, root, key, [n for n, _ in dangling]):
            wanted.append((start + parts.offset, end + parts.offset, new))
        removals += [Removal(kind, path, ref, ref) for _, ref in dangling]
    front = parts.front
    _settle(made, path, data, text, wanted, removals, lambda new: _same_front(front, new))


def _body(path: bytes, findings: Sequence[Finding], text: str, parts: markdown.Split) -> list[tuple[Edit, Removal]]:
    starts = offsets(text)
    found = []
    read = markdown.read(parts.body, parts.body_line)
    spans = {place for one in findings if one.rule in SPAN_RULES for place in one.places}
    links = {place for one in findings if one.rule == "unknown-link" for place in one.places}
    for span in read.codes if spans else ():
        hit = (span.line, span.column) in spans
        edit = without_span(text, starts[span.line - 1] + span.column - 1) if hit else None
        if edit is not None:
            found.append((edit, Removal("inline", path, span.text, span.text)))
    for span in read.links if links else ():
        key = span.text.strip()
        hit = (span.line, span.column) in links
        edit = without_link(text, starts[span.line - 1] + span.column - 1) if hit else None
        if edit is not None:
            found.append((edit, Removal("link", path, f"[[{key}]]", key)))
    gone = {place for one in findings if one.rule == "broken-link" for place in one.places}
    for span in read.targets if gone else ():
        hit = (span.line, span.column) in gone
        cut = without_target(text, starts[span.line - 1] + span.column - 1) if hit else None
        if cut is not None:
            found.append((cut[0], Removal("link", path, f"({span.text})", span.text)))
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
    before, after = markdown.split(old), markdown.split(new)
    if before.front != after.front:
        return False
    said, says = markdown.read(before.body), markdown.read(after.body)
    codes = [span.text for span in said.codes]
    links = [f"[[{span.text.strip()}]]" for span in said.links] + [f"({span.text})" for span in said.targets]
    for removal in removals:
        kept = codes if removal.kind == "inline" else links
        if removal.removed not in kept:
            return False
        kept.remove(removal.removed)
    left = [f"[[{span.text.strip()}]]" for span in says.links] + [f"({span.text})" for span in says.targets]
    return sorted(codes) == sorted(span.text for span in says.codes) and sorted(links) == sorted(left)


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

    _settle(made, path, data, text, without_rows(root, indexes) if indexes else [], removals, says)


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
    new = applied(text, wanted)
    if proven(new):
        made.files[path] = _encoded(data, new)
        made.removals += removals


def _encoded(data: bytes, text: str) -> bytes:
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")


def _same_front(front: str, new: str) -> bool:
    parts = markdown.split(new)
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
