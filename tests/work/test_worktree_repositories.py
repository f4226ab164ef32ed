"""Worktrees in repositories of every kind, under hostile configuration and from inside hooks: right, or a clear 2."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ktxkit.base.rules.text import path_bytes
from tests.support.commands import BIN, Ran, call
from tests.support.repos import Repo

UNIT = ("--job", "j1", "--unit", "u1")


def made(path: Path, *args: str) -> Repo:
    repo = Repo.init(path, *args)
    repo.write("README", "a repository\n")
    repo.write("dos.txt", "one\r\ntwo\r\n")
    (repo.path / "link").symlink_to("README")
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    repo.commit("first")
    return repo


def round_trip(place: Path, *more: str, **env: str) -> tuple[Ran, Path]:
    """Open a unit and close it, in processes of their own; the worktree was right in between."""
    ran = call("worktree-open", *UNIT, "--json", *more, cwd=place, env=env)
    assert ran.status == 0, ran.out
    tree = Repo(Path(os.fsdecode(path_bytes(ran.document))))
    assert (tree.path / "README").read_bytes() == b"a repository\n"
    assert (tree.path / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (tree.path / "link").is_symlink() and os.access(tree.path / "tool", os.X_OK)
    assert tree.head == ran.document["base"]
    assert tree.git("symbolic-ref", "-q", "HEAD", check=False) == ""
    done = call("worktree-close", *UNIT, "--outcome", "empty", "--json", cwd=place, env=env)
    assert done.status == 0 and not tree.path.exists(), done.out
    return ran, tree.path


def refused(place: Path, *args: str, **env: str) -> str:
    ran = call("worktree-open", *(args or UNIT), cwd=place, env=env)
    assert ran.status == 2 and "Traceback" not in ran.err and ran.out == "", (ran.status, ran.err)
    return ran.err


KINDS = {
    "sha256": ("repo", ("--object-format=sha256",)),
    "spaces and other letters": ("mein Verzeichnis é \u65e5\u672c", ()),
    "a leading dash": ("-rf", ()),
    "characters that patterns know": ("a[b]*c?\\d!#", ()),
    "bytes that are no text": ("a\udcffb", ()),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(tmp_path: Path, name: str) -> None:
    folder, args = KINDS[name]
    repo = made(tmp_path / folder, *args)
    round_trip(repo.path)
    assert (repo.path / ".ktx/worktrees/j1").is_dir()
    assert repo.git("status", "--porcelain") == ""


def test_a_line_break_in_the_path_is_refused(tmp_path: Path) -> None:
    assert "line break" in refused(made(tmp_path / "two\nlines").path)


def test_unborn(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    assert "unborn" in refused(repo.path)
    assert "unborn" in refused(repo.path, "work")
    assert repo.git("worktree", "list").count("\n") == 0


def test_a_detached_head_needs_a_target(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    repo.git("checkout", "-q", "--detach")
    assert "HEAD is detached" in refused(repo.path)
    round_trip(repo.path, "--target", "main")


def test_a_bare_repository(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    bare = tmp_path / "central.git"
    repo.git("clone", "-q", "--bare", repo.path, bare)
    assert round_trip(bare)[1] == bare / "ktx/worktrees/j1/0001-u1"
    Repo(bare).git("worktree", "add", "-q", tmp_path / "side", "main")
    _, path = round_trip(tmp_path / "side")
    assert path == bare / "ktx/worktrees/j1/0001-u1"
    assert "bare" in refused(bare, "work", "--copy", "x")


def test_a_separate_git_directory(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo", f"--separate-git-dir={tmp_path / 'elsewhere'}")
    assert round_trip(repo.path)[1] == tmp_path / "elsewhere/ktx/worktrees/j1/0001-u1"


def test_a_submodule_is_an_ordinary_checkout(tmp_path: Path) -> None:
    library, repo = made(tmp_path / "library"), made(tmp_path / "repo")
    repo.git("submodule", "add", "-q", library.path, "lib")
    repo.commit("with a submodule")
    inside = repo.path / "lib"
    assert round_trip(inside)[1] == inside / ".ktx/worktrees/j1/0001-u1"
    assert not (repo.path / ".ktx").exists() and repo.git("status", "--porcelain") == ""
    new = call("worktree-open", "work", "--json", cwd=inside)
    assert new.document["mode"] == "new-branch" and new.document["path"] == str(inside / ".ktx/worktrees/adhoc/work")
    again = call("worktree-open", "--json", cwd=Path(new.document["path"]))
    assert again.document["path"] == new.document["path"], "inside a linked worktree of a submodule: in place"


def test_a_submodule_in_a_linked_worktree_is_an_ordinary_checkout(tmp_path: Path) -> None:
    library, repo = made(tmp_path / "library"), made(tmp_path / "repo")
    repo.git("submodule", "add", "-q", library.path, "lib")
    repo.commit("with a submodule")
    repo.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    side = Repo(tmp_path / "side")
    side.git("submodule", "update", "-q", "--init")
    new = call("worktree-open", "work", "--json", cwd=side.path / "lib")
    assert new.document["mode"] == "new-branch", new.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to someone else")
def test_a_repository_that_git_refuses(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    subprocess.run(["chown", "-R", "12345", str(repo.path)], check=True)
    assert "safe.directory" in refused(repo.path)


def test_outside_of_any_repository(tmp_path: Path) -> None:
    said = refused(tmp_path)
    assert said.startswith(f"worktree-open: {tmp_path}: not a git repository\n  hint: run this inside"), said
    assert "rev-parse" not in said and "-C DIR" in said


def test_where_the_repository_is_gone(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    said = refused(tmp_path)
    assert said.startswith(f"worktree-open: {tmp_path}: not a git repository: /nowhere\n  hint: `git worktree"), said


def test_an_old_git(tmp_path: Path) -> None:
    old = tmp_path / "bin/git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.37.9\n")
    old.chmod(0o755)
    err = refused(made(tmp_path / "repo").path, PATH=f"{old.parent}:{os.environ['PATH']}")
    assert "git 2.37.9 is too old" in err and "2.38" in err


def test_a_store_elsewhere(tmp_path: Path) -> None:
    repo = made(tmp_path / "repo")
    assert round_trip(repo.path, KTX_DIR=str(tmp_path / "store"))[1] == tmp_path / "store/worktrees/j1/0001-u1"
    assert not (repo.path / ".ktx").exists()


HOSTILE = """
[core]
  autocrlf = true
  eol = crlf
  safecrlf = true
  symlinks = false
  fileMode = false
  ignoreStat = true
  trustctime = false
  checkStat = minimal
  untrackedCache = true
  splitIndex = true
  sparseCheckout = true
  hooksPath = {hooks}
  attributesFile = {home}/attributes
  excludesFile = {home}/ignore
  logAllRefUpdates = false
  abbrev = 4
  quotePath = true
  fsmonitor = {hooks}/pre-commit
  pager = false
