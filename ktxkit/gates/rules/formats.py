"""What all formats share: order, the sentence of a finding, and how much it counts.

Fingerprints that are there and stand once: two code hosts drop what repeats one.

The verdict itself as one JSON document, and its findings as JSON Lines.

`path:line:col: level rule message`, one line for each finding. For scripts too: the shape never changes.

Workflow commands of GitHub Actions. Source: GitHub, workflow commands; actions/runner, ActionCommand.

A step shows ten annotations of each level and drops the rest without a word. So the worst come first, the last notice
says how many are not annotations, and the log holds every finding as text. Foreign text never starts a command.

GitLab's code quality report: the Code Climate subset that it reads. Source: GitLab, Code Quality report format.

reviewdog's diagnostics as JSON Lines. Source: reviewdog.proto; a column counts bytes of UTF-8, from 1.

Our columns count characters. They are converted with the line's text; without it a column is left out, not guessed.

SARIF 2.1.0. Source: OASIS SARIF 2.1.0 errata 01; limits: GitHub, SARIF support for code scanning.

Columns count characters (`columnKind`), paths are percent-encoded relative to the top of the tree, and a fingerprint
has no line number in it, so that a result stays the same when lines move.

A verdict's findings in the places where people read results: terminal, pipes, code hosts, review tools.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote_from_bytes

import ktxkit
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.text import plural, printable
from ktxkit.gates.rules.findings import level_of
from ktxkit.gates.rules.findings import sentence as sentence_of

Finding = Mapping[str, Any]
Content = Callable[[bytes], bytes | None]
LEVELS = ("error", "warning", "advice")


def no_content(path: bytes) -> bytes | None:
    """Where nobody can be asked for a file's bytes."""
    return None


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By place, then by rule: the order in which a person walks through files."""
    return sorted(findings, key=_key)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """By what counts most, then by place."""
    return sorted(findings, key=lambda one: (LEVELS.index(effective_level(one)), *_key(one)))


def _key(finding: Finding) -> tuple[bytes, int, int, int, str, str, str]:
    line, column = position(finding)
    level = LEVELS.index(finding["level"])
    return (path_of(finding), line, column, level, finding["rule"], finding["message"], finding.get("fingerprint", ""))


def charged(findings: Iterable[Finding]) -> list[Finding]:
    """Those that the change has to answer for. What the base has too is counted, and in the documents."""
    return [finding for finding in findings if not finding.get("inherited")]


def effective_level(finding: Finding) -> str:
    """The level that counts: what the base tree has too is not charged, so it is advice."""
    return "advice" if finding.get("inherited") else str(finding["level"])


def position(finding: Finding) -> tuple[int, int]:
    """Line and column, from 1; a finding on the file as a whole stands at its beginning."""
    return max(finding.get("line", 1), 1), max(finding.get("column", 1), 1)


def path_of(finding: Finding) -> bytes:
    """The path's exact bytes."""
    encoded = finding.get("pathB64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return str(finding.get("path", "")).encode("utf-8", "surrogatepass")


def shown_path(finding: Finding) -> str:
    """The path as one printable word; `.` where the finding is on the tree as a whole."""
    return printable(path_of(finding)) or "."


def sentence(finding: Finding) -> str:
    """The message with what was searched, the nearest names and the next step: one printable line."""
    parts = [printable(finding["message"])]
    if searched := _names(finding.get("searched", ())):
        parts.append(f"searched {', '.join(searched)}")
    nearest, hint = _names(finding.get("nearest", ())), printable(finding.get("hint", ""))
    if nearest:
        parts.append(f"did you mean {' or '.join(nearest)}?")
    if hint and not (nearest and hint.startswith("did you mean ")):
        parts.append(hint)
    if finding.get("count", 1) > 1:
        parts.append(f"{plural(finding['count'], 'place')} in this file")
    if finding.get("inherited"):
        parts.append("not charged: the base has it too")
    return "; ".join(parts)


def _names(names: Sequence[str]) -> list[str]:
    return [printable(name) for name in names]


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


def as_json(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """The whole document (contract `verdict`)."""
    return json.dumps(dict(verdict), indent=2, ensure_ascii=True, allow_nan=False).split("\n")


def as_lines(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One object for each finding."""
    return [compact(finding) for finding in verdict["findings"]]


def compact(value: Any) -> str:
    """JSON on one line, ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def render_text(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """The charged findings."""
    return [line(finding) for finding in charged(verdict["findings"])]


def line(finding: Finding) -> str:
    """One finding; the shape is that of compilers, which editors read."""
    at, column = position(finding)
    return f"{shown_path(finding)}:{at}:{column}: {finding['level']} {printable(finding['rule'])} {sentence(finding)}"


SHOWN = 10  # annotations of one level
COMMANDS = {"error": "error", "warning": "warning", "advice": "notice"}


def render_github(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """Annotations of the charged findings, worst first; then those that had no room."""
    findings = worst_first(charged(verdict["findings"]))
    kept, rest = _split(findings, SHOWN)
    if not rest:
        return [_annotation(finding) for finding in kept]
    kept, rest = _split(findings, SHOWN - 1)  # the closing notice is a notice too
    said = f"{len(rest)} more of {len(findings)} findings are no annotations (a step shows ten of a level); see the log"
    return [
        *(_annotation(finding) for finding in kept),
        f"::notice title=gate-check::{data(said)}",
        f"::group::{len(rest)} more findings",
        *(f"- {plain(line(finding))}" for finding in rest),
        "::endgroup::",
    ]


def _split(findings: Iterable[Finding], notices: int) -> tuple[list[Finding], list[Finding]]:
    room = {"error": SHOWN, "warning": SHOWN, "advice": notices}
    kept: list[Finding] = []
    rest: list[Finding] = []
    for finding in findings:
        level = effective_level(finding)
        (kept if room[level] else rest).append(finding)
        room[level] -= bool(room[level])
    return kept, rest


def _annotation(finding: Finding) -> str:
    line, column = position(finding)
    where = [f"file={prop(shown_path(finding))}"]
    if "line" in finding:
        where += [f"line={line}", f"col={column}"]
    command = COMMANDS[effective_level(finding)]
    return f"::{command} {','.join(where)},title={prop(finding['rule'])}::{data(sentence(finding))}"


def data(value: str) -> str:
    """A command's message: `%`, CR and LF stand for themselves."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def prop(value: str) -> str:
    """A command's property: `:` and `,` stand for themselves too."""
    return data(value).replace(":", "%3A").replace(",", "%2C")


def plain(value: str) -> str:
    """A line of the log: the runner takes an old command (`##[...]`) anywhere in it."""
    return value.replace("##[", "# #[")


SEVERITY = {"error": "major", "warning": "minor", "advice": "info"}


def render_gitlab(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One array, an object on each line."""
    issues = [compact(_issue(finding)) for finding in unique(verdict["findings"])]
    return ["[", *(f"{issue}," for issue in issues[:-1]), *issues[-1:], "]"]


def _issue(finding: Finding) -> dict[str, Any]:
    return {
        "description": f"{finding['rule']}: {sentence(finding)}",
        "check_name": finding["rule"],
        "fingerprint": finding["fingerprint"],
        "severity": SEVERITY[effective_level(finding)],
        "location": {"path": shown_path(finding), "lines": {"begin": position(finding)[0]}},
    }


RDJSON_SEVERITY = {"error": "ERROR", "warning": "WARNING", "advice": "INFO"}
_BREAK = re.compile(b"\r\n|[\r\n]")
_BOM = b"\xef\xbb\xbf"


def render_rdjson(verdict: Mapping[str, Any], content: Content) -> list[str]:
    """One diagnostic on each line."""
    texts: dict[bytes, list[bytes]] = {}
    made = []
    for finding in verdict["findings"]:
        path = path_of(finding)
        if path not in texts and "line" in finding:
            texts[path] = _BREAK.split(content(path) or b"")
        made.append(compact(_diagnostic(finding, texts.get(path, []))))
    return made


def _diagnostic(finding: Finding, lines: list[bytes]) -> dict[str, Any]:
    location: dict[str, Any] = {"path": shown_path(finding)}
    if "line" in finding:
        location["range"] = {"start": _position(finding, lines)}
    return {
        "message": sentence(finding),
        "location": location,
        "severity": RDJSON_SEVERITY[effective_level(finding)],
        "source": {"name": "ktxkit"},
        "code": {"value": finding["rule"]},
    }


def _position(finding: Finding, lines: list[bytes]) -> dict[str, int]:
    line, column = position(finding)
    if line > len(lines) or not any(lines):
        return {"line": line}
    at = byte_column(lines[line - 1], column, first=line == 1)
    return {"line": line} if at is None else {"line": line, "column": at}


def byte_column(line: bytes, column: int, *, first: bool = False) -> int | None:
    """The column in bytes, from 1, of one in characters; None beyond the line's end and in text that is not UTF-8.

    `first`: the line is a file's first, where a byte-order mark is no character but takes its bytes.
    """
    mark = len(_BOM) if first and line.startswith(_BOM) else 0
    try:
        text = line[mark:].decode("utf-8")
    except UnicodeDecodeError:
        return None
    if column > len(text) + 1:
        return None
    return mark + len(text[: column - 1].encode("utf-8")) + 1


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RESULT_LIMIT = 25_000  # a code host refuses a run with more
SARIF_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")


def render_sarif(verdict: Mapping[str, Any], content: Content, result_limit: int = RESULT_LIMIT) -> list[str]:
    """One log with one run, of at most `result_limit` results: the worst."""
    findings = unique(verdict["findings"])
    kept = findings if len(findings) <= result_limit else worst_first(findings)[:result_limit]
    rules = sorted({finding["rule"] for finding in kept})
    numbers = {rule: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(rules)},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, **_left_out(len(findings) - len(kept), result_limit)}],
        "results": [_result(finding, numbers[finding["rule"]]) for finding in kept],
    }
    return as_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, content)


def _driver(rules: list[str]) -> dict[str, Any]:
    return {"name": "ktxkit", "semanticVersion": ktxkit.__version__, "rules": [_rule(rule) for rule in rules]}


def _rule(rule: str) -> dict[str, Any]:
    said = {"text": sentence_of(rule)}
    page = {"text": f"{sentence_of(rule)}. `gate-check --explain {rule}` shows bad and good input."}
    level = {"level": SARIF_LEVELS[level_of(rule)]}
    return {"id": rule, "shortDescription": said, "fullDescription": said, "help": page, "defaultConfiguration": level}


def _left_out(count: int, limit: int) -> dict[str, Any]:
    if not count:
        return {}
    said = f"{count} more findings are left out: a run may have {limit} results"
    return {"toolExecutionNotifications": [{"level": "warning", "message": {"text": said}}]}


def _result(finding: Finding, number: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ruleId": finding["rule"],
        "ruleIndex": number,
        "level": SARIF_LEVELS[effective_level(finding)],
        "message": {"text": escaped(sentence(finding))},
    }
    uri = quote_from_bytes(path_of(finding), safe="/")
    if uri:
        made["locations"] = [_location(uri, *position(finding), whole="line" not in finding)]
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


__all__ = ["FORMATS", "Content", "render"]

FORMATS = ("text", "json", "jsonl", "sarif", "github", "gitlab", "rdjsonl")
Renderer = Callable[[Mapping[str, Any], Content], list[str]]


def render(format: str, verdict: Mapping[str, Any], content: Content = no_content) -> list[str]:
    """The lines of a verdict (contract `verdict`) in a format, the same whatever the order of its findings.

    `content` gives the bytes of a path of the tree that was judged, or None; rdjsonl alone asks it, since its columns
    count bytes. Raises KeyError for a format that is none of FORMATS.
    """
    found = {**verdict, "findings": ordered(verdict["findings"])}
    return _renderer(format)(found, content)


def _renderer(format: str) -> Renderer:
    """Imported where it is asked for."""
    if format == "text":
        return render_text
    return {
        "json": as_json,
        "jsonl": as_lines,
        "sarif": render_sarif,
        "github": render_github,
        "gitlab": render_gitlab,
        "rdjsonl": render_rdjson,
    }[format]
