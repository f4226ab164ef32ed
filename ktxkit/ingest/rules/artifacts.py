"""Artifacts: the pages and sources that raw files lead to, and where each lies in the tree.

Duplicates among the pages and sources of one sync: alike to the byte that matters, or nearly so.

Provenance: one row for each artifact that a raw file led to, one `skipped` row for each that led to nothing.

Rows are validated before anything lands and written after it. A row names raw bytes, never a guess: its path must be in
this sync's snapshot or among the files that it found deleted, and its artifact must be in the tree that lands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import nearest, printable
from ktxkit.ingest.rules.places import departure, sort_key

WIKI, SOURCE = "wiki", "sl"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_]{0,63}\Z")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])\Z")
_PAGE = re.compile(r"wiki/(?P<scope>global|user/[^/]+)/(?P<key>.+)\.md\Z")
_SOURCE = re.compile(r"semantic-layer/(?P<connection>[^/]+)/(?P<rest>.+)\.ya?ml\Z")


@dataclass(frozen=True)
class Artifact:
    """`kind`: wiki, sl or other; `key`: the page's key or `connection/source`; `path` in the tree."""

    kind: str
    key: str
    path: str
    connection: str = ""

    def fields(self) -> dict[str, str]:
        """Its part of a provenance row."""
        target = {"targetConnectionId": self.connection} if self.connection else {}
        return {"artifactKind": self.kind, "artifactKey": self.key, "artifactPath": self.path, **target}


def artifact_of(path: str) -> Artifact | None:
    """The artifact of a path, or None where none lies there. A source's key is its file's until its name is read."""
    page = _PAGE.match(path)
    if page:
        return Artifact(WIKI, page["key"] if page["scope"] == "global" else f"{page['scope']}/{page['key']}", path)
    source = _SOURCE.match(path)
    if source:
        return Artifact(SOURCE, f"{source['connection']}/{source['rest']}", path, source["connection"])
    return None


def source_path(connection: str, name: str) -> str:
    """Where a source lies whose name `identifier` made: such a name is its file's."""
    assert _PLAIN.match(name) and not _DEVICE.match(name), name
    return f"semantic-layer/{connection}/{name}.yaml"


def words_key(text: str, fallback: str, limit: int = 60) -> str:
    """A key for a page or source made of a title: lower case, `-` between its words; the fallback where none is left.

    Letters outside ASCII are dropped, so a title without any gives the fallback.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain:
        return fallback
    return plain if len(plain) <= limit else f"{plain[:limit].rstrip('-')}-{digest(text.encode())[3:11]}"


def identifier(text: str, fallback: str, limit: int = 50) -> str:
    """The same for what SQL, references and file names must spell: `[a-z][a-z0-9_]*`, no name of a device."""
    plain = words_key(text, fallback, limit).replace("-", "_")
    plain = plain if plain[0].isalpha() else f"n_{plain}"
    return f"{plain}_" if _DEVICE.match(plain) else plain


FROM = re.compile(r"[ \t]*<!--\s*from:.*?-->[ \t]*\n?")
_WORD = re.compile(r"[A-Za-z0-9_]+")
NEAR = 0.8  # Jaccard similarity of word triples from which two artifacts are nearly alike
SKETCH = 8  # least digests of an artifact's word triples; two artifacts that share one are compared
PAIRS_KEPT = 1000
COMMON = 100  # a word triple that more artifacts have than this tells none of them apart


@dataclass(frozen=True)
class Text:
    """An artifact to compare: its path, whether it is new in this sync, and what it says without who says it."""

    path: str
    essence: str
    new: bool = True


@dataclass(frozen=True)
class Pair:
    """`path` is nearly or wholly what `other` is; `other` is the older, or the first by path."""

    path: str
    other: str
    similarity: float


def essence(text: str) -> str:
    """A page or source without provenance comments, blank lines and line ends: what makes two of them alike."""
    bare = FROM.sub("", text)
    return "\n".join(line.strip() for line in bare.split("\n") if line.strip())


def exact(texts: Iterable[Text]) -> list[Pair]:
    """New artifacts that are wholly what another is: each with the one that stays. Sorted by path."""
    groups: dict[str, list[Text]] = {}
    for text in texts:
        groups.setdefault(digest(text.essence.encode("utf-8", "surrogatepass")), []).append(text)
    pairs = []
    for group in groups.values():
        first, *rest = sorted(group, key=lambda text: (text.new, text.path))
        pairs += [Pair(text.path, first.path, 1.0) for text in rest if text.new]
    return sorted(pairs, key=lambda pair: pair.path)


def near(texts: Sequence[Text]) -> list[Pair]:
    """Pairs that are nearly alike, at least one of them new; at most 1,000, most alike first.

    Candidates share one of the least digests of their rarer word triples, so that 2,000 pages need no 2 million
    comparisons; each candidate is then measured in full.
    """
    shingles = [_shingles(text.essence) for text in texts]
    found: dict[tuple[int, int], float] = {}
    for bucket in _buckets(shingles):
        for place, one in enumerate(bucket):
            for other in bucket[place + 1 :]:
                if (one, other) not in found and (texts[one].new or texts[other].new):
                    found[one, other] = _similarity(shingles[one], shingles[other])
    pairs = []
    for (one, other), value in found.items():
        if value >= NEAR and texts[one].essence != texts[other].essence:
            first, second = sorted((texts[one], texts[other]), key=lambda text: (text.new, text.path))
            pairs.append(Pair(second.path, first.path, round(value, 3)))
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.path, pair.other))[:PAIRS_KEPT]


def _shingles(text: str) -> frozenset[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return frozenset(" ".join(words[index : index + 3]) for index in range(max(1, len(words) - 2)))


def _buckets(shingles: Sequence[frozenset[str]]) -> list[list[int]]:
    often = Counter(shingle for found in shingles for shingle in found)
    buckets: dict[str, list[int]] = {}
    for index, found in enumerate(shingles):
        rare = (shingle for shingle in found if often[shingle] <= COMMON)
        for shingle in nsmallest(SKETCH, rare, key=lambda shingle: digest(shingle.encode())):
            buckets.setdefault(shingle, []).append(index)
    return [bucket for _, bucket in sorted(buckets.items()) if len(bucket) > 1]


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


SKIPPED = "skipped"
REMOVED = "removed"  # the artifact that a deleted raw file had led to went with it


@dataclass(frozen=True)
class ArtifactChange:
    """What happened to one artifact's path. `action`: its word, `origins`: the raw paths that a worker names for it."""

    path: str
    artifact: Artifact
    action: str
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnitProvenance:
    """One unit's part in the provenance: the raw files that it was given, and what came of them."""

    unit_key: str
    raw_files: tuple[str, ...]
    changes: tuple[ArtifactChange, ...] = ()


