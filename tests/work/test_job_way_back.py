"""The way back for what did not land: --only, --retry, and a job file that was edited."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo

HEAD = "schemaVersion: 1\nconnectionId: c\nsourceKey: s\ntarget: main\n"


@pytest.fixture
def repo(repo: Repo) -> Repo:
    repo.write("page", "one\ntwo\nthree\n")
    repo.commit("base")
    return repo


def file(repo: Repo, units: str, more: str = "") -> Path:
    path = repo.path.parent / "job.yaml"
    path.write_text(f"{HEAD}{more}units:\n{units}")
    return path


def run(repo: Repo, *words: str | Path) -> Ran:
    """job-run, in this process; what follows `--` as well."""
    return call("job-run", "-q", *words, cwd=repo.path)


def outcomes(repo: Repo) -> dict[str, str]:
    report: Any = call("job-report", "--job", "j", "--json", cwd=repo.path).document
    return {unit["key"]: unit["outcome"] for unit in report["workUnits"]}


def landed(repo: Repo, name: str) -> str:
    return repo.git("show", f"main:{name}", check=False)


def partial(repo: Repo) -> None:
    """`a` landed; `b` failed, and left work behind."""
    path = file(repo, "  - {key: a, run: 'echo a > a'}\n  - {key: b, run: 'echo half > b; exit 3'}\n")
    assert run(repo, path, "--job", "j").status == 3
    assert outcomes(repo) == {"a": "accepted", "b": "failed"} and landed(repo, "a") == "a"


def test_a_unit_of_a_job_that_landed_in_part_has_another_attempt(repo: Repo) -> None:
    partial(repo)
    first = repo.head
    done = run(repo, "--resume", "j", "--retry", "b", "--", "sh", "-c", "test ! -e b && test -e a && echo b > b")
    assert done.status == 0, done
    assert outcomes(repo) == {"a": "accepted", "b": "accepted"} and landed(repo, "b") == "b"
    assert repo.git("rev-parse", "main^") == first, "a landing of its own, behind the first one"
    assert "1 unit of 2" in repo.git("log", "-1", "--format=%s", "main")
    result = json.loads((repo.path / ".ktx/jobs/j/units/0002-b/result.json").read_text())
    assert result["attempt"] == 2 and result["argv"][0] == "sh", "the record says what ran"


def test_an_attempt_begins_at_todays_head(repo: Repo) -> None:
    """What it conflicts with came meanwhile: only from there can it be done again."""
    path = file(repo, "  - {key: a, run: 'echo a > a'}\n  - {key: b, run: 'exit 3'}\n")
    assert run(repo, path, "--job", "j").status == 3
    repo.write("page", "one\n2\nthree\n")
    moved = repo.commit("meanwhile")
    done = run(repo, "--resume", "j", "--retry", "b", "--", "sh", "-c", "grep -qx 2 page && echo deux > page")
    assert done.status == 0, done
    assert landed(repo, "page") == "deux" and repo.git("rev-parse", "main^") == moved and landed(repo, "a") == "a"


def test_an_attempt_begins_with_the_last_ones_work_on_request(repo: Repo) -> None:
    partial(repo)
    repo.write("meanwhile", "meanwhile\n")
    repo.commit("meanwhile")
    words = ("--resume", "j", "--retry", "b", "--with-work", "--")
    done = run(repo, *words, "sh", "-c", "grep -qx half b && test -e meanwhile && echo whole >> b")
    assert done.status == 0, done
    assert landed(repo, "b") == "half\nwhole"
    kept = repo.path / ".ktx/worktrees/j/0002-b"
    assert (kept / "b").read_text() == "half\n", "the last attempt is kept as it was"


def test_work_that_does_not_fit_any_more_is_said(repo: Repo) -> None:
    path = file(repo, "  - {key: a, run: 'echo a > a'}\n  - {key: b, run: 'sed -i s/two/TWO/ page; exit 3'}\n")
    assert run(repo, path, "--job", "j").status == 3
    repo.write("page", "one\n2\nthree\n")
    repo.commit("meanwhile")
    done = call("job-run", "--resume", "j", "--retry", "b", "--with-work", "--", "true", cwd=repo.path)
    assert done.status == 3 and landed(repo, "page") == "one\n2\nthree"
    failed = call("job-report", "--job", "j", "--json", cwd=repo.path).document["failedWorkUnits"]
    assert failed[0]["reason"] == "the work of the last attempt conflicts with where this one starts: page"


def test_a_conflict_of_a_job_that_did_not_land_is_retried_in_it(repo: Repo) -> None:
    units = "  - {key: a, run: 'sed -i s/two/A/ page'}\n  - {key: b, run: 'sed -i s/two/B/ page'}\n"
    assert run(repo, file(repo, units, "onConflict: stop\n"), "--job", "j").status == 3
    assert landed(repo, "page") == "one\ntwo\nthree" and outcomes(repo)["b"] == "textual_conflict"
    done = run(repo, "--resume", "j", "--retry", "b", "--", "sh", "-c", "sed -i s/A/AB/ page")
    assert done.status == 0, done
    assert landed(repo, "page") == "one\nAB\nthree" and outcomes(repo) == {"a": "accepted", "b": "accepted"}
    assert repo.git("rev-list", "--count", "main") == "3", "one landing"


def test_only_starts_no_other_unit(repo: Repo) -> None:
    units = "".join(f"  - {{key: {key}, run: 'test -e ../../../../go && echo {key} > {key}'}}\n" for key in "abc")
    assert run(repo, file(repo, units), "--job", "j").status == 3
    (repo.path / "go").touch()
    assert run(repo, "--resume", "j", "--only", "b").status == 3
    assert outcomes(repo) == {"a": "failed", "b": "accepted", "c": "failed"} and landed(repo, "b") == "b"
    assert "only b" in call("job-report", "--job", "j", cwd=repo.path).out
    ended = run(repo, "--resume", "j")
    assert ended.status == 0, ended
    assert [landed(repo, key) for key in "abc"] == ["a", "b", "c"] and repo.git("rev-list", "--count", "main") == "4"


def test_what_is_not_retried_keeps_why_it_failed(repo: Repo) -> None:
    units = (
        "  - {key: a, run: 'echo a > a'}\n  - {key: b, run: 'exit 3'}\n  - {key: c, run: 'echo why-c >&2; exit 5'}\n"
    )
    units += "  - {key: d, run: 'echo d > d', after: [c]}\n"
    assert run(repo, file(repo, units), "--job", "j").status == 3
    for _ in range(2):
        done = call("job-run", "--resume", "j", "--retry", "b", cwd=repo.path)
        found = call("job-report", "--job", "j", "--json", cwd=repo.path).document["workUnits"]
        said = {unit["key"]: (unit["outcome"], unit["reason"]) for unit in found}
        assert said["c"] == ("failed", "it ended with status 5: why-c (not started again: only b)")
        assert said["d"] == ("skipped", "not started: it waits for c, which did not land")
        assert "] failed             c: it ended with status 5: why-c (not started again: only b)\n" in done.err
        assert re.search(r"\] failed +b \(\d", done.err), "what was started has its duration"
    assert run(repo, "--resume", "j", "--retry", "c", "--", "true").status == 3
    assert outcomes(repo) == {"a": "accepted", "b": "failed", "c": "noop", "d": "skipped"}


def test_another_attempt_leaves_why_the_last_one_failed(repo: Repo) -> None:
    path = file(repo, "  - {key: b, run: 'echo begun; echo cannot parse m6 >&2; exit 7'}\n")
    assert run(repo, path, "--job", "j").status == 3
    for number in (2, 3):
        command = f"echo attempt {number} >&2; test {number} = 3 && echo b > b"
        run(repo, "--resume", "j", "--retry", "b", "--", "sh", "-c", command)
    assert outcomes(repo) == {"b": "accepted"}
    folder = repo.path / ".ktx/jobs/j/units/0001-b"
    assert [(folder / f"stderr{end}.log").read_text() for end in ("-1", "-2", "")] == [
        "cannot parse m6\n",
        "attempt 2\n",
        "attempt 3\n",
    ]
    assert [(folder / f"stdout{end}.log").read_text() for end in ("-1", "-2", "")] == ["begun\n", "", ""]
    events = [json.loads(line) for line in (repo.path / ".ktx/ingest-traces/j/trace.jsonl").read_text().splitlines()]
    said = [event["error"]["message"] for event in events if event["event"] == "work_unit_command_failed"]
    assert said == ["it ended with status 7: cannot parse m6", "it ended with status 1: attempt 2"]
    started = [event["data"] for event in events if event["event"] == "work_unit_command_started"]
    assert "earlierOutput" not in started[0]
    assert started[2]["earlierOutput"] == [str(folder / "stdout-2.log"), str(folder / "stderr-2.log")]
    assert "no document of a job" not in call("job-report", "--job", "j", cwd=repo.path).out


def test_what_is_in_is_not_retried(repo: Repo) -> None:
    partial(repo)
    done = run(repo, "--resume", "j", "--retry", "a")
    assert done.status == 1 and "unit a is accepted" in done.err
    unknown = run(repo, "--resume", "j", "--only", "bb")
    assert unknown.status == 2 and "no unit 'bb'" in unknown.err
    assert run(repo, "--resume", "j", "--retry", "b", "--", "sh", "-c", "echo b > b").status == 0
    over = run(repo, "--resume", "j")
    assert over.status == 1 and "has landed already" in over.err


def test_options_that_do_not_go_together(repo: Repo) -> None:
    path = file(repo, "  - {key: a, run: 'true'}\n")
    for words in (
        (path, "--only", "a"), (path, "--", "true"), ("--resume", "j", "--", "true"), ("--resume", "j", "--with-work"),
        ("--resume", "j", "--target", "x"), (),
    ):  # fmt: skip
        done = run(repo, *words)
        assert done.status == 2, (words, done)


def failing(repo: Repo) -> Path:
    """`a` is in, on the job's own branch; `b` failed, and so nothing landed."""
    path = file(
        repo, "  - {key: a, run: 'echo a > a'}\n  - {key: b, run: 'exit 3'}\n", "onFailure: abort\nmaxParallel: 1\n"
    )
    assert run(repo, path, "--job", "j").status == 3
    return path


