"""The job file: what a job is to do, as values. Reading and schema are done before; here names and order are judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.store.rules.names import check_job, check_key
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.work.rules.schedule import ScheduledUnit, integration_order

if TYPE_CHECKING:
    from ktxkit.base.documents import Ingest, JobFile, JobUnit, LeasePolicy, StepCommand, UnitLimits, VerifyCommand


POLICY_KEYS: Final = (
    *("allow", "deny", "allowControl", "textRoots", "deliverables", "leaveOut"),
    *("slDisallowed", "allowUnpublished"),
)
LIMITS: Final = ("memory", "processes", "files", "disk")
INTERVALS: Final = ("silence", "grace", "cap", "interval")  # of the observer, in seconds
RECONCILE = "reconcile"  # the key of the unit that runs on the integrated tree
PROJECT = "project"  # the key of the unit that runs before the base is fixed


class JobCommand(NamedTuple):
    """A command of the job: argv, and its time limit in seconds.

    Of a verification: `keep`, patterns of ignored files that may stay from one candidate to the next; `env`, variables.
    """

    argv: tuple[str, ...]
    time_limit: float | None = None
    keep: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class UnitPlan(NamedTuple):
    """A unit of the job: what runs, on which raw files, under which policy."""

    key: str
    step: JobCommand
    after: tuple[str, ...] = ()
    raw_files: tuple[str, ...] = ()
    policy: LeasePolicy = cast("LeasePolicy", {})
    env: Mapping[str, str] = {}
    document: Mapping[str, Any] = {}
    tolerant: bool = False
    limits: Mapping[str, int] = {}  # memory, disk (bytes), processes, files

    @property
    def node(self) -> ScheduledUnit:
        return ScheduledUnit(self.key, self.after, self.tolerant)


class JobPlan(NamedTuple):
    """A whole job, its units in integration order."""

    connection: str
    source: str
    target: str
    units: tuple[UnitPlan, ...]
    job_id: str = ""
    sync_id: str = ""
    message: str = ""
    project: JobCommand | None = None
    plan: JobCommand | None = None
    verify: JobCommand | None = None
    verify_batch: bool = False
    max_parallel: int | None = None
    on_failure: str = "continue"
    on_conflict: str = "set-aside"
    on_suspect: str = "report"
    observe: Mapping[str, int] | None = None  # settings of the observer, in milliseconds; None: units are not observed
    copy: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()
    gates: Mapping[str, Any] = {}
    isolate: tuple[str, ...] | None = None  # where isolated units may write beside their own places; None: anywhere
    document: Mapping[str, Any] = {}

    @property
    def digest(self) -> str:
        return digest_of(self.document)


SET_UP = """( {0}
) >&2 || {{ status=$?; echo "setup ended with status $status" >&2; exit "$status"; }}
exec "$@"
"""


def behind(setup: str | Sequence[str] | None, step: JobCommand) -> JobCommand:
    """The command behind the setup of its worktree: in one process group, with one output, limit and isolation."""
    if setup is None:
        return step
    text = setup if isinstance(setup, str) else shlex.join(setup)
    return step._replace(argv=("/bin/sh", "-c", SET_UP.format(text), "sh", *step.argv))


def argv_of(run: str | Sequence[str]) -> tuple[str, ...]:
    """argv as it is; text goes to the shell."""
    return ("/bin/sh", "-c", run) if isinstance(run, str) else tuple(run)


def _observe(document: JobFile) -> Mapping[str, int] | None:
    """Seconds of the job file as the observer's milliseconds. `onSuspect` alone observes with the defaults."""
    asked = document.get("observe", "onSuspect" in document)
    if isinstance(asked, Mapping):
        return {f"{key}_ms": round(asked[key] * 1000) for key in INTERVALS if key in asked}
    return {} if asked else None


def isolate_of(document: JobFile | Ingest) -> tuple[str, ...] | None:
    """Where isolated units may write beside their own places; None where they are not isolated."""
    asked = document.get("isolate", False)
    if isinstance(asked, Mapping):
        return tuple(asked.get("write", ()))
    return () if asked else None


def limits_of(*layers: UnitLimits) -> Mapping[str, int]:
    """Bytes and numbers, of which a later one says it again."""
    found: dict[str, int | str] = {}
    for limits in layers:
        for key in LIMITS:
            if key in limits:
                found[key] = limits[key]
    return {key: _number(value) for key, value in found.items()}


def _number(value: int | str) -> int:
    """`512M` in bytes."""
    if isinstance(value, int):
        return value
    digits = value.rstrip("KMGT")
    return int(digits) << 10 * (1 + "KMGT".index(value[-1]) if digits != value else 0)


