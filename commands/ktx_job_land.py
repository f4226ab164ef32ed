"""Land a job: one commit with all that was accepted, onto the target, by compare-and-swap.

reads    .ktx/jobs/JOB/, the integration branch
writes   the target branch (and the checkout that has it), .ktx/jobs/JOB/landing.json and job.json
exits    0 done or noop, 1 target moved or dirty, 2 cannot run, 3 a replayed patch conflicts, 4 blocked, 5 damaged
example  job-land --job j1 --rebase
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("job-land", __doc__)
    made.add_argument("--job", metavar="JOB", help="the job (KTX_JOB, or the lease of this worktree)")
    made.add_argument("--message", metavar="TEXT", default="", help="the commit's message")
    made.add_argument("--rebase", action="store_true", help="replay the accepted patches where the target has moved")
    made.add_argument("--dry-run", action="store_true", help="show what would land, move nothing")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.store import jobs
    from ktxkit.work import land, next_step

    if args.dry_run:
        args.refuse("with --dry-run", "message")
    job = jobs.need_job(world, args.job)
    if args.dry_run:
        return views.to_land(job.target, next_step.preview(job, rebase=args.rebase))
    made = land.land(job, message=args.message, rebase=args.rebase)
    left = [unit.key for unit in job.units if unit.key not in land.units_in(made)]
    return views.landed(made, left, land.remarks(job))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
