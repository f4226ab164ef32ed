"""The demo by job-run and by hand with the small commands: the same tree, patches and outcomes, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.commands import BIN
from tests.support.repos import Repo

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
WANTED = {
    "page-returns": "accepted",
    "page-glossary": "accepted",
    "source-shipments": "accepted",
    "page-revenue": "accepted",
    "rename-measure": "semantic_conflict",
    "headline-plain": "accepted",
    "headline-loud": "textual_conflict",
    "outside": "policy_rejected",
    "nothing": "noop",
    "breaks": "failed",
}


def example(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", str(EXAMPLES / script), str(place)], env=env, capture_output=True, text=True, check=False
    )


def left(place: Path) -> dict[str, Any]:
    """What must be equal: the landed tree, every patch's bytes, every outcome."""
    repo, store = Repo(place), place / ".ktx"
    receipts = {path.parent.name: json.loads(path.read_text()) for path in store.glob("jobs/demo/units/*/receipt.json")}
    return {
        "tree": repo.git("rev-parse", "main^{tree}"),
        "commits": repo.git("rev-list", "--count", "main"),
        "patches": {path.name: path.read_bytes() for path in store.glob("ingest-patches/demo/*.patch")},
        "outcomes": {unit: receipt["outcome"] for unit, receipt in receipts.items()},
        "findings": {unit: receipt["findings"] for unit, receipt in receipts.items()},
    }


def test_the_demo_twice_and_by_hand(tmp_path: Path) -> None:
    first = example("demo/run.sh", tmp_path / "demo")
    assert first.returncode == 0, first.stderr + first.stdout
    report = json.loads((tmp_path / "demo/.ktx/jobs/demo/report.json").read_text())
    assert {entry["key"]: entry["outcome"] for entry in report["workUnits"]} == WANTED
    by_key = {entry["key"]: entry for entry in report["workUnits"]}
    stale = [found for found in by_key["rename-measure"]["findings"] if found["level"] == "error"]
    assert [found["path"] for found in stale] == ["wiki/global/revenue.md"], "a page that the unit never touched"
    assert by_key["headline-loud"]["conflicts"][0]["path"] == "wiki/global/orders.md"
    for key, outcome in WANTED.items():
        assert key in first.stdout and outcome.replace("_", " ") in first.stdout
        assert outcome in ("accepted", "noop") or by_key[key]["reason"], f"{key} has no reason"
    as_job = left(tmp_path / "demo")
    assert as_job["commits"] == "2"
    assert example("demo/run.sh", tmp_path / "demo").returncode == 0, "a second time, in the same place"
    assert left(tmp_path / "demo")["tree"] == as_job["tree"]

    by_hand = example("pipeline.sh", tmp_path / "hand")
    assert by_hand.returncode == 0, by_hand.stderr + by_hand.stdout
    assert left(tmp_path / "hand") == as_job
