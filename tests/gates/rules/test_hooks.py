"""pre-push lines and commit messages, as git gives them; the message cut against git itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.base.errors import CannotRun
from ktxkit.gates.rules.hooks import AUTO, SCISSORS, Cleanup, Push, cleanup_mode, cleanup_of, cut, is_zero, read_pushes
from tests.support import data
from tests.support.repos import Repo

A, B, Z = "a" * 40, "b" * 40, "0" * 40
A64, Z64 = "a" * 64, "0" * 64


@pytest.mark.parametrize(
    ("data", "pushes"),
    [
        (b"", []),
        (f"refs/heads/x {A} refs/heads/y {B}\n".encode(), [Push(b"refs/heads/x", A, b"refs/heads/y", B)]),
        (f"refs/heads/x {A} refs/heads/y {Z}".encode(), [Push(b"refs/heads/x", A, b"refs/heads/y", Z)]),
        (f"HEAD^{{/two words}} {A} refs/heads/y {B}\n".encode(), [Push(b"HEAD^{/two words}", A, b"refs/heads/y", B)]),
        (f"x\xff {A64} y\xfe {Z64}\n".encode("latin-1"), [Push(b"x\xff", A64, b"y\xfe", Z64)]),
        (
            f"(delete) {Z} refs/heads/gone {A}\nrefs/tags/t {A} refs/tags/t {Z}\n".encode(),
            [Push(b"(delete)", Z, b"refs/heads/gone", A), Push(b"refs/tags/t", A, b"refs/tags/t", Z)],
        ),
    ],
)
def test_pushes(data: bytes, pushes: list[Push]) -> None:
    assert read_pushes(data) == pushes


@pytest.mark.parametrize(
    "line",
    [
        "x",
        f"x {A} y",
        f"x {A} y {B[:-1]}",
        f"x {A[:-1]}G y {B}",
        f"x {A.upper()} y {B}",
        f"x {A} y {B} ",
        f"{A} y {B}",
        " ",
    ],
)
def test_what_is_no_line_of_pre_push(line: str) -> None:
    with pytest.raises(CannotRun, match="not a line of pre-push"):
        read_pushes(f"ok {A} ok {B}\n{line}\n".encode())


def test_zero_is_a_length_and_nothing_but_zeros() -> None:
    assert is_zero(Z) and is_zero(Z64)
    for oid in ("", "0", "0" * 41, "0" * 63, "0" * 39 + "1", A):
        assert not is_zero(oid)


def test_case_g15_a_deletion_among_real_refs() -> None:
    assert data.case("git", "G15")["verdict"] == "gate the real ref only"
    for zero, real in ((Z, A), (Z64, A64)):
        lines = f"(delete) {zero} refs/heads/gone {real}\nrefs/heads/x {real} refs/heads/x {zero}\n"
        assert [push.local_ref for push in read_pushes(lines.encode()) if not push.deletes] == [b"refs/heads/x"]


CUT = SCISSORS.decode()[1:]
KEEP = Cleanup(b"#", strips=False)


@pytest.mark.parametrize(
    ("message", "how", "left"),
    [
        ("a\n\nb\n", Cleanup(), "a\n\nb\n"),
        ("", Cleanup(), ""),
        ("a\n# c\nb", Cleanup(), "a\nb"),
        ("a\n # not a comment\nb #c\n", Cleanup(), "a\n # not a comment\nb #c\n"),
        (f"a\n# {CUT}\n# more\ndiff\n", Cleanup(), "a\n"),
        (f"# {CUT}\ndiff\n", Cleanup(), ""),
        (f"a\n# {CUT}\n+b\n", KEEP, "a\n"),
        (f"a\n# {CUT} \n+b\n", KEEP, f"a\n# {CUT} \n+b\n"),
        (f"a\n #{CUT}\n{CUT}\n# >8\n#{CUT}\n+b\n", KEEP, f"a\n #{CUT}\n{CUT}\n# >8\n#{CUT}\n+b\n"),
        ("a\n# c\n", KEEP, "a\n# c\n"),
        (f"a\n# kept\n; {CUT}\n+b\n", Cleanup(b";"), "a\n# kept\n"),
        (f"a\n; c\n; {CUT}\n+b\n", Cleanup(b";"), "a\n"),
        (f"a\n# {CUT}\n; c\n", Cleanup(b";"), f"a\n# {CUT}\n"),
        (f"a\n// c\n/ d\n// {CUT}\n", Cleanup(b"//"), "a\n/ d\n"),
        (f"#1\n; c\n; {CUT}\n+b\n", Cleanup(None), "#1\n"),
        ("#1 is mended\n\n; Please enter the message\n;\n\n", Cleanup(None), "#1 is mended\n\n\n"),
        ("#1 is mended\n\nreally\n", Cleanup(None), "#1 is mended\n\nreally\n"),
        (f"a\r\n# c\r\n# {CUT}\r\nb", Cleanup(), "a\r\nb"),
    ],
)
def test_cut(message: str, how: Cleanup, left: str) -> None:
    assert cut(message.encode(), how) == left.encode()


NEW, OLD = (2, 45), (2, 39, 5)


@pytest.mark.parametrize(
    ("settings", "version", "edited", "how"),
    [
        ([], NEW, True, Cleanup(b"#", True)),
        ([], NEW, False, Cleanup(b"#", False)),
        ([("core.commentchar", b";")], OLD, True, Cleanup(b";", True)),
        ([("core.commentchar", b"auto")], OLD, True, Cleanup(None, True)),
        ([("core.commentchar", b";"), ("core.commentstring", b"//")], NEW, True, Cleanup(b"//", True)),
        ([("core.commentstring", b"//"), ("core.commentchar", b";")], NEW, True, Cleanup(b";", True)),
        ([("core.commentchar", b";"), ("core.commentstring", b"//")], OLD, True, Cleanup(b";", True)),
        ([("commit.cleanup", b"strip")], NEW, False, Cleanup(b"#", True)),
        ([("commit.cleanup", b"whitespace")], NEW, True, Cleanup(b"#", False)),
        ([("commit.cleanup", b"verbatim")], NEW, True, Cleanup(b"#", False)),
        ([("commit.cleanup", b"scissors")], NEW, True, Cleanup(b"#", False)),
        ([("commit.cleanup", b"default")], NEW, True, Cleanup(b"#", True)),
        ([("commit.cleanup", b"strip"), ("commit.cleanup", b"verbatim")], NEW, True, Cleanup(b"#", False)),
    ],
)
def test_cleanup_of(settings: list[tuple[str, bytes]], version: tuple[int, ...], edited: bool, how: Cleanup) -> None:
    assert cleanup_of(settings, version, edited=edited) == how


@pytest.mark.parametrize("char", [b";", b"#", b"auto"])
@pytest.mark.parametrize("cleanup", ["default", "strip", "scissors", "whitespace"])
def test_cut_agrees_with_git(
    repo: Repo, tmp_path: Path, char: bytes, cleanup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of the message that commit-msg sees is what git commits, up to blank lines at its ends."""
    seen = tmp_path / "seen"
    editor = tmp_path / "editor"
    editor.write_text(
        "#!/bin/sh\nprintf ' the subject\\n\\n%s not first\\nbody\\n' '#' | cat - \"$1\" >x && mv x \"$1\"\n"
    )
    hook = repo.path / ".git/hooks/commit-msg"
    hook.write_text(f'#!/bin/sh\ncp "$1" "{seen}"\n')
    editor.chmod(0o755)
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(editor))
    repo.write("new", "text\n")
    repo.git("add", "new")
    repo.git("-c", f"core.commentChar={char.decode()}", "-c", f"commit.cleanup={cleanup}", "commit", "-q", "-v")
    settings = [("core.commentchar", char), ("commit.cleanup", cleanup.encode())]
    assert SCISSORS in seen.read_bytes() and b"+text" in seen.read_bytes()
    left = cut(seen.read_bytes(), cleanup_of(settings, OLD, edited=True))
    body = repo.git_bytes("cat-file", "commit", "HEAD").partition(b"\n\n")[2]
    assert left.strip() == body.strip() and b"the subject" in body
    assert b"+text" not in left


def test_case_g14() -> None:
    assert data.case("git", "G14")["verdict"] == "cut at scissors, then comments"
    message = b"a\n; a comment\n#1\n;" + SCISSORS + b"\ndiff --git a/x b/x\n+; text\n"
    assert cut(message, Cleanup(b";")) == b"a\n#1\n"


def test_every_character_that_git_may_choose_is_known() -> None:
    assert len(set(AUTO)) == 10


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("git commit -F m --cleanup=strip", "strip"),
        ("/usr/lib/git-core/git commit --cleanup verbatim -m x", "verbatim"),
        ("git ci --cleanup=strip --cleanup=whitespace", "whitespace"),
        ("git commit -m x", ""),
        ("git commit -m x -- --cleanup=strip", ""),
        ("sh hook --cleanup=strip", ""),
        ("git", ""),
        ("", ""),
    ],
)
def test_cleanup_asked_on_the_command_line(line: str, asked: str) -> None:
    assert cleanup_mode(line.split()) == asked
