"""Telling somebody: a command of the user's is run when a job has ended, with what happened as JSON on its stdin.

It is a courtesy: whatever becomes of it changes no outcome. KTX_NOTIFY names it, else `notify` in `.ktx-config.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktxkit.base import contracts, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import KtxError
from ktxkit.store import config
from ktxkit.store.world import World

CONTRACT = "notice"
VARIABLE = "KTX_NOTIFY"
TIME_LIMIT = 30.0  # seconds for one notice
SUSPECTS_TOLD = 20  # of one job; the report has all


def of_job(world: World, report: Document) -> list[str]:
    """Tell of a job that has ended, of its suspects and of what is blocked. Returns what went wrong in telling."""
    try:
        command = world.env.get(VARIABLE) or config.load(world).get("notify", "")
    except KtxError as error:
        return [error.message]
    if not command:
        return []
    told = [_tell(world, command, notice) for notice in notices(report, timestamp(world.clock.now()))]
    return [problem for problem in told if problem]


def notices(report: Document, at: str) -> Iterator[Document]:
    """What there is to tell of a report: the end of the job first."""
    about: Document = {"schemaVersion": SCHEMA_VERSION, "kind": CONTRACT, "at": at, "jobId": report["jobId"]}
    places = {"trace": report["tracePath"], **({"report": report["reportPath"]} if "reportPath" in report else {})}
    failure = report.get("failure", {})
    message = f"{failure['phase']}: {failure['message']}"[:4000] if failure else ""
    yield {
        **about,
        "event": "job_ended",
        **({"outcome": report["outcome"]} if "outcome" in report else {}),
        **({"commit": report["commitSha"]} if "commitSha" in report else {}),
        **({"message": message} if message else {}),
        "outcomes": report["isolatedDiff"]["outcomes"],
        **places,
    }
    if failure.get("details", {}).get("outcome") == "blocked":
        yield {**about, "event": "blocked", "message": message, **places}
    events = {"suspect_revert": "suspect", "blocked": "blocked"}
    found = [unit for unit in report["failedWorkUnits"] if unit["outcome"] in events]
    for unit in found[:SUSPECTS_TOLD]:
        event = events[unit["outcome"]]
        yield {**about, "event": event, "unitKey": unit["key"], "message": unit["reason"] or event, **places}


def _tell(world: World, command: str, notice: Document) -> str:
    mine = {key: value for key, value in world.env.items() if not key.startswith(("GIT_", "KTX_"))}
    try:
        done = process.run(
            ["/bin/sh", "-c", command],
            cwd=world.repository.place,
            env={**mine, "KTX_EVENT": notice["event"], "KTX_JOB": notice["jobId"]},
            stdin=contracts.line(CONTRACT, notice),
            timeout=TIME_LIMIT,
        )
    except (KtxError, OSError) as error:
        return f"the notify command was not told of {notice['event']}: {error}"
    if done.timed_out:
        return f"the notify command did not end within {TIME_LIMIT:.0f} seconds"
    if done.status != 0:
        said = done.err.decode("utf-8", "replace").strip()[-500:]
        return f"the notify command {process.ending(done.status)}{f': {said}' if said else ''}"
    return ""
