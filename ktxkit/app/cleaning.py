"""Every worktree of the repository with what is known of it; and clearing those that are left over.

Never by age, never while a process has its working directory inside, never before what did not land is at an attic ref.
Where a step cannot be proven the worktree stays, with the reason in its row.

Clearing what nobody needs any more: shown first, done when asked. Never unmerged work, never an open job's evidence.

A job's private refs and records go only when the job has ended and every unit of it is in, or it ended before it had
any. Everything else of a job is evidence or unmerged, and stays whatever its age.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktxkit.base import files, kinds, owners
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract, KtxError, Refused
from ktxkit.base.identity import processes_inside
from ktxkit.base.removal import delete
from ktxkit.base.rules.text import path_b64, path_text
from ktxkit.git import neutral
from ktxkit.git.checkout import locked
from ktxkit.git.neutral import sweep
from ktxkit.git.repository import Registered
from ktxkit.ingest.rules import places
from ktxkit.store import active, jobs, leases
from ktxkit.store.active import ActiveJob
from ktxkit.store.leases import (
    LeaseLocation,
    all_locations,
    foreign,
    held_elsewhere,
    holder_is_dead,
    path_of,
    presence,
    worktrees,
)
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import LeaseFacts, why_dead
from ktxkit.store.world import World
from ktxkit.work import closing
from ktxkit.work.closing import PLAIN, RemovalOptions, closed, ignored_in, in_use, remove
from ktxkit.work.next_step import EndedJob, ended_as
from ktxkit.work.opening import recover_opening
from ktxkit.work.recover import alone_with

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, Lease, WorktreeList, WorktreeOpening, WorktreeRow
    from ktxkit.work.closing import Pruning


CONTRACT = "worktrees"
OF_LEASE: Final = ("jobId", "unitKey", "attempt", "outcome")
STOOD_IN = "nobody needs it but who stands in it"
NOT_OURS = "it belongs to another repository"


def listing(world: World, *, prune: RemovalOptions | None = None, ignored: bool = False) -> WorktreeList:
    """The document of `--list`; with `prune`, what is dead is cleared and each row says what became of it.

    `ignored`: the ignored files of those that are dead are counted and named.
    """
    if prune is not None:
        worktrees(world).mend()
        sweep(world.writable_store.root)
    registered = {os.path.realpath(entry.path): entry for entry in worktrees(world).listed()}
    rows: list[WorktreeRow] = []
    damaged: list[DamagedDocument] = []
    for place in all_locations(world):
        try:
            row = _row(world, place, registered, prune=prune)
            lease = place.lease() if ignored and row is not None and "dead" in row else None
            row = {**row, **ignored_in(place, lease)} if row is not None and lease is not None else row
        except BrokenContract as error:  # it is named, and never touched; the others have nothing to do with it
            damaged.append({"where": error.location, "message": error.message})
            continue
        rows += [row] if row is not None else []
    leased = {os.path.realpath(row["path"]) for row in rows if row["present"] or row.get("state") != "closed"}
    others = [entry for path, entry in registered.items() if path not in leased]
    plain = [_plain_row(entry, main=True) for entry in others[:1]]
    rows = [*plain, *(_unleased(world, entry, prune=prune, ignored=ignored) for entry in others[1:]), *rows]
    rows += list(_trash(world, prune=prune))
    made: WorktreeList = {"schemaVersion": SCHEMA_VERSION, "kind": "worktrees", "worktrees": rows}
    made |= {"damaged": each_once(damaged)} if damaged else {}
    return made


def each_once(damaged: Sequence[DamagedDocument]) -> list[DamagedDocument]:
    """Each damaged document once, however many looked at it."""
    return list({row["where"]: row for row in reversed(damaged)}.values())[::-1]


def _unleased(world: World, entry: Registered, *, prune: RemovalOptions | None, ignored: bool) -> WorktreeRow:
    try:
        row = closing.row(world, entry, prune=prune) or _plain_row(entry, main=False)
        found = closing.earlier_attempt(world, entry.path) if ignored and "dead" in row else None
        return {**row, **ignored_in(*found[:2])} if found is not None else row
    except BrokenContract:  # its place is named among the damaged ones
        return _plain_row(entry, main=False)


def _plain_row(entry: Registered, *, main: bool) -> WorktreeRow:
    path = bytes(entry.path)
    row: WorktreeRow = {
        "path": path_text(path),
        "kind": "main" if main else "linked",
        "present": entry.path.is_dir(),
    }
    row |= {"pathB64": exact} if (exact := path_b64(path)) else {}
    row |= {"head": entry.head} if entry.head.strip("0") else {}
    row |= {"branch": entry.branch} if entry.branch else {}
    return row


def _row(
    world: World, location: LeaseLocation, registered: dict[str, Registered], *, prune: RemovalOptions | None
) -> WorktreeRow | None:
    """What is known of one place; None if it holds no worktree any more."""
    if prune is not None:
        location.settle()
    lease, note = location.lease(), location.read(kinds.OPENING)
    if lease is None and note is None:
        return None
    if prune is not None and note is not None and lease is not None and lease["nonce"] == note["nonce"]:
        _drop_note(location)
    seen, busy = _seen(world, location, lease, note)
    if seen.state == "closed" and not seen.present and not seen.noted:
        return None
    row = _described(lease, note, seen, registered)
    row |= {"busy": busy} if busy else {}
    theirs = foreign(world, lease or note or {})
    if theirs:
        row["kept"] = f"{NOT_OURS}: {theirs}"
        return row
    row |= {"kept": seen.elsewhere} if seen.elsewhere else {}
    why = why_dead(seen._replace(busy=False))
    if why and busy and (prune is None or not prune.force):
        row["kept"] = in_use(busy)
    elif why:
        row["dead"] = why
        if prune is not None:
            row = {**row, **_prune(world, location, prune)}
    return row


def _described(
    lease: Lease | None, note: WorktreeOpening | None, facts: LeaseFacts, registered: dict[str, Registered]
) -> WorktreeRow:
    """A worktree by its documents and git's registration."""
    about = lease or note
    assert about is not None
    entry = registered.get(os.path.realpath(path_of(about)))
    mode = about["mode"]
    row: WorktreeRow = {
        "path": about["path"],
        "kind": mode if mode == "unit" or mode == "in-place" else "adhoc",
        "state": "opening" if facts.noted or lease is None else lease["state"],
        "present": facts.present,
    }
    row |= {"pathB64": about["pathB64"]} if "pathB64" in about else {}
    for key in OF_LEASE:
        if lease is not None and key in lease:
            row[key] = lease[key]
    row |= {"leftOut": lease["leftOut"]["count"]} if lease is not None and "leftOut" in lease else {}
    row |= {"head": entry.head} if entry is not None and entry.head.strip("0") else {}
    row |= {"branch": entry.branch} if entry is not None and entry.branch else {}
    return row


