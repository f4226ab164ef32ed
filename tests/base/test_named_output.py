"""Files that users name as output: links are followed, FIFOs written to, and no directory is made."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ktxkit.base import files
from ktxkit.base.errors import CannotRun
from tests.support.commands import call
from tests.support.repos import Repo


def test_a_link_is_followed_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "target").chmod(0o600)
    before = (tmp_path / "target").stat().st_ino
    (tmp_path / "link").symlink_to("target")
    files.write_named(tmp_path, "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"new"
    assert (tmp_path / "target").stat().st_ino != before and (tmp_path / "target").stat().st_mode & 0o777 == 0o600
    (tmp_path / "dangling").symlink_to("made")
    files.write_named(tmp_path, "dangling", b"made")
    assert (tmp_path / "dangling").is_symlink() and (tmp_path / "made").read_bytes() == b"made"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "link", "made", "target"]  # noqa: PTH208


def test_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    for name in ("", ".", "absent/file", "file/below"):
        with pytest.raises(CannotRun):
            files.write_named(tmp_path, name, b"new")
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"old"  # noqa: PTH208


WRITERS = [("gate-check", "--all", "--write-baseline"), ("ledger-query", "report", "--html")]


@pytest.mark.parametrize("argv", WRITERS, ids=["baseline", "html"])
def test_commands_write_to_what_is_there(repo: Repo, tmp_path: Path, argv: tuple[str, ...]) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = call(*argv, str(pipe), cwd=repo.path)
    reader.join(20)
    assert done.status == 0 and pipe.is_fifo() and len(got[0]) > 20, done.err
    assert call(*argv, str(link), cwd=repo.path).status == 0
    assert link.is_symlink() and target.stat().st_size > 20
    for name in ("", str(tmp_path), str(tmp_path / "absent/file")):
        assert call(*argv, name, cwd=repo.path).status == 2, name
    assert not (tmp_path / "absent").exists()
