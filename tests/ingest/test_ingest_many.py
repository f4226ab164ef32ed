"""Many cards in one job: each is accounted for, and memory does not grow with them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import memory
from tests.support.commands import spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.many_cards import generate
from tests.support.repos import Repo
from tests.support.shared import SHARED

FULL = os.environ.get("KTX_TEST_FULL") == "1"
BUNDLE = SHARED / "data/metabase-api/mbql5"
CARDS = 2000 if FULL else 14
MEMORY_LIMIT = 256 * 1024**2  # bytes, of the job and of the largest of its children: reconciliation reads every page


@pytest.mark.skipif(not BUNDLE.exists(), reason=f"the shared inputs are not at {BUNDLE}")
def test_cards_of_real_shapes_in_one_job_with_flat_memory(repo: Repo, tmp_path: Path) -> None:
    generate(BUNDLE, tmp_path / "many", CARDS)
    words = ["metabase", str(tmp_path / "many"), "--connection", "w", "--job", "j1", "--json", "-q"]
    peak = memory.of_command("ingest-run", *words, cwd=repo.path)
    told = json.loads(peak.out)["document"]
    assert peak.status == 0, told.get("failure")
    assert set(outcomes(repo).values()) <= {"accepted", "noop"}
    pages = repo.git("ls-tree", "-r", "--name-only", "main", "wiki").splitlines()
    assert len(pages) == CARDS
    assert max(peak.own, peak.children) < MEMORY_LIMIT, peak
    assert told["provenanceRows"] >= CARDS
    assert spawn("gate-check", "--all", cwd=repo.path).status == 0


@pytest.mark.skipif(not FULL, reason="KTX_TEST_FULL=1 runs a job of 1,000 units")
def test_a_thousand_units_in_one_job(repo: Repo) -> None:
    units = [unit(f"u{number}", f"echo {number} > f{number}.txt") for number in range(1000)]
    ran = spawn("job-run", str(job_file(repo, {"units": units})), "--job", "j1", "-q", cwd=repo.path)
    assert ran.status == 0, ran.err[-2000:]
    assert set(outcomes(repo).values()) == {"accepted"}
    assert len(repo.git("ls-tree", "--name-only", "main").splitlines()) == 1001
    assert repo.git("worktree", "list").count("\n") == 0
