"""Proofs that the ledger has."""

from __future__ import annotations

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.rules.text import plural
from ktxkit.git import tree_state
from ktxkit.ledger import ledger
from ktxkit.store.rules import names
from ktxkit.store.world import World

KIND = b'"kind":"affected-proof"'


def newest(world: World, base: str = "", tree: str = "") -> Document | None:
    """The newest proof, of this change where one is named. Raises BrokenContract where its line is damaged."""
    path = world.store.path(names.LEDGER)
    if not path.exists():
        return None
    data = files.read(path, limit=1 << 40)
    end = data.rfind(b"\n") + 1
    while (at := data.rfind(KIND, 0, end)) >= 0:
        start = end = data.rfind(b"\n", 0, at) + 1
        line = data[start : data.find(b"\n", at)]
        if KIND in line[:64] and (not tree or tree.encode("ascii") in line):
            found: Document = contracts.loads(ledger.CONTRACT, line, str(path))["proof"]
            if not tree or (found["base"], found.get("tree")) == (base, tree):
                return found
    return None


def of_change(world: World, base: str) -> tuple[str, Document]:
    """What may be said of the selection for the change from a base tree to the checkout, and the facts for a run."""
    tree = tree_state.take(world.git, world.repository).tree if world.repository.top else None
    proof = newest(world, base, tree) if tree else None
    if proof is not None and proof["missed"]:
        said = (
            f"test-run: this run does not cover the change: proof {proof['id']} has {plural(proof['missed'], 'miss')}"
        )
        return said, {"proof": proof["id"], "missed": proof["missed"]}
    if proof is not None and proof["verdict"] == "proven":
        numbers = f"{proof['killed']} of {proof['mutants']} mutants noticed, no miss"
        return f"test-run: it rests on proof {proof['id']} of this change: {numbers}", {"proof": proof["id"]}
    other = newest(world)
    if other is not None:
        return f"test-run: it rests on proof {other['id']}, which is of another change", {"proof": other["id"]}
    return "test-run: nothing proves the selection: test-select --prove does", {}