def _seen(
    world: World, location: LeaseLocation, lease: Lease | None, note: WorktreeOpening | None
) -> tuple[LeaseFacts, list[int]]:
    about = lease or note
    assert about is not None
    found = presence(world, lease, path_of(about))
    busy = processes_inside(path_of(about)) if found.present else []
    noted = note is not None and (lease is None or lease["nonce"] != note["nonce"]) and _nobody_holds(location)
    job = ActiveJob.find(world, location.job) if lease and "jobId" in lease else None
    seen = LeaseFacts(
        noted=noted,
        state=lease["state"] if lease is not None else "",
        outcome=lease.get("outcome", "") if lease is not None else "",
        in_place=about["mode"] == "in-place",
        present=found.present,
        same=found.same,
        holder_dead=lease is not None and holder_is_dead(world, lease),
        job_state=job.state if job is not None else "",
        busy=bool(busy),
        resumable=job is not None and bool(job.next_command()),
        locked=locked(world.repository.common_dir, path_of(about)),
        elsewhere=held_elsewhere(world, lease),
    )
    return seen, busy


def _nobody_holds(location: LeaseLocation) -> bool:
    """Whether the place's lock is free: an opening or closing in progress holds it."""
    try:
        with location.locked(wait=0):
            return True
    except Refused:
        return False


