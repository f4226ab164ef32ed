"""What is not collected is accounted for: build output and caches, ignored files in any number, deliverables."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ktxkit.work import closing
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MANY = 20_000 if FULL else 1_000
MB = 1024 * 1024
LARGE = 1024 * MB if FULL else 16 * MB


def close(job: Job, key: str, outcome: str = "success", *, discard: bool = False) -> dict[str, object]:
    return closing.close_unit(job.world, job.document, job.units[key], outcome, discard=discard)


def test_what_the_path_policy_leaves_out_is_listed_and_keeps_the_worktree(repo: Repo) -> None:
    job = Job.begin(repo)
    tree = job.open("u")
    tree.write("page.md", "work\n")
    for name in ("build/out.js", "pkg/__pycache__/a.pyc", "run.log", b"\xff.tmp"):
        tree.write(name, "x")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == ["page.md"]
    told = {item["path"]: item["reason"] for item in document["excluded"]["sample"]}
    assert document["excluded"]["count"] == 4 == len(told)
    assert (told["build/out.js"], told["run.log"]) == ("volatile_build", "volatile_log")
    assert job.apply("u")["outcome"] == "accepted"
    lease = close(job, "u")
    assert lease["state"] == "closed" and lease["leftOut"] == {
        "count": 4, "sample": [{"path": item["path"], **_raw(item)} for item in document["excluded"]["sample"]],
    }  # fmt: skip
    assert (tree.path / "run.log").read_text() == "x"
    again = job.repo.at(Path(str(reopened(job, "u")["path"])))
    assert again.path != tree.path and tree.path.is_dir(), "a later attempt is made beside it"


def _raw(item: dict[str, str]) -> dict[str, str]:
    return {key: item[key] for key in ("pathB64",) if key in item}


def reopened(job: Job, key: str) -> dict[str, object]:
    return closing.open_unit(job.world, job.document, job.units[key], base=job.document["base"])


@pytest.mark.parametrize("how", ["discard", "prune", "ignored"])
def test_it_goes_when_somebody_says_so(repo: Repo, how: str) -> None:
    if how == "ignored":
        repo.write(".gitignore", "*.log\n")
        repo.commit()
    job = Job.begin(repo)
    tree = job.open("u")
    tree.write("run.log", "x")
    job.collect("u")
    lease = close(job, "u", "empty", discard=how == "discard")
    if how == "prune":
        assert "leftOut" in lease and tree.path.exists()
        assert call("worktree-open", "--prune", cwd=repo.path).status == 0
    assert not tree.path.exists()


def test_a_declared_deliverable_is_collected_though_it_is_ignored(repo: Repo) -> None:
    repo.write(".gitignore", "out/\n*.log\n")
    repo.commit()
    job = Job.begin(repo)
    tree = job.open("u", policy={"deliverables": ["out/report.json", "logs/"]})
    for name in ("out/report.json", "out/other.json", "logs/a.log", "b.log"):
        tree.write(name, "x\n")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == ["logs/a.log", "out/report.json"]
    assert [item["path"] for item in document["ignored"]["sample"]] == ["b.log", "out/other.json"]
    assert job.apply("u")["outcome"] == "accepted"
    assert repo.show(job.head, "logs/a.log") == b"x\n"


def test_many_ignored_files_and_a_large_environment_do_not_hurt(repo: Repo) -> None:
    """They are counted to the last one, never read; the long form has 20,000 of them and 1 GB."""
    repo.write(".gitignore", ".venv/\n*.ign\n")
    repo.commit()
    job = Job.begin(repo)
    tree = job.open("u")
    for number in range(MANY):
        tree.write(f".venv/lib/d{number // 100}/f{number}.py", "x\n")
    with (tree.path / ".venv/large.so").open("wb") as stream:
        stream.truncate(LARGE)
    tree.write("a.ign", "x\n")
    tree.write("page.md", "work\n")
    began = time.perf_counter()
    tree.git("status", "--porcelain=v2", "-z", "-uall", "--ignored=traditional")
    middle = time.perf_counter()
    document = job.collect("u")
    print(f"git status {middle - began:.2f} s, collecting {time.perf_counter() - middle:.2f} s, {MANY} ignored files")
    assert document["ignored"]["count"] == MANY + 2
    assert len(document["ignored"]["sample"]) == 20
    assert [item["path"] for item in document["paths"]] == ["page.md"]
    assert job.apply("u")["outcome"] == "accepted"
    assert "leftOut" not in close(job, "u") and not tree.path.exists()
