"""A user's branch moves with the checkout that has it, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ktxkit.base import process
from ktxkit.base.errors import Blocked, CannotRun, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields, plural, printable, stands
from ktxkit.git import checkout, child, merging, stale
from ktxkit.git.checkout import UserSettings
from ktxkit.git.git import Git, GitFailed, killed, lock_in_the_way
from ktxkit.git.neutral import AUTHOR, Neutral, open_neutral, scratch_dir
from ktxkit.git.rules.checkout import Obstacle, Status, near
from ktxkit.git.rules.patch import Entry
from ktxkit.store import leases
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.world import World

PAUSE = 0.1  # seconds between looks at a lock that another git holds
SHOWN = 10  # obstacles in a message; all of them are in its data


def checked_out_at(world: World, ref: str) -> Path | None:
    """The checkout that has a branch, or None. Raises Refused where several do, where a rebase or a bisect would take
    back what lands, and where the checkout cannot follow: it is locked, and not there."""
    homes = checkout.homes(world.git.at(world.repository.directory), world.repository.common_dir, ref)
    for home in homes:
        if home.operation != checkout.CHECKED_OUT:
            hint = "finish it first, or abort it: it would take the change away again"
            raise Refused(f"{ref} is {home.operation}", location=str(home.path), hint=hint, outcome="dirty_target")
        if home.locked and not home.present:
            hint = "bring it back, or `git worktree unlock` and `git worktree prune`: it could not follow its branch"
            said = f"{ref} is checked out in a locked worktree that is not there"
            raise Refused(said, location=str(home.path), hint=hint, outcome="dirty_target")
    here = [home.path for home in homes if home.present]
    if len(here) > 1:
        raise Refused(
            f"{ref} is checked out {len(here)} times: {', '.join(map(str, here))}",
            hint="one branch lives in one worktree; switch the others away",
        )
    return here[0] if here else None


class FreeCheckout(NamedTuple):
    """A checkout that a change can follow into: its status before, and the user's settings in it."""

    status: Status
    settings: UserSettings


def require_free(world: World, git: Git, entries: Sequence[Entry], new: str) -> FreeCheckout:
    """The checkout, proven not to be in the way of the change. Raises Refused (`dirty_target`)."""
    busy = child.operations(git)
    if busy:
        raise Refused(
            f"a {busy[0]} is in progress", location=str(git.cwd), hint="finish it first", outcome="dirty_target"
        )
    status = checkout.status_of(git)
    found = checkout.in_the_way(git, entries, status)
    if found:
        raise _dirty(git, found)
    settings = checkout.settings_of(git)
    if settings.filters:
        with scratch_dir(world) as scratch:
            why = checkout.cannot_smudge(git, entries, new, scratch)
        if why:
            raise Refused(f"the files cannot be written: {why}", location=str(git.cwd), hint="a required filter fails")
    return FreeCheckout(status, settings)


def _dirty(git: Git, found: Sequence[Obstacle]) -> Refused:
    names_ = ", ".join(f"{printable(item.path)} ({item.reason})" for item in found[:SHOWN])
    more = f" and {plural(len(found) - SHOWN, 'other')}" if len(found) > SHOWN else ""
    return Refused(
        f"in the way: {names_}{more}",
        location=str(git.cwd),
        hint="commit, move or remove what is named; nothing was changed",
        outcome="dirty_target",
        data={"paths": [{**path_fields(item.path), "reason": item.reason} for item in found[:1000]]},
    )


def runner(held: HeldBranch, top: Path) -> Git:
    """git in the checkout: its children keep the lock, it flushes, and no edit hides that the user's git shows."""
    return child.honest_to_owner(held.git, top).at(top)


