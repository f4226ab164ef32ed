"""Worktrees without a job: new work, existing refs, pull requests; isolation that exists is used, never nested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Ran, call, spawn
from tests.support.repos import Repo


def opened(where: Repo, *args: str | Path) -> tuple[Repo, Ran]:
    ran = call("worktree-open", "--json", *args, cwd=where.path)
    assert ran.status == 0, ran.out
    return Repo(Path(ran.document["path"])), ran


def refused(where: Repo, *args: str | Path, status: int = 1) -> dict[str, str]:
    before = everything(where)
    ran = call("worktree-open", "--json", *args, cwd=where.path)
    assert ran.status == status, ran.out
    assert everything(where) == before, "a failure leaves nothing behind"
    error: dict[str, str] = ran.json["error"]
    return error


def everything(where: Repo) -> tuple[object, ...]:
    store = Path(where.git("rev-parse", "--path-format=absolute", "--git-common-dir")).parent / ".ktx"
    files = sorted(str(path) for path in store.rglob("*") if path.name != ".lock" and path.is_file())
    listed = where.git("worktree", "list", "--porcelain")
    refs = where.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
    return listed, refs, [file for file in files if not file.endswith(".lock")]


def close(where: Repo, *args: str) -> Ran:
    return call("worktree-close", "--json", *args, cwd=where.path)


@pytest.fixture
def cloned(repo: Repo) -> Repo:
    """A clone whose origin has a default branch `trunk`, a branch, a tag and a pull request."""
    repo.git("branch", "-m", "trunk")
    repo.git("checkout", "-q", "-b", "theirs")
    repo.write("theirs", "x\n")
    repo.commit("theirs")
    repo.git("update-ref", "refs/pull/7/head", "theirs")
    repo.git("checkout", "-q", "trunk")
    repo.git("tag", "v1")
    repo.git("clone", "-q", repo.path, repo.path.parent / "clone")
    return Repo(repo.path.parent / "clone")


def test_new_work_starts_a_branch(repo: Repo) -> None:
    tree, ran = opened(repo, "feat/login")
    assert tree.path == repo.path / ".ktx/worktrees/adhoc/feat-login"
    assert tree.git("symbolic-ref", "HEAD") == "refs/heads/feat/login"
    assert tree.head == repo.head and tree.git("status", "--porcelain") == ""
    assert ran.document["branch"] == "refs/heads/feat/login" and ran.document["createdBranch"] is True
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("config", "--get-regexp", "^branch[.]", check=False) == ""


def test_the_base_is_origins_default_branch_fetched(repo: Repo, cloned: Repo) -> None:
    repo.write("newer", "x\n")
    newer = repo.commit("newer")
    tree, _ = opened(cloned, "work")
    assert tree.head == newer
    stale, _ = opened(cloned, "work2", "--base", "v1", "--no-fetch")
    assert stale.head == cloned.git("rev-parse", "v1")


def test_a_fetch_that_fails_is_not_fatal(repo: Repo, cloned: Repo) -> None:
    cloned.git("remote", "set-url", "origin", repo.path.parent / "nowhere")
    ran = call("worktree-open", "work", cwd=cloned.path)
    assert ran.status == 0 and "could not fetch" in ran.err
    assert Repo(Path(ran.out.strip())).head == cloned.git("rev-parse", "origin/trunk")


NO_DEFAULT = ("symbolic-ref", "-d", "refs/remotes/origin/HEAD")
NO_ORIGIN = ("remote", "remove", "origin")
BASES = {
    "origin/HEAD": ((), "origin/trunk"),
    "origin/main": ((NO_DEFAULT, ("update-ref", "refs/remotes/origin/main", "origin/theirs")), "origin/theirs"),
    "main": ((NO_ORIGIN, ("update-ref", "refs/heads/main", "v1")), "v1"),
    "HEAD": ((NO_ORIGIN, ("checkout", "-q", "-b", "mine")), "mine"),
    "a detached HEAD": ((NO_ORIGIN, ("checkout", "-q", "--detach", "v1"), ("branch", "-D", "trunk")), "v1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BASES)
def test_base_when_none_is_named(cloned: Repo, name: str) -> None:
    commands, expected = BASES[name]
    for command in commands:
        cloned.git(*command)
    wanted = cloned.git("rev-parse", expected)
    assert opened(cloned, "work", "--no-fetch")[0].head == wanted


def test_an_existing_branch(repo: Repo) -> None:
    repo.git("branch", "old")
    tree, ran = opened(repo, "--ref", "old")
    assert tree.git("symbolic-ref", "HEAD") == "refs/heads/old"
    assert ran.document["createdBranch"] is False
    assert close(repo, "old", "--outcome", "success").status == 0
    assert repo.git("rev-parse", "--verify", "refs/heads/old") == repo.head, "we did not make it"


def test_a_branch_of_origin_gets_a_local_one(cloned: Repo) -> None:
    for asked in ("theirs", "origin/theirs"):
        tree, _ = opened(cloned, "--ref", asked)
        assert tree.git("symbolic-ref", "HEAD") == "refs/heads/theirs"
        assert tree.head == cloned.git("rev-parse", "origin/theirs")
        assert close(cloned, "theirs", "--outcome", "empty").status == 0
        assert cloned.git("for-each-ref", "refs/heads/theirs") == ""


def test_a_tag_is_detached(cloned: Repo) -> None:
    tree, ran = opened(cloned, "--ref", "v1")
    assert tree.git("symbolic-ref", "-q", "HEAD", check=False) == "" and ran.document["detached"] is True
    assert tree.head == cloned.git("rev-parse", "v1")


def test_a_pull_request_is_on_a_local_branch(repo: Repo, cloned: Repo) -> None:
    tree, _ = opened(cloned, "--pr", "7")
    assert tree.git("symbolic-ref", "HEAD") == "refs/heads/pr-7"
    assert (tree.path / "theirs").exists()
    assert not (cloned.path / ".git/FETCH_HEAD").exists()
    assert close(cloned, "pr-7", "--outcome", "success").status == 0
    message = refused(cloned, "--pr", "8", status=2)["message"]
    assert message == "pull request 8 cannot be fetched: couldn't find remote ref refs/pull/8/head"


def test_a_pull_request_without_a_remote_says_so(repo: Repo) -> None:
    message = refused(repo, "--pr", "8", status=2)["message"]
    assert message == "pull request 8 cannot be fetched: 'origin' does not appear to be a git repository"


def test_a_pull_request_that_went_on_is_followed(repo: Repo, cloned: Repo) -> None:
    cloned.git("update-ref", "refs/heads/pr-7", "v1")
    assert opened(cloned, "--pr", "7")[0].head == repo.git("rev-parse", "theirs")
    assert close(cloned, "pr-7", "--outcome", "success").status == 0
    own = cloned.git("commit-tree", "v1^{tree}", "-m", "own")
    cloned.git("update-ref", "refs/heads/pr-7", own)
    assert "has commits that pull request 7 does not have" in refused(cloned, "--pr", "7")["message"]


def test_a_branch_lives_in_one_worktree(repo: Repo) -> None:
    tree, _ = opened(repo, "work")
    for args in (("work", "--base", "HEAD"), ("--ref", "work", "--path", "../other")):
        error = refused(repo, *args)
        assert "checked out already" in error["message"] and error["where"] == str(tree.path)
    assert refused(repo, "--ref", "main")["where"] == str(repo.path)
    assert opened(repo, "--detach", "--base", "work")[0].head == tree.head


def test_a_branch_that_is_being_rebased_elsewhere(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("side", "x")
    repo.commit("side")
    repo.git("rebase", "--exec", "false", "main", check=False)
    assert repo.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    assert refused(repo, "--ref", "side")["where"] == str(repo.path)


REFUSED = {
    "no name": ((), 2),
    "a bad name": (("a..b",), 2),
    "an option as a name": (("--ref=-x",), 2),
    "a branch that exists": (("there",), 1),
    "a name below a branch": (("there/below",), 2),
    "an unknown base": (("work", "--base", "nothing"), 2),
    "an unknown ref": (("--ref", "nothing"), 2),
    "a unit without a job": (("--unit", "u"), 2),
    "a unit on a ref": (("--job", "j", "--unit", "u", "--ref", "main"), 2),
    "a path in the checkout": (("work", "--path", "sub/wt"), 1),
    "a path that is taken": (("work", "--path", ".git"), 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_leave_nothing(repo: Repo, name: str) -> None:
    repo.git("branch", "there")
    args, status = REFUSED[name]
    refused(repo, *args, status=status)


def test_a_path_of_ones_own(repo: Repo) -> None:
    tree, _ = opened(repo, "work", "--path", "../beside")
    assert tree.path == repo.path.parent / "beside" and tree.git("status", "--porcelain") == ""
    (repo.path / ".gitignore").write_text("wt/\n")
    assert opened(repo, "work2", "--path", "wt/two")[0].path == repo.path / "wt/two"
    assert close(tree, "--outcome", "success").status == 0
    assert not tree.path.exists()


def test_inside_a_linked_worktree_nothing_is_nested(repo: Repo) -> None:
    linked = repo.at(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "mine", linked.path)
    (linked.path / "deep").mkdir()
    tree, ran = opened(linked.at(linked.path / "deep"))
    assert tree.path == linked.path and ran.document["mode"] == "in-place"
    assert ran.document["branch"] == "refs/heads/mine"
    assert opened(linked, "mine")[0].path == linked.path, "its own name"
    assert close(linked, "--outcome", "success").status == 0
    assert linked.path.is_dir() and repo.git("rev-parse", "--verify", "mine")


def test_another_name_inside_a_worktree_leads_to_that_one(repo: Repo) -> None:
    first, second = (opened(repo, name)[0] for name in ("w1", "w2"))
    first.write("mine", "1\n")
    first.commit()
    assert opened(first, "w2")[0].path == second.path
    third, _ = opened(first, "w3")
    assert third.path == repo.path / ".ktx/worktrees/adhoc/w3" and third.git("symbolic-ref", "HEAD") == "refs/heads/w3"
    assert third.head == repo.head, "its base is what it is in the main checkout"
    assert opened(first, "w4", "--base", "HEAD")[0].head == first.head, "a base means what it means here"
    done = call("worktree-open", "w2", "--", "sh", "-c", "pwd; echo x > note", cwd=first.path)
    assert done.status == 0 and (second.path / "note").exists() and not (first.path / "note").exists()
    first.git("switch", "-q", "-c", "renamed")
    for own in ("w1", "renamed"):
        assert opened(first, own)[0].path == first.path
    apart, _ = opened(first, "w5", "--detach")
    assert apart.path == repo.path / ".ktx/worktrees/adhoc/w5" and opened(apart, "w5", "--detach")[0].path == apart.path
    assert repo.git("status", "--porcelain") == ""


def test_another_name_is_taken_for_no_own_name_that_is_like_it(repo: Repo) -> None:
    tree, _ = opened(repo, "feat/a")
    assert opened(tree, "feat-a")[0].git("symbolic-ref", "HEAD") == "refs/heads/feat-a"


def test_a_unit_opens_no_other_worktree(repo: Repo) -> None:
    unit, _ = opened(repo, "--job", "j1", "--unit", "u", "--target", "main")
    error = refused(unit, "other")
    assert "unit u has its own worktree" in error["message"] and "work here" in error["hint"]
    assert opened(unit)[0].path == unit.path
    tree, _ = opened(repo, "w1")
    ran = spawn("worktree-open", "w2", "--", "touch", "ran", cwd=tree.path, env={"KTX_UNIT": "u"})
    assert ran.status == 1 and "unit u has its own worktree" in ran.err and not (tree.path / "ran").exists()


def test_a_ref_inside_a_linked_worktree_is_checked_out_in_place(repo: Repo) -> None:
    repo.git("branch", "other")
    linked = repo.at(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "mine", linked.path)
    assert opened(linked, "--ref", "mine")[0].path == linked.path
    assert opened(linked, "--ref", "other")[0].git("symbolic-ref", "HEAD") == "refs/heads/other"
    assert refused(linked, "--ref", "main")["where"] == str(repo.path)


def test_a_ref_in_place_never_overwrites_work(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.write("README", "other\n")
    repo.commit()
    repo.git("checkout", "-q", "main")
    linked = repo.at(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "mine", linked.path)
    linked.write("README", "mine\n")
    assert "cannot switch" in refused(linked, "--ref", "other")["message"]
    assert (linked.path / "README").read_text() == "mine\n"


def test_a_unit_is_made_in_the_common_store_from_anywhere(repo: Repo) -> None:
    linked = repo.at(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "mine", linked.path)
    tree, ran = opened(linked, "--job", "j1", "--unit", "u1", "--target", "main")
    assert tree.path == repo.path / ".ktx/worktrees/j1/0001-u1" and ran.document["mode"] == "unit"
    second, _ = opened(tree, "--job", "j1", "--unit", "u2")
    assert second.path == repo.path / ".ktx/worktrees/j1/0002-u2"


def test_closing_keeps_a_branch_with_commits_of_its_own(repo: Repo) -> None:
    tree, _ = opened(repo, "work")
    tree.commit("mine")
    done = close(tree, "--outcome", "success")
    assert done.status == 0 and done.document["branchKept"] is True
    assert not tree.path.exists()
    assert repo.git("log", "-1", "--format=%s", "work") == "mine"


def test_closing_removes_a_merged_branch(repo: Repo) -> None:
    tree, _ = opened(repo, "work")
    tree.commit("mine")
    tree.git("config", "branch.work.description", "x")
    repo.git("merge", "-q", "work")
    assert close(tree, "--outcome", "success").status == 0
    assert repo.git("for-each-ref", "refs/heads/work") == ""
    assert repo.git("config", "--get-regexp", "^branch[.]work[.]", check=False) == ""


def test_discarding_goes_to_the_attic_first(repo: Repo) -> None:
    tree, _ = opened(repo, "work")
    tree.write("a", "committed\n")
    tree.commit("mine")
    tree.write("b", "untracked\n")
    assert close(tree, "--outcome", "success").status == 1
    done = close(tree, "--outcome", "success", "--discard")
    assert done.status == 0, done.out
    attic = done.document["atticRef"]
    assert repo.show(attic, "a") == b"committed\n" and repo.show(attic, "b") == b"untracked\n"
    assert repo.git("for-each-ref", "refs/heads/work") == ""


@pytest.mark.parametrize("name", ["HEAD", "@", "refs/heads/x", "a..b", "a b", "@{-1}"])
def test_what_git_would_take_for_something_else_is_no_branch(repo: Repo, name: str) -> None:
    error = refused(repo, name, status=2)
    assert "cannot be a branch name" in error["message"], error


def test_two_names_with_one_slug(repo: Repo) -> None:
    first, _ = opened(repo, "feat/a")
    second, _ = opened(repo, "feat-a")
    assert first.path != second.path
    assert first.git("symbolic-ref", "HEAD") == "refs/heads/feat/a"
    assert close(repo, "feat-a", "--outcome", "empty").status == 0
    assert second.path.is_dir() != first.path.is_dir()


@pytest.mark.parametrize("args", [("feat/a",), ("--ref", "feat/a")])
def test_on_the_second_day_the_same_name_leads_to_the_same_place(repo: Repo, args: tuple[str, ...]) -> None:
    tree, _ = opened(repo, "feat/a")
    tree.write("half", "x")
    again, _ = opened(repo, *args)
    assert again.path == tree.path and (again.path / "half").exists()
    tree.git("switch", "-q", "-c", "other")
    assert refused(repo, "feat/a")["message"] == "branch feat/a exists already"


def test_evidence_of_work_without_a_job_is_kept(repo: Repo) -> None:
    tree, _ = opened(repo, "work")
    tree.write("half", "x")
    assert close(tree, "--outcome", "crash").status == 0
    assert (tree.path / "half").exists()
    sentinel = repo.path / ".ktx/leases/work/sentinel.json"
    assert sentinel.is_file()
    assert "checked out already" in refused(repo, "--ref", "work")["message"]
