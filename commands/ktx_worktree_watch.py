"""Observe a leased worktree: what really changes in it, on its own clock. Evidence only: nothing is decided by it.

reads    the lease of the unit or of the worktree that this is; every candidate file in it
writes   .ktx/attempts/A/worktree-observer/ (policy, baseline, activity.jsonl, state), the journal's head in the lease;
         with --preserve refs/ktx/attic/... for late writes
exits    0 reconciled, or watched to the end; 1 refused (other intervals, not at rest); 2 cannot run, or cannot write;
         4 not the leased worktree, or late writes are quarantined; 5 a damaged journal or document was found
example  worktree-watch --job j1 --unit orders
         worktree-watch --once --level content --json
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import seconds
from ktxkit.store.world import World

INTERVALS = {
    "silence": ("silence_ms", "without proven progress for so long it is suspect (default 300)"),
    "grace": ("grace_ms", "what one observed change may defer (default 120)"),
    "cap": ("cap_ms", "what all observed changes may defer, for one proof (default 600)"),
    "interval": ("interval_ms", "between full reconciliations (default 15)"),
    "debounce": ("debounce_ms", "events are gathered for so long (default 0.1)"),
}


def parser() -> cli.Parser:
    made = cli.Parser("worktree-watch", __doc__, unit=True)
    made.add_argument("name", nargs="?", default="", metavar="NAME", help="a worktree that has no job, by its name")
    made.add_argument("--once", action="store_true", help="reconcile once and exit")
    made.add_argument("--level", choices=("stat", "content"), default="stat", help="with --once: how much is read")
    made.add_argument("--preserve", action="store_true", help="with --once: keep late writes at an attic ref")
    made.add_argument("--poll", action="store_true", help="no native watching: reconcile at each interval only")
    made.add_argument("--for", dest="seconds", type=seconds, metavar="SECONDS", help="watch for so long")
    group = made.add_argument_group("intervals, in seconds; they are fixed when an attempt is first observed")
    for name, (_, text) in INTERVALS.items():
        group.add_argument(f"--{name}", type=seconds, metavar="S", help=text)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import views
    from ktxkit.base.process import stopping
    from ktxkit.observer import observe, status
    from ktxkit.observer.scan import Level

    if args.preserve:
        args.only("with --preserve", "name", "job", "unit", "once", "preserve")
    elif args.once:
        args.refuse("with --once", "poll", "seconds")
    else:
        args.refuse("without --once", "level")
    place = views.location(world, args.name, args.job, args.unit)
    lease = status.lease_of(place)
    settings = status.settings({INTERVALS[name][0]: getattr(args, name) for name in INTERVALS})
    if args.preserve:
        document, ref = observe.preserve(place, lease)
        note = f"kept at {ref}" if ref else "nothing in it is not kept already"
        return cli.Result(**status.facts(document, [note]))
    if args.once:
        return cli.Result(**status.facts(observe.once(place, lease, Level(args.level), settings)[0]))
    stop = threading.Event()
    say = None if args.json or args.quiet else sys.stdout
    with stopping(stop):
        tell = status.teller(say)
        native = not args.poll
        document = observe.watch(place, lease, stop, tell, settings=settings, native=native, seconds=args.seconds)
    return cli.Result(**status.facts(document))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