def move_checkout(
    held: HeldBranch, git: Git, ref: str, old: str, new: str, entries: Sequence[Entry], before: Status
) -> None:
    """The fast-forward that is the move, proven by comparison. Raises Refused (all is as it was) or Blocked."""
    held.note(phase="checkout")
    at = str(git.cwd)
    if checkout.head_of(git) != (old, ref):
        raise Refused("the checkout was switched meanwhile", location=at, hint="run it again", outcome="target_moved")
    began = held.world.clock.now().timestamp()
    answer = checkout.fast_forward(git, new)
    patience = _Patience(held.world)
    while answer.status != 0 and patience.outlasts(lock_in_the_way(answer.err)):
        restore(held, git, entries, before)  # where the branch was locked, the files have moved already
        answer = checkout.fast_forward(git, new)
    if answer.status != 0 and not answer.no_answer and checkout.make_way(git, entries):
        answer = checkout.fast_forward(git, new)
    if (now := checkout.status_of(git)).head == new:  # however it ended: this is what it was to do
        _require_followed(git, entries, before, now)
        return
    said = answer.err.decode("utf-8", "replace").strip() or f"status {answer.status}"
    there = git.resolve(ref)
    if there != old:
        raise Blocked(
            f"{stands(ref, there)}, expected {old}: {said}",
            location=at,
            hint="somebody moved it at the same time; look at its reflog, then run the step again",
        )
    if killed(answer.status):
        _clear_index_lock(held, git, began)
    restore(held, git, entries, before)
    if lock := lock_in_the_way(answer.err):
        raise locked(held, ref, lock)
    if answer.no_answer:
        raise GitFailed(answer)
    raise Refused(
        f"git would not move the checkout: {said}", location=at, hint="it is as it was", outcome="dirty_target"
    )


def move_ref(held: HeldBranch, ref: str, new: str, old: str) -> None:
    """Compare-and-swap. Raises Blocked where the branch is not where it was under our lock."""
    held.note(phase="moving")
    words = ("update-ref", "--no-deref", ref, new, old)
    try:
        if ref.startswith("refs/ktx/"):
            leases.worktrees(held.world).on_own(*words, git=held.git)
        else:
            _moved_in_time(held, words)
    except GitFailed as error:
        answer = error.answer
        there = held.git.resolve(ref) or "nothing"
        if there == new:
            return
        if there == old and (lock := lock_in_the_way(answer.err)):
            raise locked(held, ref, lock) from error
        if there == old:
            raise GitFailed(answer, machinery=True) from error
        raise Blocked(
            f"{ref} was moved by somebody else: expected {old}, found {there}",
            hint="see git reflog; nothing of ours was lost",
            data={"ref": ref, "expected": old, "found": there},
        ) from error


class _Patience:
    """What waits for locks of other gits, `obstacle_wait` seconds in all."""

    def __init__(self, world: World) -> None:
        self._clock, self._until = world.clock, world.clock.monotonic() + world.limits.obstacle_wait

    def outlasts(self, lock: str) -> bool:
        """Wait until a lock is gone; False where it is there at the end, or there is none to wait for ("")."""
        while lock and os.path.lexists(lock) and self._clock.monotonic() < self._until:
            self._clock.sleep(PAUSE)
        return bool(lock) and self._clock.monotonic() < self._until


def _moved_in_time(held: HeldBranch, words: Sequence[str]) -> None:
    """Move a ref, once no other git has its lock. Raises GitFailed."""
    patience = _Patience(held.world)
    while True:
        try:
            held.git.run(*words)
            return
        except GitFailed as error:
            if not patience.outlasts(lock_in_the_way(error.answer.err)):
                raise


def locked(held: HeldBranch, ref: str, lock: str) -> Refused:
    """Another git holds the ref. Nothing was moved."""
    who = stale.holders(Path(lock), held.world.repository.common_dir)
    by = ": " + " and ".join(map(process.described, who)) if who else ", which cannot be seen"
    return Refused(
        f"{ref} is locked by another git{by}",
        location=lock,
        hint="wait for it to end; a lock that no process holds any more is removed by hand",
        data={"ref": ref, "lock": lock},
        machinery=True,
    )


def restore(held: HeldBranch, git: Git, entries: Sequence[Entry], before: Status | None) -> None:
    """Put the change's paths back. Raises Blocked where the checkout is not as before then."""
    quarantine = held.world.writable_store.path(names.quarantine_dir("checkout", held.nonce))
    if before is not None and near(entries, checkout.status_of(git)) == near(entries, before):
        return
    checkout.restore(git, entries, quarantine)
    now = checkout.status_of(git)
    if before is not None and near(entries, now) != near(entries, before):
        raise Blocked("the checkout could not be put back as it was", location=str(git.cwd), hint="see git status")


