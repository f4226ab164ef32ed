"""SARIF 2.1.0. Source: OASIS SARIF 2.1.0 errata 01; limits: GitHub, SARIF support for code scanning.

Columns count characters (`columnKind`), paths are percent-encoded relative to the top of the tree, and a fingerprint
has no line number in it, so that a result stays the same when lines move.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes

import ktxkit
from ktxkit.gates.rules.formats.common import Content, Finding, path_of, place, sentence, standing, worst_first
from ktxkit.gates.rules.formats.records import as_json
from ktxkit.gates.rules.formats.unique import unique
from ktxkit.gates.rules.rules import level_of
from ktxkit.gates.rules.rules import sentence as sentence_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RESULT_LIMIT = 25_000  # a code host refuses a run with more
LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")


def render(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One log with one run."""
    findings = unique(verdict["findings"])
    kept = findings if len(findings) <= RESULT_LIMIT else worst_first(findings)[:RESULT_LIMIT]
    rules = sorted({finding["rule"] for finding in kept})
    numbers = {rule: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(rules)},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, **_left_out(len(findings) - len(kept))}],
        "results": [_result(finding, numbers[finding["rule"]]) for finding in kept],
    }
    return as_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, content)


def _driver(rules: list[str]) -> dict[str, Any]:
    return {"name": "ktxkit", "semanticVersion": ktxkit.__version__, "rules": [_rule(rule) for rule in rules]}


def _rule(rule: str) -> dict[str, Any]:
    said = {"text": sentence_of(rule)}
    page = {"text": f"{sentence_of(rule)}. `gate-check --explain {rule}` shows bad and good input."}
    level = {"level": LEVELS[level_of(rule)]}
    return {"id": rule, "shortDescription": said, "fullDescription": said, "help": page, "defaultConfiguration": level}


def _left_out(count: int) -> dict[str, Any]:
    if not count:
        return {}
    said = f"{count} more findings are left out: a run may have {RESULT_LIMIT} results"
    return {"toolExecutionNotifications": [{"level": "warning", "message": {"text": said}}]}


def _result(finding: Finding, number: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ruleId": finding["rule"],
        "ruleIndex": number,
        "level": LEVELS[standing(finding)],
        "message": {"text": escaped(sentence(finding))},
    }
    uri = quote_from_bytes(path_of(finding), safe="/")
    if uri:
        made["locations"] = [_location(uri, *place(finding), whole="line" not in finding)]
        places = [(one["line"], one["column"]) for one in finding.get("positions", ())]
        if len(places) > 1:
            made["relatedLocations"] = [_location(uri, *one) for one in places[1:]]
    made["partialFingerprints"] = {"ktxkit/v1": finding["fingerprint"]}
    if finding.get("inherited"):
        made["properties"] = {"inherited": True, "level": finding["level"]}
    return made


def _location(uri: str, line: int, column: int, *, whole: bool = False) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}}
    physical["region"] = {"startLine": 1} if whole else {"startLine": line, "startColumn": column}
    return {"physicalLocation": physical}


def escaped(text: str) -> str:
    """The text where a viewer would make a link of `[words](place)`: foreign text makes none (SARIF 3.11.6)."""
    return _LINK.sub(lambda found: found[0].replace("[", "\\[").replace("]", "\\]"), text)
