"""What this project relies on in git, asserted against the git that is installed: a newer one that changes it is named.

Each docstring begins with the modules that rely on it.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktxkit.base.clock import LIMITS
from ktxkit.git import checkout, merging, staging
from ktxkit.git.git import Git
from ktxkit.git.listing import RAW
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.rules.patch import parse_merge
from ktxkit.store.worktrees import PLAIN
from tests.support.integration import world_at
from tests.support.repos import Repo
from tests.support.trees import EXECUTABLE, LINK, REGULAR, File, Files, Store

FULL = os.environ.get("KTX_TEST_FULL") == "1"
ROOT = Path(__file__).resolve().parent.parent.parent
LINES = b"".join(b"%d\n" % n for n in range(12))
EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def text(content: bytes = LINES) -> File:
    return File(REGULAR, content)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Repo, Neutral]]:
    """A repository whose objects all may add to, and a neutral directory on them."""
    repo = Repo.init(tmp_path_factory.mktemp("behaviour") / "repo")
    with open_neutral(world_at(repo.path)) as neutral:
        _ = neutral.objects, neutral.differ  # their processes are this fixture's, not those of the first test to ask
        yield repo, neutral


@pytest.fixture
def neutral(shared: tuple[Repo, Neutral]) -> Neutral:
    return shared[1]


@pytest.fixture
def store(shared: tuple[Repo, Neutral]) -> Store:
    return Store(shared[0].path / ".git/objects")


@pytest.fixture
def git(repo: Repo) -> Git:
    """The scrubbed runner in a repository of the test's own."""
    return world_at(repo.path).git


def merged(neutral: Neutral, store: Store, base: Files, ours: Files, theirs: Files) -> tuple[int, bytes]:
    root = store.commit(base)
    sides = [store.commit(files, root) for files in (ours, theirs)]
    answer = neutral.git.run("merge-tree", "--write-tree", "-z", *sides, ok=None)
    return answer.status, answer.out


def staged(git: Git) -> bytes:
    return git.run("ls-files", "-s", "-z").out


# -- merge-tree ------------------------------------------------------------------------------------


def test_merge_tree_clean_is_one_tree_id(neutral: Neutral, store: Store) -> None:
    """git/merging.py, git/rules/patch.py: status 0, the tree id, one NUL, nothing else."""
    want = store.tree({b"a": text(b"u\n" + LINES + b"v\n")})
    args = ({b"a": text()}, {b"a": text(b"u\n" + LINES)}, {b"a": text(LINES + b"v\n")})
    assert merged(neutral, store, *args) == (0, want.encode() + b"\0")


def test_merge_tree_conflict_is_status_1_with_stages_and_a_marked_message(neutral: Neutral, store: Store) -> None:
    """git/rules/patch.py: `mode id stage<TAB>path`, an empty field, then messages that name their kind."""
    status, out = merged(neutral, store, {b"a": text(b"1\n")}, {b"a": text(b"2\n")}, {b"a": text(b"3\n")})
    found = parse_merge(out, status)
    assert (status, found.clean, found.stages, found.kinds) == (1, False, {b"a": (1, 2, 3)}, ("contents",))


def test_merge_tree_names_paths_as_bytes(neutral: Neutral, store: Store) -> None:
    """git/rules/patch.py: with -z no path is quoted."""
    name = b'\xff\n"\t\\'
    status, out = merged(neutral, store, {name: text(b"1\n")}, {name: text(b"2\n")}, {})
    assert parse_merge(out, status).stages == {name: (1, 2)}


def test_merge_tree_mangles_the_name_in_a_file_directory_conflict(neutral: Neutral, store: Store) -> None:
    """git/rules/patch.py: the stage's path is `a~<commit>`, which no side has."""
    status, out = merged(neutral, store, {}, {b"a/b": text()}, {b"a": text(b"x\n")})
    (path,) = parse_merge(out, status).stages
    assert status == 1 and path.startswith(b"a~")


def test_merge_tree_follows_an_upstream_rename(neutral: Neutral, store: Store) -> None:
    """git/rules/patch.py (disproved, renames): the unit's edit lands where upstream moved the file, and status is 0."""
    edited = text(LINES.replace(b"5\n", b"five\n"))
    want = store.tree({b"b": edited})
    assert merged(neutral, store, {b"a": text()}, {b"b": text()}, {b"a": edited}) == (0, want.encode() + b"\0")


