"""An attempt as its observer has it on the disk: journal, baseline, manifest, state, and the anchor in the lease."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ktxkit.base import files
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.observer import manifest_file
from ktxkit.observer.chain import Chain
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.path_policy import of_lease
from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.clocks import Reading, Timeline
from ktxkit.observer.rules.domain import attempt_name, domain_of
from ktxkit.observer.rules.paths_policy import CandidatePathPolicy
from ktxkit.observer.rules.projection import Projection, replay
from ktxkit.observer.rules.records import Anchor, When
from ktxkit.observer.rules.tracked import Tracked
from ktxkit.store.leases import LEASE, Place
from ktxkit.store.rules import names
from ktxkit.store.world import World

BASELINE, STATE = "observer-baseline", "observer-state"
SEGMENTS = 1_000


@dataclass
class Attempt:
    """One attempt, bound to the lease that was read when it was opened. `state` is folded from the chain."""

    place: Place
    lease: Document
    chain: Chain
    state: Projection = field(default_factory=Projection)
    epoch: int = 0  # of the observer that speaks; 0: of whichever attached last
    lock_held: bool = False  # the caller holds the place's lock
    because: str = ""  # what was wrong with the segment before, where this one has no record yet
    _folded: int = 0

    @classmethod
    def of(cls, place: Place, lease: Document) -> Attempt:
        """Read and check what there is. A chain with a problem is returned as such: `chain.problem`."""
        attempt = cls(place, lease, _newest_segment(place.world, lease))
        attempt.chain.catch_up(Anchor.of(lease))
        attempt.fold()
        return attempt

    @property
    def world(self) -> World:
        return self.place.world

    @property
    def name(self) -> str:
        return attempt_name(self.lease)

    @cached_property
    def policy(self) -> CandidatePathPolicy:
        """The path policy that the lease was opened with. Raises BrokenContract where it is lost."""
        return of_lease(self.world, self.lease)

    def path(self, name: str) -> Path:
        return self.world.store.path(names.observer_file(self.name, name))

    def fold(self) -> Projection:
        """Bring the state up to the chain."""
        if self._folded > len(self.chain.records):
            self.state, self._folded = replay(()), 0
        for record in self.chain.records[self._folded :]:
            self.state.apply(record)
        self._folded = len(self.chain.records)
        return self.state

    @property
    def domain(self) -> dict[str, Any]:
        return domain_of(self.lease, self.epoch or self.state.epoch)

    def lease_now(self) -> Document | None:
        """The lease as it is on the disk at this moment."""
        return self.place.read(LEASE)

    # -- time -----------------------------------------------------------------------------------------------------

    def reading(self) -> Reading:
        """What the clocks say."""
        boot, boot_ns = self.world.clock.boot()
        return Reading(boot, boot_ns, int(self.world.clock.now().timestamp() * 1000) * 1_000_000)

    def line_now(self) -> Timeline:
        """Now on the attempt's time line; it begins now where there is no record yet."""
        reading = self.reading()
        line = self.state.line
        seen = self.read_state()
        if seen is not None and seen["timelineNs"] >= line.at:
            clock = seen["clock"]
            line = Timeline(seen["timelineNs"], Reading(clock["boot"], clock["bootNs"], clock["wallNs"]))
        return line.advanced(reading) if line.reading.boot else Timeline.start(reading)

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, event: str, when: When, body: Document, after: Document | None = None) -> Document:
        """A record for the end of the chain, or behind another one that is not appended yet."""
        seq, prev = (after["seq"], after["hash"]) if after else (len(self.chain.records), self.chain.head)
        full = {"event": event, "domain": self.domain, **when.document(), **body}
        return r.linked(full, seq + 1, prev, self.chain.segment)

    def append(self, made: list[Document]) -> None:
        """Append under the chain's lock (which is held), and take it into the state."""
        self.chain.append(made)
        self.fold()

    def anchor(self) -> None:
        """Note the head in the lease document. A lease that is another attempt's by now is left alone."""
        wanted = Anchor(self.chain.segment, len(self.chain.records), self.chain.head, self.state.epoch)
        with nullcontext() if self.lock_held else self.place.locked():
            lease = self.place.read(LEASE)
            if lease is None or lease["nonce"] != self.lease["nonce"] or not wanted.seq:
                return
            old = Anchor.of(lease)
            if (old.segment, old.seq) < (wanted.segment, wanted.seq):
                self.place.write(LEASE, {**lease, "observer": wanted.document()})

    def anchor_if_free(self) -> bool:
        """The same; False where the worktree is being opened or closed for a long time."""
        try:
            self.anchor()
        except Refused:
            return False
        return True

    # -- files ------------------------------------------------------------------------------------------------------

    def read_baseline(self) -> Document | None:
        return self.world.store.read_optional(BASELINE, names.observer_file(self.name, "baseline.json"))

    def read_state(self) -> Document | None:
        """What the observer saw last, or None where that is damaged: it is derived, and made anew."""
        try:
            return self.world.store.read_optional(STATE, names.observer_file(self.name, "state.json"))
        except BrokenContract:
            return None

    def write_state(self, document: Document) -> None:
        full = {"schemaVersion": SCHEMA_VERSION, "kind": STATE, **document}
        self.world.writable_store.write(STATE, names.observer_file(self.name, "state.json"), full)

    def tracked(self, baseline: Document) -> Tracked:
        """The tracked set of the baseline. Raises BrokenContract where it is not the one that the baseline names."""
        found = Tracked(files.read(self.path("tracked")))
        if found.digest != baseline["trackedDigest"]:
            raise BrokenContract(
                "the tracked set is not the baseline's",
                where=str(self.path("tracked")),
                hint="open a new attempt; what was observed so far stays in the journal",
            )
        return found

    def stored(self, policy_digest: str) -> Stored:
        """The stored manifest, or an empty one where there is none to be trusted."""
        return manifest_file.load(self.path("manifest.bin"), policy_digest) or Stored.empty(policy_digest)


def _newest_segment(world: World, lease: Document) -> Chain:
    number = Anchor.of(lease).segment
    while number < SEGMENTS and world.store.exists(names.observer_file(attempt_name(lease), segment_file(number + 1))):
        number += 1
    return chain_of(world, lease, number)


def chain_of(world: World, lease: Document, segment: int) -> Chain:
    """A segment of the attempt's journal, not read yet."""
    return Chain(
        world.store.path(names.observer_file(attempt_name(lease), segment_file(segment))), segment, world.clock
    )


def segment_file(number: int) -> str:
    """The first one carries the plain name."""
    return "activity.jsonl" if number == 1 else f"activity-{number}.jsonl"
