"""A file system whose times are whole seconds (ext4 with small inodes): the key hides a rewrite in the same second."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.observer.test_scan import ROUND, Tree, operations, run_oracle

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MKFS = shutil.which("mkfs.ext4") or shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mounted from a file; needs root and a loop device."""
    if not FULL:
        pytest.skip("the long form: KTX_TEST_FULL=1")
    if MKFS is None or os.geteuid() != 0:
        pytest.skip("needs root and mkfs.ext4")
    place = tmp_path_factory.mktemp("coarse")
    image, mount = place / "image", place / "mnt"
    with open(image, "wb") as stream:
        stream.truncate(64 * 1024 * 1024)
    mount.mkdir()
    subprocess.run([MKFS, "-q", "-I", "128", str(image)], check=True, stderr=subprocess.DEVNULL)
    if subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=False).returncode != 0:
        pytest.skip("cannot mount here")
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_times_are_whole_seconds_and_no_rewrite_is_missed(coarse: Path) -> None:
    tree = Tree(coarse)
    path = tree.write("r", "0000")
    assert path.stat().st_mtime_ns % 1_000_000_000 == 0
    tree.scan()
    for number in range(1, 200):
        path.write_text(f"{number:04}")
        assert operations(tree.scan()) == [(b"r", "content-change")]
    os.close(tree.fd)
    path.unlink()


@given(rounds=st.lists(ROUND, min_size=1, max_size=5))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_level_gives_what_reading_everything_gives(
    coarse: Path, rounds: list[tuple[list[tuple[str, str, str]], str]]
) -> None:
    place = coarse / "oracle"
    place.mkdir()
    try:
        run_oracle(place / "r", rounds)
    finally:
        shutil.rmtree(place)
