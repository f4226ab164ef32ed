"""Clear worktrees that are left over, and private refs of finished jobs; shows what it would do until --yes is given.

Unmerged work and the evidence of jobs that are open, partial or failed are never touched, whatever their age; what is
left of a job that ended before any unit of it ran (a source that could not be read) is. What did not land of a
worktree goes to refs/ktx/attic first.

reads    .ktx/, refs/ktx/
writes   with --yes: removes what it names; with --keep-ignored .ktx/kept-ignored/...
exits    0 shown or cleared, 2 not a repository, 5 a damaged document (the others are shown or cleared)
example  git ktx clean
         git ktx clean --records --yes
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.rules.text import counted, plural, printable

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx clean", __doc__)
    made.add_argument("--yes", action="store_true", help="do it")
    made.add_argument(
        "--records", action="store_true", help="also documents, patches and traces of jobs whose every unit is in"
    )
    made.add_argument("--force", action="store_true", help="also worktrees in which processes stand; it names them")
    cli.add_keep_ignored(made)
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import cleaning, views
    from ktxkit.work.closing import RemovalOptions

    options = RemovalOptions(tuple(args.keep_ignored), args.force, views.going(args))
    made = cleaning.clean(world, do=args.yes, records=args.records, options=options)
    lines = []
    for item in made["items"]:
        size = f", {item['bytes'] / 1e6:.1f} MB" if "bytes" in item else ""
        noun = "ref" if item["what"] == "refs" else "file"
        count = f", {plural(item['count'], noun)}" if "count" in item else ""
        kept = f"; kept: {printable(item['kept'])}" if "kept" in item else ""
        attic = f"; its work is at {item['atticRef']}" if "atticRef" in item else ""
        gone = f"; with {counted(item['ignored'], 'ignored file')}" if "ignored" in item else ""
        gone += f"; {views.kept_files(item['ignoredKept'])}" if "ignoredKept" in item else ""
        gone += f"; in use by {', '.join(map(str, item['busy'][:5]))}" if "busy" in item and "kept" not in item else ""
        lines.append(f"{item['what']}  {printable(item['name'])}: {item['why']}{size}{count}{kept}{attic}{gone}")
    done = sum("kept" not in item for item in made["items"])
    if not made["items"]:
        lines = ["Nothing to clear."]
    elif args.yes:
        lines.append(f"Cleared {plural(done, 'thing')}." if done else "Nothing was cleared.")
    else:
        does = f"{plural(done, 'thing')} can be cleared: git ktx clean --yes does it."
        lines.append(does if done else "Nothing of it can be cleared.")
    lines += views.damaged_lines(made)
    return cli.Result(views.outcome(made), made, cleaning.CLEANING, lines=lines)
