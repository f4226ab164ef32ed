"""Progress for long work: a live display on a terminal, plain lines elsewhere. On stderr, never among the data."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ktxkit.app.rules.report_text import duration
from ktxkit.base.rules.text import plural, printable
from ktxkit.work.rules.report import LANDED, WAITING

NAMES_SHOWN = 6  # running units named in the display
REFRESHES = 4  # of the display in a second
STYLES = {"good": "green", "bad": "red", "other": "yellow"}
STEPS = {"verifying": "verifying", "gates_started": "the final gates", "landing_started": "landing"}


def tone(outcome: str) -> str:
    """Whether a unit's outcome is `good`, `bad`, or `other` (nothing of it was tried)."""
    return "good" if outcome in LANDED else "other" if outcome in (*WAITING, "skipped", "interrupted") else "bad"


class JobProgress:
    """What a job has done so far; called from its threads' owner with an event name and facts."""

    def __init__(self, *, quiet: bool, live: bool) -> None:
        self.job = ""
        self.total = 0
        self.quiet = quiet
        self.running: dict[str, float] = {}  # units at work, and since when
        self.step = ""  # what the job itself does
        self.settled: Counter[str] = Counter()
        self._began = time.monotonic()
        self._display: Any = None
        self._live = live and not quiet

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        unit = str(facts.get("unit", ""))
        self.step = f"{STEPS[event]} {printable(unit)}".rstrip() if event in STEPS else ""
        if event == "job_started":
            self.job, self.total = str(facts["job"]), int(facts["units"])
        elif event == "unit_started":
            self.running[unit] = time.monotonic()
        elif event == "unit_ended":
            self.running.pop(unit, None)
        elif event == "job_stopping":
            at_work = f"{plural(len(self.running), 'unit')} at work {'is' if len(self.running) == 1 else 'are'} ended; "
            self._line(f"stopping: {at_work if self.running else ''}what has finished is kept")
        elif event == "unit_settled":
            self.settled[str(facts["outcome"])] += 1
            if "before" not in facts:  # an earlier execution has told of it
                self._settled(unit, facts)

    def note(self, lines: Sequence[str]) -> None:
        """Say what is to be known before it begins."""
        for text in lines:
            self._line(f"note: {text}")

    def _settled(self, unit: str, facts: Mapping[str, Any]) -> None:
        """One line for a unit that has its outcome: which, how long its command took, and why."""
        outcome = str(facts["outcome"])
        took = f" ({duration(facts['ms'])})" if "ms" in facts else ""
        why = f": {facts['reason']}" if facts.get("reason") else ""
        word = outcome.replace("_", " ")
        place = f"[{sum(self.settled.values())}/{self.total}] "
        self._line(f"{place}{word:<18} {printable(unit)}{took}{why}", (len(place), len(word), STYLES[tone(outcome)]))

    def text(self) -> str:
        """The display: counts by outcome, then who is at work and for how long, and what the job does."""
        now = time.monotonic()
        counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in sorted(self.settled.items()))
        head = f"{sum(self.settled.values())} of {plural(self.total, 'unit')}: {counts or 'none ended yet'}"
        lines = [f"{head}; {duration(1000 * (now - self._began))}"]
        shown = [f"{printable(name)} {now - since:.0f} s" for name, since in [*self.running.items()][:NAMES_SHOWN]]
        more = f" and {len(self.running) - NAMES_SHOWN} more" if len(self.running) > NAMES_SHOWN else ""
        lines += [f"working: {', '.join(shown)}{more}"] if shown else []
        return "\n".join([*lines, *([f"now: {self.step}"] if self.step else [])])

    def _line(self, text: str, styled: tuple[int, int, str] | None = None) -> None:
        """One line; above the display where there is one. `styled`: from where, how many characters, in what style."""
        if self.quiet:
            return
        if self._display is not None:
            self._display.say(text, styled)
            return
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
            def say(self, line: str, styled: tuple[int, int, str] | None) -> None:
                made = Text(line)
                if styled is not None:
                    made.stylize(styled[2], styled[0], styled[0] + styled[1])
                self.console.print(made, soft_wrap=True)

        console = Console(stderr=True, highlight=False)
        with Shown(
            console=console,
            transient=True,
            get_renderable=lambda: Text(self.text()),
            refresh_per_second=REFRESHES,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as display:
            self._display = display
            try:
                yield self
            finally:
                self._display = None


def on_terminal() -> bool:
    """Whether stderr is a terminal that can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
