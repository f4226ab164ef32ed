"""Fingerprints that are there and stand once: two code hosts drop what repeats one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ktxkit.base.rules.digests import digest_of
from ktxkit.gates.rules.formats.common import Finding


def unique(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings, each with a fingerprint of its own: the first keeps its own, repeats are counted into theirs."""
    taken: set[str] = set()
    made = []
    for finding in findings:
        own = finding.get("fingerprint") or _computed(finding, 1)
        number = 1
        while own in taken:
            number += 1
            own = _computed(finding, number)
        taken.add(own)
        made.append({**finding, "fingerprint": own})
    return made


def _computed(finding: Finding, number: int) -> str:
    what = [finding.get(key, "") for key in ("fingerprint", "rule", "path", "pathB64", "message")]
    return digest_of([*what, number])[3:35]
