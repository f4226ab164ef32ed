"""The root of a leased worktree: opened once, proven before and after every look, and what is scanned in it.

Whether processes of a unit are alive, and what they have used. A third signal: it is neither progress nor activity.

A process belongs to a unit by the lease's nonce in its environment or by its working directory. Source: proc(5).

Attaching: the baseline is whole, flushed and anchored before anything may be executed; a restart finds it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base import files, removal
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, Refused
from ktxkit.base.identity import Identity, admin_names, identify, is_private, processes_inside
from ktxkit.base.owners import marked
from ktxkit.base.reading import OPEN_DIRECTORY, small_file
from ktxkit.base.rules.text import path_bytes, path_fields
from ktxkit.observer import scan
from ktxkit.observer.attempt import BASELINE, ObserverAttempt, chain_of
from ktxkit.observer.manifest_file import Stored
from ktxkit.observer.rules import projection
from ktxkit.observer.rules.clocks import Settings, Timeline
from ktxkit.observer.rules.projection import Anchor, Tracked, When
from ktxkit.observer.rules.status import LeaseValidity, lease_validity
from ktxkit.observer.scan import Level, Scan, ScanSubject
from ktxkit.store.leases import LeaseLocation, must_be_ours, path_of
from ktxkit.store.rules import names

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, ObserverBaseline, ObserverStatusProcess

MISSING, LINK, REPLACED, CONTROL = "root_missing", "root_is_a_link", "root_replaced", "control_mismatch"


@dataclass(frozen=True)
class Root:
    """An open root. `untrusted`: its control files do not fit the lease; what is seen there defers nothing."""

    fd: int
    untrusted: str = ""


@contextmanager
def opened(lease: Lease) -> Iterator[Root | str]:
    """The root of a lease, or the reason why it is not that root."""
    problem = wrong(lease)
    if problem:
        yield problem
        return
    try:
        fd = os.open(path_of(lease), OPEN_DIRECTORY)
    except OSError:
        yield wrong(lease) or REPLACED
        return
    try:
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino) != (lease["device"], lease["inode"]):
            yield REPLACED
        else:
            yield Root(fd, "" if _control_fits(fd, lease) else CONTROL)
    finally:
        os.close(fd)


def wrong(lease: Lease) -> str:
    """Why what stands at the lease's path is not its root; `""` where it is. Inodes are reused: birth times tell."""
    path = path_of(lease)
    if not os.path.lexists(path):
        return MISSING
    if os.path.realpath(path) != os.fspath(path):
        return LINK
    found = identify(path)
    return "" if found is not None and found.matches(lease) else REPLACED


def _control_fits(fd: int, lease: Lease) -> bool:
    """Whether `.git` in the root and the lease's git directory name each other. The lease's is the one that is used."""
    admin = Path(os.fsdecode(path_bytes(lease, "adminDir")))
    own = identify(path_of(lease) / ".git")
    if own is not None:  # a main checkout: the directory itself
        other = identify(admin)
        return other is not None and (own.device, own.inode) == (other.device, other.inode)
    pointer = small_file(fd, b".git")
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return False
    named = os.path.realpath(os.path.join(os.fsencode(path_of(lease)), pointer[8:].rstrip(b"\n")))  # noqa: PTH118
    own_repository = is_private(Path(os.fsdecode(named))) and os.path.dirname(named)  # noqa: PTH120
    return (own_repository or named) == os.path.realpath(os.fsencode(admin)) and _back_link(admin, lease)


def _back_link(admin: Path, lease: Lease) -> bool:
    back = admin_names(admin)
    return back is not None and os.path.realpath(back) == os.path.realpath(path_of(lease) / ".git")


@dataclass(frozen=True)
class ScanBasis:
    """What an attempt's scans go by, all of it from its baseline. `reliable`: events and stat keys mean something."""

    tracked: Tracked
    gitlinks: dict[bytes, str]
    settings: Settings
    reliable: bool
    because: str = ""


