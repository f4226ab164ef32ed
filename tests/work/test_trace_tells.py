"""The trace tells a job whole: twelve questions of a post-mortem, answered by it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

SOURCE = """name: orders
table: public.orders
grain: [id]
columns: [{name: id, type: string}]
joins: []
measures: [{name: total, expr: count(id)}]
"""
PAGE = "---\nsummary: Orders\nsl_refs: [orders]\n---\n\n# Orders\n\n`orders.total`\n"


class Trace:
    """The events of a job's trace, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.events: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]

    def named(self, name: str, **data: Any) -> list[dict[str, Any]]:
        return [
            event
            for event in self.events
            if event["event"] == name and all(event.get("data", {}).get(key) == value for key, value in data.items())
        ]

    def of(self, key: str, name: str) -> dict[str, Any]:
        """The last event of that name of a unit."""
        return self.named(name, unitKey=key)[-1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, Trace]:
    """A job with a unit of each outcome, and a second execution for what did not land."""
    repo = Repo.init(tmp_path_factory.mktemp("trace") / "repo")
    repo.write("semantic-layer/shop/orders.yaml", SOURCE)
    repo.write("wiki/global/orders.md", PAGE)
    repo.write("f", "0\n")
    repo.commit("first")
    units = [
        unit("lands", "echo 1 > f"),
        unit("clashes", "echo 2 > f"),
        unit("renames", "sed -i s/total/sum/ semantic-layer/shop/orders.yaml"),
        unit("outside", "echo 1 > g", allow=["wiki/**"]),
        unit("breaks", "echo why >&2; exit 3"),
        unit("late", "sleep 20", timeLimit=0.2),
        unit("bad", "echo 1 > bad"),
        unit("nothing", "true"),
        unit("waits", "true", after=["breaks"]),
    ]
    file = job_file(repo, {"verify": "test ! -e bad", "units": units})
    assert call("job-run", file, "--job", "j1", "-q", cwd=repo.path).status == 3
    assert call("job-run", "--resume", "j1", "--retry", "clashes", "-q", cwd=repo.path).status == 3
    return repo, Trace(repo.path / ".ktx/ingest-traces/j1/trace.jsonl")


