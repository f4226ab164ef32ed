"""Attaching: the baseline is whole, flushed and anchored before anything may be executed; a restart finds it again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktxkit.base import files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Blocked, BrokenContract, Refused
from ktxkit.base.rules.text import path_fields
from ktxkit.observer import observer_root as root_
from ktxkit.observer import scan
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.observer_attempt import BASELINE, Attempt, chain_of
from ktxkit.observer.rules import records as r
from ktxkit.observer.rules.clocks import Timeline
from ktxkit.observer.rules.domain import Standing, standing
from ktxkit.observer.rules.records import Anchor, When
from ktxkit.observer.rules.settings import Settings
from ktxkit.observer.scanned import Level, Scan
from ktxkit.store.leases import Place, must_be_ours, path_of
from ktxkit.store.rules import names

TRIES = 5  # looks at a worktree that changes while its baseline is taken
ELSEWHERE = "look what stands there; open the unit again with worktree-open"
PAUSE = 0.2  # seconds between them


@dataclass(frozen=True)
class Attached:
    """An attempt with a baseline. `fresh`: there was none; `damage`: what this attach found wrong before.

    `scan`: the one that the baseline was made of, where this attach took it and nothing moved in it.
    """

    attempt: Attempt
    taken: root_.Snapshot
    baseline: Document
    fresh: bool
    damage: str = ""
    scan: Scan | None = None


def attach(
    place: Place, lease: Document, settings: Settings | None = None, *, bump: bool, lock_held: bool = False
) -> Attached:
    """Attach to a lease's attempt. `bump`: as a new observer, to which all before it give way.

    `settings` count where the attempt has none yet; other ones for an attempt that has are refused. A journal that
    cannot be trusted, or is gone, is left as it is: a new segment begins, whose baseline has no known time.
    """
    must_be_ours(place.world, lease)
    attempt = Attempt.of(place, lease)
    baseline = trusted_baseline(attempt)
    damage = attempt.because
    if damage:
        attempt = _new_segment(attempt)
        baseline = _found(attempt) if attempt.chain.records else None
    attempt.lock_held = lock_held
    fresh, found = baseline is None, None
    if baseline is None:
        baseline, found = _first(attempt, settings or Settings())
    else:
        _same_settings(attempt, settings)
        attempt.epoch = _next_epoch(attempt) if bump else attempt.state.epoch
    attempt.anchor()
    attempt.lease = attempt.lease_now() or lease
    return Attached(attempt, root_.snapshot_of(attempt, baseline), baseline, fresh, damage, found)


def trusted_baseline(attempt: Attempt) -> Document | None:
    """The baseline's document, or None: where there is none yet, and where (`because`) something cannot be trusted."""
    attempt.because = attempt.chain.problem
    if attempt.because or not attempt.chain.records:
        return None
    try:
        baseline = _found(attempt)
        root_.snapshot_of(attempt, baseline)
    except (BrokenContract, FileNotFoundError):
        attempt.because = "baseline_lost"
        return None
    return baseline


def _new_segment(attempt: Attempt) -> Attempt:
    """The attempt on a new segment. Its problem is told by the baseline that begins it."""
    lease, broken = attempt.lease, attempt.chain
    made = Attempt(attempt.place, lease, chain_of(attempt.world, lease, broken.segment + 1))
    made.chain.catch_up(Anchor.of(lease))
    if made.chain.problem:
        raise Blocked(f"two segments of the journal are damaged: {made.chain.where}", hint="open a new attempt")
    if not made.chain.records:
        made.because = attempt.because
    made.fold()
    return made


def _found(attempt: Attempt) -> Document:
    baseline = attempt.read_baseline()
    if baseline is None:
        raise BrokenContract(
            "the baseline of the journal is missing",
            where=str(attempt.path("baseline.json")),
            hint="open a new attempt; what was observed so far stays in the journal",
        )
    if baseline["manifest"] != attempt.chain.records[0]["after"]:
        raise BrokenContract(
            "the baseline is not the journal's",
            where=str(attempt.path("baseline.json")),
            hint="open a new attempt; what was observed so far stays in the journal",
        )
    return baseline


def _same_settings(attempt: Attempt, asked: Settings | None) -> None:
    if asked is not None and asked != attempt.state.settings:
        raise Refused(
            "the attempt has its intervals already, and they do not change while it lasts",
            where=str(attempt.path("baseline.json")),
            hint="leave the options out; other ones count for the next attempt",
        )


def _next_epoch(attempt: Attempt) -> int:
    """Append that a new observer has come; returns its epoch."""
    with attempt.chain.locked(Anchor.of(attempt.lease)):
        attempt.fold()
        _must_be_whole(attempt)
        attempt.epoch = attempt.state.epoch + 1
        when = When(attempt.line_now(), "startup")
        attempt.append([attempt.record(r.ATTACH, when, {})])
    return attempt.epoch


