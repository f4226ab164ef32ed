"""The job under way: what it says once stays said, and whatever it changes is its own from then on."""

from __future__ import annotations

import os

import pytest

from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.store.rules import names
from ktxkit.store.world import World
from tests.support.repos import Repo


@pytest.fixture
def active(repo: Repo) -> ActiveJob:
    world = World(repo.path, os.environ)
    return jobs.create(world, "j1", target="refs/heads/main", base=repo.head, units=[Unit(1, "a"), Unit(2, "b")])


def test_a_change_is_on_the_disk_and_its_own(active: ActiveJob) -> None:
    active.change(lambda document: document.update({"outcome": "done"}))
    assert active.document["outcome"] == "done"
    assert ActiveJob.load(active.world, "j1").document == active.document


def test_a_change_that_fails_changes_nothing(active: ActiveJob) -> None:
    def edit(document: object) -> None:
        raise KeyError("no such fact")

    before = dict(active.document)
    with pytest.raises(KeyError):
        active.change(edit)
    assert active.document == before == ActiveJob.load(active.world, "j1").document


def test_what_others_wrote_is_kept_but_for_what_is_said_once(active: ActiveJob) -> None:
    base = active.document["base"]
    jobs.change(active.world, "j1", lambda document: document.update({"outcome": "done", "base": "0" * 40}))
    other = ActiveJob.load(active.world, "j1").add_unit("c", after=["a"])
    assert other == Unit(3, "c", ("a",))
    active.reload()
    assert active.document["outcome"] == "done"
    assert active.document["base"] == base
    assert active.units == [Unit(1, "a"), Unit(2, "b"), other]


def test_it_stands_in_for_a_document_that_was_damaged(active: ActiveJob) -> None:
    place = active.world.store.path(names.job_doc("j1"))
    place.write_text("{")
    with pytest.raises(BrokenContract):
        ActiveJob.load(active.world, "j1")
    active.change(lambda document: document.update({"outcome": "failed"}))
    assert ActiveJob.load(active.world, "j1").document == active.document


def test_a_damaged_document_gets_no_unit(active: ActiveJob) -> None:
    active.world.store.path(names.job_doc("j1")).write_text("{")
    with pytest.raises(BrokenContract):
        active.add_unit("c")
    assert [unit.key for unit in active.units] == ["a", "b"]


def test_a_unit_is_added_once(active: ActiveJob) -> None:
    assert active.add_unit("c") == active.add_unit("c") == Unit(3, "c") == active.unit("c")
    assert len(active.units) == 3


def test_a_job_that_landed_gets_no_unit(active: ActiveJob) -> None:
    active.change(lambda document: document.update({"state": "landed"}))
    with pytest.raises(Refused, match="has landed already"):
        active.add_unit("c")
    assert active.add_unit("a") == Unit(1, "a"), "it has that one"


def test_one_that_is_not_there_is_none(active: ActiveJob) -> None:
    assert ActiveJob.find(active.world, "j2") is None
    found = ActiveJob.find(active.world, "j1")
    assert found is not None and found.document == active.document