def snapshot_of(attempt: ObserverAttempt, baseline: ObserverBaseline) -> ScanBasis:
    """From the baseline's documents. Raises BrokenContract where they do not fit each other."""
    gitlinks = {path_bytes(item): item["commit"] for item in baseline["gitlinks"]}
    remote = _remote(attempt)
    return ScanBasis(attempt.tracked(baseline), gitlinks, Settings.of(baseline["settings"]), not remote, remote)


def _remote(attempt: ObserverAttempt) -> str:
    mount = removal.of(path_of(attempt.lease), removal.mounts())
    return f"the worktree lies on {mount.kind}, which tells nobody of changes" if mount and mount.remote else ""


def subject(attempt: ObserverAttempt, root: Root, basis: ScanBasis) -> ScanSubject:
    """What is scanned."""
    return ScanSubject(
        root=root.fd,
        policy=attempt.policy,
        tracked=basis.tracked,
        gitlinks=basis.gitlinks,
        mounts=removal.below(path_of(attempt.lease), removal.mounts()),
        admin=os.fsencode(attempt.world.repository.common_dir),
        limit=basis.settings.max_file_bytes,
    )


def index_of(attempt: ObserverAttempt) -> tuple[Tracked, dict[bytes, str]]:
    """Tracked paths (of the index and of the base) and submodules, asked of git by the lease's git directory.

    Only at the baseline, before the unit's command may start: later the index is the unit's to write.
    """
    lease = attempt.lease
    admin = os.fsdecode(path_bytes(lease, "adminDir"))
    git = attempt.world.git.at(attempt.world.repository.directory)
    scoped = git.having(GIT_DIR=admin, GIT_WORK_TREE=os.fspath(path_of(lease)), GIT_INDEX_FILE=f"{admin}/index")
    paths: set[bytes] = set()
    links = {}
    for line in scoped.run("ls-files", "-s", "-z").nul:
        facts, _, path = line.partition(b"\t")
        paths.add(path)
        if facts.startswith(b"160000 "):
            links[path] = facts.split()[1].decode("ascii")
    for line in git.run("ls-tree", "-r", "-z", "--full-tree", lease["base"]).nul:
        facts, _, path = line.partition(b"\t")
        paths.add(path)
        if facts.startswith(b"160000 "):
            links.setdefault(path, facts.split()[2].decode("ascii"))
    return Tracked.of(paths), links


def admin_identity(lease: Lease) -> Identity:
    """Of the lease's git directory. Raises CannotRun where it is gone."""
    found = identify(Path(os.fsdecode(path_bytes(lease, "adminDir"))))
    if found is None:
        raise CannotRun("the worktree's git directory is gone", hint="open the unit again")
    return found


@dataclass(frozen=True)
class Liveness:
    """Processes of the unit, and the CPU time they and their waited-for children have used, in milliseconds."""

    count: int
    cpu_ms: int

    @property
    def alive(self) -> bool:
        return self.count > 0

    def document(self) -> ObserverStatusProcess:
        return {"alive": self.alive, "count": self.count, "cpuMs": self.cpu_ms}


def look(nonce: str, root: Path) -> Liveness:
    """The processes of a unit at this moment, this process left out."""
    found = set(processes_inside(root)) | set(marked(nonce))
    ticks = sum(_ticks(pid) for pid in found)
    return Liveness(len(found), ticks * 1000 // os.sysconf("SC_CLK_TCK"))


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime: fields 14 to 17 of /proc/PID/stat."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return sum(map(int, stat[stat.rindex(b")") + 2 :].split()[11:15]))


TRIES = 5  # looks at a worktree that changes while its baseline is taken
ELSEWHERE = "look what stands there; open the unit again with worktree-open"
PAUSE = 0.2  # seconds between them


@dataclass(frozen=True)
class Attached:
    """An attempt with a baseline. `fresh`: there was none; `damage`: what this attach found wrong before.

    `scan`: the one that the baseline was made of, where this attach took it and nothing moved in it.
    """

    attempt: ObserverAttempt
    basis: ScanBasis
    baseline: ObserverBaseline
    fresh: bool
    damage: str = ""
    scan: Scan | None = None


