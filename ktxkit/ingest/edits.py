"""Pages that a person edited since the built-in worker wrote them: its next version is merged with the edit.

Units find such a page as it was written, so that what they make of it differs from their base by the source's change
only, and integration merges that with the edit as it merges any two changes: cleanly, or as a conflict with its name.
"""

from __future__ import annotations

from ktxkit.base.rules.digests import digest
from ktxkit.git.git import Git
from ktxkit.git.objects import Objects
from ktxkit.ingest.asked import Asked
from ktxkit.ingest.baseline import Baseline
from ktxkit.ingest.knowledge import Knowledge
from ktxkit.ingest.planning import Planned


def of_pages(git: Git, asked: Asked, planned: Planned, base: Baseline, known: Knowledge) -> dict[str, str | None]:
    """Each edited page that a unit of the plan wrote, and its blob as written; None where that is not there any more.

    A worker of the user's finds pages as they are: it reads an edit, and answers for what it does to it.
    """
    if asked.worker:
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


def said(path: str, blob: str | None) -> str:
    """What the report says of such a page."""
    if blob is None:
        return f"{path} was edited, and what was written before is not there any more: a change of its card conflicts"
    return f"{path} was edited since it was written: what its card says now is merged with the edit"
