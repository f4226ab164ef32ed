"""The differential names the mechanism that hid a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ktxkit.affected.rules.runtime_audit import mechanism, unit_of, unit_of_test
from ktxkit.affected.rules.runtime_trace import TraceFold, plain_name

if TYPE_CHECKING:
    from ktxkit.affected.rules.runtime_trace import CallRecord

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "getattr": ({"source": "getattr(one, name)()"}, "getattr"),
    "registry": ({"source": "TABLE[name](1)"}, "registry"),
    "registry by get": ({"source": "handler = known.get(name); handler()"}, "registry"),
    "callback": ({"source": "function(1)"}, "callback"),
    "callback through C": ({"how": "C:CALL", "source": "sorted(x, key=key)"}, "callback through C"),
    "callback through a library": ({"via": "encoder.py:default"}, "callback through a library"),
    "callback by a lambda": ({"via": "<anonymous>", "callee": "<module>"}, "callback"),
    "construction": ({"how": "C:CALL", "callee": "C.__init__"}, "construction"),
    "protocol": ({"how": "BINARY_OP", "callee": "C.__add__"}, "protocol"),
    "protocol of with": ({"how": "BEFORE_WITH", "callee": "C.__enter__"}, "protocol"),
    "descriptor": ({"how": "LOAD_ATTR", "callee": "C.size"}, "descriptor"),
    "attribute hook": ({"how": "LOAD_ATTR", "callee": "C.__getattr__"}, "attribute hook"),
    "decorator": ({"caller": "wraps.<locals>.inner", "source": "return function()"}, "decorator"),
    "import": ({"how": "IMPORT_NAME", "callee": "<module>"}, "import"),
    "dynamic import": ({"how": "CALL", "callee": "<module>", "via": "x"}, "dynamic import"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_mechanism_is_named(name: str) -> None:
    given, expected = CASES[name]
    call: CallRecord = {
        "caller": ("a.py", given.get("caller", "f")), "callee": ("b.py", given.get("callee", "g")),
        "how": given.get("how", "CALL"), "line": 3, "via": given.get("via", ""),
    }  # fmt: skip
    assert mechanism(call, lambda path, line: given.get("source", "")) == expected


def test_names_are_those_of_definitions() -> None:
    assert plain_name("f.<locals>.<lambda>") == "f" == plain_name("f.<locals>.<listcomp>.<locals>.<genexpr>")
    assert plain_name("<lambda>") == "<module>" and plain_name("C.<lambda>") == "C"
    assert plain_name("f.<locals>.g") == "f.<locals>.g" and unit_of("f.<locals>.g") == "f" and unit_of("<module>") == ""
    assert unit_of_test("tests/a.py::C::test_x[a::b]") == ("tests/a.py", "C.test_x")


def test_torn_lines_are_counted_and_make_everything_incomplete() -> None:
    fold = TraceFold()
    hello = ["hello", "", {"pid": 1, "ppid": 0, "start": 5, "kind": "start", "argv": []}]
    fold.feed([hello, ["context", "1.1", "test", "t.py::t"], None, ["ran", "1.1", [7]], ["surprise", 1]])
    fold.close(set())
    assert fold.faults == 3 and "lost something" in " ".join(fold.contexts["1.1"].why)


def test_a_process_that_still_runs_and_one_that_is_not_traced_are_told() -> None:
    fold = TraceFold()
    hello = ["hello", "", {"pid": 1, "ppid": 0, "start": 5, "kind": "start", "argv": []}]
    child = ["hello", "1.1", {"pid": 2, "ppid": 1, "start": 6, "kind": "start", "argv": []}]
    tests = [["context", f"1.{n}", "test", f"t.py::t{n}"] for n in (1, 2, 3)]
    fold.feed(
        [hello, *tests, ["spawn", "1.1", ["python"], -1], ["spawn", "1.2", ["git"], -1], ["spawn", "1.3", [], -1]]
    )
    fold.feed([child])
    fold.feed([["hello", "1.3", {"pid": 1, "ppid": 0, "start": 5, "kind": "start", "argv": []}]])
    fold.close({(2, 6)})
    assert [list(fold.contexts[f"1.{n}"].why) for n in (1, 2)] == [
        ["a process of it still runs"],
        ["it started a process that is not traced"],
    ]


def test_a_child_is_read_the_same_before_its_parent_and_after() -> None:
    hello = ["hello", "", {"pid": 9999, "ppid": 0, "start": 5, "kind": "start", "argv": []}]
    parent = [hello, ["context", "9999.1", "test", "t.py::t"], ["context", "9999.2", "collection", "t.py"]]
    child = [
        ["hello", "9999.1", {"pid": 10001, "ppid": 9999, "start": 6, "kind": "start", "argv": []}],
        ["open", "9999.1", "data.txt", -1],
        ["open", "9999.2", "conftest.py", -1],
        ["list", "", ".", -1],
    ]
    for order in ((parent, child), (child, parent)):
        fold = TraceFold()
        for lines in order:
            fold.feed(lines)
        fold.close(set())
        known = fold.contexts["9999.1"].number
        assert {path: numbers for path, numbers in fold.touched["open"].items() if numbers} == {"data.txt": {known}}
        assert not any(fold.touched["list"].values()), "what the test runner lists is nobody's"
