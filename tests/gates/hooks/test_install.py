"""install-hooks and uninstall-hooks: hooks that are there are chained and come back byte for byte, after any kill."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ktxkit.gates.rules.hooks import CHAINED, HOOKS, MARK, on_install, on_uninstall, stamped, whose
from tests.support.commands import BIN, call
from tests.support.faults import WHENS, Killed, count_effects, run_killed
from tests.support.repos import Repo

ROOT = Path(__file__).resolve().parents[3]
OWN = b'#!/bin/sh\necho own "$@"\n'


def hooks_of(repo: Repo) -> dict[str, tuple[bytes, int]]:
    """Content and mode of every file in the hooks directory, but git's samples."""
    found = (repo.path / ".git/hooks").iterdir() if (repo.path / ".git/hooks").is_dir() else iter(())
    return {p.name: (p.read_bytes(), p.lstat().st_mode) for p in found if p.suffix != ".sample"}


def own(repo: Repo, name: str = "pre-commit", content: bytes = OWN, mode: int = 0o751) -> Path:
    path = repo.write(f".git/hooks/{name}", content)
    path.chmod(mode)
    return path


def test_what_is_installed_is_what_is_shipped(repo: Repo) -> None:
    ran = call("git-ktx", "install-hooks", "--json", cwd=repo.path)
    assert ran.status == 0
    assert [(step["hook"], step["action"]) for step in ran.json["data"]["hooks"]] == [(name, "put") for name in HOOKS]
    for name in HOOKS:
        path = repo.path / ".git/hooks" / name
        shipped = (ROOT / "hooks" / name).read_bytes().split(b"\n")
        there = path.read_bytes().split(b"\n")
        assert there[1].startswith(shipped[1] + b" ") and there[:1] + there[2:] == shipped[:1] + shipped[2:]
        assert os.access(path, os.X_OK) and whose(path.read_bytes()) == "ours"
    assert str(repo.path) not in str(hooks_of(repo))


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_is_posix_sh_with_its_mark(name: str) -> None:
    path = ROOT / "hooks" / name
    assert path.read_bytes().split(b"\n")[1] == MARK + name.encode()
    assert os.access(path, os.X_OK) and path.read_bytes().isascii()
    for shell in ("sh", "dash", "bash"):
        done = subprocess.run([shell, "-n", path], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), shell


def test_twice_is_once(repo: Repo) -> None:
    own(repo)
    call("git-ktx", "install-hooks", cwd=repo.path)
    before = hooks_of(repo)
    ran = call("git-ktx", "install-hooks", cwd=repo.path)
    assert ran.status == 0 and ran.out.count("was there already") == 4
    assert hooks_of(repo) == before


def test_all_comes_back(repo: Repo) -> None:
    own(repo)
    own(repo, "pre-push", b"\xff not text", 0o644)
    before = hooks_of(repo)
    assert "runs first" in call("git-ktx", "install-hooks", cwd=repo.path).out
    assert set(hooks_of(repo)) == {*HOOKS, "pre-commit" + CHAINED, "pre-push" + CHAINED}
    ran = call("git-ktx", "uninstall-hooks", cwd=repo.path)
    assert ran.status == 0 and hooks_of(repo) == before
    assert call("git-ktx", "uninstall-hooks", cwd=repo.path).status == 0 and hooks_of(repo) == before


def test_a_link_comes_back_as_a_link(repo: Repo) -> None:
    repo.write("tools/hook", OWN).chmod(0o755)
    path = repo.path / ".git/hooks/pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("../../tools/hook")
    call("git-ktx", "install-hooks", "pre-commit", cwd=repo.path)
    assert not path.is_symlink() and path.with_name("pre-commit.ktx-before").is_symlink()
    call("git-ktx", "uninstall-hooks", cwd=repo.path)
    assert os.readlink(path) == "../../tools/hook"  # noqa: PTH115
    assert (repo.path / "tools/hook").read_bytes() == OWN


def test_only_the_named_ones(repo: Repo) -> None:
    assert call("git-ktx", "install-hooks", "pre-push", cwd=repo.path).status == 0
    assert set(hooks_of(repo)) == {"pre-push"}
    ran = call("git-ktx", "install-hooks", "post-commit", cwd=repo.path)
    assert ran.status == 2 and "no hook named 'post-commit'" in ran.err


