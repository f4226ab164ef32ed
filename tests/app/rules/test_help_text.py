"""A docstring as help."""

from __future__ import annotations

import ast
from pathlib import Path

from ktxkit.app.rules import help_text
from ktxkit.app.rules.help_text import parse, render

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


def test_a_table_stays_one_and_ends_the_examples() -> None:
    doc = (
        DOC
        + """
questions about it (with a heading that goes on
in another line)
  one                     the first, of which so much is said that it has to go on in another line of the table
  two [THING]             the second
"""
    )
    found = parse(doc)
    assert len(found.examples) == 2 and isinstance(found.body[-1], tuple) and len(found.body[-1]) == 2
    assert found.body[-2] == "questions about it (with a heading that goes on in another line)"
    lines = render(doc, 60).split("\n")
    assert all(len(line) <= 60 for line in lines if "never broken" not in line)
    at = lines.index("  two [THING]  the second")
    assert lines[at - 1].startswith(" " * 15) and lines[at - 1].strip().endswith("table")
    assert "\nline)\n  one " in "\n".join(lines) and lines[at + 1] == "", "below its heading, before the fields"


def sources() -> list[Path]:
    """The modules of all commands."""
    top = Path(__file__).parents[3]
    paths = [*(top / "commands").glob("ktx_*.py"), *(top / "ktxkit/app/git_ktx").glob("[a-z]*.py")]
    assert len(paths) > 20
    return [path for path in paths if path.stem != "ktx_start"]


def test_no_help_is_wider_than_the_screen_and_no_example_holds_two() -> None:
    for path in sources():
        doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        examples = parse(doc).examples
        assert examples and not any("; " in example for example in examples), path.name
        wide = [line for line in render(doc, 79).split("\n") if len(line) > 79 and line.strip() not in examples]
        assert not wide, (path.name, wide)


def test_a_docstring_without_fields() -> None:
    assert render("Only this.", 80) == "Only this.\n\n\n"


def test_every_commands_first_line_is_found_without_parsing() -> None:
    for path in sources():
        text = path.read_text("utf-8")
        said = ast.get_docstring(ast.parse(text))
        assert said and help_text.summary_of(text) == said.partition("\n")[0]