def test_an_edited_file_is_named_where_it_is_not_given(repo: Repo) -> None:
    path = failing(repo)
    assert str(path) not in call("job-run", "--resume", "j", cwd=repo.path).err, "it is as it was"
    path.write_text(path.read_text().replace("exit 3", "echo b > b"))
    done = call("job-run", "--resume", "j", cwd=repo.path)
    assert done.status == 3 and f"{path} was edited since the job began" in done.err
    assert f"job-run --resume j {path} takes it" in done.err


def test_an_edited_file_is_taken_where_it_is_given(repo: Repo) -> None:
    path = failing(repo)
    path.write_text(path.read_text().replace("exit 3", "echo b > b").replace("echo a >", "echo other >"))
    done = call("job-run", "--resume", "j", path, cwd=repo.path)
    assert done.status == 0 and landed(repo, "b") == "b", done
    assert (landed(repo, "a"), outcomes(repo)["a"]) in {("a", "accepted"), ("other", "accepted")}
    assert "edited since" not in done.err
    job = json.loads((repo.path / ".ktx/jobs/j/job.json").read_text())
    before = json.loads((repo.path / ".ktx/jobs/j/job-file-1.json").read_text())
    assert before["units"][1]["run"] == "exit 3" and job["state"] == "landed", "the earlier file stays on record"


