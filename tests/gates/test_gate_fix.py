"""Mends that are certain: shown as a diff, written if asked, proven before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.gates import page, source
from tests.support.repos import Repo

TREE = {
    **source("mart", columns="id cost", measures="total"),
    **source("side", connection="lake", measures="total"),
    **page("x\n", key="other"),
}
CASES = {
    "case of a source": ("`Mart.total`", "", "`mart.total`", ""),
    "case of an entity": ("`mart.Total` and `mart.Total`", "", "`mart.total` and `mart.total`", ""),
    "case in sl_refs": ("x", "sl_refs: [Mart, 'mart.Total']\n", "x", "sl_refs: [mart, 'mart.total']\n"),
    "an invisible character": ("`mart.to\u200btal`", "", "`mart.total`", ""),
    "a letter that looks like another": ("`m\u0430rt.total`", "", "`mart.total`", ""),
    "a connection": ("`wz/side.total`", "", "`lake/side.total`", ""),
    "case of a page": ("[[Other]]", "refs: [OTHER]\n", "[[other]]", "refs: [other]\n"),
}
OPEN = ["`mart.totl`", "`marts.total`", "`source:gone`", "`wh/side.total`"]


def fixture(path: Path, body: str, front: str) -> Repo:
    repo = Repo.init(path)
    for name, text in {**TREE, **page(body + "\n", front)}.items():
        repo.write(name, text)
    repo.commit("the files")
    return repo


@pytest.mark.parametrize("name", CASES)
def test_a_mend(tmp_path: Path, name: str) -> None:
    body, front, new_body, new_front = CASES[name]
    repo = fixture(tmp_path / "r", body, front)
    place = repo.path / "wiki/global/page.md"
    before = place.read_text()
    shown = call("gate-check", "--all", "--fix", cwd=repo.path)
    assert place.read_text() == before and "--- a/wiki/global/page.md" in shown.out
    assert "1 file can be mended so; gate-check --fix --write does it" in shown.err
    written = call("gate-check", "--all", "--fix", "--write", cwd=repo.path)
    assert place.read_text() == page(new_body + "\n", new_front)["wiki/global/page.md"], written.err
    assert written.status == 0 and repo.git("diff", "--cached", "--name-only") == ""
    repo.git("add", "-A")
    assert call("gate-check", "--all", "--json", cwd=repo.path).document["findings"] == []


@pytest.mark.parametrize("body", OPEN)
def test_what_is_not_certain_is_left(tmp_path: Path, body: str) -> None:
    repo = fixture(tmp_path / "r", body, "")
    ran = call("gate-check", "--all", "--fix", "--write", cwd=repo.path)
    assert "nothing that is certain to mend" in ran.err and repo.git("status", "--porcelain") == ""


def test_a_renamed_entity(tmp_path: Path) -> None:
    repo = fixture(tmp_path / "r", "`mart.total` `sum(mart.total)`", "sl_refs: [mart.total]\n")
    path = "semantic-layer/wh/mart.yaml"
    repo.write(path, TREE[path].replace("name: total", "name: grand"))
    repo.git("add", "-A")
    assert call("gate-check", cwd=repo.path).status == 1
    ran = call("gate-check", "--fix", "--write", cwd=repo.path)
    text = (repo.path / "wiki/global/page.md").read_text()
    assert "sl_refs: [mart.grand]" in text and "`mart.grand`" in text, ran.err
    repo.write(path, TREE[path].replace("name: total", "name: grand") + "  - {name: more, expr: count(id)}\n")
    repo.git("checkout", "-q", "--", "wiki")
    repo.git("add", "-A")
    assert "nothing that is certain" in call("gate-check", "--fix", cwd=repo.path).err  # two candidates


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    repo = fixture(tmp_path / "r", "x", "")
    for args in (["--write"], ["--fix", "--prune"], ["--tree", "HEAD", "--fix", "--write"]):
        assert call("gate-check", *args, cwd=repo.path).status == 2
