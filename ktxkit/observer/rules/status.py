"""The one leased attempt that an observer watches, and whether it still is the current one.

Path or branch names are no ownership: the tuple is. Anything outside of it is inert, whatever it writes.

What a person is told of an attempt: four lines, and the next safe action. Names are escaped, content never shown.

Several worktrees on one screen of 80 columns, or one in its five lines; and what of it is worth a plain line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.base.rules.text import plural, printable

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import (
        ActivityRecord,
        HeldPaths,
        Lease,
        ObserverDomain,
        ObserverStatus,
        ObserverStatusActivity,
        ObserverStatusAuthority,
        ObserverStatusJournal,
        ObserverStatusLateWrites,
        ObserverStatusNext,
        ObserverStatusObserver,
        ObserverStatusProven,
    )

    class ObserverClocks(TypedDict):
        """The part of a status that tells of both clocks."""

        authority: ObserverStatusAuthority
        activity: ObserverStatusActivity
        proven: ObserverStatusProven
        observer: ObserverStatusObserver
        lateWrites: ObserverStatusLateWrites
        suspectSince: NotRequired[str]
        problem: NotRequired[str]


KEYS: Final = (
    "jobId", "unitKey", "leaseId", "generation", "attempt", "fence", "leaseEpoch", "processEpoch", "worktreeId",
    "path", "pathB64", "adminDir", "adminDirB64", "device", "inode", "birthTimeNs", "nonce",
)  # fmt: skip
_SAME_LEASE: Final = ("leaseId", "nonce", "generation", "attempt")
_SAME_ROOT: Final = ("device", "inode", "path")


class LeaseValidity(Enum):
    """What the lease on the disk says about an observer's tuple. The value is the reason code in documents."""

    CURRENT = "current"
    STALE_OBSERVER = "stale_observer_epoch"  # a later observer, or a later process of the unit, has taken over
    REVOKED = "lease_revoked"  # the lease is closed or its fence moved on: what is written now is late
    SUPERSEDED = "lease_superseded"  # another attempt has this very worktree: its bytes are not ours to judge


def domain_of(lease: Lease, observer_epoch: int) -> ObserverDomain:
    """The tuple, as it stands in every record."""
    epochs = {"processEpoch": lease.get("processEpoch", 1), "observerEpoch": observer_epoch}
    return cast("ObserverDomain", {key: lease[key] for key in KEYS if key in lease} | epochs)


def lease_validity(domain: Mapping[str, Any], lease: Lease | None) -> LeaseValidity:
    """Of a tuple, by the lease as it is now (None: there is none any more)."""
    if lease is None:
        return LeaseValidity.REVOKED
    if any(domain.get(key) != lease.get(key) for key in _SAME_LEASE):
        same_root = all(domain.get(key) == lease.get(key) for key in _SAME_ROOT)
        return LeaseValidity.SUPERSEDED if same_root else LeaseValidity.REVOKED
    moved_on = domain["fence"] != lease["fence"] or domain["leaseEpoch"] != lease["leaseEpoch"]
    if lease["state"] == "closed" or moved_on:
        return LeaseValidity.REVOKED
    newer = lease.get("observer", {}).get("epoch", 0) > domain["observerEpoch"]
    if newer or lease.get("processEpoch", 1) != domain["processEpoch"]:
        return LeaseValidity.STALE_OBSERVER
    return LeaseValidity.CURRENT


REOPEN_HINT = "to go on, open it again with worktree-open"
SHOWN = 3  # paths of a change in a line
_VERBS = {
    "create": "creating", "delete": "deleting", "content-change": "writing", "mode-change": "changing the mode of",
    "symlink-target-change": "pointing elsewhere", "gitlink-change": "moving the submodule",
    "atomic-replacement": "replacing",
}  # fmt: skip


