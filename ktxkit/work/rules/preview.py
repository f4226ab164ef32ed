"""Which pairs of changes are worth merging: those whose paths meet, and those that meet in what the gates read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktxkit.git.rules.checkout import parents

SOURCES, PAGES = b"semantic-layer/", b"wiki/"


def meet(one: set[bytes], other: set[bytes]) -> bool:
    """Whether two sets of paths share one, or one has a file where the other needs a directory."""
    small, large = sorted((one, other), key=len)
    if small & large:
        return True
    above = {parent for path in large for parent in parents(path)}
    return bool(small & above) or any(parent in large for path in small for parent in parents(path))


def may_contradict(one: Iterable[bytes], other: Iterable[bytes], root: bytes = b"") -> bool:
    """Whether a gate could read both: a source on one side, a source or a page on the other."""
    here, there = list(one), list(other)

    def has(paths: Sequence[bytes], lead: bytes) -> bool:
        return any(path.startswith(root + lead) for path in paths)

    return (has(here, SOURCES) and (has(there, SOURCES) or has(there, PAGES))) or (
        has(there, SOURCES) and has(here, PAGES)
    )