def _drop_note(location: LeaseLocation) -> None:
    """The note of an opening that was killed when all but this was done."""
    try:
        with location.locked(wait=0):
            recover_opening(location)
    except Refused:
        return  # gate-ok: it is just being removed


def _prune(world: World, location: LeaseLocation, options: RemovalOptions) -> Pruning:
    """Clear one dead worktree; what was found before is looked at again under the lock."""
    try:
        with location.locked(wait=0):
            cut_short = recover_opening(location)
            lease = location.lease()
            if lease is None or cut_short:
                return {"pruned": True}
            seen = _seen(world, location, lease, None)[0]
            why = why_dead(seen._replace(busy=seen.busy and not options.force))
            if not why:
                return {"kept": "somebody has it again"}
            if lease["mode"] == "in-place":
                closed(location, lease, "empty")
                return {"pruned": True}
            outcome, said = lease.get("outcome", "crash"), f"cleared: {why}"
            done = remove(location, lease, outcome, discard=False, why=said, options=options)
            pruned: Pruning = {"pruned": True}
            pruned |= {"atticRef": done["atticRef"]} if "atticRef" in done else {}
            pruned |= {"ignored": done["ignored"]} if "ignored" in done else {}
            pruned |= {"ignoredKept": done["ignoredKept"]} if "ignoredKept" in done else {}
            return pruned
    except KtxError as error:
        return {"kept": error.message[:8000]}


def _trash(world: World, *, prune: RemovalOptions | None) -> Iterator[WorktreeRow]:
    """Checkouts that were let go and whose deletion was cut short: what of them matters is kept already."""
    folder = world.store.directory(names.TRASH)
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:  # noqa: PTH208
        path = folder / name
        busy = processes_inside(path)
        row: WorktreeRow = {"path": path_text(bytes(path)), "kind": "trash", "present": True}
        row |= {"pathB64": exact} if (exact := path_b64(bytes(path))) else {}
        row |= {"busy": busy} if busy else {}
        if not busy and not owners.may_be_in_use(name, world.store.root):
            row["dead"] = "its deletion was cut short"
            if prune is not None:
                row |= {"pruned": True} if delete(path) else {"kept": "some of it will not go"}
        yield row


if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ktxkit.base.documents import Cleaning, CleaningItem, CleaningItemWhat

    class ItemFacts(TypedDict, total=False):
        """How much it is, or why it stays."""

        count: int
        bytes: int
        kept: str

    from ktxkit.base.documents import DamagedDocument

CLEANING = "cleaning"
CACHE_KEPT = 30 * 86_400  # seconds that a cached unit's result is kept


def clean(world: World, *, do: bool, records: bool, options: RemovalOptions = PLAIN) -> Cleaning:
    """What can be cleared, and with `do` what was. `records`: also the cache, and documents of finished jobs.
    `options`: how worktrees go."""
    active.require_ours(world)
    damaged: list[DamagedDocument] = []
    items = [*_worktrees(world, damaged, options, do=do)]
    if do and world.store.root.is_dir():
        jobs.sweep_unbegun(world)
        items += [_item("temporary", name, "its process has ended") for name in neutral.sweep(world.store.root)]
        owners.sweep(world.store.root, frozenset(_holders(world)))
    if records:
        items += _cache(world, do=do)
    items += _old_results(world, do=do)
    for job, ended in _finished(world, damaged):
        if ended.gone:
            items.append(_kept_refs(job, ended.why))
        else:
            items += _job(job, ended, do=do, records=records or "failure" in job.document)
    made: Cleaning = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "cleaning",
        "at": timestamp(world.clock.now()),
        "done": do,
        "items": items,
    }
    made |= {"damaged": each_once(damaged)} if damaged else {}
    return made