def test_an_edited_hook_is_nobody_s_to_replace(repo: Repo) -> None:
    call("git-ktx", "install-hooks", cwd=repo.path)
    path = repo.path / ".git/hooks/pre-push"
    path.write_bytes(path.read_bytes() + b"# mine\n")
    before = hooks_of(repo)
    ran = call("git-ktx", "install-hooks", cwd=repo.path)
    assert ran.status == 1 and "was edited" in ran.err and hooks_of(repo) == before
    ran = call("git-ktx", "uninstall-hooks", cwd=repo.path)
    assert ran.status == 1 and "left alone" in ran.out
    assert set(hooks_of(repo)) == {"pre-push"}


def test_an_older_version_is_brought_up_to_date(repo: Repo) -> None:
    own(repo)
    call("git-ktx", "install-hooks", cwd=repo.path)
    before = hooks_of(repo)
    path = repo.path / ".git/hooks/pre-commit"
    path.write_bytes(stamped(b"#!/bin/sh\n" + MARK + b"pre-commit\nexec gate-check --older\n"))
    ran = call("git-ktx", "install-hooks", cwd=repo.path)
    assert "brought up to date" in ran.out and hooks_of(repo) == before


def test_another_tool_that_moved_in_since_is_left_alone(repo: Repo) -> None:
    own(repo)
    call("git-ktx", "install-hooks", "pre-commit", cwd=repo.path)
    own(repo, content=b"#!/bin/sh\n# another manager\n")
    before = hooks_of(repo)
    assert call("git-ktx", "install-hooks", "pre-commit", cwd=repo.path).status == 1
    assert call("git-ktx", "uninstall-hooks", "pre-commit", cwd=repo.path).status == 1
    assert hooks_of(repo) == before


def test_hooks_that_other_repositories_share_are_refused(repo: Repo, tmp_path: Path) -> None:
    shared = tmp_path / "shared-hooks"
    shared.mkdir()
    repo.git("config", "--global", "core.hooksPath", str(shared))
    for name in ("install-hooks", "uninstall-hooks"):
        ran = call("git-ktx", name, cwd=repo.path)
        assert ran.status == 1 and "global" in ran.err
        assert "gate-check --index || exit" in ran.err and 'gate-check --pushed "$1" || exit' in ran.err
    assert not list(shared.iterdir()) and not hooks_of(repo)


def test_a_hooks_path_out_of_the_repository_is_refused(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "core.hooksPath", str(tmp_path / "elsewhere"))
    assert call("git-ktx", "install-hooks", cwd=repo.path).status == 1
    repo.git("config", "--unset", "core.hooksPath")
    (tmp_path / "linked").mkdir()
    place = repo.path / ".git/hooks"
    if place.is_dir():
        place.rename(tmp_path / "old")
    place.symlink_to(tmp_path / "linked")
    ran = call("git-ktx", "install-hooks", cwd=repo.path)
    assert ran.status == 1 and "a link out of the repository" in ran.err
    assert not list((tmp_path / "linked").iterdir())


def test_a_hooks_path_of_its_own_is_where_they_go(repo: Repo) -> None:
    repo.git("config", "core.hooksPath", ".githooks")
    ran = call("git-ktx", "install-hooks", "pre-commit", cwd=repo.path)
    assert ran.status == 0 and f"{repo.path}/.githooks/pre-commit: installed" in ran.out
    assert not hooks_of(repo) and repo.git("diff", "--cached", "--name-only") == ""