def test_merge_directory_renames_can_be_switched_off(neutral: Neutral, store: Store) -> None:
    """git/neutral.py: with merge.directoryRenames=false a new file stays where its side put it."""
    base = {b"d/a": text(), b"d/b": text(b"x\n" + LINES)}
    moved = {b"e/a": text(), b"e/b": text(b"x\n" + LINES)}
    want = store.tree({**moved, b"d/c": text(b"new\n")})
    assert merged(neutral, store, base, moved, {**base, b"d/c": text(b"new\n")}) == (0, want.encode() + b"\0")
    loud = Git(neutral.git.cwd, neutral.git.env, {**neutral.git.config, "merge.directoryRenames": "conflict"})
    root = store.commit(base)
    sides = [store.commit(moved, root), store.commit({**base, b"d/c": text(b"new\n")}, root)]
    assert loud.run("merge-tree", "--write-tree", "-z", *sides, ok=None).status == 1


def test_merge_tree_reads_no_attributes_of_the_trees(neutral: Neutral, store: Store) -> None:
    """git/neutral.py: in a bare directory whose HEAD is unborn no .gitattributes of a tree decides."""
    rule = {b".gitattributes": text(b"* merge=union -diff\n")}
    sides = [{**rule, b"a": text(b"%d\n" % n)} for n in range(3)]
    assert merged(neutral, store, *sides)[0] == 1


def test_merge_tree_works_on_commits_of_an_alternate_and_writes_only_to_its_own_store(
    neutral: Neutral, store: Store
) -> None:
    """git/merging.py (merge): synthetic commits stay aside, trees and blobs go into the user's objects."""
    trees = [store.tree({b"a": text(b"%d\n" % n), b"m": text(LINES + b"%d\n" % (n == 1))}) for n in range(3)]
    trees[2] = store.tree({b"a": text(b"0\n"), b"m": text(b"top\n" + LINES + b"0\n")})
    before = {path.name for path in store.objects.rglob("*")}
    made = merging.merge(neutral, trees[0], trees[1], trees[2])
    new = [path for path in store.objects.glob("??/*") if path.name not in before]
    kinds = {neutral.git.text("cat-file", "-t", path.parent.name + path.name) for path in new}
    assert made.clean and kinds == {"tree", "blob"} and neutral.git.ok("cat-file", "-e", made.tree)


def test_a_quoted_alternate_may_hold_a_colon(tmp_path: Path) -> None:
    """git/staging.py (quoted): `:` separates, a C string in quotes does not."""
    there = Repo.init(tmp_path / 'odd:"name')
    there.write("a", "x\n")
    commit = there.commit()
    here = Repo.init(tmp_path / "here")
    runner = world_at(here.path).git
    quoted = staging.quoted(str(there.path / ".git/objects"))
    assert not runner.ok("cat-file", "-e", commit)
    assert runner.having(GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted).ok("cat-file", "-e", commit)


# -- apply -----------------------------------------------------------------------------------------

SIDES: list[tuple[Files, Files]] = [
    ({b"a": text(b"crlf\r\nlf\nend")}, {b"a": text(b"crlf\r\nlf\nother\r\nend")}),
    ({b"a": text()}, {b"a": File(EXECUTABLE, LINES)}),
    ({b"a": text()}, {b"a": File(LINK, b"t")}),
    ({b"a": text()}, {b"a/b": text()}),
    ({b"a": File(REGULAR, b"\0" + bytes(range(256)))}, {b"a": File(REGULAR, b"\0" + bytes(range(255, -1, -1)))}),
    ({}, {b"empty": text(b""), b'"\xff\n\t': text(b" trailing \n")}),
    ({b"a": text(b"x\n" * 40)}, {b"a": text(b"x\n" * 41)}),
]


@pytest.mark.parametrize("number", range(len(SIDES)))
def test_a_binary_full_index_patch_applies_to_the_byte(
    neutral: Neutral, store: Store, tmp_path: Path, number: int
) -> None:
    """git/merging.py (write_patch, tree_with_patch): line ends, modes, kinds, bytes and names survive."""
    old, new = (store.tree(files) for files in SIDES[number])
    patch = tmp_path / "p"
    merging.write_patch(neutral, old, new, patch, LIMITS.patch_bytes)
    assert merging.tree_with_patch(neutral, old, patch) == new