def attach(
    location: LeaseLocation, lease: Lease, settings: Settings | None = None, *, bump: bool, lock_held: bool = False
) -> Attached:
    """Attach to a lease's attempt. `bump`: as a new observer, to which all before it give way.

    `settings` count where the attempt has none yet; other ones for an attempt that has are refused. A journal that
    cannot be trusted, or is gone, is left as it is: a new segment begins, whose baseline has no known time.
    """
    must_be_ours(location.world, lease)
    attempt = ObserverAttempt.of(location, lease)
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
    return Attached(attempt, snapshot_of(attempt, baseline), baseline, fresh, damage, found)


def trusted_baseline(attempt: ObserverAttempt) -> ObserverBaseline | None:
    """The baseline's document, or None: where there is none yet, and where (`because`) something cannot be trusted."""
    attempt.because = attempt.chain.problem
    if attempt.because or not attempt.chain.records:
        return None
    try:
        baseline = _found(attempt)
        snapshot_of(attempt, baseline)
    except (BrokenContract, FileNotFoundError):
        attempt.because = "baseline_lost"
        return None
    return baseline


def _new_segment(attempt: ObserverAttempt) -> ObserverAttempt:
    """The attempt on a new segment. Its problem is told by the baseline that begins it."""
    lease, broken = attempt.lease, attempt.chain
    made = ObserverAttempt(attempt.location, lease, chain_of(attempt.world, lease, broken.segment + 1))
    made.chain.catch_up(Anchor.of(lease))
    if made.chain.problem:
        raise Blocked(f"two segments of the journal are damaged: {made.chain.problem_path}", hint="open a new attempt")
    if not made.chain.records:
        made.because = attempt.because
    made.fold()
    return made


def _found(attempt: ObserverAttempt) -> ObserverBaseline:
    baseline = attempt.read_baseline()
    if baseline is None:
        raise BrokenContract(
            "the baseline of the journal is missing",
            location=str(attempt.path("baseline.json")),
            hint="open a new attempt; what was observed so far stays in the journal",
        )
    if baseline["manifest"] != attempt.chain.records[0]["after"]:
        raise BrokenContract(
            "the baseline is not the journal's",
            location=str(attempt.path("baseline.json")),
            hint="open a new attempt; what was observed so far stays in the journal",
        )
    return baseline


def _same_settings(attempt: ObserverAttempt, asked: Settings | None) -> None:
    if asked is not None and asked != attempt.state.settings:
        raise Refused(
            "the attempt has its intervals already, and they do not change while it lasts",
            location=str(attempt.path("baseline.json")),
            hint="leave the options out; other ones count for the next attempt",
        )


def _next_epoch(attempt: ObserverAttempt) -> int:
    """Append that a new observer has come; returns its epoch."""
    with attempt.chain.locked(Anchor.of(attempt.lease)):
        attempt.fold()
        _must_be_whole(attempt)
        attempt.epoch = attempt.state.epoch + 1
        when = When(attempt.line_now(), "startup")
        attempt.append([attempt.record(projection.ATTACH, when, {})])
    return attempt.epoch


def _must_be_whole(attempt: ObserverAttempt) -> None:
    if attempt.chain.problem:
        raise BrokenContract(
            f"the journal is damaged: {attempt.chain.problem}",
            location=attempt.chain.problem_path,
            hint="worktree-status names the next step; the damaged segment is kept",
        )


def _first(attempt: ObserverAttempt, settings: Settings) -> tuple[ObserverBaseline, Scan | None]:
    """Take the baseline: manifest, tracked set, document, record, anchor; in this order, each flushed.

    Returns its document, and its scan where nothing moved in it.
    """
    if lease_validity({**attempt.domain}, attempt.lease_now()) in (LeaseValidity.REVOKED, LeaseValidity.SUPERSEDED):
        raise Refused("the lease is over", location=str(path_of(attempt.lease)), hint="open the unit, then watch it")
    attempt.epoch = Anchor.of(attempt.lease).epoch + 1
    known = not attempt.because and Anchor.of(attempt.lease).seq == 0
    tracked, gitlinks = index_of(attempt)
    files.make_dirs(attempt.path("").parent)
    files.write_atomic(attempt.path("tracked"), tracked.packed)
    taken = ScanBasis(tracked, gitlinks, settings, reliable=True)
    found = _whole_scan(attempt, taken)
    found.stored.save(attempt.path("manifest.bin"))
    with attempt.chain.locked(Anchor.of(attempt.lease)):
        if attempt.chain.records:  # another observer was faster: its baseline is the attempt's
            attempt.fold()
            return _found(attempt), None
        line = attempt.line_now()
        document = _document(attempt, taken, found, line, known=known)
        attempt.world.writable_store.write(BASELINE, names.observer_file(attempt.name, "baseline.json"), document)
        attempt.append(
            [attempt.record(projection.BASELINE, When(line, "startup", "content"), _body(attempt, document, known))]
        )
    return document, _kept(attempt, found)


