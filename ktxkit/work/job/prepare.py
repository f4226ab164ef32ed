"""Reading a job file: strict YAML, then the contract, then what the command line says instead.

The beginning of a job: the snapshot, the projection, the base, the plan.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ktxkit.base import contracts, files, kinds, sandbox, unit_process
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import BrokenContract, CannotRun, Conflict, KtxError
from ktxkit.base.process import Command
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import path_fields
from ktxkit.git import merging, neutral
from ktxkit.git.git import for_others
from ktxkit.git.neutral import scratch_dir
from ktxkit.store import config, leases
from ktxkit.store.active import Unit
from ktxkit.store.rules import names
from ktxkit.store.rules.trace import DEFAULT_CONNECTION, DEFAULT_SOURCE
from ktxkit.store.world import World
from ktxkit.work import closing, collect, integrate
from ktxkit.work.job.state import JobRun
from ktxkit.work.job.unit import close_or_keep, execute
from ktxkit.work.rules.job_file import PROJECT, JobCommand, JobPlan, UnitPlan, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from ktxkit.base.documents import JobFile, JobFileSource, JobProjectionResult, JobUnit, ProjectionOutput
    from ktxkit.base.rules.strict_yaml import Node
    from ktxkit.work.job.state import JobChanges


KEYS = "`git ktx help job-file` lists the keys"
NO_FILE = "job-run takes the path of a job file; `git ktx help job-file` shows what is in one"
SIZE_LIMIT = 1024 * 1024  # bytes; a job with more units has a plan command that prints them


def job_file(world: World, name: str, given: Mapping[str, Any]) -> JobFile:
    """The valid document of a job file: `given` over it, the repository's defaults (`.ktx-config.yaml`) under it.

    Raises CannotRun where it is missing or not valid.
    """
    path = world.cwd / name
    try:
        data = files.read(path, SIZE_LIMIT)
    except FileNotFoundError as error:
        raise CannotRun("no such job file", location=str(path), hint=NO_FILE) from error
    except IsADirectoryError as error:
        raise CannotRun("a directory is no job file", location=str(path), hint="name the file in it") from error
    except BrokenContract as error:
        raise CannotRun(error.message, location=error.location, hint=NO_FILE) from error
    root = _yaml(data, str(path))
    found = list(config.faults(root, kinds.JOB_FILE))
    if found:
        line, column, message = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise CannotRun(f"{message}{more}", location=f"{path}:{line}:{column}", hint=KEYS)
    document = completed(world, {**root.data(), **given}, str(path))
    try:
        plan_of(document)
    except CannotRun as error:  # of a unit: names, circles, no command
        raise CannotRun(error.message, location=_place(root, error, path), hint=error.hint) from error
    return document


def _place(root: Node, error: KtxError, path: Path) -> str:
    """Where the unit stands that an error is about; the file where it is about none."""
    units = root.get("units")
    for unit in reversed(units.values() if units is not None else []):  # of a key that stands twice the second one
        key = unit.get("key")
        if key is not None and key.plain == error.data.get("unit"):
            return f"{path}:{key.line}:{key.column}"
    return str(path)


def completed(world: World, document: Mapping[str, Any], location: str) -> JobFile:
    """The valid document of a job file with the repository's defaults, and ours, under it. Raises CannotRun."""
    usual = {"schemaVersion": SCHEMA_VERSION, "connectionId": DEFAULT_CONNECTION, "sourceKey": DEFAULT_SOURCE}
    settings = config.load(world)
    usual |= {"setup": settings["setup"]} if "setup" in settings else {}
    try:
        return contracts.validate(kinds.JOB_FILE, {**usual, **settings.get("job", {}), **document}, location)
    except BrokenContract as error:
        raise CannotRun(error.message, location=error.location, hint=KEYS) from error


def source_of(world: World, name: str) -> JobFileSource | None:
    """Where a job file is, and a digest of its bytes; None where it cannot be read (an ingestion has none)."""
    path = world.cwd / name
    try:
        data = files.read(path, SIZE_LIMIT)
    except (OSError, BrokenContract):
        return None  # it was read a moment ago, and its document is what counts
    return {**path_fields(bytes(path)), "digest": digest(data)}


def at_key(world: World, name: str, key: str, error: CannotRun) -> CannotRun:
    """An error about the value of a key, at its place in the job file; as it is where the file has no such key."""
    try:
        root = _yaml(files.read(world.cwd / name, SIZE_LIMIT), name)
    except (OSError, KtxError):
        return error
    named = root.at([key])[1]
    if named is None:
        return error
    return CannotRun(error.message, location=f"{world.cwd / name}:{named.line}:{named.column}", hint=error.hint)


