"""Many worktrees on one screen, one in full, and what is worth a plain line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ktxkit.observer.rules import status as board
from ktxkit.observer.rules.status import Shown

SAMPLES = Path(__file__).resolve().parents[2] / "schemas" / "observer-status" / "valid"
SAMPLE: dict[str, Any] = json.loads(sorted(SAMPLES.glob("*.json"))[0].read_text())
AT = "2026-01-02T03:04:05.678Z"


def status(verdict: str = "working", suspect_in: int = 300_000, **more: Any) -> Any:
    deadlines = {**SAMPLE["deadlines"], "suspectInMs": suspect_in}
    calm = {"lateWrites": {"quarantined": False, "count": 0}, "attemptHolds": [], "journal": {"segment": 1, "seq": 3}}
    return {**SAMPLE, **calm, "verdict": verdict, "deadlines": deadlines, **more}


def test_the_most_urgent_first_and_nothing_wider_than_the_screen() -> None:
    late = {"quarantined": True, "count": 1}
    shown: Shown = [
        ("j1 calm", status(suspect_in=900_000)),
        ("j1 soon", status(suspect_in=5_000)),
        ("j1 pages/" + "very-long-" * 20, status("suspect", -61_000)),
        ("j1 evil\x1b[2J", status(lateWrites=late)),
        ("j1 broken", "lease.json: not JSON"),
    ]
    drawn = board.screen(shown, AT, 80, 24)
    assert drawn[0].startswith("5 worktrees at 03:04:05Z") and drawn[0].endswith("Ctrl-C ends")
    assert all(len(line) <= 80 and "\x1b" not in line for line in drawn), drawn
    names = [line.split()[1] for line in drawn[3:]]
    assert names[:2] == ["evil\\u001b[2J", "broken"] and names[3:] == ["soon", "calm"]
    assert "held" in drawn[3] and "damaged" in drawn[4] and "suspect" in drawn[5] and "-61s" in drawn[5]
    small = board.screen(shown, AT, 80, 8)
    assert len(small) == 6 and small[-1] == "and 3 more, none more urgent"


def test_one_worktree_in_its_five_lines() -> None:
    drawn = board.screen([("j1 u1", status())], AT, 40, 24)
    assert drawn[2] == "j1 u1" and all(len(line) <= 40 for line in drawn)
    text = " ".join(line.strip() for line in drawn)
    for word in ("Worktree activity:", "Proven progress:", "Deadlines:", "Observer:", "Next:"):
        assert word in text


def test_time_alone_is_no_event() -> None:
    one, later = status(suspect_in=9000), status(suspect_in=1000)
    assert board.event("u", one)[0] == board.event("u", later)[0]
    assert board.event("u", one)[0] != board.event("u", status("suspect"))[0]
    assert board.event("u", "lease.json: torn") == ("lease.json: torn", "u: lease.json: torn")
