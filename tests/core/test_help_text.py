"""A docstring as help."""

from __future__ import annotations

import ast
from pathlib import Path

from ktxkit.core import help_text
from ktxkit.core.help_text import parse, render

DOC = """Do a thing; or two.

More about it, in a paragraph that is
broken in the source.

reads    what it reads, which is said at such length that the text must go on in another line, and then another
         (continued)
writes   nothing
exits    0 done,
         1 not
example  do --this
         do --that 'and this is an example that is far longer than a line may be, and is never broken'
"""


def test_the_parts() -> None:
    found = parse(DOC)
    assert found.summary == "Do a thing; or two."
    assert found.body == ("More about it, in a paragraph that is broken in the source.",)
    assert [name for name, _ in found.fields] == ["reads", "writes", "exits"]
    assert found.fields[2][1] == "0 done, 1 not"
    assert found.examples[0] == "do --this" and len(found.examples) == 2


def test_examples_come_first_and_lines_fit() -> None:
    lines = render(DOC, 60).split("\n")
    assert lines[:4] == ["Do a thing; or two.", "", "examples:", "    do --this"]
    assert all(len(line) <= 60 for line in lines if "never broken" not in line)
    assert lines[-3:] == ["writes   nothing", "exits    0 done, 1 not", ""]


def test_a_docstring_without_fields() -> None:
    assert render("Only this.", 80) == "Only this.\n\n\n"


def test_every_commands_first_line_is_found_without_parsing() -> None:
    top = Path(__file__).parents[2]
    paths = [*(top / "commands").glob("ktx_*.py"), *(top / "ktxkit/git_ktx").glob("[a-z]*.py")]
    assert len(paths) > 20
    for path in paths:
        text = path.read_text("utf-8")
        said = ast.get_docstring(ast.parse(text))
        assert said and help_text.summary_of(text) == said.partition("\n")[0]
