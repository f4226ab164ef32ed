"""Every rule has a page, and its examples do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ktxkit.gates.rules.findings import RULES
from tests.support.commands import call
from tests.support.gates import in_core
from tests.support.repos import Repo

PAGES = Path(__file__).resolve().parents[3] / "docs" / "rules"
FILE = re.compile(r"^`([^`\n]+)`(?: \(([a-z0-9-]+)\))?\n\n(`{3,})[a-z]+\n(.*?)^\3$", re.DOTALL | re.MULTILINE)
WITHOUT_EXAMPLE = {"md-size", "python-size", "not-a-file"} | {  # shown by tests of their own
    rule
    for rule in RULES
    if rule.startswith(("claim-", "word-", "quote-", "affected-"))  # they need a ledger
}


def section(page: str, name: str) -> dict[str, bytes]:
    """The files of one section of a page."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    files = FILE.findall(found[1]) if found else []
    return {path: text.encode(encoding or "utf-8") for path, encoding, _, text in files}


def flags(page: str) -> list[str]:
    found = re.search(r"^Shown with `([^`]+)`\.$", page, re.MULTILINE)
    return found[1].split() if found else []


def findings(files: dict[str, bytes], given: list[str], tmp_path: Path) -> list[dict[str, Any]]:
    if "ktx-gates.yaml" not in files:
        options = {{"--advise": "advise", "--strict-connections": "strictConnections"}[flag]: True for flag in given}
        return in_core(files, **options)
    repo = Repo.init(tmp_path / "repo")
    for name, data in files.items():
        repo.write(name, data)
    repo.git("add", "-A")
    found: list[dict[str, Any]] = call("gate-check", "--all", "--json", *given, cwd=repo.path).document["findings"]
    return found


@pytest.mark.parametrize("rule", sorted(set(RULES) - WITHOUT_EXAMPLE))
def test_examples(rule: str, tmp_path: Path) -> None:
    page = (PAGES / f"{rule}.md").read_text("utf-8")
    given, bad, good = (section(page, name) for name in ("Given", "Bad", "Good"))
    assert bad and good, f"{rule}: no examples"
    wrong = findings({**given, **bad}, flags(page), tmp_path / "bad")
    assert rule in {one["rule"] for one in wrong}, wrong
    level = "warning" if "in front matter it is a warning" in page.lower() and "sl_ref:" not in page else RULES[rule][0]
    assert level in {one["level"] for one in wrong if one["rule"] == rule}
    right = findings({**given, **good}, flags(page), tmp_path / "good")
    assert right == []


def test_every_page_is_of_a_rule_and_the_index_is_whole() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"index"} == set(RULES)
    index = (PAGES / "index.md").read_text("utf-8")
    for rule, (level, said) in RULES.items():
        assert f"| [`{rule}`]({rule}.md) | {level} | {said} |" in index
        head = (PAGES / f"{rule}.md").read_text("utf-8")
        assert head.startswith(f"# {rule}\n\n*{level}*: {said}.\n")


def test_explain(tmp_path: Path) -> None:
    shown = call("gate-check", "--explain", "stale-entity", cwd=tmp_path)
    assert shown.status == 0
    assert shown.out == (PAGES / "stale-entity.md").read_text("utf-8")
    listed = call("gate-check", "--explain", "list", cwd=tmp_path)
    assert [line.split()[0] for line in listed.out.splitlines()] == list(RULES)
    wrong = call("gate-check", "--explain", "stale-entty", cwd=tmp_path)
    assert wrong.status == 2
    assert "stale-entity" in wrong.err


def test_a_page_that_is_too_large(tmp_path: Path) -> None:
    (found,) = in_core({"wiki/global/a.md": "---\nsummary: a\n---\n" + "word " * 60_000})
    assert (found["rule"], found["level"]) == ("md-size", "error")


@pytest.mark.parametrize(
    "piece", ["- a\n", "a\n\n", "- " * 60 + "a\n\n", ("a|" * 130 + "\n" + "-|" * 130 + "\n" + "a|\n" * 50 + "\n")]
)
def test_a_page_of_too_many_blocks(piece: str) -> None:
    text = "---\nsummary: a\n---\n`a.b`\n\n" + piece * (260_000 // len(piece))
    (found,) = in_core({"wiki/global/a.md": text})
    assert (found["rule"], found["level"], found["line"]) == ("md-size", "error", 4)


def test_a_long_page_is_read() -> None:
    """Ten thousand lines of a list, and of a table."""
    text = "---\nsummary: a\n---\n" + "- an item `source:gone`\n" * 9_000
    assert [one["rule"] for one in in_core({"wiki/global/a.md": text})] == ["unknown-source"]
    text = "---\nsummary: a\n---\n| a | b |\n|-|-|\n" + "| an item | `source:gone` |\n" * 6_000
    assert [one["rule"] for one in in_core({"wiki/global/a.md": text})] == ["unknown-source"]


def test_a_link_and_a_submodule_are_no_artifacts(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.write("wiki/global/real.md", "---\nsummary: a\n---\n")
    (repo.path / "wiki/global/link.md").symlink_to("/etc/passwd")
    repo.commit("a link")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},semantic-layer/wh/sub.yaml")
    document = call("gate-check", "--all", "--json", cwd=repo.path).document
    told = {(one["rule"], one["path"]) for one in document["findings"]}
    assert told == {("not-a-file", "wiki/global/link.md"), ("not-a-file", "semantic-layer/wh/sub.yaml")}
