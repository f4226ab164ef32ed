"""Added paths that some file system takes for others of the tree: which, and at what cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.base.rules import patterns
from ktxkit.work.rules import policy
from ktxkit.work.rules.policy import collisions

NAMES = st.sampled_from([b"a", b"A", b"b", b"\xc3\xa9", b"e\xcc\x81", b"\xff", b"STRASSE", "stra\u00dfe".encode()])


def pairwise(added: list[bytes], siblings: dict[bytes, list[bytes]]) -> list[tuple[bytes, bytes]]:
    """Every name beside every other, as the definition has it."""
    found = set()
    for path in added:
        parts = path.split(b"/")
        for depth, part in enumerate(parts):
            parent = b"/".join(parts[:depth])
            for other in siblings.get(parent, ()):
                if other != part and patterns.fold(patterns.text(other)) == patterns.fold(patterns.text(part)):
                    found.add((b"/".join(parts[: depth + 1]), (parent + b"/" if parent else b"") + other))
    return sorted(found)


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3).map(b"/".join), max_size=6),
    st.dictionaries(st.one_of(st.just(b""), st.lists(NAMES, max_size=2).map(b"/".join)), st.lists(NAMES, max_size=6)),
)
def test_every_pair_that_folds_alike_is_found(added: list[bytes], siblings: dict[bytes, list[bytes]]) -> None:
    assert collisions(added, siblings) == pairwise(added, siblings)


def test_what_is_found() -> None:
    siblings = {b"": [b"d", b"D"], b"d": [b"new", b"NEW", b"other"]}
    assert collisions([b"d/new"], siblings) == [(b"d", b"D"), (b"d/new", b"d/NEW")]


def test_each_name_is_folded_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [b"n%d" % i for i in range(400)]
    calls = []

    def counted(name: str) -> str:
        calls.append(name)
        return patterns.fold(name)

    monkeypatch.setattr(policy, "fold", counted)
    assert collisions([b"d/" + name for name in names], {b"": [b"d"], b"d": names}) == []
    assert len(calls) == 2 * (len(names) + 1)
