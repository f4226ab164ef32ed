"""Look at everything that a job depends on: git, the store, locks, worktrees, hooks, configuration, disk.

reads    the repository, its store, git's configuration, the environment
writes   nothing
exits    0 no error found, 1 at least one
example  git ktx doctor
         git ktx doctor --all
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.rules.text import plural, printable

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx doctor", __doc__)
    made.add_argument("--all", action="store_true", help="also what is as it should be")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import doctor
    from ktxkit.app.commands import scripts

    made = doctor.checkup_of(world, scripts())
    levels = [finding["level"] for finding in made["findings"]]
    lines = []
    for finding in made["findings"]:
        if finding["level"] == "ok" and not args.all:
            continue
        where = f" ({printable(finding['where'])})" if "where" in finding else ""
        lines.append(f"{finding['level']:<7}  {finding['check']}: {printable(finding['message'])}{where}")
        lines += [f"{'':<9}next: {printable(finding['hint'])}"] if "hint" in finding else []
    counts = ", ".join(plural(levels.count(level), level, level + "s") for level in ("error", "warning"))
    lines.append(f"{plural(len(levels), 'check')}: {counts}.")
    return cli.Result("findings" if "error" in levels else "done", made, doctor.CONTRACT, lines=lines)
