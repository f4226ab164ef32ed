"""Ledgers with a constructed past: real event files and lines, of runs that no pytest made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ktxkit.base.rules.digests import digest_of
from ktxkit.ledger import chain, ledger
from ktxkit.ledger.event_log import Artifacts, EventWriter
from ktxkit.store.rules import names
from ktxkit.store.world import World

PROJECT = "example.org/p"
TREE = "a" * 40
OWNER = {"bootId": "b", "pid": 1, "startTime": 1, "machine": "another"}
ENVIRONMENT = {"python": "3.11.0", "host": "h", "processors": 2}


class Past:
    """Adds runs one after another, a minute apart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".ktx").mkdir(parents=True, exist_ok=True)
        self.count = 0

    @property
    def world(self) -> World:
        return World(self.root, {**os.environ, "KTX_PROJECT": PROJECT}, ktx_dir=str(self.root / ".ktx"))

    def run(
        self,
        outcomes: dict[str, str],
        *,
        selected: list[str] | None = None,
        project: str = PROJECT,
        tree: dict[str, Any] | None = None,
        environment: dict[str, Any] | None = None,
        end: dict[str, Any] | None = None,
        seconds: float = 0.001,
        finish: bool = True,
        settle: bool = True,
        **facts: Any,
    ) -> str:
        """A run of tests with their outcomes; `facts` go into its first event. Returns its id."""
        self.count += 1
        run = f"20260102T03{self.count:02d}00Z-{self.count:08x}"
        at = f"2026-01-02T03:{self.count:02d}:00.000Z"
        env = {**ENVIRONMENT, **(environment or {})}
        state = {"commit": "c" * 40, "tree": TREE, "dirty": False, "generated": "b3:" + "0" * 64, **(tree or {})}
        state = {key: value for key, value in state.items() if value is not None}
        ids = sorted(outcomes if selected is None else selected)
        body = "".join(json.dumps(test) + "\n" for test in ids).encode()
        kept = Artifacts(self.world.store.path(names.ARTIFACTS)).keep(body)
        start = {
            "event": "run_started", "schemaVersion": 1, "t": 0, "run": run, "at": at, "project": project,
            "trigger": "unmanaged", "managed": False, "mode": "run", "argv": ["-q"],
            "selection": {"argsSource": "invocation_dir", "args": ["."], "paths": ["."], "narrowing": []},
            "environment": env | {"digest": digest_of(env)}, "workers": 0, "scheduling": "no", "load": 0.1,
            "tree": state, **facts,
        }  # fmt: skip
        order = digest_of(facts.get("order", "as collected") if not isinstance(facts.get("order"), dict) else "")
        start.pop("order", None) if not isinstance(facts.get("order"), dict) else None
        events: list[dict[str, Any]] = [
            {key: value for key, value in start.items() if value is not None},
            {"event": "collected", "t": 0.1, "collected": len(ids), "selected": len(ids), "deselected": 0, "removed": 0}
            | {"ids": kept, "orderDigest": order},
        ]
        t = 0.2
        for test, words in outcomes.items():
            for attempt, word in enumerate(words.split(">"), start=1):
                who = {"test": test, "t": round(t, 6)} | ({"attempt": attempt} if attempt > 1 else {})
                events.append({"event": "test_started", **who})
                if word != "running":
                    more = {"retried": True} if attempt < len(words.split(">")) else {}
                    t += seconds
                    events.append(
                        {"event": "test_result", **who, "t": round(t, 6), "outcome": word, "call": seconds, **more}
                    )
        if finish:
            bad = any(words.split(">")[-1] in ("failed", "error", "crashed") for words in outcomes.values())
            final = {
                "event": "run_finished",
                "t": round(t + 0.1, 6),
                "at": at,
                "exitStatus": int(bad),
                "treeAfter": state,
            }
            events.append({**final, **(end or {})})
        path = ledger.events_path(self.world, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = EventWriter(path)
        for event in events:
            writer.put(json.dumps(event))
        writer.close()
        with chain.locked(self.world):
            owner = facts.get("owner", OWNER)
            opening = {"kind": "run-opened", "run": run, "project": project, "owner": owner}
            parent = {"parent": facts["parent"]} if "parent" in facts else {}
            chain.append(self.world, opening | parent)
        if settle and finish:
            ledger.settle(self.world, run)
        return run
