"""The cases of git's own ways (G01 to G11): what a change touches is what git reports, not what a patch's text says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import data
from tests.support.commands import Ran, call
from tests.support.repos import Repo

ROOTS = ("--allow", "wiki/", "--allow", "semantic-layer/", "--text-root", "wiki", "--text-root", "semantic-layer")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.init(tmp_path_factory.mktemp("cases") / "repo")
    for path in ("wiki/a.md", "wiki/b.md", "semantic-layer/wh/o.yaml", "notes"):
        repo.write(path, f"{path}\n")
    repo.commit("base")
    return repo


@pytest.fixture
def child(base: Repo, tmp_path: Path) -> Repo:
    base.git("worktree", "add", "-q", "--detach", str(tmp_path / "child"))
    return base.at(tmp_path / "child")


def collected(child: Repo, tmp_path: Path, *args: str) -> Ran:
    child.git("add", "-A")
    child.git("commit", "-qm", "the unit's work", "--no-verify")
    args = args or ROOTS
    return call("patch-collect", "--json", "--base", "main", *args, "-o", str(tmp_path / "out.patch"), cwd=child.path)


def broken(ran: Ran) -> set[tuple[str, str]]:
    """Which rules a change broke, and with which path."""
    document: dict[str, Any] = ran.document
    return {(one["rule"], one["path"]) for one in document.get("breaches", ())}


def verdict(wanted: str) -> str:
    return str(data.case("git", wanted)["verdict"])


def test_g01_a_path_with_a_space(child: Repo, tmp_path: Path) -> None:
    assert verdict("G01") == "reject"
    child.write("semantic-layer/wh/my orders.yaml", "name: x\n")
    ran = collected(child, tmp_path, "--sl-disallowed")
    assert ran.status == 1 and broken(ran) == {("sl-disallowed", "semantic-layer/wh/my orders.yaml")}


def test_g03_prefixes_of_the_users_own(child: Repo, tmp_path: Path) -> None:
    assert verdict("G03") == "reject"
    child.git("config", "diff.mnemonicPrefix", "true")
    child.write("semantic-layer/wh/o.yaml", "name: other\n")
    ran = collected(child, tmp_path, "--sl-disallowed")
    child.git("config", "--unset", "diff.mnemonicPrefix")
    assert ran.status == 1 and broken(ran) == {("sl-disallowed", "semantic-layer/wh/o.yaml")}


def test_g04_and_g05_a_page_that_is_new_and_one_that_is_deleted(child: Repo, tmp_path: Path) -> None:
    assert (verdict("G04"), verdict("G05")) == ("accept", "accept by policy")
    child.write("wiki/new.md", "new\n")
    child.git("rm", "-q", "wiki/a.md")
    ran = collected(child, tmp_path)
    assert ran.status == 0, ran.err
    assert {entry["path"] for entry in ran.document["paths"]} == {"wiki/new.md", "wiki/a.md"}


@pytest.mark.parametrize("kind", ["link", "gitlink", "executable"])
def test_g06_modes_that_no_artifact_has(child: Repo, tmp_path: Path, kind: str) -> None:
    assert verdict("G06") == "reject"
    place = child.path / "wiki/odd.md"
    if kind == "link":
        place.symlink_to("a.md")
    elif kind == "gitlink":
        child.git("update-index", "--add", "--cacheinfo", f"160000,{child.head},wiki/odd.md")
        child.git("commit", "-qm", "a gitlink")
    else:
        child.write("wiki/odd.md", "#!/bin/sh\n")
        place.chmod(0o755)
    if kind == "gitlink":
        place.mkdir()
    ran = collected_as_it_is(child, tmp_path) if kind == "gitlink" else collected(child, tmp_path)
    assert ran.status == 1 and "wiki/odd.md" in {path for _, path in broken(ran)}, ran.out + ran.err


def collected_as_it_is(child: Repo, tmp_path: Path, *args: str) -> Ran:
    out = str(tmp_path / "again.patch")
    return call("patch-collect", "--json", "--base", "main", *(args or ROOTS), "-o", out, cwd=child.path)


def test_g07_a_file_that_becomes_a_link(child: Repo, tmp_path: Path) -> None:
    assert verdict("G07") == "reject"
    (child.path / "wiki/a.md").unlink()
    (child.path / "wiki/a.md").symlink_to("b.md")
    ran = collected(child, tmp_path)
    assert ran.status == 1 and {path for _, path in broken(ran)} == {"wiki/a.md"}


@pytest.mark.parametrize("path", [".gitattributes", ".gitmodules", "hooks/pre-commit", "ktx-gates.yaml"])
def test_g09_control_files(child: Repo, tmp_path: Path, path: str) -> None:
    assert verdict("G09") == "reject: outside allowed roots"
    child.write(path, "[submodule]\n" if path == ".gitmodules" else "x\n")
    ran = collected_as_it_is(child, tmp_path)
    assert ran.status == 1 and path in {one for _, one in broken(ran)}, ran.out + ran.err


@pytest.mark.parametrize("name", [b"wiki/a\nb.md", b"wiki/a\tb.md", b'wiki/"q".md', b"wiki/caf\xe9.md"])
def test_g11_paths_are_judged_as_bytes(child: Repo, tmp_path: Path, name: bytes) -> None:
    assert verdict("G11") == "judge from --raw -z only"
    place = os.fsencode(child.path) + b"/" + name
    with open(place, "wb") as file:
        file.write(b"x\n")
    ran = collected(child, tmp_path)
    shown = subprocess.run(
        ["git", "diff", "--name-only", "-z", "main", "HEAD"], cwd=child.path, capture_output=True, check=True
    )
    assert shown.stdout == name + b"\0"
    refused = collected_as_it_is(child, tmp_path, "--deny", "wiki/") if ran.status == 0 else ran
    assert refused.status == 1 and len(broken(refused)) == 1, refused.out + refused.err
