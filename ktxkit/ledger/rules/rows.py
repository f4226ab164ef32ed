"""Answers: a question, three-valued where it has a yes or no, always with the rows that support it (contract `answer`).

Absent facts are absent keys. `unknown` never collapses into `false`: an absence is only asserted where all that could
show the contrary was read.

Runs as rows of answers and as sentences.

A run's results in columns: a question about a whole run reads these few, not a row for each of its tests.

A place in a run is one number: the test's, and below it in 32 bits the occurrence. Times are whole microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import compress
from operator import ne, sub
from typing import TYPE_CHECKING, Any, Literal, cast

from ktxkit.base.rules.text import printable

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, RunRecord

Verdict = Literal["true", "false", "unknown"]
Row = dict[str, Any]
BAD = ("failed", "error", "crashed")  # outcomes of a test that did not hold
CELL_SHOWN = 100  # characters of a value in a table
WHOLE_SHOWN = 2000  # characters of one that has lines of its own
NAMES = ("run", "job", "unit", "what", "word")  # they stay in the row, unless they are half of it
WHOLE = ("test", "source", "rawPath", "artifact", "fixture")  # to be copied
WIDTH = 80  # columns
GAP = "  "


def answer(
    question: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    subject: Sequence[str] = (),
    project: str = "",
    verdict: Verdict | None = None,
    reason: str = "",
    facts: Mapping[str, Any] | None = None,
) -> LedgerAnswer:
    """The document. Keys without a value are left out."""
    made = cast("LedgerAnswer", {"schemaVersion": 1, "kind": "answer", "question": question})  # the rows come last
    if subject:
        made["subject"] = list(subject)
    if project:
        made["project"] = project
    if verdict is not None:
        made["verdict"] = verdict
    if reason:
        made["reason"] = reason
    known = {key: value for key, value in (facts or {}).items() if value is not None}
    if known:
        made["facts"] = known
    made["rows"] = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return made


def lines(document: LedgerAnswer, columns: Sequence[str] = (), width: int = WIDTH) -> list[str]:
    """An answer for people: verdict and facts, then the rows as a table of `columns`. `width` is the screen's."""
    said = [f"verdict: {document['verdict']}"] if "verdict" in document else []
    facts = dict(document.get("facts", {}))
    derivation = facts.pop("derivation", None)
    for key, value in facts.items():
        said += wrapped(f"{key}: {_shown(key, value, WHOLE_SHOWN)}", width, 2)
    if "reason" in document:
        said += wrapped(printable(document["reason"]), width)
    if derivation is not None:
        return [*said, *([""] if said else []), *tree(derivation, width)]
    rows = document["rows"]
    if rows:
        said += [*([""] if said else []), *table(rows, columns or list(rows[0]), width)]
    return said or ["nothing recorded"]


def outcome(document: LedgerAnswer) -> str:
    """The word of an answer: runs that cannot be compared are refused; a list without what is damaged is not whole."""
    if document["question"] == "compare" and str(document.get("reason")).startswith("not comparable"):
        return "refused"
    return "broken_contract" if "damaged" in document.get("facts", {}) else "done"


