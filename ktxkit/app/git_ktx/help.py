"""Show the help of a command, as its own `--help` does.

reads    the parsers of the installed commands
writes   nothing
exits    0 shown, 2 no such command
example  git ktx help patch-apply
         git ktx help status
"""

from __future__ import annotations

import argparse
import importlib

from ktxkit.app import cli, git_ktx
from ktxkit.app.commands import scripts
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest


def parser() -> cli.Parser:
    made = cli.Parser("git ktx help", __doc__)
    made.add_argument("name", nargs="?", default="git-ktx", metavar="COMMAND", help="as in patch-apply, or status")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    text = _parser_of(args.name).format_help()
    return cli.Result(lines=text.rstrip("\n").split("\n"), data={"command": args.name, "help": text})


def _parser_of(name: str) -> cli.Parser:
    own, others = git_ktx.names(), scripts()
    if name not in (*own, *others):
        near = nearest(name, [*own, *others])
        hint = f"did you mean {near[0]}?" if near else "`git ktx` lists the commands"
        raise CannotRun(f"no command named {name!r}", hint=hint)
    module = git_ktx.module(name) if name in own else importlib.import_module(others[name])
    made: cli.Parser = module.parser()
    return made
