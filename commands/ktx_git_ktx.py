"""List the commands of ktxkit, or run one of them: `git ktx patch-apply ...`, `git ktx status`.

reads    the installed list of commands
writes   nothing itself
exits    0 listed, 2 no such command; otherwise the status of the command that ran
example  git ktx status
         git ktx gate-check
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktxkit.app import cli, git_ktx
from ktxkit.app.commands import grouped, grouped_doc, load

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git-ktx", grouped_doc(__doc__ or ""))
    made.add_argument("name", nargs="?", metavar="COMMAND", help="the command to run, with its arguments")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    return grouped()


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name, place = _named(words)
    if name in git_ktx.names():
        module = git_ktx.module(name)
        return cli.execute(module.parser(), module.run, [*words[:place], *words[place + 1 :]])
    if name:
        return cli.delegate("git-ktx", lambda: load(name, git_ktx.names()), [*words[:place], *words[place + 1 :]])
    return cli.execute(parser(), run, words)


def _named(words: list[str]) -> tuple[str, int]:
    """The command's name and its place: the first word that is no option; -C and --ktx-dir take a word each."""
    skip = False
    for place, word in enumerate(words):
        if skip or word in ("-C", "--ktx-dir"):
            skip = not skip
        elif not word.startswith("-"):
            return word, place
    return "", 0


if __name__ == "__main__":
    raise SystemExit(main())
