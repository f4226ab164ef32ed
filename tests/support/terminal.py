"""A real terminal: a program in tmux, keys typed into it, its screen read."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.browser import need

PATIENCE = 400  # looks at the screen before we give up


class Terminal:
    """One pane of a tmux server of its own."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def tmux(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-S", str(self.socket), *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def type(self, text: str, *keys: str) -> None:
        """Type text as it is, then named keys (`Enter`, `Tab`, `C-c`)."""
        self.tmux("send-keys", "-l", text)
        if keys:
            self.tmux("send-keys", *keys)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def wait_for(self, text: str) -> str:
        """The screen, once it holds the text; fails with what it holds where that never comes."""
        shown = ""
        for _ in range(PATIENCE):
            shown = self.screen()
            if text in shown:
                return shown
            time.sleep(0.05)
        raise AssertionError(f"{text!r} never came:\n{shown}")


@contextmanager
def terminal(place: Path, *argv: str, columns: int = 80, lines: int = 24) -> Iterator[Terminal]:
    """A terminal of that size in which a program runs."""
    need(shutil.which("tmux"), "tmux")
    made = Terminal(place / "tmux.sock")
    size = ["-x", str(columns), "-y", str(lines)]
    made.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(place), *argv)
    try:
        yield made
    finally:
        made.tmux("kill-server")
