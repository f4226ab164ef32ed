"""The gate `affected`: what the change reaches has passed, on this very tree, in a run that the ledger has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.contracts import Document
from ktxkit.ledger import chain
from tests.support.commands import call, spawn
from tests.support.ledgers import PROJECT, Past
from tests.support.repos import Repo

FILES = {
    "m.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n",
    "tests/test_m.py": "from m import f, g\n\n\ndef test_f():\n    assert f()\n\n\ndef test_g():\n    assert g()\n",
    "tests/test_n.py": "def test_n():\n    pass\n",
}
F, G, N = "tests/test_m.py::test_f", "tests/test_m.py::test_g", "tests/test_n.py::test_n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "r")
    made.git("config", "ktx.project", PROJECT)
    for name, text in FILES.items():
        made.write(name, text)
    made.commit()
    made.write("m.py", FILES["m.py"].replace("return 1", "return 2", 1))
    made.commit()
    return made


def gate(repo: Repo, *args: str) -> Any:
    words = args or ("--tree", "HEAD", "--changed-since", "HEAD~1")
    return call("gate-check", "--gate", "affected", *words, "--json", cwd=repo.path)


def findings(ran: Any) -> list[tuple[str, str]]:
    return [(one["rule"], one["path"]) for one in ran.document["findings"]]


NOT_RUN, NOT_PASSED = ("affected-not-run", "tests/test_m.py"), ("affected-not-passed", "tests/test_m.py")
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "no run at all": ([], [NOT_RUN]),
    "passed": ([{F: "passed"}], []),
    "cases of it passed": ([{F + "[1]": "passed", F + "[2]": "skipped"}], []),
    "one case failed": ([{F + "[1]": "passed", F + "[2]": "failed"}], [NOT_PASSED]),
    "another test passed": ([{G: "passed", N: "passed"}], [NOT_RUN]),
    "a test with a longer name passed": ([{F + "_too": "passed"}], [NOT_RUN]),
    "failed, then passed": ([{F: "failed"}, {F: "passed"}], []),
    "passed, then failed": ([{F: "passed"}, {F: "failed"}], [NOT_PASSED]),
    "was skipped": ([{F: "skipped"}], []),
    "crashed": ([{F: "crashed"}], [NOT_PASSED]),
    "what is not affected failed": ([{F: "passed", N: "failed"}], []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_ledger_has_of_this_tree(repo: Repo, name: str) -> None:
    runs, expected = CASES[name]
    past = Past(repo.path)
    for outcomes in runs:
        past.run(outcomes, tree={"tree": repo.tree})
    ran = gate(repo)
    assert findings(ran) == expected, ran.out
    assert ran.status == int(bool(expected))


def test_a_run_on_another_tree_says_nothing(repo: Repo) -> None:
    past = Past(repo.path)
    past.run({F: "passed"}, tree={"tree": "b" * 40})
    past.run({F: "passed"}, tree={"tree": repo.tree}, end={"treeAfter": {"tree": "c" * 40, "dirty": False}})
    past.run({F: "passed"}, tree={"tree": repo.tree}, parent="20260101T000000Z-00000000")
    past.run({F: "passed"}, tree={"tree": repo.tree}, project="example.org/other")
    ran = gate(repo)
    assert findings(ran) == [NOT_RUN]
    (found,) = ran.document["findings"]
    assert "whether they pass is unknown" in found["message"] and "test-run --scope affected --base" in found["hint"]


def test_everything_is_meant_where_there_is_no_base(repo: Repo) -> None:
    past = Past(repo.path)
    past.run({F: "passed", G: "passed"}, tree={"tree": repo.tree})
    assert findings(gate(repo, "--tree", "HEAD")) == [("affected-not-run", "tests/test_n.py")]
    past.run({N: "passed"}, tree={"tree": repo.tree})
    assert findings(gate(repo, "--tree", "HEAD")) == []


def test_the_gate_says_what_it_was_asked(repo: Repo) -> None:
    """Nothing affected and nothing known both were "looked at nothing"."""
    Past(repo.path).run({F: "passed", G: "passed", N: "passed"}, tree={"tree": repo.tree})
    for words, said in {
        ("--tree", "HEAD"): "affected (no base is known: all of the 3 tests are meant): nothing found",
        ("--tree", "HEAD", "--changed-since", "HEAD~1"): "affected (1 of 3 tests affected by 1 changed path)",
        ("--tree", "HEAD", "--changed-since", "HEAD"): "affected (none of 3 tests is affected by 0 changed paths)",
    }.items():
        ran = call("gate-check", "--gate", "affected", *words, cwd=repo.path)
        assert ran.status == 0 and said in ran.err, ran.err


def test_where_no_list_is_the_whole_a_full_run_is_asked_for(repo: Repo) -> None:
    """The gate passed after a run of the tests that could be named, while a text file's example failed."""
    repo.write("pytest.ini", "[pytest]\naddopts = --doctest-glob=*.md\n")
    repo.write("m.py", FILES["m.py"])
    repo.commit()
    past = Past(repo.path)
    some = {"argsSource": "args", "args": [F, G, N], "paths": ["tests"], "narrowing": []}
    past.run({F: "passed", G: "passed", N: "passed"}, tree={"tree": repo.tree}, selection=some)
    ran = gate(repo)
    assert findings(ran) == [("affected-not-run", ".")] and "no full run" in ran.document["findings"][0]["message"]
    past.run({F: "passed", G: "passed", N: "passed", "R.md::R.md": "failed"}, tree={"tree": repo.tree})
    assert findings(gate(repo)) == [("affected-not-passed", ".")]
    past.run({"R.md::R.md": "passed"}, tree={"tree": repo.tree}, selection=some)
    assert findings(gate(repo)) == []


