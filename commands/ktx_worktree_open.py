"""Open an isolated worktree, or recognise the one that this is, and lease it.

    worktree-open NAME                    new work: branch NAME from origin's default branch, else main, else HEAD
    worktree-open --ref REF               an existing branch, or a tag or commit (detached)
    worktree-open --pr N                  the head of a pull request on a local branch pr-N
    worktree-open --detach [--base REV]   no branch
    worktree-open --job JOB --unit KEY    a unit of a job at the job's base, under .ktx/
    worktree-open ... -- CMD              run CMD there; its status is the answer, and no path is printed

reads    the repository, .ktx/jobs/JOB/job.json, leases
writes   .ktx/jobs/JOB/units/N-U/lease.json or .ktx/leases/NAME/lease.json, .ktx/worktrees/...; job.json of a new job
exits    0 open, 1 refused (it says where), 2 cannot run, 4 another directory stands there, 5 a damaged document
example  worktree-open fix-orders -- $SHELL
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import count
from ktxkit.base.errors import CannotRun
from ktxkit.store.world import World

OPENING = ("name", "base", "path", "no_fetch", "copy", "sparse", "setup")
OF_ADHOC = ("name", "base", "ref", "pr", "detach", "copy", "sparse", "setup")
POLICY = ("allow", "deny", "text_root", "sl_disallowed", "leave_out")
OF_UNIT = ("job", "unit", "target", "connection", "source", "after", *POLICY)


def parser() -> cli.Parser:
    made = cli.Parser("worktree-open", __doc__, unit=True, takes_command=True)
    made.add_argument("name", nargs="?", default="", metavar="NAME", help="the new branch, and the worktree's name")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--ref", default="", metavar="REF", help="an existing branch, tag or commit")
    what.add_argument("--pr", type=count, default=0, metavar="N", help="a pull request of origin")
    what.add_argument("--detach", action="store_true", help="no branch")
    what.add_argument("--list", action="store_true", help="list every worktree")
    what.add_argument("--prune", action="store_true", help="clear what is left over, its work to the attic first")
    made.add_argument("--base", default="", metavar="REV", help="start from this commit")
    made.add_argument("--path", metavar="DIR", help="put it there (not for units)")
    made.add_argument("--no-fetch", action="store_true", help="do not try to fetch the base first")
    made.add_argument("--copy", action="append", default=[], metavar="PATTERN", help="bring ignored files along")
    made.add_argument("--sparse", action="append", default=[], metavar="DIR", help="check out only these directories")
    made.add_argument("--setup", default="", metavar="CMD", help="run it there first (default: the configured one)")
    made.add_argument("--force", action="store_true", help="prune also where processes stand inside")
    cli.add_keep_ignored(made)
    job = made.add_argument_group("a unit of a job")
    job.add_argument("--target", default="", metavar="BRANCH", help="where a new job lands (default: checked out here)")
    job.add_argument("--connection", default="local", metavar="ID", help="connection of a new job")
    job.add_argument("--source", default="manual", metavar="KEY", help="source of a new job")
    job.add_argument("--after", action="append", default=[], metavar="KEY", help="a unit that comes before this one")
    job.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="paths the unit may touch")
    job.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="paths the unit may not touch")
    job.add_argument("--text-root", action="append", default=[], metavar="DIR", help="only plain text files below DIR")
    job.add_argument("--sl-disallowed", action="store_true", help="the unit may not touch the semantic layer")
    job.add_argument("--leave-out", action="append", default=[], metavar="PATTERN", help="paths not to be collected")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import cleaning, views
    from ktxkit.work import adhoc, bare_patches
    from ktxkit.work.closing import RemovalOptions

    args.job = args.job or (args.unit and world.env.get("KTX_JOB"))
    if not args.prune:
        args.refuse("without --prune", "force", "keep_ignored")
    if args.list or args.prune:
        args.refuse("with --list or --prune", *OPENING, *OF_UNIT, "command")
        options = RemovalOptions(tuple(args.keep_ignored), args.force, views.going(args))
        rows = cleaning.listing(world, prune=options if args.prune else None, ignored=args.list)
        notes = [f"note: `git ktx {'prune' if args.prune else 'list'}` is the command for this; this goes on working"]
        return cli.Result(views.outcome(rows), rows, "worktrees", lines=views.lines(rows), notes=notes)
    if args.unit:
        if not args.job or args.name or args.ref or args.pr or args.detach or args.path:
            raise CannotRun(
                "a unit is opened by --job JOB --unit KEY, at --base REV, and by nothing else",
                hint="worktree-open --job j1 --unit orders; without a job: worktree-open NAME",
            )
        args.refuse("for a unit of a job", "no_fetch", "setup")
        chosen = {name: getattr(args, name) for name in (*OF_UNIT, "base", "copy", "sparse")}
        lease = bare_patches.open_by_hand(world, bare_patches.UnitRequest(**chosen))
        notes = [f"nothing to copy is named {pattern}" for pattern in lease.get("copyUnmatched", ())]
    else:
        args.refuse("without --unit KEY", *OF_UNIT)
        chosen = {name: getattr(args, name) for name in OF_ADHOC}
        path = world.cwd / args.path if args.path else None
        lease, notes = adhoc.open_adhoc(world, adhoc.WorktreeRequest(**chosen, path=path, fetch=not args.no_fetch))
    result = cli.Result(document=lease, contract="lease", lines=[lease["path"]], notes=notes)
    return views.run_inside(args, world, result) if args.command else result


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
