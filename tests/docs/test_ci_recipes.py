"""The recipes for CI are run as a runner would: a shallow clone of one ref, a commit checked out and no branch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.rules.strict_yaml import read
from tests.support.commands import BIN
from tests.support.console import blocks
from tests.support.repos import Repo

PAGE = Path(__file__).resolve().parents[2] / "docs/recipes/ci.md"
OURS = ("pip install",)  # what the runner's image would need first


def scripts() -> dict[str, list[str]]:
    """The script lines of each job of the page, GitHub's `run` steps too, by the block's place and the job's name."""
    found: dict[str, list[str]] = {}
    for block in blocks(PAGE.read_text("utf-8")):
        if block.language != "yaml":
            continue
        parsed = read(block.text.encode())
        assert parsed.root is not None and not parsed.problems, (block.line, parsed.problems)
        data: Any = parsed.root.data()
        github = "jobs" in data
        for name, job in (data["jobs"] if github else data).items():
            lines = [step["run"] for step in job["steps"] if "run" in step] if github else job["script"]
            after = [] if github else job.get("after_script", [])
            found[f"{'github ' if github else ''}{name}"] = [*lines, *after]
    return found


def test_there_are_recipes_for_both() -> None:
    assert set(scripts()) == {"github gates", "gates", "codemods", "tests", "messages"}


@pytest.fixture
def forge(tmp_path: Path) -> Repo:
    """main, and a branch `topic` of two commits that is to be merged."""
    repo = Repo.init(tmp_path / "forge")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.write("wiki/global/a.md", "---\nsummary: A page\n---\n\n# A\n")
    repo.write("test_a.py", "def test_a():\n    pass\n")
    repo.write("job.yaml", "units: [{key: note, run: 'echo 1 > note'}]\n")
    for number in range(3):
        repo.write("log", f"{number}\n")
        repo.commit(f"main {number}")
    repo.git("switch", "-q", "-c", "topic")
    repo.write("wiki/global/b.md", "---\nsummary: Another\nrefs: [gone]\n---\n\n# B\n")
    repo.commit("A page with a reference that leads nowhere")
    repo.write("log", "topic\n")
    repo.commit("Another change\n\nAll tests pass.\n")
    return repo


def runner(forge: Repo, place: Path, *, depth: int) -> tuple[Repo, dict[str, str]]:
    """What a runner has when the script begins, and its variables."""
    sha, base = forge.git("rev-parse", "topic"), forge.git("merge-base", "topic", "main")
    made = Repo.init(place)
    made.git("remote", "add", "origin", f"file://{forge.path}")
    refs = ["+refs/heads/topic:refs/remotes/origin/topic"] if depth else ["+refs/heads/*:refs/remotes/origin/*"]
    made.git("fetch", "-q", *([f"--depth={depth}"] if depth else []), "origin", *refs)
    made.git("checkout", "-q", "--detach", sha)
    env = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": sha, "CI_COMMIT_REF_NAME": "topic",
        "CI_PIPELINE_ID": "7", "PATH": f"{BIN}:{os.environ['PATH']}",
    }  # fmt: skip
    return made, env


def run(place: Repo, env: dict[str, str], lines: list[str]) -> list[subprocess.CompletedProcess[str]]:
    return [
        subprocess.run(["bash", "-c", line], cwd=place.path, env={**os.environ, **env}, capture_output=True, text=True)
        for line in lines
        if not line.startswith(OURS)
    ]


def test_gates_on_gitlab_find_what_the_branch_brought(forge: Repo, tmp_path: Path) -> None:
    place, env = runner(forge, tmp_path / "ci", depth=1)
    fetched, checked = run(place, env, scripts()["gates"])
    assert fetched.returncode == 0, fetched
    found = json.loads((place.path / "gates.json").read_text())
    assert checked.returncode == 1 and [one["location"]["path"] for one in found] == ["wiki/global/b.md"], checked


def test_gates_on_github_do_too(forge: Repo, tmp_path: Path) -> None:
    place, env = runner(forge, tmp_path / "ci", depth=0)
    (checked,) = run(place, env, scripts()["github gates"])
    assert checked.returncode == 1 and "::error file=wiki/global/b.md" in checked.stdout, checked


def test_without_the_fetch_the_message_says_it(forge: Repo, tmp_path: Path) -> None:
    place, env = runner(forge, tmp_path / "ci", depth=1)
    (checked,) = run(place, env, ["gate-check --changed-since origin/main"])
    assert checked.returncode == 2 and "git fetch origin main:refs/remotes/origin/main" in checked.stderr


def test_a_whole_job_in_ci(forge: Repo, tmp_path: Path) -> None:
    place, env = runner(forge, tmp_path / "ci", depth=1)
    done = run(place, env, scripts()["codemods"])
    assert [one.returncode for one in done] == [0] * len(done), done
    assert place.show("topic", "note") == b"1\n" and (place.path / "report.html").stat().st_size > 10_000


def test_claims_are_held_against_the_ledger_of_another_job(forge: Repo, tmp_path: Path) -> None:
    tests, env = runner(forge, tmp_path / "tests", depth=1)
    (ran,) = run(tests, env, scripts()["tests"])
    assert ran.returncode == 0, ran
    place, env = runner(forge, tmp_path / "ci", depth=1)
    fetch, *_, judge = scripts()["messages"]
    bare = run(place, env, [fetch, judge])
    assert bare[1].returncode == 1 and "claim-unknown" in bare[1].stdout, "without a ledger nothing bears the claim out"
    place, env = runner(forge, tmp_path / "again", depth=1)
    (place.path / ".ktx").mkdir(exist_ok=True)
    (tests.path / ".ktx/ledger").rename(place.path / ".ktx/ledger")
    (place.path / ".ktx/ledger/key").unlink(missing_ok=True)
    done = run(place, env, scripts()["messages"])
    assert [one.returncode for one in done] == [0] * len(done), done


def test_a_git_note_carries_the_ledger(forge: Repo, tmp_path: Path) -> None:
    there, here = [block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "sh"]
    tests, env = runner(forge, tmp_path / "tests", depth=1)
    tests.git("config", "user.name", "CI")
    tests.git("config", "user.email", "ci@example.invalid")
    place, env = runner(forge, tmp_path / "ci", depth=0)
    (judged,) = run(place, env, [here.splitlines()[-1]])
    assert judged.returncode == 1 and "claim-unknown" in judged.stdout, judged
    (carried,) = run(tests, env, [f"set -e\n{there}"])
    assert carried.returncode == 0, carried
    (judged,) = run(place, env, [f"set -e\n{here}"])
    assert judged.returncode == 0, judged