def test_apply_is_all_or_nothing(neutral: Neutral, store: Store, tmp_path: Path) -> None:
    """git/merging.py (_applied): where one file does not fit, status 1 and the index is as it was."""
    old, new = store.tree({b"a": text(), b"b": text()}), store.tree({b"a": text(b"n\n" + LINES), b"b": text(b"m\n")})
    merging.write_patch(neutral, old, new, tmp_path / "p", LIMITS.patch_bytes)
    index = neutral.index("whole")
    index.run("read-tree", store.tree({b"a": text(), b"b": text(b"other\n")}))
    before = staged(index)
    assert index.run("apply", "--cached", str(tmp_path / "p"), ok=None).status == 1
    assert staged(index) == before


def test_apply_cannot_read_an_ambiguous_name_back(neutral: Neutral, store: Store, tmp_path: Path) -> None:
    """git/merging.py (write_patch): where git can one day, the fallback to objects is no longer needed for it."""
    with pytest.raises(merging.NoPatchError):
        merging.write_patch(
            neutral, store.tree({}), store.tree({b"a /a ": text(b"")}), tmp_path / "p", LIMITS.patch_bytes
        )
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("path", [".git/config", "../x", "/etc/x", ".GIT/x", "a/../../x", "git~1/x"])
def test_apply_refuses_a_path_that_is_none(neutral: Neutral, tmp_path: Path, path: str) -> None:
    """work/bare_patches.py (bare_document): a foreign patch cannot leave the tree."""
    new = "587be6b4c3f93f93c489c0111bba5596147a26cb"
    lines = [f"diff --git a/{path} b/{path}", "new file mode 100644", f"index {'0' * 40}..{new}", "--- /dev/null"]
    (tmp_path / "p").write_text("\n".join([*lines, f"+++ b/{path}", "@@ -0,0 +1 @@", "+x", ""]))
    answer = neutral.index("path").run("apply", "--cached", str(tmp_path / "p"), ok=None)
    assert answer.status in (1, 128) and answer.err


@pytest.mark.skipif(not FULL, reason="the long form reads 1 GiB (KTX_TEST_FULL=1)")
def test_apply_refuses_a_patch_above_its_limit(neutral: Neutral, tmp_path: Path) -> None:
    """base/clock.py (patch_bytes): MAX_APPLY_SIZE of git's apply.c is 1,023 MiB."""
    with (tmp_path / "p").open("wb") as stream:
        stream.truncate(LIMITS.patch_bytes + 1)
    answer = neutral.index("large").run("apply", "--cached", str(tmp_path / "p"), ok=None)
    assert answer.status != 0 and (b"too large" in answer.err or b"failed to read" in answer.err)
    assert b"No valid patches" not in answer.err, "it was not even looked at"


# -- diff-tree and the index ------------------------------------------------------------------------


def test_raw_output_is_whole_ids_modes_and_bytes(neutral: Neutral, store: Store) -> None:
    """git/rules/patch.py (parse_raw): `:old new id id letter`, NUL, path, NUL; a rename is deletion and addition."""
    old, new = store.tree({b"b\n\xff": text()}), store.tree({b"d/a": text()})
    assert neutral.git.run(*RAW, old, new, "--").nul[1::2] == [b"b\n\xff", b"d/a"]
    (gone, came) = merging.changes(neutral, old, new)
    assert (gone.change, came.change) == ("deleted", "added")
    assert gone.old.oid == came.new.oid == store.blob(text())
    assert came.old.oid == neutral.zero and (gone.old.mode, came.old.mode) == ("100644", "000000")


def test_raw_output_of_two_trees_has_no_header(neutral: Neutral, store: Store) -> None:
    """git/merging.py (changes): with two trees no commit id is printed before the entries."""
    answer = neutral.git.run(*RAW, store.tree({}), store.tree({b"a": text()}), "--")
    assert answer.out.startswith(b":000000 100644 ")


