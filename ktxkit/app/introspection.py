"""Every command as data, read from its parser: the parsers are the only source of completions and man pages."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable

from ktxkit import __version__
from ktxkit.app import git_ktx
from ktxkit.app.cli import Parser
from ktxkit.app.commands import scripts
from ktxkit.app.rules import manpage
from ktxkit.app.rules.command_spec import Command, Option


def all_commands() -> list[Command]:
    """Every installed command, then the subcommands of `git ktx` (named `git ktx status`)."""
    return [of(parser) for parser in all_parsers(scripts().values())]


def all_parsers(modules: Iterable[str]) -> list[Parser]:
    """The parsers of these modules of commands, then those of the subcommands of `git ktx`."""
    found = [importlib.import_module(module).parser() for module in modules]
    return [*found, *(git_ktx.module(name).parser() for name in git_ktx.names())]


def man_pages(parsers: Iterable[Parser]) -> dict[str, str]:
    """The man page of each of these, by its name without the section."""
    commands = [of(parser) for parser in parsers]
    return {manpage.page_name(command): manpage.render(command, commands, __version__) for command in commands}


def of(parser: Parser) -> Command:
    """One parser as data."""
    options = [
        option_of(action, group.title or "options")
        for group in parser._action_groups
        for action in group._group_actions
        if action.help != argparse.SUPPRESS
    ]
    positionals = [option for option in options if not option.flags]
    return Command(parser.prog, parser.doc, tuple(positionals + [o for o in options if o.flags]), parser.takes_command)


def option_of(action: argparse.Action, group: str = "options") -> Option:
    """One option or positional argument as data."""
    takes = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = tuple(str(choice) for choice in action.choices or ())
    value = "|".join(choices) if choices and action.metavar is None else metavar
    return Option(
        flags=tuple(action.option_strings),
        value=value if takes else "",
        help=" ".join((action.help or "").replace("%%", "%").split()),
        choices=choices,
        many=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
        group=group,
    )
