"""What an ingestion tells: why units ran, what went with a deleted card, what was cut, and what to mend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, call
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

COLUMNS = [{"name": name, "display_name": name, "base_type": "type/Integer"} for name in ("id", "cost")]


def card(bundle: Path, number: int, name: str, about: str = "") -> None:
    document = {
        "metabaseId": number, "name": name, "description": f"About {about or name}", "type": "model", "databaseId": 1,
        "archived": False, "resolvedSql": f"select id, cost from shop.t{number}", "templateTags": [],
        "resultMetadata": COLUMNS, "referencedCardIds": [], "resolutionStatus": "resolved",
    }  # fmt: skip
    (bundle / "cards").mkdir(parents=True, exist_ok=True)
    (bundle / f"cards/{number}.json").write_text(json.dumps(document))


@pytest.fixture
def bundle(tmp_path: Path, repo: Repo) -> Path:
    """Two cards that are ingested."""
    place = tmp_path / "bundle"
    (place / "databases").mkdir(parents=True)
    database = {"metabaseDatabaseId": 1, "metabaseDatabaseName": "Shop", "metabaseEngine": "postgres"}
    (place / "databases/1.json").write_text(json.dumps(database))
    card(place, 1, "Orders")
    card(place, 2, "Returns")
    assert ingest(repo, place).status == 0
    repo.git("reset", "-q", "--hard")
    return place


def ingest(repo: Repo, bundle: Path, *args: str) -> Ran:
    return call("ingest-run", "metabase", str(bundle), "--connection", "shop", *args, cwd=repo.path)


def test_why_a_unit_ran(repo: Repo, bundle: Path) -> None:
    card(bundle, 1, "Orders", "orders of today")
    ran = ingest(repo, bundle, "--json")
    (entry,) = [one for one in ran.document["workUnits"] if one["key"] == "card-1"]
    assert entry["why"] == ["cards/1.json changed"]
    assert entry["actions"] and all(one["path"].startswith("wiki/") for one in entry["actions"])
    text = call("job-report", "--job", ran.document["jobId"], cwd=repo.path).out
    assert "(cards/1.json changed)" in " ".join(text.split())


def test_what_went_with_a_card(repo: Repo, bundle: Path) -> None:
    (bundle / "cards/2.json").unlink()
    report: dict[str, Any] = ingest(repo, bundle, "--json").document
    gone = {"wiki/global/returns-card-2.md": "evictions", "semantic-layer/shop/returns.yaml": "projection"}
    assert set(report["evictionsApplied"]) == set(gone)
    told = call("ledger-query", "--json", "provenance", "cards/2.json", cwd=repo.path).document["rows"]
    removed = {(one["path"], one["job"]) for one in told if one["action"] == "removed"}
    assert removed == {(path, report["jobId"]) for path in gone}
    card(bundle, 2, "Returns")  # it comes back, and nothing that was removed is carried on
    again = ingest(repo, bundle, "--json").document
    rows = call("ledger-query", "--json", "provenance", "cards/2.json", cwd=repo.path).document["rows"]
    assert {one["action"] for one in rows if one["job"] == again["jobId"]} <= {"source_created", "wiki_written"}


def page(repo: Repo) -> None:
    repo.write("wiki/global/mine.md", "---\nsummary: Mine\n---\n\nI use `source:returns` and `source:orders`.\n")
    repo.commit("mine")


def test_what_to_mend(repo: Repo, bundle: Path) -> None:
    page(repo)
    (bundle / "cards/2.json").unlink()
    failed = ingest(repo, bundle)
    assert failed.status == 3
    status = call("git-ktx", "status", cwd=repo.path).out
    assert "--resume" not in status and "wiki/global/mine.md" in status
    pruned = ingest(repo, bundle, "--on-conflict", "prune")
    assert pruned.status == 0, pruned.out + pruned.err
    assert repo.show("main", "wiki/global/mine.md").decode().endswith("\n\nI use and `source:orders`.\n")
    said = " ".join((pruned.out + pruned.err).split())
    assert "Taken out as dangling: 1 line - wiki/global/mine.md: code span source:returns" in said


def test_what_a_failed_unit_left_dangling_is_cut_at_the_end(repo: Repo, bundle: Path) -> None:
    """The source of card 1 has another name now, and the unit that was to write its page anew fails: the old page
    dangles. It is found by the gates over the whole, when everything else is in."""
    repo.write("wiki/global/mine.md", "---\nsummary: Mine\n---\n\nI use `source:orders` and `source:returns`.\n")
    repo.commit("mine")
    card(bundle, 1, "Sales")
    card(bundle, 2, "Returns", "what came back")
    worker = ["--", "sh", "-c", 'test "$KTX_UNIT" != card-1 && echo "more" >> wiki/global/returns-card-2.md']
    failed = ingest(repo, bundle, *worker)
    assert failed.status == 3
    pruned = ingest(repo, bundle, "--on-conflict", "prune", "--json", *worker)
    assert pruned.document["outcome"] == "partial", pruned.out + pruned.err  # the other unit and the projection are in
    assert repo.show("main", "wiki/global/mine.md").decode().endswith("\n\nI use and `source:returns`.\n")
    old = repo.show("main", "wiki/global/orders-card-1.md").decode()
    assert "shop/orders" not in old and "source:orders" not in old
    assert b"more" in repo.show("main", "wiki/global/returns-card-2.md")
    cut = {(one["artifact"], one["absentTarget"]) for one in pruned.document["prunedReferences"]}
    assert {path for path, _ in cut} == {"wiki/global/mine.md", "wiki/global/orders-card-1.md"}
    text = call("job-report", "--job", pruned.document["jobId"], cwd=repo.path).out
    assert "wiki/global/orders-card-1.md: " in text.partition("Taken out as dangling")[2]
    assert call("gate-check", "--all", "--tree", "main", cwd=repo.path).status == 0
    assert call("git-ktx", "doctor", cwd=repo.path).status == 0


def test_a_cut_at_the_end_is_verified_before_it_lands(repo: Repo, bundle: Path, tmp_path: Path) -> None:
    card(bundle, 1, "Sales")
    refused = f"grep -q shop/orders -r wiki || test -e {tmp_path}/now"  # the old page has to refer
    worker = ["--verify", refused, "--", "sh", "-c", "exit 1"]
    before = repo.git("rev-parse", "main")
    ran = ingest(repo, bundle, "--on-conflict", "prune", "--json", *worker)
    assert ran.status != 0 and repo.git("rev-parse", "main") == before, ran.out + ran.err
    assert ran.document["failure"]["details"]["outcome"] == "verification_failed", ran.document["failure"]
    (tmp_path / "now").touch()
    resumed = call("ingest-run", "--resume", ran.document["jobId"], "--json", cwd=repo.path)
    assert resumed.document["outcome"] == "partial", resumed.out + resumed.err
    assert b"shop/orders" not in repo.show("main", "wiki/global/orders-card-1.md")
    (cut,) = resumed.document["prunedReferences"]
    assert cut["artifact"] == "wiki/global/orders-card-1.md"


@pytest.mark.parametrize("touched", ['"c/mart"', '{"connectionId": "c", "sourceName": "mart"}'])
def test_touched_sources_are_objects(repo: Repo, touched: str) -> None:
    printed = f"echo '{{\"touchedSources\": [{touched}]}}'"
    job = job_file(repo, {"project": ["sh", "-c", printed], "units": [unit("a", "echo x > n.txt")]})
    ran = call("job-run", str(job), "--job", "j1", "--json", cwd=repo.path)
    assert ran.status == 0, ran.err
    told = ran.document["projectionResult"]["touchedSources"]
    assert told == [{"connectionId": "c", "sourceName": "mart"}]


def test_units_are_told_what_is_canonical(repo: Repo, bundle: Path) -> None:
    repo.write("ktx-gates.yaml", "canonical: {orders: shop/orders, late deliveries: wiki/orders-card-1}\n")
    repo.commit("a choice")
    card(bundle, 1, "Orders", "orders of today")
    ran = ingest(
        repo,
        bundle,
        "--json",
        "--",
        "sh",
        "-c",
        'cp "$KTX_UNIT_FILE" told.json; mkdir -p wiki; mv told.json wiki/t.json',
    )
    told = json.loads(repo.show("main", "wiki/t.json")) if ran.status == 0 else {}
    assert told.get("canonicalPins") == [
        {"contestedKey": "late deliveries", "canonicalArtifactKey": "wiki/orders-card-1"},
        {"contestedKey": "orders", "canonicalArtifactKey": "shop/orders"},
    ], ran.out + ran.err


def test_what_a_worker_could_not_place_is_in_the_report(repo: Repo, bundle: Path) -> None:
    card(bundle, 1, "Orders", "orders of today")
    account = {
        "schemaVersion": 1,
        "unmapped": [{"rawPath": "cards/1.json", "reason": "no topic fits"}],
        "conflictsResolved": [{"path": "wiki/global/a.md", "resolution": "the newer card counts"}],
    }
    told = "cat > $KTX_RESULT <<'E'\n" + json.dumps(account) + "\nE\n"
    ran = ingest(repo, bundle, "--json", "--", "sh", "-c", told)
    assert ran.status == 0, ran.out + ran.err
    assert ran.document["unmapped"] == [{**account["unmapped"][0], "unitKey": "card-1"}]  # type: ignore[index]
    assert ran.document["conflictsResolved"][0]["resolution"] == "the newer card counts"
    text = call("job-report", "--job", ran.document["jobId"], cwd=repo.path).out
    assert "cards/1.json: no topic fits" in text