def test_which_executions_were_there_and_how_did_each_end(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    first, second = (event["runId"] for event in trace.named("ingest_started"))
    assert first != second and {event["runId"] for event in trace.events} == {first, second}
    assert [event["data"]["outcome"] for event in trace.named("ingest_finished")] == ["partial", "partial"]
    assert {e["level"] for e in [*trace.named("ingest_started"), *trace.named("ingest_finished")]} == {"info"}


def test_from_which_commit_and_tree_did_it_start(whole: tuple[Repo, Trace]) -> None:
    repo, trace = whole
    start = repo.git("rev-list", "--max-parents=0", "main")
    assert trace.named("input_snapshot")[0]["data"]["baseSha"] == start
    assert trace.of("lands", "open_worktree_finished")["data"]["base"] == start


def test_what_ran_and_how_long(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    assert trace.of("lands", "work_unit_command_started")["data"]["argv"] == ["/bin/sh", "-c", "echo 1 > f"]
    assert trace.of("lands", "work_unit_command_finished")["durationMs"] > 0
    ran = {event["data"]["unitKey"] for event in trace.named("work_unit_command_started")}
    assert ran == {"lands", "clashes", "renames", "outside", "breaks", "late", "bad", "nothing"}


def test_which_command_failed_how_and_where_is_its_output(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    failed = trace.of("breaks", "work_unit_command_failed")
    assert (failed["level"], failed["data"]["exitStatus"]) == ("error", 3)
    assert failed["error"] == {"name": "CommandFailed", "message": "it ended with status 3: why"}
    assert trace.of("breaks", "work_unit_failed")["error"] == failed["error"]
    assert trace.named("work_unit_not_integrated", unitKey="breaks")[0]["error"] == failed["error"]
    assert Path(failed["data"]["stderr"]).read_text() == "why\n"


def test_which_one_ran_out_of_time(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    late = trace.of("late", "work_unit_command_failed")
    assert late["data"]["outcome"] == "timed_out" and 200 <= late["durationMs"] < 20_000
    assert "did not end within 0.2 seconds" in late["error"]["message"]


def test_what_conflicted_where(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    clash = trace.named("patch_textual_conflict", unitKey="clashes")[0]
    assert clash["level"] == "error" and clash["data"]["conflicts"][0]["path"] == "f"
    assert clash["error"]["message"].startswith("f: ")


def test_which_path_broke_which_rule(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    refused = trace.of("outside", "patch_policy_rejected")
    breach = refused["data"]["breaches"][0]
    assert (refused["level"], breach["path"], breach["rule"]) == ("error", "g", "not-allowed")


def test_what_the_gates_found_and_how_long_they_took(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    gates = trace.of("renames", "patch_gates_finished")
    assert gates["data"]["outcome"] == "semantic_conflict" and gates["durationMs"] > 0
    found = trace.of("renames", "patch_semantic_conflict")["data"]["findings"][0]
    assert found["path"] == "wiki/global/orders.md" and "total" in found["message"]


def test_which_verification_failed(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    assert trace.of("bad", "patch_verification_finished")["durationMs"] > 0
    refused = trace.of("bad", "patch_verification_failed")
    assert refused["level"] == "error" and "status 1" in refused["error"]["message"]


def test_where_each_patch_is_and_how_large(whole: tuple[Repo, Trace]) -> None:
    _, trace = whole
    told = trace.of("lands", "work_unit_patch_collected")
    assert Path(told["data"]["patch"]).stat().st_size == told["data"]["patchBytes"] > 0


def test_when_worktrees_were_opened_and_what_became_of_them(whole: tuple[Repo, Trace]) -> None:
    repo, trace = whole
    for key in ("lands", "breaks"):
        opened, closed = trace.of(key, "open_worktree_finished"), trace.of(key, "close_worktree_finished")
        assert opened["durationMs"] > 0 and closed["durationMs"] > 0 and opened["at"] <= closed["at"]
    assert trace.of("lands", "close_worktree_finished")["data"]["outcome"] == "success"
    kept = trace.of("breaks", "close_worktree_finished")["data"]
    assert kept["outcome"] == "crash" and Path(kept["path"]).is_dir() and repo.path in Path(kept["path"]).parents


def test_who_never_started_and_why_and_what_landed(whole: tuple[Repo, Trace]) -> None:
    repo, trace = whole
    assert "it waits for breaks" in trace.of("waits", "work_unit_not_integrated")["data"]["message"]
    landed = [event["data"]["commit"] for event in trace.named("landing_finished")]
    assert landed == repo.git("rev-list", "--reverse", "main").splitlines()[1:] and len(landed) == 2


def test_a_job_by_hand_tells_the_same(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    repo.commit("first")
    opened = call("worktree-open", "--job", "j", "--unit", "u", cwd=repo.path)
    (Path(opened.out.strip()) / "new").write_text("1\n")
    for command in ("patch-collect", "patch-apply"):
        assert call(command, "--job", "j", "--unit", "u", cwd=repo.path).status == 0
    assert call("worktree-close", "--job", "j", "--unit", "u", "--outcome", "success", cwd=repo.path).status == 0
    assert call("job-land", "--job", "j", cwd=repo.path).status == 0
    names = [event["event"] for event in Trace(repo.path / ".ktx/ingest-traces/j/trace.jsonl").events]
    steps = ["open_worktree", "work_unit_patch_collected", "patch_gates", "patch_accepted", "close_worktree", "landing"]
    assert [name for name in names if not name.endswith("_started")] == [
        name if name.startswith(("work_unit", "patch_accepted")) else f"{name}_finished" for name in steps
    ]
