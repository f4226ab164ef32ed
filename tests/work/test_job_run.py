"""Whole jobs, on real repositories, through the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ktxkit.work.job import unit as job_unit
from tests.support.commands import Ran, call, script, spawn
from tests.support.jobs import job_file, outcomes, report, trace, unit
from tests.support.repos import Repo


def run(repo: Repo, document: dict[str, Any], *args: str, env: dict[str, str] | None = None) -> Ran:
    path = job_file(repo, document)
    return call("job-run", str(path), "--job", "j1", *args, cwd=repo.path, env=env)


def test_two_units_land_in_one_commit(repo: Repo) -> None:
    before = repo.head
    ran = run(repo, {"units": [unit("a", "echo a > a.txt"), unit("b", "mkdir d && echo b > d/b.txt")]})
    assert ran.status == 0, ran.err
    assert repo.git("rev-parse", "main^") == before
    assert repo.git("diff", "--name-only", before, "main").split() == ["a.txt", "d/b.txt"]
    assert (repo.path / "d/b.txt").read_text() == "b\n", "the checkout follows its branch"
    assert repo.git("status", "--porcelain") == ""
    assert outcomes(repo) == {"a": "accepted", "b": "accepted"}
    assert f"Trace: {repo.path}/.ktx/ingest-traces/j1/trace.jsonl" in ran.out


def test_integration_follows_unit_order_whatever_ends_first(repo: Repo) -> None:
    slow, quick = "sleep 0.5; echo slow > same.txt", "echo quick > same.txt"
    ran = run(repo, {"maxParallel": 2, "units": [unit("slow", slow), unit("quick", quick)]})
    assert ran.status == 3
    assert outcomes(repo) == {"slow": "accepted", "quick": "textual_conflict"}
    assert repo.show("main", "same.txt") == b"slow\n"


def test_a_failed_unit_is_kept_and_the_rest_lands(repo: Repo) -> None:
    ran = run(
        repo, {"units": [unit("bad", "echo half > half.txt; echo why >&2; exit 7"), unit("good", "echo g > g.txt")]}
    )
    assert ran.status == 3
    assert outcomes(repo) == {"bad": "failed", "good": "accepted"}
    assert (repo.path / ".ktx/worktrees/j1/0001-bad/half.txt").read_text() == "half\n"
    assert (repo.path / ".ktx/jobs/j1/units/0001-bad/stderr.log").read_text() == "why\n"
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-bad/result.json").read_text())
    assert (result["outcome"], result["exitStatus"]) == ("failed", 7)
    assert "bad" in ran.out and "status 7" in ran.out


def test_abort_on_failure_lands_nothing(repo: Repo) -> None:
    before = repo.head
    units = [unit("good", "echo g > g.txt"), unit("bad", "exit 1"), unit("late", "echo l > l.txt", after=["bad"])]
    ran = run(repo, {"onFailure": "abort", "units": units})
    assert ran.status == 3
    assert repo.git("rev-parse", "main") == before
    assert "nothing landed" in ran.err


def test_stop_on_conflict_lands_nothing(repo: Repo) -> None:
    before = repo.head
    units = [unit("a", "echo a > same.txt"), unit("b", "echo b > same.txt")]
    ran = run(repo, {"onConflict": "stop", "units": units})
    assert ran.status == 3
    assert repo.git("rev-parse", "main") == before
    assert outcomes(repo)["b"] == "textual_conflict"


def test_a_unit_over_its_time_limit_is_ended_with_its_children(repo: Repo) -> None:
    ran = run(repo, {"units": [unit("slow", "trap '' TERM; sleep 600 & wait; sleep 600", timeLimit=0.5)]})
    assert ran.status == 3
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-slow/result.json").read_text())
    assert result["outcome"] == "timed_out"
    assert "0.5 seconds" in result["message"]


def test_a_daemon_that_left_the_group_is_ended_and_named(repo: Repo) -> None:
    ran = run(repo, {"units": [unit("forks", "setsid sleep 987 & sleep 0.2; echo f > f.txt")]})
    assert ran.status == 0, ran.err
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-forks/result.json").read_text())
    assert any("sleep 987" in stray for stray in result["strays"])
    assert not subprocess.run(["pgrep", "-f", "sleep 987"], capture_output=True, check=False).stdout


ORPHANS = {
    "971": "env -i setsid sleep 971 &",
    "972": "(cd /; env -i setsid sleep 972 < /dev/null > /dev/null 2>&1 &)",
    "973": "setsid sh -c 'cd /; env -i sleep 973 & exit' &",
    "974": "env -i setsid sh -c 'ulimit -n 20; trap : TERM HUP INT; sleep 974; sleep 974' &",
    "975": "env -i setsid sh -c 'while :; do (sleep 975 &); sleep 0.01; done' &",
}


def test_processes_that_leave_group_environment_and_directory_are_ended_with_the_unit_and_named(repo: Repo) -> None:
    """Beside another unit, whose own processes go on."""
    starts, done = "\n".join(ORPHANS.values()), repo.path.parent / "done"
    units = [
        unit("forks", f"{starts}\nsleep 0.3; echo f > f.txt"),
        unit(
            "other",
            f"setsid sh -c 'sleep 1.5; echo o > o.txt; touch {done}' & until test -e {done}; do sleep 0.1; done",
        ),
    ]
    ran = run(repo, {"maxParallel": 2, "units": units})
    assert ran.status == 0 and repo.show("main", "o.txt") == b"o\n", ran
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-forks/result.json").read_text())
    assert {number for number in ORPHANS if f"sleep {number}" in " ".join(result["strays"])} == ORPHANS.keys()
    assert not subprocess.run(["pgrep", "-f", "sleep 97[1-5]"], capture_output=True, check=False).stdout
    assert "left running, ended" in call("job-report", "--job", "j1", cwd=repo.path).out


def test_a_file_that_takes_long_to_read_counts_against_the_units_time(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_unit, "COLLECTING", 0.3)
    units = [unit("big", "truncate -s 3G big", timeLimit=1), unit("small", "echo s > s")]
    ran = run(repo, {"units": units})
    assert outcomes(repo) == {"big": "failed", "small": "accepted"}
    assert "what it left could not be collected within its 1 seconds" in " ".join(ran.out.split())
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "s"]
    assert (repo.path / ".ktx/worktrees/j1/0001-big/big").exists(), "what it did is kept"


def test_units_with_after_start_from_the_head_that_holds_what_they_name(repo: Repo) -> None:
    units = [
        unit("reader", "cat one.txt two.txt > both.txt", after=["two", "one"]),
        unit("one", "echo 1 > one.txt"),
        unit("two", "sleep 0.2; echo 2 > two.txt"),
    ]
    ran = run(repo, {"maxParallel": 3, "units": units})
    assert ran.status == 0, ran.err
    assert repo.show("main", "both.txt") == b"1\n2\n"


def test_what_waits_for_a_failed_unit_is_skipped(repo: Repo) -> None:
    units = [unit("a", "exit 1"), unit("b", "echo b > b.txt", after=["a"]), unit("c", "echo c > c.txt")]
    assert run(repo, {"units": units}).status == 3
    assert outcomes(repo) == {"a": "failed", "b": "skipped", "c": "accepted"}


REFUSED = {
    "circle": ({"units": [unit("a", "x", after=["b"]), unit("b", "x", after=["a"])]}, 2, "circle"),
    "unknown after": ({"units": [unit("a", "x", after=["b"])]}, 2, "unknown unit"),
    "key twice": ({"units": [unit("a", "x"), unit("a", "y")]}, 2, "stands twice"),
    "no command": ({"units": [{"key": "a"}]}, 2, "has no command"),
    "unknown key": ({"unit": []}, 2, "unit"),
    "unknown target": ({"target": "nowhere", "units": []}, 2, "nowhere"),
}


@pytest.mark.parametrize(("document", "status", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_before_anything_runs(repo: Repo, document: dict[str, Any], status: int, message: str) -> None:
    ran = run(repo, document)
    assert ran.status == status
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not (repo.path / ".ktx/jobs").exists()


BAD_YAML = {
    "key twice": ("schemaVersion: 1\nunits: []\nunits: []\n", "job.yaml:3:1"),
    "alias": ("a: &x [1]\nb: *x\n", "job.yaml:1:4"),
    "not a mapping": ("- a\n", "a mapping"),
    "empty": ("", "a mapping"),
    "broken": ("units: [\n", "job.yaml:"),
    "not text": (b"\xff\xfe", "not UTF-8"),
}


@pytest.mark.parametrize(("text", "message"), BAD_YAML.values(), ids=BAD_YAML)
def test_a_job_file_that_is_no_yaml_is_refused_with_its_place(repo: Repo, text: str | bytes, message: str) -> None:
    path = repo.path.parent / "job.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = spawn("job-run", str(path), cwd=repo.path)
    assert ran.status == 2
    assert message in ran.err and "Traceback" not in ran.err


def test_a_missing_job_file_is_refused(repo: Repo) -> None:
    ran = spawn("job-run", "nowhere.yaml", cwd=repo.path)
    assert (ran.status, "no such job file" in ran.err) == (2, True)


def test_the_trace_tells_the_whole_story_in_order(repo: Repo) -> None:
    assert run(repo, {"units": [unit("a", "echo a > a.txt")]}).status == 0
    told = [event["event"] for event in trace(repo)]
    wanted = [
        "ingest_started",
        "input_snapshot",
        "isolated_diff_enabled",
        "work_unit_child_created",
        "work_unit_patch_collected",
        "patch_apply_started",
        "patch_accepted",
        "final_artifact_gates_started",
        "final_artifact_gates_finished",
        "ingest_finished",
    ]
    assert [name for name in told if name in wanted] == wanted
    for event in trace(repo):
        assert event["jobId"] == "j1"
        if event["event"].startswith(("work_unit", "patch_")):
            assert event["data"]["unitKey"] == "a"


def test_the_projection_is_the_base_that_every_unit_sees(repo: Repo) -> None:
    start = repo.head
    project = """echo made > made.txt; echo '{"warnings": ["old"], "touchedSources": ["wh/orders"]}'"""
    ran = run(repo, {"project": project, "units": [unit("a", "cp made.txt seen.txt")]})
    assert ran.status == 0, ran.err
    job = json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())
    assert job["base"] == job["projection"] != start
    assert job["projectionResult"] == {
        "warnings": ["old"],
        "touchedSources": [{"connectionId": "wh", "sourceName": "orders"}],
    }
    assert repo.show("main", "seen.txt") == b"made\n"
    assert repo.git("rev-parse", "main^") == start, "one commit, the projection in it"


BAD_PROJECTIONS = {
    "reports errors": ("""echo '{"errors": ["no such table"]}'""", 3, "no such table"),
    "fails": ("exit 4", 3, "status 4"),
    "prints something else": ("echo hello", 5, "not JSON"),
}


@pytest.mark.parametrize(("project", "status", "message"), BAD_PROJECTIONS.values(), ids=BAD_PROJECTIONS)
def test_a_bad_projection_ends_the_job_before_a_child_exists(
    repo: Repo, project: str, status: int, message: str
) -> None:
    before = repo.head
    ran = run(repo, {"project": project, "units": [unit("a", "echo a > a.txt")]})
    assert (ran.status, message in ran.err + ran.out) == (status, True), (ran.status, ran.err)
    assert repo.git("rev-parse", "main") == before
    assert not [event for event in trace(repo) if event["data"].get("unitKey") == "a"]
    report = json.loads((repo.path / ".ktx/jobs/j1/report.json").read_text())
    assert report["failure"]["phase"] == "projection"


def test_a_plan_command_prints_units(repo: Repo) -> None:
    plan = """printf '{"key": "p%s", "run": "echo %s > p%s.txt"}\\n' 1 1 1 2 2 2"""
    assert run(repo, {"plan": plan}).status == 0
    assert outcomes(repo) == {"p1": "accepted", "p2": "accepted"}


def test_a_bad_line_of_a_plan_is_named(repo: Repo) -> None:
    ran = run(repo, {"plan": """echo '{"key": "a", "run": "x"}'; echo '{"kye": "b"}'"""})
    assert ran.status == 5
    assert "plan command, line 2" in ran.err


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("exit 3", "the plan command ended with status 3, without a word on its stderr"),
        ("echo no database >&2; exit 3", "the plan command ended with status 3: no database"),
        ("no-such-command-at-all", "the plan command ended with status 127"),
        ("kill -9 $$", "the plan command was ended by signal SIGKILL, without a word on its stderr"),
        ("yes | head -c 40000000", "the plan command printed 40000000 bytes, which is more than are read"),
    ],
)
def test_a_plan_that_fails_says_why_or_that_it_said_nothing(repo: Repo, plan: str, message: str) -> None:
    ran = run(repo, {"plan": plan})
    assert (ran.status, message in ran.err) == (3, True), ran.err
    assert not (repo.path / ".ktx/jobs").exists()


@pytest.mark.parametrize("document", [{"units": []}, {"plan": "true"}], ids=["no units", "a plan of none"])
def test_a_job_without_units_says_so(repo: Repo, document: dict[str, Any]) -> None:
    ran = run(repo, document)
    assert (ran.status, "the job has no units: nothing was done" in ran.err) == (0, True), ran.err


def test_reconciliation_works_on_the_integrated_tree(repo: Repo) -> None:
    document = {
        "units": [unit("a", "echo a > a.txt"), unit("b", "exit 1")],
        "reconcile": "cat a.txt > merged.txt",
    }
    assert run(repo, document).status == 3
    assert outcomes(repo) == {"a": "accepted", "b": "failed", "reconcile": "accepted"}
    assert repo.show("main", "merged.txt") == b"a\n"


def test_nothing_to_do_is_said_and_makes_no_commit(repo: Repo) -> None:
    before = repo.head
    ran = run(repo, {"units": [unit("a", "true")]})
    assert ran.status == 0
    assert repo.git("rev-parse", "main") == before
    assert outcomes(repo) == {"a": "noop"}
    assert json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())["outcome"] == "noop"


def test_interrupted_and_resumed(repo: Repo, tmp_path: Path) -> None:
    """Ctrl-C stops the units and keeps what is done; --resume reuses it and goes on."""
    before = repo.head
    flag, counter = tmp_path / "go", tmp_path / "runs"
    first = f"echo x >> {counter}; echo 1 > one.txt"
    second = f"test -e {flag} || sleep 600; echo 2 > two.txt"
    path = job_file(repo, {"maxParallel": 2, "units": [unit("one", first), unit("two", second)]})
    child = subprocess.Popen(
        [script("job-run"), str(path), "--job", "j1"], cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    receipt = repo.path / ".ktx/jobs/j1/units/0001-one/receipt.json"
    for _ in range(300):
        if receipt.exists() and (repo.path / ".ktx/jobs/j1/units/0002-two/stdout.log").exists():
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert repo.git("rev-parse", "main") == before
    assert b"--resume j1" in err
    status = spawn("git-ktx", "status", "--json", cwd=repo.path).document
    assert (status["jobs"][0]["next"], status["worktrees"]["dead"]) == ("job-run --resume j1", 0)

    flag.touch()
    ran = spawn("job-run", "--resume", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert repo.git("diff", "--name-only", before, "main").split() == ["one.txt", "two.txt"]
    assert counter.read_text() == "x\n", "the finished unit did not run again"
    assert [entry["reason"] for entry in report(repo)["workUnits"]] == ["1 path", "1 path"], "no reason of before"
    assert spawn("job-run", "--resume", "j1", cwd=repo.path).status == 1


def test_a_killed_job_is_resumed(repo: Repo, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    second = f"test -e {flag} || sleep 600; echo 2 > two.txt"
    path = job_file(repo, {"maxParallel": 2, "units": [unit("one", "echo 1 > one.txt"), unit("two", second)]})
    child = subprocess.Popen([script("job-run"), str(path), "--job", "j1"], cwd=repo.path, start_new_session=True)
    receipt = repo.path / ".ktx/jobs/j1/units/0001-one/receipt.json"
    for _ in range(300):
        if receipt.exists() and (repo.path / ".ktx/jobs/j1/units/0002-two/stdout.log").exists():
            break
        time.sleep(0.1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    flag.touch()
    ran = spawn("job-run", "--resume", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert outcomes(repo) == {"one": "accepted", "two": "accepted"}
    subprocess.run(["pkill", "-f", "sleep 600"], check=False)


def test_the_same_job_twice_is_refused(repo: Repo) -> None:
    document = {"units": [unit("a", "echo a > a.txt")]}
    assert run(repo, document).status == 0
    ran = run(repo, document)
    assert ran.status == 1
    assert "exists already" in ran.err


OBSERVED = {"observe": {"silence": 1, "grace": 0.2, "cap": 0.4, "interval": 0.2}}


def test_a_suspect_unit_is_reported_and_goes_on(repo: Repo) -> None:
    """Silence makes a unit suspect, never done or failed."""
    ran = run(repo, {**OBSERVED, "units": [unit("thinks", "sleep 3; echo thought > a.txt")]})
    assert ran.status == 0, ran.err
    told = [event["event"] for event in trace(repo) if event["phase"] == "observer"]
    assert told == ["work_unit_suspect", "work_unit_observed"]
    assert outcomes(repo) == {"thinks": "accepted"}


def test_a_suspect_unit_is_stopped_where_the_job_says_so_and_its_work_is_kept(repo: Repo) -> None:
    document = {**OBSERVED, "onSuspect": "stop", "units": [unit("hangs", "echo half > half.txt; sleep 600")]}
    ran = run(repo, document)
    assert ran.status == 3
    assert outcomes(repo) == {"hangs": "failed"}
    assert "suspect" in ran.out
    assert (repo.path / ".ktx/worktrees/j1/0001-hangs/half.txt").read_text() == "half\n"


def test_an_observed_unit_that_works_is_not_suspect(repo: Repo) -> None:
    ran = run(repo, {"observe": True, "units": [unit("a", "for i in 1 2 3; do echo $i > a.txt; sleep 0.3; done")]})
    assert ran.status == 0, ran.err
    observed = next(event for event in trace(repo) if event["event"] == "work_unit_observed")
    assert observed["data"]["status"]["activity"]["contentSeq"] > 0
    assert not [event for event in trace(repo) if event["event"] == "work_unit_suspect"]


def test_json_is_one_document_with_the_report(repo: Repo) -> None:
    ran = run(repo, {"units": [unit("a", "echo a > a.txt")]}, "--json")
    assert ran.status == 0
    assert ran.json["contract"] == "report"
    assert ran.document["jobId"] == "j1"


def test_a_unit_that_touches_what_is_not_its_own_is_named(repo: Repo) -> None:
    command = f"echo mine >> {repo.path}/README; sleep 0.2; echo a > a.txt"
    run(repo, {"maxParallel": 1, "units": [unit("a", command)]})
    result = json.loads((repo.path / ".ktx/jobs/j1/units/0001-a/result.json").read_text())
    assert result["touched"], "the user's checkout changed while the unit ran"
    assert result["touched"][0]["running"] == ["a"]


@pytest.mark.parametrize("key", ["a", "project"])
def test_what_is_written_after_collecting_is_kept_and_said(repo: Repo, tmp_path: Path, key: str) -> None:
    """Somebody else goes on writing there: the patch is what was collected, and the worktree stays."""
    stop, late = tmp_path / "stop", repo.path / f".ktx/worktrees/j1/0001-{key}/late.txt"
    write = f"i=$((i + 1)); (echo $i >> {late}) 2> /dev/null; sleep 0.05"
    command = "echo a > a.txt; while [ ! -s late.txt ]; do sleep 0.05; done"
    with subprocess.Popen(["sh", "-c", f"i=0; while [ ! -e {stop} ]; do {write}; done"]):
        ran = run(repo, {"units": [unit("a", command)]} if key == "a" else {"project": command, "units": []})
        stop.touch()
    assert ran.status == 0, ran.err + ran.out
    assert outcomes(repo) == {key: "accepted"}
    told = next(event for event in trace(repo) if event["event"] == "work_unit_late_work_kept")
    assert told["data"]["unitKey"] == key
    kept = repo.path / f".ktx/worktrees/j1/0001-{key}/late.txt"
    assert kept.read_bytes().startswith(repo.show("main", "late.txt")), "nothing was written over"


@pytest.mark.parametrize("command", ["job-run", "ingest-run"])
def test_no_room_for_a_unit_is_refused(repo: Repo, command: str) -> None:
    words = {"job-run": [str(job_file(repo, {"units": []}))], "ingest-run": ["metabase", ".", "--connection", "c"]}
    ran = spawn(command, *words[command], "--max-parallel", "0", cwd=repo.path)
    assert (ran.status, "--max-parallel must be 1 or more" in ran.err) == (2, True)
    assert not (repo.path / ".ktx/jobs").exists()


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_is_no_job_file(repo: Repo, name: str) -> None:
    ran = spawn("job-run", name, cwd=repo.path)
    assert (ran.status, "regular file" in ran.err) == (2, True), ran.err