def test_a_linked_worktree_installs_for_all(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    assert call("git-ktx", "install-hooks", cwd=tmp_path / "linked").status == 0
    assert set(hooks_of(repo)) == set(HOOKS)


def test_a_repository_without_a_hooks_directory(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "bare-template", "--template=")
    assert not (repo.path / ".git/hooks").exists()
    assert call("git-ktx", "install-hooks", cwd=repo.path).status == 0
    assert set(hooks_of(repo)) == set(HOOKS)


def test_outside_a_repository(tmp_path: Path) -> None:
    assert call("git-ktx", "install-hooks", cwd=tmp_path).status == 2


def test_a_chained_hook_runs_first_with_arguments_and_input(repo: Repo, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    own(repo, "pre-push", f'#!/bin/sh\necho "$#" "$2" >"{seen}"\ncat >>"{seen}"\nexit 7\n'.encode(), 0o755)
    call("git-ktx", "install-hooks", cwd=repo.path)
    lines = f"refs/heads/x {'1' * 40} refs/heads/x {'0' * 40}\nHEAD {'2' * 40} refs/heads/y {'3' * 40}\n"
    for given in (lines, ""):
        done = subprocess.run(
            [repo.path / ".git/hooks/pre-push", "origin", "the url"],
            cwd=repo.path, input=given.encode(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 7 and seen.read_text() == "2 the url\n" + given


@pytest.mark.parametrize("name", HOOKS)
def test_without_gate_check_a_hook_fails_and_says_so(repo: Repo, name: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("git", "sh", "cat"):
        (tools / tool).symlink_to(subprocess.check_output(["sh", "-c", f"command -v {tool}"], text=True).strip())
    call("git-ktx", "install-hooks", cwd=repo.path)
    run: list[str | Path] = [repo.path / ".git/hooks" / name, "x"]
    env = {**os.environ, "PATH": str(tools)}
    done = subprocess.run(run, cwd=repo.path, env=env, input=b"", capture_output=True, check=False)
    assert done.returncode == 1 and b"gate-check is not on PATH, so nothing was gated" in done.stderr
    repo.git("config", "ktx.bin", str(BIN))
    repo.write("x", "a message\n")
    done = subprocess.run(run, cwd=repo.path, env=env, input=b"", capture_output=True, check=False)
    assert done.returncode == 0 and b"gate-check: looked at" in done.stderr, done.stderr


def test_a_kill_at_any_point_leaves_a_state_that_both_commands_mend(tmp_path: Path) -> None:
    def fresh(number: str) -> Repo:
        repo = Repo.init(tmp_path / f"r{number}")
        own(repo, mode=0o755)
        return repo

    args = ["install-hooks", "pre-commit", "pre-push"]
    effects = count_effects("git-ktx", args, fresh("count").path)
    wanted = hooks_of(Repo(tmp_path / "rcount"))
    points = [
        (n, when) for n, effect in enumerate(effects) if not effect.startswith(("spawn", "exit")) for when in WHENS
    ]
    assert len(points) >= 12
    for n, when in points:
        repo = fresh(f"{n}-{when}")
        before = hooks_of(repo)
        assert isinstance(run_killed("git-ktx", args, repo.path, n, when), Killed)
        done = subprocess.run(
            [repo.path / ".git/hooks/pre-commit", "x"], cwd=repo.path, capture_output=True, check=False
        )
        assert b"own x" in done.stdout, (n, when, effects[n])  # the hook that was there runs at every moment
        if n % 2:
            assert call("git-ktx", *args, cwd=repo.path).status == 0
            assert hooks_of(repo) == wanted, (n, when, effects[n])
        assert call("git-ktx", "uninstall-hooks", cwd=repo.path).status == 0, (n, when, effects[n])
        assert hooks_of(repo) == before, (n, when, effects[n])


@pytest.mark.parametrize(
    ("owner", "current", "chained", "same", "action"),
    [
        ("none", False, False, False, "put"),
        ("none", False, True, False, "put"),
        ("ours", True, False, False, "already"),
        ("ours", False, True, False, "update"),
        ("foreign", False, False, False, "chain"),
        ("foreign", False, True, True, "chain"),
        ("foreign", False, True, False, "refuse"),
        ("edited", False, False, False, "refuse"),
        ("edited", False, True, False, "refuse"),
    ],
)
def test_what_installing_decides(owner: str, current: bool, chained: bool, same: bool, action: str) -> None:
    assert on_install(owner, current=current, chained=chained, same=same) == action


@pytest.mark.parametrize(
    ("owner", "chained", "same", "action"),
    [
        ("none", False, False, "absent"),
        ("none", True, False, "restore"),
        ("ours", False, False, "remove"),
        ("ours", True, False, "restore"),
        ("foreign", False, False, "absent"),
        ("foreign", True, False, "keep"),
        ("foreign", True, True, "restore"),
        ("edited", False, False, "keep"),
        ("edited", True, False, "keep"),
    ],
)
def test_what_uninstalling_decides(owner: str, chained: bool, same: bool, action: str) -> None:
    assert on_uninstall(owner, chained=chained, same=same) == action
