"""Write a commented .ktx-config.yaml, and print the lines for .pre-commit-config.yaml.

reads    whether the file is there already
writes   .ktx-config.yaml at the top of the checkout; it is yours to commit
exits    0 written, 1 it is there already, 2 not in a checkout
example  git ktx init
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit import __version__
from ktxkit.app import cli
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.text import printable
from ktxkit.store.config import FILE, TEMPLATE

if TYPE_CHECKING:
    from ktxkit.store.world import World

PRE_COMMIT = """\
For .pre-commit-config.yaml:

repos:
  - repo: {repo}
    rev: {rev}  # a tag or commit of it
    hooks:
      - id: gate-check
"""


def parser() -> cli.Parser:
    return cli.Parser("git ktx init", __doc__)


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.base import files, identity
    from ktxkit.store import config

    path = config.config_path(world)
    if path is None:
        raise CannotRun(
            "a bare repository has no checkout to write it into", location=str(world.cwd), hint="run it in a clone"
        )
    if path.exists():
        raise Refused(f"{FILE} is there already", location=str(path), hint="git ktx doctor checks it")
    files.write_atomic(path, TEMPLATE.encode("ascii"), mode=0o644)
    source, commit = identity.installed_from()
    text = PRE_COMMIT.format(repo=printable(source) or "PATH-OR-ADDRESS-OF-KTXKIT", rev=commit or f"v{__version__}")
    return cli.Result(lines=[f"wrote {path}", "", *text.splitlines()], data={"path": str(path)})