def span(milliseconds: int) -> str:
    """A length of time as a person says it: `0s`, `850ms`, `292s`, `20m10s`, `2h05m`."""
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    seconds = milliseconds // 1000
    if seconds < 1000:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def size(count: int) -> str:
    """A byte delta with its sign: `+18 KiB`."""
    sign, amount = ("-", -count) if count < 0 else ("+", count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 10_000 or unit == "GiB":
            return f"{sign}{amount} {unit}"
        amount //= 1024
    raise AssertionError("GiB is the last")


def lines(status: ObserverStatus) -> list[str]:
    """The text form of an `observer-status` document."""
    return [
        f"Worktree activity: {_activity(status['activity'])}",
        f"Proven progress: {_proven(status['proven'])}",
        f"Deadlines: {_deadlines(status)}",
        f"Observer: {_observer(status)}",
        *_journal(status["journal"]),
        f"Next: {_next(status['next'])}",
    ]


def _journal(found: ObserverStatusJournal) -> list[str]:
    """A line where something of it was lost, or cannot be trusted."""
    if found.get("problem"):
        return [f"Journal: segment {found['segment']} cannot be trusted ({found['problem'].replace('_', ' ')})"]
    lost = found.get("lost")
    if not lost:
        return []
    when = "found by this look" if lost.get("foundNow") else f"found {lost['at']}"
    what = f"segment {lost['segment']} was lost ({lost['why'].replace('_', ' ')}), {when}"
    return [f"Journal: {what}; segment {found['segment']} claims nothing of the time before"]


def clock_facts(clocks: ObserverClocks) -> dict[str, str]:
    """What a report says of a unit's two clocks, by name; no length of time, since it is read whenever."""
    activity, proven, observer = clocks["activity"], clocks["proven"], clocks["observer"]
    undated = activity.copy()
    undated.pop("agoMs", None)
    seen = f"{activity.get('at', '')} {_activity(undated)}".strip()
    proof = printable(f"{proven.get('at', '')} seq={proven['proofSeq']} {proven.get('what', 'receipt')}".strip())
    made = {
        "activity": seen,
        "progress": proof if proven["proofSeq"] else "none: no receipt proved any",
        "health": f"{observer['mode']} {observer['health']}{_because(observer)}",
        "looked": observer.get("lastReconcileAt", ""),
        "suspect": clocks.get("suspectSince", ""),
        "authority": clocks["authority"],
        "problem": clocks.get("problem", ""),
    }
    if clocks["lateWrites"]["count"]:
        kept = "quarantined" if clocks["lateWrites"]["quarantined"] else "kept"
        made["late"] = f"{plural(clocks['lateWrites']['count'], 'record')}, {kept}"
    return {name: text for name, text in made.items() if text}


def _activity(found: Mapping[str, Any]) -> str:
    if not found["contentSeq"]:
        return "none observed since the baseline"
    what = _changes(found)
    why = "" if found["counted"] else f", defers nothing ({found['reason'].replace('_', ' ')})"
    when = f", {_ago(found)}" if "agoMs" in found else ""
    return f"observed/unproven seq={found['contentSeq']} {what} ({size(found['byteDelta'])}{when}){why}"


def _changes(found: Mapping[str, Any]) -> str:
    shown = found.get("changes", [])
    if not shown:
        return f"{plural(found['changedCount'], 'path')} changed"
    first = shown[0]
    same = [item["path"] for item in shown if item["operation"] == first["operation"]][:SHOWN]
    rest = found["changedCount"] - len(same)
    named = ", ".join(printable(path) for path in same)
    return f"{_VERBS[first['operation']]} {named}{f' and {rest} more' if rest > 0 else ''}"


def _ago(found: Mapping[str, Any]) -> str:
    return f"{span(found['agoMs'])} ago" if "agoMs" in found else "at an unknown time"


def _proven(found: ObserverStatusProven) -> str:
    if not found["proofSeq"]:
        return "none yet"
    return f"proven seq={found['proofSeq']} {printable(found.get('what', 'receipt'))} ({_ago(found)})"


def _deadlines(status: ObserverStatus) -> str:
    found = status["deadlines"]
    if status["authority"] != "current":
        return f"over: the attempt's authority is {status['authority']}"
    if "baseline" not in status and not status["journal"].get("problem"):
        return "none yet: nobody has looked; the first look takes the baseline"
    if "suspectInMs" not in found:
        return "unknown: the record of progress was lost; only new proof starts a new window"
    proof = _until("proof deadline", found["proofInMs"])
    used = f"observed-only extension {span(found['capConsumedMs'])} / {span(found['capMs'])} cap"
    if status["verdict"] == "suspect":
        end = f"SUSPECT for {span(-found['suspectInMs'])}"
    elif found["suspectInMs"] <= 0:
        end = "passed, and not judged yet"
    else:
        end = f"suspect in {span(found['suspectInMs'])}"
    return f"{proof}; {used}; {end}"


def _until(what: str, milliseconds: int) -> str:
    return f"{what} in {span(milliseconds)}" if milliseconds > 0 else f"{what} passed {span(-milliseconds)} ago"


def _observer(status: ObserverStatus) -> str:
    found = status["observer"]
    parts = [f"{found['mode']} {found['health']}{_because(found)}"]
    if "lastReconcileAgoMs" in found:
        parts.append(f"scanned {span(found['lastReconcileAgoMs'])} ago")
    if "unstable" in found:
        parts.append(f"{plural(found['unstable']['count'], 'path')} changing while read")
    if found.get("holds", {}).get("count"):
        parts.append(f"{plural(found['holds']['count'], 'path')} held ({_reasons(found['holds'])})")
    parts.append(_churn(found))
    if "process" in status:
        alive = status["process"]
        what = f"{plural(alive['count'], 'process', 'processes')} alive" if alive["alive"] else "no process alive"
        parts.append(f"{what}, {span(alive['cpuMs'])} CPU" if alive["alive"] else what)
    return "; ".join(parts)


def _because(found: ObserverStatusObserver) -> str:
    return f" ({found['reason']})" if found.get("reason") else ""


def _reasons(holds: HeldPaths) -> str:
    return ", ".join(sorted({item["reason"] for item in holds["paths"]}))


def _churn(found: ObserverStatusObserver) -> str:
    if "churn" not in found:
        return "ignored churn not counted (nobody watches)"
    counted = {reason: item for reason, item in found["churn"].items() if item["count"] or item.get("atLeast")}
    if not counted:
        return "no ignored churn"
    told = [
        f"{reason.removeprefix('volatile_')}={item['count']}{'+' if item.get('atLeast') else ''}"
        for reason, item in sorted(counted.items())
    ]
    return f"ignored churn {' '.join(told)}"


def _next(found: ObserverStatusNext) -> str:
    return f"{found['action']}: {found['command']}" if "command" in found else str(found["action"])


def next_action(status: ObserverStatus, who: str) -> ObserverStatusNext:
    """The next safe action. `who` names the attempt in options of a command (`--job j1 --unit a`)."""
    journal, late, observer = status["journal"], status["lateWrites"], status["observer"]
    over = status["standing"] in ("lease_revoked", "lease_superseded")
    if journal.get("problem") and over:
        return _act(f"the journal cannot be trusted ({journal['problem']}), and its lease is over: {REOPEN_HINT}")
    if journal.get("problem"):
        action = f"the journal cannot be trusted ({journal['problem']}): look who wrote to it, and begin a new segment"
        return _act(action, f"worktree-watch --once {who}")
    identity = [hold for hold in status.get("attemptHolds", []) if hold.startswith(("root_", "control_"))]
    if identity:
        return _act(f"this is not the leased worktree ({', '.join(identity)}): look at it before anything is closed")
    if late["quarantined"]:
        return _act("late writes are quarantined: keep them, then close", f"worktree-watch --once --preserve {who}")
    if status["authority"] != "current":
        return _act("nothing to watch: collect or close the attempt")
    if over:
        return _act(f"nothing to watch, the lease is over: {REOPEN_HINT}")
    if status["verdict"] == "suspect":
        return _act("no proven progress for too long: look at the unit; its work is kept if you stop it")
    if observer["health"] == "unwatched":
        return _act("nobody is watching: watch it", f"worktree-watch {who}")
    if status["verdict"] == "unknown":
        return _act("wait for proven progress (trace-append --proof), or open a new attempt")
    return _act("none needed")


def _act(action: str, command: str = "") -> ObserverStatusNext:
    return {"action": action, "command": command.strip()} if command else {"action": action}


def record_line(record: ActivityRecord) -> str:
    """One line of a journal's record, for those who watch."""
    event = record["event"]
    if event == "activity":
        return _activity(record)
    if event == "late":
        return f"{record['lateKind']}: {_changes(record)} ({size(record['byteDelta'])})"
    if event == "proof":
        return f"proven seq={record['deadline']['proofSeq']} {printable(record['receipt'].get('what', 'receipt'))}"
    if event == "hold":
        return f"held: {', '.join(record['holds'])}" if record["holds"] else "no longer held"
    if event == "suspect":
        return "SUSPECT: the deadline passed without proven progress"
    if event == "preserved":
        return f"late writes are kept at {record['atticRef']}" if "atticRef" in record else "nothing was left to keep"
    return f"{event}: {record.get('reason', '')}".rstrip(": ")


Shown = Sequence[tuple[str, "ObserverStatus | str"]]  # name and status, or what kept it from being read
WIDTHS = (8, 9, 9, 10, 10)  # of the columns after the name
HEADS = ("unit", "verdict", "proven", "activity", "suspect in", "observer")
BESIDE = 6  # lines of the screen that are not worktrees


def screen(shown: Shown, at: str, columns: int, height: int) -> list[str]:
    """The whole screen; `at` is the time of the look. The most urgent first where not all fit."""
    clock = at[11:19]
    head = f"{plural(len(shown), 'worktree')} at {clock}Z".ljust(columns - 12)[: columns - 12] + "Ctrl-C ends"
    if len(shown) == 1:
        name, status = shown[0]
        told = [status] if isinstance(status, str) else lines(status)
        wrapped = [part for line in told for part in textwrap.wrap(line, columns, subsequent_indent="  ") or [""]]
        return [head, "", printable(name), "", *wrapped]
    room = max(1, height - BESIDE)
    ordered = sorted(shown, key=lambda one: _urgency(one[1]))[:room]
    wide = max(12, columns - sum(WIDTHS) - 2 * len(WIDTHS))
    rows = [_row(HEADS, wide), *(_row(_cells(*one), wide) for one in ordered)]
    more = [f"and {len(shown) - room} more, none more urgent"] if len(shown) > room else []
    return [head, "", *rows, *more]


def table(shown: Shown, columns: int) -> list[str]:
    """All of them, the most urgent first; what keeps one from being read stands below."""
    wide = max(12, columns - sum(WIDTHS) - 2 * len(WIDTHS))
    ordered = sorted(shown, key=lambda one: _urgency(one[1]))
    rows = [_row(HEADS, wide), *(_row(_cells(*one), wide) for one in ordered)]
    return [*rows, *(f"{printable(name)}: {printable(why)}" for name, why in ordered if isinstance(why, str))]


def _row(cells: Sequence[str], wide: int) -> str:
    name, *rest = cells
    short = name if len(name) <= wide else name[: wide // 2 - 1] + ".." + name[len(name) - (wide - wide // 2 - 1) :]
    return "  ".join([short.ljust(wide), *(cell[:n].ljust(n) for cell, n in zip(rest, WIDTHS, strict=True))]).rstrip()


def _cells(name: str, status: ObserverStatus | str) -> tuple[str, ...]:
    if isinstance(status, str):
        return printable(name), "damaged", "", "", "", ""
    due = status["deadlines"].get("suspectInMs")
    return (
        printable(name),
        "held" if is_held(status) else status["verdict"],
        _since(status["proven"]),
        _since(status["activity"]),
        "" if due is None else (span(due) if due > 0 else f"-{span(-due)}"),
        status["observer"]["health"],
    )


def _since(found: Mapping[str, Any]) -> str:
    return f"{span(found['agoMs'])} ago" if "agoMs" in found else "none"


def is_held(status: ObserverStatus) -> bool:
    """A person must look before anything of it is closed."""
    return bool(status["lateWrites"]["quarantined"] or status.get("attemptHolds") or status["journal"].get("problem"))


def _urgency(status: ObserverStatus | str) -> tuple[int, float]:
    if isinstance(status, str) or is_held(status):
        return 0, 0
    order = {"suspect": 1, "unknown": 2}.get(status["verdict"], 3)
    return order, status["deadlines"].get("suspectInMs", 0)


def event(name: str, status: ObserverStatus | str) -> tuple[str, str]:
    """What must have changed for a new plain line, and the line: no length of time is in the first."""
    if isinstance(status, str):
        return status, f"{printable(name)}: {status}"
    word = "held" if is_held(status) else status["verdict"]
    activity, proven = status["activity"], status["proven"]
    parts = (word, status["authority"], activity["contentSeq"], proven["proofSeq"], status["observer"]["health"])
    told = lines(status)
    return repr(parts), f"{status['at']} {printable(name)}: {word}; {told[0]}; {told[1]}"
