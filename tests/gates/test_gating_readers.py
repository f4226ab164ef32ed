"""What strangers write for the gates, and what is left of it: configurations, lines of commands, files by a schema."""

from __future__ import annotations

import json

import pytest

from ktxkit.base import contracts
from ktxkit.gates import command, configuration, ordinary
from ktxkit.gates.rules.findings import document

RULES = b'{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}'


@pytest.mark.parametrize("data", [b"", b"# nothing yet\n", b"{}\n", b"\xef\xbb\xbf"])
def test_an_empty_configuration_is_none(data: bytes) -> None:
    made = configuration.make({}, lambda path: data if path == b"ktx-gates.yaml" else None)
    assert made._replace(trusted=None) == configuration.Config()


def lines(*values: object) -> bytes:
    return "".join(f"{json.dumps(value)}\n" for value in values).encode()


def test_half_a_character_has_a_fingerprint_all_the_same() -> None:
    (one,) = command.parse(lines({"path": "a", "message": "\ud800", "rule": "\ud83d", "reference": "\udc00x"}), "own")
    contracts.validate("verdict", {**EMPTY, "findings": [document(one)]})


def test_a_path_of_bytes_is_those_bytes() -> None:
    (one,) = command.parse(lines({"path": "caf\udce9.md", "message": "m"}), "own")
    assert one.path == b"caf\xe9.md"


@pytest.mark.parametrize("wrong", [{"line": 1 << 40}, {"column": 1 << 31}, {"path": "a" * 5000}])
def test_what_no_document_can_hold_is_no_finding(wrong: dict[str, object]) -> None:
    (one,) = command.parse(lines({"path": "a", "message": "m", **wrong}), "own")
    assert one.rule == "gate-output"


def test_many_lines_that_are_none_are_counted() -> None:
    found = list(command.parse(b"x\n" * 300 + lines({"path": "a", "message": "m"}), "own"))
    assert [one.rule for one in found] == ["gate-output"] * 20 + ["own", "gate-output"]
    assert found[-1].message == "280 more lines of own's output are no findings"
    cut = list(command.parse(b"x\n" * 5000, "own"))
    assert len(cut) == 21 and cut[-1].message.endswith("; what follows them was not read")


def test_json_that_is_no_yaml_is_judged_all_the_same() -> None:
    judge = contracts.foreign(RULES, "schema.json")
    assert ordinary.problems(b"a.json", b'{\t"a": "\\ud83d\\ude00"}', judge) == []
    (half,) = ordinary.problems(b"a.json", b'{"a": "\\ud83d"}', judge)
    assert half.rule == "yaml-scalar" or half.rule.startswith("yaml-")
    (wrong,) = ordinary.problems(b"a.json", b'{\t"b":' + b"[1]," * 0 + b' {"c": 1}}', judge)
    assert wrong.rule == "schema-unknown-key" and len(wrong.message) < 200


def test_of_a_large_file_the_first_departure_is_told() -> None:
    judge = contracts.foreign(b'{"items": {"type": "integer"}}', "schema.json")
    found = ordinary.problems(b"a.yaml", b"- a\n" * 40_000, judge)
    assert [one.rule for one in found] == ["schema-type", "schema-value"]
    assert found[1].message == "of a file this large only the first departure from the schema is told"
    assert ordinary.problems(b"a.yaml", b"- 1\n" * 40_000, judge) == []


def test_many_departures_are_told_in_part() -> None:
    judge = contracts.foreign(RULES, "schema.json")
    found = ordinary.problems(b"a.yaml", b"".join(b"k%d: 1\n" % n for n in range(900)), judge)
    assert len(found) == 201 and found[-1].message.startswith("700 and perhaps more departures")
    deep = ordinary.problems(b"a.yaml", b"x" * 100_000 + b": 1\n", judge)
    assert len(deep[0].message) < 500


COUNTS = dict.fromkeys(("error", "warning", "advice", "inherited", "suppressed", "baselined"), 0)
EMPTY = {
    "schemaVersion": 1,
    "kind": "verdict",
    "outcome": "done",
    "scope": "all",
    "looked": {},
    "gates": [],
    "counts": COUNTS,
}
