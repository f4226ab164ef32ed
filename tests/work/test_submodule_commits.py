"""A tree that names a commit of a submodule which nobody else has: refused, or allowed and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

READY = (
    "git submodule --quiet update --init && cd vendored && git checkout -q -B work && echo y >> s && git commit -qam y"
)
UP = "cd .. && git add vendored && git commit -qm bump"
BUMPS = {"committed": UP, "staged": "cd .. && git add vendored", "left": "true"}


@pytest.fixture
def nested(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with a submodule from a bare one."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    home = Path(repo.git("var", "GIT_CONFIG_GLOBAL", check=False) or tmp_path / "none")
    assert not home.exists() or tmp_path in home.parents
    source = Repo.init(tmp_path / "source")
    source.write("s", "s\n")
    source.commit()
    source.git("clone", "-q", "--bare", ".", tmp_path / "hub.git")
    repo.git("submodule", "--quiet", "add", str(tmp_path / "hub.git"), "vendored")
    repo.commit()
    return repo


def ran(repo: Repo, command: str, **policy: object) -> str:
    document = {"units": [unit("bump", f"export GIT_ALLOW_PROTOCOL=file; {command}", **policy)]}
    call("job-run", job_file(repo, document), "--job", "j1", cwd=repo.path)
    return outcomes(repo)["bump"]


@pytest.mark.parametrize("way", BUMPS)
def test_a_commit_that_no_remote_has_is_refused(nested: Repo, way: str) -> None:
    before = nested.head
    assert ran(nested, f"{READY} && {BUMPS[way]}") == "policy_rejected"
    assert nested.head == before
    entry = report(nested)["workUnits"][0]
    assert "no remote" in entry["reason"] and "vendored" in entry["reason"], entry


@pytest.mark.parametrize("way", BUMPS)
def test_allowed_it_lands_and_the_report_names_it(nested: Repo, way: str) -> None:
    assert ran(nested, f"{READY} && {BUMPS[way]}", allowUnpublished=True) == "accepted"
    told = report(nested)["warnings"]
    assert any("vendored" in line and "no remote" in line for line in told), told
    kept = nested.path / ".ktx/worktrees/j1/0001-bump/vendored"
    assert Repo(kept).git("show", "work:s") == "s\ny", "the only place that has the commit stays"


def test_a_commit_that_was_pushed_lands(nested: Repo) -> None:
    assert ran(nested, f"{READY} && git push -q origin HEAD:work && {UP}") == "accepted"
    assert "warnings" not in report(nested)


def test_a_commit_that_was_fetched_by_its_id_lands(nested: Repo, tmp_path: Path) -> None:
    """No branch of the remote has it: a release's tag, say."""
    source = Repo(tmp_path / "source")
    source.git("checkout", "-q", "--detach")
    source.write("s", "release\n")
    commit = source.commit()
    source.git("push", "-q", tmp_path / "hub.git", f"{commit}:refs/tags/v1")
    Repo(tmp_path / "hub.git").git("config", "uploadpack.allowAnySHA1InWant", "true")
    take = f"git fetch -q origin {commit} && git checkout -q {commit}"
    assert ran(nested, f"git submodule --quiet update --init && cd vendored && {take} && {UP}") == "accepted"
