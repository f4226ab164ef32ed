"""Findings: what a gate answers with. One for each rule, file and reference, with every place it stands at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import path_fields, printable
from ktxkit.gates.rules.rules import level_of
from ktxkit.gates.rules.verdict import LEVELS

POSITIONS_SHOWN = 20  # places of one finding that a document lists; its count stays exact
MESSAGE_LIMIT = 2000  # characters


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, what was searched, and the next step. Lines and columns count from 1, in characters."""

    rule: str
    path: bytes
    message: str
    line: int = 0  # 0: the file as a whole
    column: int = 0
    reference: str = ""
    searched: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    hint: str = ""
    level: str = ""
    gate: str = "artifacts"
    places: tuple[tuple[int, int], ...] = ()
    inherited: bool = False

    @property
    def severity(self) -> str:
        return self.level or level_of(self.rule)

    @property
    def identity(self) -> tuple[str, bytes, str]:
        """What stays the same when lines move."""
        return self.rule, self.path, self.reference or self.message

    @property
    def fingerprint(self) -> str:
        rule, path, reference = self.identity
        return digest(b"\0".join((_bytes(rule), path, _bytes(reference))))[3:35]

    @property
    def order(self) -> tuple[int, bytes, int, int, str, str]:
        return (LEVELS.index(self.severity), self.path, self.line, self.column, self.rule, self.reference)


def _bytes(text: str) -> bytes:
    """Any text: bytes that stand in it as surrogates, and surrogates that stand alone in somebody's JSON."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def grouped(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each identity, at its first place, with all its places; sorted worst first, then by place."""
    groups: dict[tuple[str, bytes, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.identity, []).append(finding)
    merged = []
    for group in groups.values():
        places = sorted({(one.line, one.column) for one in group})
        first = min(group, key=lambda one: (one.line, one.column))
        merged.append(replace(first, places=tuple(places)))
    return sorted(merged, key=lambda one: one.order)


def document(finding: Finding) -> dict[str, Any]:
    """The finding as a JSON object (contract `verdict`, its `findings`)."""
    found: dict[str, Any] = {
        "rule": finding.rule,
        "level": finding.severity,
        "gate": finding.gate,
        **path_fields(finding.path),
    }
    if finding.line:
        found |= {"line": finding.line, "column": finding.column or 1}
    found["message"] = clean(finding.message)
    if finding.reference:
        found["reference"] = clean(finding.reference)
    for key, values in (("searched", finding.searched), ("nearest", finding.nearest)):
        if values:
            found[key] = [clean(value) for value in values][:100]
    if finding.hint:
        found["hint"] = clean(finding.hint)
    found["fingerprint"] = finding.fingerprint
    if finding.inherited:
        found["inherited"] = True
    if len(finding.places) > 1:
        found["count"] = len(finding.places)
        shown = finding.places[:POSITIONS_SHOWN]
        found["positions"] = [{"line": max(line, 1), "column": max(column, 1)} for line, column in shown]
    return found


def clean(text: str) -> str:
    """One bounded printable line."""
    return printable(text)[:MESSAGE_LIMIT]


def mark_inherited(findings: Sequence[Finding], base: Iterable[Finding], gone: Mapping[bytes, bytes]) -> list[Finding]:
    """Findings that the base has too are inherited: same rule and reference in the same file, or in the file (of the
    same content; `gone` maps the new path to the old one) that the change moved."""
    known = {finding.identity for finding in base}
    marked = []
    for finding in findings:
        rule, path, reference = finding.identity
        old = (rule, gone.get(path, path), reference)
        marked.append(replace(finding, inherited=True) if finding.identity in known or old in known else finding)
    return marked
