"""A failure after a branch has moved says that it has moved: what landed is never hidden behind a full disk.

What could not be written then is written by the next command on that branch (`flows.recover`), exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ktxkit.base.contracts import Document
from ktxkit.base.errors import Blocked, BrokenContract, CannotRun, KtxError
from ktxkit.base.rules.text import printable
from ktxkit.git.git import Git
from ktxkit.store.branch_lock import Held
from ktxkit.store.rules import names
from ktxkit.store.world import World


@contextmanager
def naming_what_moved(world: World, held: Held, place: str, what: str, again: str) -> Iterator[None]:
    """For a block that moves a branch by the intent at `place`. A failure after the move names the commit and `again`.

    `what` begins the sentence ("job j1 has landed"), `again` is the command that completes the record.
    """
    try:
        yield
    except (OSError, KtxError) as error:
        intent = _ours(world, held, place)
        if intent is None:
            raise
        raise _told(error, intent, what, again) from error


def _ours(world: World, held: Held, place: str) -> Document | None:
    """The intent of this holding, where its commit is on the branch."""
    try:
        intent = world.store.read_optional("intent", place)
    except BrokenContract:
        return None
    if intent is None or intent["nonce"] != held.nonce:
        return None
    return intent if has_moved(held.git, intent) else None


def has_moved(git: Git, intent: Document) -> bool:
    """Whether the branch has the journalled commit: it is there, or somebody went on from it."""
    return "commit" in intent and git.ok("merge-base", "--is-ancestor", intent["commit"], intent["ref"])


def landed_of(world: World, job: Document, problems: list[Document]) -> Document:
    """What landed of a job whose own document does not say so (yet): by its receipt, or by the target itself.

    Empty where nothing did. A damaged document is named in `problems`.
    """
    for contract, name in (("landing", "landing"), ("intent", "landing-intent")):
        try:
            found = world.store.read_optional(contract, names.job_part(job["jobId"], name))
        except BrokenContract as error:
            problems.append({"where": error.where, "message": error.message})
            continue
        if found is None or "commit" not in found:
            continue
        if contract == "landing" or has_moved(world.git.at(world.repository.place), found):
            return {"commit": found["commit"], "at": found["at"]}
    return {}


def _told(error: OSError | KtxError, intent: Document, what: str, again: str) -> KtxError:
    done = f"{what} as {intent['commit']} on {intent['ref']}"
    data = {"landed": {"commit": intent["commit"], "ref": intent["ref"], "before": intent["before"]}}
    if isinstance(error, OSError):
        where = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
        return CannotRun(
            f"{done}, but its record could not be completed: {error.strerror or error}",
            where=where,
            hint=f"put that right, then {again}: it completes the record and moves nothing",
            data=data,
        )
    hint = f"{error.hint}; then {again}: it completes the record and moves nothing" if error.hint else again
    kind = Blocked if isinstance(error, Blocked) else CannotRun
    message = f"{done}, but {error.message}"
    return kind(message, where=error.where, hint=hint, outcome=error.outcome, data={**error.data, **data})