def _yaml(data: bytes, location: str) -> Node:
    """The mapping of a job file, with places. Raises CannotRun."""
    from ktxkit.base.rules.strict_yaml import read

    parsed = read(data)
    if parsed.problems:
        first = parsed.problems[0]
        more = f" (and {len(parsed.problems) - 1} more)" if len(parsed.problems) > 1 else ""
        place = f"{location}:{first.line}:{first.column}"
        raise CannotRun(f"{first.message}{more}", location=place, hint=first.hint or KEYS)
    if parsed.root is None or parsed.root.kind != "map":
        raise CannotRun("a job file is a mapping, as in `units: [{key: a, run: make}]`", location=location, hint=KEYS)
    return parsed.root


PLAN_LIMIT = 3600.0  # seconds for a plan command without a limit of its own
PROJECTION_LIMIT = 15 * 1024 * 1024  # bytes of a projection's stdout; more of it is not kept as a whole
RESULT_KEPT: Final = ("warnings", "touchedSources", "changedWikiPageKeys")
RAW_SHOWN = 100  # raw paths in the trace


def planned_units(world: World, step: JobCommand, job_id: str) -> list[JobUnit]:
    """Run the plan command at the repository's top; each line of its stdout is a unit.

    Raises Conflict (`failed`) where it fails or prints without end, BrokenContract with the line where one is no unit.
    """
    with scratch_dir(world) as place:
        ended = unit_process.run_unit(
            Command(
                step.argv,
                world.repository.directory,
                {**for_others(world.env), "KTX_JOB": job_id},
                step.time_limit or PLAN_LIMIT,
            ),
            out=place / "stdout",
            err=place / "stderr",
            clock=world.clock,
            stop=threading.Event(),
        )
        said = files.read(place / "stderr").decode("utf-8", "replace").strip()[-2000:]
        if ended.reason == "finished" and ended.cut[0]:
            raise Conflict(
                f"the plan command printed {ended.printed[0]} bytes, which is more than are read",
                outcome="failed",
                hint="one line for each unit: what a unit needs beside it belongs into a file",
            )
        if ended.reason != "finished":
            why = f": {said}" if said else ", without a word on its stderr"
            how = ended.message.replace("it ", "", 1)
            raise Conflict(f"the plan command {how}{why}", outcome="failed", hint="run it by hand to see why")
        lines = enumerate(files.read(place / "stdout").splitlines(), start=1)
    return [
        contracts.loads(kinds.JOB_UNIT, line, f"plan command, line {number}") for number, line in lines if line.strip()
    ]


def with_planned(world: World, document: JobFile, job_id: str) -> tuple[JobFile, JobPlan]:
    """The document with the units of its plan command written out, and its plan. A resumed job plans nothing anew."""
    plan = plan_of(document)
    if plan.plan is None:
        return document, plan
    units = [*document.get("units", ()), *planned_units(world, plan.plan, job_id)]
    whole: JobFile = {**document, "units": units}
    whole.pop("plan", None)
    contracts.validate(kinds.JOB_FILE, whole, "job file with the planned units")
    return whole, plan_of(whole)


def fix_base(run: JobRun) -> None:
    """Trace the snapshot, run the projection, and record the one commit from which every unit starts."""
    start = str(run.job.document["targetAtStart"])
    raw = sorted({path for unit in run.plan.units for path in unit.raw_files})
    run.tracer.emit(
        "snapshot",
        "input_snapshot",
        {
            "target": run.job.target,
            "baseSha": run.job.document.get("base", start),
            "unitCount": len(run.plan.units),
            "rawFileCount": len(raw),
            "rawFiles": raw[:RAW_SHOWN],
            "jobFileDigest": run.plan.digest,
        },
    )
    made = False
    if "base" not in run.job.document:
        base = run.hooks.base(run, start)
        if base is None and run.plan.project is None:
            integrate.ensure_integration(run.job, start, keep_ref=names.base_ref(run.job.id))
            base, made = start, True
        else:
            if base is None:
                integrate.ensure_integration(run.job, start)
                base = _project(run, start)
            leases.worktrees(run.world).keep(names.base_ref(run.job.id), base)
        changes: JobChanges = {"base": base}
        changes |= {"projection": base} if base != start else {}
        run.update(**changes)
    if not made:
        integrate.ensure_integration(run.job, run.job.document["base"])
    facts: dict[str, Any] = {
        "baseSha": run.job.document["base"],
        "projectionSha": run.job.document.get("projection"),
        "maxParallel": run.limit,
    }
    if run.plan.isolate is not None:
        facts |= {"landlock": sandbox.landlock_version(), "alsoWritable": list(run.plan.isolate)}
    run.tracer.emit("routing", "isolated_diff_enabled", facts, level="info")


