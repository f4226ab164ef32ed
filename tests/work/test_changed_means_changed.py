"""A file that nobody touched is no change, whatever the clean filter makes of it: in units, landings and closings.

`FLAWED`: repositories whose checkout git takes for modified as soon as it looks at the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ktxkit.base import sandbox
from tests.support.commands import call
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

Made = Callable[[Repo], None]


def carriage_returns(repo: Repo) -> None:
    """CRLF in the blobs, and attributes that came later."""
    repo.write("f.txt", b"one\r\ntwo\r\n")
    repo.write("sub/g.txt", b"g\r\n")
    repo.commit()
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "attributes")


def not_idempotent(repo: Repo) -> None:
    """The clean filter adds a line each time, the smudge filter none."""
    repo.git("config", "filter.count.clean", "cat; echo cleaned")
    repo.git("config", "filter.count.smudge", "cat")
    repo.write(".gitattributes", "f.txt filter=count\nsub/*.txt filter=count\n")
    repo.write("f.txt", "one\n")
    repo.write("sub/g.txt", "g\n")
    repo.commit()
    repo.git("rm", "-q", "--cached", "f.txt", "sub/g.txt")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "--no-edit")
    for name in ("f.txt", "sub/g.txt"):  # as a checkout writes them
        (repo.path / name).unlink()
    repo.git("checkout", "-q", "--", ".")


def pointers(repo: Repo) -> None:
    """Large files that came in as they are, before `git lfs track`: their clean filter makes pointers of them."""
    repo.write("f.txt", "large\n")
    repo.write("sub/g.txt", "large\n")
    repo.commit()
    repo.git("config", "filter.pointer.clean", "cat > /dev/null; echo 'version https://git-lfs.github.com/spec/v1'")
    repo.git("config", "filter.pointer.smudge", "cat")
    repo.git("config", "filter.pointer.required", "true")
    repo.write(".gitattributes", "*.txt filter=pointer -text\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "tracked")


LFS = {"clean": "git-lfs clean -- %f", "smudge": "git-lfs smudge -- %f", "process": "git-lfs filter-process"}


def with_lfs(repo: Repo) -> None:
    """The real filters, as `git lfs install` writes them."""
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not here")
    for name, command in LFS.items():
        repo.git("config", f"filter.lfs.{name}", command)
    repo.git("config", "filter.lfs.required", "true")


def large_files(repo: Repo) -> None:
    """The same with git-lfs itself."""
    repo.write("f.txt", "large\n")
    repo.write("sub/g.txt", "large\n")
    repo.commit()
    with_lfs(repo)
    repo.write(".gitattributes", "*.txt filter=lfs diff=lfs merge=lfs -text\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "tracked")


FLAWED: dict[str, Made] = {
    "crlf": carriage_returns,
    "filter": not_idempotent,
    "lfs": pointers,
    "git-lfs": large_files,
}


@pytest.fixture(params=FLAWED)
def flawed(request: pytest.FixtureRequest, repo: Repo) -> Repo:
    FLAWED[request.param](repo)
    touch(repo.path)
    assert "f.txt" in repo.git("status", "--porcelain"), "git takes it for modified"
    return repo


def touch(top: Path) -> None:
    """git looks at the files again."""
    for name in ("f.txt", "sub/g.txt"):
        os.utime(top / name, (1, 1))


LOOK = "touch -d @1 f.txt sub/g.txt"
NOTHING = {
    "left": f"{LOOK}",
    "staged": f"{LOOK}; git add -A",
    "committed": f"{LOOK}; git add -A; git commit -qm all",
}


def test_units_that_do_nothing_change_nothing(flawed: Repo) -> None:
    units = [unit(f"u-{way}", command) for way, command in NOTHING.items()]
    units += [unit(f"v-{way}", f"{command}; echo v > v-{way}", allow=["v-*"]) for way, command in NOTHING.items()]
    base = flawed.head
    ran = call("job-run", job_file(flawed, {"units": units}), "--job", "j1", cwd=flawed.path)
    assert ran.status == 0, ran.err
    wanted = {"u": "noop", "v": "accepted"}
    assert outcomes(flawed) == {one["key"]: wanted[one["key"][0]] for one in units}
    assert flawed.git("diff", "--name-only", base, "main").split() == sorted(f"v-{way}" for way in NOTHING)
    assert "warnings" not in report(flawed), "nobody touched the checkout"
    assert not list((flawed.path / ".ktx/worktrees/j1").glob("0*")), "nothing was to be kept"


EDITS = {"left": "", "staged": "; git add -A", "committed": "; git add -A; git commit -qm edit"}


@pytest.mark.parametrize("way", EDITS)
def test_an_edit_lands_the_same_tree_however_it_is_handed_over(flawed: Repo, way: str) -> None:
    """And beside a checkout in which the same file is untouched: it follows."""
    command = f"{LOOK}; printf 'edited\\r\\n' >> f.txt{EDITS[way]}"
    expected = flawed.path.parent / "expected"
    flawed.git("worktree", "add", "-q", "--detach", expected)
    (expected / "f.txt").write_bytes((expected / "f.txt").read_bytes() + b"edited\r\n")
    Repo(expected).git("add", "f.txt")
    wanted = Repo(expected).git("write-tree")
    flawed.git("worktree", "remove", "--force", expected)
    ran = call("job-run", job_file(flawed, {"units": [unit("u", command)]}), "--job", "j1", cwd=flawed.path)
    assert ran.status == 0, ran.err
    assert flawed.tree == wanted
    assert (flawed.path / "f.txt").read_bytes() == flawed.git_bytes("cat-file", "--filters", "HEAD:f.txt")


def test_an_edit_in_the_checkout_is_still_in_the_way(flawed: Repo) -> None:
    flawed.write("f.txt", b"mine\r\n")
    document = {"units": [unit("u", "echo theirs > f.txt")]}
    assert call("job-run", job_file(flawed, document), "--job", "j1", cwd=flawed.path).status == 1
    assert (flawed.path / "f.txt").read_bytes() == b"mine\r\n"


def test_an_edit_back_to_the_base_is_no_change(flawed: Repo) -> None:
    command = f"cp f.txt was; echo x > f.txt; git commit -qam x; cat was > f.txt; rm was; {LOOK}"
    ran = call("job-run", job_file(flawed, {"units": [unit("u", command)]}), "--job", "j1", cwd=flawed.path)
    assert ran.status == 0 and outcomes(flawed) == {"u": "noop"}, ran.err


def test_an_untouched_worktree_closes(flawed: Repo) -> None:
    """Of a unit and of a name: nothing is lost, nothing goes to the attic."""
    for words in (("--job", "j1", "--unit", "u"), ("name",)):
        opened = call("worktree-open", *words, "--json", cwd=flawed.path).document
        touch(Path(opened["path"]))
        done = call("worktree-close", *words, "--outcome", "empty", "--json", cwd=flawed.path)
        assert done.status == 0, done.out
        assert "atticRef" not in done.document
    assert not flawed.git("for-each-ref", "refs/ktx/attic")


ATTRIBUTES = {"allowControl": [".gitattributes"]}


def test_attributes_that_the_unit_changes_say_how_files_are_read(repo: Repo) -> None:
    """A unit that normalizes line ends: what it committed is its work, though no file has other bytes."""
    repo.write("f.txt", b"one\r\n")
    repo.commit()
    command = "echo '*.txt text eol=crlf' > .gitattributes; git add --renormalize .; git add -A; git commit -qm normal"
    ran = call("job-run", job_file(repo, {"units": [unit("u", command, **ATTRIBUTES)]}), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err
    assert repo.show("main", "f.txt") == b"one\n"


def test_what_was_committed_and_not_touched_is_named(repo: Repo) -> None:
    carriage_returns(repo)
    opened = call("worktree-open", "--job", "j1", "--unit", "u", "--json", cwd=repo.path).document
    tree = Repo(Path(opened["path"]))
    touch(tree.path)
    tree.commit()
    assert call("patch-collect", "--job", "j1", "--unit", "u", cwd=repo.path).status == 0
    patch = json.loads((repo.path / ".ktx/jobs/j1/units/0001-u/patch.json").read_text())
    assert patch["outcome"] == "noop"
    assert [item["path"] for item in patch["excluded"]["sample"]] == ["f.txt", "sub/g.txt"]


def test_by_hand_outside_of_a_job(flawed: Repo, tmp_path: Path) -> None:
    base = flawed.head
    flawed.git("worktree", "add", "-q", "-b", "work", tmp_path / "tree")
    touch(tmp_path / "tree")
    (tmp_path / "tree/new").write_text("new\n")
    words = ("patch-collect", "-C", tmp_path / "tree", "--base", base, "-o", tmp_path / "patch")
    assert call(*map(str, words), cwd=tmp_path).status == 0
    patch = json.loads((tmp_path / "patch.json").read_text())
    assert [item["path"] for item in patch["paths"]] == ["new"]
    assert call("patch-apply", tmp_path / "patch", cwd=flawed.path).status == 0
    assert flawed.git("diff", "--name-only", base, "main") == "new"


@pytest.mark.parametrize(("way", "isolate"), [("left", False), ("staged", True), ("committed", True)])
def test_files_of_git_lfs_land_as_pointers_and_stand_in_every_checkout(repo: Repo, way: str, isolate: bool) -> None:
    with_lfs(repo)
    if isolate and sandbox.landlock_version() < sandbox.LEAST:
        pytest.skip("this kernel has no Landlock")
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repo.write("old.bin", "old\n")
    repo.commit()
    assert repo.show("main", "old.bin").startswith(b"version https://git-lfs.github.com/spec/v1\n")
    work = f'test "$(cat old.bin)" = old; echo new > new.bin; echo changed > old.bin{EDITS[way]}'
    document = {
        "isolate": isolate,
        "units": [unit("u", f"set -e; {work}"), unit("v", "cat new.bin > copy", after=["u"])],
    }
    ran = call("job-run", job_file(repo, document), "--job", "j1", cwd=repo.path)
    assert ran.status == 0 and outcomes(repo) == {"u": "accepted", "v": "accepted"}, ran
    for name, content in (("new.bin", "new\n"), ("old.bin", "changed\n")):
        pointer = repo.show("main", name)
        assert b"oid sha256:" + hashlib.sha256(content.encode()).hexdigest().encode() in pointer
        assert (repo.path / name).read_text() == content, "the checkout has the file itself"
    assert repo.show("main", "copy") == b"new\n" and repo.git("status", "--porcelain") == ""
