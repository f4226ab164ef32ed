"""One self-contained page: style, script and data in one file, nothing fetched, nothing run but our own script.

The data is JSON in the page, escaped so that no content can end its element; the script puts it into the document as
text, never as markup; a content security policy allows exactly the two hashes of our style and script.

The report of a job as text that fits 80 columns (only a path may be longer: it is never broken).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktxkit.base.rules.text import counted, plural, printable
from ktxkit.work.rules.report import COUNTED, LANDED, WAITING

if TYPE_CHECKING:
    from ktxkit.base.documents import Report, ReportIsolatedDiff, ReportWorkUnit


def page(template: str, style: str, script: str, title: str, data: Mapping[str, Any]) -> bytes:
    """The page as UTF-8. `template` has one `{{name}}` for each of title, style, script, their hashes, and data."""
    import html

    parts = {
        "title": html.escape(_whole(title)),
        "style": style,
        "script": script,
        "style-hash": digest(style),
        "script-hash": digest(script),
        "data": embedded(data),
    }
    made, rest = "", template
    while "{{" in rest:
        before, _, after = rest.partition("{{")
        name, _, rest = after.partition("}}")
        made += before + parts[name]
    return (made + rest).encode("utf-8")


def digest(text: str) -> str:
    """The source expression of a content security policy for this inline text (CSP level 3, hash-source)."""
    import base64
    import hashlib

    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element: no `<`, so neither `</script` nor `<!--`; lone surrogates replaced."""
    return _whole(json.dumps(data, separators=(",", ":"), ensure_ascii=False)).replace("<", "\\u003c")


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def head(text: str, limit: int) -> tuple[str, bool]:
    """The beginning of a text up to a line's end within `limit` characters, and whether it was cut."""
    if len(text) <= limit:
        return text, False
    return text[: text.rfind("\n", 0, limit) + 1 or limit], True


def tail(text: str, limit: int) -> tuple[str, bool]:
    """The end of a text from a line's beginning within `limit` characters, and whether it was cut."""
    if len(text) <= limit:
        return text, False
    begin = text.find("\n", len(text) - limit) + 1
    return text[begin or len(text) - limit :], True


WIDTH = 80
KEY_WIDTH = 24
PHASES = {  # when a job ended early, by the phase that it was in
    "recovery": "while an earlier attempt was put right",
    "snapshot": "before units began",
    "projection": "in the projection",
    "units": "while units ran",
    "integration": "while changes were merged",
    "gates": "at the final gates",
    "landing": "at landing",
}
NOTICED = 20  # lines
PATHS_NAMED = 3  # of an accepted unit
WHYS_NAMED = 3  # reasons why a unit ran
TIE = "\0"  # stands for a space at which no line is broken
LABELS = (
    ("textualConflicts", "textual conflict", "textual conflicts"),
    ("semanticConflicts", "semantic conflict", "semantic conflicts"),
    ("policyRejected", "policy rejected", "policy rejected"),
    ("suspectReverts", "suspect revert", "suspect reverts"),
    ("verificationFailed", "verification failed", "verifications failed"),
    ("invalidPatches", "invalid patch", "invalid patches"),
    ("missingBases", "missing base", "missing bases"),
    ("blocked", "blocked", "blocked"),
    ("failed", "failed", "failed"),
    ("skipped", "skipped", "skipped"),
    ("waiting", "waiting", "waiting"),
)
IN_LABELS = (
    ("acceptedPatches", "accepted", "accepted"),
    ("subsumed", "subsumed", "subsumed"),
    ("noops", "no-op", "no-ops"),
)
UNKNOWN_SOURCE = ("local", "manual")  # what a job file says by default of where its data is from


def render(report: Report, width: int = WIDTH) -> list[str]:
    """The lines of the report, the answer and the next command first; each at most `width` columns wide, but for those
    that end in a path or a command."""
    lines = _wrapped(f"Job {report['jobId']}: ", headline(report), width)
    store = report["tracePath"].partition("/ingest-traces/")[0]  # its spaces are those of a path
    tied = store.replace(" ", TIE)
    if "failure" in report:
        phase = PHASES.get(report["failure"]["phase"], report["failure"]["phase"])
        lines += _wrapped(f"  {phase}: ", printable(report["failure"]["message"]).replace(store, tied), width)
    if "next" in report:
        lines.append(f"next: {printable(report['next'])}")
    counted = _tied(counts(report["isolatedDiff"]))
    lines += ["", *_wrapped("Isolated diff: ", counted, width)] if report["workUnits"] else []
    lines += ["", *_table(report["workUnits"], width, (store, tied)), ""]
    for name, text in _facts(report):
        lines += _wrapped(f"  {name:<10} ", text, width)
    lines += _listed("Warnings", report.get("warnings", ()), width)
    lines += _listed("Projection", report.get("projectionResult", {}).get("warnings", ()), width)
    for title, key in (("Unresolved", "unresolved"), ("Unmapped", "unmapped")):
        left: Sequence[Mapping[str, Any]] = report.get(key, ())  # type: ignore[assignment]
        lines += _listed(title, [f"{one['rawPath']}: {one.get('reason', 'no reason given')}" for one in left], width)
    lines += _listed("Taken out as dangling", [_cut(one) for one in report.get("prunedReferences", ())], width)
    lines += _listed("Noticed", noticed(report["workUnits"]), width)
    lines += _listed("Damaged", [f"{p['where']}: {p['message']}" for p in report.get("problems", ())], width)
    return [*lines, *_trailer(report)]


