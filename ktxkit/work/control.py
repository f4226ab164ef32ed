"""Before anyone is blamed for a failed verification: the same command without the change, and once more with it.

A command that fails on the tree without the change, or that answers twice differently for one tree, says nothing of
the change: the gate is `unknown`, nobody is charged, nothing moves.
"""

from __future__ import annotations

from dataclasses import replace

from ktxkit.base.contracts import Document
from ktxkit.base.errors import Refused
from ktxkit.store.branch_lock import Held
from ktxkit.store.world import World
from ktxkit.work import verification
from ktxkit.work.verification import Check


def blamed(world: World, held: Held, check: Check, without: tuple[str, str], now: tuple[str, str]) -> Document:
    """The account of a failure that is proven the change's. `without` and `now`: commit and tree, without it and with.

    Raises Refused where the gate fails without the change, or passes this time.
    """
    control(world, held, check, *without)
    again = verification.verify(world, held, replace(check, reuse=False), *now)
    if verification.passed(again):
        raise flaky([])
    return again


def control(world: World, held: Held, check: Check, commit: str, tree: str) -> None:
    """The command without the change: asked once for each tree and command of a job, whatever it answers.

    Raises Refused where it fails: then nobody is blamed.
    """
    run = verification.control_of(world, held, check, commit, tree)
    if not verification.passed(run):
        raise Refused(
            f"nobody is blamed: the verification fails without any of the units ({verification.why_not(run)})",
            hint="put the command or the base right, then apply again",
            data={"gate": "unknown", "reason": "fails on the base tree", "run": run},
        )


def flaky(units: list[str]) -> Refused:
    """What is said of a gate that answers by chance."""
    return Refused(
        "nobody is blamed: the verification answered twice differently for the same tree",
        hint="make the command deterministic, or apply without it",
        data={"gate": "unknown", "reason": "flaky", **({"units": units} if units else {})},
    )