def test_raw_output_over_stdin_says_back_what_is_no_pair(neutral: Neutral, store: Store) -> None:
    """git/listing.py: each pair is answered by itself, the entries, then the mark, at once and not at the end."""
    old, new = store.tree({}), store.tree({b"d/a": text()})
    with neutral.git.start(*RAW, "--stdin") as child:
        assert child.stdin is not None and child.stdout is not None
        for _ in range(2):
            child.stdin.write(f"{old} {new}\n.\n".encode())
            child.stdin.flush()
            assert child.stdout.readline() == f"{old} {new}\n".encode()
            assert child.stdout.readline().endswith(b"A\0d/a\0.\n")
    assert child.returncode == 0


def test_cat_file_peels_and_says_in_three_words(neutral: Neutral, store: Store) -> None:
    """git/objects.py, git/neutral.py (tree_of): id, type and size, or two words where there is none."""
    tree = store.tree({b"a": text()})
    assert neutral.objects.find(f"{tree}^{{tree}}") == (tree, "tree", 29 if len(tree) == 40 else 41)
    assert neutral.tree_of(store.blob(text())) is None and neutral.tree_of("0" * len(tree)) is None


def test_what_changed_is_named_with_every_tree_on_the_way(neutral: Neutral, store: Store) -> None:
    """git/merging.py (changed_objects): all of it is flushed, the root too, before a ref may name it."""
    new = store.tree({b"d/e/a": text(), b"k": text()})
    entries = merging.changes(neutral, store.tree({b"k": text()}), new)
    trees = [neutral.objects.entry(new, path) for path in (b"d", b"d/e")]
    wanted = [new, *(entry.oid for entry in trees if entry), store.blob(text())]
    assert merging.changed_objects(neutral, new, entries) == wanted


def test_a_patch_of_another_kind_is_a_deletion_and_an_addition(neutral: Neutral, store: Store, tmp_path: Path) -> None:
    """git/merging.py: the patch names a path twice then; paths are therefore never read from patch text."""
    old, new = (store.tree(files) for files in SIDES[2])
    merging.write_patch(neutral, old, new, tmp_path / "p", LIMITS.patch_bytes)
    assert (tmp_path / "p").read_bytes().count(b"diff --git a/a b/a") == 2


def test_an_order_file_that_is_missing_is_fatal(repo: Repo, git: Git) -> None:
    """git/git.py (PINNED_CONFIG): diff.orderFile is pinned, since a missing one makes even status fail."""
    repo.git("config", "diff.orderFile", "gone")
    repo.write("README", "edited\n")
    failed = Git(git.cwd, git.env).run("status", ok=None)
    assert failed.status != 0 and git.run("status").status == 0


def test_update_index_passes_over_a_name_it_cannot_take(repo: Repo, git: Git) -> None:
    """work/selection.py (_require_taken): it answers 0, so what is listed afterwards is compared."""
    repo.write("git~1", "x\n")
    assert git.run("update-index", "--add", "-z", "--stdin", stdin=b"git~1\0", ok=None).status == 0
    assert b"git~1" not in git.run("ls-files", "-z").out


def test_update_index_looks_through_no_link(repo: Repo, git: Git) -> None:
    """work/selection.py (_stage): what was below a directory that is a link now is removed by --force-remove."""
    repo.write("d/e/a", "a\n")
    repo.commit()
    shutil.rmtree(repo.path / "d")
    (repo.path / "d").symlink_to("..")
    block = b"d\0d/e/a\0"
    flags = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    assert b"beyond a symbolic link" in git.run(*flags, stdin=block, ok=None).err
    git.run("update-index", "--force-remove", "-z", "--stdin", stdin=b"d/e/a\0")
    git.run(*flags, stdin=b"d\0")
    assert git.run("ls-files", "-z").nul == [b"README", b"d"]


def test_update_index_replaces_a_file_by_a_directory(repo: Repo, git: Git) -> None:
    """work/selection.py: --add --remove --replace take what is in the worktree, whatever was there."""
    (repo.path / "README").unlink()
    repo.write("README/x", "x\n")
    git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=b"README\0README/x\0")
    assert git.run("ls-files", "-z").nul == [b"README/x"]


