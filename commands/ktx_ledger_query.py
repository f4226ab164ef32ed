"""Answer a question from the ledger of test runs and from the jobs, with the rows that support the answer.

reads    .ktx/ledger/, .ktx/jobs/, .ktx/ingest-traces/
writes   .ktx/ledger/index.sqlite (disposable); the closing line of a run that died without one; with --html the page
exits    0 answered (`unknown` is an answer), 1 the runs cannot be compared, 2 usage, 5 a record breaks its contract
example  ledger-query last
         ledger-query compare last-full 20260102T --json
         ledger-query report --html runs.html

questions about test runs (RUN: an id, its beginning, `last`, `last-full`, `last-scoped`, `last~1`, a branch, a commit)
  last              the last run, the last full and the last scoped one; verdict: did the last one pass?
  last-full         the last full run, and the tests it lacks against the full one before; last-scoped: the last other
  run RUN           one run, and each test that did not pass; runs: all, newest first
  report            the runs with counts over them; --html FILE: a page of runs, durations, changes, words of tests
  slowest [RUN]     the slowest tests; fixtures [RUN]: the fixtures whose setup costs most in all
  slower [RUN]      what took longer than in the comparable runs before, beyond its noise
  failing-since [TEST]  since which run and commit a test fails; warnings [RUN]: what a run warned of
  compare RUN RUN   what changed: outcomes, tests come and gone, time
  history TEST      each execution of a test (a node id); what-covers PATH: the tests that ran or opened a file
  flaky [TEST]      whether a test may be called flaky, or which narrower word holds
  explain GOAL      why passed(RUN), full(RUN), authoritative(RUN) or WORD(TEST) holds or not, down to the rows
  live [RUN]        what is going on; provenance X: every record that names a run, commit, tree or digest
  banner            the last runs in a few lines, for prompts; within 200 ms or `run state unknown`
  graph             runs, suites and tests as nodes and edges, JSON Lines; rules: the rules of the words (--prolog)

questions about jobs
  jobs              every job, with its state and the outcomes of its units
  job JOB           one job, unit by unit; the verdict says whether it has landed
  trace JOB         the events of a job's trace
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import count
from ktxkit.ledger import asking
from ktxkit.store.rules.trace import LEVELS
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("ledger-query", __doc__, intermixed=True)
    made.add_argument("question", choices=asking.PUBLIC_QUESTIONS, metavar="QUESTION", help="see the list above")
    made.add_argument("subject", nargs="*", default=[], metavar="SUBJECT", help="what is asked about")
    made.add_argument("--project", action="append", default=[], metavar="P", help="another project's; repeatable")
    made.add_argument("--format", choices=("text", "json", "ctrf"), help="ctrf: of `run` and `last`")
    made.add_argument("--html", metavar="FILE", help="of `report`: one page that needs no network; - for stdout")
    made.add_argument("--prolog", action="store_true", help="of `rules`: as Prolog")
    made.add_argument("--limit", type=count, default=0, metavar="N", help="at most N rows, of the best or newest")
    made.add_argument("--follow", action="store_true", help="of `live`: watch the run until it has ended")
    made.add_argument("--redis", action="store_true", help="with --follow: from the stream at KTX_REDIS_URL")
    narrow = made.add_argument_group("trace")
    narrow.add_argument("--event", default="", metavar="NAME", help="only events of this name")
    narrow.add_argument("--unit", default="", metavar="KEY", help="only events of this unit")
    narrow.add_argument("--level", choices=tuple(LEVELS), default="trace", help="leave out what is below this level")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.ledger.rules import rows

    args.refuse(*asking.not_obeyed(args.question, follow=args.follow))
    if args.follow:
        from ktxkit.app import views

        return views.follow(args, world)
    question = asking.variant(args.question, args.format, args.html is not None, args.prolog)
    more = {"limit": args.limit, "event": args.event, "unit": args.unit, "level": args.level}
    args.json |= args.format == "json"
    document = asking.ask(world, question, args.subject, args.project, **more)
    if isinstance(document, bytes):
        return _export(args, world, document)
    if args.question == "banner":
        from ktxkit.app.banner import lines

        return cli.Result(document=document, contract="answer", lines=lines(document))
    shown = rows.lines(document, asking.QUESTIONS[args.question].columns, cli.columns())
    return cli.Result(rows.outcome(document), document=document, contract="answer", lines=shown)


def _export(args: argparse.Namespace, world: World, made: bytes) -> cli.Result:
    """What other programs read."""
    if args.html is None:
        return cli.Result(raw=made, data={"text": made.decode("utf-8")})
    from ktxkit.app import pages

    raw, notes = pages.deliver(world, made, args.html)
    return cli.Result(raw=raw, notes=notes, data={"bytes": len(made)})


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
