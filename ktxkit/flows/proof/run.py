"""`test-select --prove`: the proof of one change's selection, made in a copy and kept in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktxkit.contracts import SCHEMA_VERSION, Document
from ktxkit.effects import tree_state
from ktxkit.effects.clock import timestamp
from ktxkit.errors import Refused
from ktxkit.flows import ledger, projects, test_run
from ktxkit.flows.affected import select
from ktxkit.flows.proof import copy, prove
from ktxkit.flows.proof.prove import Told
from ktxkit.flows.run_ids import new_run_id
from ktxkit.world import World


@dataclass(frozen=True)
class Ask:
    """`sample` mutants, drawn with `seed`; `words` are more arguments for pytest."""

    base: str = "HEAD"
    sample: int = 50
    seed: int = 1
    python: str = ""
    words: Sequence[str] = ()


def proof(world: World, ask: Ask, told: Told) -> Document:
    """Prove the selection of the change from a base to the checkout. Raises Refused where nothing can be mutated."""
    made = select.select(world, select.Wish(base=ask.base))
    entries, tests = made.target.entries, [one.id for one in made.decision.tests]
    changed = [
        (one.path, one.unit)
        for one in made.decision.changes
        if one.path.endswith(".py")
        and entries.get(one.path, ("",))[0] in copy.REGULAR
        and not made.graph.project.is_test_file(one.path)
    ]
    paths = {path for path, _ in changed}
    python = ask.python or test_run.python_of(world)
    with copy.opened(world, entries, made.target.loose, paths, python, ask.words) as place:
        found = prove.candidates(place, changed)
        if not found:
            raise Refused(
                "nothing in the change can be mutated",
                hint="a proof needs changed Python outside of the tests; --base names where the change starts",
            )
        account = prove.prove(place, found, ask.sample, ask.seed, lambda _: tests, told)
    return _kept(world, ask, made, account)


def _kept(world: World, ask: Ask, made: select.Selection, account: prove.Account) -> Document:
    """The proof as a record of the ledger."""
    tree = tree_state.take(world.git, world.repository).tree
    now = world.clock.now()
    document: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "affected-proof",
        "id": new_run_id(now),
        "at": timestamp(now),
        "project": projects.resolve(world),
        "base": made.base.name,
        **({"tree": tree} if tree else {}),
        "seed": ask.seed,
        "selection": {"tests": made.decision.selected, "of": made.decision.total, "verdict": made.decision.verdict},
        **account.document(),
    }
    body = {"kind": "affected-proof", "run": document["id"], "project": document["project"], "proof": document}
    with ledger.locked(world):
        ledger.append(world, body)
    return document


def lines(document: Document) -> list[str]:
    """The proof as text."""
    met = f"{document['killed']} of {document['mutants']} mutants were noticed by the selected tests"
    made = [f"{met}, {document['survived']} by nobody, {document['missed']} only by tests that were not selected"]
    for one in document["misses"]:
        where = f"{one['path']}:{one['line']} {one['unit'] or '(loading it)'}"
        made.append(f"missed: {where}: {one['kind']} {one['text']!r}: {one['test']}")
    if document["needed"]:
        made.append(
            f"selected {document['selectedOfKilled']} tests where {document['needed']} noticed"
            f" ({document['selectedOfKilled'] / document['needed']:.1f} for each that was needed)"
        )
    made += [f"never loaded by the suite: {path}" for path in document.get("unloaded", ())]
    words = {"proven": "no miss", "missed": "the selection leaves out what is needed", "nothing": "nothing is proven"}
    return [*made, f"{document['id']}: {words[document['verdict']]}"]
