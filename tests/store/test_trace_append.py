"""trace-append: one event, a batch, a timed command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import contracts
from ktxkit.store import jobs
from ktxkit.store.active import Unit
from ktxkit.store.world import World
from tests.support.commands import Ran, call, script, spawn
from tests.support.repos import Repo

WHOLE = {
    "schemaVersion": 1,
    "at": "2026-05-17T12:00:00.000Z",
    "level": "info",
    "jobId": "j1",
    "connectionId": "warehouse",
    "sourceKey": "metabase",
    "phase": "plan",
    "event": "work_units_planned",
}


def events(path: Path) -> list[Any]:
    return [contracts.loads("trace-event", line) for line in path.read_bytes().splitlines()]


def feed(cwd: Path, *args: str, stdin: bytes) -> Ran:
    return spawn("trace-append", "--stdin", *args, cwd=cwd, stdin=stdin)


@pytest.fixture
def job(repo: Repo) -> Path:
    """The trace of job j1, whose only unit is `pages/one`."""
    world = World(repo.path, os.environ)
    jobs.create(
        world,
        "j1",
        target="refs/heads/main",
        connection="warehouse",
        source="metabase",
        units=[Unit(1, "pages/one")],
    )
    return repo.path / ".ktx/ingest-traces/j1/trace.jsonl"


def test_a_number_out_of_range_is_refused(repo: Repo, job: Path) -> None:
    words = ["--phase", "plan", "--event", "counted", "--data", "n:=1e999"]
    done = call("trace-append", "--job", "j1", *words, cwd=repo.path)
    assert done.status == 2 and "--data n: not JSON: 1e999 is beyond the range of numbers" in done.err
    line = json.dumps({**WHOLE, "data": {"n": 7}}).replace("7}", "-1e999}").encode()
    done = feed(repo.path, "--job", "j1", stdin=line)
    assert done.status == 5 and "stdin:1" in done.err and "-1e999 is beyond the range of numbers" in done.err
    assert not job.exists() or events(job) == []


def test_an_event_says_whose_it_is(repo: Repo, job: Path) -> None:
    words = ["--phase", "routing", "--event", "connector_chosen", "--data", "connector=metabase", "--data", "cards:=12"]
    done = call("trace-append", "--job", "j1", "--unit", "pages/one", "--duration-ms", "12.5", *words, cwd=repo.path)
    assert (done.status, done.out, done.err) == (0, "", "")
    (event,) = events(job)
    assert event.pop("at").endswith("Z")
    assert event == {
        "schemaVersion": 1,
        "level": "debug",
        "jobId": "j1",
        "connectionId": "warehouse",
        "sourceKey": "metabase",
        "phase": "routing",
        "event": "connector_chosen",
        "durationMs": 12.5,
        "data": {"unitKey": "pages/one", "connector": "metabase", "cards": 12},
    }


def test_job_and_unit_come_from_the_environment(repo: Repo, job: Path) -> None:
    env = {"KTX_JOB": "j1", "KTX_UNIT": "pages/one"}
    done = spawn("trace-append", "--phase", "work_unit", "--event", "read", cwd=repo.path, env=env)
    assert done.status == 0, done.err
    env = {**env, "KTX_TRACE": str(job)}
    assert spawn("trace-append", "--phase", "work_unit", "--event", "wrote", cwd=Path("/"), env=env).status == 0
    assert [(e["event"], e["connectionId"], e["data"]) for e in events(job)] == [
        ("read", "warehouse", {"unitKey": "pages/one"}),
        ("wrote", "warehouse", {"unitKey": "pages/one"}),
    ]


def test_a_file_outside_any_repository(tmp_path: Path) -> None:
    done = call("trace-append", "--trace", "t.jsonl", "--phase", "x", "--event", "y", "--json", cwd=tmp_path)
    assert done.json["data"] == {"appended": 1, "trace": str(tmp_path / "t.jsonl"), "tornTails": 0}
    (event,) = events(tmp_path / "t.jsonl")
    assert (event["jobId"], event["connectionId"], event["sourceKey"]) == ("adhoc", "local", "manual")


def test_an_error_is_an_error(tmp_path: Path) -> None:
    words = ["--trace", "t", "--phase", "gate", "--event", "gate_failed", "--error"]
    assert call("trace-append", *words, "ValueError: no such page", cwd=tmp_path).status == 0
    assert call("trace-append", *words, "it broke", cwd=tmp_path).status == 0
    found = [(e["level"], e["error"]) for e in events(tmp_path / "t")]
    assert found == [
        ("error", {"name": "ValueError", "message": "no such page"}),
        ("error", {"name": "Error", "message": "it broke"}),
    ]


def test_bytes_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    argv: list[str | bytes] = [
        script("trace-append"),
        "--trace",
        "t",
        "--phase",
        "x",
        "--event",
        "y",
        "--data",
        b"p=\xff",
    ]
    assert subprocess.run(argv, cwd=tmp_path, check=False).returncode == 0
    assert events(tmp_path / "t")[0]["data"] == {"p": "\\udcff"}


@pytest.mark.parametrize(
    ("threshold", "level", "written"),
    [
        ("error", "info", 0),
        ("error", "error", 1),
        ("info", "debug", 0),
        ("", "trace", 0),
        ("trace", "trace", 1),
        ("odd", "debug", 1),
    ],
)
def test_threshold(tmp_path: Path, threshold: str, level: str, written: int) -> None:
    env = {"KTX_TRACE_LEVEL": threshold} if threshold else {}
    words = ["--trace", "t", "--phase", "x", "--event", "y", "--level", level, "--json"]
    done = spawn("trace-append", *words, cwd=tmp_path, env=env)
    assert done.json["data"]["appended"] == written


REFUSED: list[tuple[str, list[str], int, str]] = [
    ("no phase", ["--event", "y"], 2, "--phase and --event"),
    ("no key in data", ["--phase", "x", "--event", "y", "--data", "=1"], 2, "KEY=TEXT"),
    ("bad json in data", ["--phase", "x", "--event", "y", "--data", "a:={"], 2, "KEY:=JSON"),
    ("data twice", ["--phase", "x", "--event", "y", "--data", "a=1", "--data", "a:=2"], 2, "stands twice"),
    ("bad name", ["--phase", "x", "--event", "No Such"], 5, "command line"),
    ("line break in the name", ["--phase", "x", "--event", "y\n"], 5, "command line"),
    ("negative duration", ["--phase", "x", "--event", "y", "--duration-ms", "-1"], 2, "--duration-ms"),
    ("not a number", ["--phase", "x", "--event", "y", "--duration-ms", "nan"], 2, "--duration-ms"),
    ("stdin and words", ["--stdin", "--phase", "x"], 2, "whole events"),
    ("level", ["--phase", "x", "--event", "y", "--level", "loud"], 2, "--level"),
    ("no such job", ["--job", "j11", "--phase", "x", "--event", "y"], 2, "did you mean j1?"),
    ("error and command", ["--phase", "x", "--event", "y", "--error", "e", "--", "true"], 2, "judged by itself"),
    ("bad stem", ["--phase", "x", "--event", "Y", "--", "touch", "ran"], 5, "event"),
]


@pytest.mark.parametrize(("args", "status", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused_and_nothing_written(repo: Repo, job: Path, args: list[str], status: int, says: str) -> None:
    words = args if "--job" in args else ["--job", "j1", *args]
    done = call("trace-append", *words, cwd=repo.path)
    assert done.status == status and says in done.err, done
    assert "Traceback" not in done.err
    assert not job.exists() or job.read_bytes() == b""
    assert not (repo.path / "ran").exists()


def test_which_job_is_asked(repo: Repo) -> None:
    done = call("trace-append", "--phase", "x", "--event", "y", cwd=repo.path)
    assert done.status == 2 and "which job?" in done.err


def test_a_batch(repo: Repo, job: Path) -> None:
    lines = [json.dumps(WHOLE), "", json.dumps({"phase": "plan", "event": "chosen", "data": {"n": 1}})]
    done = feed(repo.path, "--job", "j1", "--unit", "pages/one", "--json", stdin="\n".join(lines).encode())
    assert done.status == 0 and done.json["data"]["appended"] == 2, done
    assert [(e["event"], e["data"]) for e in events(job)] == [
        ("work_units_planned", {"unitKey": "pages/one"}),
        ("chosen", {"unitKey": "pages/one", "n": 1}),
    ]


BROKEN: list[tuple[str, bytes]] = [
    ("not json", b"{"),
    ("not utf-8", b'{"phase": "\xff", "event": "y"}'),
    ("a list", b"[]"),
    ("a number", b"1"),
    ("no phase", b'{"event": "y"}'),
    ("unknown key", b'{"phase": "x", "event": "y", "surprise": 1}'),
    ("unknown version", b'{"schemaVersion": 2, "phase": "x", "event": "y"}'),
    ("data is a list", b'{"phase": "x", "event": "y", "data": []}'),
    ("another job", b'{"jobId": "j9", "phase": "x", "event": "y"}'),
    ("not a number", b'{"phase": "x", "event": "y", "durationMs": NaN}'),
    ("key twice", b'{"phase": "x", "phase": "x", "event": "y"}'),
    ("nested too deeply", b'{"phase": "x", "event": "y", "data": {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}"),
]


@pytest.mark.parametrize("line", [case[1] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_nothing_of_a_broken_batch_is_written(repo: Repo, job: Path, line: bytes) -> None:
    good = b'{"phase": "x", "event": "y"}\n'
    assert feed(repo.path, "--job", "j1", stdin=good).status == 0
    before = job.read_bytes()
    done = feed(repo.path, "--job", "j1", stdin=good + b"\n" + line + b"\n" + good)
    assert done.status == 5 and "stdin:3" in done.err and "Traceback" not in done.err, done
    assert job.read_bytes() == before


def test_a_trace_of_another_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(json.dumps(WHOLE) + "\n")
    done = call("trace-append", "--trace", "t", "--job", "j2", "--phase", "x", "--event", "y", cwd=tmp_path)
    assert done.status == 2 and "this trace is of job j1" in done.err


def test_a_damaged_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("{}\n")
    done = call("trace-append", "--trace", "t", "--phase", "x", "--event", "y", cwd=tmp_path)
    assert done.status == 5 and f"{tmp_path}/t:1" in done.err


def test_a_torn_tail_is_set_aside_and_said(tmp_path: Path) -> None:
    whole = json.dumps(WHOLE) + "\n"
    (tmp_path / "t").write_text(whole + whole[:40])
    done = call("trace-append", "--trace", "t", "--phase", "x", "--event", "y", cwd=tmp_path)
    assert done.status == 0 and "torn" in done.err
    assert [e["event"] for e in events(tmp_path / "t")] == ["work_units_planned", "y"]


@pytest.mark.parametrize(
    ("argv", "status", "end", "fact"),
    [
        (["true"], 0, "finished", {"exitStatus": 0}),
        (["sh", "-c", "exit 7"], 7, "failed", {"exitStatus": 7}),
        (["sh", "-c", "exit 130"], 130, "failed", {"exitStatus": 130}),
        (["sh", "-c", "kill -KILL $$"], 137, "failed", {"signal": 9}),
        (["no-such-command"], 127, "failed", {}),
        (["/"], 127, "failed", {}),
    ],
)
def test_a_timed_command(tmp_path: Path, argv: list[str], status: int, end: str, fact: dict[str, int]) -> None:
    done = spawn("trace-append", "--trace", "t", "--phase", "gate", "--event", "step", "--", *argv, cwd=tmp_path)
    assert done.status == status, done
    first, last = events(tmp_path / "t")
    assert (first["event"], first["data"], "durationMs" in first) == ("step_started", {"argv": argv}, False)
    assert (last["event"], last["data"]) == (f"step_{end}", {"argv": argv, **fact})
    assert last["durationMs"] >= 0 and ("error" in last) == (end == "failed")
    assert (last["level"] == "error") == (end == "failed")
    assert ("cannot start" in done.err) == (status == 127)


def test_the_command_has_our_streams(tmp_path: Path) -> None:
    words = ["--trace", "t", "--phase", "x", "--event", "y"]
    copy = ["--", "sh", "-c", "cat; echo aside >&2"]
    done = spawn("trace-append", *words, *copy, cwd=tmp_path, stdin=b"through\n")
    assert (done.status, done.out, done.err) == (0, "through\n", "aside\n")
    done = spawn("trace-append", *words, "--json", *copy, cwd=tmp_path, stdin=b"through\n")
    assert (done.json["status"], done.err) == (0, "through\naside\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    body = f"trap 'echo caught; exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    argv = [script("trace-append"), "--trace", "t", "--phase", "x", "--event", "y", "--", "sh", "-c", body]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        assert child.stdout.read() == b"caught\n"
        assert child.wait() == 9
    assert events(tmp_path / "t")[-1]["data"]["exitStatus"] == 9


def test_a_full_disk_after_the_command_keeps_its_status(tmp_path: Path) -> None:
    body = f"rm -rf {tmp_path}/d; echo in the way > {tmp_path}/d; exit 4"
    words = ["--trace", "d/t", "--phase", "x", "--event", "y"]
    done = spawn("trace-append", *words, "--", "sh", "-c", body, cwd=tmp_path)
    assert done.status == 4 and "the end of sh is not in the trace" in done.err


def test_a_command_does_not_run_where_its_start_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("in the way")
    done = spawn("trace-append", "--trace", "d/t", "--phase", "x", "--event", "y", "--", "touch", "ran", cwd=tmp_path)
    assert done.status == 2 and not (tmp_path / "ran").exists()


def test_one_event_loads_little(tmp_path: Path) -> None:
    """Start-up is most of what an event costs: what it does not need is not imported."""
    body = """
