"""A command's docstring as help: what it does, examples, then what it reads, writes and how it exits.

The docstring is the one source: `--help`, man pages and completions are made from it.

What a command line can be: what completions and man pages are made from.

A command's man page, from its docstring and its parser. Source of the macros: man(7).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ktxkit.base.rules.named import NamedTuple

FIELDS = ("reads", "writes", "exits")
EXAMPLE = "example"
INDENT = 9  # columns before a field's text
ROW = re.compile(r" +(\S(?:.*?\S)?) {2,}(\S.*)\Z")


Rows = tuple[tuple[str, str], ...]  # of a table in a docstring: a term and what is said of it


class Help(NamedTuple):
    """The parts of a docstring. `body` has paragraphs and tables; `examples` are command lines, as they are typed."""

    summary: str
    body: tuple[str | Rows, ...]
    fields: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def summary_of(source: str) -> str:
    """The first line of a module's docstring, with which each of our modules begins; nothing is parsed."""
    return source.partition('"""')[2].partition("\n")[0].partition('"""')[0].strip()


def parse(doc: str) -> Help:
    """The parts: a first line, paragraphs and tables (`  term   text`), the fields (`reads    ...`), the examples.

    A field goes on with indented lines and ends with a blank one.
    """
    summary, _, rest = doc.strip().partition("\n")
    body: list[str | Rows] = []
    parts: list[tuple[str, list[str]]] = []
    inside = joined = False  # a field; a paragraph
    for line in rest.split("\n"):
        word = line.split(" ", 1)[0]
        row = ROW.match(line)
        if word in (*FIELDS, EXAMPLE):
            parts.append((word, [line[len(word) :].strip()]))
            inside = True
        elif inside and line.startswith(" "):
            parts[-1][1].append(line.strip())
        elif row:
            new = ((row[1], row[2]),)
            before = body[-1] if body else ""
            body[-1:] = [before + new] if isinstance(before, tuple) else [*([before] if before else []), new]
        elif line.strip() and joined and isinstance(body[-1], str):
            body[-1] += f" {line.strip()}"
        elif line.strip():
            body.append(line.strip())
        inside, joined = inside and bool(line.strip()), bool(line.strip()) and not row
    return Help(
        summary,
        tuple(body),
        tuple((name, " ".join(filter(None, lines))) for name, lines in parts if name != EXAMPLE),
        tuple(line for name, lines in parts if name == EXAMPLE for line in lines if line),
    )


def render(doc: str, width: int) -> str:
    """The help's text in lines of at most `width` columns; examples are never broken."""
    found = parse(doc)
    blocks = [_filled(found.summary, width)]
    if found.examples:
        blocks.append("examples:\n" + "\n".join(f"    {line}" for line in found.examples))
    named = False  # the paragraph before is a table's heading
    for item in found.body:
        if isinstance(item, str):
            blocks.append(_filled(item, width))
            named = item[:1].islower()
        else:
            told = "\n".join(table(item, width))
            blocks[-1:] = [f"{blocks[-1]}\n{told}"] if named else [blocks[-1], told]
    hanging = " " * INDENT
    fields = [
        textwrap.fill(
            text,
            width,
            initial_indent=f"{name:<{INDENT}}",
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, text in found.fields
    ]
    return "\n\n".join([*blocks, "\n".join(fields)]) + "\n"


def table(rows: Rows, width: int, lead: str = "  ") -> list[str]:
    """Terms in a column, what is said of them beside it; below it where a term is longer than half a line."""
    wide = max(len(term) for term, _ in rows)
    wide = wide if wide <= width // 2 else max((len(t) for t, _ in rows if len(t) <= width // 2), default=0)
    hanging = lead + " " * (wide + 2)
    said = []
    for term, text in rows:
        first = f"{lead}{term:<{wide}}  "
        if len(term) > wide:
            said.append(lead + term)
            first = hanging
        said += textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
        )
    return said


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


class Option(NamedTuple):
    """One option, or (without `flags`) one positional argument. `value` is its metavar; empty for a switch."""

    flags: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...] = ()
    many: bool = False
    group: str = "options"

    @property
    def completes(self) -> str:
        """What its value is: `choices`, `job`, `unit`, `directory`, `file`, or nothing that we know."""
        if self.choices:
            return "choices"
        kind = self.value.strip("[]. ").upper()
        if kind == "JOB":
            return "job"
        if kind == "KEY" and "--unit" in self.flags:
            return "unit"
        if kind in ("DIR", "DIRECTORY"):
            return "directory"
        return "file" if kind in ("FILE", "PATH", "PATCH", "JOBFILE") else ""


class CommandHelp(NamedTuple):
    """A command: its docstring, its options in order, and whether it takes a command after `--`."""

    name: str
    doc: str
    options: tuple[Option, ...]
    takes_command: bool = False

    @property
    def summary(self) -> str:
        return self.doc.strip().partition("\n")[0]

    @property
    def switches(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.flags)

    @property
    def positionals(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if not option.flags)


TITLES = {"reads": "READS", "writes": "WRITES", "exits": "EXIT STATUS"}


def render_page(command: CommandHelp, others: Sequence[CommandHelp], version: str) -> str:
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


def page_name(command: CommandHelp) -> str:
    """`git-ktx-status` for `git ktx status`, as git names its own pages."""
    return command.name.replace(" ", "-")


def escaped(text: str) -> str:
    """Text as roff: backslashes and hyphens as themselves, no line that starts as a request."""
    out = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{out}" if out.startswith((".", "'")) else out


def _title(group: str) -> str:
    return {"positional arguments": "ARGUMENTS"}.get(group, group.upper())


def _synopsis(command: CommandHelp) -> list[str]:
    words = [f"[\\fIoption\\fR]... {' '.join(_italic(option.value) for option in command.positionals)}".rstrip()]
    return [words[0] + (" [\\-\\- \\fICMD\\fR...]" if command.takes_command else "")]


def _italic(text: str) -> str:
    return f"[\\fI{escaped(text)}\\fR]"


def _term(option: Option) -> str:
    if not option.flags:
        return f"\\fI{escaped(option.value)}\\fR"
    flags = ", ".join(f"\\fB{escaped(flag)}\\fR" for flag in option.flags)
    return f"{flags} \\fI{escaped(option.value)}\\fR" if option.value else flags
