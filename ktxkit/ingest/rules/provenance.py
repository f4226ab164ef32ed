"""Provenance: one row for each artifact that a raw file led to, one `skipped` row for each that led to nothing.

Rows are validated before anything lands and written after it. A row names raw bytes, never a guess: its path must be in
this sync's snapshot or among the files that it found deleted, and its artifact must be in the tree that lands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktxkit.base.rules.text import nearest, printable
from ktxkit.ingest.rules.artifacts import Artifact, artifact_of
from ktxkit.ingest.rules.raw_paths import departure, sort_key

ACTIONS = ("source_created", "measure_added", "join_added", "merged", "subsumed", "wiki_written", "skipped")
SKIPPED = "skipped"


@dataclass(frozen=True)
class Change:
    """What happened to one artifact's path. `action`: its word, `origins`: the raw paths that a worker names for it."""

    path: str
    artifact: Artifact
    action: str
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """One unit's part in the provenance: the raw files that it was given, and what came of them."""

    unit_key: str
    raw_files: tuple[str, ...]
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A row that cannot land, and why."""

    row: Mapping[str, Any]
    rule: str
    message: str
    hint: str = ""


def rows_of(
    works: Iterable[Work], settled: Collection[str], digests: Mapping[str, str], deleted: Collection[str] = ()
) -> list[dict[str, Any]]:
    """All rows of a sync, sorted, without the facts that every row shares.

    `settled`: raw paths whose work is done, those of failed units left out; each gets a row. `digests`: of every raw
    path that a row may name, of deleted ones the last known.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for work in works:
        for change in work.changes:
            for raw in change.origins or work.raw_files:
                row = _row(raw, digests, deleted) | change.artifact.fields() | {"actionType": change.action}
                row["unitKey"] = work.unit_key
                found[raw, change.artifact.kind, change.artifact.key] = row
    led = {raw for raw, _, _ in found}
    for raw in settled:
        if raw not in led:
            found[raw, "", ""] = _row(raw, digests, deleted) | {"actionType": SKIPPED}
    return [found[key] for key in sorted(found, key=lambda key: (key[0].encode("utf-8", "surrogatepass"), key[1:]))]


def _row(raw: str, digests: Mapping[str, str], deleted: Collection[str]) -> dict[str, Any]:
    hashed = {"rawContentHash": digests[raw]} if raw in digests else {}
    return {"rawPath": raw, **hashed, **({"deleted": True} if raw in deleted else {})}


def problems_of(
    rows: Sequence[Mapping[str, Any]], snapshot: Collection[str], deleted: Collection[str], tree: Collection[str]
) -> list[Problem]:
    """Every row that cannot land. `tree`: the paths of the tree that is to land.

    Paths are compared byte by byte; a spelling that is not the normal form is refused even where it would mean a file.
    """
    allowed = {path.encode("utf-8") for path in (*snapshot, *deleted)}
    problems = []
    for row in rows:
        problem = _raw_problem(row, allowed) or _artifact_problem(row, tree)
        if problem is not None:
            problems.append(problem)
    return problems


def _raw_problem(row: Mapping[str, Any], allowed: Collection[bytes]) -> Problem | None:
    raw = str(row["rawPath"])
    wrong = departure(raw)
    if wrong:
        message = f"provenance row names a raw path that is not in its normal form: {printable(raw)}: {wrong}"
        return Problem(row, "path-not-normal", message, "name raw files as the unit's document does")
    if raw.encode("utf-8") not in allowed:
        near = nearest(raw, [path.decode("utf-8") for path in allowed], 1)
        hint = f"did you mean {near[0]}?" if near else "raw paths are those of the unit's document"
        return Problem(
            row, "unknown-raw-path", f"provenance row references raw path outside this snapshot: {printable(raw)}", hint
        )
    return None


def _artifact_problem(row: Mapping[str, Any], tree: Collection[str]) -> Problem | None:
    path = row.get("artifactPath")
    if row["actionType"] == SKIPPED:
        if path is None and "artifactKey" not in row:
            return None
        return Problem(row, "unknown-artifact", f"a skipped row names an artifact: {printable(str(path))}")
    if path is None or path not in tree:
        named = printable(str(path or row.get("artifactKey", "")))
        message = f"provenance row of {printable(str(row['rawPath']))} names an artifact that is not there: {named}"
        return Problem(row, "unknown-artifact", message, "a unit names only artifacts that it leaves in the tree")
    return None


def actions_changes(actions: Sequence[Mapping[str, Any]], touched: Mapping[str, Change]) -> tuple[Change, ...]:
    """A worker's own account over what its patch touched: origins and words are the worker's where it gave them.

    An action that names a path which the unit did not touch stays as it was given; validation names it.
    """
    found = dict(touched)
    for action in actions:
        path = str(action["path"])
        known = found.get(path)
        artifact = artifact_of(path) or Artifact("other", path, path)
        base = known or Change(path, artifact, _word(artifact))
        origins = tuple(action.get("rawPaths", ())) or base.origins
        merged = (*base.origins, *origins) if known is not None and known.origins else origins
        found[path] = Change(path, base.artifact, action.get("actionType", base.action), tuple(dict.fromkeys(merged)))
    return tuple(found.values())


def _word(artifact: Artifact) -> str:
    return "wiki_written" if artifact.kind == "wiki" else "merged"


def last_artifacts(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """For each raw path, the rows of the last sync that has any for it: what it led to when it was last taken."""
    last: dict[str, tuple[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        sync, found = last.get(row["rawPath"], ("", []))
        if sync != row["jobId"]:
            sync, found = row["jobId"], []
            last[row["rawPath"]] = (sync, found)
        found.append(row)
    return {raw: rows for raw, (_, rows) in sorted(last.items(), key=lambda item: sort_key(item[0]))}
