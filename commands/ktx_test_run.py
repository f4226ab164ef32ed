"""Run a test suite with pytest, its scope recorded, and say what the ledger has of it.

reads    .ktx-config.yaml (ledger.preconditions: commands that must hold before a run can be relied upon)
writes   .ktx/ledger/events/RUN.ndjson, .ktx/ledger/test-runs.ndjson; with --cprofile .ktx/ledger/profiles/RUN.prof,
         with --trace .ktx/affected/traces/RUN.ndjson
exits    the status of pytest (128 + N where signal N ended it; 0 where no test is affected; 1 where pytest says 0 and
         the record is no pass, but for --status child), 2 usage; with --guard 2 where the command is refused; under
         --json pytest's stdout goes to stderr
example  test-run pytest -q
         test-run --scope full -- -q -n 4
         test-run --scope affected --base main -- -q
         test-run --scope tests/test_a.py -- -x
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun
from ktxkit.ledger.rules.rows import run_row
from ktxkit.ledger.rules.scope import separated
from ktxkit.store.world import World

VALUED = {"--scope", "--base", "--env-profile", "--trigger", "--python", "--project", "--status", "-C", "--ktx-dir"}
QUIET = {"-q", "-qq", "--quiet"}  # asked of pytest, it is asked of us


def parser() -> cli.Parser:
    made = cli.Parser("test-run", __doc__, takes_command=True)
    made.add_argument("--scope", nargs="+", default=[], metavar="SCOPE", help="`full`, `affected`, or paths to run")
    made.add_argument("--base", default="HEAD", metavar="REV", help="of `affected`: what the change starts from")
    made.add_argument("--cprofile", action="store_true", help="run under cProfile and keep the profile")
    made.add_argument("--trace", action="store_true", help="record what each test runs, opens and starts (slow)")
    made.add_argument("--env-profile", default="", metavar="NAME", help="the environment's name, part of its identity")
    made.add_argument("--trigger", default="", metavar="WHO", help="who asked: gate:NAME, hook, ci, agent:ID, ...")
    made.add_argument("--python", default="", metavar="EXE", help="the interpreter (default: the active environment's)")
    made.add_argument("--project", default="", metavar="P", help="the project, instead of the repository's own")
    made.add_argument("--status", choices=("record", "child"), default="record", help="whose word the status is")
    made.add_argument("--guard", action="store_true", help="judge a PreToolUse document on stdin: no bare pytest")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.affected import test_run

    if args.scope != ["affected"]:
        args.refuse("without --scope affected", "base")
    if args.guard:
        args.only("with --guard", "guard")
        said = test_run.guard(sys.stdin.buffer.read())
        return cli.Result(notes=[said] if said else [], status=2 if said else 0)
    if {"full", "affected"} & set(args.scope) and len(args.scope) > 1:
        raise CannotRun("--scope is `full`, `affected` or paths", hint="leave the word out, or the paths")
    if args.trace and args.cprofile:
        raise CannotRun("--trace and --cprofile both need the interpreter's profiler", hint="ask for one of them")
    if args.scope == ["affected"]:
        from ktxkit.affected import running  # with what reads sources: no other scope pays for it
    picked = running.arguments(world, args.base) if args.scope == ["affected"] else test_run.RunArguments()
    if picked.nothing:
        return cli.Result(notes=[*picked.notes, "test-run: nothing is run"], data={"affected": picked.facts})
    python, script, words = test_run.plain(world, args.command, args.python)
    wish = test_run.RunRequest(
        pytest=words,
        scope=tuple(args.scope),
        cprofile=args.cprofile,
        trace=args.trace,
        profile=args.env_profile,
        trigger=args.trigger,
        python=python,
        script=script,
        project=args.project,
        paths=picked.paths,
        affected=picked.facts or None,
        child_status=args.status == "child",
    )
    if not args.quiet and not QUIET & set(args.command):
        test_run.remind(world)
    ran = test_run.run(world, wish, stdout=sys.stderr.fileno() if args.json else None)
    return cli.Result(status=ran.status, notes=[*picked.notes, *test_run.notes(ran)], data=_data(ran))


def _data(ran: object) -> dict[str, object]:
    from ktxkit.affected.test_run import RunResult

    assert isinstance(ran, RunResult)
    found = {} if ran.line is None else run_row(ran.line["record"], f"seq {ran.line['seq']}")
    made = {} if ran.is_off else {"run": ran.run}
    return {**made, "recorded": ran.line is not None, **{k: v for k, v in found.items() if v is not None}}


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, separated(sys.argv[1:] if argv is None else argv, VALUED))


if __name__ == "__main__":
    raise SystemExit(main())
