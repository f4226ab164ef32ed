"""Provenance rows: who led to what, and which rows cannot land."""

from __future__ import annotations

from typing import Any

import pytest

from ktxkit.base.clock import SystemClock
from ktxkit.base.errors import CannotRun
from ktxkit.ingest.rules.artifacts import (
    Artifact,
    ArtifactChange,
    UnitProvenance,
    actions_changes,
    artifact_of,
    identifier,
    last_artifacts,
    problems_of,
    rows_of,
    words_key,
)
from ktxkit.ingest.rules.places import check_name, departure, journal_name, sync_id

PAGE = "wiki/global/orders.md"


def page(path: str = PAGE, action: str = "wiki_written", *origins: str) -> ArtifactChange:
    artifact = artifact_of(path)
    assert artifact is not None
    return ArtifactChange(path, artifact, action, origins)


DIGESTS = {"a.json": "b3:a", "b.json": "b3:b", "c.json": "b3:c", "gone.json": "b3:g"}


def test_without_an_account_each_artifact_comes_from_all_raw_files_of_its_unit() -> None:
    rows = rows_of([UnitProvenance("u", ("a.json", "b.json"), (page(),))], ["a.json", "b.json", "c.json"], DIGESTS)
    assert [(row["rawPath"], row.get("artifactKey"), row["actionType"]) for row in rows] == [
        ("a.json", "orders", "wiki_written"),
        ("b.json", "orders", "wiki_written"),
        ("c.json", None, "skipped"),
    ]
    assert rows[0]["rawContentHash"] == "b3:a" and "artifactKey" not in rows[2]


def test_a_raw_file_of_a_failed_unit_has_no_row() -> None:
    assert rows_of([], ["a.json"], DIGESTS)[0]["rawPath"] == "a.json"
    assert rows_of([], [], DIGESTS) == []


def test_a_deleted_raw_file_that_led_to_nothing_is_marked() -> None:
    assert rows_of([], ["gone.json"], DIGESTS, {"gone.json"}) == [
        {"rawPath": "gone.json", "rawContentHash": "b3:g", "deleted": True, "actionType": "skipped"}
    ]


def test_a_workers_account_says_which_raw_files() -> None:
    touched = {PAGE: page(), "wiki/global/other.md": page("wiki/global/other.md")}
    said: list[dict[str, Any]] = [
        {"path": PAGE, "rawPaths": ["b.json"], "actionType": "merged"},
        {"path": "wiki/global/none.md"},
    ]
    changes = {change.path: change for change in actions_changes(said, touched)}
    assert changes[PAGE].origins == ("b.json",) and changes[PAGE].action == "merged"
    assert changes["wiki/global/other.md"].origins == ()
    assert changes["wiki/global/none.md"].artifact.key == "none"


def rowed(raw: str, **more: Any) -> dict[str, Any]:
    return {"rawPath": raw, "actionType": "wiki_written", "artifactKey": "orders", "artifactPath": PAGE, **more}


# name: row, rule that it breaks or ""
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "of this snapshot": (rowed("cards/1.json"), ""),
    "of the deleted ones": (rowed("cards/old.json"), ""),
    "skipped": ({"rawPath": "cards/1.json", "actionType": "skipped"}, ""),
    "outside": (rowed("cards/missing.json"), "unknown-raw-path"),
    "another case": (rowed("Cards/1.json"), "unknown-raw-path"),
    "another Unicode form": (rowed("cards/e\u0301.json"), "path-not-normal"),
    "a leading slash": (rowed("/cards/1.json"), "path-not-normal"),
    "a dot segment": (rowed("./cards/1.json"), "path-not-normal"),
    "a parent segment": (rowed("cards/../cards/1.json"), "path-not-normal"),
    "two slashes": (rowed("cards//1.json"), "path-not-normal"),
    "a backslash": (rowed("cards\\1.json"), "path-not-normal"),
    "a last slash": (rowed("cards/1.json/"), "path-not-normal"),
    "a newline": (rowed("cards/1.json\n"), "path-not-normal"),
    "a lone surrogate": (rowed("cards/\udcff.json"), "path-not-normal"),
    "empty": (rowed(""), "path-not-normal"),
    "an artifact that is not there": (rowed("cards/1.json", artifactPath="wiki/global/no.md"), "unknown-artifact"),
    "an artifact without a path": (
        {"rawPath": "cards/1.json", "actionType": "merged", "artifactKey": "x"},
        "unknown-artifact",
    ),
    "skipped with an artifact": (rowed("cards/1.json", actionType="skipped"), "unknown-artifact"),
}


