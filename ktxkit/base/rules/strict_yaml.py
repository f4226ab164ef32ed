"""Values of a YAML document with their places, and the scalars of the YAML 1.2 core schema.

Lines and columns count from 1, in characters; offsets count characters from 0.

YAML under a strict policy: YAML 1.2 core scalars, a position for every node, nothing that can explode.

ruamel.yaml's parser gives events; what they say is judged here, event by event, so that a bomb ends at its first
alias and never becomes a value. Anchors, aliases, merge keys, tags, directives, several documents, keys that are not
text and keys that stand twice are problems; so are sizes beyond the caps. Dates stay text. Lines and columns count
from 1, in characters; offsets count characters from 0 in `text`, which is what `decode` returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from typing import Any, NoReturn

from ktxkit.base.rules.named import NamedTuple

INTEGER_LIMIT = 2**63  # what every reader of JSON can take

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})([Tt \t].*)?\Z")


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def lines(text: str) -> list[str]:
    """The lines of a text with their ends. LF, CRLF and CR end a line; nothing else does."""
    return _LINE.findall(text)


class YamlProblem(NamedTuple):
    """One thing that is wrong, and where. `rule` is a rule id of the gates."""

    rule: str
    line: int
    column: int
    message: str
    hint: str = ""
    level: str = ""  # where it is not the rule's own


class Node:
    """A value with its place. `kind` is map, list or scalar; `plain` is its Python value (a scalar's only).

    A map's `items` are (key node, value node); a list's `items` are (None, value node). `dateish`: a plain scalar that
    other readers of YAML turn into a date. `start` and `end` are offsets in the text.
    """

    __slots__ = ("column", "dateish", "end", "items", "kind", "line", "plain", "start", "style")

    def __init__(
        self,
        kind: str,
        line: int,
        column: int,
        start: int,
        end: int,
        plain: Any = None,
        items: list[tuple[Node | None, Node]] | None = None,
        style: str = "",
        dateish: bool = False,
    ) -> None:
        self.kind = kind
        self.line = line
        self.column = column
        self.start = start
        self.end = end
        self.plain = plain
        self.items: list[tuple[Node | None, Node]] = [] if items is None else items
        self.style = style
        self.dateish = dateish

    def get(self, key: str) -> Node | None:
        """The value of a key of a map."""
        return next((value for name, value in self.items if name is not None and name.plain == key), None)

    def values(self) -> list[Node]:
        """The values of a list; of anything else none."""
        return [value for _, value in self.items] if self.kind == "list" else []

    def at(self, path: list[str | int]) -> tuple[Node, Node | None]:
        """The node at a path of keys and indexes as far as it leads, and the key node that named it, if any."""
        node, named = self, None
        for part in path:
            pairs = node.items
            if isinstance(part, int):
                if node.kind != "list" or part >= len(pairs):
                    break
                named, node = None, pairs[part][1]
            else:
                found = next(((key, value) for key, value in pairs if key is not None and key.plain == part), None)
                if found is None:
                    break
                named, node = found
        return node, named

    def data(self) -> Any:
        """The value as Python has it. The depth cap bounds the recursion."""
        if self.kind == "map":
            return {key.plain: value.data() for key, value in self.items if key is not None}
        if self.kind == "list":
            return [value.data() for _, value in self.items]
        return self.plain


def resolve(node: Node) -> YamlProblem | None:
    """Give a plain scalar its YAML 1.2 core value. A problem where it is none that every reader takes alike."""
    text: str = node.plain
    lead = text[:1]
    if lead and lead not in "+-.0123456789tTfFnN~":
        return None  # nearly all of them: text
    if text in _NULL:
        node.plain = None
    elif text in _BOOLEAN:
        node.plain = _BOOLEAN[text]
    elif lead not in "+-.0123456789":
        return None
    elif _INTEGER.match(text) or _BASED.match(text):
        return _integer(node, text)
    elif _FLOAT.match(text) or _NOT_FINITE.match(text):
        return _float(node, text)
    elif found := _DATE.match(text):
        node.dateish = True
        try:
            date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            return YamlProblem(
                "yaml-scalar", node.line, node.column, f"{text[:40]} is no date", "quote it if it is text"
            )
    return None


def _integer(node: Node, text: str) -> YamlProblem | None:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    digits = text[2:] if base != 10 else text
    value = int(digits, base) if len(digits) < 40 else INTEGER_LIMIT
    if not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        return YamlProblem(
            "yaml-number", node.line, node.column, f"{len(text)} digits are more than 64 bits hold", "quote it"
        )
    node.plain = value
    return None


def _float(node: Node, text: str) -> YamlProblem | None:
    value = float(text) if not _NOT_FINITE.match(text) else float("inf")
    if value in (float("inf"), float("-inf")):
        return YamlProblem("yaml-number", node.line, node.column, f"{text[:40]} is not a finite number", "quote it")
    node.plain = value
    return None


SIZE_LIMIT = 1024 * 1024  # bytes
DEPTH_LIMIT = 64
NODE_LIMIT = 100_000
# YAML 1.2, c-printable, without the characters that only some readers take for line ends. What is left is refused with
# its place before the parser sees it.
# The class names what is refused, since one of what is allowed takes 4 ms to compile.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_BREAK = re.compile("\r\n|[\n\r]")


class Parsed(NamedTuple):
    """What was read. `root` is None where there is no value that can be trusted."""

    root: Node | None
    problems: tuple[YamlProblem, ...]
    text: str = ""


class _Stop(Exception):
    """Reading cannot go on."""


def decode(data: bytes) -> tuple[str, YamlProblem | None]:
    """The text, a byte-order mark taken off. A problem where it is no UTF-8, too large, or holds control characters."""
    if len(data) > SIZE_LIMIT:
        return "", YamlProblem("yaml-size", 1, 1, f"{len(data)} bytes are more than the {SIZE_LIMIT} that are read")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line, column = position(data[: error.start].decode("utf-8", "replace").removeprefix("\ufeff"), None)
        return "", YamlProblem("yaml-encoding", line, column, f"not UTF-8: byte 0x{data[error.start]:02x}")
    return text, _refused(text)


def _refused(text: str) -> YamlProblem | None:
    bad = _REFUSED.search(text)
    if bad is None:
        return None
    line, column = position(text, bad.start())
    return YamlProblem("yaml-syntax", line, column, f"character U+{ord(bad[0]):04X} is not allowed in YAML")


def position(text: str, offset: int | None) -> tuple[int, int]:
    """Line and column, from 1, of an offset in characters (None: the end). CR, LF and CRLF each end a line."""
    head = text if offset is None else text[:offset]
    if offset is not None and head.endswith("\r") and text[offset : offset + 1] == "\n":
        head = head[:-1]
    line, start = 1, 0
    for found in _BREAK.finditer(head):
        line, start = line + 1, found.end()
    return line, len(head) - start + 1


def read(data: bytes) -> Parsed:
    """Read a whole file. Never raises; whatever is wrong is a problem."""
    text, problem = decode(data)
    return Parsed(None, (problem,), text) if problem is not None else read_text(text)


def read_document(data: bytes) -> Parsed:
    """Read a file that has to hold a document: one of blanks and comments alone is a problem (`yaml-empty`)."""
    parsed = read(data)
    if parsed.root is not None or parsed.problems:
        return parsed
    said = "comments alone are no document" if parsed.text.strip() else "the file is empty"
    problem = YamlProblem("yaml-empty", 1, 1, said, "write what it is to hold, or delete the file")
    return parsed._replace(problems=(problem,))


def read_text(text: str) -> Parsed:
    """Read text that was decoded elsewhere. Never raises; whatever is wrong is a problem."""
    return read_with(events, text)


def read_with(parser: Callable[[str], Iterator[Any]], text: str) -> Parsed:
    """Read by another source of events than the fastest (two that disagree would be two verdicts)."""
    problem = _refused(text)
    if problem is not None:
        return Parsed(None, (problem,), text)
    builder = _Builder()
    try:
        for event in parser(text):
            builder.take(event)
    except _Stop:
        return Parsed(None, tuple(builder.problems), text)
    except syntax_errors() as error:
        builder.problems.append(syntax_problem(error, text))
        return Parsed(None, tuple(builder.problems), text)
    return Parsed(builder.root, tuple(builder.problems), text)


@cache
def syntax_errors() -> tuple[type[Exception], ...]:
    """What reading events raises on text that is no YAML."""
    from ruamel.yaml.error import YAMLError

    # The pure parser lets a few others out on broken input (an escape beyond Unicode, an unfinished number).
    return (YAMLError, ValueError, IndexError, AttributeError, AssertionError, OverflowError, RecursionError)


def events(text: str) -> Iterator[Any]:
    """The events of the fastest parser. Raises one of `syntax_errors`."""
    parser = fast_parser()
    if parser is None:
        yield from pure_events(text)
        return
    reader = parser(text)
    while (event := reader.get_event()) is not None:
        yield event


@cache
def fast_parser() -> Any:
    """libyaml's parser where it is really there, else None. ruamel.yaml's own flag says yes where it is not."""
    try:
        from _ruamel_yaml import CParser
    except ImportError:
        return None
    return CParser


def pure_events(text: str) -> Iterator[Any]:
    """Events of ruamel.yaml's own parser, taught what YAML 1.2 allows and libyaml takes: a tab after a colon."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scanner import Scanner

    class Tabs(Scanner):
        def scan_to_next_token(self) -> Any:
            while True:
                found = super().scan_to_next_token()
                if self.reader.peek() != "\t" or (self.allow_simple_key and not self.flow_level):
                    return found
                self.reader.forward()

    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = Tabs
    yield from yaml.parse(text)


def syntax_problem(error: Exception, text: str) -> YamlProblem:
    """What such an error says, and where."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or str(error).partition("\n")[0] or type(error).__name__
    context = getattr(error, "context", None)
    message = f"{said} ({context})" if context else str(said)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else position(text, None)
    return YamlProblem("yaml-syntax", line, column, message)


_OTHER_TYPE = re.compile(r"[-+.0-9~tTfFnN]")  # what a plain scalar that is no text begins with


def loading_problem(text: str) -> YamlProblem | None:
    """Why no loader takes a text of YAML documents with all that YAML has (tags, anchors), or each in its own way."""
    try:
        return _events_of(text)
    except syntax_errors() as error:
        return syntax_problem(error, text)


def _events_of(said: str) -> YamlProblem | None:
    """Keys that stand twice, and aliases of nothing, which every loader refuses or takes in a way of its own."""
    anchors: set[str] = set()
    open_maps: list[tuple[set[tuple[str, bool]], list[bool]] | None] = []  # keys, and whether a key is next
    for event in events(said):
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            anchors, open_maps = set(), []
        elif kind == "AliasEvent" and event.anchor not in anchors:
            return _at_event("yaml-alias", event, f"there is no anchor {str(event.anchor)[:80]} before this alias")
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            open_maps.pop()
            continue
        if kind not in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
            continue
        if kind != "AliasEvent" and event.anchor is not None:
            anchors.add(event.anchor)
        around = open_maps[-1] if open_maps else None
        if around is not None and around[1][0] and kind == "ScalarEvent" and event.value != "<<":
            key = (event.value, bool(event.style) and bool(_OTHER_TYPE.match(event.value)))
            if key in around[0]:
                return _at_event(
                    "yaml-duplicate-key", event, f"the key {event.value[:80]!r} stands twice in one mapping"
                )
            around[0].add(key)
        if around is not None:
            around[1][0] = not around[1][0]
        if kind == "MappingStartEvent":
            open_maps.append((set(), [True]))
        elif kind == "SequenceStartEvent":
            open_maps.append(None)
    return None


def _at_event(rule: str, event: Any, message: str) -> YamlProblem:
    mark = event.start_mark
    return YamlProblem(rule, mark.line + 1, mark.column + 1, message)


class _Frame:
    """A map or list that is open: the keys it has, and the key that waits for its value."""

    __slots__ = ("key", "keys", "node")

    def __init__(self, node: Node, keys: set[str], key: Node | None = None) -> None:
        self.node = node
        self.keys = keys
        self.key = key


class _Builder:
    """Turns events into nodes and problems."""

    def __init__(self) -> None:
        self.problems: list[YamlProblem] = []
        self.root: Node | None = None
        self.stack: list[_Frame] = []
        self.nodes = 0
        self.documents = 0

    def add(self, rule: str, mark: Any, message: str, hint: str = "") -> None:
        self.problems.append(YamlProblem(rule, mark.line + 1, mark.column + 1, message, hint))

    def stop(self, rule: str, mark: Any, message: str, hint: str = "") -> NoReturn:
        self.add(rule, mark, message, hint)
        raise _Stop

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            self.scalar(event)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self.open(event, "map" if kind[0] == "M" else "list")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self.stack.pop().node.end = event.end_mark.index
        elif kind == "AliasEvent":
            self.stop("yaml-alias", event.start_mark, "an alias is not allowed", "write the value out")
        elif kind == "DocumentStartEvent":
            self.document(event)

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self.stop("yaml-documents", event.start_mark, "a second document", "one file holds one document")
        if event.version or event.tags:
            self.stop("yaml-directive", event.start_mark, "a directive is not allowed", "remove the % line")

    def common(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > NODE_LIMIT:
            self.stop("yaml-size", event.start_mark, f"more than {NODE_LIMIT} values", "split the file")
        if event.anchor is not None:
            self.stop("yaml-alias", event.start_mark, "an anchor is not allowed", "write the value out")
        if event.tag is not None:
            self.stop("yaml-tag", event.start_mark, f"the tag {str(event.tag)[:80]} is not allowed", "remove the tag")

    def open(self, event: Any, kind: str) -> None:
        self.common(event)
        mark = event.start_mark
        if len(self.stack) >= DEPTH_LIMIT:
            self.stop("yaml-size", mark, f"nested deeper than {DEPTH_LIMIT}", "flatten it")
        node = Node(kind, mark.line + 1, mark.column + 1, mark.index, event.end_mark.index)
        node.style = "flow" if event.flow_style else ""
        self.put(node, mark)
        self.stack.append(_Frame(node, set()))

    def scalar(self, event: Any) -> None:
        self.common(event)
        mark = event.start_mark
        node = Node("scalar", mark.line + 1, mark.column + 1, mark.index, event.end_mark.index, event.value)
        node.style = event.style or ""
        problem = resolve(node) if not node.style else None
        if problem is not None:
            self.problems.append(problem)
        self.put(node, mark)

    def put(self, node: Node, mark: Any) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if frame.node.kind == "list":
            frame.node.items.append((None, node))
        elif frame.key is None:
            self.name(node, frame, mark)
        else:
            frame.node.items.append((frame.key, node))
            frame.key = None

    def name(self, node: Node, frame: _Frame, mark: Any) -> None:
        """A node where a key is due."""
        if node.kind != "scalar":
            self.stop("yaml-non-string-key", mark, f"a {node.kind} stands where a key is due", "quote it if it is text")
        if not isinstance(node.plain, str) or node.dateish:
            self.add("yaml-non-string-key", mark, f"the key {node.plain!r} is not text", "quote the key")
            node.plain = str(node.plain)
        elif node.plain == "<<" and not node.style:
            self.stop("yaml-alias", mark, "a merge key is not allowed", "write the keys out")
        if node.plain in frame.keys:
            self.add("yaml-duplicate-key", mark, f"the key {node.plain!r} stands twice", "remove one of them")
        frame.keys.add(node.plain)
        frame.key = node
