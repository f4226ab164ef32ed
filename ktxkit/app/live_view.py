"""A followed run on a terminal: the whole screen while it goes on, its last line when it has ended. Elsewhere: a line a
second."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import printable
from ktxkit.store.world import World

FLYING_SHOWN = 12
SPACING = 1.0  # seconds of the run between two plain lines


def follow(args: argparse.Namespace, world: World) -> cli.Result:
    """`ledger-query live --follow`: shown as it goes on. Raises CannotRun where something else is asked for."""
    from ktxkit.ledger import follow as following
    from ktxkit.ledger import questions

    if args.question != "live" or args.json:
        raise CannotRun("--follow is of `live`, and prints as it goes", hint="without --json")
    rows = following.follow(world, questions.asked(world, "live", args.subject, args.project), redis=args.redis)
    return cli.Result(lines=[show(rows)])


def show(rows: Iterable[Mapping[str, Any]]) -> str:
    """Show the rows as they come; returns the last one as a line."""
    last: Mapping[str, Any] = {}
    if sys.stdout.isatty():
        last = _screen(rows)
    else:
        said = -SPACING
        for last in rows:
            elapsed = float(last.get("elapsed") or 0.0)
            if elapsed - said >= SPACING and last["state"] == "running":
                sys.stdout.write(line(last) + "\n")
                sys.stdout.flush()
                said = elapsed
    return line(last) if last else "no run was followed"


def _screen(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    from rich.live import Live
    from rich.text import Text

    last: Mapping[str, Any] = {}
    with Live(Text("waiting for a run"), screen=True, auto_refresh=False) as view:
        for last in rows:
            view.update(Text("\n".join(block(last))), refresh=True)
    return last


def line(row: Mapping[str, Any]) -> str:
    """`full, 6.0 s, 8412 of 29100: 8390 passed, 2 failed; 8 busy`."""
    total = f" of {row['total']}" if row.get("total") is not None else ""
    told = f"{row.get('asked', '')}, {row.get('elapsed', 0)} s, {row.get('done', 0)}{total}: {row.get('tests', '')}"
    return printable(f"{row['run']} {row['state']} {told}; {row.get('busy', 0)} busy")


def block(row: Mapping[str, Any]) -> list[str]:
    """The screen: what was asked for, how far it is, and what runs at this moment, the longest first."""
    total = row.get("total")
    done = row.get("done", 0)
    width = 40
    filled = width * done // total if total else 0
    said = [
        printable(f"run      {row['run']}  ({row['state']})"),
        printable(f"scope    {row.get('asked', '')}"),
        f"started  {row.get('started', '')}   {row.get('elapsed', 0)} s",
        f"phase    {row.get('phase') or ''}",
        f"tests    [{'#' * filled}{'.' * (width - filled)}] {done} of {total if total is not None else '?'}",
        f"         {row.get('tests', '')}",
        f"workers  {row.get('busy', 0)} busy of {row.get('workers') or 1}",
        "",
    ]
    flying = sorted(row.get("inFlight", ()), key=lambda one: -one["since"])
    said += [printable(f"{one['since']:8.1f} s  {one['test']}") for one in flying[:FLYING_SHOWN]]
    return said
