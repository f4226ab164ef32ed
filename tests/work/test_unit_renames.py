"""A unit renames a file that the target edited: refused with a sentence that says so, taken with --follow-renames."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo

LINES = [f"line {number}" for number in range(30)]


def text(**changed: str) -> str:
    lines = [changed.get(f"l{number}", line) for number, line in enumerate(LINES)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def patch(repo: Repo, tmp_path: Path) -> Path:
    """The unit's change: `old` is `new` now, with an edit of its own. The target edits `old` meanwhile."""
    repo.write("old", text())
    base = repo.commit()
    repo.git("worktree", "add", "-q", "-b", "unit", tmp_path / "unit")
    unit = Repo(tmp_path / "unit")
    unit.git("mv", "old", "new")
    unit.write("new", text(l25="the unit's"))
    unit.commit()
    repo.write("old", text(l3="the target's"))
    repo.commit()
    ran = call("patch-collect", "-C", unit.path, "--base", base, "-o", tmp_path / "p", cwd=repo.path)
    assert ran.status == 0, ran.err
    return tmp_path / "p"


def applied(repo: Repo, patch: Path, *more: str) -> Ran:
    return call("patch-apply", patch, "--no-gates", "--json", *more, cwd=repo.path)


def test_by_default_it_is_refused_and_says_why(repo: Repo, patch: Path) -> None:
    before = repo.head
    ran = applied(repo, patch)
    assert ran.status == 3 and repo.head == before
    (clash,) = ran.document["conflicts"]
    assert clash["path"] == "new"
    assert "old was renamed on one side and edited on the other" in clash["reason"]
    assert "--follow-renames" in clash["reason"]


def test_followed_it_has_both_edits(repo: Repo, patch: Path) -> None:
    ran = applied(repo, patch, "--follow-renames")
    assert ran.status == 0, ran.out
    assert ran.document["followed"] == [{"path": "old", "newPath": "new"}]
    assert repo.show("main", "new").decode() == text(l3="the target's", l25="the unit's")
    assert repo.git("ls-tree", "--name-only", "main", "old") == ""


def test_a_new_path_that_the_policy_refuses_is_not_followed(repo: Repo, patch: Path) -> None:
    before = repo.head
    ran = applied(repo, patch, "--follow-renames", "--deny", "new")
    assert ran.status == 1 and ran.document["outcome"] == "policy_rejected" and repo.head == before


def test_both_edited_the_same_line_it_is_a_conflict(repo: Repo, patch: Path) -> None:
    repo.write("old", text(l25="the target's"))
    repo.commit()
    assert applied(repo, patch, "--follow-renames").status == 3
