"""The decisions about worktrees, as tables."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

import pytest

from ktxkit.store.rules.worktrees import (
    HeldWork,
    LeaseFacts,
    Open,
    WorktreePresence,
    base_candidates,
    can_be_kept,
    decide_open,
    isolated,
    unsaved,
    way_out,
    why_dead,
)

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease

B, OTHER = "b" * 40, "c" * 40
LEASE: dict[str, Any] = {"state": "open", "base": B}
HERE = WorktreePresence(present=True, same=True, holder_dead=False, busy=False)
GONE = WorktreePresence(present=False, same=False, holder_dead=False, busy=False)
DEAD = WorktreePresence(present=True, same=True, holder_dead=True, busy=False)
BUSY = WorktreePresence(present=True, same=True, holder_dead=True, busy=True)
ALIEN = WorktreePresence(present=True, same=False, holder_dead=True, busy=False)

OPEN = {
    "nothing there": (None, GONE, Open.FRESH),
    "something nobody leased": (None, ALIEN, Open.FOREIGN),
    "open": (LEASE, HERE, Open.REUSE),
    "open at another base": ({**LEASE, "base": OTHER}, HERE, Open.OTHER_BASE),
    "open and gone": (LEASE, GONE, Open.TAKE_OVER),
    "open and replaced": (LEASE, ALIEN, Open.FOREIGN),
    "its owner is dead": (LEASE, DEAD, Open.TAKE_OVER),
    "its owner is dead, at another base": ({**LEASE, "base": OTHER}, DEAD, Open.TAKE_OVER),
    "its owner is dead, its work goes on": (LEASE, BUSY, Open.OCCUPIED),
    "closed and gone": ({**LEASE, "state": "closed", "outcome": "success"}, GONE, Open.FRESH),
    "closed and still there": ({**LEASE, "state": "closed", "outcome": "success"}, HERE, Open.LEFTOVER),
    "kept as a conflict": ({**LEASE, "state": "closed", "outcome": "conflict"}, HERE, Open.BESIDE),
    "kept as a crash": ({**LEASE, "state": "closed", "outcome": "crash"}, HERE, Open.BESIDE),
    "kept, and gone by hand": ({**LEASE, "state": "closed", "outcome": "crash"}, GONE, Open.FRESH),
}


@pytest.mark.parametrize("name", OPEN)
def test_opening(name: str) -> None:
    lease, found, expected = OPEN[name]
    assert decide_open(cast("Lease | None", lease), found, B) is expected


DEATHS = {
    "an opening cut short": (LeaseFacts(noted=True), "its opening was cut short"),
    "open": (LeaseFacts(state="open"), ""),
    "open, its directory gone": (LeaseFacts(state="open", present=False), "its directory is gone"),
    "open, replaced": (LeaseFacts(state="open", same=False), ""),
    "open, owner dead": (LeaseFacts(state="open", holder_dead=True), "its owner is dead"),
    "open, owner dead, failed job": (
        LeaseFacts(state="open", holder_dead=True, job_state="failed"),
        "its owner is dead",
    ),
    "open, owner dead, resumable": (LeaseFacts(state="open", holder_dead=True, job_state="open", resumable=True), ""),
    "interrupted, resumable": (LeaseFacts(state="open", holder_dead=True, job_state="aborted", resumable=True), ""),
    "evidence, interrupted": (LeaseFacts(state="closed", outcome="crash", job_state="aborted", resumable=True), ""),
    "resumable, gone": (LeaseFacts(state="open", present=False, resumable=True), "its directory is gone"),
    "open, job failed": (LeaseFacts(state="open", job_state="failed"), ""),
    "open, job landed": (LeaseFacts(state="open", job_state="landed"), "its job is landed"),
    "kept, job open": (LeaseFacts(state="closed", outcome="crash", job_state="open"), ""),
    "kept, job failed": (LeaseFacts(state="closed", outcome="crash", job_state="failed", holder_dead=True), ""),
    "kept, job landed": (LeaseFacts(state="closed", outcome="crash", job_state="landed"), "its job is landed"),
    "kept, no job": (LeaseFacts(state="closed", outcome="conflict"), ""),
    "closed, still there": (LeaseFacts(state="closed", outcome="success"), "its lease is closed"),
    "leased in place": (LeaseFacts(state="open", in_place=True, holder_dead=True), ""),
    "leased in place, gone": (LeaseFacts(state="open", in_place=True, present=False), "its directory is gone"),
}


@pytest.mark.parametrize("name", DEATHS)
def test_death(name: str) -> None:
    seen, expected = DEATHS[name]
    assert why_dead(seen) == expected


def test_a_process_inside_is_always_life() -> None:
    flags = (True, False)
    for noted, present, same, dead in itertools.product(flags, repeat=4):
        for state, outcome, job in itertools.product(
            ("", "open", "closed"), ("", "success", "crash"), ("", "open", "landed")
        ):
            seen = LeaseFacts(noted, state, outcome, False, present, same, dead, job, busy=True)
            assert why_dead(seen) == ""


LOST = {
    "nothing": (HeldWork(tree="t", base_tree="t"), ""),
    "collected": (HeldWork(tree="t", base_tree="b", kept_trees=("t",), commits=True, uncommitted=True), ""),
    "commits": (HeldWork(tree="t", base_tree="b", commits=True), "commits"),
    "both": (HeldWork(tree="t", base_tree="b", commits=True, uncommitted=True), "commits and uncommitted work"),
    "commits on a branch": (HeldWork(tree="t", base_tree="b", commits=True, branch=True), ""),
    "uncommitted on a branch": (HeldWork(tree="t", base_tree="t", branch=True, uncommitted=True), "uncommitted work"),
    "reachable elsewhere": (HeldWork(tree="t", base_tree="b"), ""),
    "history that nets to nothing": (HeldWork(tree="t", base_tree="t", commits=True), ""),
    "staged": (HeldWork(tree="t", base_tree="t", staged=(b"x",)), "what is staged and not in the files"),
    "staged in a unit": (HeldWork(tree="t", base_tree="t", unit=True, staged=(b"x",)), ""),
    "a rebase": (
        HeldWork(tree="t", base_tree="t", unit=True, pending=("c",)),
        "commits that only an unfinished operation, or a ref of the worktree, names",
    ),
    "a repository": (
        HeldWork(tree="t", base_tree="t", nested=(b"x/",)),
        "a repository inside it (1), which nothing else holds",
    ),
    "a submodule": (
        HeldWork(tree="t", base_tree="t", submodules=(b"x",)),
        "work in 1 of its submodules, which nothing else holds",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_what_would_be_lost(name: str) -> None:
    work, expected = LOST[name]
    assert unsaved(work) == expected
    assert ("--discard" in way_out(work)) == can_be_kept(work)
    assert not can_be_kept(work) or "attic first" in way_out(work)
    assert can_be_kept(work) or " x" in way_out(work)


ISOLATION = {
    "an ordinary checkout": (("/r/.git", "/r/.git", ""), False),
    "a linked worktree": (("/r/.git/worktrees/w", "/r/.git", ""), True),
    "a submodule": (("/r/.git/modules/s", "/r/.git/modules/s", "/r"), False),
    "a submodule in a linked worktree of its own": (
        ("/r/.git/modules/s/worktrees/w", "/r/.git/modules/s", "/r"),
        False,
    ),
}


@pytest.mark.parametrize("name", ISOLATION)
def test_isolation(name: str) -> None:
    args, expected = ISOLATION[name]
    assert isolated(*args) is expected


def test_bases() -> None:
    assert base_candidates("refs/remotes/origin/trunk", True)[0] == "refs/remotes/origin/trunk"
    assert base_candidates("", True) == ["refs/remotes/origin/main", "refs/heads/main", "HEAD"]
    assert base_candidates("", False) == ["refs/heads/main", "HEAD"]
