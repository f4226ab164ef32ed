"""Every reader before a fuzzer that is guided by coverage (`make test-full`; it installs atheris where it can)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.readers import READERS
from tests.support.readers_limits import PIECES

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20  # for each reader

pytestmark = [
    pytest.mark.skipif(os.environ.get("KTX_TEST_FULL") != "1", reason="the long form; `make test-full`"),
    pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed; `make test-full` tries"),
]


@pytest.mark.parametrize("reader", READERS)
def test_reader(reader: str, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    for number, piece in enumerate([*PIECES, "".join(PIECES)]):
        (seeds / str(number)).write_bytes(piece.encode())
    options = [
        f"-max_total_time={SECONDS}",
        "-max_len=4096",
        "-timeout=5",
        "-rss_limit_mb=600",
        f"-artifact_prefix={tmp_path}/",
    ]
    argv = [sys.executable, "-m", "tests.fuzz.harness", reader, *options, str(seeds)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "Done" in done.stderr, done.stderr[-2000:]
