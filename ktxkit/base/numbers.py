"""Numbers on a command line: what `float` and `int` would take and nothing can be done with is refused."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError

LONGEST = 1e9  # seconds: 31 years
LARGEST = 1 << 53  # what JSON readers keep exactly (RFC 8259, section 6)


def seconds(text: str) -> float:
    """A number of seconds (or, where the option says so, of milliseconds). Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LONGEST:  # also what is not a number
        raise ArgumentTypeError(f"{text!r} is no number from 0 to {LONGEST:.0f}")
    return value


def count(text: str) -> int:
    """A whole number that is not negative. Raises ArgumentTypeError."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= LARGEST:
        raise ArgumentTypeError(f"{text!r} is no whole number from 0 to {LARGEST}")
    return value
