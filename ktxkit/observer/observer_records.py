"""What others tell the observer's journal: proof of progress, the end of a fence, a reap, that late bytes were kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.base.unit_process import MARK
from ktxkit.observer.observer_attempt import Attempt
from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.clocks import prove
from ktxkit.observer.rules.domain import Standing, standing
from ktxkit.observer.rules.records import Anchor, When
from ktxkit.store import jobs
from ktxkit.store.leases import LEASE, Place, path_of
from ktxkit.store.world import World

TEXT = 200  # characters of a receipt's id and name


def record_proof(
    world: World,
    job: Document,
    unit: jobs.Unit,
    *,
    receipt: str,
    what: str = "",
    phase: str = "",
    nonce: str | None = None,
    fence: int | None = None,
) -> Document | None:
    """Record proven progress; returns the record, or None where the attempt is not observed or the receipt is known.

    `receipt` identifies what happened (1 to 200 characters): the same one counts once. The caller shows that it is the
    attempt by `nonce` (default: KTX_LEASE_NONCE), or stands in the leased worktree; `fence`, where given, must be the
    lease's. Raises Refused for another, a revoked or a closed lease, BrokenContract for a damaged journal.
    """
    place = Place.of_unit(world, job, unit)
    lease = place.read(LEASE)
    _must_be_the_attempt(world, place, lease, nonce or world.env.get(MARK), fence)
    assert lease is not None
    attempt = Attempt.of(place, lease)
    if not attempt.state.seq and not attempt.chain.problem:
        return None
    said = {key: text[:TEXT] for key, text in {"id": receipt, "what": what, "phase": phase}.items() if text}

    def made(attempt: Attempt, when: When) -> Document | None:
        state = attempt.state
        if state.authority != "current" or standing(attempt.domain, attempt.lease_now()) is not Standing.CURRENT:
            raise Refused(
                "the attempt's fence is revoked: this is no progress of it",
                where=str(path_of(lease)),
                hint="another attempt has the unit: stop, and leave the work to it",
            )
        if said["id"] in state.receipts:
            return None
        deadline = r.deadline_document(prove(state.window, when.line.at), state.settings)
        return attempt.record(r.PROOF, When(when.line, "receipt"), {"receipt": said, "deadline": deadline})

    return append(attempt, made)


def _must_be_the_attempt(
    world: World, place: Place, lease: Document | None, nonce: str | None, fence: int | None
) -> None:
    if lease is None or lease["state"] != "open":
        raise Refused(
            "the unit has no open lease: this is no progress of it",
            where=place.directory,
            hint="worktree-open opens it; a receipt counts for an open lease only",
        )
    stands_in = world.cwd == path_of(lease) or path_of(lease) in world.cwd.parents
    if (nonce is None and not stands_in) or (nonce is not None and nonce != lease["nonce"]):
        raise Refused(
            "this is not the attempt that has the lease",
            where=str(path_of(lease)),
            hint=f"run it in the unit's own environment ({MARK}) or in its worktree",
        )
    if fence is not None and fence != lease["fence"]:
        raise Refused(
            f"fence {fence} is not the lease's, which is {lease['fence']}",
            where=str(path_of(lease)),
            hint="use the fence and nonce of the lease that is open now (KTX_LEASE names its document)",
        )


Make = Callable[[Attempt, When], Document | None]


def append(attempt: Attempt, make: Make, source: str = "lifecycle") -> Document | None:
    """Append one record, made under the chain's lock from its last state; anchor it."""
    with attempt.chain.locked(Anchor.of(attempt.lease_now())):
        attempt.fold()
        if attempt.chain.problem:
            raise BrokenContract(
                f"the journal is damaged: {attempt.chain.problem}",
                where=attempt.chain.where,
                hint="worktree-status names the next step; new proof begins a new segment after worktree-watch --once",
            )
        record = make(attempt, When(attempt.line_now(), source))
        if record is not None:
            attempt.append([record])
    attempt.anchor_if_free()
    return record


def fence(attempt: Attempt, reason: str) -> None:
    """The attempt's authority ends here: what changes from now on is late. Once."""
    append(attempt, lambda a, when: _once(a, a.state.authority == "current", r.FENCE, when, {"reason": reason}))


def reaped(attempt: Attempt) -> None:
    """Every process of the attempt has ended, as far as can be proven: what changes from now on is later than late."""
    append(attempt, lambda a, when: _once(a, a.state.authority == "revoked", r.REAP, when, {"reason": "reaped"}))


def preserved(attempt: Attempt, ref: str) -> None:
    """What is in the worktree now is kept at a ref (`""`: nothing is in it that is not kept already)."""
    body = {"after": attempt.state.manifest, **({"atticRef": ref} if ref else {})}
    append(attempt, lambda a, when: _once(a, a.state.quarantined, r.PRESERVED, when, body))


def _once(attempt: Attempt, wanted: bool, event: str, when: When, body: Mapping[str, Any]) -> Document | None:
    return attempt.record(event, when, dict(body)) if wanted else None
