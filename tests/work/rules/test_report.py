"""The report: outcomes, reasons, counts, and text that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from ktxkit.app.rules.report_text import WIDTH, duration, render
from ktxkit.base import contracts
from ktxkit.work.rules.reasons import UnitDocs, UnitOutput, reason_of
from ktxkit.work.rules.report import (
    assemble,
    between,
    derived,
    left_out,
    outcome_of,
    phases,
    spans,
    stem,
    unit_entry,
)

if TYPE_CHECKING:
    from ktxkit.base.documents import Job, Report, ReportStatus, TraceEvent

A, B, C = "a" * 40, "b" * 40, "c" * 40
AT = "2026-05-17T12:00:00.000Z"


def receipt(outcome: str, **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "at": AT, "before": A, "durationMs": 7.5, "conflicts": [], "findings": [], **more}


def result(outcome: str, **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "startedAt": AT, "endedAt": AT, **more}


def docs_of(position: int, key: str, **documents: Any) -> UnitDocs:
    """Of documents that say only what the case is about."""
    return UnitDocs(position, key, **documents)


def patch(outcome: str, *paths: str, **more: Any) -> dict[str, Any]:
    named = [{"path": p, "change": "added"} for p in paths]
    return {"outcome": outcome, "base": A, "tree": B, "paths": named, **more}


GONE = {"rule": "sl.ref", "level": "error", "path": "wiki/a.md", "line": 3, "message": "orders.total names nothing"}
BREACH = {"rule": "sl", "path": "s.yaml", "message": "slDisallowed: s.yaml"}
CASES: list[tuple[str, UnitDocs, dict[str, str], str, str]] = [
    ("nothing yet", docs_of(1, "u"), {}, "pending", "not started"),
    ("open", docs_of(1, "u", lease={"state": "open"}), {}, "open", "its worktree is open"),
    (
        "ended",
        docs_of(1, "u", lease={}, result=result("finished")),
        {},
        "finished",
        "its command ended; not collected yet",
    ),
    (
        "collected",
        docs_of(1, "u", patch=patch("collected", "a", "b")),
        {},
        "collected",
        "2 paths collected, not applied yet",
    ),
    ("nothing changed", docs_of(1, "u", patch=patch("noop")), {}, "noop", "it changed nothing"),
    (
        "accepted",
        docs_of(1, "u", patch=patch("collected", "a"), receipt=receipt("accepted")),
        {},
        "accepted",
        "1 path",
    ),
    ("subsumed", docs_of(1, "u", receipt=receipt("subsumed")), {}, "subsumed", "what it changed was there already"),
    (
        "conflict",
        docs_of(
            1,
            "u",
            receipt=receipt(
                "textual_conflict", conflicts=[{"path": "a", "reason": "both changed"}, {"path": "b", "reason": "x"}]
            ),
        ),
        {},
        "textual_conflict",
        "a: both changed (and 1 more)",
    ),
    (
        "stale page",
        docs_of(1, "u", receipt=receipt("semantic_conflict", findings=[{**GONE, "inherited": True}, GONE])),
        {},
        "semantic_conflict",
        "wiki/a.md:3: orders.total names nothing",
    ),
    (
        "breach",
        docs_of(1, "u", patch=patch("policy_rejected", "s.yaml", breaches=[BREACH])),
        {},
        "policy_rejected",
        "slDisallowed: s.yaml (rule sl)",
    ),
    (
        "exit 3",
        docs_of(1, "u", result=result("failed", exitStatus=3)),
        {},
        "failed",
        "its command ended with status 3",
    ),
    (
        "killed",
        docs_of(1, "u", result=result("failed", exitStatus=-9)),
        {},
        "failed",
        "its command was ended by signal 9",
    ),
    (
        "said at the end",
        docs_of(1, "u", result=result("failed", message="it ended with status 3"), printed=UnitOutput(err="a\n\nb\n")),
        {"message": "it ended with status 3"},
        "failed",
        "it ended with status 3: a | b",
    ),
    (
        "a traceback's last line",
        docs_of(
            1,
            "u",
            result=result("failed", message="it ended with status 1"),
            printed=UnitOutput(err='Traceback (most recent call last):\n  File "x"\nKeyError: 3\n'),
        ),
        {},
        "failed",
        "it ended with status 1: KeyError: 3",
    ),
    (
        "no such command",
        docs_of(
            1,
            "u",
            result=result("failed", message="it ended with status 127", exitStatus=127),
            printed=UnitOutput(err="bash: line 1: codemodx: command not found\n"),
        ),
        {},
        "failed",
        "command not found: codemodx",
    ),
    (
        "no such script",
        docs_of(
            1, "u", result=result("not_started", message="cannot start ./x: No such file or directory", argv=["./x"])
        ),
        {},
        "not_started",
        "command not found: ./x (units see what is committed, and nothing else)",
    ),
    (
        "a prompt",
        docs_of(
            1,
            "u",
            result=result("failed", message="it ended with status 1"),
            printed=UnitOutput(out="Deleting.\nReally? [y/N] ", err=""),
        ),
        {},
        "failed",
        "it asked a question of a closed stdin: Really? [y/N]",
    ),
    (
        "input() of Python",
        docs_of(
            1,
            "u",
            result=result("failed", message="it ended with status 1"),
            printed=UnitOutput(
                out="Name: ", err="Traceback (most recent call last):\nEOFError: EOF when reading a line\n"
            ),
        ),
        {},
        "failed",
        "it asked a question of a closed stdin: Name:",
    ),
    (
        "asked and gave up",
        docs_of(1, "u", patch=patch("noop"), result=result("finished"), printed=UnitOutput(out="Go on (y/n)? ")),
        {},
        "noop",
        "it changed nothing; it asked a question of a closed stdin: Go on (y/n)?",
    ),
    (
        "lost to two",
        docs_of(
            3,
            "u",
            receipt=receipt("textual_conflict", conflicts=[{"path": "f", "reason": "contents"}]),
            rivals={"f": ["a", "b"]},
        ),
        {},
        "textual_conflict",
        "f: a and b changed the same lines and were accepted first",
    ),
    (
        "deletes what another changed",
        docs_of(
            3,
            "u",
            patch={"outcome": "collected", "base": A, "tree": B, "paths": [{"path": "f", "change": "deleted"}]},
            receipt=receipt("textual_conflict", conflicts=[{"path": "f", "reason": "modify/delete"}]),
            rivals={"f": ["a"]},
        ),
        {},
        "textual_conflict",
        "f: a changed what this deletes and was accepted first",
    ),
    (
        "changes what the target deleted",
        docs_of(1, "u", receipt=receipt("textual_conflict", conflicts=[{"path": "f", "reason": "modify/delete"}])),
        {},
        "textual_conflict",
        "f: the target deleted it since this unit began",
    ),
    (
        "lost to the target",
        docs_of(1, "u", receipt=receipt("textual_conflict", conflicts=[{"path": "f", "reason": "contents"}])),
        {},
        "textual_conflict",
        "f: the target changed the same lines since this unit began",
    ),
    (
        "not verified",
        docs_of(
            1,
            "u",
            receipt=receipt("verification_failed", message="it ended with status 2: no; its output is in /l"),
        ),
        {},
        "verification_failed",
        "it ended with status 2: no; its output is in /l",
    ),
    ("late", docs_of(1, "u", result=result("timed_out", message="60 s were over")), {}, "timed_out", "60 s were over"),
    (
        "skipped",
        docs_of(1, "u"),
        {"outcome": "skipped", "message": "not started: it waits for a"},
        "skipped",
        "not started: it waits for a",
    ),
    (
        "damaged",
        docs_of(1, "u", receipt=receipt("accepted"), broken="lease.json: not JSON"),
        {},
        "broken_contract",
        "lease.json: not JSON",
    ),
    ("blocked", docs_of(1, "u", receipt=receipt("blocked", message="HEAD moved")), {}, "blocked", "HEAD moved"),
    ("no reason given", docs_of(1, "u", receipt=receipt("suspect_revert")), {}, "suspect_revert", "suspect revert"),
]


@pytest.mark.parametrize(("docs", "left", "word", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_outcome_and_reason(docs: UnitDocs, left: dict[str, str], word: str, why: str) -> None:
    assert outcome_of(docs, left) == word
    assert reason_of(docs, word, left) == why


@pytest.mark.parametrize(
    ("status", "words", "landed", "outcome"),
    [
        ("open", ["accepted"], False, None),
        ("completed", ["accepted", "noop", "subsumed"], True, "done"),
        ("completed", ["noop"], False, "done"),
        ("completed", [], False, "done"),
        ("completed", ["accepted", "textual_conflict"], True, "partial"),
        ("completed", ["textual_conflict"], False, "error"),
        ("completed", ["accepted", "pending"], True, "partial"),
        ("failed", ["accepted"], False, "error"),
    ],
)
def test_derived_outcome(status: ReportStatus, words: list[str], landed: bool, outcome: str | None) -> None:
    entries = [unit_entry(docs_of(1, "u", receipt=receipt(word)), {}, {}) for word in words]
    assert derived(status, entries, landed=landed) == outcome


def event(name: str, second: int, **more: Any) -> TraceEvent:
    base = {"schemaVersion": 1, "at": f"2026-05-17T12:00:{second:02d}.000Z", "level": "debug", "phase": "work_unit"}
    whole = {**base, "jobId": "j1", "connectionId": "c", "sourceKey": "s", "event": name, **more}
    return cast("TraceEvent", whole)


def test_the_trace_says_why_a_unit_was_left_out() -> None:
    events = [
        event("work_unit_not_integrated", 1, data={"unitKey": "a", "reason": "failed", "message": "status 3"}),
        event(
            "patch_refused", 2, data={"unitKey": "b", "outcome": "invalid_patch"}, error={"name": "E", "message": "bad"}
        ),
        event("work_unit_not_integrated", 3, data={"unitKey": "c", "reason": "failed"}),
        event("work_unit_reused", 4, data={"unitKey": "c"}),
        event("no_unit", 5),
    ]
    assert left_out(events) == {
        "a": {"outcome": "failed", "message": "status 3"},
        "b": {"outcome": "invalid_patch", "message": "bad"},
    }


def test_spans_and_phases() -> None:
    events = [
        event("x_started", 1),
        event("x_finished", 3, durationMs=2000, data={"unitKey": "a"}),
        event("y_failed", 4, durationMs=500.5, level="error"),
        event("z_finished", 5, durationMs=60_000, phase="gates"),
    ]
    origin = events[0]["at"]
    assert [(s["name"], s.get("unitKey"), s["startMs"], s["durationMs"], s["ok"]) for s in spans(events, origin)] == [
        ("z", None, 0.0, 60_000, True),  # longer than the trace: the clock was set back
        ("x", "a", 0.0, 2000, True),
        ("y", None, 2499.5, 500.5, False),
    ]
    assert phases(events, origin) == [
        {"phase": "work_unit", "startMs": 0.0, "endMs": 3000.0, "events": 3, "errors": 1},
        {"phase": "gates", "startMs": 0.0, "endMs": 4000.0, "events": 1, "errors": 0},
    ]
    assert (stem("a_finished"), stem("a_failed"), stem("a_started"), between(events[3]["at"], events[0]["at"])) == (
        "a", "a", "a_started", 0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (99_900, "99.9 s"),
        (100_000, "1 min 40 s"),
        (7_380_000, "2 h 03 min"),
    ],
)
def test_duration(ms: float, text: str) -> None:
    assert duration(ms) == text


JOB = {
    "schemaVersion": 1, "kind": "job", "jobId": "j1", "connectionId": "warehouse", "sourceKey": "metabase",
    "createdAt": AT, "objectFormat": "sha1", "target": "refs/heads/main", "targetAtStart": A, "base": B, "units": [],
    "integrationRef": "refs/ktx/jobs/j1/integration", "state": "landed", "landed": {"commit": C, "at": AT},
}  # fmt: skip
TRACE = "/r/.ktx/ingest-traces/j1/trace.jsonl"


def whole(units: list[UnitDocs], **job: Any) -> Report:
    made = assemble(cast("Job", {**JOB, **job}), units, [event("ingest_started", 0)], at=AT, trace=TRACE)
    contracts.validate("report", made)
    return made


def test_the_report_counts_and_names() -> None:
    made = whole(
        [
            docs_of(1, "a", patch=patch("collected", "x"), receipt=receipt("accepted", after=B)),
            docs_of(2, "b", receipt=receipt("semantic_conflict", findings=[GONE])),
            docs_of(3, "c", patch=patch("noop")),
            UnitDocs(4, "d"),
        ],
        startedAt=AT,
        finishedAt="2026-05-17T12:00:01.500Z",
    )
    assert (made["status"], made["outcome"], made["commitSha"], made["durationMs"]) == ("completed", "partial", C, 1500)
    isolated = made["isolatedDiff"]
    assert (isolated["acceptedPatches"], isolated["semanticConflicts"], isolated["noops"], isolated["waiting"]) == (
        1,
        1,
        1,
        1,
    )
    assert [unit["key"] for unit in made["failedWorkUnits"]] == ["b"]
    assert made["workUnits"][0]["durations"] == {"integrate": 7.5}


KEYS = [
    "a",
    "pages/" + "long" * 40,
    "\u65e5\u672c\u8a9e\u306e\u30ad\u30fc" * 9,
    "e\u0301" * 30,
    "with spaces in it",
    "-" * 512,
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("reason", ["", "word " * 80, "x" * 500, "\u65e5\u672c" * 90, "\u202eevil\u0007"])
def test_text_fits_80_columns(key: str, reason: str) -> None:
    units = [
        docs_of(1, "a", receipt=receipt("accepted")),
        docs_of(2, key, receipt=receipt("verification_failed", message=reason)),
    ]
    failure = {"phase": "gates", "message": f"it {reason}", "outcome": "failed"}
    lines = render(whole(units, failure=failure, warnings=[reason], connectionId="c" * 200))
    for line in lines:
        assert columns(line) <= WIDTH or line.startswith("Trace: "), line
        assert line == line.rstrip() and "\u202e" not in line and "\u0007" not in line
    text = "\n".join(lines)
    assert "Trace: /r/.ktx/ingest-traces/j1/trace.jsonl" in lines
    assert "Isolated diff: 1 verification failed, 1 accepted\n" in text, "every outcome, and no zeros"
    assert text.startswith("Job j1: partial: 1 of 2 units landed on main as cccccccccccc")
    assert text.index("verification failed") < text.index("accepted"), "what failed comes first"


@pytest.mark.parametrize("where", ["reason", "warning", "failure"])
def test_a_path_is_never_broken_over_lines(where: str) -> None:
    path = "/tmp/a-place/" + "deep/" * 30 + "verify-41b58de98242.log"
    said = f"the verification ended with status 3; its output is in {path} (attempt 2, of {path})."
    facts: dict[str, Any] = {"warnings": [said]} if where == "warning" else {}
    facts |= {"failure": {"phase": "gates", "message": said, "outcome": "failed"}} if where == "failure" else {}
    units = [docs_of(1, "a", patch=patch("collected", "x"), receipt=receipt("accepted", after=B))]
    made = whole(units, **facts)
    made["workUnits"][0]["reason"] = said if where == "reason" else "1 path"
    words = "\n".join(render(made)).split()
    assert path in words and f"{path})." in words


def columns(text: str) -> int:
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def test_an_empty_job_says_so() -> None:
    lines = render(whole([], state="open"))
    assert "No units." in lines and lines[0].startswith("Job j1: open")
