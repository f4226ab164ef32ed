"""The rules of the gates: id, level, and the sentence that SARIF and lists show. `docs/rules/ID.md` has the rest.

Findings: what a gate answers with. One for each rule, file and reference, with every place it stands at.

The verdict: the document that says what was looked at and what was found (contract `verdict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_fields, plural, printable

ERROR, WARNING, ADVICE = "error", "warning", "advice"

RULES: dict[str, tuple[str, str]] = {
    # bytes and syntax
    "yaml-encoding": (ERROR, "a YAML file is not UTF-8"),
    "yaml-syntax": (ERROR, "a file is not YAML"),
    "yaml-empty": (ERROR, "a file that holds no document"),
    "yaml-size": (ERROR, "a YAML file is larger, deeper or fuller than what is read"),
    "yaml-duplicate-key": (ERROR, "a key stands twice in one map; readers disagree which one counts"),
    "yaml-alias": (ERROR, "an anchor, alias or merge key; artifacts carry none"),
    "yaml-tag": (ERROR, "a tag; artifacts carry none"),
    "yaml-directive": (ERROR, "a YAML directive; artifacts carry none"),
    "yaml-documents": (ERROR, "more than one document in a file"),
    "yaml-non-string-key": (ERROR, "a key that is not text"),
    "yaml-number": (ERROR, "a number that not every reader can hold"),
    "yaml-scalar": (ERROR, "a value that looks like a date and is none"),
    "md-encoding": (ERROR, "a page is not UTF-8"),
    "md-size": (ERROR, "a page is larger than what is read"),
    "md-nesting": (ERROR, "a page is nested deeper than what is read"),
    "front-matter-missing": (ERROR, "a page has no front matter"),
    "front-matter-unclosed": (ERROR, "front matter is not closed"),
    "front-matter-not-first": (ERROR, "what looks like front matter does not start on the first line"),
    "not-a-file": (ERROR, "a link or a submodule stands where a file that is judged is expected"),
    "not-read": (WARNING, "a file below semantic-layer/ or wiki/ that no gate reads"),
    # shape
    "schema-type": (ERROR, "a value has the wrong type"),
    "schema-required": (ERROR, "a key that is needed is missing"),
    "schema-unknown-key": (ERROR, "a key that nobody reads, perhaps misspelt"),
    "schema-value": (ERROR, "a value is not one of those allowed"),
    "table-or-sql": (ERROR, "a source has both a table and sql"),
    "entity-name": (
        ERROR,
        "a name that references cannot spell: it holds a dot, a slash, or a character that is not what it looks",
    ),
    "duplicate-entity": (ERROR, "two entities of one kind in a source have one name"),
    "page-key": (WARNING, "a page's file name cannot be used as a page key"),
    # names
    "name-mismatch": (ERROR, "a file's name does not follow from the source's name"),
    "name-shadow": (WARNING, "a measure or segment has the name of a column"),
    "duplicate-source": (ERROR, "two files declare one source"),
    "orphan-overlay": (ERROR, "an overlay without the table that it changes"),
    "unknown-column": (ERROR, "a column that the source does not have"),
    "unknown-segment": (ERROR, "a segment that the source does not have"),
    # joins
    "unknown-join-target": (ERROR, "a join to a source that its connection does not have"),
    "join-case": (ERROR, "a join whose target differs from a source in upper and lower case only"),
    "join-ambiguous": (ERROR, "an expression uses a source that is joined twice under one name"),
    # expressions
    "expr-not-expression": (ERROR, "text that is not exactly one SQL expression"),
    "expr-template": (ERROR, "a template in a SQL expression"),
    "expr-nesting": (ERROR, "a SQL expression that is nested or long beyond what is read"),
    "expr-unknown-column": (ERROR, "a SQL expression names a column that is not there"),
    "measure-cycle": (ERROR, "a measure that is computed from itself"),
    # references
    "unknown-sl-ref": (ERROR, "an sl_refs entry names a source that is not there"),
    "stale-entity": (ERROR, "a reference names a measure, column or segment that its source does not have"),
    "unknown-source": (ERROR, "an explicit reference names a source that is not there"),
    "unknown-table": (ERROR, "an explicit reference names a table that no source reads"),
    "unknown-connection": (ERROR, "a reference names a connection that is not there"),
    "unknown-page": (ERROR, "a page's refs name a page that is not there"),
    "unknown-link": (ERROR, "a [[link]] names a page that is not there"),
    "broken-link": (ERROR, "a link or image of Markdown leads to no file of the tree"),
    "unknown-anchor": (WARNING, "a link names a heading that its page does not have"),
    "canonical-pin": (ERROR, "another source than the one that was chosen as canonical"),
    "ref-format": (ERROR, "a reference that cannot be read"),
    "ambiguous-reference": (WARNING, "a reference without a connection that several connections answer"),
    "near-source": (WARNING, "the first part of a dotted span nearly names a source"),
    "odd-character": (ERROR, "a reference holds a character that cannot be seen, or looks like another one"),
    "unknown-word": (ADVICE, "a single word in code is nothing that the page's sources have"),
    # provenance
    "path-not-normal": (ERROR, "a raw path that is not in its normal form"),
    "unknown-raw-path": (ERROR, "a raw path that is neither in the snapshot nor among the deleted ones"),
    "absent-snapshot": (ADVICE, "a raw path into a snapshot that the tree does not keep"),
    "unknown-artifact": (ERROR, "a provenance row names an artifact that is not there"),
    # claims of test runs
    "claim-stale": (ERROR, "a claim of a test run that predates the last edit"),
    "claim-false": (ERROR, "a claim of a test run that the ledger refutes"),
    "claim-unknown": (ERROR, "a claim of a test run that no recorded run bears out"),
    "claim-uncommitted": (WARNING, "a test run had files that are not being committed"),
    "claim-partial": (WARNING, "a true claim that leaves out what failed"),
    "word-refused": (ERROR, "a word about tests that says nothing that can be checked"),
    "word-unearned": (ERROR, "a word of the lexicon that the ledger does not show of the test"),
    "quote-altered": (ERROR, "a quoted error that is nearly a recorded one"),
    # affected tests
    "affected-not-run": (ERROR, "a test that the change can reach has no run on this tree"),
    "affected-not-passed": (ERROR, "a test that the change can reach did not pass on this tree"),
    "affected-missed": (ERROR, "a mutation proof shows that the selection leaves out a test that is needed"),
    # the gates themselves
    "gate-idle": (WARNING, "a gate or a setting that names nothing of the tree"),
    "suppressed": (ADVICE, "a finding that a comment suppresses; a warning where the change brings the comment"),
    "suppression-unused": (WARNING, "a suppression that suppresses nothing"),
    "suppression-unknown": (ERROR, "a suppression that names no rule"),
    "swallowed-exception": (ERROR, "an except block whose whole body discards the error"),
    "python-syntax": (WARNING, "a Python file that cannot be read"),
    "python-size": (WARNING, "a Python file is larger than what is read"),
    "waiver-without-reason": (ERROR, "a waiver that gives no reason"),
    "waiver-unused": (WARNING, "a waiver that waives nothing"),
    "baseline-paid": (WARNING, "a known debt that is paid and still stands in the baseline"),
    "syntax": (ERROR, "a JSON, YAML or TOML file that cannot be read"),
    "merge-marker": (ERROR, "a merge left a file open"),
    "large-file": (ERROR, "a file is larger than the repository's limit"),
    "command-failed": (ERROR, "a command that serves as a gate ended with another status than 0"),
    "gate-output": (ERROR, "a gate printed what is no finding"),
    "hook-failed": (ERROR, "one of the repository's own hooks failed or changed files"),
}


def level_of(rule: str) -> str:
    """The level of a rule; a rule that a third party's gate brings is an error unless its finding says otherwise."""
    return RULES[rule][0] if rule in RULES else ERROR


