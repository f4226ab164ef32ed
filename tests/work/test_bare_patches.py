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


@pytest.mark.parametrize("args", [(), ("--base", "main")])
def test_what_is_no_file(repo: Repo, tmp_path: Path, args: tuple[str, ...]) -> None:
    for place in (tmp_path, Path("/dev/null")):
        ran = applied(repo, place, *args)
        assert (ran.status, f"{place}: a patch is a regular file" in ran.err) == (2, True), ran.err
    ran = applied(repo, tmp_path / "absent", *args)
    assert (ran.status, "absent: no such patch file" in ran.err) == (2, True), ran.err
