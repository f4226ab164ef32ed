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
LOOSE = json.dumps({"type": "object"})
CASES: dict[str, tuple[dict[str, str], dict[str, str], Told]] = {
    "loosened and used": ({}, {"s.json": LOOSE, "conf/x.yaml": "a: b\n"}, [("conf/x.yaml", WRONG + BEFORE, False)]),
    "loosened for a new file": (
        {},
        {"s.json": LOOSE, "conf/n.yaml": "a: b\n"},
        [("conf/n.yaml", WRONG + BEFORE, False)],
    ),
    "loosened alone": ({}, {"s.json": LOOSE}, []),
    "loosened, and right by both": ({}, {"s.json": LOOSE, "conf/x.yaml": "a: 2\n"}, []),
    "wrong by both is told once": (
        {},
        {"s.json": SCHEMA + "\n", "conf/x.yaml": "a: b\n"},
        [("conf/old.yaml", WRONG, True), ("conf/x.yaml", WRONG, False)],
    ),
    "wrong before": (
        {},
        {"s.json": LOOSE, "conf/old.yaml": "a: old\nb: 1\n"},
        [("conf/old.yaml", WRONG + BEFORE, True)],
    ),
    "no schema before": ({"s.json": ""}, {"s.json": LOOSE, "conf/x.yaml": "a: b\n"}, []),
    "none that could be used before, and wrong now": (
        {"s.json": "{"},
        {"s.json": SCHEMA, "conf/x.yaml": "a: b\n"},
        [("conf/old.yaml", WRONG, False), ("conf/x.yaml", WRONG, False)],
    ),
    "none that could be used before": ({"s.json": "{"}, {"s.json": LOOSE, "conf/x.yaml": "a: b\n"}, []),
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


@pytest.mark.parametrize("schema", ["{}", ""], ids=["loosened", "removed"])
def test_a_change_cannot_loosen_the_schema_of_a_known_file(repo: Repo, schema: str) -> None:
    gates = json.dumps({"gates": [{"gate": "syntax"}]})
    write(repo, {"ktx-gates.yaml": gates, "schemas/package.json": SCHEMA, "package.json": '{"a": 1}'})
    repo.commit("gates")
    start = repo.tree
    (repo.path / "schemas/package.json").unlink()
    write(repo, {"package.json": '{"a": "b"}', **({"schemas/package.json": schema} if schema else {})})
    repo.commit("after")
    world = World(repo.path, {"PATH": "/usr/bin:/bin", "HOME": str(repo.path)})
    found = told(check_tree(world, repo.tree, base_tree=start)["findings"])
    assert found == [("package.json", f"{WRONG} (by schemas/package.json before the change)", False)]
    write(repo, {"schemas/package.json": SCHEMA + "\n"})
    repo.commit("other bytes")
    found = told(check_tree(world, repo.tree, base_tree=start)["findings"])
    assert found == [("package.json", f"{WRONG} (by schemas/package.json)", False)], "once"


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
    write(base, {"s.json": LOOSE, "conf/x.yaml": "a: b\n"})
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


COST = "name: mart\ntable: public.mart\ngrain: [id]\ncolumns:\n  - {name: id, type: string}\nmeasures:\n"
HEAD = "---\nsummary: A page\n---\n"
GATES = [{"gate": "artifacts"}, {"gate": "swallow"}]
SWALLOWED = "try:\n    x()\nexcept OSError:\n    pass  # gate-ok: it is gone already\n"
HUSH = "<!-- ktx-gate: ignore=stale-entity -->\n"


@pytest.fixture
def hushed(repo: Repo) -> Repo:
    """A page with a comment that suppresses what dangles, and one where nothing dangles yet."""
    write(repo, {
        "semantic-layer/wh/mart.yaml": COST + "  - {name: total, expr: count(id)}\n",
        "wiki/global/old.md": f"{HEAD}{HUSH}It is `mart.was`.\n", "wiki/global/p.md": f"{HEAD}It is `mart.total`.\n",
        "ktx-gates.yaml": json.dumps({"gates": [*GATES, *json.loads(CONFIG)["gates"]]}),
        "s.json": SCHEMA, "conf/x.yaml": "a: 1\n", "conf/known.yaml": "a: b # ktx-gate: ignore=schema-type\n",
        "known.py": SWALLOWED, "p.py": "x = 1\n",
    })  # fmt: skip
    repo.commit("gates")
    return repo


HIDDEN: dict[str, tuple[dict[str, str], list[str]]] = {
    "in a page": ({"wiki/global/p.md": f"{HEAD}{HUSH}It is `mart.gone`.\n"}, ["wiki/global/p.md"]),
    "in a page, with the source": (
        {
            "wiki/global/p.md": f"{HEAD}{HUSH}It is `mart.total`.\n",
            "semantic-layer/wh/mart.yaml": COST + "  - {name: grand, expr: count(id)}\n",
        },
        ["wiki/global/p.md"],
    ),
    "by a comment that was there": (
        {"wiki/global/old.md": f"{HEAD}{HUSH}It is `mart.gone`.\n"},
        ["wiki/global/old.md"],
    ),
    "in front of another gate": ({"conf/x.yaml": "a: b # ktx-gate: ignore=schema-type\n"}, ["conf/x.yaml"]),
    "in Python": ({"p.py": SWALLOWED}, ["p.py"]),
    "moved": ({"known.py": "", "moved.py": SWALLOWED}, []),
    "nothing new": (
        {
            "wiki/global/old.md": f"{HEAD}More.\n\n{HUSH}It is `mart.was`.\n",
            "conf/known.yaml": "# x\na: b # ktx-gate: ignore=schema-type\n",
        },
        [],
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_change_does_not_write_its_own_exemption(hushed: Repo, name: str) -> None:
    new, wanted = HIDDEN[name]
    world = World(hushed.path, {"PATH": "/usr/bin:/bin", "HOME": str(hushed.path)})
    before = hushed.tree
    write(hushed, {name: text for name, text in new.items() if text})
    for name in (name for name, text in new.items() if not text):
        (hushed.path / name).unlink()
    hushed.git("add", "-A")
    by_hand = call("gate-check", "--json", cwd=hushed.path)
    assert by_hand.status == 0, by_hand.err  # who commits may, and is told
    assert [one["path"] for one in by_hand.document["findings"]] == wanted
    assert {(one["rule"], one["level"]) for one in by_hand.document["findings"]} <= {("suppressed", "warning")}
    hushed.commit("the change")
    assert call("gate-check", "--json", cwd=hushed.path).document["findings"] == [], "once"
    found = check_tree(world, hushed.tree, base_tree=before)
    charged = [one["path"] for one in found["findings"] if one["level"] == "error" and not one.get("inherited")]
    assert charged == wanted
    assert found["counts"]["suppressed"] >= 0
    since = call("gate-check", "--json", "--tree", "HEAD", "--changed-since", "HEAD~1", cwd=hushed.path).document
    assert [(one["path"], one["rule"]) for one in since["findings"]] == [(one, "suppressed") for one in wanted]


def test_everything_that_is_suppressed_is_listed_and_counted(hushed: Repo) -> None:
    ran = call("gate-check", "--all", "--advise", cwd=hushed.path)
    places = [line.split(": ")[0] for line in ran.out.splitlines()]
    assert (ran.status, places) == (0, ["conf/known.yaml:1:4", "known.py:3:1", "wiki/global/old.md:5:7"]), ran.out
    assert "3 advice, 3 suppressed" in ran.err
    assert call("gate-check", "--all", cwd=hushed.path).err.endswith("3 suppressed\n")


def test_what_the_other_side_of_a_merge_suppresses_is_not_brought_by_it(hushed: Repo) -> None:
    hushed.git("checkout", "-q", "-b", "other")
    write(hushed, {"p.py": SWALLOWED, "wiki/global/p.md": f"{HEAD}{HUSH}It is `mart.gone`.\n"})
    hushed.commit("theirs")
    hushed.git("checkout", "-q", "main")
    hushed.write("n.txt", "x")
    hushed.commit("ours")
    hushed.git("merge", "-q", "--no-commit", "other")
    ran = call("gate-check", "--index", "--json", cwd=hushed.path)
    assert (ran.status, ran.document["findings"]) == (0, [])


def test_a_unit_does_not(hushed: Repo) -> None:
    quiet = f"printf -- '---\\nsummary: A\\n---\\n{HUSH.strip()}\\nIt is `mart.gone`.\\n' > wiki/global/p.md"
    job = job_file(hushed, {"units": [unit("hush", quiet), unit("other", "echo x > n.txt")]})
    ran = call("job-run", str(job), "--job", "j1", cwd=hushed.path)
    assert outcomes(hushed) == {"hush": "semantic_conflict", "other": "accepted"}, ran.out + ran.err


def test_a_commit_that_changes_its_gates_is_told(hushed: Repo) -> None:
    hushed.write("ktx-gates.yaml", "gates: []\n")
    hushed.git("add", "-A")
    for _ in range(2):  # a verdict that is kept would have no word of it
        ran = call("gate-check", "--index", cwd=hushed.path)
        assert ran.status == 0
        assert "changes ktx-gates.yaml, by which it is judged; no gate is left" in ran.err
    hushed.git("rm", "-q", "--cached", "ktx-gates.yaml")
    assert (
        "takes away ktx-gates.yaml, by which it is judged; gates now: artifacts"
        in call("gate-check", cwd=hushed.path).err
    )
