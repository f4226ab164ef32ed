"""A batch is decided as one-by-one verification decides it, in few verifications, and names who fails with whom."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, Refused
from ktxkit.store.active import ActiveJob
from ktxkit.work.batch import apply_batch
from ktxkit.work.integrate import ApplyOptions
from tests.support.integration import Job, give, script
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"


@pytest.fixture
def job(repo: Repo) -> Job:
    return Job.begin(repo)


class Check:
    """A verify command that counts how often it was asked."""

    def __init__(self, tmp_path: Path, body: str) -> None:
        self.log = tmp_path / "asked"
        self.argv = [script(tmp_path / "check", f"echo x >> {self.log}\n{body}")]

    @property
    def asked(self) -> int:
        return self.log.read_text().count("x")


def batch(job: Job, check: Check, keys: Sequence[str] = ()) -> dict[str, Any]:
    job.active = ActiveJob.load(job.world, "j1")
    units = [unit for unit in job.active.units if not keys or unit.key in keys]
    return dict(apply_batch(job.active, units, ApplyOptions(verify=check.argv)))


def outcomes(found: dict[str, Document]) -> dict[str, str]:
    return {key: receipt["outcome"] for key, receipt in found.items()}


def bad(*keys: str) -> str:
    return " && ".join(["true", *(f"test ! -e {key}" for key in keys)])


def test_a_batch_that_passes_is_verified_once(job: Job, tmp_path: Path) -> None:
    check = Check(tmp_path, "test -e u1 && test -e u2 && test -e u3")
    for number in (1, 2, 3):
        give(job, f"u{number}", {f"u{number}": "x\n"})
    found = batch(job, check)
    assert set(outcomes(found).values()) == {"accepted"}
    assert check.asked == 1
    assert found["u1"]["verification"]["batch"] == ["u1", "u2", "u3"]
    assert job.repo.git("rev-list", "--count", f"{job.document['base']}..{job.head}") == "3"
    assert job.land()["outcome"] == "done"


def test_two_bad_of_a_hundred_cost_at_most_twenty(job: Job, tmp_path: Path) -> None:
    """In the short form two of thirty, which cost at most eighteen."""
    count, most = (100, 20) if FULL else (30, 18)
    early, last = "u011", f"u{count + 1:03}"
    check = Check(tmp_path, bad(early, last))
    for number in range(2, count + 2):
        give(job, f"u{number:03}", {f"u{number:03}": "x\n"})
    found = batch(job, check)
    assert sorted(key for key, word in outcomes(found).items() if word != "accepted") == [early, last]
    assert check.asked <= most
    assert found[early]["message"].startswith(f"{early} fails on its own: ")
    assert found[early]["blame"] == {"alone": True, "together": []}
    assert job.repo.git("ls-tree", "--name-only", job.head).count("u") == count - 2


WRONG = [["a", "b"], ["d"], ["a", "b", "c", "d"], ["a"], ["b", "d"]]


@pytest.mark.parametrize("wrong", WRONG if FULL else WRONG[:3])
def test_the_same_as_one_by_one(tmp_path: Path, wrong: list[str]) -> None:
    heads = []
    for way in ("batch", "single"):
        repo = Repo.init(tmp_path / way)
        repo.write("shared", "one\n")
        repo.commit("base")
        job = Job.begin(repo)
        for key in ("a", "b", "c", "d"):
            give(job, key, {key: "x\n"} | ({"shared": f"{key}\n"} if key in "ac" else {}))
        check = Check(tmp_path, bad(*wrong))
        if way == "batch":
            found = outcomes(batch(job, check))
        else:
            found = {key: job.apply(key, verify=check.argv)["outcome"] for key in "abcd"}
        heads.append((found, repo.git("rev-parse", f"{job.head}^{{tree}}")))
    assert heads[0] == heads[1]


def test_a_conflict_with_a_bad_unit_is_none_once_it_is_out(job: Job, tmp_path: Path) -> None:
    give(job, "bad", {"same": "bad\n"})
    give(job, "good", {"same": "good\n"})
    found = batch(job, Check(tmp_path, "! grep -q bad same 2>/dev/null"))
    assert outcomes(found) == {"bad": "verification_failed", "good": "accepted"}


def test_a_pair_is_named_and_not_the_later_one_alone(job: Job, tmp_path: Path) -> None:
    for key in "abcdef":
        give(job, key, {key: "x\n"})
    found = batch(job, Check(tmp_path, "test ! -e b || test ! -e e"))
    assert outcomes(found) == {**dict.fromkeys("abcdf", "accepted"), "e": "verification_failed"}
    assert found["e"]["blame"] == {"alone": False, "together": ["b"]}
    assert found["e"]["message"].startswith("b, e fail only together: ")


def test_nobody_is_blamed_for_a_base_that_fails(job: Job, tmp_path: Path) -> None:
    give(job, "a", {"a": "x\n"})
    give(job, "b", {"b": "x\n"})
    with pytest.raises(Refused) as caught:
        batch(job, Check(tmp_path, "exit 1"))
    assert caught.value.data["reason"] == "fails on the base tree"
    assert job.doc("a", "receipt") is None and job.doc("a", "intent") is None
    assert job.head == job.document["base"]


@pytest.mark.parametrize("answers", ["1010101010", "10100000", "10011000"])
def test_a_gate_that_answers_twice_differently_is_unknown(job: Job, tmp_path: Path, answers: str) -> None:
    """The n-th answer of the command, 0 passes: all, the control run, then the search, alone, and once more."""
    body = f'n=$(wc -l < {tmp_path}/asked); case "$(echo {answers} | cut -c$n)" in 0) exit 0;; *) exit 1;; esac'
    for key in "abcd":
        give(job, key, {key: "x\n"})
    with pytest.raises(Refused) as caught:
        batch(job, Check(tmp_path, body))
    assert caught.value.data["gate"] == "unknown"
    assert job.head == job.document["base"]
    assert all(job.doc(key, "receipt") is None for key in "abcd")


def test_a_damaged_patch_is_its_own_failure(job: Job, tmp_path: Path) -> None:
    for key in "abc":
        give(job, key, {key: "x\n"})
    path = job.world.store.path("ingest-patches/j1/0002-b.patch")
    path.write_bytes(path.read_bytes() + b"\n")
    found = batch(job, Check(tmp_path, "true"))
    assert isinstance(found["b"], BrokenContract)
    assert (found["a"]["outcome"], found["c"]["outcome"]) == ("accepted", "accepted")


def test_logs_of_the_search_do_not_stay(job: Job, tmp_path: Path) -> None:
    for key in "abcdefgh":
        give(job, key, {key: "x\n"})
    found = batch(job, Check(tmp_path, f"echo said; {bad('c')}"))
    logs = list(job.world.store.path("jobs/j1").rglob("*.log"))
    assert [str(log) for log in logs] == [found["c"]["verification"]["log"]]
    assert logs[0].read_text() == "said\n"


def test_what_a_later_unit_repairs_is_accepted_with_it(job: Job, tmp_path: Path) -> None:
    """The documented limit (docs/commands/job-run.md): one by one, `a` would be rejected. What lands has passed."""
    check = Check(tmp_path, "test ! -e a || test -e b")
    for key in "abc":
        give(job, key, {key: "x\n"})
    assert outcomes(batch(job, check)) == {"a": "accepted", "b": "accepted", "c": "accepted"}
    assert check.asked == 1


def test_the_base_is_asked_once_for_a_batch_and_what_comes_alone(job: Job, tmp_path: Path) -> None:
    check = Check(tmp_path, f"ls | tr '\\n' ' ' >> {tmp_path}/seen; echo >> {tmp_path}/seen; {bad('a', 'c')}")
    for key in "ab":
        give(job, key, {key: "x\n"})
    assert outcomes(batch(job, check)) == {"a": "verification_failed", "b": "accepted"}
    give(job, "c", {"c": "x\n"})
    assert job.apply("c", verify=check.argv)["outcome"] == "verification_failed"
    assert job.apply("a", verify=check.argv)["outcome"] == "verification_failed"
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen.count("README ") == 1 and seen.count("README b ") == 1
