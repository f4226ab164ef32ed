"""The ignore rules give git's verdict, on a table and on generated patterns."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ktxkit.store.rules.paths_policy import IgnoreRules, rules_of
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"

CASES = [
    ("*.log", "a.log", True), ("*.log", "d/a.log", True), ("/a", "d/a", False), ("/a", "a", True),
    ("d/", "d/x", True), ("d/", "e/d/x", True), ("!a\na", "a", True), ("a\n!a", "a", False),
    ("d/\n!d/x", "d/x", True), ("d/*\n!d/x", "d/x", False), ("a/**/b", "a/b", True), ("a/**/b", "a/x/y/b", True),
    ("**/foo", "x/foo", True), ("foo/**", "foo/x", True), ("foo/**", "foo", False), ("a\\ ", "a ", True),
    ("a ", "a", True), ("\\#x", "#x", True), ("#x", "#x", False), ("\\!x", "!x", True), ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False), ("[[:digit:]]", "7", True), ("a?c", "a/c", False), ("a\r", "a", True),
    ("x*/y", "xa/b/y", False), ("\ufefftop", "top", True), ("a\\", "a\\", False), ("[z-a]", "m", False),
]  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return Repo.init(tmp_path_factory.mktemp("ignore"))


@pytest.mark.parametrize(("rules", "path", "verdict"), CASES)
def test_table(bare: Repo, rules: str, path: str, verdict: bool) -> None:
    made = rules_of([(b".gitignore", rules.encode())])
    assert made.ignored(path.encode()) is verdict
    (bare.path / ".gitignore").write_bytes(rules.encode())
    assert (path.encode() in ignored_by_git(bare.path, [path.encode()])) is verdict


def test_deeper_files_are_stronger_and_exclude_is_weakest() -> None:
    rules = rules_of([(b"d/.gitignore", b"!keep\n/own\n"), (b".gitignore", b"keep\n")], exclude=b"*.x\nkeep\n")
    verdicts = {path: rules.ignored(path) for path in (b"keep", b"d/keep", b"own", b"d/own", b"d/e/own", b"q/a.x")}
    assert verdicts == {
        b"keep": True, b"d/keep": False, b"own": False, b"d/own": True, b"d/e/own": False, b"q/a.x": True,
    }  # fmt: skip


def test_without_rules_nothing_is_ignored() -> None:
    assert not IgnoreRules().ignored(b"a/b")


NAMES = st.sampled_from(["a", "b", "ab", "a.b", "foo", "x y", "a ", "#a", "!a", "ä", "-", "a]", "\\a"])
PIECES = st.sampled_from(
    ["a", "b", "foo", "*", "**", "***", "?", "/", "/", "[a-b]", "[!a]", "[^b]", "\\a", "\\*", "\\", "[", "]", "!", "#"]
    + [" ", ".", "[[:alpha:]]", "[]a]", "[a-]", "\\ ", "\r", "ä", "[[:nope:]]", "[\\]a]"]
)
LINE = st.lists(PIECES, min_size=1, max_size=6).map("".join)
PATH = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(
    top=st.lists(LINE, max_size=4).map("\n".join),
    deep=st.lists(LINE, max_size=3).map("\n".join),
    paths=st.lists(PATH, min_size=1, max_size=12, unique=True),
)
@settings(max_examples=1500 if FULL else 120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(top="foo**/b", deep="", paths=["foob", "fooa/b", "foo/a/b"])
@example(top="a/***/b", deep="", paths=["a/b", "a/x/b", "a/x/y/b"])
def test_git_agrees(bare: Repo, top: str, deep: str, paths: list[str]) -> None:
    (bare.path / ".gitignore").write_bytes(top.encode())
    below = bare.path / "a"
    below.mkdir(exist_ok=True)
    (below / ".gitignore").write_bytes(deep.encode())
    made = rules_of([(b".gitignore", top.encode()), (b"a/.gitignore", deep.encode())])
    expected = ignored_by_git(bare.path, [path.encode() for path in paths])
    got = {path.encode() for path in paths if made.ignored(path.encode(), is_dir=path == "a")}  # `a` is there
    assert got == expected


def ignored_by_git(top: Path, paths: list[bytes]) -> set[bytes]:
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin", "--no-index"],
        cwd=top,
        input=b"\0".join(paths) + b"\0",
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.split(b"\0")[:-1])
