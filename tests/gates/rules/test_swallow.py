"""Swallowed exceptions: what is one, what is none, and what waives one. There is more to deny than to allow."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktxkit.gates.rules.swallow import judge

DENIED = {
    "pass": "try:\n    x()\nexcept OSError:\n    pass",
    "bare": "try:\n    x()\nexcept:\n    pass",
    "ellipsis": "try:\n    x()\nexcept OSError:\n    ...",
    "a text only": "try:\n    x()\nexcept OSError:\n    'it does not matter'",
    "several nothings": "try:\n    x()\nexcept OSError:\n    'so'\n    ...\n    pass",
    "on one line": "try: x()\nexcept OSError: pass",
    "continue": "for a in b:\n    try:\n        x()\n    except OSError:\n        continue",
    "break": "while True:\n    try:\n        x()\n    except OSError:\n        break",
    "named and unused": "try:\n    x()\nexcept OSError as error:\n    pass",
    "one of two handlers": "try:\n    x()\nexcept KeyError:\n    log()\nexcept OSError:\n    pass",
    "beside else and finally": "try:\n    x()\nexcept OSError:\n    pass\nelse:\n    y()\nfinally:\n    z()",
    "a group": "try:\n    x()\nexcept* OSError:\n    pass",
    "return from a procedure": "def f():\n    try:\n        x()\n    except OSError:\n        return\n    y()",
    "return None from a procedure": "def f():\n    try:\n        x()\n    except OSError:\n        return None",
    "return in a generator": "def f():\n    try:\n        yield x()\n    except OSError:\n        return",
    "in an async function": "async def f():\n    try:\n        await x()\n    except OSError:\n        return",
    "an inner function's answer is not ours": (
        "def f():\n    def g():\n        return 1\n    try:\n        g()\n    except OSError:\n        return"
    ),
    "in a class body": "class A:\n    try:\n        x = 1\n    except OSError:\n        pass",
    "nested in a handler": "try:\n    x()\nexcept OSError:\n    try:\n        y()\n    except KeyError:\n        pass",
    "a comment is no handling": "try:\n    x()\nexcept OSError:\n    # never mind\n    pass",
    "a waiver in a text": "try:\n    x()\nexcept OSError:\n    '# gate-ok: no'",
    "a waiver without its colon": "try:\n    x()\nexcept OSError:\n    pass  # gate-ok because",
    "a waiver below": "try:\n    x()\nexcept OSError:\n    pass\nx()  # gate-ok: too late",
}
TRY = "    try:\n        return x()\n    except OSError:\n        return"
ALLOWED = {
    "raise": "try:\n    x()\nexcept OSError:\n    raise",
    "raise another": "try:\n    x()\nexcept OSError as e:\n    raise Mine from e",
    "log": "try:\n    x()\nexcept OSError as e:\n    log(e)",
    "assign": "try:\n    x()\nexcept OSError:\n    y = 1",
    "return a value": "def f():\n    try:\n        return x()\n    except OSError:\n        return 0",
    "return None where others return": f"def f():\n{TRY} None",
    "bare return where others return": f"def f():\n{TRY}",
    "an outer procedure around a function": f"def f():\n    def g():\n{textwrap.indent(TRY, '    ')} None\n    g()",
    "pass and then more": "try:\n    x()\nexcept OSError:\n    pass\n    y()",
    "no handler": "try:\n    x()\nfinally:\n    pass",
    "suppress says so": "with suppress(OSError):\n    x()",
    "del": "try:\n    x()\nexcept OSError as e:\n    del y",
    "waived on the block's line": "try:\n    x()\nexcept OSError:  # gate-ok: absent is fine\n    pass",
    "waived inside": "try:\n    x()\nexcept OSError:\n    pass  #gate-ok:absent is fine",
    "waived on the line above": "try:\n    x()\n# gate-ok: absent is fine\nexcept OSError:\n    pass",
}


def rules(source: str) -> list[str]:
    ast.parse(source)
    return [problem.rule for problem in judge(source.encode())]


@pytest.mark.parametrize("name", DENIED)
def test_denied(name: str) -> None:
    assert "swallowed-exception" in rules(DENIED[name])
    indented = f"def outer(a):\n    if a:\n        return a\n{textwrap.indent(DENIED[name], '    ')}"
    if "return" not in name:
        assert "swallowed-exception" in rules(indented)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    assert rules(ALLOWED[name]) == []


def test_more_is_denied_than_allowed() -> None:
    assert len(DENIED) >= len(ALLOWED) >= 12


def test_places() -> None:
    source = "try:\n    pass\nexcept (OSError,\n        ValueError):\n    pass\n"
    source += "for \u00e9 in a:\n    try: x\n    except KeyError: continue\n"
    problems = judge(source.encode())
    assert [(one.line, one.column) for one in problems] == [(3, 1), (8, 5)]
    assert "(OSError, ValueError)" in problems[0].message


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1  # gate-ok: nothing here", ["waiver-unused"]),
        ("try:\n    x\nexcept A:\n    log()  # gate-ok: handled", ["waiver-unused"]),
        ("try:\n    x\nexcept A:  # gate-ok:\n    pass", ["swallowed-exception", "waiver-without-reason"]),
        ("try:\n    x\nexcept A:  # gate-ok\n    pass", ["swallowed-exception", "waiver-without-reason"]),
        ("try:\n    x\nexcept A:  # gate-ok: one\n    pass  # gate-ok: two", []),
        ("# gate-ok is how a waiver is written\nx = '# gate-ok: text'", []),
        ("x = 1  # gate-okay: another word", []),
    ],
)
def test_waivers(source: str, told: list[str]) -> None:
    assert sorted(rules(source)) == told


@pytest.mark.parametrize(
    "data",
    [
        b"def", b"\x00", b"x = '\xff'", b"# coding: nope\n", b"(" * 5000, b"x = " + b"-" * 100_000 + b"1",
        b"\xef\xbb\xbfx = (", b"if 1:\n\tx\n        y\n",
    ],
)  # fmt: skip
def test_what_is_no_python_is_said(data: bytes) -> None:
    (problem,) = judge(data)
    assert problem.rule == "python-syntax" and problem.line >= 1 and problem.column >= 1


def test_other_encodings_and_line_ends() -> None:
    body = "try:\r\n    x('\u00e9')\r\nexcept OSError:\r\n    pass  # gate-ok: caf\u00e9\r\n"
    assert judge(b"# coding: latin-1\r\n" + body.encode("latin-1")) == []
    assert judge(b"\xef\xbb\xbf" + body.encode()) == []
    assert judge(body.replace("\r\n", "\r").encode()) == []
    assert judge(b"try:\n    x\nexcept A:\n    pass  # gate-ok: caf\xe9 \xff\n") == []
    assert judge(b"x = '\\d'\n") == []  # a deprecated escape is not ours to tell


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            ["try:", "except A:", "pass", "#", "gate-ok:", "\n", "    ", "\t", "x", "'", '"""', "\\", "\x0c"]
        )
    )
)
def test_any_text_has_an_answer(words: list[str]) -> None:
    judge("".join(words).encode())


@pytest.mark.parametrize("kind", ["a" + ".a" * 2000, "not " * 900 + "a", "a" + "[0]" * 1500])
def test_what_a_deep_expression_names_is_told_all_the_same(kind: str) -> None:
    (problem,) = judge(f"try:\n    x\nexcept {kind}:\n    pass\n".encode())
    assert problem.rule in ("swallowed-exception", "python-syntax")


@pytest.mark.parametrize("data", [b"a\n" * 80_000, b"# " + b"word" * 270_000])
def test_a_file_that_is_too_large_is_told(data: bytes) -> None:
    (problem,) = judge(data)
    assert (problem.rule, problem.line) == ("python-size", 1)


def test_a_long_file_is_read() -> None:
    function = "def name(argument):\n    '''Some text that says it.'''\n    return argument.attribute + 1\n\n\n"
    swallows = "try:\n    name(1)\nexcept ValueError:\n    pass\n"
    assert rules(function * 4_000 + swallows) == ["swallowed-exception"]
