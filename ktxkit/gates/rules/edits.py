"""Taking things out of a text so that nothing else in it changes: items of YAML lists, spans and links of a page.

An edit is (start, end, replacement) in characters. What an edit leaves is proved by reading it again, elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ktxkit.base.rules.yaml_nodes import Node, lines

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
    return (at, end + 2, label) if label else _out_of_line(text, at, end + 2, text[at + 2 : end].strip())


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
