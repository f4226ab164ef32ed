"""Every schema has valid and invalid samples, and three validators agree on each of them."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema
import jsonschema_rs
import pytest

from ktxkit.base import contracts, validators
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.plain_validity import is_plainly_valid

SAMPLES = Path(__file__).resolve().parents[1] / "schemas"


def samples(name: str) -> list[tuple[Path, bool]]:
    """The samples of a contract, and whether each is valid."""
    found = [(path, path.parent.name == "valid") for path in sorted((SAMPLES / name).glob("*/*.json"))]
    assert {valid for _, valid in found} == {True, False}
    return found


def both(name: str) -> list[validators.Validator]:
    rules = contracts.schema(name)
    return [validators.RustValidator(jsonschema_rs, rules), validators.PythonValidator(rules)]


def sample(path: Path) -> Any:
    return json.loads(path.read_bytes())


def forget() -> None:
    validators._rust.cache_clear()
    contracts._validator.cache_clear()


@pytest.fixture(params=["jsonschema-rs", "jsonschema"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of the two engines; of jsonschema, jsonschema-rs cannot be imported."""
    if request.param == "jsonschema":
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    forget()
    yield request.param
    monkeypatch.undo()
    forget()


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


@pytest.mark.parametrize("name", contracts.names())
def test_three_engines_agree(name: str) -> None:
    schema = contracts.schema(name)
    compiled = fastjsonschema.compile(copy.deepcopy(schema), use_default=False)

    def fast(document: Any) -> bool:
        try:
            compiled(document)
        except fastjsonschema.JsonSchemaException:
            return False
        return True

    engines = (jsonschema.Draft202012Validator(schema).is_valid, jsonschema_rs.Draft202012Validator(schema).is_valid)
    for path, valid in samples(name):
        assert [judge(sample(path)) for judge in (*engines, fast)] == [valid] * 3, path


def departures(validator: validators.Validator, value: Any) -> set[object]:
    return {(one.path, one.keyword, one.unexpected, str(one.holder)) for one in validator.departures(value)}


@pytest.mark.parametrize("name", contracts.names())
def test_both_engines_find_the_same(name: str) -> None:
    rust, python = both(name)
    for path in sorted((SAMPLES / name).glob("*/*.json")):
        value = sample(path)
        assert rust.is_valid(value) is python.is_valid(value) is (path.parent.name == "valid")
        assert departures(rust, value) == departures(python, value), path
        assert all(one.message and len(one.message) < 100_000 for one in python.departures(value))
        assert len(list(rust.departures(value, 1))) == len(list(python.departures(value, 1))) <= 1


@pytest.mark.parametrize("name", contracts.names())
def test_the_answer_without_an_engine_agrees(name: str) -> None:
    """What it is sure of is so; and it is sure of every valid sample that is not large."""
    for path, valid in samples(name):
        assert is_plainly_valid(contracts.schema(name), sample(path)) is valid, path


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
    rust, python = both(name)
    whole = [sample(path) for path in sorted((SAMPLES / name / "valid").glob("*.json"))]
    agreed = 0
    for number in range(160):
        document = changed(whole[number % len(whole)], draw)
        if draw.random() < 0.3:
            document = changed(document, draw)
        real = judged(rust, document)
        assert judged(python, document) is real, document
        sure = is_plainly_valid(contracts.schema(name), document)
        assert real or not sure, document
        agreed += real == sure
    assert agreed > 120, "it is sure of most small documents"


def judged(validator: validators.Validator, document: Any) -> bool:
    try:
        return validator.is_valid(document)
    except ValueError:
        return False  # what cannot be JSON at all


@pytest.mark.parametrize("name", contracts.names())
def test_our_reader_agrees(name: str, engine: str) -> None:
    for path in sorted((SAMPLES / name / "valid").glob("*.json")):
        assert contracts.loads(name, path.read_bytes(), "place") == sample(path)
        assert contracts.checker(name)(sample(path)) and contracts.violations(name, sample(path)) == []
    for path in sorted((SAMPLES / name / "invalid").glob("*.json")):
        with pytest.raises(BrokenContract, match=f"^{name}: ") as caught:
            contracts.loads(name, path.read_bytes(), "place")
        assert caught.value.location == "place"
        if isinstance(value := sample(path), dict) and value.get("schemaVersion") == contracts.SCHEMA_VERSION:
            assert not contracts.checker(name)(value) and contracts.violations(name, value)
    assert validators.has_rust() == (engine == "jsonschema-rs")


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
        assert caught.value.location == f"{name} {what}"


