"""`test-run --scope affected`: the arguments for pytest that run what is meant, and nothing that is not."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ktxkit.affected import answers, select
from ktxkit.affected.proof import kept as proofs
from ktxkit.base.contracts import Document
from ktxkit.store.world import World

ARGUMENT_BYTES = 100_000  # of ids; more are given as their files, which runs more than is meant


class Arguments(NamedTuple):
    """`paths`: for pytest, empty where all of it is meant; `nothing`: no test is. `facts`: for the run's record."""

    paths: tuple[str, ...]
    nothing: bool
    facts: Document
    notes: list[str]


WHATEVER = Arguments((), False, {}, [])  # another scope


def arguments(world: World, base: str) -> Arguments:
    """What pytest is to run for the change from `base` to the checkout. Raises CannotRun where the base is none."""
    made = select.select(world, select.Wish(base=base))
    document = made.document
    facts = {"base": document["base"], "verdict": document["verdict"], **_two(document["counts"])}
    said, proof = proofs.of_change(world, document["base"])
    facts |= proof
    notes = [*answers.notes(document), said]
    if made.decision.unbounded or not made.decision.total:
        return Arguments((), False, facts, notes)
    ids = [one.id for one in made.decision.tests]
    if sum(map(len, ids)) > ARGUMENT_BYTES:
        ids = list(dict.fromkeys(one.partition("::")[0] for one in ids))
        notes.append(f"test-run: too many to name: the {len(ids)} files they are in are run whole")
    if sum(map(len, ids)) > ARGUMENT_BYTES:
        return Arguments((), False, facts, [*notes, "test-run: too many to name: everything is run"])
    return Arguments(tuple(from_here(world, one) for one in ids), not ids, facts, notes)


def _two(counts: Document) -> Document:
    return {"selected": counts["selected"], "total": counts["total"]}


def from_here(world: World, name: str) -> str:
    """A node id as pytest takes it where we stand; from the top in a bare repository."""
    if world.repository.top is None:
        return name
    path, sep, rest = name.partition("::")
    top = Path(os.path.realpath(world.repository.top))
    return os.path.relpath(top / path, os.path.realpath(world.cwd)) + sep + rest


def from_top(world: World, name: str, known: Collection[str]) -> str:
    """A node id from the top, of one that is written from where we stand; one of a known file is taken as it is."""
    path, sep, rest = name.partition("::")
    if path in known or world.repository.top is None:
        return name
    place = os.path.realpath(world.cwd / path)
    there = os.path.relpath(place, os.path.realpath(world.repository.top))
    return (there if there in known else path) + sep + rest
