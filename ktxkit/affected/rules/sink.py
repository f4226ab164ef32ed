"""What the units of one Python file use, as it is collected, and as the document that is kept.

A unit is what can change alone: a function, a method, a class's own statement, a constant, an imported name, the rest
of the module (unit 0, what runs when it is imported). `EAGER` stands for what is evaluated at import besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Units = tuple[int, ...]
Facts = dict[str, Any]
EAGER = -1
MODULE, MAIN = "", "<main>"
ANYTHING = "*"  # every name of a module
OWN, BASE_ONLY = "", "%"  # hints of a use: a name of this module; the same, only with an attribute behind it
MAKE = "!"  # suffix of what runs when a subclass is made
VERSION = 18  # counted up whenever a reader finds something else in the same bytes


class Sink:
    """Names, imports, words and what else units refer to, each with the units that do."""

    def __init__(self) -> None:
        self.units: list[list[Any]] = []  # name, kind, parts of the digest, line
        self.numbers: dict[str, int] = {}
        self.uses: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.marks: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.classes: dict[str, dict[str, Any]] = {}
        self.fixtures: dict[str, list[Any]] = {}
        self.stars: set[str] = set()

    def unit(self, name: str, kind: str, line: int) -> int:
        """The number of a unit; the same one where a name is defined twice."""
        if name not in self.numbers:
            self.numbers[name] = len(self.units)
            self.units.append([name, kind, [], line])
        number = self.numbers[name]
        if self.units[number][1] != kind:
            self.units[number][1] = "mixed"
        return number

    def part(self, number: int, text: str) -> None:
        """More of what makes up a unit."""
        self.units[number][2].append(text)

    def use(self, name: str, hint: str, units: Units) -> None:
        """Units use a name: of a module that `hint` names, or of this one."""
        self.uses[name][hint].update(units)

    def mark(self, what: str, name: str, units: Units) -> None:
        """Units do `what` with something named so: import, say a word, read a variable of the environment."""
        self.marks[what][name].update(unit for unit in units if unit != EAGER)

    def document(self) -> Facts:
        """The facts, as JSON has them."""
        from blake3 import blake3

        def digest(parts: Iterable[str]) -> str:
            return blake3("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest(12)

        eager = [[n, h] for n, hints in self.uses.items() for h, units in hints.items() if EAGER in units]
        uses = {n: {h: sorted(units - {EAGER}) for h, units in hints.items()} for n, hints in self.uses.items()}
        return {
            "version": VERSION,
            "units": [[name, kind, digest(parts), line] for name, kind, parts, line in self.units],
            "uses": uses,
            "eager": sorted(eager),
            "marks": {what: {n: sorted(units) for n, units in named.items()} for what, named in self.marks.items()},
            "aliases": sorted(unit[0] for unit in self.units if unit[1] in ("alias", "mixed")),
            "classes": self.classes,
            "fixtures": self.fixtures,
            "stars": sorted(self.stars),
        }
