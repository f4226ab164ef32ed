"""A linked journal: read and checked under its lock before anything is appended, flushed before anything is claimed.

Only a last record that nobody has acknowledged may count as torn; its bytes are kept beside. Everything else that is
wrong is said, and then nothing is ever appended there again. After a failed flush the kernel forgets what it could not
write and the next flush succeeds: the failure is marked, and what follows goes to a new segment.

An attempt as its observer has it on the disk: journal, baseline, manifest, state, and the anchor in the lease.

What others tell the observer's journal: proof of progress, the end of a fence, a reap, that late bytes were kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts, files, kinds
from ktxkit.base.clock import Clock
from ktxkit.base.errors import Blocked, BrokenContract, Refused
from ktxkit.base.lock import flocked
from ktxkit.base.owners import NONCE
from ktxkit.observer import manifest_file
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.rules import projection
from ktxkit.observer.rules.clocks import ClockReading, Timeline, prove
from ktxkit.observer.rules.projection import (
    Anchor,
    ObserverProjection,
    Tracked,
    When,
    anchor_problem,
    link_problem,
    replay,
)
from ktxkit.observer.rules.status import LeaseValidity, domain_of, lease_validity
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.leases import LeaseLocation, of_lease, path_of
from ktxkit.store.rules import names
from ktxkit.store.rules.paths_policy import CandidatePathPolicy
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import ActivityRecord, Lease, ObserverBaseline, ObserverDomain, ObserverState

CONTRACT = "observation"
FAILED = ".flush-failed"


@dataclass
class JournalSegment:
    """One segment. `records` is what was read and checked; `problem` why nothing may follow it."""

    path: Path
    segment: int
    clock: Clock
    records: list[ActivityRecord] = field(default_factory=list)
    problem: str = ""
    problem_path: str = ""
    _offset: int = 0  # bytes that were read and checked
    _last: bytes = b""  # the last line of them

    @property
    def head(self) -> str:
        return str(self.records[-1]["hash"]) if self.records else ""

    @contextmanager
    def locked(self, anchor: Anchor) -> Iterator[None]:
        """Hold the journal's lock, with everything in it read and checked against the anchor."""
        with flocked(self.path.with_name(f"{self.path.name}.lock"), clock=self.clock):
            self.catch_up(anchor)
            yield

    def catch_up(self, anchor: Anchor) -> None:
        """Read what others appended. Sets `problem`; what is wrong once stays wrong."""
        if self.problem:
            return
        if os.path.lexists(self._mark):
            self._wrong("flush_failed", "")
            return
        lines = [line for line in re.split(rb"(?<=\n)", self._unread()) if line]
        for number, line in enumerate(lines, start=1):
            problem = self._take(line)
            if problem and number == len(lines) and len(self.records) >= anchor.seq:
                break  # the last one, which nobody has acknowledged: torn
            if problem:
                self._wrong("corrupt", f"{self.path}:{len(self.records) + 1}: {problem}")
                return
            self._offset, self._last = self._offset + len(line), line
        wrong = anchor_problem(self.records, anchor) if anchor.segment == self.segment else ""
        if wrong:
            self._wrong(wrong, f"{self.path}: {len(self.records)} records, {anchor.seq} were anchored")

    def _unread(self) -> bytes:
        """What lies behind the part that was read. A file whose read part is not there any more is read anew."""
        try:
            fd = files.open_regular(self.path)
        except FileNotFoundError:
            self._forget()
            return b""
        try:
            begin = self._offset - len(self._last)
            data = _pread(fd, begin)
            if data.startswith(self._last):
                return data[len(self._last) :]
            self._forget()
            return _pread(fd, 0)
        finally:
            os.close(fd)

    def _forget(self) -> None:
        self.records, self._offset, self._last = [], 0, b""

    def _take(self, line: bytes) -> str:
        if not line.endswith(b"\n"):
            return "no end of line"
        try:
            record = contracts.loads(kinds.OBSERVATION, line[:-1], f"{self.path}:{len(self.records) + 1}")
        except BrokenContract as error:
            return error.message
        problem = link_problem(record, len(self.records) + 1, self.head)
        if not problem and record["segment"] != self.segment:
            problem = f"segment {record['segment']} where {self.segment} belongs"
        if not problem:
            self.records.append(record)
        return problem

    def _wrong(self, problem: str, where: str) -> None:
        self.problem, self.problem_path = problem, where

    def append(self, records: Sequence[ActivityRecord]) -> None:
        """Append linked records and flush them. The lock is held and there is no problem.

        Raises OSError where nothing was written, Blocked where it cannot be known whether it is on the disk.
        """
        assert not self.problem, self.problem
        block = b"".join(contracts.line(kinds.OBSERVATION, record, str(self.path)) for record in records)
        self._cut_torn()
        fresh = not self.path.exists()
        fd = files.open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            files.write_record(fd, block)
            self._flush(fd)
        finally:
            os.close(fd)
        if fresh:
            files.sync_dir(self.path.parent)
        self.records += records
        self._offset, self._last = size + len(block), block[block[:-1].rfind(b"\n") + 1 :]

    def _flush(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError as error:
            self._wrong("flush_failed", str(self.path))
            files.write_atomic(self._mark, b"", durable=False)
            raise Blocked(
                f"the journal could not be flushed: {error.strerror}",
                location=str(self.path),
                hint="nothing is claimed about it; check the disk, then watch again (a new segment begins)",
            ) from error

    @property
    def _mark(self) -> Path:
        return self.path.with_name(self.path.name + FAILED)

    def _cut_torn(self) -> None:
        """Keep the bytes of a torn tail beside the journal, and cut them off."""
        try:
            size = os.stat(self.path).st_size  # noqa: PTH116
        except FileNotFoundError:
            return  # gate-ok: no journal yet: nothing of it is torn
        if size == self._offset:
            return
        tail = files.read(self.path)[self._offset :]
        files.write_atomic(self.path.with_name(f"{self.path.name}.torn-{self._offset}"), tail)
        fd = files.open_regular(self.path, os.O_WRONLY)
        try:
            os.ftruncate(fd, self._offset)
            os.fsync(fd)
        finally:
            os.close(fd)


def _pread(fd: int, begin: int) -> bytes:
    """Everything from an offset on."""
    parts = []
    while block := os.pread(fd, 1 << 24, begin):
        parts.append(block)
        begin += len(block)
    return b"".join(parts)


BASELINE, STATE = "observer-baseline", "observer-state"
SEGMENTS = 1_000


@dataclass
class ObserverAttempt:
    """One attempt, bound to the lease that was read when it was opened. `state` is folded from the chain."""

    location: LeaseLocation
    lease: Lease
    chain: JournalSegment
    state: ObserverProjection = field(default_factory=ObserverProjection)
    epoch: int = 0  # of the observer that speaks; 0: of whichever attached last
    lock_held: bool = False  # the caller holds the place's lock
    because: str = ""  # what was wrong with the segment before, where this one has no record yet
    _folded: int = 0

    @classmethod
    def of(cls, location: LeaseLocation, lease: Lease) -> ObserverAttempt:
        """Read and check what there is. A chain with a problem is returned as such: `chain.problem`."""
        attempt = cls(location, lease, _newest_segment(location.world, lease))
        attempt.chain.catch_up(Anchor.of(lease))
        attempt.fold()
        return attempt

    @property
    def world(self) -> World:
        return self.location.world

    @property
    def name(self) -> str:
        return names.attempt_name(self.lease)

    @cached_property
    def policy(self) -> CandidatePathPolicy:
        """The path policy that the lease was opened with. Raises BrokenContract where it is lost."""
        return of_lease(self.world, self.lease)

    def path(self, name: str) -> Path:
        return self.world.store.path(names.observer_file(self.name, name))

    def fold(self) -> ObserverProjection:
        """Bring the state up to the chain."""
        if self._folded > len(self.chain.records):
            self.state, self._folded = replay(()), 0
        for record in self.chain.records[self._folded :]:
            self.state.apply(record)
        self._folded = len(self.chain.records)
        return self.state

    @property
    def domain(self) -> ObserverDomain:
        return domain_of(self.lease, self.epoch or self.state.epoch)

    def lease_now(self) -> Lease | None:
        """The lease as it is on the disk at this moment."""
        return self.location.lease()

    # -- time -----------------------------------------------------------------------------------------------------

    def reading(self) -> ClockReading:
        """What the clocks say."""
        boot, boot_ns = self.world.clock.boot()
        return ClockReading(boot, boot_ns, int(self.world.clock.now().timestamp() * 1000) * 1_000_000)

    def line_now(self) -> Timeline:
        """Now on the attempt's time line; it begins now where there is no record yet."""
        reading = self.reading()
        line = self.state.line
        seen = self.read_state()
        if seen is not None and seen["timelineNs"] >= line.at:
            clock = seen["clock"]
            line = Timeline(seen["timelineNs"], ClockReading(clock["boot"], clock["bootNs"], clock["wallNs"]))
        return line.advanced(reading) if line.reading.boot else Timeline.start(reading)

    # -- records ----------------------------------------------------------------------------------------------------

    def record(
        self, event: str, when: When, body: Mapping[str, Any], after: ActivityRecord | None = None
    ) -> ActivityRecord:
        """A record for the end of the chain, or behind another one that is not appended yet."""
        seq, prev = (after["seq"], after["hash"]) if after else (len(self.chain.records), self.chain.head)
        full = {"event": event, "domain": self.domain, **when.document(), **body}
        return projection.linked(full, seq + 1, prev, self.chain.segment)

    def append(self, records: list[ActivityRecord]) -> None:
        """Append under the chain's lock (which is held), and take it into the state."""
        self.chain.append(records)
        self.fold()

    def anchor(self) -> None:
        """Note the head in the lease document. A lease that is another attempt's by now is left alone."""
        wanted = Anchor(self.chain.segment, len(self.chain.records), self.chain.head, self.state.epoch)
        with nullcontext() if self.lock_held else self.location.locked():
            lease = self.location.lease()
            if lease is None or lease["nonce"] != self.lease["nonce"] or not wanted.seq:
                return
            old = Anchor.of(lease)
            if (old.segment, old.seq) < (wanted.segment, wanted.seq):
                lease["observer"] = wanted.document()
                self.location.write(kinds.LEASE, lease)

    def anchor_if_free(self) -> bool:
        """The same; False where the worktree is being opened or closed for a long time."""
        try:
            self.anchor()
        except Refused:
            return False
        return True

    # -- files ------------------------------------------------------------------------------------------------------

    def read_baseline(self) -> ObserverBaseline | None:
        return self.world.store.read_optional(kinds.OBSERVER_BASELINE, names.observer_file(self.name, "baseline.json"))

    def read_state(self) -> ObserverState | None:
        """What the observer saw last, or None where that is damaged: it is derived, and made anew."""
        try:
            return self.world.store.read_optional(kinds.OBSERVER_STATE, names.observer_file(self.name, "state.json"))
        except BrokenContract:
            return None

    def write_state(self, document: ObserverState) -> None:
        self.world.writable_store.write(kinds.OBSERVER_STATE, names.observer_file(self.name, "state.json"), document)

    def tracked(self, baseline: ObserverBaseline) -> Tracked:
        """The tracked set of the baseline. Raises BrokenContract where it is not the one that the baseline names."""
        found = Tracked(files.read(self.path("tracked")))
        if found.digest != baseline["trackedDigest"]:
            raise BrokenContract(
                "the tracked set is not the baseline's",
                location=str(self.path("tracked")),
                hint="open a new attempt; what was observed so far stays in the journal",
            )
        return found

    def stored(self, policy_digest: str) -> Stored:
        """The stored manifest, or an empty one where there is none to be trusted."""
        return manifest_file.load(self.path("manifest.bin"), policy_digest) or Stored.empty(policy_digest)


def _newest_segment(world: World, lease: Lease) -> JournalSegment:
    number, attempt = Anchor.of(lease).segment, names.attempt_name(lease)
    while number < SEGMENTS and world.store.exists(names.observer_file(attempt, segment_file(number + 1))):
        number += 1
    return chain_of(world, lease, number)


def chain_of(world: World, lease: Lease, segment: int) -> JournalSegment:
    """A segment of the attempt's journal, not read yet."""
    return JournalSegment(
        world.store.path(names.observer_file(names.attempt_name(lease), segment_file(segment))), segment, world.clock
    )


def segment_file(number: int) -> str:
    """The first one carries the plain name."""
    return names.OBSERVER_JOURNAL if number == 1 else f"activity-{number}.jsonl"


REVOKED = "the attempt's fence is revoked: this is no progress of it"
TEXT = 200  # characters of a receipt's id and name


def record_proof(
    job: ActiveJob,
    unit: Unit,
    *,
    receipt: str,
    what: str = "",
    phase: str = "",
    nonce: str | None = None,
    fence: int | None = None,
) -> ActivityRecord | None:
    """Record proven progress; returns the record, or None where the attempt is not observed or the receipt is known.

    `receipt` identifies what happened (1 to 200 characters): the same one counts once. The caller shows that it is the
    attempt by `nonce` (default: KTX_LEASE_NONCE), or stands in the leased worktree; `fence`, where given, must be the
    lease's. Raises Refused for another, a revoked or a closed lease, BrokenContract for a damaged journal.
    """
    place = LeaseLocation.of_unit(job, unit)
    lease = place.lease()
    _must_be_the_attempt(job.world, place, lease, nonce or job.world.env.get(NONCE), fence)
    assert lease is not None
    attempt = ObserverAttempt.of(place, lease)
    if not attempt.state.seq and not attempt.chain.problem:
        return None
    said = {key: text[:TEXT] for key, text in {"id": receipt, "what": what, "phase": phase}.items() if text}

    def made(attempt: ObserverAttempt, when: When) -> ActivityRecord | None:
        state = attempt.state
        is_leased = lease_validity(attempt.domain, attempt.lease_now()) is LeaseValidity.CURRENT
        if state.authority != "current" or not is_leased:
            raise Refused(
                REVOKED,
                location=str(path_of(lease)),
                hint="another attempt has the unit: stop, and leave the work to it",
            )
        if said["id"] in state.receipts:
            return None
        deadline = projection.deadline_document(prove(state.window, when.line.at), state.settings)
        return attempt.record(projection.PROOF, When(when.line, "receipt"), {"receipt": said, "deadline": deadline})

    return append(attempt, made)


def _must_be_the_attempt(
    world: World, location: LeaseLocation, lease: Lease | None, nonce: str | None, fence: int | None
) -> None:
    if lease is None or lease["state"] != "open":
        raise Refused(
            "the unit has no open lease: this is no progress of it",
            location=location.directory,
            hint="worktree-open opens it; a receipt counts for an open lease only",
        )
    stands_in = world.cwd == path_of(lease) or path_of(lease) in world.cwd.parents
    if (nonce is None and not stands_in) or (nonce is not None and nonce != lease["nonce"]):
        raise Refused(
            "this is not the attempt that has the lease",
            location=str(path_of(lease)),
            hint=f"run it in the unit's own environment ({NONCE}) or in its worktree",
        )
    if fence is not None and fence != lease["fence"]:
        raise Refused(
            f"fence {fence} is not the lease's, which is {lease['fence']}",
            location=str(path_of(lease)),
            hint="use the fence and nonce of the lease that is open now (KTX_LEASE names its document)",
        )


Make = Callable[[ObserverAttempt, When], "ActivityRecord | None"]


def append(attempt: ObserverAttempt, make: Make, source: str = "lifecycle") -> ActivityRecord | None:
    """Append one record, made under the chain's lock from its last state; anchor it."""
    with attempt.chain.locked(Anchor.of(attempt.lease_now())):
        attempt.fold()
        if attempt.chain.problem:
            raise BrokenContract(
                f"the journal is damaged: {attempt.chain.problem}",
                location=attempt.chain.problem_path,
                hint="worktree-status names the next step; new proof begins a new segment after worktree-watch --once",
            )
        record = make(attempt, When(attempt.line_now(), source))
        if record is not None:
            attempt.append([record])
    attempt.anchor_if_free()
    return record


def fence(attempt: ObserverAttempt, reason: str) -> None:
    """The attempt's authority ends here: what changes from now on is late. Once."""
    append(attempt, lambda a, at: _once(a, a.state.authority == "current", projection.FENCE, at, {"reason": reason}))


def record_reaped(attempt: ObserverAttempt) -> None:
    """Every process of the attempt has ended, as far as can be proven: what changes from now on is later than late."""
    append(attempt, lambda a, at: _once(a, a.state.authority == "revoked", projection.REAP, at, {"reason": "reaped"}))


def preserved(attempt: ObserverAttempt, ref: str) -> None:
    """What is in the worktree now is kept at a ref (`""`: nothing is in it that is not kept already)."""
    body = {"after": attempt.state.manifest, **({"atticRef": ref} if ref else {})}
    append(attempt, lambda a, when: _once(a, a.state.quarantined, projection.PRESERVED, when, body))


def _once(
    attempt: ObserverAttempt, wanted: bool, event: str, when: When, body: Mapping[str, Any]
) -> ActivityRecord | None:
    return attempt.record(event, when, dict(body)) if wanted else None
