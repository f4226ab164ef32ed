"""Clear worktrees that are left over; what did not land of them goes to refs/ktx/attic first.

Left over is what nobody goes on with, proven so and never merely old: one whose owner died or whose directory is gone,
an opening that was cut short, a unit of a job that is over. Where a process works, or something no commit can hold
lies, it stays.

reads    the worktrees of the repository, .ktx/ (leases)
writes   removes what it names; refs/ktx/attic/...; with --keep-ignored .ktx/kept-ignored/...
exits    0 cleared, or nothing to clear, 2 not a repository, 5 a damaged lease (the others are cleared)
example  git ktx prune
         git ktx prune --keep-ignored '*.log'
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx prune", __doc__)
    made.add_argument("--force", action="store_true", help="also where processes stand in it; it names them")
    cli.add_keep_ignored(made)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import cleaning, views
    from ktxkit.work.closing import RemovalOptions

    rows = cleaning.listing(world, prune=RemovalOptions(tuple(args.keep_ignored), args.force, views.going(args)))
    return cli.Result(views.outcome(rows), rows, "worktrees", lines=views.lines(rows))
