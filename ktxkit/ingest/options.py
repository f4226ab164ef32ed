"""The command line of an ingestion as a value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.base.errors import CannotRun
from ktxkit.ingest.asked import Asked
from ktxkit.ingest.connectors.find import connector
from ktxkit.store.world import World
from ktxkit.work.rules.job_file import argv_of


def asked(world: World, args: argparse.Namespace) -> Asked:
    """Raises CannotRun where something is missing, or two things exclude each other."""
    connector(args.connector)
    if bool(args.place) == bool(args.url):
        raise CannotRun("which source?", hint="PLACE, or --url URL")
    if not args.connection:
        raise CannotRun("which connection is it about?", hint="--connection NAME; sources go to semantic-layer/NAME/")
    if args.time_limit is not None and not args.time_limit > 0:
        raise CannotRun("--time-limit must be more than 0 seconds", hint="leave it out for no limit")
    if args.reconcile and args.no_reconcile:
        raise CannotRun("--reconcile and --no-reconcile exclude each other", hint="leave one of them out")
    return Asked(
        connector=args.connector,
        connection=args.connection,
        source=args.source or args.connector,
        place=str(world.cwd / args.place) if args.place else "",
        url=args.url or "",
        options=_options(args.option),
        worker=tuple(args.command),
        reconcile=argv_of(args.reconcile) if args.reconcile else (),
        reconciles=not args.no_reconcile,
        verify=argv_of(args.verify) if args.verify else (),
        time_limit=args.time_limit,
        on_failure=args.on_failure,
        on_conflict=args.on_conflict,
        isolate=tuple(args.write) if args.isolate or args.write else None,
        everything=args.everything,
        allow_empty=args.allow_empty,
        cache=not args.no_cache,
    )


def _options(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise CannotRun(f"option {one!r} is not KEY=VALUE", hint="as in --option group=card")
        if key in found:
            raise CannotRun(f"option {key!r} is given twice", hint="leave one of them out")
        found[key] = value
    return found