def test_what_is_staged_is_a_tree_too(repo: Repo) -> None:
    repo.write("m.py", FILES["m.py"].replace("return 1", "return 3"))
    repo.git("add", "-A")
    assert len(findings(gate(repo, "--index"))) == 1
    staged = repo.git("write-tree")
    Past(repo.path).run({F: "passed", G: "passed"}, tree={"tree": staged})
    assert findings(gate(repo, "--index")) == []


def test_a_push_is_judged(repo: Repo) -> None:
    line = f"refs/heads/main {repo.head} refs/heads/main {repo.git('rev-parse', 'HEAD~1')}\n".encode()
    words = ("--gate", "affected", "--pushed", "origin", "--json")
    assert spawn("gate-check", *words, cwd=repo.path, stdin=line).status == 1
    Past(repo.path).run({F: "passed"}, tree={"tree": repo.tree})
    assert spawn("gate-check", *words, cwd=repo.path, stdin=line).status == 0


def test_a_proof_with_a_miss_speaks_against_the_change(repo: Repo) -> None:
    past = Past(repo.path)
    past.run({F: "passed"}, tree={"tree": repo.tree})
    miss = {"path": "m.py", "unit": "f", "kind": "return", "line": 2, "text": "return None", "test": G}
    proof: Document = {
        "schemaVersion": 1, "kind": "affected-proof", "id": "20260103T000000Z-0000000a",
        "at": "2026-01-03T00:00:00.000Z", "project": PROJECT, "base": repo.git("rev-parse", "HEAD~1^{tree}"),
        "tree": repo.tree, "seed": 1, "selection": {"tests": 1, "of": 3, "verdict": "selected"}, "verdict": "missed",
        "candidates": 2, "mutants": 1, "killed": 0, "late": 0, "survived": 0, "missed": 1, "misses": [miss], "tests": 3,
        "selected": 1, "selectedOfKilled": 0, "needed": 0, "seconds": {"suite": 1, "selected": 1},
    }  # fmt: skip
    with chain.locked(past.world):
        body = {"kind": "affected-proof", "run": proof["id"], "project": PROJECT, "proof": proof}
        chain.append(past.world, body)
    ran = gate(repo)
    assert findings(ran) == [("affected-missed", "m.py")] and proof["id"] in ran.document["findings"][0]["message"]
    repo.write("other.txt", "x")
    repo.commit()
    past.run({F: "passed"}, tree={"tree": repo.tree})
    assert findings(gate(repo, "--tree", "HEAD", "--changed-since", "HEAD~2"))[:1] != [("affected-missed", "m.py")]
    assert call("ledger-query", "last", "--json", cwd=repo.path).status == 0, "the index passes over a proof"
