"""The example worker: real pages from cards that pass every gate, with an account of where each comes from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.repos import Repo
from tests.support.shared import SHARED

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples/ingest"
FULL = os.environ.get("KTX_TEST_FULL") == "1"
CARDS = ("simple", "card-ref", "multi-collection")
BUNDLES = ["metabase-api/mbql5", "metabase-api/mbql4", *(f"metabase-cards/{name}" for name in CARDS)]


def test_the_example_lands_pages_that_pass_every_gate_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(EXAMPLE / "run.sh"), str(tmp_path / "shop")], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    repo = Repo(tmp_path / "shop")
    assert repo.git("rev-list", "--count", "main") == "2", "the second ingestion made no commit"
    assert repo.git("ls-tree", "--name-only", "main", "wiki/global/").split() == [
        f"wiki/global/card-{number}.md" for number in (1, 2, 3)
    ]
    assert "3 pages, 2 sources, 4 references: nothing found" in done.stderr
    assert "nothing changed since what landed: nothing to do" in done.stderr
    page = repo.show("main", "wiki/global/card-2.md").decode()
    assert "[[card-1]]" in page and '"shop/orders_by_day"' in page
    rows = call("ledger-query", "provenance", "wiki/global/card-2.md", "--json", cwd=repo.path).document["rows"]
    assert [(row["rawPath"], row["action"]) for row in rows] == [("cards/2.json", "wiki_written")]


def test_the_example_worker_leaves_alone_what_somebody_edited(repo: Repo, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(EXAMPLE / "metabase", bundle)
    words = [
        "metabase",
        str(bundle),
        "--connection",
        "shop",
        "--json",
        "--",
        sys.executable,
        str(EXAMPLE / "worker.py"),
    ]
    assert call("ingest-run", *words, cwd=repo.path).status == 0
    page = "wiki/global/card-3.md"
    repo.write(page, repo.show("main", page) + b"\nBy hand.\n")
    repo.commit()
    card = bundle / "cards/3.json"
    card.write_text(card.read_text().replace("count(*)", "count(distinct id)"))
    ran = call("ingest-run", *words, cwd=repo.path)
    assert ran.status == 0 and b"By hand." in repo.show("main", page)
    assert any("card-3.md was edited by hand and is left as it is" in one for one in ran.document["warnings"])
    rows = call("ledger-query", "provenance", page, "--json", cwd=repo.path).document["rows"]
    assert len(rows) == 2 and {row["rawPath"] for row in rows} == {"cards/3.json"}


@pytest.mark.skipif(not FULL, reason="KTX_TEST_FULL=1 runs the example worker on every real bundle")
@pytest.mark.parametrize("bundle", BUNDLES)
def test_the_example_worker_on_real_cards(repo: Repo, bundle: str) -> None:
    place = SHARED / "data" / bundle
    if not place.exists():
        pytest.skip(f"the shared inputs are not at {place}")
    words = ["metabase", str(place), "--connection", "w", "--json", "--", sys.executable, str(EXAMPLE / "worker.py")]
    ran = call("ingest-run", *words, cwd=repo.path)
    assert ran.status == 0, ran.out + ran.err
    assert repo.git("ls-tree", "--name-only", "main", "wiki/global/")
    assert call("gate-check", "--all", cwd=repo.path).status == 0
    assert call("ingest-run", *words, cwd=repo.path).json["outcome"] == "noop"