def test_index_info_takes_nul_and_mode_zero_removes(repo: Repo, git: Git) -> None:
    """git/rules/patch.py (index_info), git/checkout.py: entries by plumbing, without files."""
    git.run("update-index", "-z", "--index-info", stdin=b"100755 " + EMPTY.encode() + b"\t\xff\n\0")
    git.run("update-index", "-z", "--index-info", stdin=b"0 " + b"0" * 40 + b"\tREADME\0")
    assert staged(git) == b"100755 " + EMPTY.encode() + b" 0\t\xff\n\0"


def test_listed_tags_show_hidden_entries(repo: Repo, git: Git) -> None:
    """git/child.py (hidden), git/checkout.py: H is plain, lower case assume-unchanged, S skip-worktree."""
    repo.write("b", "b\n")
    repo.write("c", "c\n")
    repo.commit()
    repo.git("update-index", "--assume-unchanged", "b")
    repo.git("update-index", "--skip-worktree", "c")
    assert git.run("ls-files", "-v", "-z").nul == [b"H README", b"h b", b"S c"]


def test_read_tree_reset_u_overwrites_what_is_untracked(repo: Repo, git: Git) -> None:
    """store/worktrees.py (populate), work/verification.py: after it the files of HEAD are there, whatever was."""
    (repo.path / "README").unlink()
    repo.write("README/in", "the way\n")
    git.run("read-tree", "--empty")
    git.run("read-tree", "--reset", "-u", "HEAD")
    assert (repo.path / "README").read_text() == "a repository\n"


def test_hash_object_filters_by_path_and_not_from_stdin(repo: Repo, git: Git) -> None:
    """git/checkout.py: a file is hashed as git would store it, a link's target as it is."""
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("a.txt", "x\r\n")
    asked = {git.text("hash-object", "--", "a.txt"), git.run("hash-object", "--stdin", stdin=b"x\n").text}
    assert len(asked) == 1
    assert git.run("hash-object", "--stdin", stdin=b"x\r\n").text not in asked


def test_plain_settings_turn_line_ends_off_and_attributes_stay(repo: Repo, git: Git) -> None:
    """store/worktrees.py (PLAIN): a user's autocrlf has no say; the repository's own attributes have."""
    repo.write("plain", "x\n")
    repo.write("a.txt", "x\n")
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.commit()
    repo.git("config", "core.autocrlf", "true")
    for name in ("plain", "a.txt"):
        (repo.path / name).unlink()
    Git(git.cwd, git.env, {**git.config, **PLAIN}).run("read-tree", "--reset", "-u", "HEAD")
    assert [(repo.path / name).read_bytes() for name in ("plain", "a.txt")] == [b"x\n", b"x\r\n"]


# -- status and what is ignored ----------------------------------------------------------------------


def test_status_names_every_file_and_a_nested_repository_with_a_slash(repo: Repo, git: Git) -> None:
    """git/rules/checkout.py: -uall names files; what ends in `/` is another repository."""
    repo.write("d/\xff\n".encode("latin-1"), "x\n")
    Repo.init(repo.path / "nested").write("a", "a\n")
    flags = ("status", "--porcelain=v2", "-z", "-uall", "--no-renames")
    assert git.run(*flags).nul == [b"? d/\xff\n", b"? nested/"]


def test_status_shows_intent_to_add(repo: Repo, git: Git) -> None:
    """git/rules/checkout.py (intent_to_add): `.A` in the second field."""
    repo.write("new", "x\n")
    repo.git("add", "-N", "new")
    assert git.run("status", "--porcelain=v2", "-z").out.startswith(b"1 .A N... ")


def test_traditional_names_ignored_files_and_matching_folds(repo: Repo, git: Git) -> None:
    """git/child.py (read_status), work/fingerprint.py: exact counts need one name a file."""
    (repo.path / ".git/info/exclude").write_text("cache/\n")
    repo.write("cache/a", "")
    repo.write("cache/d/b", "")
    flags = ("status", "--porcelain=v2", "-z", "-uall")
    assert git.run(*flags, "--ignored=traditional").nul == [b"! cache/a", b"! cache/d/b"]
    assert git.run(*flags, "--ignored=matching").nul == [b"! cache/"]


