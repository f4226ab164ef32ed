"""The branch of HEAD, read from its file, is the one that git names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.integration import world_at
from tests.support.repos import Repo


def linked(repo: Repo) -> None:
    head = repo.path / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")


HEADS: dict[str, Callable[[Repo], object]] = {
    "as it is": lambda repo: None,
    "not of ASCII": lambda repo: repo.git("checkout", "-q", "-b", "zweig/ä"),
    "unborn": lambda repo: repo.git("checkout", "-q", "--orphan", "new"),
    "detached": lambda repo: repo.git("checkout", "-q", "--detach"),
    "a link": linked,
    "outside refs/heads": lambda repo: repo.git("symbolic-ref", "HEAD", "refs/x/y"),
    "as a reftable repository has it": lambda repo: repo.write(".git/HEAD", "ref: refs/heads/.invalid\n"),
}


@pytest.mark.parametrize("name", HEADS)
def test_as_git_names_it(repo: Repo, name: str) -> None:
    HEADS[name](repo)
    world = world_at(repo.path)
    said = repo.git("symbolic-ref", "--quiet", "HEAD", check=False)
    assert world.repository.branch(world.git) == (said or None)


def test_of_the_linked_worktree_that_it_is_asked_in(repo: Repo) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", repo.path.parent / "side")
    world = world_at(repo.path.parent / "side")
    assert world.repository.branch(world.git) == "refs/heads/side"
