"""Commits that an ingestion makes itself: the snapshot, the projection, and what units start from.

Staging: a connector's raw files into a directory of the job, and from there into the object store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base import files
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.removal import delete_own
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.places import ROOT, check, snapshot_root, sort_key
from ktxkit.store.active import ActiveJob
from ktxkit.store.world import World

SHOWN = 5


def changed(neutral: Neutral, tree: str, blobs: Mapping[str, str | None]) -> str:
    """The tree with blobs at paths (None: the path goes). Raises CannotRun where a path cannot be one of a tree."""
    zero, git = neutral.zero, neutral.index("ingest")
    git.run("read-tree", tree)
    lines = [f"0 {zero}\t{path}" if blob is None else f"100644 {blob}\t{path}" for path, blob in sorted(blobs.items())]
    answer = git.run(
        "update-index",
        "-z",
        "--index-info",
        stdin="".join(f"{line}\0" for line in lines).encode(),
        ok=(0, 128),
        twice=(128,),
    )
    if answer.status != 0:
        raise CannotRun(
            f"git takes no such path: {answer.err.decode('utf-8', 'replace').strip()}", hint="rename it in the source"
        )
    made = git.text("write-tree")
    git.run("read-tree", "--empty")
    return made


def written(neutral: Neutral, texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Blobs of texts."""
    found: dict[str, str | None] = {}
    for path, text in texts.items():
        if text is None:
            found[path] = None
        else:
            data = text.encode("utf-8")
            found[path] = neutral.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=data).text
    return found


def commit(world: World, parent: str, blobs: Mapping[str, str | None], message: str, texts: bool = False) -> str:
    """A commit on top of `parent` with these blobs at these paths; `parent` itself where nothing changes."""
    with open_neutral(world) as neutral:
        old = neutral.tree_of(parent)
        assert old is not None, "the parent is a commit"
        tree = changed(neutral, old, written(neutral, blobs) if texts else blobs)
        if tree == old:
            return parent
        return merging.commit_tree(neutral, tree, parent, message, int(world.clock.now().timestamp()))


def for_units(job: ActiveJob, base: str, instead: Mapping[str, str | None]) -> str:
    """A commit of the base's tree without raw files, kept at a ref: units need none of them in their checkouts.

    A merge from it leaves the raw files of the integration as they are, since the unit never had them. `instead`: blobs
    that stand at their paths there (None: nothing does); what the base has is merged with what units make of them.
    """
    with open_neutral(job.world) as neutral:
        entries = neutral.git.run("ls-tree", "-z", f"{base}^{{tree}}").nul
        kept = [entry for entry in entries if entry.partition(b"\t")[2] != ROOT.encode()]
        tree = neutral.git.run("mktree", "-z", stdin=b"".join(entry + b"\0" for entry in kept)).text
        tree = changed(neutral, tree, instead) if instead else tree
        seconds = int(job.world.clock.now().timestamp())
        made = merging.commit_tree(neutral, tree, base, "What units start from: the base without raw files\n", seconds)
    job.git.run("update-ref", places.unit_base_ref(job.id), made)
    return made


def first_commit(world: World, ref: str) -> str:
    """An empty first commit on a branch that has none. Raises CannotRun where it has one meanwhile."""
    with open_neutral(world) as neutral:
        empty = neutral.git.run("mktree", stdin=b"").text
        seconds = int(world.clock.now().timestamp())
        made = merging.commit_tree(
            neutral, empty, None, "An empty repository, made by ktxkit for its first ingestion\n", seconds
        )
        git = world.git.at(world.repository.directory)
        git.run("update-ref", "--create-reflog", "-m", "ktxkit: first commit", ref, made, neutral.zero)
    return made


CONTRACT = "raw-snapshot"
NOTES_KEPT = 1000


@dataclass(frozen=True)
class RawFile:
    """One staged raw file: digest and size in bytes."""

    digest: str
    size: int


