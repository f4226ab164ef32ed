"""Every worktree of the repository with what is known of it; and clearing those that are provably dead.

Never by age, never while a process has its working directory inside, never before what did not land is at an attic ref.
Where a step cannot be proven the worktree stays, with the reason in its row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, KtxError, Refused
from ktxkit.base.identity import processes_inside
from ktxkit.base.removal import delete
from ktxkit.base.rules.text import path_fields
from ktxkit.git.neutral import sweep
from ktxkit.store import jobs, resuming
from ktxkit.store.leases import (
    LEASE,
    OPENING,
    Place,
    every_place,
    foreign,
    holder_is_dead,
    path_of,
    standing,
    worktrees,
)
from ktxkit.store.rules import names
from ktxkit.store.rules.worktrees import Seen, why_dead
from ktxkit.store.worktrees import Registered
from ktxkit.store.world import World
from ktxkit.work import earlier
from ktxkit.work.closing import closed, remove
from ktxkit.work.opening import recover_opening

CONTRACT = "worktrees"
NOT_OURS = "it belongs to another repository"


def listing(world: World, *, prune: bool = False) -> Document:
    """The document of `--list`; with `prune`, what is dead is cleared and each row says what became of it."""
    if prune:
        worktrees(world).mend()
        sweep(world.writable_store.path("tmp"))
    registered = {os.path.realpath(entry.path): entry for entry in worktrees(world).listed()}
    rows, damaged = list[Document](), list[Document]()
    for place in every_place(world):
        try:
            row = _row(world, place, registered, prune=prune)
        except BrokenContract as error:  # it is named, and never touched; the others have nothing to do with it
            damaged.append({"where": error.where, "message": error.message})
            continue
        rows += [row] if row else []
    leased = {os.path.realpath(row["path"]) for row in rows if row["present"] or row.get("state") != "closed"}
    others = [entry for path, entry in registered.items() if path not in leased]
    plain = [_plain_row(entry, main=True) for entry in others[:1]]
    rows = [*plain, *(_unleased(world, entry, prune=prune) for entry in others[1:]), *rows]
    rows += list(_trash(world, prune=prune))
    made: Document = {"schemaVersion": SCHEMA_VERSION, "kind": CONTRACT, "worktrees": rows}
    return {**made, **({"damaged": each_once(damaged)} if damaged else {})}


def each_once(damaged: Sequence[Document]) -> list[Document]:
    """Each damaged document once, however many looked at it."""
    return list({row["where"]: row for row in reversed(damaged)}.values())[::-1]


def _unleased(world: World, entry: Registered, *, prune: bool) -> Document:
    try:
        return earlier.row(world, entry, prune=prune) or _plain_row(entry, main=False)
    except BrokenContract:  # its place is named among the damaged ones
        return _plain_row(entry, main=False)


def _plain_row(entry: Registered, *, main: bool) -> Document:
    head = {"head": entry.head} if entry.head.strip("0") else {}
    branch = {"branch": entry.branch} if entry.branch else {}
    kind = "main" if main else "linked"
    return {**path_fields(bytes(entry.path)), "kind": kind, **head, **branch, "present": entry.path.is_dir()}


def _row(world: World, place: Place, registered: dict[str, Registered], *, prune: bool) -> Document:
    """What is known of one place; empty where it holds no worktree any more."""
    if prune:
        place.settle()
    lease, note = place.read(LEASE), place.read(OPENING)
    if lease is None and note is None:
        return {}
    if prune and note is not None and lease is not None and lease["nonce"] == note["nonce"]:
        _drop_note(place)
    seen, busy = _seen(world, place, lease, note)
    about = lease or note
    assert about is not None
    if seen.state == "closed" and not seen.present and not seen.noted:
        return {}
    entry = registered.get(os.path.realpath(path_of(about)))
    row: Document = {
        **{key: about[key] for key in ("path", "pathB64", "jobId", "unitKey", "attempt", "outcome") if key in about},
        "kind": about["mode"] if about["mode"] in ("unit", "in-place") else "adhoc",
        "state": "opening" if seen.noted or lease is None else lease["state"],
        "present": seen.present,
        **({"head": entry.head} if entry is not None and entry.head.strip("0") else {}),
        **({"branch": entry.branch} if entry is not None and entry.branch else {}),
        **({"busy": busy} if busy else {}),
    }
    theirs = foreign(world, about)
    if theirs:
        return {**row, "kept": f"{NOT_OURS}: {theirs}"}
    why = why_dead(seen)
    if why:
        row["dead"] = why
        if prune:
            row |= _prune(world, place)
    return row


def _seen(world: World, place: Place, lease: Document | None, note: Document | None) -> tuple[Seen, list[int]]:
    about = lease or note
    assert about is not None
    found = standing(world, lease, path_of(about))
    busy = processes_inside(path_of(about)) if found.present else []
    noted = note is not None and (lease is None or lease["nonce"] != note["nonce"]) and _nobody_holds(place)
    job = world.store.read_optional(jobs.CONTRACT, names.job_doc(place.job)) if lease and "jobId" in lease else None
    seen = Seen(
        noted=noted,
        state=lease["state"] if lease is not None else "",
        outcome=lease.get("outcome", "") if lease is not None else "",
        in_place=about["mode"] == "in-place",
        present=found.present,
        same=found.same,
        holder_dead=lease is not None and holder_is_dead(lease),
        job_state=job["state"] if job is not None else "",
        busy=bool(busy),
        resumable=job is not None and bool(resuming.command(world, job)),
    )
    return seen, busy


def _nobody_holds(place: Place) -> bool:
    """Whether the place's lock is free: an opening or closing in progress holds it."""
    try:
        with place.locked(wait=0):
            return True
    except Refused:
        return False


def _drop_note(place: Place) -> None:
    """The note of an opening that was killed when all but this was done."""
    try:
        with place.locked(wait=0):
            recover_opening(place)
    except Refused:
        return  # gate-ok: it is just being removed


def _prune(world: World, place: Place) -> Document:
    """Clear one dead worktree; what was found before is looked at again under the lock."""
    try:
        with place.locked(wait=0):
            cut_short = recover_opening(place)
            lease = place.read(LEASE)
            if lease is None or cut_short:
                return {"pruned": True}
            if not why_dead(_seen(world, place, lease, None)[0]):
                return {"kept": "it is not dead any more"}
            if lease["mode"] == "in-place":
                closed(place, lease, "empty")
                return {"pruned": True}
            done = remove(place, lease, lease.get("outcome", "crash"), discard=False)
            return {"pruned": True, **({"atticRef": done["atticRef"]} if "atticRef" in done else {})}
    except KtxError as error:
        return {"kept": error.message[:8000]}


def _trash(world: World, *, prune: bool) -> Iterator[Document]:
    """Checkouts that were let go and whose deletion was cut short: what of them matters is kept already."""
    folder = world.store.path(names.TRASH)
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:  # noqa: PTH208
        path = folder / name
        busy = processes_inside(path)
        row = {**path_fields(bytes(path)), "kind": "trash", "present": True, **({"busy": busy} if busy else {})}
        if not busy:
            row["dead"] = "its deletion was cut short"
            if prune:
                row |= {"pruned": True} if delete(path) else {"kept": "some of it will not go"}
        yield row
