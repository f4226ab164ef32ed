"""The runtime map in the selection, the differential, the mutation proof and what a run may say that rests on it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ktxkit.affected.proof import roots_of
from ktxkit.affected.rules.mutants import Mutant, mutants, parses, sample, valid, values
from ktxkit.affected.running import differential
from ktxkit.affected.select import select
from ktxkit.ledger import chain
from tests.support.commands import Ran, spawn
from tests.support.suites import OFF, Suite

QUICK = ["-q", *(word for name in OFF for word in ("-p", f"no:{name}"))]
ENV = {"PYTHONDONTWRITEBYTECODE": "1"}
# The name of the program is no string of the source: reading does not see who starts it.
FILES = {
    "pkg/__init__.py": "",
    "pkg/core.py": (
        "LIMIT = 3\n\n\ndef double(x):\n    return x * 2 if x > LIMIT else x\n\n\ndef other(x):\n    return x\n"
    ),
    "tool.py": "def answer():\n    return 41 + 1\n\n\nif __name__ == '__main__':\n    print(answer())\n",
    "tests/test_core.py": (
        "from pkg.core import double, other\n\n\ndef test_double():\n    assert double(4) == 8 and double(2) == 2\n\n\n"
        "def test_other():\n    assert other(3) == 3\n"
    ),
    "tests/test_tool.py": (
        "import subprocess, sys\n\n\ndef test_tool():\n    name = bytes.fromhex('746f6f6c2e7079').decode()\n"
        "    assert subprocess.run([sys.executable, name], capture_output=True).stdout == b'42\\n'\n"
    ),
    "conftest.py": "",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite.make(tmp_path_factory.mktemp("proof") / "s", FILES)


def prove(suite: Suite, *args: str) -> Ran:
    return spawn("test-select", "--prove", *args, "--json", "--", *QUICK, cwd=suite.repo.path, env=ENV)


def change(suite: Suite, name: str, old: str, new: str) -> None:
    text = FILES[name].replace(old, new)
    assert text != FILES[name]
    suite.repo.write(name, text)


def restore(suite: Suite) -> None:
    suite.repo.git("checkout", "-q", "--", ".")


@pytest.fixture(scope="module")
def proven(suite: Suite) -> Any:
    change(suite, "pkg/core.py", "x * 2", "2 * x")
    ran = prove(suite, "--sample", "3", "--seed", "4")
    restore(suite)
    assert ran.status == 0, ran.out + ran.err
    return ran


@pytest.fixture(scope="module")
def missed(suite: Suite, proven: Any) -> Any:
    change(suite, "tool.py", "41 + 1", "40 + 2")
    ran = prove(suite, "--sample", "1")
    assert ran.status == 1, ran.out + ran.err
    return ran


def test_a_proof_says_who_noticed(suite: Suite, proven: Ran) -> None:
    found = proven.document
    assert found["verdict"] == "proven" and found["mutants"] == 3 and found["missed"] == 0 and found["misses"] == []
    assert found["killed"] + found["survived"] == 3 and found["killed"] and found["tests"] == 3
    assert found["selection"] == {"tests": 1, "of": 3, "verdict": "selected"} and found["needed"] >= 1
    assert found["candidates"] > 3 and found["base"] == suite.repo.tree
    assert "1 of 3: pkg/core.py:" in proven.err


def test_a_miss_has_its_test_kind_and_path(suite: Suite, missed: Ran) -> None:
    found = missed.document
    (miss,) = found["misses"]
    assert found["verdict"] == "missed" and found["missed"] == 1 and found["killed"] == 0
    assert (miss["path"], miss["unit"], miss["test"]) == ("tool.py", "answer", "tests/test_tool.py::test_tool")
    assert suite.repo.git("status", "--porcelain") == "M tool.py".rjust(10), "the checkout is as it was"


def test_a_proof_is_a_line_of_the_ledger(suite: Suite, proven: Ran, missed: Ran) -> None:
    found = [line["proof"] for line in chain.lines(suite.world) if line["kind"] == "affected-proof"]
    assert [one["id"] for one in found] == [proven.document["id"], missed.document["id"]]
    assert found[0] == proven.document


def test_a_run_that_a_proof_speaks_against_does_not_cover_its_change(suite: Suite, missed: Ran) -> None:
    """What the selection leaves out is needed; the test that is meant here is named beside it."""
    suite.repo.write("pkg/core.py", FILES["pkg/core.py"].replace("x * 2", "2 * x"))
    run = ("--scope", "affected", "--", *QUICK)
    other = spawn("test-run", *run, cwd=suite.repo.path, env=ENV)
    assert other.status == 0 and f"rests on proof {missed.document['id']}, which is of another change" in other.err
    proof = prove(suite, "--sample", "3")
    assert proof.status == 1 and proof.document["missed"] >= 1
    ran = spawn("test-run", *run, cwd=suite.repo.path, env=ENV)
    assert "this run does not cover the change" in ran.err
    record = suite.records[-1]
    assert record["scope"]["kind"] == "partial" and not record["authoritative"]
    assert record["runner"]["affected"]["proof"] == proof.document["id"]
    restore(suite)


def test_a_traced_run_fills_what_reading_cannot_see(suite: Suite, missed: Ran) -> None:
    restore(suite)
    change(suite, "tool.py", "41 + 1", "40 + 2")
    assert [one.id for one in select(suite.world).decision.tests] == []
    restore(suite)
    ran = spawn("test-run", "--trace", "--scope", "full", "--", *QUICK, cwd=suite.repo.path, env=ENV)
    assert ran.status == 0, ran.out + ran.err
    audit = spawn("test-select", "--audit", cwd=suite.repo.path, env=ENV)
    assert (
        audit.status == 1
        and "hole: tool.py answer: 1 test ran it, left out:\n  tests/test_tool.py::test_tool" in audit.out
    )
    assert differential(suite.world)["missing"] == 0 < differential(suite.world)["calls"]
    change(suite, "tool.py", "41 + 1", "40 + 2")
    (picked,) = select(suite.world).decision.tests
    assert picked.id == "tests/test_tool.py::test_tool" and "ran tool.py answer in the traced run" in str(picked.chain)
    now = differential(suite.world)
    assert now["stale"] >= 1 and now["holes"] == [], "what is otherwise by now is not held against the map"
    suite.repo.commit()
    change(suite, "tool.py", "41 + 1", "39 + 3")
    assert [one.id for one in select(suite.world).decision.tests] == [], "the map is of another tool.py"
    restore(suite)


NOT_MUTATED = [
    ("tests/test_core.py", FILES["tests/test_core.py"] + "\nX = 1\n", "a test: a wrong test says nothing"),
    ("pkg/core.py", FILES["pkg/core.py"] + "# a remark\n", "only layout or remarks differ"),
    ("pkg/__init__.py", "import sys\n", "no value, operator, call or return in what changed"),
    ("note.txt", "text\n", "every test is meant for it"),
]


def test_a_data_file_is_mutated_too(tmp_path: Path) -> None:
    files = {
        "rates.json": '{"rate": 2}\n',
        "test_r.py": "import json\n\n\ndef test_r():\n    assert json.load(open('rates.json'))['rate'] > 1\n\n\n"
        "def test_low():\n    assert json.load(open('rates.json'))['rate'] < 4\n",
        "conftest.py": "",
    }
    suite = Suite.make(tmp_path / "s", files)
    suite.repo.write("rates.json", '{"rate": 3}\n')
    ran = spawn(
        "test-select", "--prove", "--json", "--", *QUICK, "-k", "test_r or test_low", cwd=suite.repo.path, env=ENV
    )
    assert ran.status == 0 and ran.document["verdict"] == "proven", ran.out + ran.err
    assert ran.document["killed"] == 1 == ran.document["mutants"] and "-k" in ran.document["arguments"]


VALUES = {
    "a.json": (b'{"k": "v", "n": 1, "b": true, "f": 1.5}', [b'"v_mutated"', b"2", b"false", b"2.5"]),
    "a.yaml": (b"k: v\nlist:\n  - 1\n  - two # remark\nq: 'x'\nt: True\n", [b"v_mutated", b"2", b"two_mutated",
                b"'x_mutated'", b"False"]),
    "a.toml": (b'k = "v"\nn = 1\n[t]\nb = true\n', [b'"v_mutated"', b"2", b"false"]),
    "a.csv": (b"id,name\n1,\xc3\xa9\n", [b"2", b"\xc3\xa9_mutated"]),
    "a.txt": (b"k: v\n", []),
    "b.json": (b"\xff", []),
}  # fmt: skip


@pytest.mark.parametrize("path", VALUES)
def test_values_of_data_are_made_others_in_their_form(path: str) -> None:
    data, texts = VALUES[path]
    found = values(path, data)
    assert [one.text.encode() for one in found] == texts
    for one in found:
        made = one.apply(data)
        assert made != data and len(made.splitlines()) == len(data.splitlines()) and valid(path, made)
        assert data[: one.start] == made[: one.start] and made.endswith(data[one.end :])


def test_nothing_to_mutate_and_what_cannot_be_proven_is_refused(suite: Suite) -> None:
    restore(suite)
    ran = prove(suite)
    assert ran.status == 1 and "nothing to prove: nothing differs from HEAD" in ran.out
    for path, text, why in NOT_MUTATED:
        suite.repo.write(path, text)
        ran = prove(suite)
        assert ran.status == 1 and f"{path}: {why}" in ran.out, ran.out
        suite.repo.git("clean", "-qfd", "-e", ".ktx")
        restore(suite)
    change(suite, "pkg/core.py", "x * 2", "3 * x")
    ran = prove(suite)
    assert ran.status == 2 and "the suite does not pass without a mutant: 1 failed" in ran.out
    assert "is not covered by the proof" in ran.out
    restore(suite)
    ran = spawn("test-select", "--prove", "--index", cwd=suite.repo.path, env=ENV)
    assert ran.status == 2 and "--index is not obeyed with --prove" in ran.err


SOURCE = b'''"""Doc."""
LIMIT = 3
NAMES = {"a": 1}


class C:
    """Doc."""

    kind = "thing"

    def method(self, x=1):
        """Doc."""
        if x and self.kind:
            self.go()
        return x + LIMIT

    @property
    def size(self):
        def inner(y):
            return y > 2
        return not inner(self.x)


def check(x):
    raise ValueError("no") if x is None else x
'''


def test_every_kind_of_place_is_mutated_and_docstrings_are_not() -> None:
    found = mutants("m.py", SOURCE)
    kinds = {(one.unit, one.kind) for one in found}
    assert kinds >= {
        ("LIMIT", "constant"), ("NAMES", "text"), ("NAMES", "constant"), ("C.kind", "text"), ("C.method", "constant"),
        ("C.method", "boolean"), ("C.method", "call"), ("C.method", "return"), ("C.method", "operator"),
        ("C.size", "comparison"), ("C.size", "boolean"), ("C.method", "body"), ("C.method", "condition"),
    }  # fmt: skip
    assert not any(b"Doc" in SOURCE[one.start : one.end] for one in found if one.kind != "body")
    for one in found:
        assert parses(one.apply(SOURCE)), one
        assert one.apply(SOURCE) != SOURCE, one


@pytest.mark.parametrize("data", [b"", b"def f(:", b"\xff", b"x = '\xc3\xa4'; y = 1 if x else 2\n", b"f'{1}{x}'\n"])
def test_any_bytes_are_answered(data: bytes) -> None:
    assert all(one.apply(data) != data for one in mutants("m.py", data))


def test_a_sample_is_the_same_for_a_seed_and_units_take_turns() -> None:
    found = mutants("m.py", SOURCE)
    contents = {"m.py": SOURCE}
    one, other = sample(found, contents, 5, 1), sample(reversed(found), contents, 5, 1)
    assert one == other and len({mutant.unit for mutant in one}) == 5
    assert sample(found, contents, 10_000, 1) == found
    assert any(sample(found, contents, 5, seed) != one for seed in range(2, 9))


def test_a_mutant_that_does_not_parse_is_left_out() -> None:
    wrong = Mutant("m.py", "", "constant", 1, 0, 0, "(")
    assert sample([wrong], {"m.py": SOURCE}, 5, 1) == []


def test_roots_are_what_packages_are_imported_from(tmp_path: Path) -> None:
    paths = ["src/a/__init__.py", "src/a/b/__init__.py", "src/a/b/c.py", "lib/one.py", "tests/test_x.py", "tests/h.py"]
    assert roots_of(paths, ["src/a/b/c.py"]) == {".", "src"}
    assert roots_of(paths, ["lib/one.py", "tests/h.py"]) == {".", "lib"}


def test_the_id_of_a_tree_is_git_s(suite: Suite) -> None:
    from ktxkit.git.rules.patch import tree_id

    entries: dict[bytes, tuple[str, str]] = {}
    chance = random.Random(1)
    blob = suite.repo.git_bytes("hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    for name in (b"a", b"a.b/c", b"a-b/c/d", b"a0", b"z/\xff", b"z/y/x", b"a.b/d", b"ax/y"):
        entries[name] = (chance.choice(["100644", "100755", "120000"]), blob)
    lines = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for path, (mode, oid) in entries.items())
    index = str(suite.repo.path / ".git/other-index")
    import os
    import subprocess

    env = {**os.environ, "GIT_INDEX_FILE": index}
    subprocess.run(["git", "update-index", "-z", "--index-info"], cwd=suite.repo.path, env=env, input=lines, check=True)
    made = subprocess.run(["git", "write-tree"], cwd=suite.repo.path, env=env, capture_output=True, check=True)
    assert tree_id(entries) == made.stdout.decode().strip()
    assert json.dumps(tree_id({})) == '"4b825dc642cb6eb9a060e54bf8d69288fbee4904"'
