"""Symbolic links and submodules where a gate expects files: what stands there is not what its readers get."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.gates.judging import check_tree
from ktxkit.store.world import World
from tests.support.commands import BIN, call
from tests.support.gates import page, source
from tests.support.repos import Repo

SCHEMA = json.dumps({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}})
CONFIG = json.dumps({"gates": [{"gate": "schema", "schema": "s.json", "files": ["conf/*.yaml", "deep/", "**/k.yaml"]}]})
BAD = "a: str\n"


@pytest.fixture
def covered(repo: Repo) -> Repo:
    """A repository whose files follow their schema."""
    for name, data in {"ktx-gates.yaml": CONFIG, "s.json": SCHEMA, "real.txt": BAD, "other/x.yaml": BAD}.items():
        repo.write(name, data)
    for name in ("conf/x.yaml", "conf/y.yaml", "deep/er/x.yaml", "any/where/k.yaml"):
        repo.write(name, "a: 1\n")
    repo.commit("conf")
    return repo


def link(repo: Repo, name: str, to: str) -> None:
    """The path, and all below it, becomes a link."""
    gone(repo, name)
    (repo.path / name).parent.mkdir(parents=True, exist_ok=True)
    (repo.path / name).symlink_to(to)
    repo.git("add", "-A")


def gone(repo: Repo, name: str) -> None:
    repo.git("rm", "-rq", "--ignore-unmatch", name)


def submodule(repo: Repo, name: str) -> None:
    gone(repo, name)
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")


Told = list[tuple[str, str, bool]]


def told(repo: Repo, *args: str) -> Told:
    ran = call("gate-check", "--json", *args, cwd=repo.path)
    assert ran.status in (0, 1), ran.err
    found: list[dict[str, Any]] = ran.document["findings"]
    return [(one["path"], one["rule"], bool(one.get("inherited"))) for one in found]


CHANGES: dict[str, tuple[Callable[[Repo], None], list[str]]] = {
    "a file becomes a link": (lambda repo: link(repo, "conf/x.yaml", "../real.txt"), ["conf/x.yaml"]),
    "a new link": (lambda repo: link(repo, "conf/new.yaml", "../real.txt"), ["conf/new.yaml"]),
    "a file becomes a submodule": (lambda repo: submodule(repo, "conf/x.yaml"), ["conf/x.yaml"]),
    "its directory becomes a link": (lambda repo: link(repo, "conf", "other"), ["conf"]),
    "its directory becomes a submodule": (lambda repo: submodule(repo, "conf"), ["conf"]),
    "a directory that is named": (lambda repo: link(repo, "deep", "other"), ["deep"]),
    "a directory in between": (lambda repo: link(repo, "deep/er", "../other"), ["deep/er"]),
    "a directory of what a glob named": (lambda repo: link(repo, "any", "other"), ["any"]),
    "nothing that is covered": (lambda repo: link(repo, "docs/x.yaml", "../real.txt"), []),
    "a directory where a glob named nothing": (lambda repo: link(repo, "docs", "other"), []),
    "a deletion": (lambda repo: gone(repo, "conf/x.yaml"), []),
}


@pytest.mark.parametrize(("change", "paths"), CHANGES.values(), ids=CHANGES)
def test_what_is_covered_stays_a_file(covered: Repo, change: Callable[[Repo], None], paths: list[str]) -> None:
    """It was no longer looked at, in silence."""
    change(covered)
    assert told(covered) == [(path, "not-a-file", False) for path in paths]


def test_a_link_that_the_base_has_is_inherited(covered: Repo) -> None:
    link(covered, "conf/x.yaml", "../real.txt")
    covered.git("commit", "-qm", "a link")
    covered.write("real.txt", "a: other\n")
    covered.git("add", "-A")
    assert told(covered) == [], "nothing of it is touched"
    link(covered, "conf/x.yaml", "../other/x.yaml")
    assert told(covered) == [("conf/x.yaml", "not-a-file", True)]
    covered.write("s.json", SCHEMA + "\n")
    covered.git("add", "-A")
    assert told(covered) == [("conf/x.yaml", "not-a-file", True)], "a new schema looks at all of them"
    assert told(covered, "--all") == [("conf/x.yaml", "not-a-file", False)]


@pytest.mark.parametrize("make", [lambda repo, name: link(repo, name, "/other"), submodule], ids=["link", "submodule"])
@pytest.mark.parametrize("name", ["wiki/global", "wiki", "semantic-layer/wh", "semantic-layer"])
def test_a_directory_of_artifacts_stays_one(repo: Repo, name: str, make: Callable[[Repo, str], None]) -> None:
    for path, text in {**source("mart", measures="total"), **page("Hello\n"), "docs/a": "a\n"}.items():
        repo.write(path, text)
    start, base = repo.commit("artifacts"), repo.tree
    make(repo, name)
    make(repo, "docs")
    assert told(repo) == [(name, "not-a-file", False)]
    repo.git("commit", "-qm", "gone")
    assert told(repo, "--tree", "HEAD", "--changed-since", start) == [(name, "not-a-file", False)]
    verdict = check_tree(World(repo.path, os.environ), repo.tree, base_tree=base, everything=True)
    assert [one["path"] for one in verdict["findings"]] == [name]


def test_a_command_is_told_of_touched_links(repo: Repo, tmp_path: Path) -> None:
    names = tmp_path / "names"
    gate = {"gate": "command", "name": "own", "run": f"cat $KTX_GATE_FILES >{names}", "files": ["conf/"]}
    repo.write("ktx-gates.yaml", json.dumps({"gates": [gate]}))
    for name in ("conf/gone", "conf/stays", "conf/becomes"):
        repo.write(name, "1\n")
    repo.commit("gates")
    link(repo, "conf/becomes", "../real.txt")
    link(repo, "conf/new", "nowhere")
    link(repo, "elsewhere", "nowhere")
    submodule(repo, "conf/sub")
    repo.git("rm", "-q", "conf/gone")
    assert call("gate-check", cwd=repo.path).status == 0
    assert names.read_bytes() == b"conf/becomes\0conf/new\0"


def test_hooks_see_a_link_that_leads_nowhere(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    entry = "sh -c 'for one; do test -e \"$one\" || exit 1; done' x"
    hook = {"id": "l", "name": "l", "language": "system", "entry": entry, "types": ["symlink"]}
    repo.write(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": [hook]}]}))
    repo.write(
        "ktx-gates.yaml", json.dumps({"gates": [{"gate": "pre-commit", "run": [os.fspath(BIN / "pre-commit")]}]})
    )
    repo.commit("gates")
    link(repo, "good", "ktx-gates.yaml")
    assert told(repo) == []
    link(repo, "broken", "nowhere")
    assert told(repo) == [("", "hook-failed", False)]
