"""Preview a job: which live units will clash, textually and by the gates, before they finish.

reads    .ktx/jobs/JOB/, the units' worktrees (never written to)
writes   nothing but git objects
exits    0 no clash, 1 clashes, 2 cannot run, 5 a damaged document
example  job-preview --job j1 --json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("job-preview", __doc__)
    made.add_argument("--job", metavar="JOB", help="the job (KTX_JOB, or the lease of this worktree)")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.store import jobs
    from ktxkit.work import preview

    return views.previewed(preview.preview(jobs.need_job(world, args.job)))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
