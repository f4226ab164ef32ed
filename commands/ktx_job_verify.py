"""Verify a job as a whole: a command on the integration head, when every unit has its outcome.

reads    .ktx/jobs/JOB/, the integration branch
writes   .ktx/jobs/JOB/verification.json (the attempt first, the receipt last), .ktx/worktrees/JOB/integration/
exits    0 passed, 1 a unit has no outcome yet, 2 cannot run, 3 failed, 4 blocked (HEAD moved, a commit is missing)
example  job-verify --job j1 --limit 600 -- make check
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import seconds
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("job-verify", __doc__, takes_command=True)
    made.add_argument("--job", metavar="JOB", help="the job (KTX_JOB, or the lease of this worktree)")
    made.add_argument("--limit", type=seconds, metavar="SECONDS", help="end the command after this long")
    made.add_argument("--summary", metavar="TEXT", default="", help="a line for the record")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.store import jobs
    from ktxkit.work import job_verify

    job = jobs.need_job(world, args.job)
    made = job_verify.verify_job(job, job_verify.VerifyRequest(args.command, args.limit, args.summary))
    return views.verified(made)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