def _project(run: JobRun, start: str) -> str:
    """Run the projection as a unit of its own before all others; its commit is the base, its gates the final ones."""
    assert run.plan.project is not None
    plan = UnitPlan(PROJECT, run.plan.project, document={"key": PROJECT})
    unit = run.unit(plan)
    with run.tracer.timed("projection", "projection", {"argv": list(plan.step.argv)}) as facts:
        lease = closing.open_unit(run.job, unit, base=start, copy=run.plan.copy)
        ended = execute(run, plan, unit, lease, run.plan.digest)
        if ended.problem:
            closing.close_unit(run.job, unit, "crash")
            raise Conflict(f"the projection failed: {ended.message}", outcome="failed", hint=_output(run, unit))
        result = _projection_result(run, unit)
        collect.collect_unit(run.job, unit, include_uncommitted=True)
        receipt = integrate.apply_unit(run.job, unit, options=_unjudged(run.plan))
        facts |= {"outcome": receipt["outcome"], **{key: result.get(key, []) for key in ("warnings", "touchedSources")}}
        if receipt["outcome"] not in ("accepted", "subsumed", "noop"):
            close_or_keep(run, unit, "conflict")
            why = f": {receipt['message']}" if "message" in receipt else ""
            raise Conflict(
                f"the projection's change could not be applied{why}",
                outcome=str(receipt["outcome"]),
                hint="job-report shows why; correct the projection and start again",
            )
        close_or_keep(run, unit, "success")
    kept: JobProjectionResult = {}
    for key in RESULT_KEPT:
        if key in result:
            kept[key] = result[key]
    if "touchedSources" in result:
        kept["touchedSources"] = [_touched(one) for one in result["touchedSources"]]
    run.update(projectionResult=kept)
    return pruned(run, run.head())


def pruned(run: JobRun, commit: str, due: Collection[str] = (), *, since: str = "") -> str:
    """The projection's commit, or one on it without what it left dangling, if the job prunes and that mends all.

    `due`: paths that units make anew; what dangles there is left to them, and to the end of the job. `since`: the
    commit whose findings are inherited (default: the target at the job's start). What is cut is in the job's document.
    """
    if run.plan.on_conflict != "prune":
        return commit
    from ktxkit.gates import judging

    tree, start = run.tree_of(commit), run.tree_of(since or run.job.document["targetAtStart"])
    kept = {path.encode("utf-8", "surrogateescape") for path in due}
    mended = judging.prune_tree(run.world, tree, base_tree=start, options=run.plan.gates, kept=kept)
    errors = [one for one in mended["findings"] if one["level"] == "error" and not one.get("inherited")]
    if mended["prunedTree"] == tree or any(one["path"] not in due for one in errors):
        return commit
    phase = "gates" if since else "projection"
    run.tracer.emit(phase, f"{phase}_pruned", {"pruned": mended["pruned"][:1000]}, level="info")
    message = f"What {'the units' if since else 'the projection'} left dangling is taken out\n"
    with neutral.open_neutral(run.world) as scratch:
        at = int(run.world.clock.now().timestamp())
        made = merging.commit_tree(scratch, mended["prunedTree"], commit, message, at)
    known = run.job.document.get("pruned", [])
    run.update(pruned=[*known, *(one for one in mended["pruned"] if one not in known)])
    return made


def _touched(said: Any) -> Any:
    """`connection/source` as the object that says the same."""
    home, slash, name = said.partition("/") if isinstance(said, str) else ("", "", "")
    return {"connectionId": home, "sourceName": name} if slash and home and name else said


def _unjudged(plan: JobPlan) -> integrate.ApplyOptions:
    """How a projection is applied: its gates are the final ones, but what units start from has been verified."""
    return integrate.ApplyOptions(gates=False).verified_by(plan.verify)


def _projection_result(run: JobRun, unit: Unit) -> ProjectionOutput:
    """The document that the projection printed; an empty stdout is an empty one. Raises Conflict for its errors."""
    path = run.world.store.path(f"{run.job.unit_dir(unit)}/stdout.log")
    data = files.read_part(path, PROJECTION_LIMIT + 1).content
    if len(data) > PROJECTION_LIMIT:
        closing.close_unit(run.job, unit, "crash")
        raise Conflict(f"the projection printed more than {PROJECTION_LIMIT} bytes", outcome="failed", hint=str(path))
    if not data.strip():
        return {}
    result = contracts.loads(kinds.PROJECTION, data, f"stdout of the projection ({path})")
    if result.get("errors"):
        closing.close_unit(run.job, unit, "crash")
        raise Conflict(
            f"the projection reported {len(result['errors'])} errors: {'; '.join(result['errors'][:5])}",
            outcome="failed",
            hint="nothing ran after it; correct its input and start again",
        )
    return result


def _output(run: JobRun, unit: Unit) -> str:
    folder = run.world.store.path(run.job.unit_dir(unit))
    return f"its output is in {folder}/stderr.log"


def failure_of(error: BaseException) -> tuple[str, str]:
    """Outcome word and message of what ended a job."""
    if isinstance(error, KtxError):
        return error.outcome, f"{error.location}: {error.message}" if error.location else error.message
    return "failed", f"{type(error).__name__}: {error}"
