"""Show what is known of a leased worktree: observed activity, proven progress, deadlines, the observer's health.

reads    the lease of the unit or of the worktree that this is, .ktx/attempts/A/worktree-observer/; where none is named
         and none stands here, of every open worktree (--job JOB: of one job), as a table
writes   nothing
exits    0 shown, 2 no such worktree or job, 4 not the leased worktree, or late writes are quarantined;
         5 a damaged journal, baseline or lease
example  worktree-status --job j1 --unit orders
         worktree-status
         worktree-status --watch
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("worktree-status", __doc__, unit=True)
    made.add_argument("name", nargs="?", default="", metavar="NAME", help="a worktree that has no job, by its name")
    text = "go on: a full screen on a terminal, else a line for a change; of all worktrees where none is meant"
    made.add_argument("--watch", action="store_true", help=text)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.observer import observe, status

    if args.watch:
        return views.watch(args, world)
    if views.of_all(args, world):
        return views.once(args, world)
    place = views.location(world, args.name, args.job, args.unit)
    views.must_be_there(place)
    return cli.Result(**status.facts(observe.status(place, status.lease_of(place))))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
