"""Take a test run that was recorded elsewhere into the ledger: each file is one run, and is taken in once.

reads    an event file of ours, a pytest-reportlog file, JUnit XML or a CTRF report
writes   .ktx/ledger/events/RUN.ndjson, .ktx/ledger/artifacts/, .ktx/ledger/test-runs.ndjson
exits    0 taken in (or there already), 2 usage or no such file, 5 the file is not of its kind (nothing is written)
example  ledger-append --from junit build/report.xml
         ledger-append --from events ~/.local/state/ktxkit/PROJECT/ledger/events/RUN.ndjson
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.ledger.rules.rows import run_row, tally
from ktxkit.store.world import World

FORMATS = ("events", "reportlog", "junit", "ctrf")


def parser() -> cli.Parser:
    made = cli.Parser("ledger-append", __doc__)
    made.add_argument("file", metavar="FILE", help="what is taken in")
    made.add_argument("--from", dest="kind", choices=FORMATS, required=True, help="what it is")
    made.add_argument("--project", default="", metavar="P", help="the project, instead of the repository's own")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.ledger import importing

    name, line = importing.take(world, args.kind, args.file, args.project)
    if line is None:
        return cli.Result("noop", lines=[f"{name}: there already"], data={"run": name, "new": False})
    row = run_row(line["record"], f"seq {line['seq']}")
    text = f"{name}: {line['record']['state']}, {tally(line['record']['counts'])}"
    return cli.Result(lines=[text], data={"run": name, "new": True, **{k: v for k, v in row.items() if v is not None}})


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