def _holders(world: World) -> Iterator[str]:
    """The marks of processes that open leases name: whether they live is still asked."""
    for place in all_locations(world):
        try:
            lease = place.lease()
        except BrokenContract:
            continue  # gate-ok: it is named among the damaged ones, and never touched
        if lease is not None and lease["state"] == "open" and "owner" in lease:
            yield owners.Owner.of(lease["owner"]).mark


def _item(what: CleaningItemWhat, name: str, why: str, **facts: Unpack[ItemFacts]) -> CleaningItem:
    item: CleaningItem = {"what": what, "name": name, "why": why}
    return {**item, **facts}


def _cache(world: World, *, do: bool) -> Iterator[CleaningItem]:
    """What is kept to answer the same again; it is made anew where it is needed."""
    place = world.store.path(os.path.dirname(names.FACTS))  # noqa: PTH120 - a relative path of the store
    if place.is_dir():
        item = _item("cache", place.name, "it is made again where it is needed", bytes=_size(place))
        yield item if not do or delete(place) else {**item, "kept": "some of it will not go"}


def _worktrees(
    world: World, damaged: list[DamagedDocument], options: RemovalOptions, *, do: bool
) -> Iterator[CleaningItem]:
    if not world.store.root.is_dir():
        return
    listed = listing(world, prune=options if do else None, ignored=not do)
    damaged += listed.get("damaged", ())
    for row in listed["worktrees"]:
        if "dead" in row or "kept" in row:
            busy = "busy" in row and "dead" not in row
            item = _item("worktree", row["path"], row.get("dead", STOOD_IN if busy else row.get("kept", NOT_OURS)))
            item |= {"busy": row["busy"]} if "busy" in row else {}
            item |= {"ignoredKept": row["ignoredKept"]} if "ignoredKept" in row else {}
            item |= {"kept": row["kept"]} if "kept" in row else {}
            item |= {"atticRef": row["atticRef"]} if "atticRef" in row else {}
            item |= {"ignored": row["ignored"]} if "ignored" in row else {}
            yield item


def _old_results(world: World, *, do: bool) -> Iterator[CleaningItem]:
    """Results of units of ingestions that nobody is likely to need again; the work would be done anew."""
    before = world.clock.now().timestamp() - CACHE_KEPT
    entries = [path for path in world.store.path("ingest-cache").glob("*/*.json") if path.lstat().st_mtime < before]
    if entries:
        size = sum(path.lstat().st_size for path in entries)
        if do:
            for path in entries:
                files.remove(path)
        why = f"results of units from more than {CACHE_KEPT // 86_400} days ago"
        yield _item("cache", "ingest-cache", why, count=len(entries), bytes=size)


def _finished(world: World, damaged: list[DamagedDocument]) -> Iterator[tuple[ActiveJob, EndedJob]]:
    """Jobs that have ended and of which nothing waits. A damaged one is none of them, and is named."""
    for job in jobs.readable(world, damaged):
        ended = ended_as(job, damaged)
        if ended is not None:
            yield job, ended


def _beside(job: ActiveJob) -> list[str]:
    """Units whose collected work is not what was integrated, and the job itself where more was than has landed."""
    git, landing = job.git, job.read(kinds.LANDING, "landing")
    head = git.resolve(job.integration_ref)
    found = [] if landing is None or head in (None, landing.get("integrationHead")) else ["the integration branch"]
    for unit in job.units:
        receipt = job.read(kinds.RECEIPT, "receipt", unit)
        tree = git.resolve(names.unit_ref(job.id, unit.position, unit.key), "tree")
        if tree is not None and (receipt is None or receipt.get("patchTree") != tree):
            found.append(unit.key)
    return found