import sys
from ktx_trace_append import main
status = main(['--trace', 't', '--phase', 'x', '--event', 'y', '--data', 'n:=1'])
costly = {'jsonschema_rs', 'dataclasses', 'inspect', 'subprocess', 'secrets', 'shutil', 'blake3', 'rich', 'ruamel'}
print(status, sorted(costly & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", body], cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout == b"0 []\n", done
    assert events(tmp_path / "t")[0]["data"] == {"n": 1}


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    line = json.dumps({"phase": "x", "event": "y", "data": {"long": "z" * 9000}}).encode() + b"\n"
    argv = [script("trace-append"), "--trace", "t", "--stdin"]
    writers = [subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE) for _ in range(8)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(line * 25)
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0] * 8
    assert len(events(tmp_path / "t")) == 200


def test_an_ignored_sigchld_does_not_lose_the_status(tmp_path: Path) -> None:
    argv = [script("trace-append"), "--trace", "t", "--phase", "x", "--event", "y", "--", "sh", "-c", "exit 5"]
    body = "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    assert subprocess.run(["python3", "-c", body, *argv], cwd=tmp_path, check=False).returncode == 5


@pytest.mark.parametrize("name", ["/dev/full", "/dev/zero", "/dev/null"])
def test_a_device_is_no_trace(tmp_path: Path, name: str) -> None:
    ran = spawn("trace-append", "--trace", name, "--phase", "p", "--event", "e", cwd=tmp_path)
    assert (ran.status, "regular file" in ran.err) == (2, True), ran.err


def test_a_bad_line_far_down_is_named_as_a_near_one_is(tmp_path: Path) -> None:
    """Behind the first few hundred an engine judges: the same word, and nothing is written."""
    trace, good = tmp_path / "t.jsonl", json.dumps(WHOLE).encode() + b"\n"
    bad = json.dumps({**WHOLE, "level": "loud"}).encode() + b"\n"
    said = {}
    for before in (1, contracts.FEW + 50):
        ran = feed(tmp_path, "--trace", str(trace), "--job", "j1", stdin=good * before + bad)
        assert ran.status == 5 and not trace.exists()
        assert f"stdin:{before + 1}" in ran.err
        said[before] = ran.err.replace(f"stdin:{before + 1}", "PLACE")
    assert len(set(said.values())) == 1
    ran = feed(tmp_path, "--trace", str(trace), "--job", "j1", stdin=good * (contracts.FEW + 50))
    assert ran.status == 0 and len(events(trace)) == contracts.FEW + 50
