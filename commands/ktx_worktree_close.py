"""Close a worktree's lease: remove what is done, keep what is evidence or not merged.

reads    the lease of the unit, of NAME, or of the worktree that this is
writes   lease.json, sentinel.json (conflict, crash), refs/ktx/attic/... for what is closed without landing; with
         --keep-ignored .ktx/kept-ignored/...
exits    0 closed, 1 refused: work would be lost, 2 no such worktree, 4 another directory stands there, 5 damaged
example  worktree-close fix-orders
         worktree-close --job j1 --unit orders --outcome crash --reason "the API was down"
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.store.rules.worktrees import OUTCOMES
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("worktree-close", __doc__, unit=True)
    made.add_argument("name", nargs="?", default="", metavar="NAME", help="a worktree that has no job, by its name")
    text = "success (default) and empty remove, the others keep"
    made.add_argument("--outcome", choices=OUTCOMES, default="success", help=text)
    made.add_argument("--discard", action="store_true", help="remove although work is nowhere else (attic first)")
    made.add_argument("--reason", default="", metavar="TEXT", help="why it is kept, for whoever looks at it later")
    made.add_argument("--force", action="store_true", help="also where processes stand in it; it names them")
    cli.add_keep_ignored(made)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.work import closing

    if args.outcome in ("conflict", "crash"):
        args.refuse("where the worktree is kept", "discard", "force", "keep_ignored")
    else:
        args.refuse("where the worktree is removed", "reason")
    place = views.location(world, args.name, args.job, args.unit)
    options = closing.RemovalOptions(tuple(args.keep_ignored), args.force, views.going(args))
    lease = closing.close(place, args.outcome, discard=args.discard, reason=args.reason, options=options)
    line = f"{lease['path']}  {lease['state']} as {args.outcome}"
    return cli.Result(document=lease, contract="lease", lines=[line], notes=views.notes(lease))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
