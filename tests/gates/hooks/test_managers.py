"""The manifest, and the hooks under pre-commit and prek as people run them: try-repo, a commit, a merge, a push."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.gates.hooks.test_real import ORDERS, PAGE, PAGE_PATH, SOURCE, breaks, run, stale, state, two_sides
from tests.support.commands import BIN, call
from tests.support.install import ROOT, checked, export, once
from tests.support.repos import Repo

MANAGERS = ("pre-commit", "prek")
FULL = os.environ.get("KTX_TEST_FULL") == "1"
KEYS = {
    "id", "name", "description", "entry", "language", "files", "types_or", "pass_filenames", "always_run", "stages",
    "minimum_pre_commit_version",
}  # fmt: skip
STAGES = {"pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "manual"}
FINDING = f"{PAGE_PATH}:5:12: error stale-entity"


def manifest() -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = YAML(typ="safe", pure=True).load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return hooks


def test_the_manifest_is_strict() -> None:
    """Both managers pass over unknown keys and take legacy stages; we do not."""
    ids = [hook["id"] for hook in manifest()]
    assert ids == ["gate-check", "gate-check-files", "gate-check-message", "gate-check-system"]  # never renamed
    for hook in manifest():
        assert not set(hook) - KEYS and {"id", "name", "description", "entry", "language", "stages"} <= set(hook)
        assert hook["minimum_pre_commit_version"] == "3.2.0"
        assert hook["language"] == ("system" if hook["id"].endswith("-system") else "python")
        assert hook["stages"] and set(hook["stages"]) <= STAGES
        assert set(hook.get("types_or", ())) <= {"yaml", "markdown", "json"}
        assert re.compile(hook.get("files", "")) and hook["entry"].split()[0] == "gate-check"
    whole = {hook["id"]: hook.get("pass_filenames", True) for hook in manifest()}
    assert whole == {
        "gate-check": False,
        "gate-check-files": True,
        "gate-check-message": True,
        "gate-check-system": False,
    }
    for hook in manifest():  # what a change deletes has no type, and sources in Python are gated too
        assert hook.get("always_run", False) == (not whole[hook["id"]])
        assert ("types_or" in hook) == (hook["id"] == "gate-check-files")


@pytest.mark.parametrize("name", MANAGERS)
def test_the_managers_take_the_manifest(name: str) -> None:
    checked(BIN / name, "validate-manifest", ROOT / ".pre-commit-hooks.yaml")


def test_every_id_is_documented() -> None:
    text = (ROOT / "docs/hooks.md").read_text()
    assert [hook["id"] for hook in manifest() if f"| `{hook['id']}` |" not in text] == []


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project as a repository that others name in their configuration."""

    def make(place: Path) -> None:
        source = export(place / "source")
        who = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
        checked("git", "init", "-q", "-b", "main", source)
        checked("git", "-C", source, "add", "-A")
        checked("git", "-C", source, *who, "commit", "-q", "-m", "published")

    return once(tmp_path_factory, "published", make) / "source"


@pytest.fixture
def homes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The managers' caches: one for all tests, so that an environment is built once for each manager."""
    place = once(tmp_path_factory, "managers", lambda place: None)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(place / "pre-commit"))
    monkeypatch.setenv("PREK_HOME", str(place / "prek"))
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("PIP_NO_COMPILE", "1")  # what an environment does not import need not be compiled


@pytest.fixture
def layer(repo: Repo, homes: None) -> Repo:
    """A source, and a page that refers to it."""
    repo.write(ORDERS, SOURCE % "total")
    repo.write(PAGE_PATH, PAGE % ("Orders", "total"))
    repo.write("notes", "notes\n")
    repo.commit("knowledge")
    return repo


