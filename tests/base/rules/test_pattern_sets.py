"""Many patterns at once say what each of them says, and their number costs nothing for names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ktxkit.base.rules.patterns import PatternSet, leads_into, matches, matches_folded

NAMES = st.sampled_from(["a", "A", "b", "c.py", "*.py", "**", "d?", "é", "a*"])
PATTERNS = st.builds(
    lambda parts, end: "/".join(parts) + end, st.lists(NAMES, min_size=1, max_size=3), st.sampled_from(["", "/"])
)
PATHS = st.lists(st.sampled_from(["a", "A", "b", "c.py", "d1", "É", "x"]), min_size=1, max_size=4).map("/".join)


@settings(max_examples=400, deadline=None)
@given(st.lists(PATTERNS, max_size=6), PATHS)
def test_a_set_says_what_each_pattern_says(patterns: list[str], path: str) -> None:
    assert bool(PatternSet(patterns).match(path)) == any(matches(one, path) for one in patterns)
    folded = PatternSet(patterns, folded=True)
    assert bool(folded.match(path)) == any(matches_folded(one, path) for one in patterns)
    assert bool(folded.leads_into(path)) == any(leads_into(one, path) for one in patterns)
    assert not PatternSet(patterns).match(path) or PatternSet(patterns).match(path) in patterns


def test_names_cost_as_much_as_the_path_is_deep() -> None:
    """A path is looked up, not compared with each of the names."""
    known = PatternSet([f"dir{number}/file" for number in range(20_000)])
    assert not known._globs
    assert known.match("dir19999/file") == "dir19999/file" and not known.match("dir20000/file")
