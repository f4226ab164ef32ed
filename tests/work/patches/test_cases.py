"""The hard cases of patch transport, each through the real commands: the wanted tree, or the wanted refusal."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import Ran, call
from tests.support.data import CASES as FOLDER

CASES = sorted((FOLDER / "patch").glob("[0-9A-Z]*.sh"))


@dataclass(frozen=True)
class Built:
    """A case on disk: repository, the unit's worktree, the integration worktree, and what is wanted."""

    work: Path
    base: str
    expect: str
    want: str
    subdir: str
    env: dict[str, str]

    def git(self, where: str, *args: str) -> str:
        env = {**os.environ, "HOME": str(self.work / "home"), "XDG_CONFIG_HOME": str(self.work / "home/.config")}
        env.pop("GIT_CONFIG_GLOBAL", None)
        done = subprocess.run(
            ["git", "--no-optional-locks", *args], cwd=self.work / where, env=env, capture_output=True, check=True
        )
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def state(self) -> tuple[object, ...]:
        """The integration worktree to the byte: HEAD, status, every file with its mode and content."""
        top = self.work / "integ"
        files = []
        for path in sorted(top.rglob("*")):
            if path.name != ".git" and not path.is_dir():
                content = path.readlink() if path.is_symlink() else path.read_bytes()
                files.append((str(path), path.lstat().st_mode, content))
        return self.git("integ", "rev-parse", "HEAD"), self.git("integ", "ls-files", "-s", "-v"), files


def build(case: Path, work: Path) -> Built:
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "WORK": str(work)}
    done = subprocess.run(["bash", str(case)], env=env, capture_output=True, check=False, cwd=work)
    assert done.returncode == 0, done.stderr
    meta = dict(line.split("=", 1) for line in (work / "meta").read_text().splitlines())
    extra = dict(line.split("=", 1) for line in (work / "env").read_text().splitlines()) if _has(work, "env") else {}
    return Built(work, meta["BASE"], meta["EXPECT"], meta["WANT"], meta["SUBDIR"], extra)


def _has(work: Path, name: str) -> bool:
    return (work / name).is_file()


def run(built: Built, where: str, name: str, *args: str) -> Ran:
    """The command as the user of the case would run it: own HOME and configuration, exported variables and all."""
    home = built.work / "home"
    env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    return call(name, "--json", *args, cwd=built.work / where / built.subdir, env={**env, **built.env})


def collect(built: Built) -> Ran:
    output = str(built.work / "unit.patch")
    # only the two denied-prefix cases speak of a policy; it is the same for all, so that it refuses no other
    policy = ["--deny", ".github/"]
    return run(built, "child", "patch-collect", "--base", built.base, "--expect-branch", "unit", *policy, "-o", output)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_case(case: Path, tmp_path: Path) -> None:
    built = build(case, tmp_path / "w")
    before = built.state()
    taken = collect(built)
    if built.expect == "reject":
        assert taken.status == 1, taken
        assert built.state() == before
        return
    if built.expect != "conflict" or taken.status == 0:
        assert taken.status == 0, taken
    assert (taken.status != 0 or taken.json["document"]["outcome"] == "noop") == (not _has(built.work, "unit.patch"))
    if built.expect == "empty":
        assert taken.json["document"]["outcome"] == "noop"
    if _has(built.work, "between.sh"):
        subprocess.run(["bash", str(built.work / "between.sh")], check=True, cwd=built.work)
    done = run(built, "integ", "patch-apply", str(built.work / "unit.patch"))
    {"apply": accepted, "noop": unchanged, "empty": unchanged, "conflict": refused}[built.expect](built, done, before)


def accepted(built: Built, done: Ran, before: tuple[object, ...]) -> None:
    assert (done.status, done.json["outcome"]) == (0, "accepted"), done
    assert built.git("integ", "rev-parse", "HEAD^{tree}") == built.want
    assert built.git("integ", "rev-parse", "HEAD^") == before[0]
    assert built.git("integ", "write-tree") == built.want
    assert built.git("integ", "status", "--porcelain", "--ignore-submodules=all") == ""


def unchanged(built: Built, done: Ran, before: tuple[object, ...]) -> None:
    assert done.status == 0, done
    assert done.json["outcome"] == ("noop" if built.expect == "empty" else "subsumed")
    assert built.state() == before


def refused(built: Built, done: Ran, before: tuple[object, ...]) -> None:
    assert done.status in (1, 2, 3, 5), done
    assert built.state() == before