def test_check_ignore_refuses_literal_pathspecs(repo: Repo, git: Git) -> None:
    """git/child.py (_check_ignore), store/store.py: GIT_LITERAL_PATHSPECS=0 there, or every path is refused."""
    (repo.path / ".git/info/exclude").write_text("x\n")
    asked = ("check-ignore", "--no-index", "-z", "--stdin")
    assert git.run(*asked, stdin=b"x\0", ok=None).status == 128
    assert git.run(*asked, stdin=b"x\0", env={"GIT_LITERAL_PATHSPECS": "0"}).nul == [b"x"]


def test_a_scrubbed_status_writes_no_index(repo: Repo, git: Git) -> None:
    """git/git.py (PINNED_ENV): without optional locks a read never disturbs a person's `git add`."""
    os.utime(repo.path / "README", (1, 1))
    before = (repo.path / ".git/index").read_bytes()
    git.run("status", "--porcelain")
    assert (repo.path / ".git/index").read_bytes() == before
    repo.git("status", "--porcelain")
    assert (repo.path / ".git/index").read_bytes() != before


# -- objects and refs --------------------------------------------------------------------------------


def test_cat_file_batch_command_answers_one_question_at_a_time(repo: Repo, git: Git) -> None:
    """git/objects.py: `id type size`, content and one newline; what is not there is `<name> missing`."""
    child = git.start("cat-file", "--batch-command")
    out, _ = child.communicate(b"info HEAD^{tree}\ncontents HEAD:README\ncontents HEAD:none\ninfo %s\n" % (b"0" * 40))
    lines = out.split(b"\n")
    assert lines[0] == b"%s tree %d" % (repo.tree.encode(), 34)
    assert lines[1].endswith(b" blob 13") and lines[2] == b"a repository"
    assert lines[3:] == [b"", b"HEAD:none missing", b"0" * 40 + b" missing", b""]


def test_update_ref_is_a_compare_and_swap(repo: Repo, git: Git) -> None:
    """work/target.py (move_ref), store/worktrees.py: a wrong old value is refused, and nothing moves."""
    first, second = repo.head, repo.commit()
    assert git.run("update-ref", "--no-deref", "refs/ktx/x", second, first, ok=None).status != 0
    assert git.resolve("refs/ktx/x") is None
    git.run("update-ref", "--create-reflog", "refs/ktx/x", first, "0" * 40)
    assert git.run("update-ref", "refs/ktx/x", second, "0" * 40, ok=None).status != 0
    assert git.run("update-ref", "--no-deref", "-d", "refs/ktx/x", second, ok=None).status != 0
    assert git.resolve("refs/ktx/x") == first
    assert (repo.path / ".git/logs/refs/ktx/x").is_file(), "--create-reflog keeps one outside refs/heads too"


def test_update_ref_takes_many_or_none(repo: Repo, git: Git) -> None:
    """app/cleaning.py: with --stdin one refusal undoes all of it."""
    first, second = repo.head, repo.commit()
    git.run("update-ref", "refs/ktx/a", first)
    lines = f"delete refs/ktx/a {first}\ndelete refs/heads/main {first}\n".encode()
    assert git.run("update-ref", "--no-deref", "--stdin", stdin=lines, ok=None).status != 0
    assert (git.resolve("refs/ktx/a"), git.resolve("refs/heads/main")) == (first, second)


def test_the_newest_message_of_a_reflog(repo: Repo, git: Git) -> None:
    """store/worktrees.py (newest_reflog): `log -g -1 --format=%gs` is how it is read, also of a branch of ours."""
    git.run("update-ref", "--create-reflog", "-m", "made by us", "refs/heads/x", repo.head, "0" * 40)
    assert git.text("log", "-g", "-1", "--format=%gs", "refs/heads/x", "--") == "made by us"


def test_commit_tree_keeps_a_message_and_a_time(repo: Repo, neutral: Neutral, store: Store) -> None:
    """git/merging.py (commit_tree): -F - takes bytes, `@seconds +0000` the time; the id is reproducible."""
    tree = store.tree({b"a": text()})
    ids = {merging.commit_tree(neutral, tree, None, "é #1\n\nKtx-Job: j\n", 1_700_000_000) for _ in range(2)}
    body = neutral.git.run("cat-file", "commit", *ids).out
    who = b"ktxkit <ktxkit@invalid> 1700000000 +0000"
    assert body == b"tree %s\nauthor %s\ncommitter %s\n\n\xc3\xa9 #1\n\nKtx-Job: j\n" % (tree.encode(), who, who)


