"""Gates over trees: readers, references, rules, formats, verdicts.

Third parties write theirs with the names here; they are those of `ktxkit.gates.plugin`, loaded when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktxkit.gates.plugin import (
        LINK,
        MESSAGE_GATES,
        MESSAGE_PATH,
        PLAIN,
        TREE_GATES,
        Answer,
        Finding,
        MessageGate,
        Subject,
        TreeGate,
    )

__all__ = [
    "LINK",
    "MESSAGE_GATES",
    "MESSAGE_PATH",
    "PLAIN",
    "TREE_GATES",
    "Answer",
    "Finding",
    "MessageGate",
    "Subject",
    "TreeGate",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ktxkit.gates import plugin

    return getattr(plugin, name)
