"""Run a whole job: units in parallel worktrees, their patches gated and integrated in unit order, landed by one squash.

reads    JOBFILE (YAML, contract job-file); with --resume the job's own documents, and JOBFILE where it was edited
writes   .ktx/jobs/JOB/, .ktx/ingest-patches/JOB/, .ktx/ingest-traces/JOB/trace.jsonl, worktrees; the target, once, last
exits    0 done or nothing to do, 1 refused, dirty or moved target, 2 usage or a bad job file, 3 partial or failed,
         4 blocked, 5 a broken contract, 130 interrupted (evidence kept; --resume continues)
example  job-run job.yaml --max-parallel 8
         job-run --resume nightly-20260517-020000-1a2b
         job-run --resume j1 --retry orders --with-work -- python mend.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.app.cli import count
from ktxkit.base.errors import CannotRun

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("job-run", __doc__, takes_command=True)
    made.add_argument("jobfile", nargs="?", metavar="JOBFILE", help="what to do (git ktx help job-file)")
    made.add_argument("--resume", metavar="JOB", help="continue a job that did not land, or not all of it")
    again = made.add_argument_group("with --resume")
    again.add_argument("--only", dest="keys", action="append", default=[], metavar="KEY", help="start no other unit")
    again.add_argument(
        "--retry",
        action="append",
        default=[],
        metavar="KEY",
        help="another attempt, from today's head (-- CMD runs)",
    )
    again.add_argument("--failed", action="store_true", help="--retry for every unit that is not in")
    again.add_argument("--with-work", action="store_true", help="--retry begins with the last attempt's work")
    made.add_argument("--job", metavar="ID", help="the new job's id (default: the file's, or made from its name)")
    made.add_argument("--target", metavar="BRANCH", help="the branch to land on (default: the file's, or the current)")
    made.add_argument(
        "--max-parallel", type=count, metavar="N", help="units at once (default: the file's, or processors)"
    )
    made.add_argument("--on-failure", choices=["continue", "abort"], help="when a unit fails")
    made.add_argument("--on-conflict", choices=["set-aside", "stop", "prune"], help="when a patch is not accepted")
    made.add_argument("--dry-run", action="store_true", help="show what it would do, run nothing")
    made.add_argument("--rebase", action="store_true", help="replay on the target where it moved meanwhile")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import running
    from ktxkit.work.job import prepare, resuming
    from ktxkit.work.job import run as job
    from ktxkit.work.job.state import UnitSelection

    if args.dry_run:
        args.refuse("with --dry-run", "resume", "rebase")
    if not args.resume and not args.jobfile:
        raise CannotRun("job-run takes a JOBFILE, or --resume JOB", hint="see job-run --help")
    if not args.resume:
        args.refuse("without --resume", "keys", "retry", "failed", "with_work")
    if not args.retry and not args.failed:
        args.refuse("without --retry", "with_work", "command")
    if args.resume and not args.jobfile:
        args.refuse("with --resume: the job says it", "job", "target", "on_failure", "on_conflict")
    progress = running.JobProgress(quiet=args.quiet or args.json, live=running.on_terminal())
    chosen = UnitSelection(
        frozenset(args.keys), frozenset(args.retry), tuple(args.command), args.with_work, failed=args.failed
    )
    said = {"job": args.job, "target": args.target, "onFailure": args.on_failure, "onConflict": args.on_conflict}
    given = {key: value for key, value in said.items() if value}
    document = prepare.job_file(world, args.jobfile, given) if args.jobfile else None
    unseen = running.unseen_by_job(world, args.resume, document)
    if args.dry_run:
        assert document is not None
        return running.planned(world, document, unseen, limit=args.max_parallel)
    progress.note(unseen)
    notes: list[str] = []
    with progress.shown():
        how = job.RunOptions(progress, args.max_parallel, args.rebase, selection=chosen)
        if args.resume:
            ended, notes = resuming.go_on(world, args.resume, how, document, args.jobfile or "")
        else:
            assert document is not None
            ended = job.start(world, document, args.jobfile, how)
    return running.result_of(ended, notes)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
