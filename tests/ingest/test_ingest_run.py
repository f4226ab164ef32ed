"""An ingestion from a source to landed knowledge, and again: nothing to do, then exactly what changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.repos import Repo
from tests.support.shared import SHARED

BUNDLE = SHARED / "data/metabase-api/mbql5"
pytestmark = pytest.mark.skipif(not BUNDLE.exists(), reason=f"the shared inputs are not at {BUNDLE}")


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A copy of the bundle that may be edited."""
    place = tmp_path / "bundle"
    shutil.copytree(BUNDLE, place)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def ingest(repo: Repo, place: Path, *args: str) -> Ran:
    return call("ingest-run", "metabase", str(place), "--connection", "warehouse", *args, cwd=repo.path)


def outcomes(repo: Repo, job: str) -> dict[str, str]:
    report = json.loads((repo.path / f".ktx/jobs/{job}/report.json").read_text())
    return {entry["key"]: entry["outcome"] for entry in report["workUnits"]}


def test_landed_then_nothing_then_only_what_changed(repo: Repo, staged: Path) -> None:
    before = repo.head
    first = ingest(repo, staged, "--job", "first")
    assert first.status == 0, first.err + first.out
    assert repo.git("rev-parse", "main^") == before, "one commit"
    assert repo.git("ls-tree", "-r", "--name-only", "main", "wiki", "semantic-layer")
    assert call("gate-check", "--all", cwd=repo.path).status == 0, "every gate passes on what landed"

    landed = repo.head
    again = ingest(repo, staged, "--job", "again")
    assert again.status == 0, again.err
    assert repo.head == landed, "nothing to do makes no commit"
    assert outcomes(repo, "again") == {}

    card = staged / "card/27.json"
    document = json.loads(card.read_text())
    card.write_text(json.dumps({**document, "name": "Renamed"}))
    card = staged / "card/29.json"  # and the measure of another
    card.write_text(card.read_text().replace("count(*)", "sum(p.amount)"))
    third = ingest(repo, staged, "--job", "third")
    assert third.status == 0, third.err + third.out
    assert {key for key, word in outcomes(repo, "third").items() if word != "noop"} == {"cards-27", "card-29"}
    assert repo.git("rev-parse", "main^") == landed


def test_an_unknown_connector_is_refused(repo: Repo) -> None:
    ran = call("ingest-run", "metabasse", "x", "--connection", "c", cwd=repo.path)
    assert ran.status == 2
    assert "metabase" in ran.err and "Traceback" not in ran.err


def test_a_place_that_is_not_there_is_refused(repo: Repo, tmp_path: Path) -> None:
    ran = ingest(repo, tmp_path / "nowhere")
    assert ran.status == 2
    assert "nowhere" in ran.err and "Traceback" not in ran.err
    assert not (repo.path / ".ktx/jobs").exists()
