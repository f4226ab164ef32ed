"""A command's docstring as help: what it does, examples, then what it reads, writes and how it exits.

The docstring is the one source: `--help`, man pages and completions are made from it.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

FIELDS = ("reads", "writes", "exits")
EXAMPLE = "example"
INDENT = 9  # columns before a field's text


class Help(NamedTuple):
    """The parts of a docstring. `examples` are command lines, as they are typed."""

    summary: str
    body: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def summary_of(source: str) -> str:
    """The first line of a module's docstring, with which each of our modules begins; nothing is parsed."""
    return source.partition('"""')[2].partition("\n")[0].partition('"""')[0].strip()


def parse(doc: str) -> Help:
    """The parts: a first line, paragraphs, the fields (`reads    ...`, continued by indented lines), the examples."""
    summary, _, rest = doc.strip().partition("\n")
    body: list[list[str]] = [[]]
    parts: list[tuple[str, list[str]]] = []
    for line in rest.split("\n"):
        word = line.split(" ", 1)[0]
        if word in (*FIELDS, EXAMPLE):
            parts.append((word, [line[len(word) :].strip()]))
        elif parts and (line.startswith(" ") or not line):
            parts[-1][1].append(line.strip())
        elif line.strip():
            body[-1].append(line.strip())
        else:
            body.append([])
    return Help(
        summary,
        tuple(" ".join(lines) for lines in body if lines),
        tuple((name, " ".join(filter(None, lines))) for name, lines in parts if name != EXAMPLE),
        tuple(line for name, lines in parts if name == EXAMPLE for line in lines if line),
    )


def render(doc: str, width: int) -> str:
    """The help's text in lines of at most `width` columns; examples are never broken."""
    found = parse(doc)
    blocks = [_filled(found.summary, width)]
    if found.examples:
        blocks.append("examples:\n" + "\n".join(f"    {line}" for line in found.examples))
    blocks += [_filled(paragraph, width) for paragraph in found.body]
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


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