class Directory:
    """A sink that writes into a directory. Nothing is held in memory but digests."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.files: dict[str, RawFile] = {}

    def put(self, raw_path: str, data: bytes) -> None:
        check(raw_path)
        if raw_path in self.files:
            raise CannotRun(
                f"the connector gave {printable(raw_path)} twice",
                hint="a fault of the connector, or two names in the source that differ in nothing a path can keep",
            )
        try:
            files.write_new(self.top / raw_path, data)
        except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
            raise CannotRun(
                f"{printable(raw_path)} is a file and a directory at once",
                hint="a fault of the connector, or rename one of the two in the source",
            ) from error
        self.files[raw_path] = RawFile(digest(data), len(data))


class StagedFiles:
    """The staged raw files of a job, read one at a time."""

    def __init__(self, top: Path, paths: Sequence[str]) -> None:
        self.top = top
        self._paths = tuple(sorted(paths, key=sort_key))

    @property
    def paths(self) -> Sequence[str]:
        return self._paths

    def read(self, raw_path: str) -> bytes:
        return files.read(self.top / raw_path)


def remove(job: ActiveJob) -> None:
    """What a job staged goes: its snapshot has landed, or nobody resumes it."""
    delete_own(job.world.store.path(places.raw_dir(job.id)))


def carry(world: World, top: Path, snapshot: Document, blobs: Mapping[str, str]) -> Document:
    """The snapshot with raw files of earlier ones (path to blob), staged beside those that were had."""
    entries = {one["rawPath"]: one for one in snapshot["files"]}
    with Objects(world.git) as objects:
        for path, blob in blobs.items():
            data = objects.read(blob)
            files.write_atomic(top / path, data, durable=False)
            entries[path] = {"rawPath": path, "digest": digest(data), "blob": blob, "bytes": len(data)}
    carried = sorted({*snapshot.get("carried", ()), *blobs}, key=sort_key)
    return snapshot | {"files": [entries[path] for path in sorted(entries, key=sort_key)], "carried": carried}


def changed_raw(top: Path, snapshot: Document) -> list[str]:
    """Raw paths whose staged bytes are not what was staged: somebody wrote there. What lands was taken before."""
    found = []
    for one in snapshot["files"]:
        try:
            same = digest(files.read(top / one["rawPath"])) == one["digest"]
        except (OSError, BrokenContract):
            same = False
        if not same:
            found.append(str(one["rawPath"]))
    return found


def fresh(job: ActiveJob) -> Directory:
    """An empty directory for the job's raw files; what an execution that was cut off left of one is removed."""
    top = job.world.writable_store.path(places.raw_dir(job.id))
    if os.path.lexists(top):
        delete_own(top)
    files.make_dirs(top)
    return Directory(top)


def blobs(world: World, top: Path, paths: Sequence[str]) -> dict[str, str]:
    """Write raw files into the object store as they are: no filter, no attribute. Raw path to blob id."""
    if not paths:
        return {}
    with open_neutral(world) as neutral:
        git = neutral.git.at(top).configured(core_fsyncMethod="batch")
        lines = "".join(f"./{path}\n" for path in paths).encode("utf-8")
        found = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=lines).lines
    assert len(found) == len(paths), "one id for each path"
    return dict(zip(paths, found, strict=True))


def document(
    job: ActiveJob, connector: str, staged: Mapping[str, RawFile], ids: Mapping[str, str], notes: Document
) -> Document:
    """The snapshot's document. `notes`: what the connector said beside its files."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": CONTRACT,
        "jobId": job.id,
        "connector": connector,
        "connectionId": job.connection,
        "sourceKey": job.source,
        "syncId": job.document["syncId"],
        "root": snapshot_root(job.connection, job.source, job.document["syncId"]),
        "at": timestamp(job.world.clock.now()),
        "files": [
            {"rawPath": path, "digest": staged[path].digest, "blob": ids[path], "bytes": staged[path].size}
            for path in sorted(staged, key=sort_key)
        ],
        **notes,
    }