def put_back(held: HeldBranch, git: Git, old: str, new: str, ref: str, since: float) -> None:
    """After a move that was cut off: the paths between the two commits are as in the old one again.

    `since`: when it began, seconds since the epoch. The lock of the index is removed where a git of that move left it
    behind. Raises Refused where another git holds it and something is to be put back.
    """
    lock = _clear_index_lock(held, git, since)
    with open_neutral(held.world) as neutral:
        entries = merging.changes(neutral, old, new)
    if not checkout.in_the_way(git, entries, checkout.status_of(git)):
        return
    if os.path.lexists(lock):
        raise locked(held, ref, str(lock))
    restore(held, git, entries, None)


def _clear_index_lock(held: HeldBranch, git: Git, since: float) -> Path:
    """Remove the lock of the index where a git of ours left it behind; returns where it would be."""
    lock = checkout.index_lock(git)
    stale.clear_left_behind(lock, held.world.repository.common_dir, since, held.world.limits.lock_age)
    return lock


def _require_followed(git: Git, entries: Sequence[Entry], before: Status, now: Status) -> None:
    """The landed paths are as the new commit has them. Other dirt is another's: it may come and go meanwhile."""
    if not (checkout.index_has(git, entries) and near(entries, now) == near(entries, before)):
        raise Blocked(
            "the checkout is not what its new commit and its own dirt make",
            location=str(git.cwd),
            hint="see git status; the branch has moved, the change is in it",
        )


class Author(NamedTuple):
    """Who wrote a commit that is made anew, when (as git's raw dates), and in which encoding its message is."""

    name: str
    email: str
    date: str
    encoding: str = "UTF-8"


def commit_for_user(
    world: World,
    neutral: Neutral,
    tree: str,
    parent: str,
    message: str,
    settings: UserSettings,
    author: Author | None = None,
) -> tuple[str, bool]:
    """A commit on a user's branch, in the user's name where there is one, and whether it is signed.

    `settings`: the user's; git would guess a name or mail that is missing. `author`: who wrote it, where that is not
    the user. No hook runs. Raises CannotRun where git refuses it: signing fails, or a name is empty.
    """
    seconds = int(world.clock.now().timestamp())
    name, email = settings.name, settings.email
    if not (name and email):
        if not settings.sign and author is None:
            return merging.commit_tree(neutral, tree, parent, message, seconds), False
        name, email = AUTHOR["NAME"], AUTHOR["EMAIL"]
    roles = [f"GIT_{role}_{{}}" for role in ("AUTHOR", "COMMITTER")]
    env = {r.format("NAME"): name for r in roles} | {r.format("EMAIL"): email for r in roles}
    env |= {r.format("DATE"): f"@{seconds} +0000" for r in roles}
    if author is not None:
        env |= {"GIT_AUTHOR_NAME": author.name, "GIT_AUTHOR_EMAIL": author.email, "GIT_AUTHOR_DATE": author.date}
    git, encoding = world.git.at(world.repository.directory), author.encoding if author is not None else "UTF-8"
    runner_ = git.having(**env).configured(core_fsync="objects", i18n_commitEncoding=encoding)
    flags = ["-S"] if settings.sign else ["--no-gpg-sign"]
    answer = runner_.run(
        "commit-tree", *flags, tree, "-p", parent, "-F", "-", stdin=message.encode("utf-8", "surrogateescape"), ok=None
    )
    if answer.status != 0:
        said = answer.err.decode("utf-8", "replace").strip()
        what = "signed" if settings.sign else "made"
        raise CannotRun(f"the commit could not be {what}: {said}", hint="see commit.gpgSign and user.signingKey")
    return answer.text, settings.sign


def settings_for_commits(world: World, git: Git, free: FreeCheckout | None) -> UserSettings:
    """The user's settings where the job stands; those of the checkout where that is the same one."""
    place = world.repository.directory
    return free.settings if free is not None and git.cwd == place else checkout.settings_of(world.git.at(place))
