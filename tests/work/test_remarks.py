"""An old blob that comes back is a note: a stale copy takes a fix back and looks like any other change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.git.git import Git
from ktxkit.work.report import replaced
from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, report, trace, unit
from tests.support.repos import Repo

HANDED = {"left": "", "staged": "; git add -A", "committed": "; git add -A; git commit -qm back"}


@pytest.fixture
def fixed(repo: Repo) -> Repo:
    repo.write("f", "wrong\n")
    repo.write("gone", "was\n")
    repo.commit()
    repo.write("f", "right\n")
    (repo.path / "gone").unlink()
    repo.commit("the fix")
    return repo


def told(repo: Repo, command: str) -> list[str]:
    ran = call("job-run", job_file(repo, {"units": [unit("u", command)]}), "--job", "j1", cwd=repo.path)
    assert ran.status == 0 and outcomes(repo) == {"u": "accepted"}, ran.err
    warnings: list[str] = report(repo).get("warnings", [])
    return [line for line in warnings if "restores_old_content" in line]


@pytest.mark.parametrize("handed", HANDED)
def test_a_fix_that_is_taken_back_is_told(fixed: Repo, handed: str) -> None:
    fix = fixed.head
    lines = told(fixed, f"echo wrong > f{HANDED[handed]}")
    assert lines == [f"u: f is again as it was before commit {fix[:12]} changed it (restores_old_content)"]
    (event,) = [line for line in trace(fixed) if line["event"] == "restores_old_content"]
    assert event["data"]["replacedBy"] == fix and event["data"]["path"] == "f"


def test_a_file_that_was_removed_and_comes_back_is_told(fixed: Repo) -> None:
    assert len(told(fixed, "echo was > gone")) == 1


@pytest.mark.parametrize("command", ["echo new > f", "echo wrong > other", "chmod +x f", "rm f", "ln -s wrong f2"])
def test_other_changes_are_not(fixed: Repo, command: str) -> None:
    assert told(fixed, command) == []


def test_by_hand_it_is_told_by_the_command_that_lands(fixed: Repo, tmp_path: Path) -> None:
    fix = fixed.head
    note = f"f is again as it was before commit {fix[:12]} changed it (restores_old_content)"
    place = Path(call("worktree-open", "--job", "j", "--unit", "u", "--target", "main", cwd=fixed.path).out.strip())
    (place / "f").write_text("wrong\n")
    for command in ("patch-collect", "patch-apply"):
        assert call(command, "--job", "j", "--unit", "u", cwd=fixed.path).status == 0
    assert call("patch-collect", "--base", "main", "-o", tmp_path / "p", cwd=place).status == 0
    landed = call("job-land", "--job", "j", cwd=fixed.path)
    assert landed.status == 0 and f"u: {note}" in landed.err, landed
    assert f"u: {note}" in call("job-report", "--job", "j", "--json", cwd=fixed.path).document["warnings"]
    fixed.git("branch", "other", fix)
    fixed.git("switch", "-q", "other")
    applied = call("patch-apply", tmp_path / "p", "--json", cwd=fixed.path)
    assert applied.status == 0 and applied.document["remarks"] == [note], applied


def test_history_by_first_parents(fixed: Repo) -> None:
    """What a merge brought was replaced by the merge; the newest replacement is named."""
    fixed.git("checkout", "-qb", "side", "HEAD~1")
    fixed.write("side", "1\n")
    fixed.commit()
    fixed.write("f", "aside\n")
    aside = fixed.commit()
    fixed.git("checkout", "-q", "main")
    fixed.git("merge", "-q", "-s", "ours", "--no-edit", "side")
    wrong, right = (fixed.git("rev-parse", f"{at}:f") for at in ("main~2", "main~1"))
    found = replaced(Git.scrub(fixed.path, {}), "main", [b"f", b"never"])
    assert found[b"f", wrong] == fixed.git("rev-parse", "main~1")
    assert (b"f", right) not in found and (b"f", fixed.git("rev-parse", f"{aside}:f")) not in found


@pytest.mark.parametrize(("command", "stashed"), [("echo w > new; git stash -q -u", True), ("true", False)])
def test_nothing_is_checked_against_the_shared_stash(repo: Repo, command: str, stashed: bool) -> None:
    ran = call("job-run", job_file(repo, {"units": [unit("u", command)]}), "--job", "j1", cwd=repo.path)
    assert ran.status == 0 and outcomes(repo) == {"u": "noop"}, ran.err
    (entry,) = report(repo)["workUnits"]
    assert ("the shared stash changed while it ran" in entry["reason"]) is stashed, entry