MESSAGES = [
    ({"event": "y\nz"}, "event: .y.nz. does not match .*a-z0-9_"),
    ({"surprise": 1}, "document: .*surprise"),
    ({"level": "loud"}, "level: .loud. is not one of .*error"),
    ({"durationMs": -1}, "durationMs: -1 is less than the minimum of 0"),
    ({"event": "\ud800"}, "surrogates not allowed"),
    ({"\ud800": 1}, "surrogates not allowed"),
    ({1: 2}, "[kK]ey"),
    ({"durationMs": float("nan")}, "durationMs: .* is not of type .number"),
    ({"schemaVersion": 9}, "schemaVersion 9 is unknown"),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("change", "message"), MESSAGES, ids=[message for _, message in MESSAGES])
def test_messages_say_what_is_wrong_and_where(change: dict[str, Any], message: str) -> None:
    event = sample(sorted((SAMPLES / "trace-event" / "valid").glob("*.json"))[0])
    with pytest.raises(BrokenContract, match=message) as caught:
        contracts.validate("trace-event", {**event, **change}, "t.jsonl")
    assert caught.value.location == "t.jsonl" and caught.value.hint


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
# Schemas of others, and values with whether they are valid.
FOREIGN: list[tuple[Any, Any, bool]] = [
    ({"additionalProperties": False, "patternProperties": {r"^\d$": True}}, {"1": 1, "\u0663": 2}, False),
    ({"additionalProperties": False, "patternProperties": {r"^\d$": True}}, {"1": 1}, True),
    ({"unevaluatedProperties": False, "patternProperties": {r"^\w$": True}}, {"\u00e9": 1}, False),
    ({"$ref": "#/own", "own": {"pattern": "a$"}}, "a\n", False),
    ({"properties": {"a": False}}, {"a": 1}, False),
    ({"prefixItems": [True], "items": False}, [1, 2], False),
    ({"const": {"pattern": "$"}}, {"pattern": "$"}, True),
    ({"enum": [{"patternProperties": {"$": 1}}]}, {"patternProperties": {"$": 1}}, True),
    ({"enum": [True]}, 1, False),
    ({"uniqueItems": True}, [1, True], True),
    ({"type": "integer"}, 1.0, True),
    ({"minLength": 2}, "\U0001f600", False),
    ({"properties": {"format": {"type": "string"}, "pattern": {"type": "string"}}}, {"format": 3}, False),
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": 3}, False),
    ({"$id": "http://a/b", "$defs": {"q": {"$id": "c", "$anchor": "z", "type": "string"}}, "$ref": "c#z"}, 3, False),
    ({"$dynamicRef": "#n", "$defs": {"a": {"$dynamicAnchor": "n", "type": "string"}}}, 3, False),
    ({"items": {"$ref": "#"}, "type": "array"}, [[[[]]], [3]], False),
    ({"format": "date"}, "no date", True),
    ({"$schema": DRAFT_7, "format": "int32"}, "x", True),
    (
        {"$schema": DRAFT_7, "definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a", "pattern": "z"},
        "x",
        True,
    ),
    ({"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": False}, ["a", 2], False),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}, 3, False),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("schema", "value", "valid"), FOREIGN)
def test_schemas_of_others_mean_the_same_to_both(schema: Any, value: Any, valid: bool) -> None:
    assert (contracts.foreign(json.dumps(schema).encode(), "x")("x", value) == []) is valid


NO_SCHEMAS: list[Any] = [
    3, [], {"type": "strin"}, {"pattern": "("}, {"patternProperties": {"[": True}}, {"$ref": "#/nope"}, {"$schema": 3},
    {"properties": {"a": {"$ref": "http://localhost:9/z"}}}, {"$schema": "http://localhost:9/z"}, {"minLength": -1},
    {"allOf": []}, {"$schema": "http://json-schema.org/draft-03/schema#"},
]  # fmt: skip


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=json.dumps)
def test_what_is_no_schema_is_said_before_anything_is_judged(schema: Any) -> None:
    with pytest.raises(CannotRun, match="no JSON Schema that can be used") as caught:
        contracts.foreign(json.dumps(schema).encode(), "rules.json")
    assert caught.value.location == "rules.json"