def manager(repo: Repo, name: str, *args: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [BIN / name, *args], cwd=repo.path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", MANAGERS if FULL else MANAGERS[1:])
def test_try_repo(layer: Repo, published: Path, name: str) -> None:
    """Every try builds an environment anew, so one asks all hooks; what passes is seen where one is kept, below."""
    breaks(layer)
    layer.git("commit", "-qam", "rename")
    status, said = manager(layer, name, "try-repo", str(published), "--all-files")
    assert status == 1 and said.count(FINDING) == 3, said


def configured(repo: Repo, published: Path, name: str, *ids: str) -> None:
    """A configuration with these hooks, committed, and the manager's own hooks installed."""
    revision = checked("git", "-C", published, "rev-parse", "HEAD").strip()
    hooks = "".join(f"      - id: {one}\n" for one in ids)
    repo.write(".pre-commit-config.yaml", f"repos:\n  - repo: {published}\n    rev: {revision}\n    hooks:\n{hooks}")
    repo.commit("configuration")
    types = [word for one in ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push") for word in ("-t", one)]
    status, said = manager(repo, name, "install", *types)
    assert status == 0, said


@pytest.mark.parametrize("name", MANAGERS)
def test_commits_and_pushes(layer: Repo, published: Path, name: str, tmp_path: Path) -> None:
    configured(layer, published, name, "gate-check", "gate-check-message")
    status, said = manager(layer, name, "run", "gate-check", "--all-files", "--verbose")
    assert status == 0 and "looked at 1 page, 1 source" in said, said
    bare = Repo.init(tmp_path / "remote.git", "--bare")
    layer.git("remote", "add", "origin", str(bare.path))
    assert run(layer, "push", "-q", "origin", "main", "main:old")[0] == 0
    layer.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    for place in (layer, layer.at(tmp_path / "linked")):
        breaks(place)
        before = state(place)
        status, said = run(place, "commit", "-a", "-m", "rename")
        assert status == 1 and FINDING in said, said
        assert state(place) == before
        place.write(PAGE_PATH, PAGE % ("Orders", "sum_total"))
        status, said = run(place, "commit", "-a", "-m", "both")
        assert status == 0, said
        place.git("reset", "-q", "--hard", "HEAD~1")
    stale(layer)
    status, said = run(layer, "push", "origin", "main", ":old")
    assert status == 1 and FINDING in said, said
    assert run(layer, "push", "origin", ":old")[0] == 0


@pytest.mark.parametrize("name", MANAGERS)
def test_a_commit_that_only_deletes_or_only_touches_python(layer: Repo, published: Path, name: str) -> None:
    layer.write("ktx-gates.yaml", "schemaVersion: 1\ngates: [{gate: artifacts}, {gate: swallow}]\n")
    configured(layer, published, name, "gate-check-system")
    layer.git("rm", "-q", ORDERS)
    status, said = run(layer, "commit", "-m", "only a deletion")
    assert status == 1 and f"{PAGE_PATH}:5:12: error unknown-source" in said, said
    layer.git("reset", "-q", "--hard")
    layer.write("tool.py", "try:\n    pass\nexcept Exception:\n    pass\n")
    layer.git("add", "tool.py")
    status, said = run(layer, "commit", "-m", "only Python")
    assert status == 1 and "tool.py:3" in said, said
    layer.git("commit", "-qm", "a debt", "--no-verify")
    status, said = run(layer, "commit", "--amend", "-m", "only the message")
    assert status == 0, said


TOLD = re.compile(r"^ *(?:\S+:\d+:\d+|\S+): (?:error|warning) .*$", re.MULTILINE)


def told(said: str) -> list[str]:
    """The lines of findings in what was printed, whoever printed it."""
    return sorted(line.strip() for line in TOLD.findall(said))


def test_one_gate_is_one_answer_wherever_it_is_asked(layer: Repo, published: Path) -> None:
    """Through pre-commit, prek, the git hook, a Makefile and a shell pipeline: the same findings, to the byte."""
    layer.write(
        "wiki/global/more.md", "---\nsummary: More\nrefs: [orders]\n---\n[[nowhere]] `source:gone` `orders.total`\n"
    )
    layer.write("Makefile", "gates:\n\t@gate-check --index\n")
    configured(layer, published, MANAGERS[0], "gate-check-system")
    layer.git("config", "core.hooksPath", ".git/none")  # each manager is asked by its own command
    breaks(layer)
    layer.write("wiki/global/more.md", "---\nsummary: More\nrefs: [orders, absent]\n---\n[[nowhere]] `orders.total`\n")
    layer.git("add", "-A")
    answers = {name: manager(layer, name, "run") for name in MANAGERS}
    answers["make"] = shell(layer, "make gates")
    answers["pipeline"] = shell(layer, "git diff --cached --name-only -z | xargs -0 gate-check --changed-since HEAD --")
    layer.git("config", "--unset", "core.hooksPath")
    for hook in (layer.path / ".git/hooks").iterdir():
        hook.unlink()
    assert call("git-ktx", "install-hooks", "pre-commit", cwd=layer.path).status == 0
    answers["hook"] = run(layer, "commit", "-m", "rename")
    assert {name: status for name, (status, _) in answers.items()} == {
        **dict.fromkeys(MANAGERS, 1), "make": 2, "pipeline": 123, "hook": 1,
    }  # fmt: skip
    lines = {name: told(said) for name, (_, said) in answers.items()}
    assert len(lines["hook"]) >= 3 and lines == dict.fromkeys(lines, lines["hook"]), lines


def shell(repo: Repo, command: str) -> tuple[int, str]:
    argv = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", MANAGERS)
def test_a_merge(layer: Repo, published: Path, name: str) -> None:
    configured(layer, published, name, "gate-check")
    two_sides(layer, "notes\n")
    status, said = run(layer, "merge", "-m", "merge", "side")
    assert status == 1 and "wiki/global/more.md:5:12: error stale-entity" in said, said
    layer.write("wiki/global/more.md", PAGE % ("More", "sum_total"))
    layer.git("add", "-A")
    status, said = run(layer, "commit", "-m", "merged and mended")
    assert status == 0, said


@pytest.mark.parametrize("name", MANAGERS)
def test_two_revisions(layer: Repo, published: Path, name: str) -> None:
    """CI names a range: what the target has too is not charged."""
    layer.write("wiki/global/debt.md", PAGE % ("Debt", "gone"))
    layer.commit("debt")
    configured(layer, published, name, "gate-check-system")
    layer.git("checkout", "-q", "-b", "topic")
    layer.write("wiki/global/fine.md", PAGE % ("Fine", "total"))
    layer.git("add", "-A")
    layer.git("commit", "-qm", "fine", "--no-verify")
    layer.git("checkout", "-q", "main")
    layer.git("rm", "-q", "wiki/global/debt.md")
    layer.git("commit", "-qm", "paid", "--no-verify")
    layer.git("checkout", "-q", "topic")
    words = ["run", "--from-ref", "main", "--to-ref", "topic", "--verbose"]
    status, said = manager(layer, name, *words)
    assert status == 0 and "inherited" not in said, said
    stale(layer)
    status, said = manager(layer, name, *words)
    assert status == 1 and FINDING in said, said
