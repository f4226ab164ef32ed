"""dbt: manifests and schema YAML become sources; real project files where they are present."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ktxkit.base.errors import CannotRun
from ktxkit.ingest.rules import dbt as rules
from ktxkit.ingest.rules.metabase_cards import encoded
from ktxkit.ingest.rules.planning import check_proposals
from tests.support.shared import shared
from tests.support.staging import STANDS_FOR_A_FILE, Held, Stand, read, stage


def node(name: str, kind: str = "model", **more: Any) -> dict[str, Any]:
    columns = {one: {"name": one, "data_type": kind_of} for one, kind_of in more.pop("columns", {}).items()}
    return {
        "unique_id": f"{kind}.shop.{name}",
        "name": name,
        "alias": name,
        "resource_type": kind,
        "schema": "mart",
        "description": f"What {name} is",
        "columns": columns,
        "checksum": {"checksum": "changes"},
        "created_at": 1.5,
        **more,
    }


def test_node(kind: str, model: str, column: str, **arguments: Any) -> dict[str, Any]:
    metadata = {"name": kind, "kwargs": {"column_name": column, "model": "x", **arguments}}
    return {
        "resource_type": "test",
        "attached_node": f"model.shop.{model}",
        "column_name": column,
        "test_metadata": metadata,
    }


test_node.__test__ = False  # type: ignore[attr-defined]

FULL = os.environ.get("KTX_TEST_FULL") == "1"


MANIFEST: dict[str, Any] = {
    "metadata": {"generated_at": "now", "invocation_id": "x"},
    "nodes": {
        "model.shop.orders": node(
            "orders",
            columns={"id": "bigint", "customer_id": "int", "placed_at": "timestamp", "paid": "boolean", "note": ""},
        ),
        "model.shop.customers": node("customers", columns={"id": "integer", "name": "varchar(20)"}),
        "model.shop.empty": node("empty"),
        "test.a": test_node("unique", "orders", "id"),
        "test.b": test_node("not_null", "orders", "id"),
        "test.c": test_node("relationships", "orders", "customer_id", to="ref('customers')", field="id"),
        "test.d": test_node("relationships", "orders", "note", to="ref('elsewhere')", field="id"),
        "test.e": test_node("accepted_values", "orders", "note", arguments={"values": ["a", "b"]}),
    },
    "sources": {
        "source.shop.raw.events": node(
            "events", "source", source_name="raw", identifier="EVENTS", columns={"id": "int"}
        )
    },
    "semantic_models": {
        "semantic_model.shop.orders": {
            "name": "orders_semantic",
            "model": "ref('orders')",
            "defaults": {"agg_time_dimension": "placed_at"},
            "entities": [
                {"name": "order", "type": "primary", "expr": "id"},
                {"name": "customer", "type": "foreign", "expr": "customer_id"},
            ],
            "dimensions": [{"name": "placed_at", "type": "time"}],
            "measures": [
                {"name": "revenue", "agg": "sum", "expr": "amount", "description": "Dollars"},
                {"name": "orders", "agg": "count", "expr": "1"},
                {"name": "buyers", "agg": "count_distinct", "expr": "customer_id"},
                {"name": "p90", "agg": "percentile", "expr": "amount"},
            ],
        },
        "semantic_model.shop.customers": {
            "name": "customers_semantic",
            "model": "ref('customers')",
            "entities": [{"name": "customer", "type": "primary", "expr": "id"}],
        },
    },
    "metrics": {
        "metric.shop.revenue": {"name": "revenue", "type": "simple", "type_params": {"measure": {"name": "revenue"}}}
    },
}


def manifest(tmp_path: Path, value: dict[str, Any], name: str = "target/manifest.json") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return tmp_path


def bodies(held: Held) -> dict[str, Any]:
    files = read("dbt", held).project().files
    return {one.path.rpartition("/")[2]: YAML(typ="safe", pure=True).load(io.StringIO(one.body)) for one in files}


def test_a_manifest_becomes_sources_with_joins_and_measures(tmp_path: Path) -> None:
    held, _ = stage("dbt", manifest(tmp_path, MANIFEST))
    made = bodies(held)
    assert sorted(made) == ["customers.yaml", "events.yaml", "orders.yaml"]
    orders = made["orders.yaml"]
    assert orders["table"] == "mart.orders" and orders["grain"] == ["id"]
    assert {one["name"]: one["type"] for one in orders["columns"]} == {
        "id": "number",
        "customer_id": "number",
        "placed_at": "time",
        "paid": "boolean",
        "note": "string",
        "amount": "number",
    }
    assert orders["joins"] == [
        {"to": "customers", "on": "orders.customer_id = customers.id", "relationship": "many_to_one"}
    ]
    assert {one["name"]: one["expr"] for one in orders["measures"]} == {
        "revenue": "sum(amount)",
        "orders": "count(*)",
        "buyers": "count(distinct customer_id)",
    }
    assert orders["default_time_dimension"] == {"dbt": "placed_at"}
    assert made["events.yaml"]["table"] == "mart.EVENTS"
    projection = read("dbt", held).project()
    assert projection.unresolved == {} or set(projection.unresolved) <= {"models/model.shop.empty.json"}
    assert any("percentile" in warning for warning in projection.warnings)
    assert any("elsewhere" in warning for warning in projection.warnings)
    origins = next(one.origins for one in projection.files if one.path.endswith("orders.yaml"))["w/orders"]
    assert origins == ("models/model.shop.orders.json", "semantic_models/orders_semantic.json", "metrics/revenue.json")


def test_a_new_run_of_dbt_alone_changes_no_raw_file(tmp_path: Path) -> None:
    one, _ = stage("dbt", manifest(tmp_path / "a", MANIFEST))
    again = json.loads(json.dumps(MANIFEST))
    again["metadata"] = {"generated_at": "later"}
    again["nodes"]["model.shop.orders"]["checksum"] = "other"
    other, _ = stage("dbt", manifest(tmp_path / "b", again))
    assert one.files == other.files
    again["nodes"]["model.shop.orders"]["columns"]["id"]["data_type"] = "text"
    third, _ = stage("dbt", manifest(tmp_path / "c", again))
    assert [path for path in one.files if one.files[path] != third.files[path]] == ["models/model.shop.orders.json"]


@pytest.mark.parametrize(
    ("adapter", "dialect"), [("sqlserver", "tsql"), ("bigquery", "bigquery"), ("vertica", ""), ("", ""), (7, "")]
)
def test_sources_say_whose_sql_they_are(tmp_path: Path, adapter: Any, dialect: str) -> None:
    """By the adapter that the manifest names; it is a raw file of its own, so that no unit runs anew for it."""
    said = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "adapter_type": adapter}}
    held, _ = stage("dbt", manifest(tmp_path / "a", said))
    without, _ = stage("dbt", manifest(tmp_path / "b", MANIFEST))
    known = {"adapter.json"} if isinstance(adapter, str) and adapter else set()
    assert {path for path in held.files if held.files[path] != without.files.get(path)} == known
    assert {body.get("x-dialect", "") for body in bodies(held).values()} == {dialect}
    assert list(read("dbt", held).plan()) == list(read("dbt", without).plan())


def test_units_own_each_raw_file_once_and_depend_on_what_they_join(tmp_path: Path) -> None:
    held, _ = stage("dbt", manifest(tmp_path, MANIFEST))
    plan = list(read("dbt", held).plan())
    check_proposals(plan, held.files)
    units = {one.key: one for one in plan}
    orders = units["models/model.shop.orders"]
    assert orders.raw_files == ("models/model.shop.orders.json", "semantic_models/orders_semantic.json")
    assert orders.dependency_paths == ("models/model.shop.customers.json",)
    assert orders.facts["items"][0]["sources"] == ["w/orders", "w/customers"]


def test_a_semantic_manifest_alone(tmp_path: Path) -> None:
    value = {
        "semantic_models": [
            {
                "name": "s",
                "node_relation": {"alias": "orders", "schema_name": "mart"},
                "measures": [{"name": "n", "agg": "sum", "expr": "x"}],
            }
        ],
        "metrics": [],
    }
    held, _ = stage("dbt", manifest(tmp_path, value, "semantic_manifest.json"))
    assert list(held.files) == ["semantic_models/s.json"]


YML = """
version: 2
models:
  - name: orders
    description: Orders
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: customer_id
        tests:
          - relationships: {to: ref('customers'), field: id}
  - name: customers
    columns:
      - {name: id, tests: [unique], data_type: int}
