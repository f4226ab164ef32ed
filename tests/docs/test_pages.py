"""The documentation does what it says: sessions are run, command lines are parsed, links lead somewhere."""

from __future__ import annotations

import inspect
import os
import re
import shlex
from pathlib import Path

import pytest

from ktxkit.app import git_ktx
from ktxkit.app.commands import all_parsers, scripts
from ktxkit.app.rules import report_text
from ktxkit.base.errors import KtxError
from tests.support.console import agrees, blocks, play, steps

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLAYED = [page for page in PAGES if any(block.language == "console" for block in blocks(page.read_text("utf-8")))]
ASSETS = ROOT / "ktxkit/app/assets"
SHELL = ("sh", "bash", "shell", "yaml", "makefile")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PLAYED, ids=name)
def test_a_session_comes_out_as_shown(page: Path, tmp_path: Path) -> None:
    assert play(page, tmp_path, dict(os.environ)) > 0


def command_lines(page: Path) -> list[tuple[int, str]]:
    """Every line of a shell or indented block that begins with one of our commands, with continuation lines joined."""
    text = page.read_text("utf-8")
    lines = [
        (block.line, step.command) for block in blocks(text) if block.language == "console" for step in steps(block)
    ]
    fenced = {number for block in blocks(text) for number in range(block.line, block.line + block.text.count("\n") + 2)}
    for block in blocks(text):
        if block.language in SHELL:
            joined = block.text.replace("\\\n", " ")
            lines += [(block.line, line) for line in joined.split("\n")]
    for number, line in enumerate(text.split("\n"), start=1):
        if number not in fenced and line.startswith("    "):
            lines.append((number, line))
    return lines


def ours(line: str) -> list[list[str]]:
    """The command lines of our own in a line of shell."""
    found = []
    plain = re.sub(r"\s[0-9]*[<>]+&?\s*\S+", " ", line.partition(" # ")[0])
    plain = re.sub(r"^\s*- (run: )?", "", plain)
    if " [" in plain:
        plain = plain.replace("[", " ").replace("]", " ")  # a synopsis: all that may stand there
    for part in re.split(r"\|\|?|&&|;|\$\(|`", plain):
        try:
            words = shlex.split(part.strip().rstrip(')"').removeprefix("exec ").removeprefix("("))
        except ValueError:
            continue  # gate-ok: no command line, so none to check
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words[:2] == ["git", "ktx"]:
            words = ["git-ktx", *words[2:]]
        if words and words[0] in scripts():
            found.append(words)
    return found


def test_every_command_line_parses() -> None:
    wrong = []
    for page in PAGES:
        for number, line in command_lines(page):
            for words in ours(line):
                try:
                    parse(words)
                except KtxError as error:
                    wrong.append(f"{name(page)}:{number}: {' '.join(words)}: {error.message}")
                except SystemExit:
                    if not {"-h", "--help", "--version"} & set(words):
                        wrong.append(f"{name(page)}:{number}: {' '.join(words)}: it exits")
    assert wrong == []


def parse(words: list[str]) -> None:
    """Raises CannotRun where the words are no command line."""
    import importlib

    command, rest = words[0], words[1:]
    if command == "git-ktx" and rest and not rest[0].startswith("-"):
        if rest[0] in git_ktx.names():
            git_ktx.module(rest[0]).parser().parse(rest[1:])
            return
        command, rest = rest[0], rest[1:]
        if command.isupper():
            return  # `git ktx COMMAND`: a placeholder
    module = importlib.import_module(scripts()[command])
    parser = module.parser()
    if command == "test-run":  # `test-run pytest -q`: what follows pytest's own word is pytest's
        rest = list(module.separated(rest, module.VALUED))
    if rest and rest != ["..."]:
        parser.parse([word for word in rest if word not in ("...", "\u2026")])


FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_every_link_leads_somewhere() -> None:
    texts = [(page, FENCED.sub("", page.read_text("utf-8"))) for page in PAGES]
    links = [(page, target) for page, text in texts for target in LINK.findall(text)]
    inside = [link for link in links if not (re.match(r"[a-z]+:", link[1]) or link[1].startswith("#"))]
    assert len(inside) > 100
    wrong = []
    for page, target in inside:
        place = page.parent / target.partition("#")[0]
        generated = place.is_relative_to(ROOT / "docs") and "formats" in place.parts
        if not (place.exists() or generated):
            wrong.append(f"{name(page)} links to {target}")
    assert wrong == []