ONLY_RUST: list[tuple[Any, Any]] = [
    *(
        ({"$schema": DRAFT_7, "properties": {"a": {"format": name}}}, {"a": "%% [\0"})
        for name in sorted(validators.FORMATS)
    ),
    ({"$schema": DRAFT_7, "contentEncoding": "base64"}, "%"),
    ({"additionalProperties": False, "patternProperties": {r"^\p{L}$": True}}, {"1": 1}),
]


@pytest.mark.parametrize(("schema", "value"), ONLY_RUST, ids=lambda value: json.dumps(value)[-60:])
def test_what_jsonschema_would_judge_otherwise_it_does_not_judge(schema: Any, value: Any, engine: str) -> None:
    """An older draft asserts formats, ECMA has classes of Unicode: refused, never another verdict in silence."""
    if engine == "jsonschema-rs":
        assert contracts.foreign(json.dumps(schema).encode(), "x")("x", value) != []
    else:
        with pytest.raises(CannotRun, match=r"judged by jsonschema: install jsonschema-rs|cannot be read at character"):
            contracts.foreign(json.dumps(schema).encode(), "x")


def test_what_is_nested_deeply_is_judged_or_refused(engine: str) -> None:
    value: Any = []
    for _ in range(3000):
        value = [value]
    judge = contracts.foreign(b'{"type": "array", "items": {"$ref": "#"}}', "rules.json")
    if engine == "jsonschema-rs":
        assert judge("x", value) == []
    else:
        with pytest.raises(CannotRun, match="nested more deeply"):
            judge("x", value)
    event = sample(sorted((SAMPLES / "trace-event" / "valid").glob("*.json"))[0])
    assert contracts.checker("trace-event")({**event, "data": {"x": value}})


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("schema", "keyword"), [(b"false", "not"), (b'{"not": {}}', "not"), (b"true", "")])
def test_a_schema_that_is_a_word_is_judged_by(schema: bytes, keyword: str) -> None:
    for value in ({"a": 1}, 3, None):
        assert [found.keyword for found in contracts.foreign(schema, "x")("x", value)] == ([keyword] if keyword else [])


def test_what_a_configuration_says_of_jobs_is_what_a_job_file_may_say() -> None:
    schemas = Path(__file__).parents[2] / "schemas"
    job = json.loads((schemas / "job-file.schema.json").read_text())["properties"]
    usual = json.loads((schemas / "config.schema.json").read_text())["properties"]["job"]["properties"]
    unit, alone = job["units"]["items"]["properties"], json.loads((schemas / "job-unit.schema.json").read_text())
    assert {key: job[key] for key in usual} == usual
    assert {key: alone["properties"][key] for key in unit if key != "run"} == {k: unit[k] for k in unit if k != "run"}


def test_the_same_bytes_are_judged_once_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written or read is not judged anew; what is invalid, and the same bytes as another kind, always are."""
    valid = next(path for path, fine in samples("intent") if fine)
    invalid = next(path for path, fine in samples("intent") if not fine)
    judged: list[str] = []
    validate = contracts.validate

    def counted(name: str, document: Any, where: str = "") -> Any:
        judged.append(str(name))
        return validate(name, document, where)

    monkeypatch.setattr(contracts, "validate", counted)
    data = contracts.dumps("intent", sample(valid), "x")
    first, second = contracts.loads("intent", data), contracts.loads("intent", data)
    assert first == second == sample(valid) and first is not second and judged == ["intent"]
    assert contracts.loads("intent", data + b" ") == first and judged == ["intent"] * 2
    for _ in range(2):
        with pytest.raises(BrokenContract):
            contracts.loads("lease", data)
        with pytest.raises(BrokenContract):
            contracts.loads("intent", invalid.read_bytes())
    assert judged[2:] == ["lease", "intent"] * 2
