"""Files whose names git cannot take (`.GIT`, `git~1`): refused by name, never left out and then removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

NAMES = {"dotgit in capitals": "sub/.GIT/work", "short name": "git~1/work", "a file": ".Git", "deep": "a/b/.gIt/c/d"}


def written(top: Path, name: str) -> Path:
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious\n")
    return path


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("beside", ["", "; echo also > also"], ids=["alone", "beside work"])
def test_in_a_job_the_unit_fails_and_its_worktree_is_kept(repo: Repo, name: str, beside: str) -> None:
    folder = str(Path(name).parent)
    run = f"mkdir -p {folder}; echo precious > {name}{beside}"
    ran = call("job-run", str(job_file(repo, {"units": [unit("a", run)]})), "--job", "j1", cwd=repo.path)
    assert ran.status == 3, ran.out
    assert outcomes(repo) == {"a": "failed"}
    assert name in report(repo)["workUnits"][0]["reason"]
    assert (repo.path / ".ktx/worktrees/j1/0001-a" / name).read_text() == "precious\n"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_by_hand_neither_collected_nor_closed(repo: Repo, name: str) -> None:
    assert call("worktree-open", "--job", "j1", "--unit", "u", cwd=repo.path).status == 0
    top = repo.path / ".ktx/worktrees/j1/0001-u"
    path = written(top, name)
    written(top, "sub/also")
    collected = call("patch-collect", "--job", "j1", "--unit", "u", cwd=repo.path)
    assert (collected.status, name in collected.err) == (1, True), collected.err
    for more in ([], ["--discard"]):
        closed = call("worktree-close", "--job", "j1", "--unit", "u", "--outcome", "success", *more, cwd=repo.path)
        assert (closed.status, name in closed.err) == (1, True), closed.err
        assert path.read_text() == "precious\n"
    assert call("worktree-close", "--job", "j1", "--unit", "u", "--outcome", "crash", cwd=repo.path).status == 0
    assert path.read_text() == "precious\n"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_without_a_job_neither(repo: Repo, name: str) -> None:
    opened = call("worktree-open", "ad", "--detach", "--json", cwd=repo.path)
    path = written(Path(opened.document["path"]), name)
    for more in ([], ["--discard"]):
        closed = call("worktree-close", "ad", "--outcome", "success", *more, cwd=repo.path)
        assert (closed.status, name in closed.err) == (1, True), closed.err
        assert path.read_text() == "precious\n"
    assert json.loads(json.dumps(opened.document))["state"] == "open"
