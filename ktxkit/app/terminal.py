"""Progress for long work: a live display on a terminal, plain lines elsewhere. On stderr, never among the data."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ktxkit.base.rules.text import plural, printable

NAMES_SHOWN = 6  # running units named in the display


class JobProgress:
    """What a job has done so far; called from its threads' owner with an event name and facts."""

    def __init__(self, *, quiet: bool, live: bool) -> None:
        self.total = 0
        self.quiet = quiet
        self.running: list[str] = []
        self.settled: Counter[str] = Counter()
        self._display: Any = None
        self._live = live and not quiet

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        unit = str(facts.get("unit", ""))
        if event == "job_started":
            self.total = int(facts["units"])
        elif event == "unit_started":
            self.running.append(unit)
        elif event == "unit_ended" and unit in self.running:
            self.running.remove(unit)
        elif event == "unit_settled":
            self.settled[str(facts["outcome"])] += 1
            if self._display is None and not self.quiet:
                done = sum(self.settled.values())
                self._line(f"[{done}/{self.total}] {facts['outcome']:<18} {printable(unit)}")
        if self._display is not None:
            self._display.update(self.text())

    def text(self) -> str:
        """The display: counts by outcome, then who is at work."""
        counts = ", ".join(f"{count} {word}" for word, count in sorted(self.settled.items())) or "none ended yet"
        head = f"{sum(self.settled.values())} of {plural(self.total, 'unit')}: {counts}"
        shown = [printable(name) for name in self.running[:NAMES_SHOWN]]
        more = f" and {len(self.running) - NAMES_SHOWN} more" if len(self.running) > NAMES_SHOWN else ""
        return f"{head}\nworking: {', '.join(shown)}{more}" if shown else head

    def _line(self, text: str) -> None:
        encoding = sys.stderr.encoding or "ascii"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stderr.flush()

    @contextmanager
    def shown(self) -> Iterator[JobProgress]:
        """Show the display for the block, where there is a terminal for it."""
        if not self._live:
            yield self
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        class Shown(Live):
            def update(self, renderable: Any, *, refresh: bool = False) -> None:
                super().update(Text(renderable), refresh=refresh)

        with Shown(Text(self.text()), console=Console(stderr=True), transient=True) as display:
            self._display = display
            try:
                yield self
            finally:
                self._display = None


def on_terminal() -> bool:
    """Whether stderr is a terminal that can be redrawn."""
    import os

    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
