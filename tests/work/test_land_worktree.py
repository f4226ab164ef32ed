"""git ktx land: a named worktree lands as a job of one, with its own commits, and its closing knows what is in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Ran, call, spawn
from tests.support.repos import Repo


@pytest.fixture
def repo(repo: Repo) -> Repo:
    repo.write("page", "one\ntwo\nthree\nfour\nfive\n")
    repo.commit("base")
    return repo


@pytest.fixture
def topic(repo: Repo) -> Repo:
    """An open worktree with two commits of two authors."""
    made = Repo(Path(call("worktree-open", "topic", "--json", cwd=repo.path).document["path"]))
    made.write("a", "a\n")
    made.git("add", "-A")
    made.git("commit", "-q", "--author=Ada <ada@x.test>", "--date=@1700000000 +0200", "-m", "Add a", "-m", "Because.")
    made.write("page", "one\ntwo\nthree\nfour\nFIVE\n")
    made.git("commit", "-qa", "--author=Bob <bob@x.test>", "-m", "Shout five")
    return made


def land(repo: Repo, *words: str) -> Ran:
    return call("git-ktx", "land", "topic", *words, cwd=repo.path)


def close(repo: Repo) -> Ran:
    return call("worktree-close", "topic", "--outcome", "success", "--json", cwd=repo.path)


def log(repo: Repo, form: str, revisions: str) -> list[str]:
    return repo.git("log", "--reverse", f"--format={form}", revisions).splitlines()


def test_the_commits_themselves_land_where_the_target_has_not_moved(repo: Repo, topic: Repo) -> None:
    done = land(repo)
    assert done.status == 0 and "done: " in done.out, done.err
    assert repo.head == topic.head and (repo.path / "a").read_text() == "a\n"
    assert repo.git("status", "--porcelain") == ""
    closed = close(repo)
    assert closed.status == 0 and not topic.path.exists() and "branchKept" not in closed.document
    assert repo.git("branch", "--list", "topic") == "" and repo.git("for-each-ref", "refs/ktx/attic") == ""


def test_messages_authors_and_dates_are_kept_on_a_target_that_moved(repo: Repo, topic: Repo) -> None:
    repo.write("page", "ONE\ntwo\nthree\nfour\nfive\n")
    before = repo.commit("meanwhile")
    done = land(repo)
    assert done.status == 0, done.err
    form = "%an <%ae> %ad %B"
    assert log(repo, form, f"{before}..HEAD") == log(topic, form, "HEAD~2..HEAD")
    assert log(repo, "%cn", f"{before}..HEAD") != log(repo, "%an", f"{before}..HEAD")
    assert repo.show("HEAD", "page") == b"ONE\ntwo\nthree\nfour\nFIVE\n" and repo.show("HEAD~1", "a") == b"a\n"
    closed = close(repo)
    assert closed.status == 0 and not topic.path.exists(), closed.out
    assert repo.git("branch", "--list", "topic") == "", "what is in is no branch's only copy"


def test_squash_is_one_commit_with_uncommitted_work(repo: Repo, topic: Repo) -> None:
    topic.write("new", "new\n")
    refused = land(repo)
    assert refused.status == 1 and "uncommitted" in refused.err and repo.show("HEAD", "page").endswith(b"five\n")
    done = land(repo, "--squash", "-m", "All of it")
    assert done.status == 0, done.err
    assert log(repo, "%s", "HEAD~1..HEAD") == ["All of it"] and repo.show("HEAD", "new") == b"new\n"
    closed = close(repo)
    assert closed.status == 0 and not topic.path.exists(), "uncommitted, and in"
    assert repo.git("branch", "--list", "topic") == "" and repo.git("for-each-ref", "refs/ktx/attic") == ""


def test_a_squash_lists_the_subjects(repo: Repo, topic: Repo) -> None:
    assert land(repo, "--squash").status == 0
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("topic\n\n* Add a\n* Shout five\n")


def test_work_after_the_landing_is_not_in(repo: Repo, topic: Repo) -> None:
    assert land(repo, "--squash").status == 0
    topic.write("more", "more\n")
    assert close(repo).status == 1
    topic.commit("more")
    closed = close(repo)
    assert closed.document["branchKept"] is True and repo.show("topic", "more") == b"more\n"


def test_it_lands_again_with_what_came_since(repo: Repo, topic: Repo) -> None:
    assert land(repo).status == 0
    topic.write("more", "more\n")
    topic.commit("More")
    assert land(repo).status == 0 and repo.head == topic.head
    again = land(repo)
    assert again.status == 0 and "noop" in again.out
    assert close(repo).status == 0 and repo.git("branch", "--list", "topic") == ""


def test_a_landing_that_the_target_lost_is_not_in(repo: Repo, topic: Repo) -> None:
    before = repo.head
    assert land(repo, "--squash").status == 0
    repo.git("reset", "-q", "--hard", before)
    closed = close(repo)
    assert closed.document["branchKept"] is True and repo.show("topic", "a") == b"a\n"


def test_a_branch_that_was_squashed_elsewhere_is_in(repo: Repo, topic: Repo) -> None:
    """As a forge does it: no landing of ours is on record."""
    repo.git("merge", "-q", "--squash", "topic")
    repo.commit("squashed")
    closed = close(repo)
    assert closed.status == 0 and "branchKept" not in closed.document and repo.git("branch", "--list", "topic") == ""


def test_what_conflicts_lands_nothing(repo: Repo, topic: Repo) -> None:
    repo.write("page", "one\ntwo\nthree\nfour\n5\n")
    before = repo.commit("meanwhile")
    done = land(repo)
    assert done.status == 3 and "textual_conflict" in done.out
    assert "  page: both sides changed the same lines\n" in done.out
    merge = f"git -C {topic.path} merge main"
    assert f"next: commit it there, {merge}, mend and commit, then git ktx land topic --squash\n" in done.err
    assert repo.head == before and topic.path.exists()
    status = call("git-ktx", "status", "--json", cwd=repo.path).document
    assert [job["state"] for job in status["jobs"]] == ["closed"] and "next" not in status["jobs"][0]


def test_commits_that_fit_together_only_are_said(repo: Repo, topic: Repo) -> None:
    """A commit that conflicts, and another one that takes the conflict back: as one change it fits."""
    topic.write("page", "one\ntwo\nthree\nfour\nfive\n")
    topic.commit("Whisper five")
    repo.write("page", "one\ntwo\nthree\nfour\n5\n")
    before = repo.commit("meanwhile")
    done = land(repo)
    assert done.status == 3 and "Shout five" in done.err and "--squash" in done.err and repo.head == before
    assert land(repo, "--squash").status == 0 and repo.show("HEAD", "page").endswith(b"5\n")


def test_verification_decides(repo: Repo, topic: Repo) -> None:
    before = repo.head
    words = ("git-ktx", "land", "topic", "--", "sh", "-c", "grep -q five page")
    failed = spawn(*words, cwd=repo.path)
    assert failed.status == 3 and "verification_failed" in failed.out and repo.head == before, failed
    passed = spawn("git-ktx", "land", "topic", "--", "test", "-f", "a", cwd=repo.path)
    assert passed.status == 0 and repo.head == topic.head


def test_the_configured_verification_is_that_of_the_main_checkout(repo: Repo, topic: Repo) -> None:
    repo.write(".ktx-config.yaml", "job:\n  verify: {run: 'grep -q five page'}\n")
    before = repo.commit("configured")
    topic.git("merge", "-q", "--no-edit", "main")
    topic.write(".ktx-config.yaml", "job:\n  verify: {run: 'true'}\n")
    topic.commit("loosened")
    words = ("git-ktx", "land", "--squash")
    refused = call(*words, cwd=topic.path)
    assert refused.status == 1 and "control-file" in refused.out, "a control file is allowed by name"
    failed = call(*words, "--allow-control", ".ktx-config.yaml", cwd=topic.path)
    assert failed.status == 3 and "verification_failed" in failed.out and repo.head == before, failed


def test_gates_decide(repo: Repo, topic: Repo) -> None:
    topic.write("wiki/global/page.md", "---\nsummary: x\n---\n\nSee [[nowhere]].\n")
    topic.commit("A page")
    before = repo.head
    done = land(repo)
    assert done.status == 3 and "nowhere" in done.out and repo.head == before


def test_merges_are_refused_and_squashed(repo: Repo, topic: Repo) -> None:
    repo.write("beside", "beside\n")
    repo.commit("meanwhile")
    topic.git("merge", "-q", "--no-edit", "main")
    done = land(repo)
    assert done.status == 1 and "is a merge" in done.err and "--squash" in done.err
    assert "next: git ktx land topic --squash" in call("git-ktx", "list", cwd=repo.path).out
    assert land(repo, "--squash").status == 0 and repo.show("HEAD", "a") == b"a\n"


def test_what_is_not_committed_is_refused_and_squashed(repo: Repo, topic: Repo) -> None:
    topic.write("new", "new\n")
    done = land(repo)
    assert done.status == 1 and "uncommitted work: new" in done.err and "hint: commit it there; or --squash" in done.err
    assert land(repo, "--squash").status == 0 and repo.show("HEAD", "new") == b"new\n"


def test_a_dirty_target_is_not_overwritten(repo: Repo, topic: Repo) -> None:
    repo.write("page", "mine\n")
    done = land(repo)
    assert done.status == 1 and "page" in done.err and (repo.path / "page").read_text() == "mine\n"


def test_from_inside_without_a_name(repo: Repo, topic: Repo) -> None:
    done = call("git-ktx", "land", "--json", cwd=topic.path)
    assert done.status == 0 and json.loads(done.out)["document"]["target"] == "refs/heads/main"
    assert repo.head == topic.head


def test_what_is_not_meant_is_said(repo: Repo, topic: Repo) -> None:
    assert land(repo, "-m", "text").status == 2
    itself = land(repo, "--target", "topic")
    assert itself.status == 2 and "on itself" in itself.err
    none = call("git-ktx", "land", "nothing", cwd=repo.path)
    assert none.status == 2 and "no worktree named 'nothing'" in none.err
    assert call("worktree-open", "--job", "j1", "--unit", "u", cwd=repo.path).status == 0
    unit = call("git-ktx", "land", cwd=repo.path / ".ktx/worktrees/j1/0001-u")
    assert unit.status == 2 and "is a unit of job j1" in unit.err


def test_a_worktree_of_git_alone_is_told_from_none(repo: Repo, topic: Repo, tmp_path: Path) -> None:
    """`git ktx list` shows it, so "no worktree of that name" would contradict the list."""
    place = tmp_path / "by hand"
    repo.git("worktree", "add", "-q", "-b", "agent-1", place)
    for words in (["git-ktx", "land"], ["worktree-close"]):
        for name in ("agent-1", "by hand"):
            done = call(*words, name, cwd=repo.path)
            assert done.status == 2 and f"{place}: {name} was not opened by ktxkit" in done.err
            assert f"worktree-open -C '{place}'" in done.err
    assert call("worktree-open", "-C", place, cwd=repo.path).status == 0
    (place / "new").write_text("new\n")
    assert call("git-ktx", "land", "agent-1", "--squash", cwd=repo.path).status == 0
    assert repo.git("show", "main:new") == "new"


def test_a_near_name_is_offered(repo: Repo, topic: Repo) -> None:
    done = call("git-ktx", "land", "topik", cwd=repo.path)
    assert done.status == 2 and "hint: did you mean topic? `git ktx list` shows" in done.err


def test_another_encoding_is_kept(repo: Repo, topic: Repo) -> None:
    topic.git(
        "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", "-", stdin=b"Gr\xfc\xdfe\n"
    )
    topic.write("z", "z\n")
    topic.git("add", "z")
    topic.git("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--amend", "--no-edit")
    repo.write("beside", "beside\n")
    repo.commit("meanwhile")
    assert land(repo).status == 0
    raw = repo.git_bytes("cat-file", "commit", "HEAD")
    assert b"encoding ISO-8859-1\n" in raw and raw.endswith(b"\n\nGr\xfc\xdfe\n")


def opened(repo: Repo, name: str, *words: str) -> Repo:
    return Repo(Path(call("worktree-open", name, *words, "--json", cwd=repo.path).document["path"]))


def next_of(repo: Repo, name: str) -> tuple[int, str]:
    """How far it is ahead, and what is next, by `git ktx list`."""
    listed = call("git-ktx", "list", "--json", cwd=repo.path).json["data"]["worktrees"]
    row = next(row for row in listed if row["name"] == name)
    return row.get("ahead", 0), row.get("next", "")


@pytest.fixture
def leaked(repo: Repo) -> str:
    """A commit of main that nobody wants."""
    repo.write("secret", "s3cret\n")
    return repo.commit("X: oops, a secret")


def rewritten(repo: Repo) -> None:
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write("y", "y\n")
    repo.commit("Y")


def test_a_commit_that_the_target_dropped_does_not_come_back(repo: Repo, leaked: str) -> None:
    bare, own, fresh = (opened(repo, name) for name in ("bare", "own", "fresh"))
    bare.write("unc", "unc\n")
    own.write("own", "own\n")
    own.commit("Own")
    rewritten(repo)
    assert next_of(repo, "bare") == (0, "git ktx land bare --squash")
    assert next_of(repo, "own") == (1, "git ktx land own")
    assert next_of(repo, "fresh") == (0, "worktree-close fresh") and fresh.head == leaked
    done = call("git-ktx", "land", "bare", "--squash", cwd=repo.path)
    left = f"note: main was rewritten since bare was opened; left out, as main has it no more: {leaked[:12]} X: oops"
    assert done.status == 0 and left in done.err, done
    assert call("git-ktx", "land", "own", cwd=repo.path).status == 0
    assert log(repo, "%s", "main")[-3:] == ["Y", "bare", "Own"]
    assert repo.git("log", "--format=%H", "--", "secret") == "" and not (repo.path / "secret").exists()
    for name in ("bare", "own", "fresh"):
        assert next_of(repo, name)[1] == f"worktree-close {name}"
        assert call("worktree-close", name, cwd=repo.path).status == 0


def test_an_amended_commit_of_the_target_is_no_conflict(repo: Repo) -> None:
    repo.write("page", "one\ntwo\nthree\nfour\nsix\n")
    repo.commit("Six")
    own = opened(repo, "own")
    own.write("own", "own\n")
    own.commit("Own")
    repo.write("page", "one\ntwo\nthree\nfour\n6\n")
    repo.git("commit", "-q", "--amend", "-am", "6")
    assert call("git-ktx", "land", "own", cwd=repo.path).status == 0
    assert log(repo, "%s", "main")[-2:] == ["6", "Own"] and repo.show("main", "page").endswith(b"four\n6\n")


def test_an_amended_root_is_no_conflict(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    repo.write("page", "one\n")
    repo.commit("root")
    own = opened(repo, "own")
    own.write("own", "own\n")
    own.commit("Own")
    repo.git("commit", "-q", "--amend", "-m", "Root")
    assert next_of(repo, "own") == (1, "git ktx land own")
    assert call("git-ktx", "land", "own", cwd=repo.path).status == 0
    assert log(repo, "%s", "main") == ["Root", "Own"]


def test_a_dropped_commit_beside_a_merge_of_the_target_is_refused_with_a_way(repo: Repo, leaked: str) -> None:
    own = opened(repo, "own")
    own.write("own", "own\n")
    own.commit("Own")
    rewritten(repo)
    own.git("merge", "-q", "--no-edit", "main")
    done = call("git-ktx", "land", "own", "--squash", cwd=repo.path)
    way = f"git -C {own.path} rebase --autostash --onto main {leaked[:12]}"
    assert done.status == 1 and f"{leaked[:12]} X: oops, a secret" in done.err and way in done.err, done
    assert next_of(repo, "own")[1] == way
    own.git(*way.split()[3:])
    assert next_of(repo, "own") == (1, "git ktx land own")
    assert call("git-ktx", "land", "own", cwd=repo.path).status == 0
    assert repo.git("log", "--format=%H", "main", "--", "secret") == "" and repo.git("show", "main:own") == "own"


def test_unrelated_histories_are_refused_with_a_way(repo: Repo, topic: Repo) -> None:
    topic.git("checkout", "-q", "--orphan", "apart")
    topic.git("rm", "-q", "-r", "-f", ".")
    topic.write("z", "z\n")
    topic.commit("Apart")
    done = land(repo)
    way = f"git -C {topic.path} rebase --autostash --onto main --root"
    assert done.status == 1 and "0 merge bases" in done.err and way in done.err and next_of(repo, "apart")[1] == way
    topic.git(*way.split()[3:])
    assert land(repo).status == 0 and repo.git("show", "main:z") == "z"


def test_what_the_target_got_by_its_landing_and_lost_lands_again(repo: Repo, topic: Repo) -> None:
    """Its own commits were on the target, and are its own still."""
    before = repo.head
    assert land(repo).status == 0 and repo.head == topic.head
    repo.git("reset", "-q", "--hard", before)
    assert land(repo).status == 0 and repo.head == topic.head


def test_a_branch_that_main_was_rid_of_lands(repo: Repo, leaked: str) -> None:
    """Commits made on main by mistake, put on a branch of their own: they are that branch's work."""
    repo.git("branch", "feature")
    rewritten(repo)
    opened(repo, "--ref", "feature")
    assert next_of(repo, "feature") == (1, "git ktx land feature")
    assert call("git-ktx", "land", "feature", cwd=repo.path).status == 0 and repo.git("show", "main:secret") == "s3cret"


