"""Any bytes: never a traceback, always facts that keep their contract."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktxkit import contracts
from ktxkit.core import strict_yaml
from ktxkit.core.gates import expressions, findings, front_matter, swallow
from ktxkit.core.gates.rules import RULES
from ktxkit.flows import gate_facts
from tests.support.gates import judged

FULL = os.environ.get("KTX_TEST_FULL") == "1"
many = settings(
    max_examples=3000 if FULL else 150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# fmt: off
YAML = [
    "name", ":", ": ", " ", "  ", "\n", "\n  ", "\n- ", "- ", "[", "]", "{", "}", ", ", "'", '"', "|", ">", "|2-\n",
    "#",
    "&a ", "*a", "<<", "!!str ", "!", "%YAML 1.1\n", "---", "---\n", "...\n", "\t", "? ", "1", "1.5",
    ".inf", "0x1F",
    "1e999", "2024-01-01", "2024-13-45", "null", "~", "true", "no", "\r", "\r\n", "\ufeff", "\u2028", "\x00", "\x07",
    "\x85", "\u00e9", "\U0001f600", "\\", "\\x", "\\uD83D", "table", "columns", "joins", "tables", "sl_refs", "refs",
    "summary", "measures", "to", "expr", "sum(", "ktx-gate: ignore=yaml-tag", "9" * 30, "@", "`", "=", "``", "[[",
    "]]",
    "`a.b`", "<!-- from: a/../b -->", "on", "type", " # c",
]
SQL = [
    "sum(", ")", "a", ".", "b", ",", "'", '"', "select ", "from ", "case when ", " end", ";", "--", "/*", "*/", "{{",
    "${",
    "=", "1", " as ", "not ", "[", "]", "::", "\n", "(", "in (", "between ", "and ", "*", "@", "\\", "?", "$1", "`",
]
PYTHON = [
    "try:\n", "except OSError:\n", "except:\n", "    pass\n", "    ", "x = 1\n", "# gate-ok: r\n", "# gate-ok\n",
    "'''",
    "\\\n", "(", ")", "def f():\n", "return\n", "\t", "\r", "\x00", "\u00e9", "if 1:\n", "f'{", "}",
]
# fmt: on
PATHS = ("wiki/global/a.md", "semantic-layer/w/b.yaml", "semantic-layer/w/_schema/c.yaml", "links/provenance.json")
pieces = st.lists(st.sampled_from(YAML), max_size=40).map("".join)
texts = st.one_of(pieces, st.text(max_size=200), pieces.map(lambda text: f"---\n{text}\n---\n{text}"))
inputs = st.one_of(texts.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=300))
KINDS = ("page", "source", "shard", "provenance")


def whole(value: Any) -> Any:
    """JSON can carry it: facts are kept as JSON."""
    return json.loads(json.dumps(value, allow_nan=False))


@many
@given(inputs, st.sampled_from(KINDS))
def test_readers_never_raise(data: bytes, kind: str) -> None:
    facts = gate_facts.read(kind, data)
    assert whole(facts) == facts
    for rule, line, column, message, hint, level in facts["problems"]:
        assert rule in RULES and level in ("", *findings.LEVELS)
        assert line >= 0 and column >= 0 and message and isinstance(hint, str)


@many
@given(st.lists(st.tuples(st.sampled_from(PATHS), inputs), max_size=4))
def test_a_tree_of_anything_has_a_verdict(files: list[tuple[str, bytes]]) -> None:
    found = judged(dict(files), advise=True, strictConnections=True)
    for one in found.findings:
        document = findings.document(one)
        contracts.validate("verdict", {**EMPTY, "counts": COUNTS, "findings": [document]})


COUNTS = dict.fromkeys(("error", "warning", "advice", "inherited", "suppressed", "baselined"), 0)
EMPTY = {"schemaVersion": 1, "kind": "verdict", "outcome": "done", "scope": "all", "looked": {}, "gates": []}


ODD = ("\t", "\r", "|#", ">#")  # libyaml takes tabs for blanks in more places, and a comment without its blank


@many
@given(texts)
def test_two_parsers_of_yaml_agree(text: str) -> None:
    """libyaml's and ruamel.yaml's own: the same values without a problem, or a problem from both."""
    if any(odd in text for odd in ODD):
        return
    fast = strict_yaml.read_text(text)
    slow = strict_yaml.read_with(strict_yaml.pure_events, text)
    assert usable(fast) == usable(slow), (text, fast.problems, slow.problems)
    if usable(fast) and fast.root is not None and slow.root is not None:
        assert fast.root.data() == slow.root.data()


def usable(parsed: strict_yaml.Parsed) -> bool:
    """A map or list without a problem: what an artifact can be."""
    return not parsed.problems and parsed.root is not None and parsed.root.kind != "scalar"


@many
@given(texts)
def test_front_matter_splits_and_joins(text: str) -> None:
    parts = front_matter.split(text)
    assert text.endswith(parts.body)
    assert text[parts.body_offset :] == parts.body
    if parts.front is not None:
        assert text[parts.offset : parts.offset + len(parts.front)] == parts.front


@many
@given(st.one_of(st.lists(st.sampled_from(SQL), max_size=30).map("".join), st.text(max_size=100)))
def test_expressions_never_raise(text: str) -> None:
    read = expressions.read(text)
    assert read.rule in ("", "expr-not-expression", "expr-template", "expr-nesting")
    assert all(isinstance(name, str) for pair in read.columns for name in pair)


@pytest.mark.parametrize(
    "text", ["(" * 40 + "a" + ")" * 40, "not " * 300 + "a", "-" * 300 + "a", "a" + "[0]" * 41, "case " * 41]
)
def test_deep_expressions_end(text: str) -> None:
    assert expressions.read(text).rule in ("", "expr-nesting", "expr-not-expression")


@many
@given(st.one_of(st.lists(st.sampled_from(PYTHON), max_size=30).map("".join).map(str.encode), st.binary(max_size=200)))
def test_swallow_never_raises(data: bytes) -> None:
    for problem in swallow.judge(data):
        assert problem.rule in RULES