[worktree]
  guessRemote = true
[branch]
  autoSetupMerge = always
  autoSetupRebase = always
[checkout]
  defaultRemote = nowhere
  workers = 8
[safe]
  bareRepository = explicit
[index]
  sparse = true
  version = 4
[feature]
  manyFiles = true
[init]
  templateDir = {hooks}
[color]
  ui = always
[status]
  showUntrackedFiles = no
  short = true
[commit]
  gpgSign = true
[submodule]
  recurse = true
[gc]
  auto = 1
[user]
  useConfigOnly = true
[i18n]
  commitEncoding = latin1
  logOutputEncoding = latin1
[log]
  showSignature = true
"""


@pytest.fixture
def hostile(tmp_path: Path, hermetic: Path) -> Repo:
    """A repository whose user has configured everything that could change a result."""
    repo = made(tmp_path / "repo")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (hermetic / "attributes").write_text("* text=auto eol=crlf\n")
    (hermetic / "ignore").write_text("*\n")
    (hermetic / ".gitconfig").write_text(HOSTILE.format(hooks=hooks, home=hermetic))
    return repo


def test_hostile_configuration_changes_nothing(hostile: Repo) -> None:
    round_trip(hostile.path)
    assert (hostile.path / ".git/info/exclude").read_text().splitlines()[-1] == "/.ktx/", "not by the user's rule"


def test_hostile_configuration_hides_no_work(hostile: Repo) -> None:
    tree = Path(call("worktree-open", *UNIT, "--json", cwd=hostile.path).document["path"])
    (tree / "new").write_text("work\n")
    (tree / "README").write_text("a respository\n"[:13] + "\n")
    (tree / "tool").chmod(0o644)
    refused = call("worktree-close", *UNIT, "--outcome", "success", cwd=hostile.path)
    assert refused.status == 1, refused.err
    done = call("worktree-close", *UNIT, "--outcome", "success", "--discard", "--json", cwd=hostile.path)
    assert done.status == 0, done.out
    attic = done.document["atticRef"]
    assert hostile.show(attic, "new") == b"work\n" and hostile.show(attic, "README") == b"a respository"[:13] + b"\n"
    assert hostile.git("ls-tree", "--format=%(objectmode)", attic, "tool") == "100644"
    assert hostile.show(attic, "dos.txt") == b"one\r\ntwo\r\n"


def test_a_new_branch_under_hostile_configuration(hostile: Repo) -> None:
    ran = call("worktree-open", "work", "--json", cwd=hostile.path)
    assert ran.status == 0, ran.out
    assert hostile.git("config", "--local", "--get-regexp", "^branch[.]", check=False) == ""
    assert call("worktree-close", "work", "--outcome", "empty", cwd=hostile.path).status == 0
    assert hostile.git("for-each-ref", "refs/heads/work") == ""


@pytest.mark.parametrize("linked", [False, True])
def test_from_inside_a_hook(tmp_path: Path, linked: bool) -> None:
    """A hook's GIT_DIR and GIT_INDEX_FILE lead every git astray that inherits them."""
    repo, other = made(tmp_path / "repo"), made(tmp_path / "other")
    place = repo.path
    if linked:
        place = tmp_path / "side"
        repo.git("worktree", "add", "-q", "-b", "side", place)
    script = place.parent / "hook"
    script.write_text(
        f"#!/bin/sh\nset -e\n{BIN}/worktree-open --job j1 --unit u1 --target main >{tmp_path}/path\n"
        f"{BIN}/worktree-close --job j1 --unit u1 --outcome empty\necho ran >{tmp_path}/ran\n"
    )
    script.chmod(0o755)
    hook = repo.path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(script)
    before = other.git("for-each-ref"), (other.path / ".git/index").read_bytes()
    Repo(place).write("new", "x")
    for how in (("-a",), ("--only", "new")):
        (tmp_path / "ran").unlink(missing_ok=True)
        Repo(place).git("add", "new")
        Repo(place).git("commit", "-q", "-m", "x", *how)
        assert (tmp_path / "ran").exists()
        Repo(place).write("new", "y")
    assert (tmp_path / "path").read_text().strip() == str(repo.path / ".ktx/worktrees/j1/0001-u1")
    assert Repo(place).git("show", "--format=", "--name-only", "HEAD") == "new"
    assert (other.git("for-each-ref"), (other.path / ".git/index").read_bytes()) == before


def test_an_environment_that_names_another_repository(tmp_path: Path) -> None:
    repo, other = made(tmp_path / "repo"), made(tmp_path / "other")
    env = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git/objects"),
        "GIT_COMMON_DIR": str(other.path / ".git"),
        "GIT_NAMESPACE": "x",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
    }
    before = other.git("for-each-ref"), (other.path / ".git/index").read_bytes()
    round_trip(repo.path, **env)
    assert (other.git("for-each-ref"), (other.path / ".git/index").read_bytes()) == before
    assert not (other.path / ".git/worktrees").exists() and not (other.path / ".ktx").exists()
