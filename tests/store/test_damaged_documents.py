"""Whatever is damaged under `.ktx/` ends as status 5 that names the file: never a traceback, a guess or a change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import call, spawn
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

UNIT = "jobs/j1/units/0001-a"
READERS = {
    "jobs/j1/job.json": [["ledger-query", "job", "j1"], ["job-land", "--job", "j1"], ["job-run", "--resume", "j1"]],
    f"{UNIT}/lease.json": [["worktree-close", "--job", "j1", "--unit", "a", "--outcome", "crash"]],
    f"{UNIT}/patch.json": [["patch-apply", "--job", "j1", "--unit", "a"]],
    f"{UNIT}/receipt.json": [["patch-apply", "--job", "j1", "--unit", "a"], ["job-run", "--resume", "j1"]],
    "jobs/j1/job-file.json": [["job-run", "--resume", "j1"]],
    "ingest-traces/j1/trace.jsonl": [["ledger-query", "trace", "j1"]],
}
CASES = [(name, command) for name, commands in READERS.items() for command in commands]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that did not land: one unit accepted, one in conflict, `onConflict: stop`."""
    repo = Repo.init(tmp_path_factory.mktemp("damaged") / "repo")
    repo.write("README", "a repository\n")
    for key in ("user.name", "user.email"):
        repo.git("config", key, "u@example.invalid")
    repo.commit("first")
    units = [unit("a", "echo a > same"), unit("b", "echo b > same")]
    path = job_file(repo, {"onConflict": "stop", "units": units})
    assert spawn("job-run", str(path), "--job", "j1", cwd=repo.path).status == 3
    return repo.path


def damages(whole: bytes, lines: bool) -> dict[str, bytes]:
    first = whole.partition(b"\n")[0] if lines else whole
    document = json.loads(first)

    def again(changed: dict[str, object]) -> bytes:
        return json.dumps({**document, **changed}).encode() + whole[len(first) :]

    cut = first[:-3] + whole[len(first) :] if lines else whole[:-3]
    return {
        "cut off": cut,
        "foreign": b"\x00\xff\n" + (whole if lines else b""),
        "unknown version": again({"schemaVersion": 99}),
        "unknown key": again({"surprise": True}),
    }


@pytest.mark.parametrize("what", ["cut off", "foreign", "unknown version", "unknown key"])
@pytest.mark.parametrize(("name", "command"), CASES, ids=[f"{c[0]} {n}" for n, c in CASES])
def test_damaged(stopped: Path, tmp_path: Path, name: str, command: list[str], what: str) -> None:
    place = tmp_path / "repo"
    shutil.copytree(stopped, place, symlinks=True)
    document = place / ".ktx" / name
    document.write_bytes(damages(document.read_bytes(), name.endswith(".jsonl"))[what])
    before = Repo(place).git("rev-parse", "main")
    run = spawn if command[0] == "job-run" else call  # a process that has read a job's file holds it
    ran = run(command[0], *command[1:], cwd=place)
    assert ran.status == 5, (ran.status, ran.out, ran.err)
    assert str(document) in ran.err + ran.out
    assert "Traceback" not in ran.err
    assert Repo(place).git("rev-parse", "main") == before


def test_status_names_each_damaged_document_once(stopped: Path, tmp_path: Path) -> None:
    place = tmp_path / "repo"
    shutil.copytree(stopped, place, symlinks=True)
    broken = [path for path in (place / ".ktx/jobs/j1").rglob("*.json") if path.name != "job.json"]
    (place / ".ktx/jobs/j1/landing.json").write_text("{")
    for path in broken:
        path.write_bytes(path.read_bytes()[:-3])
    shown = spawn("git-ktx", "status", cwd=place)
    assert shown.status == 1 and "Traceback" not in shown.err
    lines = [line for line in shown.out.splitlines() if line.startswith("Damaged: ")]
    assert len(lines) == len(set(lines)) and not any("Damaged: Damaged" in line for line in lines)
    for path in [*broken, place / ".ktx/jobs/j1/landing.json"]:
        assert [line for line in lines if line.startswith(f"Damaged: {path}: ")], (path.name, shown.out)
    assert "  next: look at its damaged documents" in shown.out and "next: job-run --resume" not in shown.out
    assert {path.name for path in broken} >= {"report.json", "receipt.json", "lease.json", "job-file.json"}


@pytest.mark.parametrize("name", ["jobs/j1/job.json", f"{UNIT}/lease.json"])
def test_the_others_are_listed_and_the_damaged_one_is_named(stopped: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / "repo"
    shutil.copytree(stopped, place, symlinks=True)
    assert call("worktree-open", "--job", "j2", "--unit", "other", cwd=place).status == 0
    document = place / ".ktx" / name
    document.write_bytes(b'{"schemaVersion": 1')
    listed = call("worktree-open", "--list", "--json", cwd=place)
    assert listed.status == 5
    assert [row["where"] for row in listed.document["damaged"]] == [str(document)]
    assert "other" in [row.get("unitKey") for row in listed.document["worktrees"]]
    for command in (["worktree-open", "--prune"], ["git-ktx", "clean"], ["git-ktx", "clean", "--yes"]):
        ran = call(command[0], *command[1:], cwd=place) if command[0] != "git-ktx" else spawn(*command, cwd=place)
        assert (ran.status, ran.out.count(f"Damaged: {document}: ")) == (5, 1), ran
    assert (place / ".ktx/worktrees/j2/0001-other").is_dir() and document.exists()
    inside = call("worktree-close", "--outcome", "crash", cwd=place / ".ktx/worktrees/j2/0001-other")
    assert inside.status == 0, inside


def test_a_job_that_lost_its_document_is_named(stopped: Path, tmp_path: Path) -> None:
    """`git ktx status` passed over it, and the error asked whether j1 was meant by j1."""
    place = tmp_path / "repo"
    shutil.copytree(stopped, place, symlinks=True)
    document = place / ".ktx/jobs/j1/job.json"
    document.unlink()
    for command in (["job-run", "--resume", "j1"], ["job-land", "--job", "j1"], ["git-ktx", "clean", "--yes"]):
        ran = call(command[0], *command[1:], cwd=place)
        assert (ran.status, str(document) in ran.out + ran.err) == (5, True), ran
        assert "did you mean j1" not in ran.err
    shown = call("git-ktx", "status", cwd=place)
    assert shown.status == 1 and f"Damaged: {document}: the job's own document is gone" in shown.out
    assert Repo(place).git("for-each-ref", "--format=%(refname)", "refs/ktx/units/j1") != ""


def test_a_job_file_alone_is_no_damage(stopped: Path, tmp_path: Path) -> None:
    """What a process leaves that was killed before it wrote the job's document: the job can be begun again."""
    place = tmp_path / "repo"
    shutil.copytree(stopped, place, symlinks=True)
    (place / ".ktx/jobs/j2").mkdir()
    shutil.copy(place / ".ktx/jobs/j1/job-file.json", place / ".ktx/jobs/j2/job-file.json")
    assert "Damaged" not in call("git-ktx", "status", cwd=place).out
    unknown = call("job-land", "--job", "j2", cwd=place)
    assert unknown.status == 2 and "no job 'j2' here" in unknown.err
