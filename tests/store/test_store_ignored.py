"""The store is ignored before anything is in it, whatever rules there are."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.git.git import Git
from ktxkit.store import store as effects
from ktxkit.store.world import World
from tests.support.repos import Repo


def excludes(repo: Repo) -> list[str]:
    lines = (repo.path / ".git/info/exclude").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("rules", "added"),
    [("", ["/.ktx/"]), (".ktx\n", []), (".ktx/\n", []), ("/.ktx/**\n", []), ("*.log", ["/.ktx/"])],
)
def test_nothing_of_the_store_shows_in_status(repo: Repo, rules: str, added: list[str]) -> None:
    repo.write(".gitignore", rules)
    repo.commit()
    store = World(repo.path, os.environ).writable_store
    (store.root / "x").write_text("")
    assert excludes(repo) == added
    assert repo.git("status", "--porcelain", "--untracked-files=all") == ""


def test_twice_adds_one_rule(repo: Repo) -> None:
    for _ in range(2):
        assert World(repo.path, os.environ).writable_store.root == repo.path / ".ktx"
        (repo.path / ".ktx").rmdir()
    assert excludes(repo) == ["/.ktx/"]


def test_a_rule_that_includes_it_again_is_an_error(repo: Repo) -> None:
    repo.write(".gitignore", "!/.ktx/\n")
    with pytest.raises(CannotRun, match="does not ignore"):
        _ = World(repo.path, os.environ).writable_store
    assert not (repo.path / ".ktx").exists()


def test_a_hostile_name_of_the_store_is_taken_as_it_is(repo: Repo, tmp_path: Path) -> None:
    place = repo.path / "a*[b] c "
    store = World(repo.path, os.environ, ktx_dir=str(place)).writable_store
    (store.root / "x").write_text("")
    assert repo.git("status", "--porcelain", "--untracked-files=all") == ""


def test_two_first_ones_write_one_after_the_other(repo: Repo) -> None:
    """While another process is at the rules, ours waits, and then finds the rule that it was about to write."""
    exclude = repo.path / ".git/info/exclude"
    exclude.write_text("mine\n")
    ours = threading.Thread(target=lambda: World(repo.path, os.environ).writable_store)
    other = os.open(exclude.parent, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        ours.start()
        ours.join(1.0)
        assert ours.is_alive() and exclude.read_text() == "mine\n"
        exclude.write_text("mine\n/.ktx/\n")
    finally:
        os.close(other)
        ours.join()
    assert exclude.read_text() == "mine\n/.ktx/\n"
    assert (repo.path / ".ktx").is_dir()


def test_asked_again_only_where_a_rule_may_have_changed(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(repo.path, os.environ)
    store = world.writable_store
    asked, ask = [], effects.is_ignored

    def noted(git: Git, store: effects.Store) -> bool:
        asked.append(store.root)
        return ask(git, store)

    monkeypatch.setattr(effects, "is_ignored", noted)
    for _ in range(3):
        effects.ensure_ignored(store, world.repository, world.git)
    assert asked == []
    repo.write(".git/info/exclude", "mine\n")
    effects.ensure_ignored(store, world.repository, world.git)
    assert excludes(repo) == ["mine", "/.ktx/"], "a rule that was taken away is written again"
    repo.write(".gitignore", "!/.ktx/\n")
    with pytest.raises(CannotRun, match="does not ignore"):
        effects.ensure_ignored(store, world.repository, world.git)
