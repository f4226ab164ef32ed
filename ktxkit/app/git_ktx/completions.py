"""Print the completions of every command for a shell.

reads    what was written when ktxkit was built; in a checkout, the parsers of the commands
writes   nothing
exits    0 printed, 2 an unknown shell, or a checkout without shtab
example  source <(git ktx completions bash)
         git ktx completions zsh > ~/.zfunc/_ktx
         git ktx completions fish > ~/.config/fish/completions/ktxkit.fish
"""

from __future__ import annotations

import argparse

from ktxkit.app import cli, commands
from ktxkit.app.commands import all_parsers, scripts
from ktxkit.base.errors import CannotRun


def parser() -> cli.Parser:
    made = cli.Parser("git ktx completions", __doc__)
    made.add_argument("shell", choices=commands.SHELLS, help="for which shell")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    text = commands.written(args.shell) or _rendered(args.shell)
    return cli.Result(lines=text.rstrip("\n").split("\n"), data={"shell": args.shell, "script": text})


def _rendered(shell: str) -> str:
    try:
        return commands.render(shell, all_parsers(scripts().values()))
    except ImportError as error:
        raise CannotRun(
            "a checkout has no completions without shtab: they are written when ktxkit is built",
            hint="pip install shtab, or `pip install .` instead of an editable install",
        ) from error
