"""List the commands of ktxkit, or run one of them: `git ktx patch-apply ...`.

reads    the installed list of commands
writes   nothing itself
exits    0 listed, 2 no such command; otherwise the status of the command that ran
example  git ktx gate-check --all
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.commands import listing, load


def parser() -> cli.Parser:
    made = cli.Parser("git-ktx", __doc__)
    made.add_argument("name", nargs="?", metavar="COMMAND", help="the command to run, with its arguments")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    rows = listing()
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {text}" for name, text in rows]
    return cli.Result(lines=lines, data={"commands": [{"name": name, "summary": text} for name, text in rows]})


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words and not words[0].startswith("-"):
        return cli.delegate("git-ktx", lambda: load(words[0]), words[1:])
    return cli.execute(parser(), run, words)


if __name__ == "__main__":
    raise SystemExit(main())
