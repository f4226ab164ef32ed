"""Gates beside the one of artifacts: what they are given, and what they answer. Third parties write theirs with this.

A gate is a function. Entry point group `ktxkit.gates`: `check(subject, options) -> Answer` judges a tree. Group
`ktxkit.message_gates`: `check(world, message) -> Answer` judges the message of a commit as it will be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktxkit.core.gates.findings import Finding
from ktxkit.world import World

__all__ = ["Answer", "Finding", "MessageGate"]

MESSAGE_GATES = "ktxkit.message_gates"
MESSAGE_PATH = b"COMMIT_EDITMSG"  # the path of findings on a message


@dataclass(frozen=True)
class Answer:
    """What a gate found, how many things it looked at, and what else it has to say (a command's last output)."""

    findings: Sequence[Finding] = ()
    looked: int = 0
    message: str = ""


MessageGate = Callable[[World, str], Answer]
