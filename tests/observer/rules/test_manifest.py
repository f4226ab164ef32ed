"""Entries, their digest, and what a change is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktxkit.base.rules import manifest
from ktxkit.base.rules.manifest import (
    EXECUTABLE,
    GITLINK,
    REGULAR,
    SYMLINK,
    ManifestChange,
    ManifestEntry,
    digest,
    entries,
)
from ktxkit.observer.rules.clocks import SECOND
from ktxkit.observer.rules.projection import Tracked


def entry(mode: int = REGULAR, content: int = 1, size: int = 3) -> ManifestEntry:
    return ManifestEntry(b"a", mode, bytes([content]) * 32, size)


@pytest.mark.parametrize(
    ("before", "after", "operations", "delta"),
    [
        (None, entry(), ("create",), 3),
        (entry(), None, ("delete",), -3),
        (entry(), entry(content=2, size=5), ("content-change",), 2),
        (entry(), entry(EXECUTABLE), ("mode-change",), 0),
        (entry(), entry(EXECUTABLE, 2), ("content-change",), 0),
        (entry(SYMLINK), entry(SYMLINK, 2), ("symlink-target-change",), 0),
        (entry(GITLINK), entry(GITLINK, 2), ("gitlink-change",), 0),
        (entry(), entry(SYMLINK, 2), ("delete", "create"), 0),
    ],
)
def test_operations(
    before: ManifestEntry | None, after: ManifestEntry | None, operations: tuple[str, ...], delta: int
) -> None:
    change = ManifestChange(b"a", before, after)
    assert (change.operations, change.byte_delta) == (operations, delta)


def test_another_file_of_the_same_name_is_a_replacement() -> None:
    assert ManifestChange(b"a", entry(), entry(content=2), replaced=True).operations == ("atomic-replacement",)
    assert ManifestChange(b"a", entry(), entry(EXECUTABLE), replaced=True).operations == ("mode-change",)


ENTRY = st.builds(
    ManifestEntry,
    st.binary(min_size=1, max_size=40),
    st.sampled_from([REGULAR, EXECUTABLE, SYMLINK, GITLINK]),
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**63),
)


@given(st.lists(ENTRY, max_size=8))
def test_what_is_packed_is_what_is_unpacked(made: list[ManifestEntry]) -> None:
    assert list(entries(b"".join(e.packed() for e in made))) == made


@given(st.lists(ENTRY, min_size=1, max_size=5), st.lists(ENTRY, min_size=1, max_size=5))
def test_the_digest_is_of_the_entries_and_of_nothing_else(one: list[ManifestEntry], other: list[ManifestEntry]) -> None:
    def of(found: list[ManifestEntry]) -> str:
        return digest((e.packed() for e in found), "b3:p")

    assert (of(one) == of(other)) == (one == other)
    assert of(one) == digest([b"".join(e.packed() for e in one)], "b3:p")  # runs of any length
    assert of(one) != digest((e.packed() for e in one), "b3:q")


@pytest.mark.parametrize(
    ("mtime", "ctime", "started", "racy"),
    [
        (1, 1, 10**9, False),
        (10**9, 10**9 - 30_000_001, 10**9, True),  # mtime is as new as the scan
        (1, 10**9 + 1, 10**9 + 20_000_001, True),  # inside the window
        (1, 10**9 + 1, 10**9 + 20_000_002, False),
        (1, 5 * SECOND, 5 * SECOND + 3 * SECOND, True),  # whole seconds: a coarse file system
        (1, 5 * SECOND, 5 * SECOND + 4 * SECOND + 1, False),
        (10**18, 1, 10**9, True),  # a time in the future vouches for nothing
    ],
)
def test_a_time_that_is_too_new_vouches_for_nothing(mtime: int, ctime: int, started: int, racy: bool) -> None:
    assert manifest.is_racy(mtime, ctime, started) is racy
    assert bool(manifest.flags(mtime, ctime, 1, started) & manifest.RACY) is racy
    assert bool(manifest.flags(mtime, ctime, 2, started) & manifest.SHARED)


@given(st.sets(st.binary(min_size=1, max_size=4).filter(lambda p: b"\0" not in p)))
def test_the_tracked_set(paths: set[bytes]) -> None:
    made = Tracked.of(paths)
    assert {path for path in paths if path in made} == paths
    assert len(made) == len(paths)
    assert b"not-there" not in made
    for directory in {path.partition(b"/")[0] for path in paths}:
        assert made.any_below(directory) == any(path.startswith(directory + b"/") for path in paths)
