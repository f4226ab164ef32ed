"""What is not collected is accounted for: build output and caches, ignored files in any number, deliverables."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktxkit.base.errors import Refused
from ktxkit.store import jobs
from ktxkit.work import closing
from tests.support.commands import call
from tests.support.integration import Job
from tests.support.jobs import job_file, report, unit
from tests.support.repos import Repo

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, LeaseOutcome, LeftOutPath

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MANY = 20_000 if FULL else 1_000
MB = 1024 * 1024
LARGE = 1024 * MB if FULL else 16 * MB


def close(job: Job, key: str, outcome: LeaseOutcome = "success", *, discard: bool = False) -> Lease:
    return closing.close_unit(job.active, job.units[key], outcome, discard=discard)


LOOKS_MADE = [
    *("build/out.js", "dist/a/b.css", "logs/day.md", "pkg/__pycache__/a.pyc", "node_modules/x/i.js", "run.log"),
    *("model.obj", "notes.tmp", "target/debug/x", ".cache/page", "a.egg-info", "half~", "tmp/x"),
]


@pytest.mark.parametrize("how", ["left", "staged", "committed"])
def test_names_that_look_like_build_output_are_work(repo: Repo, how: str) -> None:
    job = Job.begin(repo)
    tree = job.open("u")
    for name in LOOKS_MADE:
        tree.write(name, f"{name}\n")
    if how != "left":
        tree.git("add", "-A")
    if how == "committed":
        tree.git("commit", "-qm", "all of it")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == sorted(LOOKS_MADE)
    assert "excluded" not in document
    assert job.apply("u")["outcome"] == "accepted"
    assert repo.show(job.head, "dist/a/b.css") == b"dist/a/b.css\n"
    assert "leftOut" not in close(job, "u") and not tree.path.exists()


@pytest.mark.parametrize("outcome", ["success", "empty"])
def test_what_looks_like_build_output_is_not_closed_away(repo: Repo, outcome: LeaseOutcome) -> None:
    job = Job.begin(repo)
    tree = job.open("u")
    tree.write("build/only-here", "x\n")
    with pytest.raises(Refused, match="uncommitted work"):
        close(job, "u", outcome)
    lease = close(job, "u", outcome, discard=True)
    assert repo.show(str(lease["atticRef"]), "build/only-here") == b"x\n"


def test_what_the_job_leaves_out_by_pattern_is_listed_and_keeps_the_worktree(repo: Repo) -> None:
    job = Job.begin(repo)
    tree = job.open("u", policy={"leaveOut": ["build/", "*.log", "**/*.tmp"]})
    tree.write("page.md", "work\n")
    for name in ("build/out.js", "run.log", b"\xff.tmp"):
        tree.write(name, "x")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == ["page.md"]
    assert document["excluded"]["count"] == 3 == len(document["excluded"]["sample"])
    assert job.apply("u")["outcome"] == "accepted"
    lease = close(job, "u")
    assert lease["state"] == "closed" and lease["leftOut"] == {
        "count": 3, "sample": [{"path": item["path"], **_raw(item)} for item in document["excluded"]["sample"]],
    }  # fmt: skip
    assert (tree.path / "run.log").read_text() == "x"
    again = job.repo.at(Path(str(reopened(job, "u")["path"])))
    assert again.path != tree.path and tree.path.is_dir(), "a later attempt is made beside it"


@pytest.mark.parametrize("how", ["left", "staged", "committed", "committed and changed"])
def test_what_is_left_out_is_so_however_it_was_handed_over(repo: Repo, how: str) -> None:
    repo.write("old.log", "of the base\n")
    repo.commit()
    job = Job.begin(repo)
    tree = job.open("u", policy={"leaveOut": ["build/", "*.log"]})
    for name in ("page.md", "build/out.js", "run.log", "old.log"):
        tree.write(name, "x\n")
    if how != "left":
        tree.git("add", "-A")
    if how.startswith("committed"):
        tree.git("commit", "-qm", "all of it")
    if how == "committed and changed":
        tree.write("run.log", "y\n")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == ["page.md"]
    assert [item["path"] for item in document["excluded"]["sample"]] == ["build/out.js", "old.log", "run.log"]
    assert job.apply("u")["outcome"] == "accepted"
    assert repo.show(job.head, "old.log") == b"of the base\n"
    lease = close(job, "u")
    assert lease["state"] == "closed" and lease["leftOut"]["count"] == 3 and tree.path.exists()
    assert (
        "(closed as success, with 3 not collected; its lease is closed)" in call("git-ktx", "status", cwd=repo.path).out
    )
    assert call("job-land", "--job", "j1", cwd=repo.path).status == 0
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").split()
    last = b"y\n" if how == "committed and changed" else b"x\n"
    assert [(repo.show(ref, "run.log"), repo.show(ref, "build/out.js")) for ref in refs] == [(last, b"x\n")]
    assert not tree.path.exists()


def test_by_hand_a_unit_is_opened_with_what_it_leaves_out(repo: Repo) -> None:
    opened = call("worktree-open", "--job", "j", "--unit", "u", "--leave-out", "*.log", cwd=repo.path)
    place = repo.at(Path(opened.out.strip()))
    place.write("run.log", "x")
    place.write("page.md", "x")
    place.commit()
    said = call("patch-collect", "--job", "j", "--unit", "u", "--json", cwd=repo.path)
    assert [item["path"] for item in said.document["paths"]] == ["page.md"]
    assert said.document["excluded"]["sample"][0]["path"] == "run.log"


def _raw(item: LeftOutPath) -> dict[str, str]:
    return {key: item[key] for key in ("pathB64",) if key in item}


def reopened(job: Job, key: str) -> Lease:
    return closing.open_unit(job.active, job.units[key], base=job.document["base"])


@pytest.mark.parametrize("how", ["discard", "prune"])
def test_it_goes_to_the_attic_when_somebody_says_so(repo: Repo, how: str) -> None:
    job = Job.begin(repo)
    tree = job.open("u", policy={"leaveOut": ["*.log"]})
    tree.write("run.log", "x\n")
    job.collect("u")
    lease = close(job, "u", "empty", discard=how == "discard")
    if how == "prune":
        assert "leftOut" in lease and tree.path.exists()
        assert call("worktree-open", "--prune", cwd=repo.path).status == 0
    assert not tree.path.exists()
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").split()
    assert [repo.show(ref, "run.log") for ref in refs] == [b"x\n"]


@pytest.mark.parametrize("how", ["close", "prune"])
def test_ignored_files_are_counted_and_named_before_they_go(repo: Repo, how: str) -> None:
    repo.write(".gitignore", ".env\nresults/\n__pycache__/\n")
    repo.commit()
    job = Job.begin(repo)
    tree = job.open("u")
    for name in (".env", "results/run-1.csv", "__pycache__/a.pyc"):
        tree.write(name, "x\n")
    job.collect("u")
    if how == "close":
        said = call("worktree-close", "--job", "j1", "--unit", "u", "--outcome", "empty", cwd=repo.path)
        lease = job.doc("u", "lease")
        assert lease is not None
        assert [item["path"] for item in lease["ignored"]["sample"]] == [
            ".env", "results/run-1.csv", "__pycache__/a.pyc",
        ], "caches last"  # fmt: skip
    else:
        jobs.change(job.world, "j1", lambda document: document.update({"state": "aborted"}))
        said = call("worktree-open", "--prune", cwd=repo.path)
    assert "3 ignored files (.env, results/run-1.csv, __pycache__/a.pyc)" in said.out + said.err
    assert not tree.path.exists()


def test_a_rule_that_somebody_adds_meanwhile_hides_no_work(repo: Repo) -> None:
    job = Job.begin(repo)
    tree = job.open("u")
    tree.write("page.md", "work\n")
    with (repo.path / ".git/info/exclude").open("a") as stream:
        stream.write("*.md\n")
    assert [item["path"] for item in job.collect("u")["paths"]] == ["page.md"]


def test_the_unit_says_itself_what_git_ignores(repo: Repo) -> None:
    """As a commit of everything would have it: its own rules hold for its own files."""
    job = Job.begin(repo)
    tree = job.open("u", policy={"allowControl": [".gitignore"]})
    tree.write(".gitignore", "made/\n")
    tree.write("made/x", "x\n")
    tree.write("page.md", "work\n")
    document = job.collect("u")
    assert [item["path"] for item in document["paths"]] == [".gitignore", "page.md"]
    assert [item["path"] for item in document["ignored"]["sample"]] == ["made/x"]


def test_what_a_job_file_leaves_out_is_in_the_line_and_in_the_document(repo: Repo) -> None:
    more = {"leaveOut": ["build/"]}
    file = job_file(repo, {"units": [unit("a", "mkdir build; echo x > build/bundle.js; echo 1 > page", **more)]})
    ran = call("job-run", str(file), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert "left out: 1 file (build/bundle.js)" in " ".join(ran.out.split())
    assert report(repo)["workUnits"][0]["leftOut"] == {"count": 1, "sample": [{"path": "build/bundle.js"}]}
    page = call("job-report", "--job", "j1", "--html", "-", cwd=repo.path).out
    assert '"leftOut":{"count":1,"sample":[{"path":"build/bundle.js"}]}' in page.replace(" ", "")


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
