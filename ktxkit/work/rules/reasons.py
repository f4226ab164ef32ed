"""Why a unit has its outcome, in the sentence that a person needs: what went wrong, where, and against whom.

What a command printed is handed in as text; nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable, truncated

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import Lease, Patch, Receipt, Sentinel, UnitActions, UnitResult, WorkUnit

    class UnitFiles(TypedDict, total=False):
        """Where the files of a unit are."""

        patchPath: str
        worktreePath: str
        sentinelPath: str


REASON_KEPT = 2000  # characters
LINES_SAID = 3  # last lines of an output that a reason repeats
LINE_KEPT = 200  # characters of each
NOT_FOUND = 127  # status of a shell that did not find the command. Source: POSIX, 2.8.2
CLASHES: Final = {  # kinds of git's merge: what the other side did. Source: git-merge-tree(1), stable short types
    "contents": "changed the same lines",
    "modify/delete": "deleted it",
    "add/add": "added it too, with other content",
    "binary": "changed it too, and it is binary",
}
BOTH: Final = {  # the same, of two sides of which neither is the unit
    "contents": "both sides changed the same lines",
    "modify/delete": "one side changed it, the other deleted it",
    "add/add": "both sides added it, with other content",
    "binary": "both sides changed it, and it is binary",
}
SETUP_FAILED = "setup ended with status "  # `job_file.SET_UP` says it, below what the setup printed
MISSING = re.compile(r"(?:^|[: ])([^\s:]+): (?:command )?not found\s*$|env: .(\S+?).: No such file", re.MULTILINE)
QUESTION = re.compile(r"(?:\[y(?:es)?/n(?:o)?\]|\(y(?:es)?/n(?:o)?\)|\?|password[^:]*:)[\s:>]*\Z", re.IGNORECASE)
NO_INPUT = re.compile(r"EOFError: EOF when reading a line|Inappropriate ioctl for device|stdin is not a t")


TRACEBACK = "Traceback (most recent call last)"  # of Python


class UnitOutput(NamedTuple):
    """The ends of what a unit's command printed."""

    out: str = ""
    err: str = ""


class UnitDocs(NamedTuple):
    """The documents of one unit, each None where there is none, and where its files are."""

    position: int
    key: str
    after: Sequence[str] = ()
    lease: Lease | None = None
    patch: Patch | None = None
    receipt: Receipt | None = None
    sentinel: Sentinel | None = None
    result: UnitResult | None = None
    broken: str = ""  # a document of it that cannot be read, and why
    files: UnitFiles = cast("UnitFiles", {})  # those that exist
    printed: UnitOutput = UnitOutput()
    work: WorkUnit | None = None  # what its worker was told, of an ingestion
    actions: UnitActions | None = None  # and what it says that it did
    rivals: Mapping[str, Sequence[str]] = {}  # by path: the units before it that changed the path and were accepted


def reason_of(docs: UnitDocs, outcome: str, left: Mapping[str, str]) -> str:
    """Why, in one sentence."""
    receipt, patch = docs.receipt, docs.patch
    said = docs.broken or _of_findings(receipt, outcome) or _of_conflicts(docs) or _of_breaches(receipt, patch)
    said = said or (receipt.get("message", "") if receipt else "")
    if not receipt:  # what stopped an earlier attempt explains nothing once the unit has its receipt
        said = said or _of_command(docs, outcome, left.get("message", ""))
    again = f" ({left['again']})" if left.get("again") else ""
    return truncated(printable((said or _plain_reason(docs, outcome)) + again), REASON_KEPT)


def last_lines(text: str, count: int = LINES_SAID) -> str:
    """The last lines of an output that say something, as one line; empty where there are none."""
    lines = [line.strip() for line in text.splitlines()[-50:] if line.strip()]
    return " | ".join(truncated(printable(line), LINE_KEPT) for line in lines[-count:])


def question(printed: UnitOutput) -> str:
    """The question that a command asked with nobody to answer it; empty where it asked none."""
    for text in (printed.out, printed.err):
        if QUESTION.search(text) and not text.endswith("\n"):  # a prompt leaves the cursor behind it
            return last_lines(text, 1)
    if NO_INPUT.search(printed.err):
        waiting = [text for text in (printed.out, printed.err) if text.strip() and not text.endswith("\n")]
        return last_lines(waiting[0], 1) if waiting else "(it printed no question)"
    return ""


