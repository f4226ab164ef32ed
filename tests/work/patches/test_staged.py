"""What a unit staged, committed or took out of the index: the change is what stands in its worktree, staged or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo

Change = Callable[[Repo], object]
Paths = dict[str, str]


def staged_then_as_before(repo: Repo) -> None:
    repo.write("a", "two\n")
    repo.git("add", "a")
    repo.write("a", "one\n")


def staged_then_gone(repo: Repo) -> None:
    repo.write("new", "x\n")
    repo.git("add", "new")
    (repo.path / "new").unlink()


def staged_then_edited(repo: Repo) -> None:
    repo.write("a", "two\n")
    repo.git("add", "a")
    repo.write("a", "three\n")


def folder_in_place_of_a_file(repo: Repo) -> None:
    (repo.path / "a").unlink()
    repo.write("a/b", "x\n")
    repo.git("add", "-A")


def file_in_place_of_a_folder(repo: Repo) -> None:
    (repo.path / "far/c").unlink()
    (repo.path / "far").rmdir()
    repo.write("far", "x\n")
    repo.git("add", "-A")


def without_an_index(repo: Repo) -> None:
    repo.write("new", "x\n")
    (repo.path / ".git/index").unlink()


def old_head_outside_of_the_cone(repo: Repo) -> None:
    """`reset --soft` in a sparse checkout: what is staged stands in no file."""
    repo.git("sparse-checkout", "set", "--cone", "near")
    repo.git("reset", "-q", "--soft", "HEAD~1")


CASES: dict[str, tuple[Change, Paths]] = {
    "staged, then as before": (staged_then_as_before, {}),
    "staged, then gone": (staged_then_gone, {}),
    "staged, then edited": (staged_then_edited, {"a": "modified"}),
    "staged": (lambda repo: (repo.write("a", "two\n"), repo.git("add", "-A")), {"a": "modified"}),
    "out of the index, still there": (lambda repo: repo.git("rm", "-q", "--cached", "a"), {}),
    "out of the index, edited": (
        lambda repo: (repo.git("rm", "-q", "--cached", "a"), repo.write("a", "two\n")), {"a": "modified"},
    ),
    "removed": (lambda repo: repo.git("rm", "-q", "a"), {"a": "deleted"}),
    "moved": (lambda repo: repo.git("mv", "a", "b"), {"a": "deleted", "b": "added"}),
    "a folder in place of a file": (folder_in_place_of_a_file, {"a": "deleted", "a/b": "added"}),
    "a file in place of a folder": (file_in_place_of_a_folder, {"far": "added", "far/c": "deleted"}),
    "no index": (without_an_index, {"new": "added"}),
    "staged, and left out of a sparse checkout": (old_head_outside_of_the_cone, {"far/c": "modified"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_change_is_what_stands_there(repo: Repo, tmp_path: Path, case: str) -> None:
    repo.write("a", "one\n")
    repo.write("near/x", "x\n")
    repo.write("far/c", "old\n")
    repo.commit()
    repo.write("far/c", "new\n")
    repo.commit()
    change, wanted = CASES[case]
    change(repo)
    index = repo.path / ".git/index"
    before = index.read_bytes() if index.exists() else None
    ran = call("patch-collect", "--base", "HEAD", "-o", tmp_path / "p", "--json", cwd=repo.path)
    assert ran.status == 0, ran
    assert {item["path"]: item["change"] for item in ran.document["paths"]} == wanted
    assert (index.read_bytes() if index.exists() else None) == before


def test_a_unit_stages_the_bytes_that_it_wrote(repo: Repo) -> None:
    """What git made of them under the user's settings when they were staged is not what is taken."""
    job = Job.begin(repo)
    tree = job.open("u")
    tree.git("config", "core.autocrlf", "true")
    tree.write("page.md", "one\r\ntwo\r\n")
    tree.git("add", "page.md")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == ["page.md"]
    assert repo.show(document["commit"], "page.md") == b"one\r\ntwo\r\n"


def test_an_entry_as_young_as_the_index_is_looked_at_by_its_content(repo: Repo, tmp_path: Path) -> None:
    """The copy of the index has the original's time: a later one would vouch for an edit of the same moment."""
    path = repo.write("a", "one\n")
    os.utime(path, ns=(10**18, 10**18))
    repo.commit()
    os.utime(repo.path / ".git/index", ns=(10**18, 10**18))
    before = path.stat()
    repo.git("config", "core.trustctime", "false")
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ran = call("patch-collect", "--base", "HEAD", "-o", tmp_path / "p", "--json", cwd=repo.path)
    assert [item["path"] for item in ran.document["paths"]] == ["a"], ran
