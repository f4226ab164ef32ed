"""`test-select --prove`: the proof of one change's selection, made in a copy and kept in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktxkit.affected import select
from ktxkit.affected.proof import copy, prove
from ktxkit.affected.proof.prove import Told
from ktxkit.affected.rules.decision import Touched
from ktxkit.affected.rules.values import is_data
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.text import plural, printable
from ktxkit.git import tree_state
from ktxkit.ledger import ledger, projects, test_run
from ktxkit.ledger.run_ids import new_run_id
from ktxkit.store.world import World

SHOWN = 5  # paths that are named
NO_PLACE = "no value, operator, call or return in what changed"


@dataclass(frozen=True)
class Ask:
    """`sample` mutants, drawn with `seed`; `words` are more arguments for pytest."""

    base: str = "HEAD"
    sample: int = 50
    seed: int = 1
    python: str = ""
    words: Sequence[str] = ()


def ask(base: str, count: int | None, seed: int | None, python: str, words: Sequence[str]) -> Ask:
    """What is asked for, with what is not said as it is by itself."""
    return Ask(base, 50 if count is None else count, 1 if seed is None else seed, python, words)


def proof(world: World, ask: Ask, told: Told) -> Document:
    """Prove the selection of the change from a base to the checkout. Raises Refused where nothing can be mutated."""
    if ask.sample < 1:
        raise CannotRun(f"--sample {ask.sample}: a proof needs at least one mutant", hint="--sample 50 is the default")
    made = select.select(world, select.Wish(base=ask.base))
    entries, tests = made.target.entries, [one.id for one in made.decision.tests]
    left = {one.path: _left_alone(made, one) for one in made.touched}
    changed = [
        (one.path, one.unit) for one in made.decision.changes if one.path.endswith(".py") and not left.get(one.path)
    ]
    data = [path for path, why in left.items() if not why and not path.endswith(".py")]
    paths = {path for path, _ in changed}
    python = ask.python or test_run.python_of(world)
    with copy.opened(world, entries, made.target.loose, paths, python, ask.words) as place:
        found = prove.candidates(place, changed, data)
        if not found:
            raise _nothing(ask, left)
        account = prove.prove(place, found, ask.sample, ask.seed, lambda _: tests, told)
    return _kept(world, ask, made, account)


def _left_alone(made: select.Selection, one: Touched) -> str:
    """Why nothing of a changed path is mutated; empty where something may be."""
    if one.path not in made.target.entries:
        return "it is gone"
    if made.target.entries[one.path][0] not in copy.REGULAR:
        return "no plain file"
    if one.path in made.decision.unbounded:
        return "every test is meant for it: none can be missed"
    if made.graph.project.is_test_file(one.path):
        return "a test: a wrong test says nothing of what is selected"
    if one.path.endswith(".py"):
        same = all(change.path != one.path for change in made.decision.changes)
        return "only layout or remarks differ" if same else ""
    return "" if is_data(one.path) else "no Python, and no JSON, YAML, TOML, CSV or ini"


def _nothing(ask: Ask, left: Mapping[str, str]) -> Refused:
    """Every changed path with why nothing of it is mutated."""
    if not left:
        return Refused(f"nothing to prove: nothing differs from {ask.base}", hint="--base says where the change starts")
    said = [f"{printable(path)}: {why or NO_PLACE}" for path, why in left.items()]
    more = f"; and {plural(len(said) - SHOWN, 'other path')}" if len(said) > SHOWN else ""
    return Refused(
        f"nothing in the change can be mutated: {'; '.join(said[:SHOWN])}{more}",
        hint="a proof mutates changed modules and data outside of the tests; --base names where the change starts",
    )


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
        **({"arguments": list(ask.words)} if ask.words else {}),
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
    made[0] += " (which are asked where no selected one notices)"
    for one in document["misses"]:
        where = f"{one['path']}:{one['line']} {one['unit'] or '(loading it)'}"
        made.append(f"missed: {where}: {one['kind']} {one['text']!r}: {one['test']}")
    if document["needed"]:
        made.append(
            f"selected {document['selectedOfKilled']} tests where {document['needed']} noticed"
            f" ({document['selectedOfKilled'] / document['needed']:.1f} for each that was needed)"
        )
    made += [f"never loaded by the suite: {path}" for path in document.get("unloaded", ())]
    if document.get("arguments"):
        made.append(f"pytest was given {' '.join(document['arguments'])}: tests that this leaves out are not covered")
    words = {"proven": "no miss", "missed": "the selection leaves out what is needed", "nothing": "nothing is proven"}
    return [*made, f"{document['id']}: {words[document['verdict']]}"]
