"""Limits that nobody configures; a test of what lies beyond one gives its world others."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Sizes and times of a world. The defaults hold for every command."""

    patch_bytes: int = 1023 * 1024 * 1024 - 1  # git apply refuses more (MAX_APPLY_SIZE in its apply.c)
    lock_age: float = 1.0  # seconds: a younger lock may belong to a program that is no git
    obstacle_wait: float = 5.0  # seconds until an obstacle's owner is done, or is proven dead
    cached_artifacts: int = 200  # of a tree, from which their facts are kept: fewer are read in no time
    cache_wait: float = 2.0  # seconds for another process that writes the same cache


LIMITS = Limits()
