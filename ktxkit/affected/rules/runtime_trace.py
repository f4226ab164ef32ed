"""A runtime map as it is asked: which tests ran a definition, opened a file. Lines are parsed when needed.

It only ever adds to what else is known: a test that is not in an answer may need the file all the same.

From the lines that each traced process wrote (`ktxkit.affected.traced`) to the records of one `affected-trace`.

Observed is true. What may have been missed makes a context incomplete, with the reason; nothing is ever concluded from
what was not observed.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import (
        AffectedTrace,
        AffectedTraceCalls,
        AffectedTraceContext,
        AffectedTraceContextKind,
        AffectedTraceDefinition,
        AffectedTraceFile,
        AffectedTraceHeader,
        AffectedTraceVariable,
        TracedCall,
    )

    class CallRecord(TypedDict):
        """A call between two definitions, each as path and name."""

        caller: tuple[str, str]
        callee: tuple[str, str]
        how: str
        line: int
        via: str


Parse = Callable[[bytes], Any]  # a line as one of the records of an `affected-trace`: which, its place tells
KEYED = (b"definition", b"file", b"calls")


class Trace:
    """One map. `parse` turns a line into a record of the contract `affected-trace`, or raises."""

    def __init__(self, lines: list[bytes], parse: Parse) -> None:
        self._parse = parse
        self.header: AffectedTraceHeader = parse(lines[0])
        self._contexts: list[bytes] = []
        self._variables: list[bytes] = []
        self._keyed: dict[bytes, dict[bytes, list[bytes]]] = {kind: defaultdict(list) for kind in KEYED}
        for line in lines[1:-1]:
            parts = line.split(b'"', 8)  # {"record":"KIND","path":"PATH",...
            kind = parts[3]
            if kind in self._keyed:
                self._keyed[kind][parts[7]].append(line)
            elif kind == b"context":
                self._contexts.append(line)
            else:
                self._variables.append(line)

    @overload
    def _of(self, kind: Literal[b"file"], path: str) -> list[AffectedTraceFile]: ...
    @overload
    def _of(self, kind: Literal[b"definition"], path: str) -> list[AffectedTraceDefinition]: ...
    def _of(self, kind: bytes, path: str) -> Any:
        found = self._keyed[kind].get(_key(path), ())
        return [record for record in map(self._parse, found) if record["path"] == path]

    # -- contexts and tests

    @cached_property
    def contexts(self) -> list[AffectedTraceContext]:
        """Every context, at its number."""
        return [self._parse(line) for line in self._contexts]

    @cached_property
    def _users(self) -> dict[int, set[int]]:
        """The tests that use each context, themselves included."""
        found: dict[int, set[int]] = defaultdict(set)
        for one in self.contexts:
            if one["kind"] == "test":
                for number in self._closure(one["number"]):
                    found[number].add(one["number"])
        return found

    def _closure(self, number: int) -> set[int]:
        seen, todo = set[int](), [number]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += self.contexts[one].get("uses", ())
        return seen

    def tests(self, numbers: Iterable[int]) -> set[str]:
        """The tests of contexts: a fixture's or a module's collection are those that use it."""
        return {self.contexts[test]["name"] for number in numbers for test in self._users.get(number, ())}

    @cached_property
    def incomplete(self) -> dict[str, list[str]]:
        """The tests of which something may not have been seen, with why; those that their fixtures lack included."""
        found: dict[str, list[str]] = {}
        for one in self.contexts:
            if one["kind"] == "test":
                why = [text for n in sorted(self._closure(one["number"])) for text in self.contexts[n].get("why", ())]
                if why:
                    found[one["name"]] = list(dict.fromkeys([*found.get(one["name"], ()), *why]))
        return found

    # -- files

    def blob(self, path: str) -> str | None:
        """The git id of the file as it was; None where nothing is known of it."""
        found = self._of(b"file", path)
        return found[0].get("blob") if found else None

    @property
    def paths(self) -> list[str]:
        """Every file that something is known of."""
        firsts: Iterable[AffectedTraceFile] = (self._parse(lines[0]) for lines in self._keyed[b"file"].values())
        return [first["path"] for first in firsts]

    def definitions(self, path: str) -> dict[str, list[int]]:
        """The definitions of a file that ran, each with its contexts."""
        return {one["name"]: one["ran"] for one in self._of(b"definition", path)}

    def ran(self) -> Iterator[tuple[str, str, list[int]]]:
        """Every definition that ran: path, name, contexts."""
        for lines in self._keyed[b"definition"].values():
            records: Iterable[AffectedTraceDefinition] = map(self._parse, lines)
            for one in records:
                yield one["path"], one["name"], one["ran"]

    def tests_of(self, path: str, name: str) -> set[str]:
        """Tests that ran a definition or one inside it (`C` means every method of C)."""
        inside = name + "."
        found = self.definitions(path)
        return self.tests(n for one, ran in found.items() if one == name or one.startswith(inside) for n in ran)

    def tests_opening(self, path: str) -> set[str]:
        """Tests that opened a file, or tried to."""
        return self.tests(n for one in self._of(b"file", path) for n in one.get("opened", ()))

    def tests_listing(self, directory: str) -> set[str]:
        """Tests that listed a directory (relative to the top, without a last `/`)."""
        return self.tests(n for one in self._of(b"file", directory) for n in one.get("listed", ()))

    def readers(self, path: str) -> set[tuple[str, str]]:
        """The definitions (path, name) that opened a file or listed a directory: whoever reaches them may need it."""
        found = self._of(b"file", path)
        users = [*(file.get("openedBy", ()) for file in found), *(file.get("listedBy", ()) for file in found)]
        return {(one[0], one[1]) for some in users for one in some}

    @cached_property
    def _importers(self) -> dict[tuple[str, str], set[str]]:
        """What happened while a module's body ran: (kind or path, name) to the modules."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for lines in self._keyed[b"file"].values():
            records: Iterable[AffectedTraceFile] = map(self._parse, lines)
            for one in records:
                for path, name in one.get("importRan", ()):
                    found[path, name].add(one["path"])
                for path in (*one.get("importOpened", ()), *one.get("importListed", ())):
                    found["", path].add(one["path"])
        return found

    def modules_running(self, path: str, name: str) -> set[str]:
        """Modules whose import ran a definition: a change of it is a change of theirs."""
        return self._importers.get((path, name), set())

    def modules_reading(self, path: str) -> set[str]:
        """Modules whose import opened a file or listed a directory."""
        return self._importers.get(("", path), set())

    def calls(self) -> Iterator[CallRecord]:
        """Every call between two definitions: `caller` and `callee` as (path, name), `how`, `line`, `via`."""
        for lines in self._keyed[b"calls"].values():
            records: Iterable[AffectedTraceCalls] = map(self._parse, lines)
            for record in records:
                for call in record["calls"]:
                    caller, callee = (record["path"], call["from"]), (call["path"], call["to"])
                    yield {
                        "caller": caller,
                        "callee": callee,
                        "how": call["how"],
                        "line": call["line"],
                        "via": call.get("via", ""),
                    }

    def variables(self) -> dict[str, set[tuple[str, str]]]:
        """The environment variables that were read, each with the definitions that read it."""
        records: list[AffectedTraceVariable] = [self._parse(line) for line in self._variables]
        return {one["name"]: {(by[0], by[1]) for by in one["readBy"]} for one in records}


