"""Large changes: memory stays bounded by git's own, and above git's limit objects are handed over, which is said.

The long form (KTX_TEST_FULL=1) changes 300 MB.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from ktxkit.base.clock import Limits
from tests.support import memory
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MB = 1024 * 1024
SIZE = (300 if FULL else 10) * MB
SPARE = 24 * MB if FULL else 4 * MB  # what our own process may take beside what it takes for a small change


@pytest.fixture
def large(repo: Repo) -> Repo:
    """A repository whose worktree has a large binary file that nothing compresses, not yet committed."""
    source = random.Random(1)
    with (repo.path / "large.bin").open("wb") as stream:
        for _ in range(SIZE // MB):
            stream.write(source.randbytes(MB))
    return repo


def test_a_large_change_takes_the_memory_that_git_takes(large: Repo, tmp_path: Path) -> None:
    base = large.head
    small = Repo.init(tmp_path / "small")
    small.write("a", "a\n")
    small.commit()
    small.write("a", "b\n")
    baseline = memory.of_command("patch-collect", "--base", "HEAD", "-o", tmp_path / "s", cwd=small.path)
    collected = memory.of_command("patch-collect", "--base", base, "-o", tmp_path / "p", cwd=large.path)
    assert (baseline.status, collected.status) == (0, 0)
    assert (tmp_path / "p").stat().st_size > SIZE
    (large.path / "large.bin").unlink()
    applied = memory.of_command("patch-apply", tmp_path / "p", cwd=large.path)
    assert applied.status == 0 and (large.path / "large.bin").stat().st_size == SIZE
    diff = memory.of_git("diff", "--binary", base, "HEAD", cwd=large.path)
    large.git("checkout", "-q", "--detach", base)
    apply = memory.of_git("apply", "--index", tmp_path / "p", cwd=large.path)
    own = max(diff.children, apply.children)
    print(json.dumps({"size": SIZE, "baseline": baseline.own, "collect": [collected.own, collected.children],
                      "apply": [applied.own, applied.children], "git": [diff.children, apply.children]}))  # fmt: skip
    assert max(collected.own, applied.own) < baseline.own + SPARE
    assert max(collected.children, applied.children) < 2 * own


# -- above git's limit -------------------------------------------------------------------------------

SMALL = Limits(patch_bytes=1000)


def test_above_the_limit_a_unit_hands_over_objects(repo: Repo) -> None:
    job = Job.begin(repo, limits=SMALL)
    tree = job.open("u")
    tree.write("b.bin", random.Random(1).randbytes(2000))
    document = job.collect("u")
    assert (document["outcome"], document["transport"]) == ("collected", "objects")
    assert "patchDigest" not in document and document["paths"][0]["newSize"] == 2000
    assert not list((repo.path / ".ktx/ingest-patches").rglob("*.patch"))
    receipt = job.apply("u")
    assert (receipt["outcome"], receipt["transport"]) == ("accepted", "objects")
    assert "patchDigest" not in receipt
    assert repo.git("rev-parse", f"{job.head}^{{tree}}") == document["tree"]
    assert job.land()["outcome"] == "done"


def test_by_hand_too(repo: Repo, tmp_path: Path) -> None:
    repo.write("b.bin", random.Random(1).randbytes(2000))
    ran = call("patch-collect", "--base", "HEAD", "-o", tmp_path / "p", cwd=repo.path, limits=SMALL)
    assert ran.status == 0, ran.err
    assert "by objects" in ran.err + ran.out
    assert not (tmp_path / "p").exists() and (tmp_path / "p.json").is_file()
    (repo.path / "b.bin").unlink()
    ran = call("patch-apply", tmp_path / "p", "--json", cwd=repo.path)
    assert (ran.status, ran.document["transport"]) == (0, "objects"), ran
    assert (repo.path / "b.bin").stat().st_size == 2000


def test_objects_that_are_not_here_are_no_guess(repo: Repo, tmp_path: Path) -> None:
    repo.git("clone", "-q", repo.path, str(tmp_path / "there"))
    repo.write("b.bin", random.Random(1).randbytes(2000))
    assert call("patch-collect", "--base", "HEAD", "-o", tmp_path / "p", cwd=repo.path, limits=SMALL).status == 0
    ran = call("patch-apply", tmp_path / "p", cwd=tmp_path / "there")
    assert ran.status == 5 and "its objects are gone and it has no patch" in ran.err
