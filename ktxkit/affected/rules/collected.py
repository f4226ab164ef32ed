"""Which tests a file holds, by the names that pytest has for them; and where only the whole file can be named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ktxkit.affected.rules.filefacts import defined
from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.project import Project
from ktxkit.affected.rules.sink import ANYTHING, Facts

PLAIN_BASES = {
    "object", "dict", "list", "set", "tuple", "str", "int", "float", "bytes", "NamedTuple", "TypedDict", "Protocol",
    "Generic", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ABC", "Thread", "Exception", "BaseException",
}  # fmt: skip


class Tests(NamedTuple):
    """`ids`: unit to node id, in the order of the file. `coarse`: why the file can only be taken whole."""

    path: str
    ids: dict[str, str]
    coarse: str


def tests_of(path: str, facts: Facts, project: Project) -> Tests:
    """The tests of a file. Each class stands for its tests as well."""
    ids: dict[str, str] = {}
    for name, kind, _, _ in facts["units"]:
        if "." not in name and project.is_test_function(name) and kind in ("function", "mixed"):
            ids[name] = f"{path}::{name}"
        elif kind == "class" and "." not in name and _collected(name, facts, project):
            ids[name] = f"{path}::{name}"
            for member in facts["classes"].get(name, {}).get("members", ()):
                if project.is_test_function(member):
                    ids[f"{name}.{member}"] = f"{path}::{name}::{member}"
    return Tests(path, ids, coarse(facts, project))


def askers(graph: Graph, names: Iterable[str]) -> Iterator[Unit]:
    """The tests and fixtures, wherever they stand, that have one of these as a parameter; and who asks by name."""
    for path, facts in graph.each():
        for name in (*names, ANYTHING):
            for unit in facts["marks"].get("asks", {}).get(name, ()):
                yield path, facts["units"][unit][0]
            for unit in facts["marks"].get("parameters", {}).get(name, ()):
                own = facts["units"][unit][0]
                if own in facts["fixtures"] or graph.project.is_test_function(own.rpartition(".")[2]):
                    yield path, own


NAMING = {"python_files", "python_classes", "python_functions"}
HOOKS = (
    "pytest_collect_file", "pytest_collect_directory", "pytest_pycollect_makemodule", "pytest_pycollect_makeitem",
)  # fmt: skip


def _collects_otherwise(facts: Facts) -> bool:
    """Whether a conftest changes what pytest takes for a test."""
    marks = facts["marks"]
    return "collects otherwise" in marks.get("does", ()) or not NAMING.isdisjoint(marks.get("words", ()))


def beyond(graph: Graph) -> str:
    """Why there may be tests that no Python file is known to hold; empty where there are none."""
    if graph.project.text_tests:
        return "text files are tests (--doctest-glob), and are not followed"
    own = next((path for path, facts in graph.each() if any(hook in defined(facts) for hook in HOOKS)), "")
    other = (path for path, facts in graph.each() if path.endswith("conftest.py") and _collects_otherwise(facts))
    own = own or next(other, "")
    return f"{own} collects tests of its own kind" if own else graph.project.unread


def _collected(name: str, facts: Facts, project: Project) -> bool:
    """A class that pytest collects: by its name, or as a TestCase by its base."""
    about = facts["classes"].get(name, {"bases": [], "members": []})
    tests = any(project.is_test_function(member) for member in about["members"])
    if not project.is_test_class(name):
        return any(last(base).endswith("TestCase") for base in about["bases"])
    return tests or not _plain(about["bases"])


def last(base: str) -> str:
    """The last name of a base as it is written."""
    return base.partition("[")[0].rpartition(".")[2]


def _plain(bases: list[str]) -> bool:
    """Whether no base brings tests along."""
    return all(last(base) in PLAIN_BASES or last(base).endswith(("Error", "Exception", "Warning")) for base in bases)


def coarse(facts: Facts, project: Project) -> str:
    """Why the tests of a file cannot be told one by one; empty where they can."""
    if facts.get("bad"):
        return "it cannot be read"
    if project.doctests and facts["marks"].get("does", {}).get("doctests"):
        return "examples in it are tests"
    if facts["stars"]:
        return "it imports all names of another module"
    if "" in facts["uses"].get("*", {}) or "__getattr__" in defined(facts):
        return "its names are computed"
    if facts["marks"].get("does", {}).get("renames"):
        return "a decorator may give its tests other names"
    kinds = {unit[0]: unit[1] for unit in facts["units"]}
    for name in defined(facts):
        test = project.is_test_function(name) or project.is_test_class(name)
        if test and "." not in name and not name.endswith("!") and kinds.get(name) not in ("function", "class"):
            return f"{name} is no definition of its own"
    for name, kind in kinds.items():
        inner = name.rpartition(".")[2]
        if kind == "class" and "." in name and project.is_test_class(inner):
            return f"{name} is a class of tests in another"
    found = [_odd(name, facts["classes"][name], facts, project) for name in facts["classes"]]
    return next((one for one in found if one), "")


def _odd(name: str, about: dict[str, Any], facts: Facts, project: Project) -> str:
    """Why pytest may see other tests in a class than are written there."""
    members = set(about["members"])
    if _collected(name, facts, project):
        hidden = sorted({"__init__", "__new__", "__test__", "__getattr__"} & members)
        return f"{name} has {hidden[0]}" if hidden else f"{name} is decorated" if about["decorated"] else ""
    if not _plain(about["bases"]) and not project.is_test_class(name):
        return f"{name} may be a TestCase by its base"
    return ""
