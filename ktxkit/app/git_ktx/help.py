"""Show the help of a command, as its own `--help` does; or a page of the documentation.

    git ktx help                   every command, the daily ones first
    git ktx help COMMAND           what it does, reads, writes; its options
    git ktx help job-file          the keys of a job file; config: those of .ktx-config.yaml
    git ktx help PAGE              a page of the documentation, as in job-failed; `pages` lists them
    git ktx help CONTRACT          the schema of a document, as in receipt

reads    the parsers of the installed commands, the installed documentation
writes   nothing
exits    0 shown, 2 nothing of that name
example  git ktx help patch-apply
         git ktx help status
         git ktx help job-file
         git ktx help pages
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from ktxkit.app import cli, git_ktx
from ktxkit.app.commands import grouped, scripts
from ktxkit.base import contracts
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import nearest

FOLDERS = ("formats", "guides", "recipes", ".", "commands")  # of docs; the first that has a page of the name


def parser() -> cli.Parser:
    made = cli.Parser("git ktx help", __doc__)
    made.add_argument("name", nargs="?", default="", metavar="COMMAND", help="or a page, as in job-file")
    return made


def run(args: argparse.Namespace, world: object) -> cli.Result:
    if not args.name:
        return grouped()
    name = args.name.removeprefix("git-ktx-")
    text = _text(name)
    return cli.Result(lines=text.rstrip("\n").split("\n"), data={"command": args.name, "help": text})


def _text(name: str) -> str:
    """Raises CannotRun where neither a command, a page nor a contract is named so."""
    own, others = git_ktx.names(), scripts()
    if name in own or name in others:
        module = git_ktx.module(name) if name in own else importlib.import_module(others[name])
        made: cli.Parser = module.parser()
        return made.format_help()
    pages = _pages()
    if name == "pages":
        return "\n".join(f"{stem:<24}{_title(path)}" for stem, path in pages.items())
    if name in pages:
        return pages[name].read_text("utf-8")
    if name in contracts.names():
        return json.dumps(contracts.schema(name), indent=2)
    near = nearest(name, [*own, *others, *pages])
    hint = f"did you mean {near[0]}?" if near else "`git ktx` lists the commands, `git ktx help pages` the pages"
    raise CannotRun(f"no command named {name!r}", hint=hint)


def _pages() -> dict[str, Path]:
    """The pages by name: in a checkout those of docs, else those that are installed beside the rules' pages."""
    module = importlib.import_module("ktxkit.rule_pages")
    assert module.__file__ is not None
    beside = Path(module.__file__).parent.parent
    top = beside / "doc_pages" if (beside / "doc_pages").is_dir() else beside
    found = [path for folder in reversed(FOLDERS) for path in sorted((top / folder).glob("*.md"))]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def _title(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
