"""Claims and content: forgotten files, test data and notes beside the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.ledger.rules.claims import _is_prose
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
        *[("README.md", True), ("docs/a/b.rst", True), ("docs/guide.txt", True), ("LICENSE.txt", True)],
        *[("requirements.txt", False), ("CMakeLists.txt", False), ("docs/conf.py", False), ("tests/README.md", False)],
        *[("src/tests/data/x.rst", False), ("golden.txt", False)],
    ],
)
def test_what_is_prose(path: str, prose: bool) -> None:
    assert _is_prose(path) is prose
