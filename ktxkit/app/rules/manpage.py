"""A command's man page, from its docstring and its parser. Source of the macros: man(7)."""

from __future__ import annotations

from collections.abc import Sequence

from ktxkit.app.rules.command_spec import Command, Option
from ktxkit.app.rules.help_text import Rows, parse

TITLES = {"reads": "READS", "writes": "WRITES", "exits": "EXIT STATUS"}


def render(command: Command, others: Sequence[Command], version: str) -> str:
    """The page as roff, section 1. `others` are named under SEE ALSO."""
    name = page_name(command)
    found = parse(command.doc)
    lines = [
        f'.TH "{escaped(name.upper())}" "1" "" "ktxkit {version}" "ktxkit"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(found.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(command.name)}",
        *_synopsis(command),
    ]
    body = [escaped(found.summary), *(line for item in found.body for line in _body(item))]
    lines += [".SH DESCRIPTION", *body]
    for group in dict.fromkeys(option.group for option in command.options):
        lines.append(f".SH {_title(group)}")
        for option in (option for option in command.options if option.group == group):
            lines += [".TP", _term(option), escaped(option.help) or "\\&"]
    for field, text in found.fields:
        lines += [f".SH {TITLES[field]}", escaped(text)]
    if found.examples:
        lines += [".SH EXAMPLES", ".nf", *(escaped(example) for example in found.examples), ".fi"]
    also = ", ".join(f"\\fB{escaped(page_name(other))}\\fR(1)" for other in others if other.name != command.name)
    return "\n".join([*lines, ".SH SEE ALSO", also]) + "\n"


def _body(item: str | Rows) -> list[str]:
    """A paragraph, or a table as terms with what is said of each."""
    if isinstance(item, str):
        return [".PP", escaped(item)]
    return [line for term, text in item for line in (".TP", f"\\fB{escaped(term)}\\fR", escaped(text))]


def page_name(command: Command) -> str:
    """`git-ktx-status` for `git ktx status`, as git names its own pages."""
    return command.name.replace(" ", "-")


def escaped(text: str) -> str:
    """Text as roff: backslashes and hyphens as themselves, no line that starts as a request."""
    out = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{out}" if out.startswith((".", "'")) else out


def _title(group: str) -> str:
    return {"positional arguments": "ARGUMENTS"}.get(group, group.upper())


def _synopsis(command: Command) -> list[str]:
    words = [f"[\\fIoption\\fR]... {' '.join(_italic(option.value) for option in command.positionals)}".rstrip()]
    return [words[0] + (" [\\-\\- \\fICMD\\fR...]" if command.takes_command else "")]


def _italic(text: str) -> str:
    return f"[\\fI{escaped(text)}\\fR]"


def _term(option: Option) -> str:
    if not option.flags:
        return f"\\fI{escaped(option.value)}\\fR"
    flags = ", ".join(f"\\fB{escaped(flag)}\\fR" for flag in option.flags)
    return f"{flags} \\fI{escaped(option.value)}\\fR" if option.value else flags
