"""Nothing below a root is unread in silence, and what a commit leaves out blocks none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.gates.judging import check_tree
from ktxkit.store.world import World
from tests.support.commands import call
from tests.support.gates import by_command, in_core, page, source
from tests.support.repos import Repo

HEAD = "---\nsummary: A page\n---\n"
UNREAD = {
    "semantic-layer/wh/sub/deep.yaml": "sources are semantic-layer/CONNECTION/NAME.yaml",
    "semantic-layer/shallow.yaml": "sources are semantic-layer/CONNECTION/NAME.yaml",
    "semantic-layer/wh/mart.YAML": "rename it to mart.yaml",
    "wiki/global/blank.md ": "rename it to blank.md",
    "wiki/global/hidden.md\u200b": "rename it to hidden.md",
    "wiki/global/alike.m\u0501": "rename it to alike.md",
    "wiki/global/wide.\uff4d\uff44": "rename it to wide.md",
    "semantic-layer/wh/_schema/public.Yml": "rename it to public.yaml",
    "semantic-layer/wh/mart.yaml.bak": "",
    "semantic-layer/wh/mart.json": "",
    "wiki/shallow.md": "pages are wiki/global/KEY.md",
    "wiki/user/anna.md": "pages are wiki/global/KEY.md",
    "wiki/team/p.md": "pages are wiki/global/KEY.md",
    "wiki/global/p.MD": "rename it to p.md",
    "wiki/global/p.markdown": "rename it to p.md",
    "wiki/global/p.md~": "",
    "wiki/global/p": "",
    "Wiki/global/q.md": "rename it to wiki/global/q.md",
    "WIKI/user/anna/q.md": "rename it to wiki/user/anna/q.md",
    "w\u0456ki/global/q.md": "rename it to wiki/global/q.md",
    "Wiki/q.md": "rename it to wiki/q.md",
    "Semantic-Layer/wh/mart.yaml": "rename it to semantic-layer/wh/mart.yaml",
    "semantic\u2010layer/wh/mart.yaml": "rename it to semantic-layer/wh/mart.yaml",
    "links/Provenance.json": "rename it to links/provenance.json",
    "Links/provenance.json": "rename it to links/provenance.json",
}
QUIET = [
    "wiki/global/pic.png", "wiki/global/table.csv", "wiki/.obsidian/x.md", "wiki/README.md", "semantic-layer/.gitkeep",
    "semantic-layer/wh/README", "docs/p.MD", "links/other.json", "Wiki/README.md", "Wiki/global/pic.png",
    "Links/o.json",
]  # fmt: skip


@pytest.mark.parametrize("path", UNREAD)
def test_a_file_that_no_gate_reads(path: str) -> None:
    (found,) = in_core({**source("mart", columns="id"), path: "nonsense: [\n"})
    assert (found["rule"], found["level"], found["path"]) == ("not-read", "warning", path)
    assert UNREAD[path] in found["hint"]


def test_the_same_by_the_command(tmp_path: Path) -> None:
    files = {**page(), **dict.fromkeys([*UNREAD, *QUIET], "`mart.gone`\n")}
    assert {one["path"] for one in by_command(tmp_path / "asked", files) if one["rule"] == "not-read"} == set(UNREAD)
    assert "looked at 1 page:" in call("gate-check", "--all", cwd=tmp_path / "asked").err
    for name in UNREAD:
        (tmp_path / "asked" / name).unlink()
    repo = Repo(tmp_path / "asked")
    repo.commit("without them")
    before = repo.tree
    repo.write("wiki/late.md", "x")
    repo.write("Wiki/global/late.md", "x")
    repo.git("add", "-A")
    found = call("gate-check", "--json", cwd=tmp_path / "asked").document["findings"]
    assert [(one["path"], one.get("inherited")) for one in found] == [
        ("Wiki/global/late.md", None),
        ("wiki/late.md", None),
    ]
    repo.commit("late")
    world = World(repo.path, {"PATH": "/usr/bin:/bin", "HOME": str(repo.path)})
    found = check_tree(world, repo.tree, base_tree=before)["findings"]
    assert [one["path"] for one in found] == ["Wiki/global/late.md", "wiki/late.md"], "and so in a job"


def test_below_a_root(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    for name in ("know/wiki/global/p.md", "know/Wiki/global/p.md", "Wiki/global/p.md"):
        repo.write(name, f"{HEAD}x\n")
    repo.write("ktx-gates.yaml", "root: know\n")
    repo.commit("all")
    world = World(repo.path, {"PATH": "/usr/bin:/bin", "HOME": str(repo.path)})
    assert [one["path"] for one in check_tree(world, repo.tree)["findings"]] == ["know/Wiki/global/p.md"]


def conflicted(path: Path) -> Repo:
    """A repository in the middle of a merge that stopped at a page."""
    repo = Repo.init(path)
    repo.write("wiki/global/p.md", f"{HEAD}one\n")
    repo.commit("good")
    repo.git("checkout", "-qb", "other")
    repo.write("wiki/global/p.md", f"{HEAD}`source:there`\n")
    repo.commit("there")
    repo.git("checkout", "-q", "main")
    repo.write("wiki/global/p.md", f"{HEAD}`source:here`\n")
    repo.commit("here")
    repo.git("merge", "-q", "other", check=False)
    assert repo.git("ls-files", "-u")
    return repo


@pytest.mark.parametrize("flags", [["--all"], [], ["--index"], ["wiki/global/p.md"], ["--changed-since", "HEAD~1"]])
def test_an_unmerged_index_is_no_pass(tmp_path: Path, flags: list[str]) -> None:
    repo = conflicted(tmp_path / "r")
    ran = call("gate-check", *flags, cwd=repo.path)
    assert ran.status == 2
    assert "unmerged paths: wiki/global/p.md" in ran.err
    assert call("gate-check", "--tree", "HEAD", cwd=repo.path).status == 1


def test_what_is_only_intended_is_not_judged(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    repo.write("empty.txt", "")
    repo.write("wiki/global/a.md", f"{HEAD}x\n")
    repo.commit("good")
    repo.write("wiki/global/n.md", f"{HEAD}x\n")
    repo.write("wiki/global/[n].md", "")
    repo.git("add", "-N", "wiki/global/n.md")
    assert call("gate-check", "--index", cwd=repo.path).status == 0
    assert "looked at 1 page:" in call("gate-check", "--all", cwd=repo.path).err
    repo.git("add", "wiki/global/[n].md")  # one that is empty and staged
    found = call("gate-check", "--json", cwd=repo.path).document["findings"]
    assert {one["path"] for one in found} == {"wiki/global/[n].md"}


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    repo.write("knowledge/wiki/global/p.md", f"{HEAD}`source:gone`\n")
    repo.write("ktx-gates.yaml", "root: knowlege\n")
    repo.commit("the files")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 2 and "did you mean knowledge?" in ran.err
    repo.write("ktx-gates.yaml", "root: knowledge\n")
    repo.commit("right")
    assert call("gate-check", "--all", cwd=repo.path).status == 1
    repo.git("rm", "-rq", "--cached", "knowledge")
    assert call("gate-check", cwd=repo.path).status == 0  # it is being taken away: HEAD has it
