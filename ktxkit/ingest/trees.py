"""Commits that an ingestion makes itself: the snapshot, the projection, and what units start from."""

from __future__ import annotations

from collections.abc import Mapping

from ktxkit.base.errors import CannotRun
from ktxkit.git import merging
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.ingest.rules import places
from ktxkit.ingest.rules.raw_paths import ROOT
from ktxkit.store.world import World

SHOWN = 5


def changed(neutral: Neutral, tree: str, blobs: Mapping[str, str | None]) -> str:
    """The tree with blobs at paths (None: the path goes). Raises CannotRun where a path cannot be one of a tree."""
    zero, git = neutral.zero, neutral.index("ingest")
    git.run("read-tree", tree)
    lines = [f"0 {zero}\t{path}" if blob is None else f"100644 {blob}\t{path}" for path, blob in sorted(blobs.items())]
    answer = git.run(
        "update-index", "-z", "--index-info", stdin="".join(f"{line}\0" for line in lines).encode(), ok=None
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


def for_units(world: World, job_id: str, base: str, instead: Mapping[str, str | None]) -> str:
    """A commit of the base's tree without raw files, kept at a ref: units need none of them in their checkouts.

    A merge from it leaves the raw files of the integration as they are, since the unit never had them. `instead`: blobs
    that stand at their paths there (None: nothing does); what the base has is merged with what units make of them.
    """
    with open_neutral(world) as neutral:
        entries = neutral.git.run("ls-tree", "-z", f"{base}^{{tree}}").nul
        kept = [entry for entry in entries if entry.partition(b"\t")[2] != ROOT.encode()]
        tree = neutral.git.run("mktree", "-z", stdin=b"".join(entry + b"\0" for entry in kept)).text
        tree = changed(neutral, tree, instead) if instead else tree
        seconds = int(world.clock.now().timestamp())
        made = merging.commit_tree(neutral, tree, base, "What units start from: the base without raw files\n", seconds)
    world.git.at(world.repository.place).run("update-ref", places.unit_base_ref(job_id), made)
    return made


def first_commit(world: World, ref: str) -> str:
    """An empty first commit on a branch that has none. Raises CannotRun where it has one meanwhile."""
    with open_neutral(world) as neutral:
        empty = neutral.git.run("mktree", stdin=b"").text
        seconds = int(world.clock.now().timestamp())
        made = merging.commit_tree(
            neutral, empty, None, "An empty repository, made by ktxkit for its first ingestion\n", seconds
        )
        git = world.git.at(world.repository.place)
        git.run("update-ref", "--create-reflog", "-m", "ktxkit: first commit", ref, made, neutral.zero)
    return made
