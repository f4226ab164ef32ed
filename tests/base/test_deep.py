"""Trees and documents deeper than any stack are read, listed and deleted; no link in them is followed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ktxkit.base import files
from ktxkit.base.removal import delete_own
from ktxkit.git.rules.patch import tree_id
from tests.support.commands import call
from tests.support.repos import Repo

DEPTH = 1500


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """Deeper than Python's stack, with a file, a read-only directory and links out at its end."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    os.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    end = "/".join(["d"] * DEPTH)
    fill = f"echo x > f && ln -s {outside} link && mkdir r && : > r/g && chmod 500 r"
    make = f"cd deep && mkdir -p {end} && cd {end} && {fill}"
    subprocess.run(["sh", "-c", make], check=True)
    return tmp_path / "deep"


def test_it_is_walked_and_deleted(deep: Path) -> None:
    found = [(folder.count("/d"), sorted(names)) for folder, names in files.walk(os.fspath(deep)) if names]
    assert [names for _, names in found] == [["f", "link"], ["g"]]
    (deep / "to").symlink_to(deep.parent / "outside")
    delete_own(deep / "to")
    assert [path.name for path in deep.iterdir()] == ["d"]
    delete_own(deep)
    assert not deep.exists() and (deep.parent / "outside/kept").read_text() == "kept"
    delete_own(deep / "gone/too")


def test_the_id_of_its_tree(repo: Repo) -> None:
    paths = [b"/".join([b"d"] * DEPTH) + b"/f", b"d/a", b"d.x", b"d/d/d/f", b"z/y", b"top"]
    blob = repo.git("hash-object", "-w", "README")
    listed = b"".join(b"100644 %b\t%b\0" % (blob.encode(), path) for path in paths)
    subprocess.run(["git", "update-index", "-z", "--index-info"], input=listed, cwd=repo.path, check=True)
    repo.git("rm", "-q", "--cached", "README")
    assert tree_id(dict.fromkeys(paths, ("100644", blob))) == repo.git("write-tree")
    assert tree_id({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.mark.parametrize("kind", ["reportlog", "ctrf", "junit"])
def test_a_report_that_is_nested_too_deeply_is_said_so(repo: Repo, kind: str) -> None:
    text = "<a>" * 90_000 if kind == "junit" else '{"a":' * 90_000
    (repo.path / "report").write_text(text + "\n\n" + text)
    ran = call("ledger-append", "--from", kind, "report", cwd=repo.path)
    assert ran.status == 5 and "report" in ran.err, ran
