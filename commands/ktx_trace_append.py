"""Append events to a job's trace; with `-- CMD`, time a command.

reads    one event on the command line, or with --stdin many as JSON Lines; what a line leaves out (schemaVersion, at,
         level, jobId, connectionId, sourceKey) is filled in
writes   .ktx/ingest-traces/JOB/trace.jsonl, or the file that --trace or KTX_TRACE names
exits    0 appended, 1 a proof is refused (not the lease's attempt), 2 usage or no such job, 5 an event breaks its
         contract (nothing is written); with -- CMD its status (its stdout is on stderr under --json), 127 not started
example  trace-append --job j1 --phase plan --event routed --data units:=12
         trace-append --job j1 --phase gates --event unit_tests -- make test
         my-agent --events | trace-append --job j1 --stdin --otlp http://localhost:4318
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli

if TYPE_CHECKING:
    from ktxkit.store.tracing import Tracer
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("trace-append", __doc__, takes_command=True, unit=True)
    made.add_argument("--trace", metavar="FILE", help="the trace, instead of the job's (or KTX_TRACE)")
    made.add_argument("--phase", metavar="PHASE", help="the phase, as in: snapshot, work_unit, integration, gates")
    made.add_argument("--event", metavar="NAME", help="its name; with -- CMD the stem of NAME_started and its end")
    made.add_argument("--level", choices=("error", "info", "debug", "trace"), default="debug", help="default: debug")
    made.add_argument("--data", metavar="KEY=TEXT", action="append", default=[], help="a fact; KEY:=JSON for a value")
    made.add_argument("--duration-ms", metavar="MS", type=cli.seconds, help="how long it took, milliseconds")
    made.add_argument("--error", metavar="NAME: MESSAGE", help="what went wrong; the level is then error")
    made.add_argument("--stdin", action="store_true", help="read events as JSON Lines; all are appended, or none")
    made.add_argument("--proof", nargs="?", const="", metavar="RECEIPT", help="it proves progress, once a receipt")
    made.add_argument("--otlp", metavar="URL", help="send them as spans to an OpenTelemetry collector, too")
    made.add_argument("--connection", metavar="ID", help="connectionId of a trace that has no event yet")
    made.add_argument("--source", metavar="KEY", help="sourceKey of a trace that has no event yet")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import requests
    from ktxkit.work import appending

    requests.check_event(args)
    place = appending.TraceLocation(
        *(value or "" for value in (args.trace, args.job, args.unit, args.connection, args.source))
    )
    to = appending.tracer(world, place)
    if not args.otlp:
        return _append(args, world, to)
    from ktxkit.app import spans

    sending = spans.Sending(to, args.otlp)
    result = _append(args, world, sending.to)
    return result._replace(notes=[*result.notes, sending.send(world, must=not args.command)])


def _append(args: argparse.Namespace, world: World, to: Tracer) -> cli.Result:
    from ktxkit.app import requests
    from ktxkit.work import appending

    if args.command:
        return _timed(args, world, to)
    words = (args.phase, args.event, args.level, appending.data_of(args.data), args.duration_ms, args.error)
    events = appending.from_lines(to, sys.stdin.buffer) if args.stdin else appending.from_options(to, *words)
    notes = requests.prove(args, world, events)
    torn = to.journal.append(events, validated=True) if events else 0
    notes += ["a torn record of a killed process was set aside beside the trace"] if torn else []
    return cli.Result(data={"appended": len(events), "trace": str(to.path), "tornTails": torn}, notes=notes)


def _timed(args: argparse.Namespace, world: World, to: Tracer) -> cli.Result:
    from ktxkit.app import requests
    from ktxkit.work import appending

    facts = appending.data_of(args.data)
    aside = sys.stderr.fileno() if args.json else None
    ended = appending.timed_command(world, to, args.phase, args.event, facts, args.command, stdout=aside)
    notes = [f"trace-append: {ended.unrecorded}"] if ended.unrecorded else []
    notes += requests.prove(args, world, status=ended.status)
    outcome = "failed" if ended.status else "done"
    return cli.Result(outcome, status=ended.status, notes=notes, data={"trace": str(to.path)})


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
