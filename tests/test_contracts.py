"""Every schema has valid and invalid samples, and three validators agree on each of them."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema
import jsonschema_rs
import pytest

from ktxkit import contracts
from ktxkit.core.plain_validity import is_plainly_valid
from ktxkit.errors import BrokenContract

SAMPLES = Path(__file__).resolve().parent / "schemas"
ALL = [
    pytest.param(name, path, verdict == "valid", id=f"{name}-{verdict}-{path.stem}")
    for name in contracts.names()
    for verdict in ("valid", "invalid")
    for path in sorted((SAMPLES / name / verdict).glob("*.json"))
]


def sample(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("name", contracts.names())
def test_each_schema_has_samples_and_is_engine_neutral(name: str) -> None:
    assert list((SAMPLES / name / "valid").glob("*.json")), f"tests/schemas/{name}/valid has no sample"
    assert list((SAMPLES / name / "invalid").glob("*.json")), f"tests/schemas/{name}/invalid has no sample"
    jsonschema.Draft202012Validator.check_schema(contracts.schema(name))
    for place, node in nodes(contracts.schema(name), ""):
        wrong = set(node) & {"format", "dependentRequired", "unevaluatedProperties", "minContains"}
        assert not wrong, f"{place}: {wrong}"
        if "$ref" in node:
            assert set(node) == {"$ref"} and node["$ref"].startswith("#"), place
        assert "\\d" not in str(node.get("pattern", "")) and "\\w" not in str(node.get("pattern", "")), place
        if node.get("type") == "object" and "properties" in node:
            assert node.get("additionalProperties") is False, f"{place}: not closed"
            assert "^x-" in node.get("patternProperties", {}), f"{place}: no x- escape"
        if node.get("type") == "string" and "pattern" not in node:
            assert "maxLength" in node, f"{place}: unbounded string"
        if node.get("type") == "array":
            assert "maxItems" in node, f"{place}: unbounded array"


def nodes(value: Any, place: str) -> list[tuple[str, dict[str, Any]]]:
    """Every object of a schema, but for the maps from property names to schemas."""
    if isinstance(value, list):
        return [found for item in value for found in nodes(item, place)]
    if not isinstance(value, dict):
        return []
    inside = [found for key, item in value.items() for found in nodes(item, f"{place}/{key}")]
    names_map = place.rpartition("/")[2] in ("properties", "patternProperties", "$defs")
    return inside if names_map else [(place, value), *inside]


@pytest.mark.parametrize(("name", "path", "valid"), ALL)
def test_three_engines_agree(name: str, path: Path, valid: bool) -> None:
    document = sample(path)
    schema = contracts.schema(name)
    assert jsonschema.Draft202012Validator(schema).is_valid(document) is valid
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(document) is valid
    try:
        fastjsonschema.compile(copy.deepcopy(schema), use_default=False)(document)
    except fastjsonschema.JsonSchemaException:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize(("name", "path", "valid"), ALL)
def test_the_answer_without_an_engine_agrees(name: str, path: Path, valid: bool) -> None:
    """What it is sure of is so; and it is sure of every valid sample that is not large."""
    assert is_plainly_valid(contracts.schema(name), sample(path)) is valid


def changed(value: Any, draw: random.Random) -> Any:
    """The value with one change somewhere: another type, a key more or less, a longer text, a number out of range."""
    odd = [
        None,
        True,
        0,
        -1,
        1.0,
        2**60,
        1.5,
        "",
        "\n",
        "x\n",
        "\ud800",
        "a" * 300,
        [],
        {},
        [None],
        {"x-a": 1},
        float("nan"),
    ]
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        kind = draw.random()
        if kind < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if kind < 0.3:
            return {**value, draw.choice(["x-new", "surprise", "", "X-"]): draw.choice(odd)}
        return {**value, key: changed(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        return [*value[:place], changed(value[place], draw), *value[place + 1 :]]
    if isinstance(value, str) and draw.random() < 0.5:
        return draw.choice([value + "\n", value[:-1], value + "0", value.upper(), "\n" + value])
    return draw.choice(odd)


@pytest.mark.parametrize("name", contracts.names())
def test_what_is_sure_without_an_engine_is_so(name: str) -> None:
    draw = random.Random(name)
    engine = jsonschema_rs.Draft202012Validator(contracts.schema(name))
    whole = [sample(path) for path in sorted((SAMPLES / name / "valid").glob("*.json"))]
    agreed = 0
    for number in range(160):
        document = changed(whole[number % len(whole)], draw)
        if draw.random() < 0.3:
            document = changed(document, draw)
        try:
            real = engine.is_valid(document)
        except ValueError:
            real = False  # what cannot be JSON at all
        sure = is_plainly_valid(contracts.schema(name), document)
        assert real or not sure, document
        agreed += real == sure
    assert agreed > 120, "it is sure of most small documents"


@pytest.mark.parametrize(("name", "path", "valid"), ALL)
def test_our_reader_agrees(name: str, path: Path, valid: bool) -> None:
    data = path.read_bytes()
    if valid:
        assert contracts.loads(name, data, "place") == sample(path)
    else:
        with pytest.raises(BrokenContract) as caught:
            contracts.loads(name, data, "place")
        assert caught.value.where == "place"


@pytest.mark.parametrize("name", contracts.names())
def test_damage_is_status_5(name: str) -> None:
    path = sorted((SAMPLES / name / "valid").glob("*.json"))[0]
    whole = sample(path)
    damaged = {
        "truncated": path.read_bytes()[:-3],
        "empty": b"",
        "foreign": b"\x00\x01\x02",
        "list": b"[]",
        "unknown version": json.dumps({**whole, "schemaVersion": 2}).encode(),
        "unknown key": json.dumps({**whole, "surprise": 1}).encode(),
        "twice": path.read_bytes().replace(b"{", b'{"schemaVersion": 1, "schemaVersion": 1,', 1),
    }
    for what, data in damaged.items():
        with pytest.raises(BrokenContract) as caught:
            contracts.loads(name, data, f"{name} {what}")
        assert caught.value.status == 5
        assert caught.value.where == f"{name} {what}"


@pytest.mark.parametrize(("schema", "keyword"), [(b"false", "not"), (b'{"not": {}}', "not"), (b"true", "")])
def test_a_schema_that_is_a_word_is_judged_by(schema: bytes, keyword: str) -> None:
    for value in ({"a": 1}, 3, None):
        assert [found.keyword for found in contracts.foreign(schema, "x")("x", value)] == ([keyword] if keyword else [])
