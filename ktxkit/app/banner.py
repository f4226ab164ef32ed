"""A few lines for prompts and session starts: what the ledger has of the last run. Bounded in time; it never blocks."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.clock import since_process_start
from ktxkit.base.errors import KtxError
from ktxkit.ledger import asking
from ktxkit.ledger.asking import FULL, LAST, LedgerQuery, ensure, pick, record_of, running, source
from ktxkit.ledger.rules.rows import Row, answer, passed, run_row
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerAnswer, RunRecord

BUDGET = 0.17  # seconds since the process began; the rest of 200 ms is for saying it
TAIL = 256 * 1024  # bytes at the ledger's end in which a closing line is looked for
LEAST = 0.02  # seconds that are tried even where the interpreter needed most of it (a machine under load)
UNKNOWN = "run state unknown"


def banner(world: World, ask: LedgerQuery, budget: float | None = None) -> LedgerAnswer:
    """The last run, the last full one, what is running, and whether the tree is still the one that ran.

    What is not known when the time is up is left out; where that is all, the ledger's last line is told as it stands.
    """
    told: dict[str, Any] = {}
    thread = threading.Thread(target=_collect, args=(world, ask, told), daemon=True)
    thread.start()
    thread.join(max(LEAST, BUDGET - since_process_start()) if budget is None else budget)
    known = dict(told)  # the thread may go on; what it says later is not waited for
    if "rows" not in known:
        if "why" in known:
            return answer("banner", [], verdict="unknown", reason=known["why"])
        last = _last_line(world)
        reason = f"{UNKNOWN}: the time was up, this is the ledger's last line" if last else UNKNOWN
        return answer("banner", [last] if last else [], verdict="unknown", reason=reason)
    facts: dict[str, Any] = {key: known[key] for key in ("running", "sameTree") if key in known}
    if thread.is_alive() or "sameTree" not in known:
        facts["sameTree"] = "unknown"
    reason = "" if known["rows"] else "no run is recorded"
    return answer(
        "banner", known["rows"], project=known["project"], verdict=known["verdict"], reason=reason, facts=facts
    )


def _collect(world: World, ask: LedgerQuery, told: dict[str, Any]) -> None:
    try:
        asked = ask if ask.projects else LedgerQuery(projects=(asking.resolve(world),))
        index = ensure(world)
        last = pick(index, asked, LAST)
        full = pick(index, asked, FULL)
        rows = [
            run_row(record_of(run), source(run), what)
            for run, what in ((last, "last"), (full, "last full"))
            if run is not None
        ]
        going = running(index, asked)
        told |= {"project": asked.project, "verdict": passed(record_of(last))} | ({"running": going} if going else {})
        told["rows"] = rows
        if last is not None and world.repository.top is not None:
            told["sameTree"] = _same_tree(world, record_of(last))
    except (KtxError, OSError) as error:
        told["why"] = f"{UNKNOWN}: {error}"[:500]


def _last_line(world: World) -> Row:
    """The newest closing line at the ledger's end, as a row: read without an index, whatever the ledger's size.

    Nothing where there is none that can be read.
    """
    try:
        return _closing_at_the_end(world.store.path(names.LEDGER))
    except (KtxError, OSError, ValueError, KeyError):
        return {}  # the answer is then that the state is not known


def _closing_at_the_end(path: Path) -> Row:
    if not path.is_file():
        return {}
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL))
        found = stream.read(TAIL).split(b"\n")[1 if size > TAIL else 0 : -1]
    for line in reversed(found):
        if b'"run-closed"' in line:
            closed = json.loads(line)
            return run_row(closed["record"], source(closed), "latest")
    return {}


def _same_tree(world: World, record: RunRecord) -> bool:
    """Whether the checkout has the content that ran: by one look where it is clean, and was, at the same commit."""
    ran = record.get("tree", {})
    assert world.repository.top is not None
    git = world.git.at(world.repository.top)
    status = git.run("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames").nul
    head = next((line.split(b" ")[-1].decode("ascii") for line in status if line.startswith(b"# branch.oid ")), "")
    clean = all(line.startswith(b"#") for line in status)
    from ktxkit.git import snapshot

    if clean and not ran.get("dirty") and ran.get("commit") == head and not snapshot.is_hiding(git):
        return True
    return bool(snapshot.take(world.git, world.repository).tree == ran.get("tree"))


def lines(document: LedgerAnswer) -> list[str]:
    """One line for each run, and one for what else is known."""
    said = [
        f"ledger: {row['what']} run {row['started']} scope {row['scope']}: {row['verdict']}, {row['tests']}"
        for row in document["rows"]
    ]
    facts = document.get("facts", {})
    if facts.get("running"):
        said.append(f"ledger: running now: {', '.join(facts['running'])}")
    if facts.get("sameTree") is False:
        said.append("ledger: files have changed since the last run; it says nothing about them")
    if not said or document.get("reason", "").startswith(UNKNOWN):
        said.append(f"ledger: {document.get('reason', UNKNOWN)}")
    return said
