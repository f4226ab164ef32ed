"""Documents of a job that cannot be read, each by its name: nothing is guessed from what is left."""

from __future__ import annotations

from collections.abc import Iterator

from ktxkit.base import contracts
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.store.rules import names
from ktxkit.store.world import World

# Documents whose name is not that of their contract.
CONTRACTS = {
    "result": "unit-result",
    "landing-intent": "intent",
    "verification-intent": "intent",
    "actions": "unit-actions",
}


def of_job(world: World, job: str) -> list[Document]:
    """`where` and `message` of each damaged document of the job and its units."""
    found = []
    for place in _documents(world, job):
        stem = place.rpartition("/")[2].removesuffix(".json")
        contract = CONTRACTS.get(stem, stem)
        if contract not in contracts.names():
            continue
        try:
            world.store.read_optional(contract, place)
        except BrokenContract as error:
            found.append({"where": error.where, "message": error.message})
    return found


def _documents(world: World, job: str) -> Iterator[str]:
    places = [names.job_dir(job)]
    units = f"{names.job_dir(job)}/units"
    places += [f"{units}/{unit}" for unit in world.store.children(units)]
    for place in places:
        yield from (f"{place}/{name}" for name in world.store.children(place) if name.endswith(".json"))
