"""`patch-collect` by hand: where the patch goes, and what is never lost to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo


def collected(repo: Repo, output: str | Path) -> Ran:
    return call("patch-collect", "--base", "HEAD", "-o", output, "--json", cwd=repo.path)


def files(top: Path) -> list[str]:
    return sorted(path.name for path in top.iterdir())


def test_an_earlier_patch_is_not_lost_to_an_empty_change(repo: Repo, tmp_path: Path) -> None:
    repo.write("README", "changed\n")
    assert collected(repo, tmp_path / "p").document["outcome"] == "collected"
    kept = {name: (tmp_path / name).read_bytes() for name in ("p", "p.json")}
    repo.git("checkout", "-q", "README")
    ran = collected(repo, tmp_path / "p")
    assert (ran.status, ran.json["outcome"]) == (1, "refused"), ran
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    ran = collected(repo, tmp_path / "other")
    assert (ran.status, ran.document["outcome"]) == (0, "noop")
    assert files(tmp_path) == ["other.json", "p", "p.json", "repo"]


def test_a_newer_patch_takes_the_place_of_an_earlier_one(repo: Repo, tmp_path: Path) -> None:
    for content in ("one\n", "two\n"):
        repo.write("README", content)
        assert collected(repo, tmp_path / "p").status == 0
        assert content.encode() in (tmp_path / "p").read_bytes()


@pytest.mark.parametrize("output", ["none/p", "none/deeper/p", "repo"])
def test_nothing_is_made_for_the_output(repo: Repo, tmp_path: Path, output: str) -> None:
    repo.write("README", "changed\n")
    ran = collected(repo, tmp_path / output)
    assert (ran.status, ran.json["outcome"]) == (2, "cannot_run"), ran
    assert files(tmp_path) == ["repo"]


@pytest.mark.parametrize("content", [b"", b"\0"])
def test_a_name_that_no_patch_carries_is_handed_over_by_objects(repo: Repo, tmp_path: Path, content: bytes) -> None:
    """git cannot read `a /a ` back from `diff --git a/a /a  b/a /a `, and an empty file has no other line."""
    base = repo.head
    repo.write("a /a ", content)
    ran = call("patch-collect", "--base", base, "-o", tmp_path / "p", cwd=repo.path)
    assert (ran.status, "by objects only" in ran.err) == (0, True), ran
    assert files(tmp_path) == ["p.json", "repo"]
    (repo.path / "a /a ").unlink()
    ran = call("patch-apply", tmp_path / "p", "--json", cwd=repo.path)
    assert (ran.status, ran.document["transport"]) == (0, "objects"), ran
    assert (repo.path / "a /a ").read_bytes() == content
