"""The two maps, joined: what a run saw gives more beginnings to follow; it never takes one away.

Of a file that differs between the traced tree and the base nothing is used: what ran there was other code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ktxkit.affected.rules.runtime.trace import Trace

Unit = tuple[str, str]  # path, name; an empty name is what runs when the module is loaded
MODULE = ""
RAN_AT_IMPORT = "<module>"


class Differs(NamedTuple):
    """A path that differs. `units`: the names of what differs in it, where it is Python."""

    path: str
    how: str
    units: tuple[str, ...] = ()


def seeds(
    trace: Trace, ids: Mapping[str, str], differing: Iterable[Differs], environment: Collection[str] = ()
) -> Iterator[tuple[Unit, str]]:
    """Units that a run saw depend on what differs, each with how. `ids`: the git id of each file of the base."""
    run = f"in the traced run {trace.header['run']}"
    for one in differing:
        traced = trace.blob(one.path)
        if one.path in ids and traced is not None and traced != ids[one.path]:
            continue  # stale: it was another file then
        for name in one.units if traced is not None else ():
            ran = RAN_AT_IMPORT if name == MODULE else name
            yield from _tests(trace.tests_of(one.path, ran), f"ran {one.path} {name or '(loading it)'} {run}")
            for module in trace.modules_running(one.path, ran):
                yield (module, MODULE), f"ran {one.path} {name} while it was imported {run}"
        yield from _files(trace, one, run)
    if environment:
        yield from _variables(trace, environment, run)


def running(trace: Trace, ids: Mapping[str, str]) -> Callable[[Unit], list[tuple[Unit, str]]]:
    """The tests that the run saw in a unit, of a file that is as it was then. `ids`: the git id of each file."""
    run = f"in the traced run {trace.header['run']}"

    @cache
    def definitions(path: str) -> dict[str, list[int]]:
        return trace.definitions(path) if path in ids and trace.blob(path) == ids[path] else {}

    def found(unit: Unit) -> list[tuple[Unit, str]]:
        path, name = unit
        numbers = definitions(path).get(name, ())
        return list(_tests(trace.tests(numbers), f"ran {path} {name} {run}")) if name and numbers else []

    return found


def _files(trace: Trace, one: Differs, run: str) -> Iterator[tuple[Unit, str]]:
    """Whoever opened a file; where it came or went, whoever listed its directory too."""
    places = [one.path] if one.how == "changed" else [one.path, one.path.rpartition("/")[0] or "."]
    for place in places:
        said = f"{'opened' if place == one.path else 'listed'} {place} {run}"
        yield from _tests(trace.tests_opening(place) | trace.tests_listing(place), said)
        yield from (((path, unit_of(name)), said) for path, name in trace.readers(place))
        yield from (((module, MODULE), f"{said}, while it was imported") for module in trace.modules_reading(place))


def _variables(trace: Trace, environment: Collection[str], run: str) -> Iterator[tuple[Unit, str]]:
    read = trace.variables()
    for name in environment:
        for path, unit in read.get(name, set()) | read.get("*", set()):
            yield (path, unit_of(unit)), f"read {name} {run}"


def _tests(ids: Iterable[str], said: str) -> Iterator[tuple[Unit, str]]:
    for one in sorted(ids):
        path, _, rest = one.partition("::")
        yield (path, rest.partition("[")[0].replace("::", ".")), said


def unit_of(name: str) -> str:
    """The unit that a definition is: what is inside a function is the function's."""
    plain = name.partition(".<locals>")[0]
    return MODULE if plain == RAN_AT_IMPORT else plain
