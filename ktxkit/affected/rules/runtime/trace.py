"""A runtime map as it is asked: which tests ran a definition, opened a file. Lines are parsed when needed.

It only ever adds to what else is known: a test that is not in an answer may need the file all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

Parse = Callable[[bytes], dict[str, Any]]
KEYED = (b"definition", b"file", b"calls")


class Trace:
    """One map. `parse` turns a line into a record of the contract `affected-trace`, or raises."""

    def __init__(self, lines: list[bytes], parse: Parse) -> None:
        self._parse = parse
        self.header = parse(lines[0])
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

    def _of(self, kind: bytes, path: str) -> list[dict[str, Any]]:
        found = self._keyed[kind].get(_key(path), ())
        return [record for record in map(self._parse, found) if record["path"] == path]

    # -- contexts and tests

    @cached_property
    def contexts(self) -> list[dict[str, Any]]:
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
    def all_tests(self) -> set[str]:
        return {one["name"] for one in self.contexts if one["kind"] == "test"}

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
        return [self._parse(lines[0])["path"] for lines in self._keyed[b"file"].values()]

    def definitions(self, path: str) -> dict[str, list[int]]:
        """The definitions of a file that ran, each with its contexts."""
        return {one["name"]: one["ran"] for one in self._of(b"definition", path)}

    def ran(self) -> Iterator[tuple[str, str, list[int]]]:
        """Every definition that ran: path, name, contexts."""
        for lines in self._keyed[b"definition"].values():
            for one in map(self._parse, lines):
                yield one["path"], one["name"], one["ran"]

    def tests_of(self, path: str, name: str) -> set[str]:
        """Tests that ran a definition or one inside it (`C` means every method of C)."""
        inside = name + "."
        found = self.definitions(path)
        return self.tests(n for one, ran in found.items() if one == name or one.startswith(inside) for n in ran)

    def tests_of_file(self, path: str) -> set[str]:
        """Tests that ran anything of a file, or opened it."""
        ran = self.tests(n for found in self.definitions(path).values() for n in found)
        return ran | self.tests_opening(path)

    def tests_opening(self, path: str) -> set[str]:
        """Tests that opened a file, or tried to."""
        return self.tests(n for one in self._of(b"file", path) for n in one.get("opened", ()))

    def tests_listing(self, directory: str) -> set[str]:
        """Tests that listed a directory (relative to the top, without a last `/`)."""
        return self.tests(n for one in self._of(b"file", directory) for n in one.get("listed", ()))

    def readers(self, path: str) -> set[tuple[str, str]]:
        """The definitions (path, name) that opened a file or listed a directory: whoever reaches them may need it."""
        found = self._of(b"file", path)
        return {(one[0], one[1]) for file in found for key in ("openedBy", "listedBy") for one in file.get(key, ())}

    @cached_property
    def _importers(self) -> dict[tuple[str, str], set[str]]:
        """What happened while a module's body ran: (kind or path, name) to the modules."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for lines in self._keyed[b"file"].values():
            for one in map(self._parse, lines):
                for path, name in one.get("importRan", ()):
                    found[path, name].add(one["path"])
                for key in ("importOpened", "importListed"):
                    for path in one.get(key, ()):
                        found["", path].add(one["path"])
        return found

    def modules_running(self, path: str, name: str) -> set[str]:
        """Modules whose import ran a definition: a change of it is a change of theirs."""
        return self._importers.get((path, name), set())

    def modules_reading(self, path: str) -> set[str]:
        """Modules whose import opened a file or listed a directory."""
        return self._importers.get(("", path), set())

    def calls(self) -> Iterator[dict[str, Any]]:
        """Every call between two definitions: `caller` and `callee` as (path, name), `how`, `line`, `via`."""
        for lines in self._keyed[b"calls"].values():
            for record in map(self._parse, lines):
                for call in record["calls"]:
                    caller, callee = (record["path"], call["from"]), (call["path"], call["to"])
                    yield {"caller": caller, "callee": callee} | {k: call.get(k, "") for k in ("how", "line", "via")}

    def variables(self) -> dict[str, set[tuple[str, str]]]:
        """The environment variables that were read, each with the definitions that read it."""
        records = [self._parse(line) for line in self._variables]
        return {one["name"]: {(by[0], by[1]) for by in one["readBy"]} for one in records}


def _key(path: str) -> bytes:
    """A path as it stands in a line up to its first quote (a collision is told by the parsed record)."""
    from json.encoder import encode_basestring_ascii

    return encode_basestring_ascii(path).encode("ascii").split(b'"', 2)[1]
