"""A bare patch that is none, or of another base: said in words that fit, there is no document to speak of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo

OTHER = b"diff --git a/zz b/zz\n--- a/zz\n+++ b/zz\n@@ -1 +1 @@\n-a\n+b\n"
NONE: dict[str, tuple[bytes, str]] = {
    "bytes of any kind": (bytes(range(256)), "there is no patch in it that git can read"),
    "an empty file": (b"", "there is no patch in it that git can read"),
    "a text": (b"hello\n", "there is no patch in it that git can read"),
    "of another base": (OTHER, "the patch does not apply to --base: zz: does not exist in index"),
}


def applied(repo: Repo, patch: Path, *args: str) -> Ran:
    before = repo.head
    ran = call("patch-apply", patch, *args, cwd=repo.path)
    assert "its document" not in ran.err and "collect it again" not in ran.err and ran.out == ""
    assert repo.head == before and repo.git("status", "--porcelain") == ""
    return ran


@pytest.mark.parametrize("name", NONE)
def test_what_git_does_not_take(repo: Repo, tmp_path: Path, name: str) -> None:
    content, said = NONE[name]
    (tmp_path / "p").write_bytes(content)
    ran = applied(repo, tmp_path / "p", "--base", "main")
    assert (ran.status, f"{tmp_path}/p: {said}" in ran.err) == (5, True), ran.err


def test_a_patch_without_its_binary_content_says_how_to_make_it(repo: Repo, tmp_path: Path) -> None:
    repo.write("b.bin", b"a\0b")
    repo.git("add", "-A")
    (tmp_path / "p").write_text(f"{repo.git('diff', '--cached')}\n")
    repo.git("rm", "-qf", "b.bin")
    ran = applied(repo, tmp_path / "p", "--base", "main")
    assert ran.status == 5 and "without full index line" in ran.err and "git diff --binary" in ran.err


@pytest.mark.parametrize("args", [(), ("--base", "main")])
def test_what_is_no_file(repo: Repo, tmp_path: Path, args: tuple[str, ...]) -> None:
    for place in (tmp_path, Path("/dev/null")):
        ran = applied(repo, place, *args)
        assert (ran.status, f"{place}: a patch is a regular file" in ran.err) == (2, True), ran.err
    ran = applied(repo, tmp_path / "absent", *args)
    assert (ran.status, "absent: no such patch file" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("how", ["committed", "left"])
def test_a_change_that_merged_the_branch_in_is_its_own_part_alone(repo: Repo, tmp_path: Path, how: str) -> None:
    """As in a job. Otherwise what came from the branch is a conflict where the branch has moved on."""
    repo.write("up", "a\nb\nc\n")
    base = repo.commit()
    repo.git("branch", "integ")
    repo.git("worktree", "add", "-q", str(tmp_path / "i"), "integ")
    repo.git("worktree", "add", "-q", "-b", "unit", str(tmp_path / "u"), "main")
    integ, unit = repo.at(tmp_path / "i"), repo.at(tmp_path / "u")
    integ.write("up", "a\nB\nc\n")
    integ.commit()
    unit.git("merge", "-q", "--no-edit", "integ")
    unit.write("own", "mine\n")
    if how == "committed":
        unit.commit()
    assert call("patch-collect", "--base", base, "-o", tmp_path / "p", cwd=unit.path).status == 0
    integ.write("up", "a\nBB\nc\n")
    integ.commit()
    applied = call("patch-apply", tmp_path / "p", "--json", cwd=integ.path)
    assert applied.status == 0 and [item["path"] for item in applied.document["paths"]] == ["own"], applied
    assert (integ.show("integ", "own"), integ.show("integ", "up")) == (b"mine\n", b"a\nBB\nc\n")