@dataclass(frozen=True)
class ProvenanceProblem:
    """A row that cannot land, and why."""

    row: Mapping[str, Any]
    rule: str
    message: str
    hint: str = ""


def rows_of(
    works: Iterable[UnitProvenance], settled: Collection[str], digests: Mapping[str, str], deleted: Collection[str] = ()
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
) -> list[ProvenanceProblem]:
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


def _raw_problem(row: Mapping[str, Any], allowed: Collection[bytes]) -> ProvenanceProblem | None:
    raw = str(row["rawPath"])
    wrong = departure(raw)
    if wrong:
        message = f"provenance row names a raw path that is not in its normal form: {printable(raw)}: {wrong}"
        return ProvenanceProblem(row, "path-not-normal", message, "name raw files as the unit's document does")
    if raw.encode("utf-8") not in allowed:
        near = nearest(raw, [path.decode("utf-8") for path in allowed], 1)
        hint = f"did you mean {near[0]}?" if near else "raw paths are those of the unit's document"
        return ProvenanceProblem(
            row, "unknown-raw-path", f"provenance row references raw path outside this snapshot: {printable(raw)}", hint
        )
    return None


def _artifact_problem(row: Mapping[str, Any], tree: Collection[str]) -> ProvenanceProblem | None:
    path = row.get("artifactPath")
    if row["actionType"] == REMOVED and path is not None and path not in tree:
        return None
    if row["actionType"] == SKIPPED:
        if path is None and "artifactKey" not in row:
            return None
        return ProvenanceProblem(row, "unknown-artifact", f"a skipped row names an artifact: {printable(str(path))}")
    if path is None or path not in tree:
        named = printable(str(path or row.get("artifactKey", "")))
        message = f"provenance row of {printable(str(row['rawPath']))} names an artifact that is not there: {named}"
        return ProvenanceProblem(
            row, "unknown-artifact", message, "a unit names only artifacts that it leaves in the tree"
        )
    return None


def actions_changes(
    actions: Sequence[Mapping[str, Any]], touched: Mapping[str, ArtifactChange]
) -> tuple[ArtifactChange, ...]:
    """A worker's own account over what its patch touched: origins and words are the worker's where it gave them.

    An action that names a path which the unit did not touch stays as it was given; validation names it.
    """
    found = dict(touched)
    for action in actions:
        path = str(action["path"])
        known = found.get(path)
        artifact = artifact_of(path) or Artifact("other", path, path)
        base = known or ArtifactChange(path, artifact, _word(artifact))
        origins = tuple(action.get("rawPaths", ())) or base.origins
        merged = (*base.origins, *origins) if known is not None and known.origins else origins
        found[path] = ArtifactChange(
            path, base.artifact, action.get("actionType", base.action), tuple(dict.fromkeys(merged))
        )
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
        if row.get("actionType") != REMOVED:
            found.append(row)
    return {raw: rows for raw, (_, rows) in sorted(last.items(), key=lambda item: sort_key(item[0]))}
