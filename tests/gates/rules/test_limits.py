"""Never over a second, never over 200 MB for an input under 1 MB: each reader, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.readers import READERS

ROOT = Path(__file__).resolve().parents[3]
FULL = os.environ.get("KTX_TEST_FULL") == "1"
SECONDS = 1.0 if FULL else 4.0  # of CPU time; the short form runs beside many others and looks for what grows squared
BYTES = 200 * 1024 * 1024
QUICK = [
    "page-wide",
    "page-nested",
    "page-emoji",
    "python-waivers-fewer",
    "python-type",
    "sql-parentheses",
    "near-columns",
    "lines-none",
    "source-wrong",
]


def measured(*args: str) -> list[dict[str, Any]]:
    argv = [sys.executable, "-m", "tests.support.readers_limits", *args]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def within(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in found if one["seconds"] > SECONDS or one["bytes"] > BYTES]


def test_the_worst_inputs() -> None:
    found = measured("worst", *([] if FULL else QUICK))
    assert len(found) >= (110 if FULL else len(QUICK))
    assert within(found) == []


@pytest.mark.skipif(not FULL, reason="the long form; `make test-full`")
@pytest.mark.parametrize("reader", READERS)
def test_random_inputs(reader: str) -> None:
    (found,) = measured("random", "3000", "1", reader)
    assert within([found]) == []