def test_what_of_an_edited_file_is_ignored_is_said(repo: Repo) -> None:
    partial(repo)
    repo.git("branch", "other")
    path = file(repo, "  - {key: a, run: 'echo other > a'}\n  - {key: b, run: 'echo b > b'}\n")
    path.write_text(path.read_text().replace("target: main", "target: other"))
    done = call("job-run", "--resume", "j", path, cwd=repo.path)
    assert done.status == 0, done
    assert "unit a is accepted already: it stays as it was" in done.err
    assert "`target` is as it was when the job began" in done.err
    assert (landed(repo, "a"), landed(repo, "b")) == ("a", "b") and repo.git("rev-list", "--count", "other") == "3"


def test_a_unit_whose_order_was_edited_after_a_conflict_runs_again(repo: Repo) -> None:
    units = "  - {key: a, run: 'sed -i s/two/A/ page'}\n  - {key: b, run: 'sed -i s/two/B/ page'}\n"
    path = file(repo, units, "onConflict: stop\n")
    assert run(repo, path, "--job", "j").status == 3
    path.write_text(path.read_text().replace("s/two/B/", "s/A/AB/"))
    assert run(repo, "--resume", "j", path).status == 0
    assert landed(repo, "page") == "one\nAB\nthree"


def test_units_that_an_edited_file_adds_or_leaves_out(repo: Repo) -> None:
    path = failing(repo)
    file(repo, "  - {key: a, run: 'echo a > a'}\n  - {key: new, run: 'echo new > new'}\n")
    done = call("job-run", "--resume", "j", path, cwd=repo.path)
    assert "unit b is not in it any more: it stays in the job" in done.err
    assert done.status == 3 and outcomes(repo)["new"] == "accepted" and landed(repo, "new") == "new", done