@pytest.mark.parametrize("words", [(), ("--squash",)])
@pytest.mark.parametrize("uncommitted", [False, True])
def test_landing_twice_leaves_out_what_has_landed(repo: Repo, words: tuple[str, ...], uncommitted: bool) -> None:
    """Line by line, in one file, while the target moves: nothing of it meets itself."""
    made = opened(repo, "topic")
    made.write("page", "one\ntwo\nthree\nfour\nfive\nsix\n")
    made.commit("Six")
    repo.write("beside", "1\n")
    repo.commit("meanwhile")
    if uncommitted:
        made.write("page", "one\ntwo\nthree\nfour\nfive\nSIX\n")
        words = ("--squash",)
    assert land(repo, *words).status == 0
    made.write("page", "one\ntwo\nthree\nfour\nfive\n6\nseven\n")
    if not uncommitted:
        made.commit("Seven")
    repo.write("beside", "2\n")
    repo.commit("again")
    if not uncommitted:
        assert next_of(repo, "topic") == (1, "git ktx land topic")
    done = land(repo, *words)
    assert done.status == 0, done
    assert repo.show("main", "page") == b"one\ntwo\nthree\nfour\nfive\n6\nseven\n"
    if not uncommitted:
        assert log(repo, "%s", "main")[-1] == "Seven"
    assert next_of(repo, "topic")[1] == "worktree-close topic" and close(repo).status == 0