def _kept(attempt: ObserverAttempt, scan: Scan) -> Scan | None:
    """A baseline's scan, with its manifest on the disk; None where it is no whole one."""
    saved = attempt.stored(attempt.policy.digest)
    if scan.partial or saved.digest != scan.stored.digest:
        return None
    return replace(scan, stored=saved, changed_keys=False, compute=list)


def _whole_scan(attempt: ObserverAttempt, basis: ScanBasis) -> Scan:
    """A content scan in which nothing moved, or after some tries one that names what does."""
    digest = attempt.policy.digest
    for left in reversed(range(TRIES)):
        with opened(attempt.lease) as root:
            if isinstance(root, str):
                raise Blocked(
                    f"this is not the leased worktree: {root}", location=str(path_of(attempt.lease)), hint=ELSEWHERE
                )
            found = scan.scan(subject(attempt, root, basis), Stored.empty(digest), Level.CONTENT)
        problem = wrong(attempt.lease)
        if problem:
            raise Blocked(
                f"this is not the leased worktree: {problem}", location=str(path_of(attempt.lease)), hint=ELSEWHERE
            )
        if not found.partial or not left:
            return found
        attempt.world.clock.sleep(PAUSE)
    raise AssertionError("the last try returns")


def _document(
    attempt: ObserverAttempt, basis: ScanBasis, scan: Scan, line: Timeline, *, known: bool
) -> ObserverBaseline:
    policy = attempt.policy
    clock = {"boot": line.reading.boot, "bootNs": line.reading.boot_ns, "wallNs": line.reading.wall_ns}
    made: dict[str, Any] = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": BASELINE,
        "at": timestamp(attempt.world.clock.now()),
        "timelineNs": line.at,
        "clock": clock,
        "domain": attempt.domain,
        "settings": basis.settings.document(),
        "pathPolicyDigest": policy.digest,
        "manifest": scan.stored.digest,
        "entries": len(scan.stored),
        "trackedDigest": basis.tracked.digest,
        "tracked": len(basis.tracked),
        "gitlinks": [{**path_fields(path), "commit": commit} for path, commit in sorted(basis.gitlinks.items())],
        "baselineTime": "known" if known else "unknown",
        "admin": admin_identity(attempt.lease).document(),
    }
    if scan.partial:
        made |= {"partial": True, "unstable": [path_fields(path) for path in scan.unstable]}
    if scan.holds:
        made["holds"] = [{**path_fields(hold.path), "reason": hold.reason} for hold in scan.holds]
    return cast("ObserverBaseline", made)  # writing judges it


def _body(attempt: ObserverAttempt, document: ObserverBaseline, known: bool) -> dict[str, Any]:
    """What the baseline's record says of it, and of the journal before it."""
    same: Final = ("settings", "pathPolicyDigest", "trackedDigest", "entries", "baselineTime", "partial")
    body: dict[str, Any] = {key: document[key] for key in same if key in document}
    anchor = Anchor.of(attempt.lease)
    if not known:
        body["holds"] = [f"journal_{attempt.because or 'missing'}", "baseline_time_unknown"]
    if anchor.seq:
        link = {"segment": anchor.segment, "seq": anchor.seq, "head": anchor.head}
        body["previous"] = {"attempt": attempt.name, **link}
    elif "observedBefore" in attempt.lease:
        body["previous"] = attempt.lease["observedBefore"]
    return {**body, "contentSeq": 0, "after": document["manifest"]}
