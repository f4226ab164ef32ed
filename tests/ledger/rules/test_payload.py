"""Foreign text: bounded in the event, whole beside it, once for a thousand failures of one kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.base.rules.digests import digest
from ktxkit.ledger.rules.payload import bodies, clean, describe, restore, restore_escaped, value

ANY = st.text(st.characters(codec=None, exclude_categories=()))


class Kept(dict[str, bytes]):
    def keep(self, data: bytes) -> str:
        self[digest(data)] = data
        return digest(data)


@given(ANY)
def test_clean_is_strict_and_reversible(text: str) -> None:
    plain, escaped = clean(text)
    plain.encode("utf-8")
    assert (restore_escaped(plain) if escaped else plain) == text
    assert escaped == any(0xD800 <= ord(char) <= 0xDFFF for char in text)


@given(st.lists(ANY, max_size=200).map(lambda parts: ("\n" * 3).join(parts) * 5))
def test_a_text_comes_back_byte_for_byte(text: str) -> None:
    kept = Kept()
    made = describe(text, kept.keep)
    assert restore(made, kept.__getitem__) == text
    assert len(made["head"].encode()) <= 2048


@given(ANY)
def test_bodies_are_the_text(text: str) -> None:
    assert "".join(bodies(text)) == text


def failure(number: int) -> str:
    return (
        f"i = {number}, request = <SubRequest 'fix' for <Function test_x[{number}]>>\n\n"
        "    def test_x(i, request):\n" + "        step()\n" * 200 + ">       deep(i)\n\n"
        "test_m.py:9: \n"
        + "_ " * 40
        + f"\n\ni = {number}\n\n    def deep(i):\n"
        + "        more()\n" * 200
        + f">       assert i == -1\nE       assert {number} == -1\n\nlib.py:4: AssertionError"
    )


def test_a_thousand_failures_of_one_kind_keep_their_frames_once() -> None:
    kept = Kept()
    texts = [failure(number) for number in range(1000)]
    described = [describe(text, kept.keep) for text in texts]
    assert sum(map(len, kept.values())) < 2 * len(texts[0]) < sum(map(len, texts)) / 400
    assert [restore(one, kept.__getitem__) for one in described] == texts


def test_a_missing_or_wrong_body_is_seen() -> None:
    kept = Kept()
    made = describe(failure(1), kept.keep)
    name = next(part["ref"] for part in made["parts"] if "ref" in part)
    kept[name] = b"something else"
    with pytest.raises(ValueError, match="do not make up"):
        restore(made, kept.__getitem__)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1, 1), (1.5, 1.5), (True, True), (None, None), ("x", "x"), (2**63, {"type": "int", "text": str(2**63)}),
        (float("nan"), {"type": "float", "text": "nan"}), (float("inf"), {"type": "float", "text": "inf"}),
        (b"\xff", {"type": "bytes", "text": "b'\\xff'"}), ([1], {"type": "list", "text": "[1]"}),
    ],
)  # fmt: skip
def test_values(found: Any, expected: Any) -> None:
    assert value(found) == expected


def test_a_repr_that_raises_is_recorded_as_such() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    assert value(Bad()) == {"type": "Bad", "text": "<repr failed: RuntimeError>"}
