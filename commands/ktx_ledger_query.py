"""Answer a question from the ledger and the jobs, with the rows that support the answer.

reads    .ktx/jobs/, .ktx/ingest-traces/
writes   nothing
exits    0 answered (`unknown` is an answer), 2 usage or no such job, 5 a record breaks its contract
example  ledger-query job j1; ledger-query trace j1 --event patch_accepted --json

questions
  jobs              every job, with its state and the outcomes of its units
  job JOB           one job, unit by unit; the verdict says whether it has landed
  trace JOB         the events of a job's trace
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.core.ledger import answers
from ktxkit.core.trace import LEVELS
from ktxkit.errors import CannotRun
from ktxkit.world import World

QUESTIONS = {"jobs": 0, "job": 1, "trace": 1}  # the number of subjects each takes


def parser() -> cli.Parser:
    made = cli.Parser("ledger-query", __doc__)
    made.add_argument("question", choices=tuple(QUESTIONS), metavar="QUESTION", help="see the list above")
    made.add_argument("subject", nargs="*", metavar="SUBJECT", help="what is asked about")
    narrow = made.add_argument_group("trace")
    narrow.add_argument("--event", default="", metavar="NAME", help="only events of this name")
    narrow.add_argument("--unit", default="", metavar="KEY", help="only events of this unit")
    narrow.add_argument("--level", choices=tuple(LEVELS), default="trace", help="leave out what is below this level")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.flows import job_answers as jobs

    if len(args.subject) != QUESTIONS[args.question]:
        need = QUESTIONS[args.question]
        raise CannotRun(f"{args.question} takes {need or 'no'} subject", hint="see ledger-query --help")
    if args.question == "jobs":
        document = jobs.all_jobs(world)
    elif args.question == "job":
        document = jobs.one_job(world, args.subject[0])
    else:
        document = jobs.trace(world, args.subject[0], event=args.event, unit=args.unit, level=args.level)
    return cli.Result(document=document, contract="answer", lines=answers.lines(document, jobs.COLUMNS[args.question]))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