def _step(value: str | list[str] | StepCommand | VerifyCommand | None, limit: float | None = None) -> JobCommand | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        more = cast("VerifyCommand", value)  # a verification may name what stays, and variables
        argv, keep = argv_of(value["run"]), tuple(more.get("keep", ()))
        return JobCommand(argv, value.get("timeLimit", limit), keep, more.get("env", {}))
    return JobCommand(argv_of(value), limit)


def plan_of(document: JobFile, planned: Sequence[JobUnit] = ()) -> JobPlan:
    """The plan of a valid job-file document, with the units that a plan command printed behind its own.

    Raises CannotRun for a key that is twice, an unknown key or a circle in `after`, a unit without a command.
    """
    units = [_unit(entry, document) for entry in [*document.get("units", ()), *planned]]
    order = integration_order([unit.node for unit in units])
    by_key = {unit.key: unit for unit in units}
    ordered = [by_key[node.key] for node in order]
    reconcile = _step(document.get("reconcile"))
    if reconcile is not None:
        ordered.append(_reconcile(reconcile, ordered, document))
        integration_order([unit.node for unit in ordered])
    verify = document.get("verify")
    if document.get("job"):
        check_job(document["job"])
    return JobPlan(
        connection=document.get("connectionId", DEFAULT_CONNECTION),
        source=document.get("sourceKey", DEFAULT_SOURCE),
        target=document.get("target", ""),
        units=tuple(ordered),
        job_id=document.get("job", ""),
        sync_id=document.get("syncId", ""),
        message=document.get("message", ""),
        project=_step(document.get("project")),
        plan=_step(document.get("plan")),
        verify=_step(verify),
        verify_batch=bool(isinstance(verify, Mapping) and verify.get("batch", False)),
        max_parallel=document.get("maxParallel"),
        on_failure=document.get("onFailure", "continue"),
        on_conflict=document.get("onConflict", "set-aside"),
        on_suspect=document.get("onSuspect", "report"),
        observe=_observe(document),
        copy=tuple(document.get("copy", ())),
        sparse=tuple(document.get("sparse", ())),
        gates=document.get("gates", {}),
        isolate=isolate_of(document),
        document=document,
    )


def _unit(entry: JobUnit, job: JobFile) -> UnitPlan:
    from ktxkit.base.errors import CannotRun

    check_key(entry["key"])
    step = _step(entry.get("run", job.get("run")), job.get("timeLimit"))
    if step is None:
        raise CannotRun(
            f"unit {entry['key']!r} has no command",
            hint="give it `run`, or give the job a `run` for all its units",
            data={"unit": entry["key"]},
        )
    policy = _policy_of(job)
    for key in POLICY_KEYS:
        if key in entry:
            policy[key] = entry[key]
    return UnitPlan(
        key=entry["key"],
        step=behind(job.get("setup"), step._replace(time_limit=entry.get("timeLimit", step.time_limit))),
        after=tuple(entry.get("after", ())),
        raw_files=tuple(entry.get("rawFiles", ())),
        policy=policy,
        env={**job.get("env", {}), **entry.get("env", {})},
        document=entry,
        limits=limits_of(job.get("limits", {}), entry.get("limits", {})),
    )


def _policy_of(job: JobFile) -> LeasePolicy:
    return cast("LeasePolicy", {**job.get("policy", {})})  # which may say all that a job file may, and more


def _reconcile(step: JobCommand, units: Sequence[UnitPlan], job: JobFile) -> UnitPlan:
    """Reconciliation is a unit after all others: its change is collected, judged and gated like theirs."""
    return UnitPlan(
        key=RECONCILE,
        step=behind(job.get("setup"), step),
        after=tuple(unit.key for unit in units),
        policy=_policy_of(job),
        env=job.get("env", {}),
        document={"key": RECONCILE},
        tolerant=True,
        limits=limits_of(job.get("limits", {})),
    )


def inputs_digest(unit: UnitPlan, base_tree: str, raw_ids: Mapping[str, str]) -> str:
    """What a unit's work depends on: command, policy, environment, the tree it starts from and its raw files.

    A patch is reused only while this is the same. For a unit on the job's base `base_tree` says all; `raw_ids` (path to
    git blob id) is there so that the reason for a change can be named.
    """
    return digest_of(
        {
            "argv": list(unit.step.argv),
            "policy": dict(unit.policy),
            "env": dict(unit.env),
            "unit": dict(unit.document),
            "baseTree": base_tree,
            "raw": dict(raw_ids),
        }
    )
