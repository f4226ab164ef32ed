"""git ktx attic: what was closed without landing is found again, told and brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo


def attic(repo: Repo, *words: str) -> Ran:
    return call("git-ktx", "attic", *words, cwd=repo.path)


@pytest.fixture
def kept(repo: Repo) -> str:
    """The name of an entry: a unit's worktree with an edit, a deletion and a new file, closed with --discard."""
    repo.write("page", "one\ntwo\nthree\nfour\nfive\n")
    repo.write("old", "old\n")
    repo.commit()
    repo.git("config", "user.name", "Ada")
    child = Repo(Path(call("worktree-open", "--job", "j1", "--unit", "u", "--json", cwd=repo.path).document["path"]))
    child.write("page", "one\ntwo\nthree\nfour\nFIVE\n")
    child.write("new/file", "new\n")
    (child.path / "old").unlink()
    closed = call(
        "worktree-close", "--job", "j1", "--unit", "u", "--outcome", "success", "--discard", "--json", cwd=repo.path
    )
    assert closed.status == 0, closed.err
    return str(closed.document["atticRef"]).removeprefix("refs/ktx/attic/")


def test_list_tells_who_when_and_why(repo: Repo, kept: str) -> None:
    done = attic(repo, "list", "--json")
    (row,) = done.json["data"]["entries"]
    assert (row["name"], row["job"], row["worktree"], row["attempt"]) == (kept, "j1", "0001-u", "1")
    assert row["by"].startswith("Ada <") and row["why"] == "closed as success with --discard"
    assert row["base"] == repo.head and row["keptAt"] >= row["committedAt"]
    shown = attic(repo).out
    assert kept in shown and "Ada" in shown and "closed as success with --discard" in shown
    assert attic(repo, "list", "j1/0001-u").out == shown and attic(repo, "list", "j2").out == "The attic is empty.\n"


def test_the_name_of_its_worktree_leads_to_an_entry(repo: Repo, kept: str) -> None:
    done = attic(repo, "show", "0001-u")
    assert done.status == 2 and f"did you mean {kept}?" in done.err


def test_an_entry_without_a_reflog_is_listed(repo: Repo, kept: str) -> None:
    """As another clone fetched it, or an older version kept it."""
    repo.git("update-ref", "refs/ktx/attic/j0/0001-x/1-abc", f"refs/ktx/attic/{kept}")
    rows = attic(repo, "list", "--json").json["data"]["entries"]
    known = {row["name"]: row for row in rows}
    assert set(known) == {kept, "j0/0001-x/1-abc"} and "why" in known[kept]
    assert (
        not {"keptAt", "by", "why", "base"} & set(known["j0/0001-x/1-abc"]) and "it is not recorded" in attic(repo).out
    )
    assert "3 paths:" in attic(repo, "show", "j0").out, "counted from where it left HEAD"


def test_show_and_diff(repo: Repo, kept: str) -> None:
    shown = attic(repo, "show", "j1").out
    assert "3 paths:\n  added  new/file\n  deleted  old\n  modified  page\n" in shown
    patch = attic(repo, "diff", kept).out
    assert "+FIVE" in patch and "+new" in patch
    assert "new/file" not in attic(repo, "diff", kept, "page").out
    repo.git("apply", stdin=patch.encode())
    assert (repo.path / "new/file").read_text() == "new\n" and not (repo.path / "old").exists()


def test_restore_merges_into_the_files(repo: Repo, kept: str) -> None:
    repo.write("page", "ONE\ntwo\nthree\nfour\nfive\n")
    repo.commit()
    head, index = repo.head, repo.git("write-tree")
    done = attic(repo, "restore", "j1/0001-u")
    assert done.status == 0 and done.out.splitlines() == ["new/file", "old", "page"], done.err
    assert (repo.path / "page").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert (repo.path / "new/file").read_text() == "new\n" and not (repo.path / "old").exists()
    assert (repo.head, repo.git("write-tree")) == (head, index), "uncommitted, unstaged"
    assert kept in attic(repo).out, "the entry stays"


def test_restore_of_some_paths(repo: Repo, kept: str) -> None:
    assert attic(repo, "restore", kept, "new/").out == "new/file\n"
    assert (repo.path / "old").exists() and repo.git("status", "--porcelain") == "?? new/"


def test_restore_overwrites_nothing(repo: Repo, kept: str) -> None:
    repo.write("new/file", "mine\n")
    done = attic(repo, "restore", kept)
    assert done.status == 1 and "new/file" in done.err
    assert (repo.path / "new/file").read_text() == "mine\n" and (repo.path / "old").exists(), "nothing was written"
    (repo.path / "new/file").unlink()
    repo.write("page", "one\ntwo\nthree\nfour\n5\n")
    repo.commit()
    done = attic(repo, "restore", kept)
    assert done.status == 3 and "page" in done.err and f"restore {kept} --branch NAME" in done.err
    assert repo.git("status", "--porcelain") == ""


def test_restore_as_a_branch(repo: Repo, kept: str) -> None:
    done = attic(repo, "restore", kept, "--branch", "again")
    assert done.status == 0 and repo.show("again", "new/file") == b"new\n"
    assert repo.git("rev-parse", "again^") == repo.head
    refused = attic(repo, "restore", kept, "--branch", "again")
    assert refused.status == 1 and "exists already" in refused.err


def test_what_is_not_meant_is_said(repo: Repo, kept: str) -> None:
    repo.git("update-ref", "refs/ktx/attic/j1/0002-v/1-abc", "HEAD")
    several = attic(repo, "show", "j1")
    assert several.status == 2 and kept in several.err and "j1/0002-v/1-abc" in several.err
    none = attic(repo, "show", "j1/0002-v/1-abd")
    assert none.status == 2 and "did you mean j1/0002-v/1-abc?" in none.err
    assert attic(repo, "diff").status == 2 and attic(repo, "list", "--branch", "x").status == 2


def test_an_empty_attic(repo: Repo) -> None:
    assert attic(repo).out == "The attic is empty.\n"


def test_a_cleared_worktree_says_why(repo: Repo) -> None:
    child = Path(call("worktree-open", "--job", "j1", "--unit", "u", "--json", cwd=repo.path).document["path"])
    (child / "new").write_text("new\n")
    job = repo.path / ".ktx/jobs/j1/job.json"
    job.write_text(
        job.read_text().replace('"state": "open"', '"state": "aborted"').replace('"state":"open"', '"state":"aborted"')
    )
    assert call("worktree-open", "--prune", cwd=repo.path).status == 0 and not child.exists()
    assert attic(repo, "list", "--json").json["data"]["entries"][0]["why"] == "cleared: its job is aborted"