def test_rev_parse_verify_is_silent_and_end_of_options_protects(repo: Repo, git: Git) -> None:
    """git/git.py (resolve): nothing on stdout where there is no such revision."""
    answer = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", "none^{commit}", ok=None)
    assert (answer.status, answer.out, answer.err) == (1, b"", b"")
    assert git.resolve(repo.head[:8]) == repo.head


def test_git_paths_are_absolute_where_asked(repo: Repo, git: Git) -> None:
    """git/repository.py, git/child.py, git/snapshot.py: --path-format=absolute before --git-path."""
    asked = git.text("rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path", "info/exclude")
    assert asked.split("\n") == [str(repo.path / ".git/index"), str(repo.path / ".git/info/exclude")]


def test_a_detached_head_is_status_1(repo: Repo, git: Git) -> None:
    """git/child.py, work/bare_patches.py: symbolic-ref -q says nothing, and 1."""
    repo.git("checkout", "-q", "--detach")
    answer = git.run("symbolic-ref", "-q", "HEAD", ok=None)
    assert (answer.status, answer.out) == (1, b"")


def test_ancestry_is_a_status(repo: Repo, git: Git) -> None:
    """work/collect.py (_base), work/recover.py: 0 is yes, 1 is no."""
    first, second = repo.head, repo.commit()
    assert git.run("merge-base", "--is-ancestor", first, second).status == 0
    assert git.run("merge-base", "--is-ancestor", second, first, ok=None).status == 1


def test_config_of_a_blob_is_key_newline_value(repo: Repo, git: Git) -> None:
    """work/collect.py (declared_submodules): submodule paths come from .gitmodules of a tree, no file needed."""
    blob = git.run("hash-object", "-w", "--stdin", stdin=b'[submodule "s"]\n\tpath = a b\n').text
    answer = git.run("config", "-z", f"--blob={blob}", "--get-regexp", r"^submodule\..*\.path$")
    assert answer.out == b"submodule.s.path\na b\0"


# -- worktrees, checkouts, configuration ----------------------------------------------------------------


def test_worktree_add_without_checkout_and_the_list(repo: Repo, git: Git, tmp_path: Path) -> None:
    """store/worktrees.py, git/checkout.py: detached, without files; attributes end in NUL, blocks in two."""
    place = tmp_path / "w\nx"
    git.run("worktree", "add", "--quiet", "--no-checkout", "--detach", place, repo.head)
    assert [path.name for path in place.iterdir()] == [".git"]
    _, block, _ = git.run("worktree", "list", "--porcelain", "-z").out.split(b"\0\0")
    assert block.split(b"\0") == [b"worktree " + os.fsencode(place), f"HEAD {repo.head}".encode(), b"detached"]


def test_a_branch_is_checked_out_once(repo: Repo, git: Git, tmp_path: Path) -> None:
    """store/worktrees.py (add, elsewhere): the sentence that says where it is."""
    answer = git.run("worktree", "add", "--quiet", "--no-checkout", tmp_path / "w", "main", ok=None)
    assert answer.status == 128
    assert b"already checked out at '" in answer.err or b"already used by worktree at '" in answer.err


@pytest.mark.parametrize(("flag", "kept"), [("--no-overwrite-ignore", True), ("--overwrite-ignore", False)])
def test_a_fast_forward_spares_an_ignored_file_only_where_told(repo: Repo, git: Git, flag: str, kept: bool) -> None:
    """git/checkout.py (FAST_FORWARD): git's default overwrites what is ignored."""
    first = repo.head
    repo.write("secret", "theirs\n")
    second = repo.commit()
    repo.git("reset", "-q", "--hard", first)
    (repo.path / ".git/info/exclude").write_text("secret\n")
    repo.write("secret", "mine\n")
    args = [flag if word == "--no-overwrite-ignore" else word for word in checkout.FAST_FORWARD]
    assert (git.run(*args, second, ok=None).status != 0) == kept
    assert ((repo.path / "secret").read_text() == "mine\n") == kept
    assert (repo.head == first) == kept


