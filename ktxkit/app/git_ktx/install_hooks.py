"""Install git hooks that gate what is committed, merged and pushed; hooks that are there run first.

reads    core.hooksPath, the hooks directory that git names
writes   pre-commit, pre-merge-commit, commit-msg and pre-push there; a hook that was there becomes NAME.ktx-before;
         with --starter ktx-gates.yaml, with gates that any repository has use for
exits    0 installed, 1 refused: hooks that other repositories share, or a hook of ours that was edited
example  git ktx install-hooks
         git ktx install-hooks pre-commit pre-push
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli

if TYPE_CHECKING:
    from ktxkit.store.world import World

SAID = {
    "already": "was there already",
    "put": "installed",
    "update": "brought up to date",
    "chain": "installed; the hook that was there runs first",
}


def parser() -> cli.Parser:
    made = cli.Parser("git ktx install-hooks", __doc__)
    made.add_argument("names", nargs="*", metavar="HOOK", help="these hooks only")
    made.add_argument("--starter", action="store_true", help="write a ktx-gates.yaml of gates for any repository")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.base.rules.text import printable
    from ktxkit.gates import ordinary
    from ktxkit.gates.hooks import install

    done = install(world, args.names)
    lines = [f"{printable(str(step.path))}: {SAID[step.action]}" for step in done]
    notes: list[str] = []
    if args.starter:
        lines.append(f"{printable(ordinary.write_starter(world))}: written; commit it")
    else:
        notes = ordinary.next_step(world)
    return cli.Result(lines=lines, notes=notes, data={"hooks": [step.document() for step in done]})
