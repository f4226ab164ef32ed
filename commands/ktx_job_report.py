"""Show the report of a job: what landed, what did not and why; as text, JSON, or one self-contained page.

reads    .ktx/jobs/JOB/ (job, leases, patches, receipts, results) and .ktx/ingest-traces/JOB/trace.jsonl; for the page
         also the patches and the units' output
writes   nothing, or with --html the page; with --otlp spans go to a collector
exits    0 shown (whatever the job's outcome), 2 no such job, 5 a document of the job is damaged: it is named, the rest
         is shown
example  job-report
         job-report --list
         job-report nightly-20260517-020000-ab12 --json
         job-report --html report.html
         job-report --otlp http://localhost:4318
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun

if TYPE_CHECKING:
    from ktxkit.base.documents import Report
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("job-report", __doc__)
    made.add_argument("name", metavar="JOB", nargs="?", help="the job; default: KTX_JOB, the worktree's, or the latest")
    made.add_argument("--job", metavar="JOB", help="the same")
    made.add_argument("--list", action="store_true", help="every job, newest first, each with what is next")
    made.add_argument("--html", metavar="FILE", help="write one page that needs no network; - for stdout")
    made.add_argument("--otlp", metavar="URL", help="send its spans to an OpenTelemetry collector (OTLP over HTTP)")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app.rules import report_text
    from ktxkit.store import jobs
    from ktxkit.store.active import ActiveJob
    from ktxkit.work import next_step, report

    if args.list:
        from ktxkit.app import overview

        args.only("with --list", "list")
        return overview.job_list(world)
    if args.name and args.job and args.name != args.job:
        raise CannotRun(f"two jobs are named: {args.name} and {args.job}", hint="name one")
    wanted = args.name or args.job or jobs.current_unit(world, None, None)[0] or report.latest(world)
    if wanted is None:
        raise CannotRun("there is no job here yet", location=str(world.store.root), hint="git ktx run makes one")
    job = ActiveJob.load(world, wanted)
    made = next_step.with_next(job, report.build(job), running=next_step.is_running(job))
    problems = made.get("problems", ())
    page, written = _page(args, world, made)
    if args.otlp:
        from ktxkit.app import spans

        written.append(f"sent {spans.export(world, made, args.otlp)} spans to {args.otlp}")
    return cli.Result(
        "broken_contract" if problems else "done",
        document=made,
        contract=report.CONTRACT,
        lines=[] if written else report_text.render(made),
        raw=page,
        notes=[*written, *(f"job-report: {problem['where']}: {problem['message']}" for problem in problems)],
    )


def _page(args: argparse.Namespace, world: World, report: Report) -> tuple[bytes | None, list[str]]:
    """The page for stdout, or what to say of the file it was written to."""
    if args.html is None:
        return None, []
    from ktxkit.app import pages

    return pages.deliver(world, pages.render_report(world, report), args.html)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