def test_landed_uncommitted_work_is_left_out_once_committed(repo: Repo, topic: Repo) -> None:
    topic.write("page", "one\ntwo\nthree\nfour\nV\n")
    assert land(repo, "--squash").status == 0
    topic.write("page", "one\ntwo\nthree\nfour\nv\n")
    topic.commit("Lower")
    assert land(repo).status == 0
    assert log(repo, "%s", "main")[-1] == "Lower" and repo.show("main", "page").endswith(b"\nv\n")


def test_landing_after_a_merge_of_the_target(repo: Repo, topic: Repo) -> None:
    assert land(repo, "--squash").status == 0
    repo.write("page", "one\ntwo\nthree\nfour\n5\n")
    repo.commit("meanwhile")
    topic.git("merge", "-q", "-X", "theirs", "--no-edit", "main")
    topic.write("page", "one\ntwo\nthree\nfour\n55\n")
    topic.commit("More")
    assert land(repo, "--squash").status == 0 and repo.show("main", "page").endswith(b"\n55\n")
    assert "Add a" not in log(repo, "%B", "main~1..main")


def test_what_meets_the_target_after_a_landing_is_rebased(repo: Repo, topic: Repo) -> None:
    assert land(repo, "--squash").status == 0
    landed = topic.head
    topic.write("page", "one\ntwo\nthree\nfour\n55\n")
    topic.commit("More")
    repo.write("page", "one\ntwo\nthree\nfour\n5\n")
    repo.commit("meanwhile")
    done = land(repo)
    way = f"git -C {topic.path} rebase --autostash --onto main {landed[:12]}"
    assert (
        done.status == 3 and f"next: commit it there, {way}, mend and continue, then git ktx land topic\n" in done.err
    )
    topic.git(*way.split()[3:], check=False)
    topic.write("page", "one\ntwo\nthree\nfour\n55\n")
    topic.git("add", "page")
    topic.git("commit", "-q", "-m", "More")
    topic.git("rebase", "--continue")
    assert land(repo).status == 0 and repo.show("main", "page").endswith(b"\n55\n")