def _key(path: str) -> bytes:
    """A path as it stands in a line up to its first quote (a collision is told by the parsed record)."""
    from json.encoder import encode_basestring_ascii

    return encode_basestring_ascii(path).encode("ascii").split(b'"', 2)[1]


Record = dict[str, Any]
SESSION = ""
WHY_SHOWN, PROCESSES_SHOWN, NAMES_SHOWN = 20, 200, 1000
THROUGH_ANONYMOUS = "<anonymous>"  # stands between a caller and a lambda or generator that somebody else made
ANONYMOUS = ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Context:
    """A test, a fixture of a wider scope, the collection of a module; or the session, which is what is left."""

    __slots__ = ("environ", "kind", "name", "number", "processes", "uses", "why")

    def __init__(self, number: int) -> None:
        self.number = number
        self.kind: AffectedTraceContextKind = "session"
        self.name = ""
        self.uses: set[int] = set()
        self.why: dict[str, None] = {}
        self.processes: dict[tuple[str, ...], None] = {}
        self.environ: set[str] = set()


class Process:
    """One traced process, while its lines are read: its own numbers of definitions."""

    __slots__ = ("anonymous", "defs", "pid", "ppid", "spawned", "start", "token")

    def __init__(self) -> None:
        self.anonymous: set[int] = set()
        self.pid = self.ppid = self.start = 0
        self.token = SESSION
        self.defs: dict[int, int] = {}
        self.spawned: Counter[str] = Counter()


