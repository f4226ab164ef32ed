"""The installed hooks under git itself: what is gated is what is committed, and nothing of the user's is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.repos import Repo

SOURCE = (
    "name: orders\ntable: shop.orders\ngrain: [id]\n"
    "columns: [{name: id, type: string}]\nmeasures: [{name: %s, expr: count(id)}]\n"
)
PAGE = "---\nsummary: %s\nsl_refs: [orders]\n---\nCounted as `orders.%s`.\n"
ORDERS, PAGE_PATH = "semantic-layer/shop/orders.yaml", "wiki/global/orders.md"


@pytest.fixture
def layer(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A source, a page that refers to it, and our hooks."""
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    repo.write(ORDERS, SOURCE % "total")
    repo.write(PAGE_PATH, PAGE % ("Orders", "total"))
    repo.write("notes", "notes\n")
    repo.commit("knowledge")
    assert call("git-ktx", "install-hooks", cwd=repo.path).status == 0
    return repo


def run(repo: Repo, *args: str) -> tuple[int, str]:
    """Status and both streams of a git call."""
    done = subprocess.run(["git", *args], cwd=repo.path, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def state(repo: Repo) -> dict[str, str]:
    """All that a hook could have moved: HEAD, index, checkout, stash."""
    return {
        "head": repo.head,
        "index": repo.git("ls-files", "-s"),
        "status": repo.git("status", "--porcelain=v2", "-uall"),
        "stash": repo.git("stash", "list"),
        "worktree": repo.git("diff"),
    }


def breaks(repo: Repo) -> None:
    """Rename the measure that the page refers to, in the checkout only."""
    repo.write(ORDERS, SOURCE % "sum_total")


def refused(repo: Repo, *args: str) -> None:
    """The call is stopped by the finding that the page is stale, and all is as it was."""
    before = state(repo)
    status, said = run(repo, *args)
    assert status == 1, said
    assert f"{PAGE_PATH}:5:12: error stale-entity" in said, said
    assert state(repo) == before


def test_commit(layer: Repo) -> None:
    breaks(layer)
    layer.git("add", ORDERS)
    refused(layer, "commit", "-m", "rename")
    layer.write(PAGE_PATH, PAGE % ("Orders", "sum_total"))
    refused(layer, "commit", "-m", "the page is mended in the checkout only")
    layer.git("add", PAGE_PATH)
    status, said = run(layer, "commit", "-m", "rename")
    assert status == 0 and "gate-check: looked at 1 page, 1 source" in said, said


def test_commit_all_reads_the_index_that_git_makes_for_it(layer: Repo) -> None:
    breaks(layer)
    refused(layer, "commit", "-a", "-m", "rename")
    layer.git("checkout", "-q", ".")
    layer.write("notes", "more\n")
    assert run(layer, "commit", "-am", "notes")[0] == 0


def test_commit_path_judges_what_is_committed_not_what_is_staged(layer: Repo) -> None:
    breaks(layer)
    layer.git("add", ORDERS)
    layer.write("notes", "more\n")
    before = state(layer)["index"]
    assert run(layer, "commit", "-m", "notes only", "notes")[0] == 0
    assert layer.git("diff", "--cached", "--name-only") == ORDERS and before != state(layer)["index"]
    refused(layer, "commit", "-m", "rename", ORDERS)


def test_commit_patch_of_unstaged_debris_does_not_matter(layer: Repo) -> None:
    breaks(layer)
    layer.write("notes", "more\n")
    layer.git("add", "notes")
    assert run(layer, "commit", "-m", "notes")[0] == 0
    assert layer.git("diff", "--name-only") == ORDERS


@pytest.mark.parametrize("how", ["commit", "commit -a", "commit PATH"])
def test_in_a_linked_worktree(layer: Repo, tmp_path: Path, how: str) -> None:
    layer.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = layer.at(tmp_path / "linked")
    breaks(linked)
    main = state(layer)
    if how == "commit":
        linked.git("add", "-A")
    words = {"commit": [], "commit -a": ["-a"], "commit PATH": ["--", ORDERS]}[how]
    refused(linked, "commit", "-m", "rename", *words)
    assert state(layer) == main
    linked.write(PAGE_PATH, PAGE % ("Orders", "sum_total"))
    linked.git("add", "-A")
    assert run(linked, "commit", "-m", "rename both")[0] == 0
    assert state(layer) == main and linked.git("rev-parse", "HEAD~1") == layer.head


def test_what_was_wrong_before_is_not_charged(layer: Repo) -> None:
    layer.write(PAGE_PATH, PAGE % ("Orders", "gone"))
    layer.git("commit", "-qam", "an old debt", "--no-verify")
    layer.write("notes", "more\n")
    assert run(layer, "commit", "-am", "notes")[0] == 0
    assert run(layer, "commit", "--amend", "-m", "another message")[0] == 0
    assert run(layer, "commit", "--allow-empty", "-m", "nothing")[0] == 0
    layer.write(PAGE_PATH, PAGE % ("All orders", "gone"))
    assert run(layer, "commit", "-am", "the page is touched, the debt is as old as before")[0] == 0


def two_sides(repo: Repo, other: str) -> None:
    """On `side` a page refers to the measure; on main it is renamed. Each is right alone."""
    repo.git("checkout", "-q", "-b", "side")
    repo.write("wiki/global/more.md", PAGE % ("More", "total"))
    repo.write("notes", other)
    repo.git("add", "-A")
    assert run(repo, "commit", "-m", "a page")[0] == 0
    repo.git("checkout", "-q", "main")
    repo.write(ORDERS, SOURCE % "sum_total")
    repo.write(PAGE_PATH, PAGE % ("Orders", "sum_total"))
    repo.git("add", "-A")
    assert run(repo, "commit", "-m", "rename")[0] == 0


def test_a_clean_merge_of_two_right_sides_that_is_wrong(layer: Repo) -> None:
    two_sides(layer, "notes\n")
    before = layer.head
    status, said = run(layer, "merge", "-m", "merge", "side")
    assert status == 1 and "wiki/global/more.md:5:12: error stale-entity" in said, said
    assert layer.head == before and layer.git("rev-parse", "MERGE_HEAD") == layer.git("rev-parse", "side")
    layer.write("wiki/global/more.md", PAGE % ("More", "sum_total"))
    layer.git("add", "-A")
    assert run(layer, "commit", "-m", "merged and mended")[0] == 0
    assert len(layer.git("rev-list", "--parents", "-1", "HEAD").split()) == 3


def test_a_conflicted_merge_is_gated_when_it_is_committed(layer: Repo) -> None:
    two_sides(layer, "side\n")
    layer.write("notes", "main\n")
    assert run(layer, "commit", "-qam", "notes")[0] == 0
    assert run(layer, "merge", "side")[0] == 1
    layer.write("notes", "both\n")
    layer.git("add", "notes")
    status, said = run(layer, "commit", "-m", "merged")
    assert status == 1 and "wiki/global/more.md:5:12: error stale-entity" in said, said
    layer.write("wiki/global/more.md", PAGE % ("More", "sum_total"))
    layer.git("add", "-A")
    assert run(layer, "commit", "-m", "merged and mended")[0] == 0


@pytest.mark.parametrize("conflicted", [False, True])
def test_a_debt_of_the_other_side_is_not_this_merge_s_doing(layer: Repo, conflicted: bool) -> None:
    layer.git("checkout", "-q", "-b", "side")
    layer.write("wiki/global/debt.md", PAGE % ("Debt", "gone"))
    layer.write("notes", "side\n")
    layer.git("add", "-A")
    layer.git("commit", "-qm", "debt", "--no-verify")
    layer.git("checkout", "-q", "main")
    layer.write("notes" if conflicted else "other", "main\n")
    layer.git("add", "-A")
    assert run(layer, "commit", "-m", "main")[0] == 0
    status, said = run(layer, "merge", "-m", "merge", "side")
    if conflicted:
        layer.write("notes", "both\n")
        layer.git("add", "notes")
        status, said = run(layer, "commit", "-m", "merge")
    assert status == 0 and "1 error" not in said and ": 1 inherited" in said, said


# -- commit-msg


def test_a_message_goes_through_the_gates_of_messages(layer: Repo) -> None:
    layer.write("notes", "more\n")
    status, said = run(layer, "commit", "-am", "a message")
    assert status == 0 and said.count("gate-check: looked at") == 2, said


# -- pre-push


@pytest.fixture
def remote(layer: Repo, tmp_path: Path) -> Repo:
    """A bare repository that has main, as `origin` of the layer."""
    bare = Repo.init(tmp_path / "remote.git", "--bare")
    layer.git("remote", "add", "origin", str(bare.path))
    assert run(layer, "push", "-q", "-u", "origin", "main")[0] == 0
    return bare


def stale(repo: Repo) -> str:
    """A commit that was not gated."""
    breaks(repo)
    repo.git("commit", "-qam", "rename", "--no-verify")
    return repo.head


def test_a_push_of_a_stale_commit_is_refused(layer: Repo, remote: Repo) -> None:
    stale(layer)
    before = remote.git("for-each-ref")
    status, said = run(layer, "push", "origin", "main")
    assert status == 1 and "error stale-entity" in said, said
    assert remote.git("for-each-ref") == before
    assert run(layer, "push", "--no-verify", "origin", "main")[0] == 0
    layer.write("notes", "more\n")
    layer.git("commit", "-qam", "notes", "--no-verify")
    assert run(layer, "push", "origin", "main")[0] == 0  # what the other side has already is not charged again


def test_a_push_of_a_new_branch(layer: Repo, remote: Repo) -> None:
    layer.git("checkout", "-q", "-b", "topic")
    layer.write("notes", "more\n")
    assert run(layer, "commit", "-am", "notes")[0] == 0
    assert run(layer, "push", "origin", "topic")[0] == 0
    stale(layer)
    status, said = run(layer, "push", "origin", "topic:another")
    assert status == 1 and "error stale-entity" in said, said


def test_a_push_with_a_deletion(layer: Repo, remote: Repo) -> None:
    assert run(layer, "push", "origin", "main:old", "main:older")[0] == 0
    assert run(layer, "push", "origin", ":old")[0] == 0
    stale(layer)
    status, said = run(layer, "push", "origin", ":older", "main")
    assert status == 1 and "error stale-entity" in said
    assert "refs/heads/older" in remote.git("for-each-ref")  # a push is all or nothing for its hook
    layer.git("reset", "-q", "--hard", "origin/main")
    layer.write("notes", "more\n")
    assert run(layer, "commit", "-am", "notes")[0] == 0
    assert run(layer, "push", "origin", ":older", "main")[0] == 0
    assert "refs/heads/older" not in remote.git("for-each-ref")


def test_a_push_of_tags_trees_and_what_was_there_before(layer: Repo, remote: Repo) -> None:
    stale(layer)
    layer.git("tag", "-m", "annotated", "v1")
    layer.git("tag", "lone-blob", "HEAD:notes")
    status, said = run(layer, "push", "origin", "lone-blob")
    assert status == 0 and "looked at nothing" in said, said
    status, said = run(layer, "push", "origin", "v1", "lone-blob:refs/tags/again")
    assert status == 1 and said.count("error stale-entity") == 1, said


def test_a_push_to_a_url_has_nothing_to_compare_with(layer: Repo, remote: Repo, tmp_path: Path) -> None:
    bare = Repo.init(tmp_path / "other.git", "--bare")
    assert run(layer, "push", str(bare.path), "main")[0] == 0
    stale(layer)
    status, said = run(layer, "push", str(bare.path), "main:new")
    assert status == 1 and "error stale-entity" in said


def test_a_forced_push_and_an_unknown_remote_commit(layer: Repo, remote: Repo, tmp_path: Path) -> None:
    layer.git("clone", "-q", str(remote.path), str(tmp_path / "clone"))
    clone = Repo(tmp_path / "clone")
    clone.write("theirs", "1\n")
    clone.commit("theirs")
    clone.git("push", "-q", "origin", "main")
    layer.write("notes", "mine\n")
    assert run(layer, "commit", "-am", "mine")[0] == 0
    assert run(layer, "push", "-q", "--force", "origin", "main")[0] == 0
    assert remote.git("rev-parse", "main") == layer.head


def test_a_repository_of_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    repo = Repo.init(tmp_path / "wide", "--object-format=sha256")
    repo.write(ORDERS, SOURCE % "total")
    repo.write(PAGE_PATH, PAGE % ("Orders", "total"))
    call("git-ktx", "install-hooks", cwd=repo.path)
    repo.git("add", "-A")
    assert run(repo, "commit", "-m", "knowledge")[0] == 0
    bare = Repo.init(tmp_path / "wide.git", "--bare", "--object-format=sha256")
    repo.git("remote", "add", "origin", str(bare.path))
    assert run(repo, "push", "origin", "main", "main:old")[0] == 0
    stale(repo)
    status, said = run(repo, "push", "origin", "main", ":old")
    assert status == 1 and "error stale-entity" in said
    assert run(repo, "push", "origin", ":old")[0] == 0


def test_input_that_is_not_git_s(layer: Repo) -> None:
    done = subprocess.run(
        ["gate-check", "--pushed", "origin"], cwd=layer.path, input=b"what?\n", capture_output=True, check=False
    )
    assert done.returncode == 2 and b"not a line of pre-push: what?" in done.stderr
    line = f"refs/heads/x {'1' * 40} refs/heads/x {'0' * 40}\n".encode()
    done = subprocess.run(["gate-check", "--pushed", "x"], cwd=layer.path, input=line, capture_output=True, check=False)
    assert done.returncode == 2 and b"is not in this repository" in done.stderr
