"""Land the work of a worktree that has no job: collected, gated, verified, with its own commits.

Without NAME it is the worktree that the command stands in. Each commit keeps its message and author; they are the
commits themselves where the target has not moved since. With --squash all of it, uncommitted work too, is one commit.
Gates and verification are those that `job` in .ktx-config.yaml has; what follows -- verifies instead.

reads    the worktree, its lease, .ktx-config.yaml of the main checkout
writes   the target branch (and the checkout that has it), a job of its own under .ktx/, the lease
exits    0 done or noop, 1 refused or dirty, 2 cannot run, 3 a conflict, findings or a failed verification, 4 blocked
example  git ktx land fix-orders -- make test
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import printable

if TYPE_CHECKING:
    from ktxkit.app.land_worktree import LandedWorktree
    from ktxkit.store.leases import LeaseLocation
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx land", __doc__, takes_command=True)
    made.add_argument("name", nargs="?", default="", metavar="NAME", help="the worktree, as worktree-open was given it")
    made.add_argument(
        "--target", default="", metavar="BRANCH", help="default: the configured one, or the main checkout's"
    )
    made.add_argument("--squash", action="store_true", help="one commit, of uncommitted work too")
    made.add_argument("-m", "--message", default="", metavar="TEXT", help="its message (with --squash)")
    text = "control files that it may change, beside .gitignore and .gitattributes"
    made.add_argument("--allow-control", action="append", default=[], metavar="PATTERN", help=text)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import land_worktree, views
    from ktxkit.store.leases import lease_here

    if not args.squash:
        args.refuse("without --squash: commits keep their own messages", "message")
    if not args.name and lease_here(world) is None:
        raise CannotRun("which worktree?", hint="git ktx land NAME; `git ktx list` shows those there are")
    place = views.location(world, args.name, None, None)
    views.must_be_there(place)
    control = tuple(args.allow_control)
    asked = land_worktree.LandRequest(args.target, args.squash, args.message, tuple(args.command), control)
    ended = land_worktree.land_worktree(world, place, asked)
    if ended.landing is None:
        result = views.applied(ended.receipt)
        return result._replace(notes=[*result.notes, *_rewritten(place, ended), *_way_back(place, ended)])
    lines = [f"next: worktree-close {shlex.quote(place.name)}"] if "commit" in ended.landing else []
    result = views.landed(ended.landing)
    return result._replace(notes=[*result.notes, *_rewritten(place, ended), *lines])


def _rewritten(place: LeaseLocation, ended: LandedWorktree) -> list[str]:
    """What the worktree began with, and its target has dropped: left out, or landed again."""
    own, target = ended.work.own, printable(ended.job.target.removeprefix("refs/heads/"))
    if own.dropped:
        since = f"{target} was rewritten since {place.name} was opened"
        return [f"note: {since}; left out, as {target} has it no more: {', '.join(own.dropped)}"]
    if own.again and ended.landing is not None:
        return [f"note: {target} had these before, and dropped them; they landed again: {', '.join(own.again)}"]
    return []


def _way_back(place: LeaseLocation, ended: LandedWorktree) -> list[str]:
    """What a person does about work that meets what its target has now."""
    lease = place.lease()
    if ended.receipt["outcome"] != "textual_conflict" or lease is None:
        return []
    if ended.work.own.way:
        rebase = printable(ended.work.own.way)
        return [f"next: commit it there, {rebase}, mend and continue, then git ktx land {shlex.quote(place.name)}"]
    target = ended.job.target.removeprefix("refs/heads/")
    path = shlex.quote(printable(lease["path"]))
    merge = f"git -C {path} merge {shlex.quote(printable(target))}"
    return [f"next: commit it there, {merge}, mend and commit, then git ktx land {shlex.quote(place.name)} --squash"]
