"""Remove the git hooks that install-hooks put; hooks that were there before get their places back, byte for byte.

reads    core.hooksPath, the hooks directory that git names
writes   the hooks there: ours are removed, NAME.ktx-before becomes NAME again
exits    0 removed, or none was there; 1 refused: hooks that other repositories share, or a hook is no longer ours
example  git ktx uninstall-hooks
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli

if TYPE_CHECKING:
    from ktxkit.store.world import World

SAID = {
    "absent": "not ours, or not there",
    "remove": "removed",
    "restore": "removed; the hook that was there before is back",
    "keep": "left alone: it was changed since it was installed",
}


def parser() -> cli.Parser:
    made = cli.Parser("git ktx uninstall-hooks", __doc__)
    made.add_argument("names", nargs="*", metavar="HOOK", help="these hooks only")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.base.rules.text import printable
    from ktxkit.gates.hooks import uninstall

    done = uninstall(world, args.names)
    kept = [step for step in done if step.action == "keep"]
    lines = [f"{printable(str(step.path))}: {SAID[step.action]}" for step in done]
    outcome = "refused" if kept else "done"
    return cli.Result(outcome=outcome, lines=lines, data={"hooks": [step.document() for step in done]})