class TraceFold:
    """Everything that was seen. Feed it process by process; each is read once, and only numbers are held."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.names: dict[tuple[str, str], int] = {}
        self.lines: list[int] = []
        self.ran: list[array[int]] = []
        self.edges: dict[tuple[int, int], tuple[str, int, str]] = {}
        self.touched: dict[str, dict[str, set[int]]] = {"open": defaultdict(set), "list": defaultdict(set)}
        self.by: dict[str, dict[str, set[int]]] = {key: defaultdict(set) for key in ("open", "list", "environ")}
        self.at_import: dict[str, dict[str, set[Any]]] = {
            key: defaultdict(set) for key in ("ran", "open", "list", "environ")
        }
        self.started: list[tuple[int, int, str, int, str]] = []  # pid, parent, context, start time, kind
        self.spawned: list[tuple[int, str, int]] = []
        self.by_nobody: list[tuple[str, str, Context]] = []  # what was touched, where no definition is known to have
        self.faults, self.fault = 0, ""
        self.context(SESSION)

    def context(self, token: str) -> Context:
        found = self.contexts.get(token)
        if found is None:
            found = self.contexts[token] = Context(len(self.contexts))
        return found

    def feed(self, lines: Iterable[Any]) -> None:
        """The lines of one process; one that is no line of ours (torn) is counted."""
        process = Process()
        for line in lines:
            try:
                getattr(self, "_" + line[0].replace("-", "_"))(process, *line[1:])
            except (TypeError, AttributeError, IndexError, KeyError, ValueError) as error:
                self.faults += 1
                self.fault = self.fault or f"a line of process {process.pid}: {error}"[:300]
        self.spawned += [(process.pid, token, count) for token, count in process.spawned.items()]

    # -- one method for each kind of line

    def _hello(self, process: Process, token: str, about: Record) -> None:
        process.pid, process.ppid, process.start = about["pid"], about["ppid"], about["start"]
        process.token = token
        self.started.append((process.pid, process.ppid, token, process.start, about["kind"]))

    def _context(self, process: Process, token: str, kind: AffectedTraceContextKind, name: str) -> None:
        found = self.context(token)
        found.kind, found.name = kind, name

    def _def(self, process: Process, number: int, path: str, name: str, line: int) -> None:
        key = (path, plain_name(name))
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = len(self.names)
            self.lines.append(line)
            self.ran.append(array("I"))
        process.defs[number] = found
        if key[1] != name:
            process.anonymous.add(number)

    def _ran(self, process: Process, token: str, numbers: list[int]) -> None:
        context = self.context(token).number
        for number in numbers:
            self.ran[process.defs[number]].append(context)

    def _edge(self, process: Process, above: int, own: int, operation: str, line: int, via: str) -> None:
        pair = (process.defs[above], process.defs[own])
        if pair[0] != pair[1]:
            self.edges.setdefault(pair, (operation, line, THROUGH_ANONYMOUS if own in process.anonymous else via))

    def _uses(self, process: Process, token: str, others: list[str]) -> None:
        self.context(token).uses |= {self.context(other).number for other in others}

    def _not(self, process: Process, token: str, why: str) -> None:
        self.context(token).why[why] = None

    def _open(self, process: Process, token: str, path: str, by: int) -> None:
        self._touch("open", process, token, path, by)

    def _list(self, process: Process, token: str, path: str, by: int) -> None:
        self._touch("list", process, token, path, by)

    def _touch(self, what: str, process: Process, token: str, path: str, by: int) -> None:
        context = self.context(token)
        if by < 0:
            self.by_nobody.append((what, path, context))
            return
        self.touched[what][path].add(context.number)
        self.by[what][path].add(process.defs[by])

    def _environ(self, process: Process, token: str, name: str, by: int) -> None:
        self.context(token).environ.add(name)
        if by >= 0:
            self.by["environ"][name].add(process.defs[by])

    def _spawn(self, process: Process, token: str, argv: list[str], by: int) -> None:
        process.spawned[token] += 1
        self.context(token).processes[tuple(argv)] = None

    def _import_ran(self, process: Process, path: str, number: int) -> None:
        self.at_import["ran"][path].add(process.defs[number])

    def _import_open(self, process: Process, path: str, other: str) -> None:
        self.at_import["open"][path].add(other)

    def _import_list(self, process: Process, path: str, other: str) -> None:
        self.at_import["list"][path].add(other)

    def _import_environ(self, process: Process, path: str, name: str) -> None:
        self.at_import["environ"][path].add(name)

    def _faults(self, process: Process, count: int, first: str) -> None:
        self.faults += count
        self.fault = self.fault or first

    # -- the end

    def close(self, alive: set[tuple[int, int]]) -> None:
        """Say of each context what was not seen. `alive`: (pid, start time) of traced processes that still run.

        Only here the kinds of all contexts are known: a child's file may be read before its parent's.
        """
        for what, path, context in self.by_nobody:
            if context.kind not in ("session", "collection"):  # the test runner lists what it collects
                self.touched[what][path].add(context.number)
        told = Counter((ppid, token) for _, ppid, token, _, kind in self.started if kind != "fork")
        replaced = Counter((pid, token) for pid, _, token, _, kind in self.started if kind != "fork")
        for pid, token, count in self.spawned:
            if count > told[(pid, token)] + replaced[(pid, token)] - (replaced[(pid, token)] > 0):
                self.context(token).why["it started a process that is not traced"] = None
        for pid, _, token, start, _ in self.started:
            if token != SESSION and (pid, start) in alive:
                self.context(token).why["a process of it still runs"] = None
        if self.faults:
            for context in self.contexts.values():
                context.why[f"the recording lost something: {self.fault}".rstrip(": ")] = None

    def paths(self) -> list[str]:
        """Every file that anything is known of, sorted."""
        found = {path for path, _ in self.names}
        for known in (self.touched["open"], self.touched["list"], *self.at_import.values()):
            found |= set(known)
        return sorted(found)

    def records(self, blobs: dict[str, str]) -> Iterator[AffectedTrace]:
        """All records but the header and the end. `blobs`: the git id of each file as it was."""
        for context in self.contexts.values():
            yield _context_record(context)
        names = list(self.names)
        for number, (path, name) in enumerate(names):
            ran = sorted(set(self.ran[number]))
            yield {"record": "definition", "path": path, "name": name, "line": self.lines[number], "ran": ran}
        calls: dict[str, list[TracedCall]] = defaultdict(list)
        for (above, own), (how, line, via) in self.edges.items():
            place, name = names[own]
            call: TracedCall = {"from": names[above][1], "path": place, "to": name, "how": how, "line": line}
            call |= {"via": via} if via else {}
            calls[names[above][0]].append(call)
        for path in self.paths():
            yield self._file_record(path, blobs.get(path), names)
        for path, found in sorted(calls.items()):
            yield {"record": "calls", "path": path, "calls": found}
        for name, by in sorted(self.by["environ"].items()):
            yield {"record": "variable", "name": name, "readBy": sorted(list(names[one]) for one in by)}

    def _file_record(self, path: str, blob: str | None, names: list[tuple[str, str]]) -> AffectedTraceFile:
        made: AffectedTraceFile = {"record": "file", "path": path}
        made |= {"blob": blob} if blob else {}
        if path in self.touched["open"]:
            made["opened"] = sorted(self.touched["open"][path])
            made["openedBy"] = sorted(list(names[one]) for one in self.by["open"].get(path, ()))
        if path in self.touched["list"]:
            made["listed"] = sorted(self.touched["list"][path])
            made["listedBy"] = sorted(list(names[one]) for one in self.by["list"].get(path, ()))
        if path in self.at_import["open"]:
            made["importOpened"] = sorted(self.at_import["open"][path])
        if path in self.at_import["list"]:
            made["importListed"] = sorted(self.at_import["list"][path])
        if path in self.at_import["environ"]:
            made["importEnvironment"] = sorted(self.at_import["environ"][path])
        if path in self.at_import["ran"]:
            made["importRan"] = sorted(list(names[one]) for one in self.at_import["ran"][path])
        return made


def _context_record(context: Context) -> AffectedTraceContext:
    made: AffectedTraceContext = {
        "record": "context",
        "number": context.number,
        "kind": context.kind,
        "name": context.name,
        "complete": not context.why and context.kind != "session",
    }
    if context.uses:
        made["uses"] = sorted(context.uses)
    if context.why:
        made["why"] = list(context.why)[:WHY_SHOWN]
    if context.processes:
        made["processes"] = [list(argv) for argv in list(context.processes)[:PROCESSES_SHOWN]]
    if context.environ:
        made["environment"] = sorted(context.environ)[:NAMES_SHOWN]
    return made


def plain_name(name: str) -> str:
    """The definition that a piece of code is in: lambdas and comprehensions are their owner's."""
    while True:
        head, _, last = name.rpartition(".")
        if last not in ANONYMOUS:
            return name
        name = head.removesuffix(".<locals>") or "<module>"
