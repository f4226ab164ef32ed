"""Take a test run that was recorded elsewhere into the ledger: each file is one run, and is taken in once.

With --run the files are the parts of one run, as Surefire and others write them. With --repair a damaged ledger is
mended: what is whole stays, what is damaged is moved aside, and what is lost is said.

reads    an event file of ours, a pytest-reportlog file, JUnit XML, a CTRF report, or (store) a whole `.ktx`
writes   .ktx/ledger/events/RUN.ndjson, .ktx/ledger/artifacts/, .ktx/ledger/test-runs.ndjson; with --repair
         .ktx/ledger/damaged/
exits    0 taken in (or there already), or repaired (or whole); 2 usage or no such file; 5 a file is not of its kind
         (nothing is written), or the ledger is damaged
example  ledger-append --from junit build/report.xml
         ledger-append --from junit --run nightly-7 target/surefire-reports/TEST-*.xml
         ledger-append --from events ~/.local/state/ktxkit/PROJECT/ledger/events/RUN.ndjson
         ledger-append --repair
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun
from ktxkit.ledger.rules.rows import run_row, tally
from ktxkit.store.world import World

FORMATS = ("events", "reportlog", "junit", "ctrf", "store")


def parser() -> cli.Parser:
    made = cli.Parser("ledger-append", __doc__, intermixed=True)
    made.add_argument("files", metavar="FILE", nargs="*", help="what is taken in")
    made.add_argument("--from", dest="kind", choices=FORMATS, help="what it is")
    made.add_argument("--run", default="", metavar="ID", help="the files are parts of one run, which gets this id")
    made.add_argument("--project", default="", metavar="P", help="the project, instead of the repository's own")
    made.add_argument("--repair", action="store_true", help="mend a damaged ledger instead")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    if args.repair:
        return _repair(args, world)
    if not args.files or not args.kind:
        raise CannotRun("--from and at least one FILE are needed", hint="see ledger-append --help")
    from ktxkit.ledger import importing

    taken = importing.take_all(world, args.kind, args.files, args.project, args.run)
    lines, rows = [], []
    for name, line in taken:
        if line is None:
            lines.append(f"{name}: there already")
            rows.append({"run": name, "new": False})
            continue
        row = run_row(line["record"], f"seq {line['seq']}")
        lines.append(f"{name}: {line['record']['state']}, {tally(line['record']['counts'])}")
        rows.append({"run": name, "new": True, **{key: found for key, found in row.items() if found is not None}})
    data = rows[0] if len(rows) == 1 else {"runs": rows}
    return cli.Result("done" if any(row["new"] for row in rows) else "noop", lines=lines, data=data)


def _repair(args: argparse.Namespace, world: World) -> cli.Result:
    args.only("with --repair", "repair")
    from ktxkit.ledger import asking, repair

    found = repair.repair(world, asking.resolved(world))
    return cli.Result("done" if found.moved or found.entered else "noop", lines=found.lines(), data=found._asdict())


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
