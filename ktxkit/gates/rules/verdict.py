"""The verdict: the document that says what was looked at and what was found (contract `verdict`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktxkit.base.rules.text import plural

if TYPE_CHECKING:
    from ktxkit.gates.rules.findings import Finding

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
) -> dict[str, Any]:
    """The document. Its outcome is `findings` where an error is not inherited, else `done`."""
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
        "findings": _documents(findings[:FINDINGS_LIMIT]),
    }


def _documents(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    if not findings:
        return []
    from ktxkit.gates.rules.findings import document

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
    told = f"looked at {', '.join(seen) if seen else 'nothing'}: {', '.join(said) if said else 'nothing found'}"
    as_before = failing_as_before(verdict)
    return f"{told}; {' and '.join(as_before)} failed as on the base" if as_before else told


def failing_as_before(verdict: Mapping[str, Any]) -> list[str]:
    """The gates that failed as a whole, in the same words as on the base: what the change adds to that, they hide."""
    rules = ("command-failed", "hook-failed")
    return sorted({one["gate"] for one in verdict["findings"] if one["rule"] in rules and one.get("inherited")})


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
