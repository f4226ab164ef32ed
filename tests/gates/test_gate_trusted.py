"""A change is judged by the schema of where the configuration was read too: it cannot loosen what it is judged by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktxkit.gates.judging import check_tree
from ktxkit.store.world import World
from tests.support.commands import call, spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

SCHEMA = json.dumps({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}})
CONFIG = json.dumps({"gates": [{"gate": "schema", "schema": "s.json", "files": ["conf/"]}]})
BEFORE = " (by the schema before the change)"
Told = list[tuple[str, str, bool]]


@pytest.fixture
def base(repo: Repo) -> Repo:
    write(repo, {"ktx-gates.yaml": CONFIG, "s.json": SCHEMA, "conf/x.yaml": "a: 1\n", "conf/old.yaml": "a: old\n"})
    repo.commit("gates")
    return repo


def write(repo: Repo, files: dict[str, str]) -> None:
    for name, text in files.items():
        repo.write(name, text)


def told(found: list[dict[str, Any]]) -> Told:
    return [(one["path"], one["message"], bool(one.get("inherited"))) for one in found]


WRONG = "a: text where a whole number is expected"
CASES: dict[str, tuple[dict[str, str], dict[str, str], Told]] = {
    "loosened and used": ({}, {"s.json": "{}", "conf/x.yaml": "a: b\n"}, [("conf/x.yaml", WRONG + BEFORE, False)]),
    "loosened for a new file": (
        {},
        {"s.json": "true", "conf/n.yaml": "a: b\n"},
        [("conf/n.yaml", WRONG + BEFORE, False)],
    ),
    "loosened alone": ({}, {"s.json": "{}"}, []),
    "loosened, and right by both": ({}, {"s.json": "{}", "conf/x.yaml": "a: 2\n"}, []),
    "wrong by both is told once": (
        {},
        {"s.json": SCHEMA + "\n", "conf/x.yaml": "a: b\n"},
        [("conf/old.yaml", WRONG, True), ("conf/x.yaml", WRONG, False)],
    ),
    "wrong before": (
        {},
        {"s.json": "{}", "conf/old.yaml": "a: old\nb: 1\n"},
        [("conf/old.yaml", WRONG + BEFORE, True)],
    ),
    "no schema before": ({"s.json": ""}, {"s.json": "{}", "conf/x.yaml": "a: b\n"}, []),
    "none that could be used before": ({"s.json": "{"}, {"s.json": "{}", "conf/x.yaml": "a: b\n"}, []),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_a_change_cannot_loosen_the_schema_that_it_is_judged_by(
    base: Repo, before: dict[str, str], after: dict[str, str], expected: Told
) -> None:
    write(base, {name: text for name, text in before.items() if text})
    for name in (name for name, text in before.items() if not text):
        (base.path / name).unlink()
    base.commit("before")
    start = base.tree
    write(base, after)
    base.commit("after")
    world = World(base.path, {"PATH": "/usr/bin:/bin", "HOME": str(base.path)})
    verdict = check_tree(world, base.tree, base_tree=start)
    assert told(verdict["findings"]) == expected
    whole = check_tree(world, base.tree, base_tree=start, everything=True)
    assert [one for one in told(whole["findings"]) if not one[2]] == [one for one in expected if not one[2]]


def test_a_unit_and_two_units_that_loosen_a_schema_do_not_land(base: Repo) -> None:
    loosen, use = "echo '{}' > s.json", "echo 'a: b' > conf/x.yaml"
    both = job_file(base, {"units": [unit("both", f"{loosen}; {use}")]})
    ran = call("job-run", str(both), "--job", "j1", cwd=base.path)
    assert (ran.status, outcomes(base)) == (3, {"both": "semantic_conflict"}), ran.out + ran.err
    apart = job_file(base, {"units": [unit("a", loosen), unit("b", use)]})
    ran = call("job-run", str(apart), "--job", "j2", cwd=base.path)
    assert ran.status == 3 and BEFORE in ran.out + ran.err, ran.out + ran.err
    assert base.show("main", "conf/x.yaml") == b"a: 1\n"


def test_a_push_and_a_tree_are_held_against_what_is_here(base: Repo) -> None:
    published = base.head
    base.git("checkout", "-q", "-b", "foreign")
    write(base, {"s.json": "{}", "conf/x.yaml": "a: b\n"})
    base.git("add", "-A")
    ran = call("gate-check", "--json", cwd=base.path)
    assert (ran.status, ran.document["findings"]) == (0, []), "what is being committed is judged by itself"
    foreign = base.commit("foreign")
    pushed = f"refs/heads/foreign {foreign} refs/heads/foreign {published}\n"
    ran = spawn("gate-check", "--json", "--pushed", "origin", cwd=base.path, stdin=pushed.encode())
    assert (ran.status, told(ran.document["findings"])) == (1, [("conf/x.yaml", WRONG + BEFORE, False)])
    base.git("checkout", "-q", "main")
    ran = call("gate-check", "--json", "--tree", "foreign", "--changed-since", "main", cwd=base.path)
    here = " (by the schema that stands here)"
    assert (ran.status, told(ran.document["findings"])) == (1, [("conf/x.yaml", WRONG + here, False)])
