"""A command's docstring as help: what it does, examples, then what it reads, writes and how it exits.

The docstring is the one source: `--help`, man pages and completions are made from it.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

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
