"""List every worktree: branch or unit, how far from its target, what is not committed, age, who works there, what next.

reads    the worktrees of the repository, .ktx/ (leases), /proc for who works where
writes   nothing
exits    0 listed, 2 not a repository, 5 a damaged lease (it is named, the others are listed)
example  git ktx list
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.rules.text import printable

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    return cli.Parser("git ktx list", __doc__)


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import overview, views

    rows, damaged = overview.listed(world)
    document = {"damaged": damaged} if damaged else {}
    lines = [*overview.table(rows), *views.damaged_lines(document)]
    data = {"worktrees": [{key: value for key, value in row._asdict().items() if value} for row in rows], **document}
    root = world.store.root
    lacking = root != world.repository.default_store and not os.path.lexists(root)
    notes = [f"note: there is no store at {printable(str(root))}: nothing is known of jobs (--ktx-dir, KTX_DIR)"]
    return cli.Result(views.outcome(document), lines=lines, data=data, notes=notes * lacking)