def test_a_unit_counts_without_what_its_target_dropped(repo: Repo, leaked: str) -> None:
    made = opened(repo, "--job", "j1", "--unit", "u")
    made.write("own", "own\n")
    rewritten(repo)
    assert next_of(repo, "j1/u") == (0, "patch-collect --job j1 --unit u")
    for words in (("patch-collect", "--unit", "u"), ("patch-apply", "--unit", "u"), ("job-land", "--rebase")):
        assert call(words[0], "--job", "j1", *words[1:], cwd=repo.path).status == 0
    assert repo.git("log", "--format=%H", "main", "--", "secret") == "" and repo.git("show", "main:own") == "own"


def test_what_a_base_beside_the_target_had_of_it_stays_out(repo: Repo, leaked: str) -> None:
    """It began at a branch that was cut from the dropped commit: of that, only the branch's own commit lands."""
    repo.git("checkout", "-q", "-b", "feature")
    repo.write("feature", "1\n")
    repo.commit("Feature")
    repo.git("checkout", "-q", "main")
    made = opened(repo, "topic", "--base", "feature")
    made.write("own", "own\n")
    made.commit("Own")
    rewritten(repo)
    assert next_of(repo, "topic") == (2, "git ktx land topic")
    done = land(repo)
    assert done.status == 0 and f"it no more: {leaked[:12]} X: oops, a secret\n" in done.err, done
    assert log(repo, "%s", "main")[-3:] == ["Y", "Feature", "Own"] and not (repo.path / "secret").exists()


def test_what_a_branch_of_before_brings_back_is_said(repo: Repo, leaked: str, tmp_path: Path) -> None:
    """Whether it is the branch's own cannot be known: made on main by mistake, or dropped for good."""
    made = Repo(tmp_path / "agent")
    repo.git("worktree", "add", "-q", "-b", "agent", made.path)
    made.write("own", "own\n")
    made.commit("Own")
    assert call("worktree-open", "-C", made.path, cwd=repo.path).status == 0
    rewritten(repo)
    done = call("git-ktx", "land", "agent", cwd=repo.path)
    said = f"note: main had these before, and dropped them; they landed again: {leaked[:12]} X: oops, a secret\n"
    assert done.status == 0 and said in done.err and log(repo, "%s", "main")[-3:] == ["Y", "X: oops, a secret", "Own"]
    assert "landed again" not in call("git-ktx", "land", "agent", cwd=repo.path).err