def _must_be_whole(attempt: Attempt) -> None:
    if attempt.chain.problem:
        raise BrokenContract(
            f"the journal is damaged: {attempt.chain.problem}",
            where=attempt.chain.where,
            hint="worktree-status names the next step; the damaged segment is kept",
        )


def _first(attempt: Attempt, settings: Settings) -> tuple[Document, Scan | None]:
    """Take the baseline: manifest, tracked set, document, record, anchor; in this order, each flushed.

    Returns its document, and its scan where nothing moved in it.
    """
    if standing({**attempt.domain}, attempt.lease_now()) in (Standing.REVOKED, Standing.SUPERSEDED):
        raise Refused("the lease is over", where=str(path_of(attempt.lease)), hint="open the unit, then watch it")
    attempt.epoch = Anchor.of(attempt.lease).epoch + 1
    known = not attempt.because and Anchor.of(attempt.lease).seq == 0
    tracked, gitlinks = root_.index_of(attempt)
    files.make_dirs(attempt.path("").parent)
    files.write_atomic(attempt.path("tracked"), tracked.packed)
    taken = root_.Snapshot(tracked, gitlinks, settings, reliable=True)
    found = _whole_scan(attempt, taken)
    found.stored.save(attempt.path("manifest.bin"))
    with attempt.chain.locked(Anchor.of(attempt.lease)):
        if attempt.chain.records:  # another observer was faster: its baseline is the attempt's
            attempt.fold()
            return _found(attempt), None
        line = attempt.line_now()
        document = _document(attempt, taken, found, line, known=known)
        attempt.world.writable_store.write(BASELINE, names.observer_file(attempt.name, "baseline.json"), document)
        attempt.append([attempt.record(r.BASELINE, When(line, "startup", "content"), _body(attempt, document, known))])
    return document, _kept(attempt, found)


def _kept(attempt: Attempt, found: Scan) -> Scan | None:
    """A baseline's scan, with its manifest on the disk; None where it is no whole one."""
    saved = attempt.stored(attempt.policy.digest)
    if found.partial or saved.digest != found.stored.digest:
        return None
    return replace(found, stored=saved, changed_keys=False, asked=list)


def _whole_scan(attempt: Attempt, taken: root_.Snapshot) -> Scan:
    """A content scan in which nothing moved, or after some tries one that names what does."""
    digest = attempt.policy.digest
    for left in reversed(range(TRIES)):
        with root_.opened(attempt.lease) as root:
            if isinstance(root, str):
                raise Blocked(
                    f"this is not the leased worktree: {root}", where=str(path_of(attempt.lease)), hint=ELSEWHERE
                )
            found = scan.scan(root_.subject(attempt, root, taken), Stored.empty(digest), Level.CONTENT)
        problem = root_.wrong(attempt.lease)
        if problem:
            raise Blocked(
                f"this is not the leased worktree: {problem}", where=str(path_of(attempt.lease)), hint=ELSEWHERE
            )
        if not found.partial or not left:
            return found
        attempt.world.clock.sleep(PAUSE)
    raise AssertionError("the last try returns")


def _document(attempt: Attempt, taken: root_.Snapshot, found: Scan, line: Timeline, *, known: bool) -> Document:
    policy = attempt.policy
    clock = {"boot": line.reading.boot, "bootNs": line.reading.boot_ns, "wallNs": line.reading.wall_ns}
    made = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": BASELINE,
        "at": timestamp(attempt.world.clock.now()),
        "timelineNs": line.at,
        "clock": clock,
        "domain": attempt.domain,
        "settings": taken.settings.document(),
        "pathPolicyDigest": policy.digest,
        "manifest": found.stored.digest,
        "entries": len(found.stored),
        "trackedDigest": taken.tracked.digest,
        "tracked": len(taken.tracked),
        "gitlinks": [{**path_fields(path), "commit": commit} for path, commit in sorted(taken.gitlinks.items())],
        "baselineTime": "known" if known else "unknown",
        "admin": root_.admin_identity(attempt.lease).document(),
    }
    if found.partial:
        made |= {"partial": True, "unstable": [path_fields(path) for path in found.unstable]}
    if found.holds:
        made["holds"] = [{**path_fields(hold.path), "reason": hold.reason} for hold in found.holds]
    return made


def _body(attempt: Attempt, document: Document, known: bool) -> Document:
    """What the baseline's record says of it, and of the journal before it."""
    same = ("settings", "pathPolicyDigest", "trackedDigest", "entries", "baselineTime", "partial")
    body = {key: document[key] for key in same if key in document}
    anchor = Anchor.of(attempt.lease)
    if not known:
        body["holds"] = [f"journal_{attempt.because or 'missing'}", "baseline_time_unknown"]
    if anchor.seq:
        link = {"segment": anchor.segment, "seq": anchor.seq, "head": anchor.head}
        body["previous"] = {"attempt": attempt.name, **link}
    elif "observedBefore" in attempt.lease:
        body["previous"] = attempt.lease["observedBefore"]
    return {**body, "contentSeq": 0, "after": document["manifest"]}
