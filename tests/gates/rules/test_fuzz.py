"""Any bytes before every reader: never a traceback, always an answer that keeps its contract."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktxkit.base.rules import strict_yaml
from ktxkit.gates.rules import expressions
from tests.support.gates import judged
from tests.support.readers import READERS, told

FULL = os.environ.get("KTX_TEST_FULL") == "1"
many = settings(
    max_examples=3000 if FULL else 100,
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
    '{"path": "a", "message": "m"}', '"kind": "gate-baseline"', "gates:\n- gate: ",
    "# ------------------------ >8 ------------------------\n",
    "1" * 40, " refs/heads/a ", "0" * 40, "$ref", "pattern", "schemaVersion: 1",
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


def mixed(words: list[str]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.lists(st.sampled_from(words), max_size=30).map("".join).map(str.encode), st.binary(max_size=200)
    )


@pytest.mark.parametrize("reader", READERS)
def test_readers_end(reader: str) -> None:
    """Each in its turn: an answer that keeps its contract, or an error that is meant."""
    words = {"sql": SQL, "python": PYTHON}.get(reader)
    drawn = inputs if words is None else mixed(words)

    @settings(many, max_examples=3000 if FULL else 40)
    @given(drawn)
    def ends(data: bytes) -> None:
        READERS[reader](data)

    ends()


@many
@given(st.lists(st.tuples(st.sampled_from(PATHS), inputs), max_size=4))
def test_a_tree_of_anything_has_a_verdict(files: list[tuple[str, bytes]]) -> None:
    told(list(judged(dict(files), advise=True, strictConnections=True).findings))


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


@pytest.mark.parametrize(
    "text", ["(" * 40 + "a" + ")" * 40, "not " * 300 + "a", "-" * 300 + "a", "a" + "[0]" * 41, "case " * 41]
)
def test_deep_expressions_end(text: str) -> None:
    assert expressions.read(text).rule in ("", "expr-nesting", "expr-not-expression")
