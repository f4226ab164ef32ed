"""What of a Metabase answer is content: a snapshot keeps that, and never what changes by being looked at.

View counts, times of use, names and addresses of people, statistics of columns and connection details (they hold
passwords) are left out. MBQL 5 gives each clause a new `lib/uuid` in every answer; they are numbered in the order in
which they appear, since clauses refer to each other by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CARD_KEYS = (
    "id", "entity_id", "name", "description", "type", "dataset", "archived", "collection_id", "database_id", "table_id",
    "source_card_id", "query_type", "display", "dataset_query", "result_metadata", "parameters", "dashboard_id",
    "card_schema",
)  # fmt: skip
STAGED_CARD_KEYS = (
    "metabaseId", "name", "description", "type", "databaseId", "collectionId", "archived", "resolvedSql",
    "templateTags", "resultMetadata", "collectionPath", "referencedCardIds", "resolutionStatus", "resolutionError",
    "dashboardIds", "tableId", "datasetQuery",
)  # fmt: skip
COLUMN_KEYS = (
    "id", "name", "display_name", "description", "base_type", "effective_type", "semantic_type", "fk_target_field_id",
    "visibility_type", "field_ref",
)  # fmt: skip
COLLECTION_KEYS = (
    "id", "name", "description", "location", "parent_id", "archived", "is_personal", "personal_owner_id", "namespace",
    "type", "authority_level", "slug", "entity_id",
)  # fmt: skip
DATABASE_KEYS = ("id", "name", "description", "engine", "timezone", "is_sample", "is_audit")
TABLE_KEYS = (
    "id", "db_id", "schema", "name", "display_name", "description", "active", "visibility_type", "entity_type",
)  # fmt: skip
FIELD_KEYS = (
    "id", "table_id", "name", "display_name", "description", "base_type", "effective_type", "database_type",
    "semantic_type", "fk_target_field_id", "visibility_type", "active", "position", "parent_id", "nfc_path",
    "coercion_strategy",
)  # fmt: skip
DEFINITION_KEYS = ("id", "name", "description", "archived", "definition", "table_id")
DASHBOARD_KEYS = ("id", "entity_id", "name", "description", "archived", "collection_id", "parameters")
PARAMETER_KEYS = ("id", "name", "slug", "type", "default", "sectionId")


def encoded(value: Any) -> bytes:
    """A document of a snapshot: sorted keys, one key a line, so that git shows what changed. Lone surrogates become
    U+FFFD, which no reader refuses."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return (text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "\n").encode("utf-8")


def _only(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


def card(value: Mapping[str, Any]) -> dict[str, Any]:
    """A card, in the API's shape or in that of a staged bundle."""
    if "metabaseId" in value:
        kept = _only(value, STAGED_CARD_KEYS)
        return {**kept, "resultMetadata": _columns(value.get("resultMetadata"))}
    kept = _only(value, CARD_KEYS)
    kept["dataset_query"] = numbered(value.get("dataset_query") or {})
    kept["result_metadata"] = _columns(value.get("result_metadata"))
    kept["parameters"] = _parameters(value)
    return kept


def _columns(found: Any) -> list[dict[str, Any]]:
    return [numbered(_only(column, COLUMN_KEYS)) for column in found or () if isinstance(column, Mapping)]


def _parameters(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_only(one, PARAMETER_KEYS) for one in value.get("parameters") or () if isinstance(one, Mapping)]


def collection(value: Mapping[str, Any]) -> dict[str, Any]:
    """A collection; that a person owns it is kept, who it is is not."""
    if "metabaseId" in value:
        return _only(value, ("metabaseId", "name", "description", "parentId", "archived"))
    kept = _only(value, COLLECTION_KEYS)
    if kept.pop("personal_owner_id", None) is not None:
        kept |= {"is_personal": True}
    if kept.get("is_personal"):
        kept |= {"name": "Personal collection", "slug": "personal"}
    return kept


def database(value: Mapping[str, Any]) -> dict[str, Any]:
    """A database without its connection details; with its tables where the answer has them."""
    if "metabaseDatabaseId" in value:
        return _only(value, ("metabaseDatabaseId", "metabaseDatabaseName", "metabaseEngine", "targetConnectionId"))
    kept = _only(value, DATABASE_KEYS)
    if isinstance(value.get("tables"), list):
        kept["tables"] = sorted((table(one) for one in value["tables"]), key=lambda one: str(one.get("id")))
    return kept


def table(value: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(value, TABLE_KEYS)
    fields = [_only(one, FIELD_KEYS) for one in value.get("fields") or ()]
    kept["fields"] = sorted(fields, key=lambda one: (one.get("position") or 0, str(one.get("id"))))
    for name in ("metrics", "segments"):
        kept[name] = [numbered(_only(one, DEFINITION_KEYS)) for one in value.get(name) or ()]
    return kept


def dashboard(value: Mapping[str, Any]) -> dict[str, Any]:
    """A dashboard: what it shows, not the copies of its cards nor where on the screen they stand."""
    kept = _only(value, DASHBOARD_KEYS)
    kept["parameters"] = _parameters(value)
    places = value.get("dashcards") or value.get("ordered_cards") or ()
    shown = {(place.get("card_id"), _said(place)) for place in places if isinstance(place, Mapping)}
    kept["cards"] = sorted(({"card_id": card_id, "text": text} for card_id, text in shown), key=_shown_key)
    return kept


def _said(place: Mapping[str, Any]) -> str:
    settings = place.get("visualization_settings") or {}
    text = settings.get("text")
    return text if isinstance(text, str) else ""


def _shown_key(one: Mapping[str, Any]) -> tuple[bool, str, str]:
    return one["card_id"] is None, f"{one['card_id'] or 0:>12}", one["text"]


def numbered(value: Any) -> Any:
    """The value with each `lib/uuid` replaced by its number of appearance, and every mention of it with it."""
    names: dict[str, str] = {}
    _collect(value, names)
    return _renamed(value, names)


def _collect(value: Any, names: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        found = value.get("lib/uuid")
        if isinstance(found, str):
            names.setdefault(found, f"u{len(names) + 1}")
        for key in sorted(value):
            _collect(value[key], names)
    elif isinstance(value, list):
        for item in value:
            _collect(item, names)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
