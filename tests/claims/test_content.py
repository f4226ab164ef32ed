"""Claims and content: forgotten files, test data and notes beside the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.ledger.rules.scope import is_prose
from tests.ledger.test_test_run import go
from tests.support.commands import call
from tests.support.suites import Suite

READS = "import pathlib\ndef test_g(): assert pathlib.Path(__file__).with_name('golden.txt').read_text() == 'x'\n"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    files = {"tests/test_g.py": READS, "tests/golden.txt": "x", "README.md": "# R"}
    return Suite.make(tmp_path / "s", files)


def claimed(suite: Suite) -> tuple[int, str]:
    path = suite.repo.path.parent / "message"
    path.write_text("Change\n\nAll tests pass.\n")
    ran = call("gate-check", "--message", path, cwd=suite.repo.path)
    return ran.status, ran.out + ran.err


def test_edited_test_data_is_no_prose(suite: Suite) -> None:
    go(suite, "--scope", "full")
    suite.repo.write("README.md", "# S")
    assert claimed(suite)[0] == 0
    suite.repo.write("tests/golden.txt", "broken")
    status, said = claimed(suite)
    assert status == 1 and "claim-stale" in said


def test_a_note_beside_the_work_makes_a_failed_run_no_pass(suite: Suite) -> None:
    go(suite, "--scope", "full")
    suite.repo.write("tests/golden.txt", "broken")
    suite.repo.commit()
    go(suite, "--scope", "full")
    suite.repo.write("notes.md", "note")
    status, said = claimed(suite)
    assert status == 1 and "claim-false" in said


@pytest.mark.parametrize(
    ("path", "prose"),
    [
        *[("README.md", True), ("docs/a/b.rst", True), ("docs/guide.txt", False), ("LICENSE", False)],
        *[("requirements.txt", False), ("CMakeLists.txt", False), ("docs/conf.py", False), ("tests/README.md", False)],
        *[("src/tests/data/x.rst", False), ("golden.txt", False)],
    ],
)
def test_what_is_prose(path: str, prose: bool) -> None:
    assert is_prose(path) is prose


def test_the_project_says_what_is_prose(suite: Suite) -> None:
    suite.repo.write("notes/plan.txt", "a")
    suite.repo.write(".ktx-config.yaml", 'claims:\n  prose: ["notes/**", "**/requirements.txt", "tests/**"]\n')
    suite.repo.write("requirements.txt", "a==1\n")
    suite.repo.commit()
    go(suite, "--scope", "full")
    suite.repo.write("notes/plan.txt", "b")
    assert claimed(suite)[0] == 0
    suite.repo.write("README.md", "# S")
    assert claimed(suite)[0] == 1, "the project's patterns stand instead of ours"
    suite.repo.write("README.md", "# R")
    for path in ("requirements.txt", "tests/golden.txt"):
        before = (suite.repo.path / path).read_text()
        suite.repo.write(path, "c==2\n")
        assert claimed(suite)[0] == 1, f"{path} is never prose"
        suite.repo.write(path, before)


def test_a_run_as_the_project_has_it_bears_all_tests_out(suite: Suite) -> None:
    """What committed options leave out is the project's own; any edit but of prose ends what the run says."""
    suite.repo.write("pytest.ini", "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n")
    suite.repo.write("tests/test_s.py", "import pytest\n@pytest.mark.slow\ndef test_s(): assert 0\n")
    edited = [
        "lib.py",
        "setup.cfg",
        "data/table.csv",
        "Makefile",
        "docs/conf.py",
        "requirements.txt",
        "tests/README.md",
    ]
    for path in edited:
        suite.repo.write(path, "# x\n")
    suite.repo.commit()
    go(suite, "--scope", "full")
    assert "nothing found" in claimed(suite)[1]
    for path in [*edited, "pytest.ini", "tests/golden.txt", "tests/test_g.py"]:
        before = (suite.repo.path / path).read_text()
        suite.repo.write(path, before + "\n# more\n")
        status, said = claimed(suite)
        assert status == 1 and "claim-stale" in said, path
        suite.repo.write(path, before)
    assert claimed(suite)[0] == 0


def test_a_page_that_a_test_opens_is_no_prose(suite: Suite) -> None:
    """The runtime map decides: the test was seen to read the page."""
    reads = "import pathlib\ndef test_r(): assert pathlib.Path('README.md').read_text()[:3] == '# R'\n"
    suite.repo.write("tests/test_r.py", reads)
    suite.repo.write("GUIDE.md", "a")
    suite.repo.commit()
    go(suite, "--trace", "--scope", "full")
    suite.repo.write("GUIDE.md", "b")
    status, said = claimed(suite)
    assert status == 0, said
    suite.repo.write("README.md", "# S")
    status, said = claimed(suite)
    assert status == 1 and "claim-stale" in said


def test_bytecode_of_the_run_is_no_edit(suite: Suite) -> None:
    (suite.repo.path / ".gitignore").unlink()
    suite.repo.commit()
    ran = suite.run(PYTHONDONTWRITEBYTECODE="", KTX_LEDGER="off")
    assert ran.status == 0 and (suite.repo.path / "tests/__pycache__").is_dir()
    go(suite, "--scope", "full")
    assert suite.record["authoritative"] and claimed(suite)[0] == 0
    suite.repo.write("README.md", "# S")
    assert claimed(suite)[0] == 0, "prose"
    suite.repo.git("add", "-A")
    assert "__pycache__" in suite.repo.git("diff", "--cached", "--name-only")
    assert claimed(suite)[0] == 0, "committed with the change, it is content that no test reads"
    suite.repo.write("tests/test_new.py", "def test_n(): assert 0\n")
    suite.repo.git("add", "-A")
    assert claimed(suite)[0] == 1


@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
def test_a_hidden_edit_bears_no_claim_out(suite: Suite, bit: str) -> None:
    suite.repo.write("tests/golden.txt", "broken")
    suite.repo.commit()
    suite.repo.git("update-index", bit, "tests/golden.txt")
    suite.repo.write("tests/golden.txt", "x")
    assert go(suite, "--scope", "full").status == 0
    assert suite.repo.git("status", "--porcelain") == ""
    message = suite.repo.path.parent / "message"
    message.write_text("Change\n\nAll tests pass.\n")
    index = str(suite.repo.path / ".git/index")
    ran = call("gate-check", "--message", message, cwd=suite.repo.path, env={"GIT_INDEX_FILE": index})
    assert ran.status == 1 and "tests/golden.txt" in ran.out + ran.err
