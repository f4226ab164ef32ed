"""Ctrl-C and SIGTERM as a flag: long work stops where it can keep its evidence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping(flag: threading.Event) -> Iterator[None]:
    """While the block runs, SIGINT, SIGTERM and SIGHUP set `flag`; a second one of them raises KeyboardInterrupt.

    In a thread that is not the main one nothing is installed: the flag is then the caller's to set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(_number: int, _frame: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)
