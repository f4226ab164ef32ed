"""Pages that a person edited since the built-in worker wrote them: its next version is merged with the edit.

Units find such a page as it was written, so that what they make of it differs from their base by the source's change
only, and integration merges that with the edit as it merges any two changes: cleanly, or as a conflict with its name.

The projection's commit: what the connector says by rule, on top of the snapshot, gated before any unit starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import Conflict
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import plural
from ktxkit.gates import facts as gate_facts
from ktxkit.gates import judging
from ktxkit.git.git import Git
from ktxkit.git.objects import Objects
from ktxkit.ingest import staging
from ktxkit.ingest.account import Baseline
from ktxkit.ingest.knowledge import Knowledge
from ktxkit.ingest.planning import IngestRequest, Planned
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.projection import Projected
from ktxkit.work import land, recover
from ktxkit.work.job.prepare import pruned
from ktxkit.work.job.state import JobRun


def of_pages(
    git: Git, request: IngestRequest, planned: Planned, base: Baseline, known: Knowledge
) -> dict[str, str | None]:
    """Each edited page that a unit of the plan wrote, and its blob as written; None where that is not there any more.

    A worker of the user's finds pages as they are: it reads an edit, and answers for what it does to it.
    """
    if request.worker:
        return {}
    raws = {raw for one in planned.selected for raw in one.proposal.raw_files}
    wrote: dict[str, dict[str, str]] = {}
    for raw in raws:
        for row in base.last.get(raw, ()):
            path = str(row.get("artifactPath", ""))
            if path.startswith("wiki/") and path in known.files and "artifactContentHash" in row:
                wrote.setdefault(path, {})[row["artifactContentHash"]] = row.get("artifactBlob", "")
    with Objects(git) as objects:
        found: dict[str, str | None] = {}
        for path, versions in sorted(wrote.items()):
            if digest(objects.read(known.files[path])) not in versions:
                there = [blob for blob in versions.values() if blob and objects.find(blob) is not None]
                found[path] = there[-1] if there else None
    return found


def edit_note(path: str, blob: str | None) -> str:
    """What the report says of such a page."""
    if blob is None:
        return f"{path} was edited, and what was written before is not there any more: a change of its card conflicts"
    return f"{path} was edited since it was written: what its card says now is merged with the edit"


KEPT = 10_000


def project(
    run: JobRun, request: IngestRequest, planned: Planned, known: Knowledge, parent: str, due: Collection[str]
) -> str:
    """The commit that units and integration start from. Raises Conflict where the projection has errors, or the gates
    find new ones in what it made.

    `due`: artifacts that this job's units make anew or remove (the page of a model that has another name now): what is
    wrong in them is left to the final gates, which charge the projection all the same.
    """
    projection, applied = planned.reading.project(), planned.applied
    told = {"files": len(projection.files), "changes": list(applied.changes)[:100]}
    with run.tracer.timed("projection", "deterministic_projection", told) as facts:
        if projection.errors:
            first = "; ".join(projection.errors[:5])
            raise Conflict(
                f"the projection reported {plural(len(projection.errors), 'error')}: {first}",
                outcome="failed",
                hint="nothing ran after it; correct the source and start again",
            )
        message = f"Projection of {request.owner}\n"
        made = staging.commit(run.world, parent, applied.changes, message, texts=True)
        made = pruned(run, made, due)
        facts |= {"commit": made, "kept": list(applied.kept)[:100], "warnings": len(projection.warnings)}
        _gated(run, made, due)
    run.world.writable_store.write("projected", places.projected_doc(run.job.id), _document(run, planned, known))
    return made


def verified(run: JobRun, start: str, base: str) -> None:
    """The job's verification of what units start from, and what lands without any of them. Raises Conflict where it
    fails, Refused where it fails at `start` too."""
    if run.plan.verify is None:
        return
    before, now = ((commit, run.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")) for commit in (start, base))
    said = ("the projection", "nothing ran after it: correct the source or the command and start again")
    with recover.integrating(run.job) as branch:
        land.prove(branch, run.plan.verify, now, subject=said, without=before)


def _gated(run: JobRun, commit: str, due: Collection[str]) -> None:
    git = run.git
    tree = git.text("rev-parse", "--verify", f"{commit}^{{tree}}")
    start = git.text("rev-parse", "--verify", f"{run.job.document['targetAtStart']}^{{tree}}")
    verdict = judging.check_tree(run.world, tree, base_tree=start, options=run.plan.gates)
    errors = [one for one in verdict["findings"] if one["level"] == "error" and not one.get("inherited")]
    new = [one for one in errors if one["path"] not in due]
    if new:
        named = "; ".join(f"{one['path']}: {one['message']}" for one in new[:5])
        raise Conflict(
            f"the projection breaks {plural(len(new), 'gate rule')}: {named}",
            outcome="semantic_conflict",
            hint="what refers to a source that is gone must go too, or the source must come back",
            data={"findings": new[:1000]},
        )


def _document(run: JobRun, planned: Planned, known: Knowledge) -> Document:
    """What was projected, for the provenance: each changed artifact, its word and its raw files."""
    projection, applied = planned.reading.project(), planned.applied
    changed = {path for path, text in applied.changes.items() if text is not None}
    changes = [change for one in projection.files if one.path in changed for change in _changes(one, known)]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "projected",
        "jobId": run.job.id,
        "changes": changes,
        "removed": [path for path, text in applied.changes.items() if text is None],
        "kept": list(applied.kept),
        "warnings": [one[:60_000] for one in (*projection.warnings, *applied.warnings)][:KEPT],
        "unresolved": {raw: why[:4000] for raw, why in projection.unresolved.items()},
    }


def _changes(one: Projected, known: Knowledge) -> Iterator[Document]:
    """The sources of a projected file that are new or differ from what its file had."""
    old = _sources(known.facts.get(one.path, {}))
    new = _sources(gate_facts.read("shard" if "/_schema/" in one.path else "source", one.body.encode("utf-8")))
    for key, raws in one.origins.items():
        connection, _, name = key.partition("/")
        word = _word(old.get(name), new.get(name))
        if word:
            yield {
                "path": one.path,
                "artifactKey": key,
                "targetConnectionId": connection,
                "actionType": word,
                "rawPaths": list(raws),
            }


def _sources(facts: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in facts.get("sources", ())}


def _word(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    if old is None or new is None:
        return "source_created"
    if _names(new, "measures") - _names(old, "measures"):
        return "measure_added"
    joins = [{(join["to"], join["on"]) if "on" in join else join["to"] for join in one["joins"]} for one in (old, new)]
    return "join_added" if joins[1] - joins[0] else "merged"


def _names(source: Mapping[str, Any], kind: str) -> set[str]:
    return {name for name, _, _ in source[kind]}
