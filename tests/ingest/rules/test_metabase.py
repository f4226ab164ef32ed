"""Metabase's documents as facts: both query languages, SQL, sources and units; real answers where they are present."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ktxkit.ingest.rules import mbql, metabase_cards, metabase_sources, metabase_units
from ktxkit.ingest.rules.mbql import Unreadable, read
from ktxkit.ingest.rules.metabase_units import Bundle
from ktxkit.ingest.rules.planning import check_proposals
from ktxkit.ingest.rules.sql import Renderer
from tests.support.gates import in_core
from tests.support.shared import shared

COLUMNS = [
    {"id": 1, "name": "id", "base_type": "type/Integer", "semantic_type": "type/PK"},
    {"id": 2, "name": "total_cents", "base_type": "type/BigInteger"},
    {"id": 3, "name": "placed_at", "base_type": "type/DateTime"},
    {"id": 4, "name": "customer_id", "base_type": "type/Integer", "fk_target_field_id": 11},
    {"id": 5, "name": "status", "base_type": "type/Text"},
]
DATABASE = {
    "id": 2,
    "engine": "postgres",
    "name": "shop",
    "details": {"password": "never kept"},
    "tables": [
        {"id": 10, "db_id": 2, "schema": "public", "name": "orders", "fields": COLUMNS},
        {
            "id": 12,
            "db_id": 2,
            "schema": "public",
            "name": "customers",
            "fields": [{"id": 11, "name": "id", "base_type": "type/Integer", "semantic_type": "type/PK"}],
        },
    ],
}


def v4(**query: Any) -> dict[str, Any]:
    return {"database": 2, "type": "query", "query": {"source-table": 10, **query}}


def v5(**stage: Any) -> dict[str, Any]:
    first = {"lib/type": "mbql.stage/mbql", **({} if "source-card" in stage else {"source-table": 10}), **stage}
    return {"database": 2, "lib/type": "mbql/query", "stages": [first]}


def native(sql: str, **tags: Any) -> dict[str, Any]:
    return {"database": 2, "type": "native", "native": {"query": sql, "template-tags": tags}}


def u(name: str, **more: Any) -> dict[str, Any]:
    return {"lib/uuid": name, **more}


def card(number: int, query: dict[str, Any], kind: str = "question", **more: Any) -> tuple[str, Any]:
    made = {"id": number, "name": f"Card {number}", "type": kind, "database_id": 2, "dataset_query": query, **more}
    return f"card/{number}.json", made


def bundle_of(*documents: tuple[str, Any]) -> Bundle:
    whole = [("database/2/metadata.json", DATABASE), *documents]
    kept = [(path, json.loads(metabase_cards.encoded(metabase_units.content_of(path, value)))) for path, value in whole]
    return metabase_units.build(kept)


AMOUNT4, AMOUNT5 = ["field", 2, None], ["field", u("f"), 2]
# name: the query in version 4, in version 5, and the SQL of both
QUERIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a table": (v4(), v5(), "SELECT *\nFROM public.orders"),
    "a filter": (
        v4(filter=["and", ["=", ["field", 5, None], "paid"], [">", AMOUNT4, 100]]),
        v5(filters=[["and", u("x"), ["=", u("a"), ["field", u("b"), 5], "paid"], [">", u("c"), AMOUNT5, 100]]]),
        "SELECT *\nFROM public.orders\nWHERE (status = 'paid' AND total_cents > 100)",
    ),
    "several values": (
        v4(filter=["=", ["field-id", 5], "new", "paid"]),
        v5(filters=[["=", u("a"), ["field", u("b"), 5], "new", "paid"]]),
        "SELECT *\nFROM public.orders\nWHERE status IN ('new', 'paid')",
    ),
    "what is empty differs": (
        v4(filter=["!=", ["field", 5, None], "it's"]),
        v5(filters=[["!=", u("a"), ["field", u("b"), 5], "it's"]]),
        "SELECT *\nFROM public.orders\nWHERE (status <> 'it''s' OR status IS NULL)",
    ),
    "an aggregation by month, ordered by it": (
        v4(
            aggregation=[["sum", AMOUNT4]],
            breakout=[["field", 3, {"temporal-unit": "month"}]],
            **{"order-by": [["desc", ["aggregation", 0]]], "limit": 5},
        ),
        v5(
            aggregation=[["sum", u("s"), AMOUNT5]],
            breakout=[["field", u("d", **{"temporal-unit": "month"}), 3]],
            **{"order-by": [["desc", u("o"), ["aggregation", u("q"), "s"]]], "limit": 5},
        ),
        (
            "SELECT date_trunc('month', placed_at) AS placed_at, sum(total_cents) AS sum\nFROM public.orders\n"
            "GROUP BY 1\nORDER BY sum DESC\nLIMIT 5"
        ),
    ),
    "a join": (
        v4(
            joins=[
                {
                    "alias": "Customers",
                    "source-table": 12,
                    "fields": "all",
                    "condition": ["=", ["field", 4, None], ["field", 11, {"join-alias": "Customers"}]],
                }
            ]
        ),
        v5(
            joins=[
                {
                    "alias": "Customers",
                    "stages": [{"source-table": 12}],
                    "fields": "all",
                    "conditions": [
                        ["=", u("a"), ["field", u("b"), 4], ["field", u("c", **{"join-alias": "Customers"}), 11]]
                    ],
                }
            ]
        ),
        (
            "SELECT orders.id, orders.total_cents, orders.placed_at, orders.customer_id, orders.status, "
            '"Customers".id AS "Customers__id"\nFROM public.orders\n'
            'LEFT JOIN public.customers AS "Customers" ON orders.customer_id = "Customers".id'
        ),
    ),
    "an expression": (
        v4(expressions={"dollars": ["/", AMOUNT4, 100]}),
        v5(expressions=[["/", u("x", **{"lib/expression-name": "dollars"}), AMOUNT5, 100]]),
        "SELECT *, (total_cents * 1.0 / NULLIF(100, 0)) AS dollars\nFROM public.orders",
    ),
    "another card": (
        {"database": 2, "type": "query", "query": {"source-table": "card__1"}},
        v5(**{"source-card": 1}),
        "SELECT *\nFROM (\nselect 1 as n\n) AS source",
    ),
    "native": (
        native("select * from {{#1}} x;"),
        {"lib/type": "mbql/query", "stages": [{"lib/type": "mbql.stage/native", "native": "select * from {{#1}} x;"}]},
        "select * from (\nselect 1 as n\n) x",
    ),
}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("name", QUERIES)
def test_both_versions_give_the_same_sql(name: str, version: int) -> None:
    old, new, expected = QUERIES[name]
    made = bundle_of(card(1, native("select 1 as n")), card(9, old if version == 4 else new))
    assert Renderer(made.tables, made.cards, "postgres").card(made.cards[9]) == expected


UNREADABLE = {
    "another engine's months": (v4(breakout=[["field", 3, {"temporal-unit": "month"}]]), "groups time"),
    "a column through a foreign key": (v4(filter=["=", ["field", 11, {"source-field": 4}], 1]), "foreign key"),
    "an unknown clause": (v4(filter=["magic", 1]), "magic"),
    "an unknown field": (v4(filter=["=", ["field", 99, None], 1]), "field 99"),
    "an unknown table": ({"database": 2, "type": "query", "query": {"source-table": 77}}, "table 77"),
    "an unknown card": (v5(**{"source-card": 55}), "card 55"),
    "itself": (native("select * from {{#9}}"), "circle"),
    "a variable without a default": (native("select {{x}}", x={"type": "text"}), "variable 'x'"),
    "a document database": ({"type": "native", "native": {"query": {"find": 1}}}, "no text"),
    "no query": ({}, "no query"),
    "a wildcard": (v4(filter=["contains", ["field", 5, None], "50%"]), "wildcard"),
    "a backslash": (v4(filter=["=", ["field", 5, None], "a\\b"]), "cannot be written"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_rendered_for_certain_is_not_rendered(name: str) -> None:
    query, why = UNREADABLE[name]
    made = bundle_of(card(9, query))
    with pytest.raises(Unreadable, match=why):
        Renderer(made.tables, made.cards, "mysql").card(made.cards[9])


def test_native_variables_and_optional_clauses() -> None:
    sql = "select * from t where {{f}} [[and a = {{gone}}]] and b = {{b}} and c = {{ c }};\n"
    tags = {"f": {"type": "dimension"}, "b": {"type": "text", "default": "x"}, "c": {"type": "number", "default": 3}}
    made = bundle_of(card(9, native(sql, **tags)))
    expected = "select * from t where 1 = 1  and b = 'x' and c = 3"
    assert Renderer(made.tables, made.cards).card(made.cards[9]) == expected


def nested(depth: int) -> Any:
    return 1 if depth == 0 else ["not", nested(depth - 1)]


@pytest.mark.parametrize(
    "query",
    [
        v4(filter=nested(100)), {"stages": []}, {"stages": [7]}, {"type": "query"}, v4(joins=[7]), v4(aggregation=[3]),
        {"type": "query", "query": {"source-table": "card__x"}}, v4(**{"order-by": [[]]}), {"type": "native"},
    ],
)  # fmt: skip
def test_a_shape_that_is_not_known_never_raises_anything_else(query: Any) -> None:
    with pytest.raises(Unreadable):
        made = metabase_cards.read_card(card(9, query)[1], "card/9.json")
        assert made is not None
        if made.query is None:
            raise Unreadable(made.unreadable)
        Renderer({}, {}).card(made)


def test_content_keeps_no_secret_no_person_and_nothing_that_changes_by_looking() -> None:
    query = v5(filters=[["=", u("7f3c"), ["field", u("9a1b"), 5], "x"]])
    answer = {
        **card(9, query)[1],
        "view_count": 7,
        "creator": {"email": "someone@example.invalid"},
        "updated_at": "now",
    }
    other = json.loads(json.dumps(answer).replace("7f3c", "1111").replace("9a1b", "2222")) | {"view_count": 8}
    assert metabase_cards.encoded(metabase_units.content_of("card/9.json", answer)) == metabase_cards.encoded(
        metabase_units.content_of("card/9.json", other)
    )
    kept = metabase_cards.encoded(metabase_units.content_of("card/9.json", answer)) + metabase_cards.encoded(
        metabase_units.content_of("database/2.json", DATABASE)
    )
    assert b"example.invalid" not in kept and b"never kept" not in kept and b"view_count" not in kept
    assert b"u1" in kept and b"u2" in kept
    lone = metabase_cards.encoded({"name": "a\ud800b"})
    assert lone.decode("utf-8") == '{\n "name": "a\ufffdb"\n}\n'


def test_what_a_snapshot_takes() -> None:
    taken = ["cards/1.json", "card/27.json", "collections/5.json", "databases/42.json", "database/2/metadata.json"]
    taken += ["sync-config.json", "collection.json", "dashboard/2.json", "table.json", "database.json"]
    assert all(metabase_units.wanted(path) for path in taken)
    left = [
        "user/1.json",
        "collection/root/items.json",
        "cards/x.json",
        "a/cards/1.json",
        "readme.md",
        "cards/1.json/x",
    ]
    assert not any(metabase_units.wanted(path) for path in left)


def metric(number: int, name: str, clause: Any) -> tuple[str, Any]:
    path, made = card(number, v5(aggregation=[clause]), "metric")
    return path, {**made, "name": name}


def test_projection_of_tables_models_and_metrics() -> None:
    model = card(20, v4(filter=["=", ["field", 5, None], "paid"]), "model", result_metadata=COLUMNS, name="Paid orders")
    dollars = ["/", u("d"), ["sum", u("s"), AMOUNT5], 100]
    found = bundle_of(
        model,
        metric(21, "Revenue", ["sum", u("a"), AMOUNT5]),
        metric(22, "Revenue", dollars),
        metric(23, "Revenue", ["sum", u("b"), AMOUNT5]),
        metric(24, "Status", ["distinct", u("c"), ["field", u("e"), 5]]),
        card(25, native("select {{x}}"), "model", result_metadata=COLUMNS),
        card(26, v4(), "model"),
    )
    names = metabase_sources.named(found, (), {})
    made = metabase_sources.project(found, names, "w")
    files = {one.path: one for one in made.files}
    assert sorted(files) == [
        "semantic-layer/w/_schema/metabase_2_public.yaml",
        "semantic-layer/w/orders.yaml",
        "semantic-layer/w/paid_orders.yaml",
    ]
    overlay = files["semantic-layer/w/orders.yaml"]
    assert "expr: sum(total_cents)" in overlay.body.replace('"', "") and "name: revenue_22" in overlay.body
    assert "name: status_24" in overlay.body  # a column has the plain name
    assert any("computed in two ways" in warning for warning in made.warnings)
    assert overlay.origins["w/orders"][:2] == ("card/21.json", "card/22.json")
    paid = files["semantic-layer/w/paid_orders.yaml"].body
    assert "WHERE status = 'paid'" in paid and "to: customers" in paid and "relationship: many_to_one" in paid
    assert set(made.unresolved) == {"card/25.json", "card/26.json"}
    assert metabase_sources.project(found, names, "w") == made


@pytest.mark.parametrize(
    ("engine", "dialect"),
    [
        ("bigquery-cloud-sdk", "bigquery"),
        ("mysql", "mysql"),
        ("sqlserver", "tsql"),
        ("h2", ""),
        ("mongo", ""),
        ("", ""),
    ],
)
def test_sources_say_whose_sql_they_are(engine: str, dialect: str) -> None:
    """Of each database its own: a connection may have several."""
    columns = [*COLUMNS, {"id": 6, "name": "order", "base_type": "type/Integer"}]
    cubes = {"id": 30, "db_id": 3, "schema": "ice", "name": "cubes", "fields": [{**COLUMNS[0], "id": 31}]}
    other = {"id": 3, "engine": "snowflake", "tables": [cubes]}
    orders = {"id": 10, "db_id": 2, "schema": "public", "name": "orders", "fields": columns}
    one = {**DATABASE, "engine": engine, "tables": [orders]}
    model = card(20, v4(filter=["=", ["field", 5, None], "paid"]), "model", result_metadata=COLUMNS, name="Paid orders")
    documents = [("database/2/metadata.json", one), ("database/3/metadata.json", other), model]
    documents.append(metric(21, "Orders", ["sum", u("a"), ["field", u("b"), 6]]))
    found = metabase_units.build((path, metabase_units.content_of(path, value)) for path, value in documents)
    made = metabase_sources.project(found, metabase_sources.named(found, (), {}), "w")
    files = {file.path: file.body for file in made.files}
    said = {path.rpartition("/")[2]: re.findall("x-dialect: (.*)", body) for path, body in files.items()}
    own = [dialect] if dialect else []
    assert said == {
        "metabase_2_public.yaml": own, "metabase_3_ice.yaml": ["snowflake"], "orders.yaml": [], "paid_orders.yaml": own,
    }  # fmt: skip
    if dialect == "mysql":
        assert "`order`" in files["semantic-layer/w/orders.yaml"]
    assert [one for one in in_core(files) if one["level"] != "advice"] == []  # the overlay is read as its table


def test_a_name_that_others_declared_is_theirs() -> None:
    found = bundle_of(card(20, v4(), "model", result_metadata=COLUMNS, name="Orders"))
    names = metabase_sources.named(found, {"orders", "customers"}, {"public.customers": "customers"})
    assert names.tables == {10: "public_orders", 12: "customers"} and names.models == {20: "orders_20"}
    made = metabase_sources.project(found, names, "w")
    shard = made.files[0].body
    assert "customers:" not in shard and "to: customers" in shard


def test_a_large_schema_has_several_shards() -> None:
    found = bundle_of()
    made = metabase_sources.project(found, metabase_sources.named(found, (), {}), "w", shard_limit=300)
    assert [one.path for one in made.files] == [
        "semantic-layer/w/_schema/metabase_2_public.yaml",
        "semantic-layer/w/_schema/metabase_2_public_2.yaml",
    ]


def groups(made: Bundle, how: str = "linked") -> dict[str, tuple[str, ...]]:
    names = metabase_sources.named(made, (), {})
    plan = metabase_units.plan(made, names, "w", {}, how)
    check_proposals(plan, {card.raw_path for card in made.cards.values()})
    return {one.key: (*one.raw_files, "|", *one.dependency_paths) for one in plan}


def test_units_are_cards_that_build_on_each_other_within_a_collection() -> None:
    on = {"source-card": 1}
    made = bundle_of(
        card(1, v5(), collection_id=5),
        card(2, v5(**on), collection_id=5),
        card(3, v5(**on), collection_id=6),
        card(4, v5(**{"source-card": 3}), collection_id=7),
        card(5, v5()),
        card(6, v5(), archived=True),
    )
    one, two = "card/1.json", "card/2.json"
    assert groups(made) == {
        "cards-1": (one, two, "|"),
        "card-3": ("card/3.json", "|", one),
        "card-4": ("card/4.json", "|", one, "card/3.json"),
        "card-5": ("card/5.json", "|"),
    }
    assert groups(made, "card")["card-2"] == (two, "|", one)
    assert set(groups(made, "collection")) == {"cards-1", "card-3", "card-4", "card-5"}


def test_a_group_that_is_too_large_falls_apart() -> None:
    many = [card(n, v5(**{"source-card": 1})) for n in range(2, 30)]
    assert len(groups(bundle_of(card(1, v5()), *many))) == 29
    assert len(groups(bundle_of(card(1, v5()), *many), "collection")) == 2


def test_what_a_worker_is_told() -> None:
    made = bundle_of(
        card(1, native("select * from ORDERS"), "question", name="All"),
        card(2, v5(**{"source-card": 1}), name="Of all"),
        ("dashboard/3.json", {"id": 3, "name": "Board", "dashcards": [{"card_id": 2}, {"card_id": None}]}),
    )
    item = metabase_units.plan(made, metabase_sources.named(made, (), {}), "w", {}, "card")[1].facts["items"][0]
    assert item["sources"] == ["w/orders"]
    assert item["references"] == [{"id": "card-1", "title": "All", "rawPath": "card/1.json"}]
    assert item["shownOn"] == [{"title": "Board", "rawPath": "dashboard/3.json"}]


CONFIG = {"syncMode": "ONLY", "selections": [{"selectionType": "collection", "metabaseObjectId": 5}]}


def test_scope() -> None:
    collections = [("collections/5.json", {"metabaseId": 5, "name": "a"})]
    collections += [("collections/6.json", {"metabaseId": 6, "name": "b", "parentId": 5})]
    made = bundle_of(("sync-config.json", CONFIG), *collections)

    def staged(collection: int) -> dict[str, Any]:
        return {"metabaseId": 9, "name": "x", "collectionId": collection, "resolvedSql": "select 1"}

    assert metabase_units.in_scope(made, staged(5), "cards/9.json") and metabase_units.in_scope(
        made, staged(6), "cards/9.json"
    )
    assert not metabase_units.in_scope(made, staged(7), "cards/9.json")
    assert not metabase_units.in_scope(made, None, "cards/9.json")
    assert metabase_units.in_scope(made, None, "collections/5.json")
    assert metabase_units.in_scope(bundle_of(), None, "cards/9.json")


def real(place: Path) -> Bundle:
    found = []
    for path in sorted(place.rglob("*.json")):
        name = path.relative_to(place).as_posix()
        if metabase_units.wanted(name):
            found.append(
                (
                    name,
                    json.loads(metabase_cards.encoded(metabase_units.content_of(name, json.loads(path.read_bytes())))),
                )
            )
    return metabase_units.build(found)


@pytest.mark.needs_data
def test_real_answers_in_both_versions_are_the_same_queries() -> None:
    place = shared("data", "metabase-api")
    new = real(place / "mbql5")
    old = real(place / "mbql4")
    assert set(old.cards) == set(new.cards) == {27, 28, 29, 30, 31, 32, 33}
    assert len(new.tables) == 10 and not new.warnings
    for number, found in old.cards.items():
        other = new.cards[number].query
        assert found.query is not None and other is not None
        assert found.references == new.cards[number].references
        assert mbql.tables(found.query) == mbql.tables(other)
        theirs = Renderer(new.tables, new.cards, "postgres").card(new.cards[number])
        assert Renderer(new.tables, old.cards, "postgres").card(found) == theirs
    text = json.dumps([metabase_cards.card(json.loads((place / "mbql5/card/27.json").read_bytes()))])
    assert "example.com" not in text and "lib/uuid" in text


@pytest.mark.needs_data
@pytest.mark.parametrize(("name", "count"), [("simple", 2), ("multi-collection", 3), ("card-ref", 0)])
def test_real_staged_bundles(name: str, count: int) -> None:
    made = real(shared("data", "metabase-cards", name))
    names = metabase_sources.named(made, (), {})
    found = metabase_sources.project(made, names, "w")
    assert len(found.files) == count and not found.warnings
    plan = metabase_units.plan(made, names, "w", found.unresolved, "linked")
    assert sum(len(one.raw_files) for one in plan) == len(made.cards)
    if name == "card-ref":
        assert "(\nSELECT day, SUM(amount_cents)" in plan[0].facts["items"][1]["sql"]


def test_read_gives_one_form() -> None:
    assert read(v4(filter=["=", ["field", 5, None], 1])).stages[0].filters[0].op == "="
    assert mbql.segments(read(v4(filter=["segment", 4]))) == [4]
    assert mbql.cards(read(v5(aggregation=[["metric", u("m"), 8]]))) == [8]
