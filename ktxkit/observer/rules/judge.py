"""What a look at the worktree means for the attempt: which record is written, and whether it defers anything."""

from __future__ import annotations

from dataclasses import dataclass

from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.clocks import Observation, Window, observe, was_watched
from ktxkit.observer.rules.domain import Standing
from ktxkit.observer.rules.projection import Projection


@dataclass(frozen=True)
class Sighting:
    """A finished scan. `line_at` is the time line's now; `last_look` when the last reconciliation ended, if known."""

    manifest: str
    line_at: int
    last_look: int | None
    proof_seq: int  # the number of the proof that was current when the scan began
    trusted: bool = True  # False: the root's control files do not fit the lease; what is seen defers nothing


@dataclass(frozen=True)
class Ruling:
    """The event to record (`""`: none), why it counts or does not, and the window after it."""

    event: str
    reason: str
    window: Window
    late_kind: str = ""


def rule(state: Projection, seen: Sighting, standing: Standing) -> Ruling:
    """One ruling for one sighting. The state is the chain's, read under its lock."""
    if seen.manifest == state.manifest:
        return Ruling("", "unchanged", state.window)
    if standing in (Standing.SUPERSEDED, Standing.STALE_OBSERVER):
        return Ruling(r.STALE, standing.value, state.window)
    if state.authority != "current":
        kind = r.LATE_AFTER_REAP if state.authority == "reaped" else r.LATE_MUTATION
        return Ruling(r.LATE, state.revoked_because, state.window, kind)
    if standing is Standing.REVOKED:
        return Ruling(r.LATE, standing.value, state.window, r.LATE_MUTATION)
    if state.holds or not seen.trusted:
        return Ruling(r.ACTIVITY, "held", state.window)
    observation = Observation(
        at=seen.line_at,
        proof_seq=seen.proof_seq,
        watched=was_watched(seen.last_look, seen.line_at, state.settings),
        seen_before=seen.manifest in state.seen,
    )
    window, reason = observe(state.window, observation, state.settings)
    return Ruling(r.ACTIVITY, reason, window)
