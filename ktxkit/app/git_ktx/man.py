"""Print a command's man page, or write those of every command into a directory.

reads    the parsers of the installed commands
writes   with --to: DIR/NAME.1 for every command
exits    0 printed or written, 2 no such command
example  git ktx man patch-apply | man -l -
         git ktx man --to ~/.local/share/man/man1
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.app.commands import all_parsers, man_pages, scripts
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest, plural

if TYPE_CHECKING:
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx man", __doc__)
    made.add_argument("name", nargs="?", metavar="COMMAND", help="as in patch-apply, or git-ktx-status")
    made.add_argument("--to", metavar="DIR", help="write all of them here")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.base import files

    pages = man_pages(all_parsers(scripts().values()))
    if args.to:
        args.refuse("with --to", "name")
        where = world.cwd / args.to
        files.make_dirs(where, 0o755)
        for name, text in pages.items():
            files.write_named(where, f"{name}.1", text.encode("utf-8"))
        return cli.Result(lines=[f"wrote {plural(len(pages), 'page')} to {where}"], data={"pages": sorted(pages)})
    wanted = (args.name or "git-ktx").replace(" ", "-")
    if wanted not in pages:
        near = nearest(wanted, list(pages))
        hint = f"did you mean {near[0]}?" if near else "`git ktx` lists the commands"
        raise CannotRun(f"no command named {wanted!r}", hint=hint)
    return cli.Result(raw=pages[wanted].encode("utf-8"), data={"page": pages[wanted]})