def headline(report: Report) -> str:
    """`partial: 5 of 10 units landed on main as 1a2b3c4d5e6f, in 4.2 s`."""
    word = {"error": "failed"}.get(report.get("outcome", report["status"]), report.get("outcome", report["status"]))
    units = report["workUnits"]
    total = plural(len(units), "unit")
    landed = sum(unit["outcome"] in ("accepted", "subsumed") for unit in units)
    count = f"all {total}" if landed == len(units) > 1 else f"{landed} of {total}"
    took = f", in {duration(report['durationMs'])}" if "durationMs" in report else ""
    if "commitSha" in report:
        target = printable(report["target"].removeprefix("refs/heads/"))
        return f"{word}: {count} landed on {target} as {report['commitSha'][:12]}{took}"
    if not units:
        return f"{word}: nothing landed{took}" if word != "open" else word
    if all(unit["outcome"] in ("noop", "subsumed") for unit in units):
        return f"{word}: nothing to land, no unit changed anything{took}"
    count = count if landed else f"none of {total}"
    return f"{word}: {count} accepted, nothing landed{'' if word != 'open' else ' yet'}{took}"


def counts(isolated: ReportIsolatedDiff) -> str:
    """`1 textual conflict, 2 timed out, 4 accepted`: every outcome that some unit has and no other, what is in last."""
    found = _labelled(isolated, LABELS)
    for word, number in isolated.get("outcomes", {}).items():  # every unit is in one of the numbers
        if word not in COUNTED and word not in WAITING:
            found.append(f"{number} {word.replace('_', ' ')}")
    return ", ".join([*found, *_labelled(isolated, IN_LABELS)])


def _labelled(isolated: ReportIsolatedDiff, labels: Sequence[tuple[str, str, str]]) -> list[str]:
    found = ((isolated.get(key, 0), one, many) for key, one, many in labels)
    return [f"{number} {one if number == 1 else many}" for number, one, many in found if number]


def noticed(units: Sequence[ReportWorkUnit]) -> list[str]:
    """What units did beside their work: left running, touched outside, printed beyond measure; each only once."""
    found: dict[str, None] = {}
    for unit in units:
        told = [f"left running, ended: {stray}" for stray in unit.get("strays", ())]
        for one in unit.get("touched", ()):
            by = " or ".join(one.get("running", ())[:5]) or unit["key"]
            found.setdefault(f"{one['message']} while {by} ran{_undone(one)}")
        for name, lost in (("stdout", unit.get("stdoutCut")), ("stderr", unit.get("stderrCut"))):
            if lost is not None:
                told.append(f"{lost} bytes of its {name} are not in its log")
        found |= dict.fromkeys(f"{unit['key']}: {text}" for text in told)
    lines = [printable(text) for text in found]
    return lines if len(lines) <= NOTICED else [*lines[:NOTICED], f"and {len(lines) - NOTICED} more, see --json"]


def _undone(change: Mapping[str, Any]) -> str:
    return "; put back" if change.get("putBack") else ""


def duration(ms: float) -> str:
    """`850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`."""
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 99_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds:02d} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def _facts(report: Report) -> list[tuple[str, str]]:
    isolated = report["isolatedDiff"]
    found = [("target", f"{printable(report['target'])}, at {report['targetAtStart'][:12]} before")]
    if isolated.get("ingestionBaseSha", report["targetAtStart"]) != report["targetAtStart"]:
        projected = ", projected" if "projectionSha" in isolated else ""
        found.append(("base", f"{isolated['ingestionBaseSha'][:12]}{projected}"))
    if (report["connectionId"], report["sourceKey"]) != UNKNOWN_SOURCE:
        found.append(("source", printable(f"{report['connectionId']} / {report['sourceKey']}")))
    if "syncId" in report:
        found.append(("sync", printable(report["syncId"])))
    if "diffSummary" in report:
        found.append(("inputs", ", ".join(f"{_size(n)} {word}" for word, n in report["diffSummary"].items())))
    found.append(("started", report.get("startedAt", report["createdAt"])))
    return found


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list) else int(value)


