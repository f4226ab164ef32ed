"""Open an isolated worktree, or recognise the one that this is, and lease it.

reads    the repository, .ktx/jobs/JOB/job.json
writes   .ktx/jobs/JOB/units/N-U/lease.json, .ktx/worktrees/JOB/N-U/
exits    0 open, 1 refused (in use, another base), 2 cannot run, 4 another directory stands there, 5 a damaged document
example  cd "$(worktree-open --job j1 --unit orders)"
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.errors import CannotRun
from ktxkit.world import World


def parser() -> cli.Parser:
    made = cli.Parser("worktree-open", __doc__, unit=True)
    made.add_argument("--base", metavar="REV", help="start from this commit")
    made.add_argument("--target", metavar="BRANCH", help="where a new job lands (default: the branch checked out)")
    made.add_argument("--connection", metavar="ID", default="local", help="connection of a new job")
    made.add_argument("--source", metavar="KEY", default="manual", help="source of a new job")
    made.add_argument("--after", action="append", default=[], metavar="KEY", help="a unit that comes before this one")
    made.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="paths the unit may touch")
    made.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="paths the unit may not touch")
    made.add_argument("--sl-disallowed", action="store_true", help="the unit may not touch the semantic layer")
    made.add_argument("--sparse", action="append", default=[], metavar="DIR", help="check out only these directories")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.flows import unit_worktrees

    if not args.job or not args.unit:
        raise CannotRun("which unit?", hint="--job JOB --unit KEY")
    lease = unit_worktrees.open_by_hand(world, args)
    return cli.Result(document=lease, contract="lease", lines=[lease["path"]])


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