TESTED = re.compile(r"`(tests/[a-z_/]+(?:\.py)?)`")


def test_every_guarantee_names_tests_that_exist() -> None:
    pages = [(ROOT / "docs" / f"guarantees{part}.md").read_text("utf-8") for part in ("", "-work", "-units")]
    rows = [line for line in "\n".join(pages).split("\n") if line.startswith("| ") and "tested in" not in line]
    assert len(rows) > 60
    for row in rows:
        named = TESTED.findall(row)
        assert named and all((ROOT / test).exists() for test in named), row


def test_dots_stand_for_anything() -> None:
    assert agrees("a ... c\n", "a b\nb c") and agrees("", "\n") and agrees("...", "")
    assert not agrees("a", "b") and not agrees("a ... c", "a c d") and not agrees("a.c", "abc")


INNER = re.compile(  # words of the inside. What is made from a source before units begin is projected, and nothing else
    r"\bdead\b|(?<!-)\bcontents\b|\bfenc(?:e|ed|ing)\b|\bepochs?\b|\bsentinel(?!\.json)|\bnonces?\b",
    re.IGNORECASE,
)
PROJECTED = re.compile(r"\bproject(?:ed|ions?)\b", re.IGNORECASE)
INGESTS = {"ingest-run", "job-run", "guides/knowledge.md", "recipes/nightly.md"}


def inner_words(text: str, about: str) -> list[str]:
    found = [*INNER.findall(text), *([] if about in INGESTS else PROJECTED.findall(text))]
    return [f"{about}: {word}" for word in found]


def test_help_has_no_words_of_the_inside() -> None:
    helps = {made.prog: made.format_help() for made in all_parsers(sorted(scripts().values()))}
    assert len(helps) > 30
    assert [word for name, text in helps.items() for word in inner_words(text, name)] == []


def test_guides_have_no_words_of_the_inside() -> None:
    order = (ROOT / "mkdocs.yml").read_text("utf-8")
    guides = re.findall(r": (\S+\.md)$", order[: order.index("  - Reference:")], re.MULTILINE)
    assert len(guides) > 12
    texts = {"README.md": (ROOT / "README.md").read_text("utf-8")}
    texts |= {page: (ROOT / "docs" / page).read_text("utf-8") for page in guides}
    assert [word for name, text in texts.items() for word in inner_words(text, name)] == []


def test_the_report_has_no_words_of_the_inside() -> None:
    """Neither the sentences of its text nor the words that its page shows."""
    text = "\n".join(re.findall(r'"([^"]*[ :][^"]*)"', inspect.getsource(report_text)))
    page = (ASSETS / "report.html").read_text("utf-8")
    script = (ASSETS / "report.js").read_text("utf-8")
    shown = [*re.findall(r'"([^"\n]* [^"\n]*)"', script), *re.findall("`([^`]*)`", script)]
    assert len(shown) > 50 and "changed the same lines" in "\n".join(shown)
    assert [word for said in (text, page, *shown) for word in inner_words(said, "job-run")] == []


LISTS = {"errors.md", "rules/index.md"}  # one line an error, one line a rule: nobody reads them through


def test_a_page_can_be_read_at_once() -> None:
    words = {name(page).removeprefix("docs/"): len(page.read_text("utf-8").split()) for page in PAGES}
    assert [name for name, count in words.items() if count > 1200 and name not in LISTS] == []
    assert set(words) > LISTS


def test_every_guide_is_in_the_order_of_the_site() -> None:
    order = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [order.index(f"  - {part}:\n") for part in ("Start", "Guides", "Reference", "Why")] == sorted(
        order.index(f"  - {part}:\n") for part in ("Start", "Guides", "Reference", "Why")
    )
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs")]
    made = ("rules", "commands")  # put into the order when the site is built
    missing = [str(page) for page in pages if f": {page}\n" not in order and page.parts[0] not in made]
    assert missing == []