@pytest.mark.parametrize("name", ROWS)
def test_which_rows_can_land(name: str) -> None:
    row, rule = ROWS[name]
    found = problems_of([row], {"cards/1.json", "cards/é.json"}, {"cards/old.json"}, {PAGE})
    assert [problem.rule for problem in found] == ([rule] if rule else [])
    if rule == "unknown-raw-path":
        assert "provenance row references raw path outside this snapshot: " in found[0].message
    if name == "outside":
        assert row["rawPath"] in found[0].message


def test_a_near_spelling_is_hinted_at() -> None:
    found = problems_of([rowed("card/1.json")], {"cards/1.json"}, (), {PAGE})
    assert found[0].hint == "did you mean cards/1.json?"


def test_the_last_sync_of_a_raw_file_says_what_it_leads_to() -> None:
    rows = [
        {"rawPath": "a", "jobId": "1", "artifactPath": "old"},
        {"rawPath": "b", "jobId": "1", "artifactPath": "b"},
        {"rawPath": "a", "jobId": "2", "artifactPath": "x"},
        {"rawPath": "a", "jobId": "2", "artifactPath": "y"},
    ]
    found = last_artifacts(rows)
    assert [row["artifactPath"] for row in found["a"]] == ["x", "y"]
    assert [row["artifactPath"] for row in found["b"]] == ["b"]


ARTIFACTS = {
    "wiki/global/orders.md": Artifact("wiki", "orders", "wiki/global/orders.md"),
    "wiki/user/7/mine.md": Artifact("wiki", "user/7/mine", "wiki/user/7/mine.md"),
    "semantic-layer/w/orders.yaml": Artifact("sl", "w/orders", "semantic-layer/w/orders.yaml", "w"),
    "semantic-layer/w/_schema/s.yml": Artifact("sl", "w/_schema/s", "semantic-layer/w/_schema/s.yml", "w"),
    "wiki/global/a/b.md": Artifact("wiki", "a/b", "wiki/global/a/b.md"),
    "semantic-layer/x.yaml": None,
    "README.md": None,
}


@pytest.mark.parametrize("path", ARTIFACTS)
def test_what_lies_where(path: str) -> None:
    assert artifact_of(path) == ARTIFACTS[path]


def test_names() -> None:
    assert words_key("Orders + Customers", "card-27") == "orders-customers"
    assert words_key("Коллекция", "card-33") == "card-33"
    assert len(words_key("x" * 200, "c")) <= 69
    assert identifier("2026 revenue", "m") == "n_2026_revenue"
    assert identifier("CON", "m") == "con_" and identifier("日本", "model_4") == "model_4"


def test_sync_ids_and_names_that_are_directories() -> None:
    now = SystemClock().now().replace(year=2026, month=5, day=17, hour=3, minute=4, second=5)
    assert sync_id(now, "j").endswith("-j") and sync_id(now, "j").startswith("2026-05-17-030405")
    assert check_name("connection", "warehouse-1_a.b") == "warehouse-1_a.b"
    for bad in ("", "a/b", "..", ".git", "-a", "ä", "a..b", "x.lock", "a "):
        with pytest.raises(CannotRun):
            check_name("connection", bad)
    assert journal_name("a", "b-c") != journal_name("a-b", "c")
    assert departure("cards/1.json") == "" and "no .git" in departure("a/.GIT/b")