def _rank(unit: ReportWorkUnit) -> tuple[int, int]:
    """Failures first, then what waits, then what is in; each in unit order."""
    word = unit["outcome"]
    return (2 if word in LANDED else 1 if word in (*WAITING, "skipped") else 0), unit["position"]


def _table(units: Sequence[ReportWorkUnit], width: int, tied: tuple[str, str]) -> list[str]:
    if not units:
        return ["No units."]
    keyed = max(4, min(KEY_WIDTH, max(_columns(printable(unit["key"])) for unit in units)))
    word = max(7, *(len(unit["outcome"]) for unit in units))
    lines = [f"{'#':>5}  {'unit':<{keyed}}  {'outcome':<{word}}  reason"]
    for unit in sorted(units, key=_rank):
        key, said = printable(unit["key"]), unit["outcome"].replace("_", " ")
        shown = key + " " * (keyed - _columns(key)) if _columns(key) <= keyed else key
        lead = f"{unit['position']:>5}  {shown}  {said:<{word}}  "
        if _columns(key) > keyed:  # a long key has a line of its own
            lines += _wrapped(f"{unit['position']:>5}  ", key, width)
            lead = " " * (9 + keyed) + f"{said:<{word}}  "
        lines += _wrapped(lead, unit["reason"].replace(*tied) + _paths(unit) + _why(unit) + _left_out(unit), width)
    return lines


def _paths(unit: ReportWorkUnit) -> str:
    """Which paths an accepted unit changed, where they are few."""
    few = unit["reason"] == plural(unit["pathCount"], "path") and 0 < unit["pathCount"] <= PATHS_NAMED
    return f": {', '.join(printable(item['path']) for item in unit['paths'])}" if few else ""


def _why(unit: ReportWorkUnit) -> str:
    """Why an ingestion ran the unit: the raw files that changed."""
    reasons = unit.get("why", ())
    more = f" and {len(reasons) - WHYS_NAMED} more" if len(reasons) > WHYS_NAMED else ""
    return f" ({', '.join(map(printable, reasons[:WHYS_NAMED]))}{more})" if reasons else ""


def _cut(one: Mapping[str, Any]) -> str:
    """`wiki/global/p.md: code span mart.gone`: what `onConflict: prune` took out of somebody's text."""
    what = {"inline": "code span", "sl_ref": "sl_refs entry", "ref": "refs entry", "table": "tables entry"}
    return f"{one.get('artifact')}: {what.get(str(one.get('kind')), one.get('kind'))} {one.get('removedRef')}"


def _left_out(unit: ReportWorkUnit) -> str:
    """What the policy's patterns kept out of the unit's change."""
    account = unit.get("leftOut")
    return f"; left out: {counted(account, 'file')}" if account is not None else ""


def _listed(title: str, texts: Sequence[str], width: int) -> list[str]:
    if not texts:
        return []
    lines = [line for text in texts for line in _wrapped("  - ", printable(text), width)]
    return ["", f"{title}: {plural(len(texts), 'line')}", *lines]


def _trailer(report: Report) -> list[str]:
    lines = ["", f"Trace: {printable(report['tracePath'])}"]
    kept = [unit["worktreePath"] for unit in report["workUnits"] if "worktreePath" in unit]
    if kept:
        lines.append(f"Kept: {plural(len(kept), 'worktree')}, the first is {printable(kept[0])}")
    return lines


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _wrapped(lead: str, text: str, width: int) -> list[str]:
    """`lead`, then the words of `text`, in lines of at most `width` columns; later ones start below the text.

    A word that is longer than a line is cut, but for a path: that is to be copied, and a terminal breaks it well.
    """
    indent = min(_columns(lead), width - 24)
    lines, line, used = [], lead, _columns(lead)
    fresh = True  # nothing of the text in this line yet
    for word in [piece for whole in text.split() for piece in _pieces(whole, width - indent)]:
        size = _columns(word)
        if used + (0 if fresh else 1) + size > width and (not fresh or used > indent):
            lines.append(line.rstrip())
            line, used, fresh = " " * indent, indent, True
        line += word if fresh else f" {word}"
        used += size if fresh else size + 1
        fresh = False
    return [made.replace(TIE, " ") for made in (*lines, line.rstrip())]


def _tied(text: str) -> str:
    """A list whose items are not broken over lines."""
    return ", ".join(item.replace(" ", TIE) for item in text.split(", "))


def _pieces(word: str, room: int) -> list[str]:
    """A word, cut where it is wider than `room` columns; an absolute path is never cut."""
    if word.lstrip("(['\"").startswith("/"):
        return [word]
    found, piece, used = [], "", 0
    for char in word:
        size = _columns(char)
        if used + size > room:
            found.append(piece)
            piece, used = "", 0
        piece += char
        used += size
    return [*found, piece]