def _refs(job: ActiveJob) -> dict[str, str]:
    """Object id of each ref of a job."""
    listed = job.git.text("for-each-ref", "--format=%(refname) %(objectname)", *names.job_refs(job.id))
    return dict(line.split(" ") for line in listed.splitlines())


def _kept_refs(job: ActiveJob, why: str) -> CleaningItem:
    """What landed is on its branch no longer: every ref stays."""
    count = len(_refs(job))
    return _item("refs", job.id, why, count=count, kept=f"job-land --job {job.id} lands it again")


def _job(job: ActiveJob, ended: EndedJob, *, do: bool, records: bool) -> Iterator[CleaningItem]:
    shown = [*_of_job(job, ended, do=False, records=records)]
    if not do or all("kept" in item for item in shown):
        yield from shown
        return
    try:
        with alone_with(job):
            found = ActiveJob.find(job.world, job.id)
            now = ended_as(found, []) if found is not None else None
            if found is None or now is None or now.gone:
                yield _item("refs", job.id, ended.why, kept="somebody went on with the job meanwhile")
            else:
                yield from [*_of_job(found, now, do=True, records=records)]
    except (Refused, Blocked) as error:
        yield _item("refs", job.id, ended.why, kept=error.message)


def _of_job(job: ActiveJob, ended: EndedJob, *, do: bool, records: bool) -> Iterator[CleaningItem]:
    refs, why = _refs(job), ended.why
    beside = _beside(job) if refs else []
    if beside:
        left = f"collected work that has not landed: {', '.join(beside)}"
        yield _item("refs", job.id, left, count=len(refs), kept="apply it in a job of its own, or take it from its ref")
        return
    yield from _verified_in(job, do=do)
    if refs:
        item = _item("refs", job.id, why, count=len(refs))
        if do and not leases.worktrees(job.world).delete_refs(refs, {job.target: ended.target}):
            yield {**item, "kept": "its target, or one of them, moved meanwhile"}
            return
        yield item
    if records:
        yield from _records(job, why, do=do)


def _verified_in(job: ActiveJob, *, do: bool) -> Iterator[CleaningItem]:
    """The checkout that candidates of the job were verified in. What lies there, verifications have made."""
    path = job.world.store.path(names.integration_dir(job.id))
    if not path.is_dir() or leases.foreign(job.world, {"path": str(path)}):
        return
    item = _item("worktree", str(path), "its job is in; candidates were verified here")
    if do:
        try:
            inside = processes_inside(path)
            gone = not inside and delete(leases.worktrees(job.world).let_go(path))
            kept = f"processes are at work in it: {inside}" if inside else "some of it will not go"
            item |= {} if gone else {"kept": kept}
        except Refused as error:
            item |= {"kept": error.message}
    yield item


def _records(job: ActiveJob, why: str, *, do: bool) -> Iterator[CleaningItem]:
    waiting = places.pending_doc(job.connection, job.source, job.id)
    if job.world.store.exists(waiting):
        return  # its provenance is put into the journal, or dropped, by the next ingestion, which reads these
    found = [place for name in names.job_records(job.id) if (place := job.world.store.path(name)).is_dir()]
    if job.world.store.children(f"worktrees/{job.id}"):
        return  # a checkout still stands: its lease is in the records
    size = sum(_size(place) for place in found)
    item = _item("records", job.id, why, bytes=size)
    if do:
        try:
            with job.locked(wait=0):
                gone = [delete(place) for place in found]
            item |= {} if all(gone) else {"kept": "some of it will not go"}
        except Refused as error:
            item |= {"kept": error.message}
    yield item


def _size(place: Path) -> int:
    """Bytes of the files under a directory."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
        for folder, found in files.walk(os.fspath(place))
        for name in found
    )
