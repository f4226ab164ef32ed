"""Run a test suite with pytest, its scope recorded, and say what the ledger has of it.

reads    .ktx-config.yaml (ledger.preconditions: commands that must hold before a run can be relied upon)
writes   .ktx/ledger/events/RUN.ndjson, .ktx/ledger/test-runs.ndjson; with --cprofile .ktx/ledger/profiles/RUN.prof,
         with --trace .ktx/affected/traces/RUN.ndjson
exits    the status of pytest (128 + N where signal N ended it), 2 usage; with --guard 2 where the command is refused
example  test-run --scope full -- -q -n 4
         test-run --scope tests/test_a.py -- -x
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.core.ledger.rows import run_row, tally
from ktxkit.errors import CannotRun
from ktxkit.world import World


def parser() -> cli.Parser:
    made = cli.Parser("test-run", __doc__, takes_command=True)
    made.add_argument("--scope", nargs="+", default=[], metavar="SCOPE", help="`full`, or paths to run")
    made.add_argument("--cprofile", action="store_true", help="run under cProfile and keep the profile")
    made.add_argument("--trace", action="store_true", help="record what each test runs, opens and starts (slow)")
    made.add_argument("--env-profile", default="", metavar="NAME", help="the environment's name, part of its identity")
    made.add_argument("--trigger", default="", metavar="WHO", help="who asked: gate:NAME, hook, ci, agent:ID, ...")
    made.add_argument("--python", default="", metavar="EXE", help="the interpreter (default: the active environment's)")
    made.add_argument("--project", default="", metavar="P", help="the project, instead of the repository's own")
    made.add_argument("--guard", action="store_true", help="judge a PreToolUse document on stdin: no bare pytest")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.flows import lexicon, test_run

    if args.guard:
        said = test_run.guard(sys.stdin.buffer.read())
        return cli.Result(notes=[said] if said else [], status=2 if said else 0)
    if "full" in args.scope and args.scope != ["full"]:
        raise CannotRun("--scope is `full` or paths", hint="leave `full` out, or the paths")
    if args.trace and args.cprofile:
        raise CannotRun("--trace and --cprofile both need the interpreter's profiler", hint="ask for one of them")
    if not args.quiet:
        sys.stderr.write("\n".join(["test-run: what may be said of this run", *lexicon.reminder(), ""]))
        sys.stderr.flush()
    wish = test_run.Wish(
        pytest=tuple(args.command),
        scope=tuple(args.scope),
        cprofile=args.cprofile,
        trace=args.trace,
        profile=args.env_profile,
        trigger=args.trigger,
        python=args.python,
        project=args.project,
    )
    ran = test_run.run(world, wish)
    return cli.Result(status=ran.status, notes=_notes(ran), data=_data(ran))


def _notes(ran: object) -> list[str]:
    from ktxkit.flows.test_run import Ran

    assert isinstance(ran, Ran)
    broken = [f"test-run: precondition {one['name']} does not hold" for one in ran.preconditions if not one["verified"]]
    if ran.line is None:
        return [*broken, f"test-run: run {ran.run} is NOT recorded: the plugin never started; nothing is known of it"]
    record = ran.line["record"]
    scope = " ".join([record["scope"]["kind"], *record["scope"].get("why", [])])
    word = "authoritative" if record["authoritative"] else "not authoritative"
    told = [f"test-run: {ran.run} {record['state']}, {tally(record['counts'])}; scope {scope}; {word}"]
    if ran.kept is not None and ran.kept.path is None:
        told.append(f"test-run: no trace is kept: {ran.kept.why}")
    elif ran.kept is not None:
        told.append(f"test-run: traced {ran.kept.tests} tests, {ran.kept.incomplete} of them not completely")
    return [*broken, *told]


def _data(ran: object) -> dict[str, object]:
    from ktxkit.flows.test_run import Ran

    assert isinstance(ran, Ran)
    found = {} if ran.line is None else run_row(ran.line["record"], f"seq {ran.line['seq']}")
    return {"run": ran.run, "recorded": ran.line is not None, **{k: v for k, v in found.items() if v is not None}}


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
