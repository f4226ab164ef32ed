"""What a tree knows: its pages and sources, for connectors that must not declare them twice and for workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.gates import judging
from ktxkit.gates.rules.model import artifact_path
from ktxkit.git.objects import Objects
from ktxkit.ingest.rules.artifacts import artifact_of
from ktxkit.ingest.rules.projection import owner_of
from ktxkit.store.active import ActiveJob
from ktxkit.store.world import World

SUMMARY_LIMIT = 1000  # characters
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Knowledge:
    """A tree's artifacts. `texts`: every file under `semantic-layer/` as text; `facts`: by path, as the gates read."""

    tree: str
    texts: Mapping[str, str]
    facts: Mapping[str, Facts]
    files: Mapping[str, str]  # every path of the tree: blob id

    def declared(self, connection: str, but: str) -> tuple[set[str], dict[str, str]]:
        """Names of sources that others than `but` (an owner of projections) declared, and the tables that they read."""
        taken: set[str] = set()
        readers: dict[str, str] = {}
        for path, text in self.texts.items():
            artifact, owner = artifact_of(path), owner_of(text)
            if artifact is None or artifact.connection != connection or (owner is not None and owner[0] == but):
                continue
            facts = self.facts.get(path, {})
            overlay = facts.get("form") == "overlay"
            for source in facts.get("sources", ()):
                if not overlay:
                    taken.add(source["name"])
                if source.get("table"):
                    readers.setdefault(str(source["table"]).lower(), source["name"])
        return taken, readers


def of_tree(world: World, tree: str) -> Knowledge:
    """Read a tree. Files that are not UTF-8 have no text."""
    with Objects(world.git) as objects:
        read = judging.read_tree(world, tree, objects, b"")
        texts = {}
        for path, (mode, oid) in read.files.items():
            if path.startswith(b"semantic-layer/") and mode.startswith("100"):
                texts[_text(path)] = objects.read(oid).decode("utf-8", "replace")
    files = {_text(path): oid for path, (_, oid) in read.files.items()}
    return Knowledge(tree, texts, {_text(path): facts for path, facts in read.facts.items()}, files)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def index(job: ActiveJob, tree: str) -> Document:
    """The index that workers get: pages with their summaries, sources with what they have."""
    with Objects(job.world.git) as objects:
        read = judging.read_tree(job.world, tree, objects, b"")
        pages = [_page(objects, path, read.files[path][1]) for path in sorted(read.facts) if _is_page(path)]
    sources, unreadable = [], []
    for path in sorted(read.facts):
        facts, place = read.facts[path], artifact_path(path)
        if place.kind in ("source", "shard"):
            if facts.get("form") == "broken":
                unreadable.append(_shown(path))
            sources += [_source(place.connection, _shown(path), one) for one in facts.get("sources", ())]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "knowledge-index",
        "jobId": job.id,
        "tree": tree,
        "pages": pages,
        "sources": sources,
        **({"unreadable": unreadable} if unreadable else {}),
    }


def _is_page(path: bytes) -> bool:
    return artifact_path(path).kind == "page"


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _page(objects: Objects, path: bytes, oid: str) -> Document:
    """A page's key and what its front matter says first. What cannot be read is only named: the gates judge it."""
    summary, tags = _front(objects.read(oid).decode("utf-8", "replace"))
    return {
        "key": _shown(path).removeprefix("wiki/global/").removesuffix(".md"),
        "path": _shown(path),
        **({"summary": summary[:SUMMARY_LIMIT]} if summary else {}),
        **({"tags": tags} if tags else {}),
    }


def _front(text: str) -> tuple[str, list[str]]:
    from ktxkit.base.rules.strict_yaml import read_text

    if not text.startswith("---\n"):
        return "", []
    parsed = read_text(text[4:].partition("\n---")[0])
    data = parsed.root.data() if parsed.root is not None else None
    if not isinstance(data, dict):
        return "", []
    tags = data.get("tags")
    told = [tag[:500] for tag in tags if isinstance(tag, str)][:1000] if isinstance(tags, list) else []
    summary = data.get("summary")
    return (summary if isinstance(summary, str) else ""), told


def _source(connection: str, path: str, source: Facts) -> Document:
    return {
        "connection": connection,
        "name": source["name"],
        "path": path,
        **({"table": str(source["table"])} if source.get("table") else {}),
        "measures": [name for name, _, _ in source["measures"]][:10_000],
        "columns": [name for name, _, _ in source["columns"]][:10_000],
    }