def tree(node: Mapping[str, Any], width: int = WIDTH, depth: int = 0) -> list[str]:
    """A derivation, indented: each goal with its verdict, what it follows from, and at the leaves the rows."""
    lead = "  " * depth
    said = [lead + line for line in wrapped(f"{node['verdict']}: {printable(node['goal'])}", width - len(lead), 4)]
    for below in node.get("because", ()):
        said += tree(below, width, depth + 1)
    rows = node.get("rows", ())
    if rows:
        lead += "  "
        keys = list(dict.fromkeys(key for row in rows for key in row))
        said += [lead + line for line in table(rows, keys, width - len(lead))]
    return said


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], width: int = WIDTH) -> list[str]:
    """Rows in columns; a column that no row has is left out.

    Where they do not fit, the widest columns are said below each row, in whole words: an id that is longer than the
    screen stays in one piece, to be copied.
    """
    kept = list(rows)
    used = [column for column in columns if any(_shown(column, row.get(column)) for row in kept)]
    widths = {column: max(len(column), *(len(_shown(column, row.get(column))) for row in kept)) for column in used}
    below: list[str] = []
    while len(widths) > 1 and sum(widths.values()) + len(GAP) * (len(widths) - 1) > width:
        below.append(
            max(widths, key=lambda column: (column not in NAMES or widths[column] > width // 2, widths[column]))
        )
        del widths[below[-1]]
    said = [_line({column: column for column in widths}, widths)]
    for row in kept:
        said.append(_line({column: _shown(column, row.get(column)) for column in widths}, widths))
        for column in (column for column in used if column in below):
            text = _shown(column, row.get(column), WHOLE_SHOWN)
            if text:
                told = f"{column}: {text}"
                said += [f"    {line}" for line in ([told] if column in WHOLE else wrapped(told, width - 4, 2))]
    return said


def _line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return GAP.join(cells[column].ljust(width) for column, width in widths.items()).rstrip()


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Lines of whole words, later ones indented; a text with a word that fits no line stays in one piece."""
    if len(text) <= width or any(len(word) + indent > width for word in text.split()):
        return [text]
    import textwrap

    return textwrap.wrap(
        text, max(width, 20), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


SECONDS = frozenset(
    {"total", "setup", "call", "teardown", "wall", "longest", "was", "now", "delta", "noise", "seconds", "testSeconds"}
)  # keys whose numbers are durations


def duration(seconds: float) -> str:
    """Seconds as people read them: `340 us`, `12 ms`, `3.21 s`, `2 min 05 s`, `1 h 02 min`."""
    size, sign = abs(seconds), "-" if seconds < 0 else ""
    if size < 60:
        unit, factor = ("s", 1.0) if size >= 1 else ("ms", 1e3) if size >= 0.001 or not size else ("us", 1e6)
        return f"{sign}{size * factor:.3g} {unit}" if unit != "s" or size < 10 else f"{sign}{size:.1f} s"
    minutes, rest = divmod(round(size), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours} h {minutes:02d} min" if hours else f"{sign}{minutes} min {rest:02d} s"


def _shown(key: str, value: Any, limit: int = CELL_SHOWN) -> str:
    """A value of a key, as people read it."""
    if key in SECONDS and isinstance(value, float):
        return duration(value)
    if key in SECONDS and isinstance(value, list | tuple):
        return ", ".join(_shown(key, one, limit) for one in value)
    return _cell(value, limit)


def _cell(value: Any, limit: int = CELL_SHOWN) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{3 if abs(value) >= 1 else 6}f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_inner(item, limit)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_inner(item, limit) if isinstance(item, Mapping) else _cell(item, limit) for item in value)
    text = printable(str(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _inner(value: Any, limit: int) -> str:
    """A value inside another one: an object, and a list of objects, show where they end."""
    if isinstance(value, Mapping):
        return f"{{{_cell(value, limit)}}}"
    objects = isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)
    return f"[{_cell(value, limit)}]" if objects else _cell(value, limit)


WORDS = (
    ("passed", "passed"), ("failed", "failed"), ("errors", "errors"), ("crashed", "crashed"), ("skipped", "skipped"),
    ("xfailed", "xfailed"), ("xpassed", "xpassed"), ("interrupted", "interrupted"), ("running", "running"),
    ("notRun", "never ran"), ("collectionErrors", "not collected"),
)  # fmt: skip


def run_row(record: RunRecord, source: str, what: str = "") -> Row:
    """A run in one row. `wall` is seconds."""
    tree = record.get("tree", {})
    return {
        "what": what or None,
        "run": record["run"],
        "started": record.get("startedAt"),
        "finished": record.get("finishedAt"),
        "scope": record["scope"]["kind"],
        "paths": record["scope"].get("paths"),
        "why": record["scope"].get("why"),
        "state": record["state"],
        "verdict": "passed: none ran" if none_ran(record) else record["verdict"],
        "tests": tally(record["counts"]),
        "counts": record["counts"],
        "wall": record.get("wallSeconds"),
        "trigger": record.get("trigger"),
        "authoritative": record.get("authoritative"),
        "against": record.get("against"),
        "commit": tree.get("commit"),
        "tree": tree.get("tree"),
        "dirty": tree.get("dirty"),
        "exitStatus": record.get("exitStatus"),
        "signal": record.get("signal"),
        "source": source,
    }


RAN = ("xpassed", "xfailed", "failed", "errors", "crashed", "unknown")


def tally(counts: Mapping[str, Any]) -> str:
    """`118 passed, 2 failed of 120`."""
    parts = [f"{counts[key]} {word}" for key, word in WORDS if counts.get(key)]
    of = f" of {counts['selected']}" if "selected" in counts else ""
    return (", ".join(parts) or "none ran") + of


def none_ran(record: RunRecord) -> bool:
    """Whether a run passed in which every test was skipped: it shows nothing of the code."""
    return record["verdict"] == "passed" and not any(record["counts"].get(word) for word in ("passed", *RAN))


def passed(record: RunRecord | None) -> Verdict:
    """Whether a run passed: only a finished run with status 0 did, in which a test ran; one that is known to have
    failures did not."""
    if record is None or none_ran(record):
        return "unknown"
    words: dict[str, Verdict] = {"passed": "true", "failed": "false"}
    return words.get(record["verdict"], "unknown")


def why_unknown(record: RunRecord) -> str:
    """Why it is not known whether a run passed; empty where it is."""
    if none_ran(record):
        return "no test ran: each was skipped"
    return "" if passed(record) != "unknown" else f"it is {record['state']}: whether its tests pass is not known"


def not_comparable(run: RunRecord, other: RunRecord) -> list[Row]:
    """What two runs differ in that makes comparing them meaningless: scope, environment, workers and scheduling."""
    pairs: Sequence[tuple[str, Any, Any]] = [
        ("scope", _scope(run), _scope(other)),
        *((f"environment.{key}", a, b) for key, a, b in _environments(run, other)),
        ("workers", run.get("workers"), other.get("workers")),
        ("scheduling", run.get("scheduling"), other.get("scheduling")),
    ]
    return [{"differs": key, "first": _plain(a), "second": _plain(b)} for key, a, b in pairs if a != b]


def _scope(record: RunRecord) -> str:
    scope = record["scope"]
    return " ".join([scope["kind"], *scope.get("paths", []), *scope.get("why", [])])


def _environments(one: RunRecord, other: RunRecord) -> list[tuple[str, Any, Any]]:
    first: Mapping[str, Any] = one.get("environment", {})
    second: Mapping[str, Any] = other.get("environment", {})
    keys = sorted((set(first) | set(second)) - {"digest"})
    found = [(key, first.get(key), second.get(key)) for key in keys]
    if all(a == b for _, a, b in found) and first.get("digest") != second.get("digest"):
        found.append(("digest", first.get("digest"), second.get("digest")))
    return found


def _plain(value: Any) -> Any:
    return "(not recorded)" if value is None else value


NO_VERDICT = 255  # of an attempt that was retried
SHIFT = 32
NARROW, WIDE = "I", "q"  # of four and of eight bytes
Change = tuple[int, int, int]  # place, before, after


class Columns:
    """What each attempt came to, ordered by place: `places`, `verdicts` (codes below 255) and `totals`."""

    __slots__ = ("places", "totals", "verdicts")

    def __init__(self, places: Sequence[int], verdicts: bytes, totals: Sequence[int]) -> None:
        self.places, self.verdicts, self.totals = places, verdicts, totals

    def only(self, marks: Iterable[bool]) -> Columns:
        """Those that are marked."""
        mask = list(marks)
        places, totals = (array(WIDE, compress(column, mask)) for column in (self.places, self.totals))
        return Columns(places, bytes(compress(self.verdicts, mask)), totals)

    def judged(self) -> Columns:
        """Those with a verdict: one for each place."""
        return self if NO_VERDICT not in self.verdicts else self.only(code != NO_VERDICT for code in self.verdicts)

    def slowest(self, limit: int) -> tuple[int, set[int]]:
        """What the last of the `limit` slowest attempts took, and the tests with one that took as long or longer."""
        least = min(nlargest(limit, self.totals), default=0)
        return least, {place >> SHIFT for place, us in zip(self.places, self.totals, strict=True) if us >= least}


def packed(positions: Sequence[int], codes: bytes, totals: Sequence[int]) -> tuple[bytes, bytes, bytes]:
    """The columns as they are kept, of attempts in any order; those of one place stay in theirs."""
    if positions != sorted(positions):
        order = sorted(range(len(positions)), key=positions.__getitem__)
        positions, totals = ([column[number] for number in order] for column in (positions, totals))
        codes = bytes(codes[number] for number in order)
    small = min(totals, default=0) >= 0 and max(totals, default=0) < 1 << 32
    return array(WIDE, positions).tobytes(), codes, array(NARROW if small else WIDE, totals).tobytes()


def unpacked(positions: bytes, verdicts: bytes, totals: bytes) -> Columns:
    kind = NARROW if len(totals) == 4 * len(verdicts) else WIDE
    return Columns(array(WIDE, positions), verdicts, array(kind, totals))


class Changes:
    """From one run to another, of what both have a verdict of: the changed verdicts, and the `limit` largest
    differences in time; `gone` and `come` are the tests of which one run has an occurrence that the other lacks."""

    __slots__ = ("come", "gone", "slower", "verdicts")

    def __init__(self, first: Columns, second: Columns, limit: int) -> None:
        one, two = first.judged(), second.judged()
        self.gone: set[int] = set()
        self.come: set[int] = set()
        if one.places != two.places:
            here, there = set(one.places), set(two.places)
            self.gone = {place >> SHIFT for place in here - there}
            self.come = {place >> SHIFT for place in there - here}
            one = one.only(place in there for place in one.places)
            two = two.only(place in here for place in two.places)
        self.verdicts: list[Change] = []
        if one.verdicts != two.verdicts:
            triples = zip(one.places, one.verdicts, two.verdicts, strict=True)
            self.verdicts = list(compress(triples, map(ne, one.verdicts, two.verdicts)))
        self.slower = _slower(one, two, limit)


def _slower(one: Columns, two: Columns, limit: int) -> list[Change]:
    """The largest differences; of those alike, the first places."""
    apart = list(map(abs, map(sub, two.totals, one.totals)))
    most = nlargest(limit, range(len(apart)), key=apart.__getitem__)
    return [(one.places[number], one.totals[number], two.totals[number]) for number in most]