"""


def test_schema_yaml(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/schema.yml").write_text(YML)
    (tmp_path / "models/other.yml").write_text("a: 1\n")
    (tmp_path / "dbt_packages").mkdir()
    (tmp_path / "dbt_packages/x.yml").write_text(YML)
    held, staged = stage("dbt", tmp_path)
    assert list(held.files) == ["models/schema.yml"] and staged.not_read == ["models/other.yml"]
    made = bodies(held)
    assert made["orders.yaml"]["joins"][0]["to"] == "customers" and made["orders.yaml"]["grain"] == ["id"]
    with_schema = read("dbt", held, schema="mart").project().files
    assert "table: mart.orders" in next(one.body for one in with_schema if one.path.endswith("orders.yaml"))


@pytest.mark.parametrize("content", ["{", "a: [", "\x00", "models: &a [*a]"])
def test_yaml_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "schema.yml").write_text(content)
    try:
        held, _ = stage("dbt", tmp_path)
        read("dbt", held)
    except CannotRun as error:
        assert error.location.endswith("schema.yml")


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    place = manifest(tmp_path, MANIFEST)
    (place / "target/manifest.json").write_text("{")
    with pytest.raises(CannotRun) as caught:
        stage("dbt", place)
    assert caught.value.location.endswith("manifest.json")
    (place / "target/manifest.json").write_text('{"nodes": [1], "sources": {"a": 3}, "semantic_models": 7}')
    with pytest.raises(CannotRun):
        stage("dbt", place)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values of a document stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(place for key, one in inner for place in places(one, (*above, key)))]


def changed(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    """A document with something else at a place."""
    if not place:
        return odd
    key, *rest = place
    if isinstance(value, dict):
        return {**value, key: changed(value[key], tuple(rest), odd)}
    return [changed(one, tuple(rest), odd) if n == key else one for n, one in enumerate(value)]


@pytest.mark.parametrize("odd", [7, "text", None, [], {}, [1], {"a": 1}, [{"name": []}]], ids=repr)
def test_whatever_stands_in_a_manifest_is_read_or_named(tmp_path: Path, odd: Any) -> None:
    every = places(MANIFEST)[1:]
    for number, place in enumerate(every):
        if not FULL and number % 50:
            continue
        try:
            held, _ = stage("dbt", manifest(tmp_path, changed(MANIFEST, place, odd)))
            read("dbt", held).project()
        except CannotRun as error:
            assert not re.search(r"no attribute|object is not|not subscriptable|unhashable", error.message), (
                error.message
            )
            assert str(place[-1]) in error.message or str(place[0]) in error.message, error.message


@pytest.mark.needs_data
def test_the_real_project(tmp_path: Path) -> None:
    held, _ = stage("dbt", shared("data", "orbit", "raw-sources", "dbt"))
    assert sorted(held.files) == ["dbt_project.yml", "schema.yml", "sources.yml"]
    made = bodies(held)
    assert len(made) == 30 and made["stg_accounts.yaml"]["grain"] == ["account_id"]
    assert made["stg_accounts.yaml"]["columns"][1]["enum_values"] == {"dbt": ["na", "emea", "apac"]}
    assert [one.key for one in read("dbt", held).plan()] == ["schema.yml"]


@pytest.mark.parametrize("manifest", [{}, {"nodes": 5}, {"nodes": None}, {"nodes": []}, {"nodes": {"model.a.b": 5}}])
@pytest.mark.parametrize("name", ["manifest.json", "semantic_manifest.json"])
def test_a_manifest_without_its_nodes_is_none(tmp_path: Path, name: str, manifest: dict[str, Any]) -> None:
    """Taken for an empty one, all that it said before would be deleted."""
    if name == "semantic_manifest.json":
        manifest = {"semantic_models" if key == "nodes" else key: value for key, value in manifest.items()}
        if manifest.get("semantic_models") == []:
            return
    (tmp_path / name).write_text(json.dumps(manifest))
    with pytest.raises(CannotRun, match="has not the shape of a dbt manifest") as caught:
        stage("dbt", tmp_path)
    assert caught.value.location == str(tmp_path / name) and caught.value.hint


def test_names_that_sanitise_alike_are_two_raw_files(tmp_path: Path) -> None:
    names = ["a b", "a-b", "a/b", "\u00e9", "\u00fc", "", "x" * 300, "x" * 301]
    listed = {"semantic_models": [{"name": name, "model": "ref('x')"} for name in names]}
    (tmp_path / "semantic_manifest.json").write_text(json.dumps(listed))
    held = stage("dbt", tmp_path)[0]
    assert sorted(json.loads(data)["name"] for data in held.files.values()) == sorted(names)


@pytest.mark.parametrize("make", STANDS_FOR_A_FILE.values(), ids=STANDS_FOR_A_FILE)
@pytest.mark.parametrize("name", ["manifest.json", "target/manifest.json", "models/a.yml", "models"])
def test_what_stands_for_a_file_is_refused_and_never_called_deleted(tmp_path: Path, name: str, make: Stand) -> None:
    """Links among a project's files dbt would follow; a snapshot does not, and says so."""
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    refused = path.is_dir() if name == "models" else True
    if make is STANDS_FOR_A_FILE["a directory"] and not name.endswith(".json"):
        refused = False
    if not refused:
        assert list(stage("dbt", tmp_path)[0].files) == ["dbt_project.yml"]
        return
    with pytest.raises(CannotRun) as caught:
        stage("dbt", tmp_path)
    assert caught.value.location == str(path) and caught.value.hint


KEYS = sorted({str(key) for place in places(MANIFEST) for key in place if isinstance(key, str)} | {"type", "tests"})
VALUES = st.sampled_from(
    [None, True, 7, -1.5, "", "id", "orders", "model.shop.orders", "ref('orders')", "\ud800", "a/b"]
)
SHAPES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=3000 if FULL else 40, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_any_shape_of_a_manifest_is_read_or_named(data: st.DataObject) -> None:
    """Each of its groups, and the YAML of a project: sources and units, or an error with a word."""
    made = {key: data.draw(SHAPES) if data.draw(st.booleans()) else value for key, value in MANIFEST.items()}
    catalog = data.draw(st.none() | SHAPES)
    try:
        files = dict(rules.files(made, catalog if isinstance(catalog, dict) else None))
    except (AttributeError, TypeError, KeyError, ValueError):
        files = {}  # the connector names the manifest for each of these
    held = Held()
    for path, value in files.items():
        held.put(path, encoded(value))
    held.put("models/schema.yml", json.dumps(data.draw(SHAPES)).encode())
    reading = read("dbt", held)
    check_proposals(list(reading.plan()), held.files)
    for one in reading.project().files:
        assert YAML(typ="safe", pure=True).load(io.StringIO(one.body))
