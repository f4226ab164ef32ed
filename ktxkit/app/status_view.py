"""Leased worktrees as they go on: the whole screen of a terminal, redrawn each second; elsewhere a line a change."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ktxkit.app import cli, worktree_close
from ktxkit.base.clock import timestamp
from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.observer import observe, observer_text
from ktxkit.observer.rules import board
from ktxkit.store import jobs
from ktxkit.store.leases import LEASE, Place, every_place, lease_here
from ktxkit.store.world import World

TICK = 1.0  # seconds between two looks
Looks = list[tuple[str, Mapping[str, Any] | str]]


def watch(args: argparse.Namespace, world: World) -> cli.Result:
    """Until the worktrees are closed or a key interrupts it. One named worktree gives its status as the result."""
    if args.json:
        raise CannotRun("--watch prints as it goes", hint="leave --json out, or ask without --watch")
    one = _single(args, world)
    last: Looks = []
    with suppress(KeyboardInterrupt):  # the way to end it
        for now in _screen(world, one, args.job) if _redrawn() else _plain(world, one, args.job):
            last = now
    status = last[0][1] if one is not None and last else None
    if isinstance(status, dict):
        return cli.Result(**observer_text.facts(status))
    return cli.Result(lines=[] if last else ["no worktree is open"])


def of_all(args: argparse.Namespace, world: World) -> bool:
    """Whether all open worktrees are meant (of the job that is named): no other is, and none is stood in."""
    return _single(args, world) is None


def once(args: argparse.Namespace, world: World) -> cli.Result:
    """Every open worktree as it is now. Raises CannotRun for an unknown job."""
    if args.job:
        jobs.load(world, args.job)
    now = looks(world, None, args.job)
    shown = board.table(now, cli.columns()) if now else ["no worktree is open; worktree-open opens one"]
    damaged = any(isinstance(status, str) for _, status in now)
    key = {True: "problem", False: "status"}
    data = {"worktrees": [{"name": name, key[isinstance(status, str)]: status} for name, status in now]}
    return cli.Result("broken_contract" if damaged else "done", lines=shown, data=data)


def _single(args: argparse.Namespace, world: World) -> Place | None:
    """The one that is meant; None where all are."""
    if args.name or args.unit or world.env.get("KTX_UNIT") or lease_here(world) is not None:
        return worktree_close.place(world, args.name, args.job, args.unit)
    return None


def _redrawn() -> bool:
    import os

    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def looks(world: World, one: Place | None, job: str | None) -> Looks:
    """Every open worktree (of the job) with its status; of one that cannot be read, why."""
    found: Looks = []
    for place in [one] if one is not None else every_place(world):
        if job and place.job != job:
            continue
        try:
            lease = place.read(LEASE)
            if lease is None or (one is None and lease["state"] != "open"):
                continue
            name = f"{place.job} {lease['unitKey']}" if "unitKey" in lease else place.name
            found.append((name, observe.status(place, lease)))
        except KtxError as error:
            found.append((f"{place.job} {place.name}", f"{error.where}: {error.message}"))
    return found


def _over(now: Looks, one: Place | None) -> bool:
    """Nothing is open any more; a damaged document is for a person, not to be waited on."""
    if one is None or not now or isinstance(now[0][1], str):
        return not now or one is not None
    lease = one.read(LEASE)
    return lease is None or lease["state"] != "open" or now[0][1]["authority"] != "current"


def _each(world: World, one: Place | None, job: str | None) -> Iterator[Looks]:
    while True:
        now = looks(world, one, job)
        yield now
        if _over(now, one):
            return
        world.clock.sleep(TICK)


def _screen(world: World, one: Place | None, job: str | None) -> Iterator[Looks]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(Text(""), console=console, screen=True, auto_refresh=False) as view:
        for now in _each(world, one, job):
            size = console.size
            drawn = board.screen(now, timestamp(world.clock.now()), size.width, size.height)
            view.update(Text("\n".join(drawn), no_wrap=True, overflow="crop"), refresh=True)
            yield now


def _plain(world: World, one: Place | None, job: str | None) -> Iterator[Looks]:
    said: dict[str, str] = {}
    for now in _each(world, one, job):
        for name, status in now:
            what, line = board.event(name, status)
            if said.get(name) != what:
                said[name] = what
                sys.stdout.write(line + "\n")
        for gone in said.keys() - {name for name, _ in now}:
            del said[gone]
            sys.stdout.write(f"{gone}: closed\n")
        sys.stdout.flush()
        yield now
