"""Ingest a source: its snapshot, what changed since the last time, a plan of units, then all that job-run does.

reads    PLACE (a staged directory) or --url; .ktx/provenance/ (what landed before); the target's tree
writes   raw-sources/, semantic-layer/ and wiki/ on the target, once, last; .ktx/jobs/JOB/, .ktx/provenance/,
         .ktx/ingest-cache/, .ktx/ingest-traces/JOB/trace.jsonl, worktrees
exits    0 done or nothing to do, 1 refused, dirty or moved target, 2 usage or no such source, 3 partial or failed,
         4 blocked, 5 a broken contract, 130 interrupted (evidence kept; --resume continues)
example  ingest-run metabase exports/metabase --connection warehouse
         METABASE_API_KEY=... ingest-run metabase --url https://metabase.example --connection warehouse -- ./agent
         ingest-run dbt target/manifest.json --connection warehouse --max-parallel 8
         ingest-run --resume metabase-20260517-020000-1a2b
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.app.cli import count, seconds
from ktxkit.base.errors import CannotRun

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("ingest-run", __doc__, takes_command=True)
    made.add_argument("connector", nargs="?", metavar="CONNECTOR", help="metabase, dbt, or one that is installed")
    made.add_argument("place", nargs="?", metavar="PLACE", help="the directory or file of the source")
    made.add_argument("--url", metavar="URL", help="a live source; credentials come from the environment")
    made.add_argument("--connection", metavar="NAME", help="what the knowledge is about: semantic-layer/NAME/")
    made.add_argument("--source", metavar="KEY", help="where it comes from (default: the connector's name)")
    made.add_argument("-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="of the connector")
    made.add_argument("--reconcile", metavar="CMD", help="a command for the integrated tree, in place of the built-in")
    made.add_argument("--no-reconcile", action="store_true", help="no reconciliation")
    made.add_argument("--verify", metavar="CMD", help="a command that each candidate must pass")
    made.add_argument("--time-limit", type=seconds, metavar="S", help="seconds for one unit")
    made.add_argument("--everything", action="store_true", help="every unit, whether or not it changed")
    made.add_argument("--no-cache", action="store_true", help="no unit from the cache, none into it")
    made.add_argument("--allow-empty", action="store_true", help="an empty source means that all of it was deleted")
    made.add_argument("--resume", metavar="JOB", help="continue an ingestion that did not land")
    made.add_argument("--job", metavar="ID", help="the new job's id")
    made.add_argument("--target", metavar="BRANCH", help="the branch to land on (default: the current)")
    made.add_argument("--max-parallel", type=count, metavar="N", help="units at once (default: processors)")
    made.add_argument("--on-failure", choices=["continue", "abort"], default="continue", help="when a unit fails")
    made.add_argument(
        "--on-conflict", choices=["set-aside", "stop", "prune"], default="set-aside", help="as in job-run"
    )
    made.add_argument("--isolate", action="store_true", help="units write nowhere but where their work is (Landlock)")
    made.add_argument("--write", action="append", default=[], metavar="DIR", help="isolated units write there too")
    made.add_argument("--wait", type=seconds, default=5.0, metavar="S", help="seconds for another ingestion to end")
    made.add_argument("--rebase", action="store_true", help="replay on the target where it moved meanwhile")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import requests, running
    from ktxkit.app.rules.report_text import render
    from ktxkit.ingest import run as ingest
    from ktxkit.work.job.run import RunOptions

    if bool(args.resume) == bool(args.connector):
        raise CannotRun("ingest-run takes a CONNECTOR and a PLACE, or --resume JOB", hint="see ingest-run --help")
    if args.resume:
        args.only("with --resume: the ingestion says it", "resume", "max_parallel", "rebase", "wait")
    progress = running.JobProgress(quiet=args.quiet or args.json, live=running.on_terminal())
    with progress.shown():
        how = RunOptions(progress, args.max_parallel, args.rebase)
        if args.resume:
            ended = ingest.resume(world, args.resume, how, wait=args.wait)
        else:
            asked = requests.ingest_request(world, args, progress)
            ended = ingest.start(world, asked, how, job=args.job or "", target=args.target or "", wait=args.wait)
    if ended.error is not None and not ended.settled:
        raise ended.error
    empty = not any(ended.report.get("diffSummary", {"": 1}).values())
    nothing = "the source is empty" if empty else "nothing changed since what landed"
    more = "" if empty else " (--everything runs every unit)"
    notes = ended.remarks("ingest-run", f"{nothing}: nothing to do{more}")
    return cli.Result(ended.outcome, ended.report, "report", lines=render(ended.report), notes=notes)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
