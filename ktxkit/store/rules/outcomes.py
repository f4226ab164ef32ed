"""Outcome words and the exit status each of them has (design, section 3). None is ever reported as another."""

from __future__ import annotations

STATUS: dict[str, int] = {
    "accepted": 0,
    "subsumed": 0,
    "noop": 0,
    "done": 0,
    "policy_rejected": 1,
    "dirty_target": 1,
    "target_moved": 1,
    "refused": 1,
    "findings": 1,
    "cannot_run": 2,
    "textual_conflict": 3,
    "semantic_conflict": 3,
    "suspect_revert": 3,
    "verification_failed": 3,
    "partial": 3,
    "failed": 3,
    "interrupted": 130,
    "blocked": 4,
    "invalid_patch": 5,
    "missing_base": 5,
    "broken_contract": 5,
}


def status_of(outcome: str) -> int:
    """Exit status of an outcome word. Raises KeyError for a word that is not one."""
    return STATUS[outcome]