def sentence(rule: str) -> str:
    """The rule in one sentence; its id where a third party brought it."""
    return RULES[rule][1] if rule in RULES else rule


POSITIONS_SHOWN = 20  # places of one finding that a document lists; its count stays exact
MESSAGE_LIMIT = 2000  # characters


class Finding(NamedTuple):
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
        places = sorted({place for one in group for place in one.places or ((one.line, one.column),)})
        first = min(group, key=lambda one: (one.line, one.column))
        merged.append(first._replace(places=tuple(places)))
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
        marked.append(finding._replace(inherited=True) if finding.identity in known or old in known else finding)
    return marked


LEVELS = ("error", "warning", "advice")
FINDINGS_LIMIT = 25_000  # findings in one document; the counts stay exact
NOUNS = {
    "pages": ("page", "pages"),
    "sources": ("source", "sources"),
    "references": ("reference", "references"),
    "joins": ("join", "joins"),
    "messages": ("message", "messages"),
    "rows": ("provenance row", "provenance rows"),
}


def build(
    findings: Sequence[Finding],
    looked: Mapping[str, int],
    *,
    tree: str = "",
    base_tree: str = "",
    scope: str = "all",
    gates: Iterable[Mapping[str, Any]] = (),
    suppressed: int = 0,
    baselined: int = 0,
    unread: int = 0,
) -> dict[str, Any]:
    """The document. Its outcome is `findings` where an error is not inherited, else `done`. `unread`: expressions of
    SQL that nothing here could read.
    """
    charged = [one for one in findings if not one.inherited]
    counts = {level: sum(1 for one in charged if one.severity == level) for level in LEVELS}
    return {
        "schemaVersion": 1,
        "kind": "verdict",
        "outcome": "findings" if counts["error"] else "done",
        **({"tree": tree} if tree else {}),
        **({"baseTree": base_tree} if base_tree else {}),
        "scope": scope,
        "looked": dict(looked),
        "counts": {
            **counts,
            "inherited": len(findings) - len(charged),
            "suppressed": suppressed,
            "baselined": baselined,
        },
        "gates": [dict(gate) for gate in gates],
        **({"unread": {"expressions": unread}} if unread else {}),
        "findings": _documents(findings[:FINDINGS_LIMIT]),
    }


