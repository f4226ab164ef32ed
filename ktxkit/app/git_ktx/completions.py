"""Print the completions of every command for a shell.

reads    the parsers of the installed commands
writes   nothing
exits    0 printed, 2 an unknown shell
example  source <(git ktx completions bash)
         git ktx completions zsh > ~/.zfunc/_ktx
         git ktx completions fish > ~/.config/fish/completions/ktxkit.fish
"""

from __future__ import annotations

import argparse

from ktxkit.app import cli
from ktxkit.app.introspection import all_commands
from ktxkit.app.rules import completions


def parser() -> cli.Parser:
    made = cli.Parser("git ktx completions", __doc__)
    made.add_argument("shell", choices=completions.SHELLS, help="for which shell")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    text = completions.render(args.shell, all_commands())
    return cli.Result(lines=text.rstrip("\n").split("\n"), data={"shell": args.shell, "script": text})
