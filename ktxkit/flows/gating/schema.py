"""Gate `schema`: JSON or YAML files that must follow a JSON Schema of the repository."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit import contracts
from ktxkit.core import strict_yaml
from ktxkit.core.gates import shape
from ktxkit.core.yaml_nodes import Node, Problem
from ktxkit.errors import CannotRun
from ktxkit.flows.gate_facts import NOT_A_FILE
from ktxkit.gates import Answer, Finding, Subject


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the files that `files` names by the schema file that `schema` names, both of the tree.

    A link or a submodule among them is a finding: what its readers get is not what stands in the tree there.
    """
    where = str(settings["schema"])
    path = where.encode("utf-8", "surrogateescape")
    if path not in subject.files:
        raise CannotRun("the schema of a gate is not in the tree", where=where, hint="see ktx-gates.yaml")
    validator = contracts.foreign(subject.read(path), where)
    patterns = settings.get("files", ())
    whole = subject.touched is not None and path in subject.touched  # a new schema judges all of its files
    chosen = subject.anywhere(patterns) if whole else subject.chosen(patterns, ())
    found = [one for name, data in subject.each(chosen) for one in _findings(name, data, validator)]
    odd = [_not_a_file(one, subject.files[one][0]) for one in subject.not_files(patterns, whole=whole)]
    return Answer([*found, *odd], len(chosen) + len(odd))


def _not_a_file(path: bytes, mode: str) -> Finding:
    message = f"{NOT_A_FILE[mode]} stands where a file is expected: what it leads to was not looked at"
    return Finding("not-a-file", path, message, hint="commit a plain file", gate="schema")


def _findings(path: bytes, data: bytes, validator: contracts.Foreign) -> Iterator[Finding]:
    for one in problems(path, data, validator):
        yield Finding(one.rule, path, one.message, one.line, one.column, hint=one.hint, gate="schema")


def problems(path: bytes, data: bytes, validator: contracts.Foreign) -> list[Problem]:
    parsed = strict_yaml.read(data)
    if parsed.root is not None:
        return [*parsed.problems, *shape.judged("", parsed.root, validator)]
    if not path.endswith(b".json"):  # a YAML document without content is null
        return list(parsed.problems) or shape.judged("", Node("scalar", 1, 1, 0, 0, None), validator)
    try:  # JSON that YAML does not take (tabs, surrogate pairs): judged without places
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON either, or half a character (a lone surrogate)
        said = "comments alone are not JSON" if data.strip() else "an empty file is not JSON"
        return list(parsed.problems) or [Problem("yaml-syntax", 1, 1, said, "write a value: null, {} or []")]
    return shape.judged("", Node("scalar", 1, 1, 0, 0, value), validator)