def _of_command(docs: UnitDocs, outcome: str, message: str) -> str:
    """How the command ended, and what it said last: a status alone sends everybody to the log."""
    result, printed = docs.result, docs.printed
    ended = message or _of_result(result)
    own = bool(ended) and ended == _of_result(result)  # and not what became of a later step
    if result is None or not own or outcome in ("interrupted", "skipped"):
        return ended
    if result["outcome"] == "not_started":
        hint = f"command not found: {result['argv'][0]} (units see what is committed, and nothing else)"
        if ended.endswith("Exec format error"):
            return f"{result['argv'][0]} cannot be started: its first line is no #! line that names what runs it"
        return hint if ended.endswith("No such file or directory") else ended
    missing = MISSING.search(printed.err) if result.get("exitStatus") == NOT_FOUND else None
    if missing:
        where = "its setup: " if SETUP_FAILED in printed.err else ""
        return f"{where}command not found: {missing[1] or missing[2]}"
    asked = question(printed)
    if asked:
        return f"it asked a question of a closed stdin: {asked}"
    count = 1 if TRACEBACK in printed.err else LINES_SAID  # its last line is the error, those above are the way to it
    last = last_lines(printed.err, count) or last_lines(printed.out)
    if last:
        return f"{ended}: {last}" if result["outcome"] == "failed" else f"{ended}; it said last: {last}"
    return f"{ended} and printed nothing" if "exitStatus" in result and "stdout" in result else ended


def _of_findings(receipt: Receipt | None, outcome: str) -> str:
    found = receipt.get("findings", ()) if receipt else ()
    new = [f for f in found if f.get("level") == "error" and not f.get("inherited")]
    if outcome != "semantic_conflict" or not new:
        return ""
    place = ":".join(str(new[0][key]) for key in ("path", "line") if key in new[0])
    return f"{place}: {new[0].get('message', new[0].get('rule', ''))}{_more(new)}"


def _of_conflicts(docs: UnitDocs) -> str:
    found = docs.receipt.get("conflicts", ()) if docs.receipt else ()
    if not found:
        return ""
    path, kind = found[0]["path"], found[0]["reason"]
    who = docs.rivals.get(path, ())
    if kind not in CLASHES:
        by = f" ({_named(who)} touched it first)" if who else ""
        return f"{path}: {kind}{by}{_more(found)}"
    deletes = docs.patch is not None and any((p["path"], p["change"]) == (path, "deleted") for p in docs.patch["paths"])
    did = "changed what this deletes" if kind == "modify/delete" and deletes else CLASHES[kind]
    if who:
        first = "was accepted first" if len(who) == 1 else "were accepted first"
        return f"{path}: {_named(who)} {did} and {first}{_more(found)}"
    return f"{path}: the target {did} since this unit began{_more(found)}"


def _named(keys: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    if len(keys) > 3:
        return f"{', '.join(keys[:2])} and {len(keys) - 2} more"
    return " and ".join(filter(None, (", ".join(keys[:-1]), keys[-1])))


def _of_breaches(receipt: Receipt | None, patch: Patch | None) -> str:
    found = (receipt.get("breaches") if receipt else None) or (patch.get("breaches") if patch else None) or ()
    if not found:
        return ""
    path, message = found[0]["path"], found[0]["message"]
    said = message if path in re.split(r"[\s:,]+", message) else f"{path}: {message}"
    return f"{said} (rule {found[0]['rule']}){_more(found)}"


def _of_result(result: UnitResult | None) -> str:
    if not result or result["outcome"] == "finished":
        return ""
    if result.get("message"):
        return str(result["message"])
    if result["outcome"] == "failed" and "exitStatus" in result:
        status = result["exitStatus"]
        return f"its command was ended by signal {-status}" if status < 0 else f"its command ended with status {status}"
    return ""


def _more(found: Sequence[Any]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _plain_reason(docs: UnitDocs, outcome: str) -> str:
    count = len(docs.patch["paths"]) if docs.patch else 0
    known = {
        "noop": _nothing(docs),
        "subsumed": "what it changed was there already",
        "pending": "not started",
        "open": "its worktree is open",
        **{word: _closed(docs) for word in ("crash", "conflict", "closed")},
        "finished": "its command ended; not collected yet",
        "collected": f"{plural(count, 'path')} collected, not applied yet",
        "accepted": plural(count, "path") if docs.patch else "applied",
    }
    return known.get(outcome, outcome.replace("_", " "))


def _nothing(docs: UnitDocs) -> str:
    """A unit without a change; its work may lie in the stash, which all worktrees share."""
    changes = docs.result.get("touched", ()) if docs.result is not None else ()
    if any(item["what"].startswith("stash ") for item in changes):
        return "it changed nothing; the shared stash changed while it ran: `git stash list` shows it"
    asked = question(docs.printed)
    return f"it changed nothing; it asked a question of a closed stdin: {asked}" if asked else "it changed nothing"


def _closed(docs: UnitDocs) -> str:
    why = docs.sentinel.get("reason", "") if docs.sentinel else ""
    outcome = docs.lease.get("outcome", "closed") if docs.lease else "closed"
    return f"its worktree was closed as {outcome}{f': {why}' if why else ''}"


def first_obstacle(receipt: Receipt) -> str:
    """The first thing that kept a patch out, and where."""
    for clash in receipt["conflicts"]:
        return f"{clash['path']}: {BOTH.get(clash['reason'], clash['reason'])}"
    for breach in receipt.get("breaches", ()):
        return f"{breach['path']}: {breach['message']} ({breach['rule']})"
    for found in receipt["findings"]:
        return f"{found.get('path', '')}: {found.get('message', '')}"
    return receipt["outcome"].replace("_", " ")
