"""Gate `schema`: JSON or YAML files that must follow a JSON Schema of the repository.

Gate `swallow`: exceptions that Python code discards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ktxkit.base import contracts
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules import strict_yaml
from ktxkit.base.rules.strict_yaml import Node, YamlProblem
from ktxkit.gates.facts import NOT_A_FILE
from ktxkit.gates.plugin import PLAIN, Answer, Finding, Subject
from ktxkit.gates.rules import source
from ktxkit.gates.rules.swallow import judge

FIRST = "a schema that allows it has to be landed before it"


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the files that `files` names by the schema file that `schema` names, both of the tree; and what is touched
    by the schema of where the configuration was read too, so that no change can loosen what it is judged by.

    A link or a submodule among them is a finding: what its readers get is not what stands in the tree there.
    """
    where = str(settings["schema"])
    path = where.encode("utf-8", "surrogateescape")
    if path not in subject.files or subject.files[path][0] not in PLAIN:
        raise CannotRun("the schema of a gate is no file of the tree", where=where, hint="see ktx-gates.yaml")
    validator = contracts.foreign(subject.read(path), where)
    former = _former(subject, path, where)
    patterns = settings.get("files", ())
    whole = subject.touched is not None and path in subject.touched  # a new schema judges all of its files
    chosen = subject.anywhere(patterns) if whole else subject.chosen(patterns, ())
    found: list[Finding] = []
    for name, data in subject.each(chosen):
        found += _findings(name, data, validator)
        if former is not None and (subject.touched is None or name in subject.touched):
            found += _findings(name, data, former, subject.trusted_name)
    odd = [_not_a_file(one, subject.files[one][0]) for one in subject.not_files(patterns, whole=whole)]
    return Answer([*found, *odd], len(chosen) + len(odd))


def _former(subject: Subject, path: bytes, where: str) -> contracts.Foreign | None:
    """A judge by the schema of where the configuration was read; None where that is the tree's own, or is none."""
    data = subject.trusted(path) if subject.trusted is not None else None
    if data is None or data == subject.read(path):
        return None
    try:
        return contracts.foreign(data, where)
    except CannotRun:
        return None  # it let nothing pass: the change that mends it is judged by what it makes of it


def _not_a_file(path: bytes, mode: str) -> Finding:
    message = f"{NOT_A_FILE[mode]} stands where a file is expected: what it leads to was not looked at"
    return Finding("not-a-file", path, message, hint="commit a plain file", gate="schema")


def _findings(path: bytes, data: bytes, validator: contracts.Foreign, origin: str = "") -> Iterator[Finding]:
    """`origin`: of which schema it is, where not the tree's; it is no other finding than that of the tree's."""
    said, hint = (f" (by the schema {origin})", FIRST) if origin else ("", "")
    for one in problems(path, data, validator):
        same = one.message if origin else ""
        yield Finding(
            one.rule, path, one.message + said, one.line, one.column, same, hint=one.hint or hint, gate="schema"
        )


def problems(path: bytes, data: bytes, validator: contracts.Foreign) -> list[YamlProblem]:
    parsed = strict_yaml.read(data)
    if parsed.root is not None:
        return [*parsed.problems, *source.judged("", parsed.root, validator)]
    if not path.endswith(b".json"):  # a YAML document without content is null
        return list(parsed.problems) or source.judged("", Node("scalar", 1, 1, 0, 0, None), validator)
    try:  # JSON that YAML does not take (tabs, surrogate pairs): judged without places
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON either, or half a character (a lone surrogate)
        said = "comments alone are not JSON" if data.strip() else "an empty file is not JSON"
        return list(parsed.problems) or [YamlProblem("yaml-syntax", 1, 1, said, "write a value: null, {} or []")]
    return source.judged("", Node("scalar", 1, 1, 0, 0, value), validator)


def check_swallowed(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Judge the Python files that `files` names (default: all)."""
    chosen = subject.chosen(settings.get("files", ()), ("**/*.py",))
    return Answer([one for path, data in subject.each(chosen) for one in _swallowed(path, data)], len(chosen))


def _swallowed(path: bytes, data: bytes) -> Iterator[Finding]:
    for one in judge(data):
        yield Finding(one.rule, path, one.message, one.line, one.column, hint=one.hint, gate="swallow")
