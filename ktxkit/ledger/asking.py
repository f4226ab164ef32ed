"""A question as it was asked."""

from __future__ import annotations

from typing import NamedTuple


class Ask(NamedTuple):
    """What is asked about, of which projects, and how much of the answer is wanted (0: the question's own measure)."""

    subject: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    limit: int = 0
    event: str = ""
    unit: str = ""
    level: str = "trace"
    follow: bool = False

    @property
    def project(self) -> str:
        return ", ".join(self.projects)
