"""`ktx-gate: ignore=RULE` in a comment: on the line it is about, or alone on the line before it.

Findings without those that a comment suppresses, and what is wrong with the comments: pure, over findings.

A comment `ktx-gate: ignore=RULE` covers its own line and, alone on a line, the next one. It names its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.strict_yaml import lines
from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules.findings import ADVICE, RULES, WARNING, Finding

_WORDS = r"ktx-gate:\s*ignore=([A-Za-z0-9,_-]+)"
_YAML = rf"(?:^|(?<=\s))#\s*{_WORDS}\s*$"
_HTML = rf"{_WORDS}\s*\Z"


def in_yaml(text: str, first_line: int = 1, inside: Iterable[tuple[int, int]] = ()) -> list[list[object]]:
    """Suppressions in the comments of a YAML text: [rule, line, column, alone]. `inside`: offsets of its scalars."""
    if "ktx-gate" not in text:
        return []
    spans = list(inside)
    found: list[list[object]] = []
    offset = 0
    for number, line in enumerate(lines(text)):
        match = re.search(_YAML, line.rstrip("\r\n"))
        if match and not any(start <= offset + match.start() < end for start, end in spans):
            found += _each(match[1], number + first_line, match.start() + 1, not line[: match.start()].strip())
        offset += len(line)
    return found


def in_comment(text: str, line: int, column: int, alone: bool) -> list[list[object]]:
    """Suppressions in one HTML comment."""
    match = re.match(_HTML, text)
    return _each(match[1], line, column, alone) if match else []


def _each(words: str, line: int, column: int, alone: bool) -> list[list[object]]:
    return [[rule, line, column, alone] for rule in words.split(",") if rule]


Ignore = list[Any]  # [rule, line, column, alone]
MARK = b"ktx-gate"
OWN_WAIVER = frozenset({"swallowed-exception"})  # waived by `# gate-ok: REASON` only
# After what starts a comment in most languages; what ends one may follow.
_COMMENT = r"(?:^|(?<=\s))(?:#|//|--|;|%|/\*|<!--)\s*ktx-gate:\s*ignore=([A-Za-z0-9,_/:.-]+?)\s*(?:\*/|-->)?\s*$"


class Suppressed(NamedTuple):
    """What is left, how many places were suppressed, and which comments did it: (path, number in its list).

    `covered`: the findings that were suppressed, at the places where they were.
    """

    kept: list[Finding]
    hidden: int
    used: frozenset[tuple[bytes, int]]
    covered: tuple[Finding, ...] = ()


def apply(findings: Iterable[Finding], ignores: Mapping[bytes, Sequence[Ignore]]) -> Suppressed:
    """Take out what a comment covers. A finding with several places loses those that are covered."""
    used: set[tuple[bytes, int]] = set()
    kept: list[Finding] = []
    covered: list[Finding] = []
    count = 0
    for finding in findings:
        here = ignores.get(finding.path, ())
        all_places = finding.places or ((finding.line, finding.column),)
        places = []
        for line, column in all_places:
            hit = next((n for n, one in enumerate(here) if _covers(one, finding.rule, line)), None)
            if hit is None:
                places.append((line, column))
            else:
                used.add((finding.path, hit))
                count += 1
        kept += [finding] if len(places) == len(all_places) else _left(finding, places)
        covered += _left(finding, [place for place in all_places if place not in places])
    return Suppressed(kept, count, frozenset(used), tuple(covered))


def brought(covered: Iterable[Finding], before: Iterable[Finding], gone: Mapping[bytes, bytes]) -> list[Finding]:
    """Findings that a comment suppresses now and none did before: who is judged does not write his own exemption.

    `covered` now, and `before` the change; `gone` maps the new path of a file that moved to its old one.
    """
    known = {one.identity for one in before}
    found = []
    for one in covered:
        rule, path, reference = one.identity
        if one.identity not in known and (rule, gone.get(path, path), reference) not in known:
            found.append(one)
    return found


class Exempted(NamedTuple):
    """What is told of the findings that comments suppress: `charged`, since their comments do not count here, and
    `said`, that they are suppressed."""

    charged: list[Finding]
    said: list[Finding]


def exempted(
    covered: Sequence[Finding],
    before: Iterable[Finding] | None,
    gone: Mapping[bytes, bytes],
    *,
    own_comments: bool,
    advise: bool,
) -> Exempted:
    """`before`: what was suppressed before the change, None where nothing tells. `own_comments`: those that the change
    brings count, and are told as warnings; `advise`: what is suppressed besides is told as advice."""
    new = brought(covered, before, gone) if before is not None else []
    if not own_comments:
        hint = "a comment that suppresses it counts where a person commits it, not in the change that is judged"
        return Exempted([one._replace(hint=hint) for one in new], [])
    said = [_said(one, "a comment of this change suppresses", WARNING) for one in new]
    if advise:
        said += [_said(one, "a comment suppresses", ADVICE) for one in covered if one not in new]
    return Exempted([], said)


def _said(one: Finding, what: str, level: str) -> Finding:
    about = f"{one.rule} {one.reference}" if one.reference else one.rule
    hint = "keep it if that is meant; in a job the comments of a unit do not count" if level == WARNING else ""
    said = Finding("suppressed", one.path, f"{what} {one.rule}: {one.message}", one.line, one.column, about, hint=hint)
    return said._replace(level=level, gate=one.gate, places=one.places)


def idle(
    ignores: Mapping[bytes, Sequence[Ignore]], used: Iterable[tuple[bytes, int]], *, foreign: bool = False
) -> list[Finding]:
    """A finding for each comment that covers nothing. `foreign`: gates with rules of their own look here."""
    known = set(used)
    pairs = [(path, one) for path, listed in ignores.items() for n, one in enumerate(listed) if (path, n) not in known]
    return [_about(path, one, foreign) for path, one in pairs]


def _about(path: bytes, ignore: Ignore, foreign: bool) -> Finding:
    rule, line, column, _ = ignore
    if rule not in RULES and not foreign:
        near = tuple(nearest(rule, sorted(RULES)))
        hint = f"did you mean {near[0]}?" if near else "`gate-check --explain list` lists the rules"
        return Finding("suppression-unknown", path, f"there is no rule {rule}", line, column, rule, (), near, hint)
    message = f"nothing here breaks {rule}"
    return Finding("suppression-unused", path, message, line, column, rule, hint="remove the comment")


def in_text(text: str) -> list[Ignore]:
    """The comments of any text file, by what most languages start a comment with."""
    found: list[Ignore] = []
    comment = re.compile(_COMMENT)
    for number, line in enumerate(lines(text), 1):
        match = comment.search(line.rstrip("\r\n"))
        if match:
            alone = not line[: match.start()].strip()
            found += [[rule, number, match.start() + 1, alone] for rule in match[1].split(",") if rule]
    return found


def _left(finding: Finding, places: list[tuple[int, int]]) -> list[Finding]:
    if not places:
        return []
    return [finding._replace(line=places[0][0], column=places[0][1], places=tuple(places))]


def _covers(ignore: Ignore, rule: str, line: int) -> bool:
    wanted, at, _, alone = ignore
    if rule in OWN_WAIVER or wanted != rule or not line:
        return False
    return bool(line == at or (alone and line == at + 1))
