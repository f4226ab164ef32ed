"""Show the help of a command, as its own `--help` does; or the keys of a file that people write.

    git ktx help                   every command, the daily ones first
    git ktx help COMMAND           what it does, reads, writes; its options
    git ktx help job-file          the keys of a job file; config: those of .ktx-config.yaml

reads    the parsers of the installed commands, the installed documentation
writes   nothing
exits    0 shown, 2 no such command
example  git ktx help patch-apply
         git ktx help status
         git ktx help job-file
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from ktxkit.app import cli, git_ktx
from ktxkit.app.commands import grouped, scripts
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest

TOPICS = ("config", "job-file")  # pages of docs/formats that are installed


def parser() -> cli.Parser:
    made = cli.Parser("git ktx help", __doc__)
    made.add_argument("name", nargs="?", default="", metavar="COMMAND", help="as in patch-apply, status, or job-file")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    if not args.name:
        return grouped()
    name = args.name.removeprefix("git-ktx-")
    text = _page(name) if name in TOPICS else _parser_of(name).format_help()
    return cli.Result(lines=text.rstrip("\n").split("\n"), data={"command": args.name, "help": text})


def _page(topic: str) -> str:
    """A page of docs/formats: beside the rules' pages, in a checkout as in an installed ktxkit."""
    module = importlib.import_module("ktxkit.rule_pages")
    assert module.__file__ is not None
    beside = Path(module.__file__).parent.parent
    place = next(beside / name for name in ("format_pages", "formats") if (beside / name).is_dir())
    return (place / f"{topic}.md").read_text("utf-8")


def _parser_of(name: str) -> cli.Parser:
    own, others = git_ktx.names(), scripts()
    if name not in (*own, *others):
        near = nearest(name, [*own, *others, *TOPICS])
        hint = f"did you mean {near[0]}?" if near else "`git ktx` lists the commands"
        raise CannotRun(f"no command named {name!r}", hint=hint)
    module = git_ktx.module(name) if name in own else importlib.import_module(others[name])
    made: cli.Parser = module.parser()
    return made
