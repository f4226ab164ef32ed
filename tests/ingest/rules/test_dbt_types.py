"""Types of a dbt project: the manifest's, else the catalog's; what neither has is counted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ktxkit.ingest.rules import dbt, dbt_sources

NODE = {
    "unique_id": "model.shop.orders", "name": "orders", "schema": "main", "resource_type": "model",
    "columns": {"id": {"name": "id"}, "Amount": {"name": "Amount", "data_type": "double"}, "gone": {"name": "gone"}},
}  # fmt: skip
CATALOG = {
    "nodes": {
        "model.shop.orders": {
            "columns": {
                "AT": {"name": "AT", "type": "TIMESTAMP", "index": 4},
                "ID": {"name": "ID", "type": "INTEGER", "index": 1},
                "AMOUNT": {"name": "AMOUNT", "type": "VARCHAR", "index": 2},
                "OK": {"name": "OK", "type": "BOOLEAN", "index": 3},
            }
        }
    }
}


def source_of(catalog: dict[str, Any] | None) -> tuple[str, list[str]]:
    """The projected source as text, and what is warned of."""
    project = dbt.build(dbt.files({"nodes": {"model.shop.orders": NODE}}, catalog))
    names, own = dbt_sources.named(project, (), {})
    made = dbt_sources.project_sources(project, "wh", names, own)
    return made.files[0].body, list(made.warnings)


def test_the_catalog_has_what_the_manifest_lacks() -> None:
    body, warnings = source_of(CATALOG)
    types = {line.split("name: ")[1]: kind.split("type: ")[1] for line, kind in pairs(body)}
    assert types == {"id": "number", "Amount": "number", "gone": "string", "OK": "boolean", "AT": "time"}
    assert "x-unknown-types:\n- gone\n" in body.replace("  - gone", "- gone")
    (said,) = warnings
    assert said.startswith("the types of 1 columns are not known and stand as string: orders (1); `dbt docs generate`")


def test_without_a_catalog() -> None:
    body, warnings = source_of(None)
    assert "x-unknown-types" in body
    assert warnings[0].startswith("the types of 2 columns are not known")


def pairs(body: str) -> list[tuple[str, str]]:
    lines = body.splitlines()
    return [(one, two) for one, two in pairwise(lines) if "- name: " in one and "type: " in two]