def test_a_fast_forward_refuses_dirt_in_its_way_and_leaves_other_dirt(repo: Repo, git: Git) -> None:
    """git/checkout.py, work/target.py: the ref does not move where a file would be lost."""
    repo.write("other", "x\n")
    first = repo.commit()
    repo.write("README", "new\n")
    second = repo.commit()
    repo.git("reset", "-q", "--hard", first)
    repo.write("other", "dirt\n")
    repo.write("README", "in the way\n")
    assert git.run(*checkout.FAST_FORWARD, second, ok=None).status != 0
    assert (repo.head, (repo.path / "README").read_text()) == (first, "in the way\n")
    repo.write("README", "a repository\n")
    git.run(*checkout.FAST_FORWARD, second)
    assert (repo.head, (repo.path / "other").read_text()) == (second, "dirt\n")


def test_hooks_do_not_run_where_the_path_is_pinned(repo: Repo, git: Git) -> None:
    """git/git.py (PINNED_CONFIG): neither a ref's nor a checkout's hook; the environment beats the repository."""
    told = repo.path / ".git/told"
    for name in ("reference-transaction", "post-merge", "post-checkout", "post-index-change"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >>{told}\n")
        hook.chmod(0o755)
    repo.git("config", "core.hooksPath", ".git/hooks")
    git.run("update-ref", "refs/heads/x", repo.head)
    git.run("read-tree", "--reset", "-u", "HEAD")
    assert not told.exists()
    repo.git("update-ref", "refs/heads/y", repo.head)
    assert told.exists()


def test_gc_stays_off_where_it_is_pinned(repo: Repo, git: Git) -> None:
    """git/git.py, git/neutral.py: a merge runs `gc --auto`; one in a neutral directory would lose history."""
    first, numbers = repo.head, iter(range(10_000))
    found = 0
    while found < 3:  # it counts the files of objects/17
        blob = b"%d" % next(numbers)
        if Store(repo.path / ".git/objects").put("blob", blob).startswith("17"):
            found += 1
    second = repo.commit()
    repo.git("reset", "-q", "--hard", first)
    repo.git("config", "maintenance.auto", "true")
    repo.git("config", "gc.auto", "1")
    repo.git("config", "gc.autoDetach", "false")
    git.run(*checkout.FAST_FORWARD, second)
    assert not list((repo.path / ".git/objects/pack").glob("*.pack"))
    repo.git("reset", "-q", "--hard", first)
    repo.git("merge", "-q", "--ff-only", second)
    assert list((repo.path / ".git/objects/pack").glob("*.pack")), "the same merge without the pin does run it"


def test_init_without_template_leaves_nothing_that_runs(tmp_path: Path) -> None:
    """git/neutral.py: no hooks, no info/exclude, no description, and HEAD unborn."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", str(tmp_path / "n")], check=True)
    assert sorted(path.name for path in (tmp_path / "n").iterdir()) == ["HEAD", "config", "objects", "refs"]


def test_cone_patterns_are_written_where_the_worktree_has_them(repo: Repo, git: Git, tmp_path: Path) -> None:
    """store/worktrees.py (add), git/child.py (inside_sparse): patterns that check-ignore reads, per worktree."""
    git.run("worktree", "add", "--quiet", "--no-checkout", "--detach", tmp_path / "w", repo.head)
    there = git.at(tmp_path / "w")
    there.run("sparse-checkout", "set", "--cone", "wiki")
    place = Path(there.text("rev-parse", "--path-format=absolute", "--git-path", "info/sparse-checkout"))
    assert place.read_text().split() == ["/*", "!/*/", "/wiki/"]
    assert "worktrees" in place.parts and repo.git("config", "extensions.worktreeConfig") == "true"


def test_every_docstring_here_names_modules_that_are_there() -> None:
    """work/collect.py: the table of this file stays true when a module moves."""
    functions = [f for f in ast.parse(Path(__file__).read_text()).body if isinstance(f, ast.FunctionDef)]
    for function in (f for f in functions if f.name.startswith("test_")):
        lead = (ast.get_docstring(function) or "").split(":")[0]
        modules = re.findall(r"\b(?:base|git|store|work|gates|observer|app)/[a-z_/]+\.py", lead)
        assert modules, function.name
        assert all((ROOT / "ktxkit" / module).is_file() for module in modules), (function.name, modules)
