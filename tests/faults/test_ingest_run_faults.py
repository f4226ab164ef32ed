"""An ingestion killed at any of its effects: the next one finishes it, or does it anew, exactly once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call
from tests.support.faults import Killed, count_effects, run_killed
from tests.support.recovering import PART
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
WHENS = ("before", "after", "torn")
PAGES = ["daily-card-1.md", "last-card-2.md"]


def made(place: Path) -> Repo:
    """A repository, and beside it a bundle of a model and a question that builds on it."""
    columns = [{"name": "n", "base_type": "type/Integer"}]
    cards: list[dict[str, Any]] = [
        {"metabaseId": 1, "name": "Daily", "type": "model", "resolvedSql": "select 1 as n", "resultMetadata": columns},
        {"metabaseId": 2, "name": "Last", "collectionId": 2, "resolvedSql": "select 2", "referencedCardIds": [1]},
    ]
    repo = Repo.init(place / "repo")
    repo.write("README", "a repository\n")
    repo.commit("first")
    for card in cards:
        path = place / f"bundle/cards/{card['metabaseId']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"collectionId": 1, **card}))
    return repo


def words(repo: Repo, *more: str) -> list[str]:
    return ["metabase", str(repo.path.parent / "bundle"), "--connection", "w", "--max-parallel", "1", *more]


def check(repo: Repo) -> None:
    """Landed once, accounted for once, and nothing to do any more."""
    listed = repo.git("ls-tree", "-r", "--name-only", "main").split()
    assert [path.rpartition("/")[2] for path in listed if path.startswith("wiki/")] == PAGES
    assert "semantic-layer/w/daily.yaml" in listed
    assert repo.git("rev-list", "--count", "main") == "2", "one landing commit"
    assert repo.git("status", "--porcelain") == ""
    rows = [row for raw in ("cards/1.json", "cards/2.json") for row in answered(repo, raw)]
    seen = Counter((row["rawPath"], row["artifact"], row["sync"]) for row in rows)
    assert set(seen.values()) == {1}, "no row twice"
    assert sorted((raw, artifact) for raw, artifact, _ in seen) == [
        ("cards/1.json", "daily-card-1"),
        ("cards/1.json", "w/daily"),
        ("cards/2.json", "last-card-2"),
    ]
    syncs = {path.split("/")[3] for path in listed if path.startswith("raw-sources/")}
    assert {sync for _, _, sync in seen} == syncs and len(syncs) == 1
    store = repo.path / ".ktx"
    assert not list(store.rglob("pending/*.json")), "no provenance waits"
    assert not [path for path in (store / "tmp").glob("*") if path.name != "trash"]
    assert not list(store.rglob(".*.tmp")), "no half-written file is left"
    assert call("ledger-query", "jobs", cwd=repo.path).status == 0
    assert call("git-ktx", "status", cwd=repo.path).status == 0
    again = call("ingest-run", *words(repo), "--json", cwd=repo.path)
    assert again.json["outcome"] == "noop", again.out


def answered(repo: Repo, raw: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = call("ledger-query", "provenance", raw, "--json", cwd=repo.path).document["rows"]
    return rows


def resumed(repo: Repo) -> None:
    """What a person does after a kill: resume, or start where nothing had begun."""
    ran = call("ingest-run", "--resume", "j1", cwd=repo.path)
    if ran.status == 2 and ("no job" in ran.err or "is no ingestion" in ran.err):
        ran = call("ingest-run", *words(repo), cwd=repo.path)
    assert ran.status == 0 or "has landed already" in ran.err, (ran.status, ran.err, ran.out)
    if (repo.path / ".ktx/worktrees/j1").exists():
        assert not list((repo.path / ".ktx/worktrees/j1").iterdir()), "no worktree is left"
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def anew(repo: Repo) -> None:
    """What tonight's schedule does after a kill last night: it starts a new one."""
    ran = call("ingest-run", *words(repo), cwd=repo.path)
    assert ran.status == 0, (ran.status, ran.err, ran.out)


@pytest.fixture(scope="module")
def effects(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    repo = made(tmp_path_factory.mktemp("count"))
    found = count_effects("ingest-run", words(repo, "--job", "j1"), repo.path)
    check(repo)
    return found


def chosen(effects: list[str], when: str) -> Sequence[tuple[int, Callable[[Repo], None]]]:
    """Which effects to be killed at, and what comes next: everything in the full form (of which KTX_TEST_PART=k/n is a
    part), else one of each kind."""
    if FULL:
        part, parts = PART
        return [(n, (resumed, anew)[(n + turn) % 2]) for turn in (0, 1) for n in range(len(effects))][part::parts]
    begun = next(n for n, effect in enumerate(effects) if effect.startswith("os.open .ingest.json"))
    landing = max(n for n, effect in enumerate(effects) if effect.startswith("spawn git"))
    one = {"before": (len(effects) // 2, resumed), "after": (begun, anew), "torn": (landing, anew)}
    return [one[when]]


@pytest.mark.parametrize("when", WHENS)
def test_killed_at_any_effect(tmp_path: Path, effects: list[str], when: str) -> None:
    for n, after in chosen(effects, when):
        place = tmp_path / f"{n}-{after.__name__}"
        repo = made(place)
        killed = run_killed("ingest-run", words(repo, "--job", "j1"), repo.path, n, when)
        after(repo)
        try:
            check(repo)
        except AssertionError as error:
            raise AssertionError(f"{killed if isinstance(killed, Killed) else n} then {after.__name__}") from error
        shutil.rmtree(place)


def test_provenance_that_a_dead_process_had_half_written_goes(tmp_path: Path) -> None:
    repo = made(tmp_path)
    assert call("ingest-run", *words(repo), cwd=repo.path).status == 0
    ask = [sys.executable, "-c", "from ktxkit.base import owners; print(owners.this_owner().mark)"]
    mark = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    left = next((repo.path / ".ktx").glob("provenance/*")) / f"pending/.j1.json.{mark}-0a1b2c.tmp"
    left.parent.mkdir(exist_ok=True)
    left.touch()
    assert call("ingest-run", *words(repo), cwd=repo.path).status == 0 and not left.exists()