def _documents(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    if not findings:
        return []
    return [document(one) for one in findings]


def summary(verdict: Mapping[str, Any]) -> str:
    """What was looked at and what came of it, in one line. An empty check is never silent."""
    looked, counts = verdict["looked"], verdict["counts"]
    seen = [plural(looked[key], *words) for key, words in NOUNS.items() if looked.get(key)]
    seen += [f"{count} {key}" for key, count in sorted(looked.items()) if key not in NOUNS and key != "files" and count]
    gates = verdict["gates"] if "messages" not in looked else ()
    others = [gate for gate in gates if gate["name"] != "artifacts"]
    counted = [one for one in others if one.get("looked") and not _said(one)]
    seen += [f"{plural(one['looked'], 'file')} by {one['name']}" for one in counted]
    seen += [f"{one['name']} ({_said(one)})" for one in others if _said(one)]
    seen += [f"nothing by {name}" for name in idle(verdict)] if seen else []
    said = [plural(counts[level], level) for level in LEVELS[:2] if counts[level]]
    said += [f"{counts['advice']} advice"] if counts["advice"] else []
    said += [f"{counts[word]} {word}" for word in ("inherited", "suppressed", "baselined") if counts.get(word)]
    unread = verdict.get("unread", {}).get("expressions", 0)
    said += [f"{plural(unread, 'expression')} not read (pip install 'ktxkit[sql]')"] if unread else []
    told = f"looked at {', '.join(seen) if seen else 'nothing'}: {', '.join(said) if said else 'nothing found'}"
    as_before = failing_as_before(verdict)
    return f"{told}; {' and '.join(as_before)} failed as on the base" if as_before else told


def failing_as_before(verdict: Mapping[str, Any]) -> list[str]:
    """The gates that failed as a whole, in the same words as on the base: what the change adds to that, they hide."""
    rules = ("command-failed", "hook-failed")
    return sorted(
        {
            one["gate"]
            for one in verdict["findings"]
            if one["rule"] in rules and one["level"] == ERROR and one.get("inherited")
        }
    )


def idle(verdict: Mapping[str, Any]) -> list[str]:
    """The gates that looked at nothing though everything was asked for: a pattern or a root may be misspelt."""
    if verdict["scope"] != "all":
        return []
    return [gate["name"] for gate in verdict["gates"] if not gate.get("looked") and not _said(gate)]


def _said(gate: Mapping[str, Any]) -> str:
    """What a gate says itself of what it looked at: it counts something else than files."""
    return str(gate.get("message", ""))


def together(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One verdict on several trees: a finding that two of them have counts once, charged where one is charged."""
    if len(verdicts) == 1:
        return dict(verdicts[0])
    found: dict[str, Mapping[str, Any]] = {}
    counts: dict[str, int] = dict.fromkeys((*LEVELS, "inherited", "suppressed", "baselined"), 0)
    looked: dict[str, int] = {}
    for verdict in verdicts:
        for word, count in verdict["counts"].items():
            counts[word] += count
        for word, count in verdict["looked"].items():
            looked[word] = looked.get(word, 0) + count
        for finding in verdict["findings"]:
            known = found.get(finding["fingerprint"])
            if known is not None:
                again, finding = (finding, known) if finding.get("inherited") else (known, finding)
                counts["inherited" if again.get("inherited") else again["level"]] -= 1
            found[finding["fingerprint"]] = finding
    gates = {gate["name"]: dict(gate) for verdict in verdicts for gate in verdict["gates"]}
    return {
        "schemaVersion": 1,
        "kind": "verdict",
        "outcome": "findings" if counts["error"] else "done",
        "scope": "several",
        "looked": looked,
        "counts": counts,
        "gates": list(gates.values()),
        "findings": list(found.values())[:FINDINGS_LIMIT],
    }
