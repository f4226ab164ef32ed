"""The gate on real commits: what is claimed is held against the ledger of this repository and this very content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ran, call, spawn
from tests.support.suites import Suite

FULL = os.environ.get("KTX_TEST_FULL") == "1"

BIN = Path(sys.executable).parent
HOOK = Path(__file__).resolve().parents[2] / "hooks" / "commit-msg"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    made = Suite.make(tmp_path / "s", {"test_m.py": "def test_a(): pass\ndef test_b(): pass\n", "lib.py": "x = 1\n"})
    hook = made.repo.path / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nPATH={BIN}:$PATH exec sh {HOOK} "$@"\n')
    hook.chmod(0o755)
    return made


def commit(suite: Suite, message: str, *options: str) -> subprocess.CompletedProcess[str]:
    argv = ["git", "commit", "-q", "--allow-empty", *options, "-m", message]
    return subprocess.run(argv, cwd=suite.repo.path, capture_output=True, text=True, check=False)


def test_a_true_claim_is_committed(suite: Suite) -> None:
    suite.run()
    done = commit(suite, "Change\n\nAll tests pass: 2 passed.")
    assert done.returncode == 0, done.stderr


def test_a_claim_of_what_is_being_committed(suite: Suite) -> None:
    suite.repo.write("lib.py", "x = 2\n")
    suite.run()
    assert commit(suite, "x is 2; all tests pass", "-a").returncode == 0


@pytest.mark.parametrize(("cleanup", "status"), [("strip", 0), ("verbatim", 1), ("whitespace", 1), ("default", 1)])
def test_what_cleanup_takes_out_is_no_claim(suite: Suite, tmp_path: Path, cleanup: str, status: int) -> None:
    suite.run("test_m.py::test_a")
    message = tmp_path / "message"
    message.write_text("Change\n\n# All tests pass.\n")
    argv = ["git", "commit", "-q", "--allow-empty", "-F", str(message), f"--cleanup={cleanup}"]
    done = subprocess.run(argv, cwd=suite.repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr


def test_an_edit_after_the_run_is_found(suite: Suite) -> None:
    suite.run()
    suite.repo.write("lib.py", "x = 3\n")
    done = commit(suite, "x is 3\n\nAll tests pass.", "-a")
    assert done.returncode == 1 and "predates the last edit: lib.py" in done.stdout + done.stderr
    suite.run()
    assert commit(suite, "x is 3\n\nAll tests pass.", "-a").returncode == 0


def test_a_fragment_is_not_the_suite(suite: Suite) -> None:
    suite.run("test_m.py::test_a")
    done = commit(suite, "All tests pass")
    assert done.returncode == 1 and "partial" in done.stdout + done.stderr
    assert commit(suite, "1 passed").returncode == 0


def test_files_that_are_not_committed_bear_nothing_out(suite: Suite) -> None:
    suite.repo.write("notes", "mine\n")
    suite.run()
    done = commit(suite, "All tests pass")
    assert done.returncode != 0 and "not being committed: notes" in done.stdout + done.stderr
    suite.repo.git("add", "notes")
    assert commit(suite, "All tests pass").returncode == 0


def test_without_a_claim_nothing_is_looked_at(suite: Suite) -> None:
    suite.repo.write(".ktx/ledger/test-runs.ndjson", "not a ledger\n")
    assert commit(suite, "Fix a typo").returncode == 0
    assert commit(suite, "All tests pass").returncode != 0, "what cannot be read bears nothing out"


def test_where_nothing_was_ever_recorded_it_is_only_said(suite: Suite) -> None:
    done = commit(suite, "All tests pass")
    assert done.returncode == 0 and "no run is recorded" in done.stdout + done.stderr


def test_a_named_test_and_a_word(suite: Suite) -> None:
    suite.repo.write("test_m.py", "def test_a(): pass\ndef test_b(): assert 0\n")
    suite.repo.git("add", "-A")
    suite.run()
    assert commit(suite, "Change\n\ntest_a passes").returncode == 0
    assert commit(suite, "Change\n\ntest_b passes").returncode == 1
    assert commit(suite, "Change\n\ntest_b is flaky").returncode == 1
    assert commit(suite, "Change\n\ntest_b fails with `assert 0`").returncode == 0


def test_a_later_failure_of_the_same_content_is_no_green_suite(suite: Suite) -> None:
    suite.repo.write("test_m.py", "import os\ndef test_a(): assert not os.environ.get('BAD')\ndef test_b(): pass\n")
    suite.repo.write("test_n.py", "def test_c(): pass\n")
    suite.repo.git("add", "-A")
    suite.run()
    suite.run("test_m.py", BAD="1")
    suite.run("test_n.py")
    for said in ("All tests pass", "The suite is green"):
        done = commit(suite, said)
        assert done.returncode == 1 and "test_m.py::test_a failed there" in done.stdout + done.stderr
    suite.run("test_m.py::test_a")
    assert commit(suite, "The suite is green; all tests pass").returncode == 0


def test_a_suite_that_was_skipped_bears_out_no_pass(suite: Suite) -> None:
    skips = "import pytest\n@pytest.fixture(autouse=True)\ndef service(): pytest.skip('it is not there')\n"
    suite.repo.write("conftest.py", skips)
    suite.repo.git("add", "-A")
    suite.run()
    for said in ("All tests pass", "Tests pass"):
        done = commit(suite, said)
        assert done.returncode == 1 and "2 skipped of 2" in done.stdout + done.stderr
        assert "no test passed" in done.stdout + done.stderr
    assert commit(suite, "No test failed").returncode == 0


def test_before_and_after(suite: Suite) -> None:
    suite.run(BAD="1")
    for said in ("Before: 9 passed, 1 failed. After: 2 passed.", "9 passed, 1 failed -> 2 passed"):
        assert commit(suite, f"Change\n\n{said}").returncode == 0
    for said in ("Before: 1 passed, 1 failed. After: 3 passed.", "1 passed -> 3 passed", "Before: red; 3 passed"):
        assert commit(suite, f"Change\n\n{said}").returncode == 1, said


def test_a_name_that_stands_for_several_ids(suite: Suite) -> None:
    suite.repo.write("tests/test_f.py", "import os\ndef test_flip(): assert not os.environ.get('BAD')\n")
    suite.repo.git("add", "-A")
    suite.run("tests")
    suite.run("--rootdir", "tests", "tests", BAD="1")
    assert commit(suite, "Change\n\ntest_flip is failing").returncode == 0
    done = commit(suite, "Change\n\ntest_flip is order-dependent")
    assert done.returncode == 0 and "not shown" in done.stdout + done.stderr


def test_a_module_by_its_path(suite: Suite) -> None:
    suite.repo.write("tests/test_a.py", "def test_x(): assert 0\n")
    suite.repo.git("add", "-A")
    suite.run()
    done = commit(suite, "Change\n\ntests/test_a.py passes")
    assert done.returncode == 1 and "tests/test_a.py::test_x failed" in done.stdout + done.stderr
    assert commit(suite, "Change\n\ntest_m.py passes").returncode == 0


def test_a_place_counts_what_was_typed(suite: Suite) -> None:
    suite.run()
    suite.repo.write("lib.py", "x = 4\n")
    (found,) = findings(asked(suite, "First line\n\nIt  **works**, and\n  all   tests pass.\n"))
    assert (found["line"], found["column"]) == (4, 3)


def test_a_linked_worktree_shares_the_ledger(suite: Suite, tmp_path: Path) -> None:
    suite.run()
    suite.repo.git("worktree", "add", "-q", tmp_path / "w")
    other = Suite(suite.repo.at(tmp_path / "w"))
    assert commit(other, "All tests pass").returncode == 0
    other.repo.write("lib.py", "x = 9\n")
    assert commit(other, "All tests pass", "-a").returncode == 1


def asked(suite: Suite, message: str) -> Ran:
    (suite.repo.path / "said.txt").write_text(message)
    suite.repo.git("config", "core.excludesFile", str(suite.repo.path / ".git/ignored"))
    (suite.repo.path / ".git/ignored").write_text("said.txt\n")
    return spawn("gate-check", "--gate", "claims", "said.txt", "--json", cwd=suite.repo.path)


def findings(ran: Ran) -> list[dict[str, Any]]:
    return [one for one in json.loads(ran.out)["document"]["findings"] if one["gate"] == "claims"]


def test_outside_a_commit_the_checkout_is_what_is_spoken_of(suite: Suite) -> None:
    suite.run()
    assert findings(asked(suite, "All tests pass.\n")) == []
    suite.repo.write("lib.py", "x = 4\n")
    (found,) = findings(asked(suite, "First line\n\nIt works, and\nall tests pass.\n"))
    assert (found["rule"], found["line"], found["column"]) == ("claim-stale", 4, 1)
    assert found["searched"] and found["hint"]


def test_a_hostile_message_is_no_traceback(suite: Suite) -> None:
    suite.run()
    for message in ("\x00\x1b[31m all tests pass", "\ud7ff" * 5000, "(" * 10_000, "a " * 100_000, "120 passed" * 2000):
        assert asked(suite, message).status in (0, 1), message[:40]


def test_real_histories(suite: Suite) -> None:
    """Upstream changelogs of what Debian has installed here: a sample is in docs/claims-measured.md, hand-checked."""
    import gzip

    from ktxkit.claims.rules import verdicts
    from ktxkit.ledger import answers

    logs = sorted(Path("/usr/share/doc").glob("*/changelog*.gz"))
    if not logs:
        pytest.skip("no changelogs are installed here")
    rules, texts, claimed = answers.load(), 0, []
    for log in logs if FULL else logs[::25]:
        content = gzip.decompress(log.read_bytes()).decode("utf-8", "replace")
        for paragraph in list(dict.fromkeys(content.split("\n\n")))[: None if FULL else 400]:
            texts += 1
            if len(paragraph) < 100_000:
                claimed += [
                    claim.text
                    for claim in verdicts.claims_in("subject\n\n" + paragraph, rules)
                    if claim.kind != "attribute"
                ]
    assert len(claimed) <= max(50, texts / 500), claimed[:50]


def test_any_text_is_judged_from_standard_input(suite: Suite) -> None:
    """An agent's answer, say: held against the same ledger and the same content as a commit's message."""
    suite.run()
    text = b"Done. All tests pass.\n"
    assert spawn("gate-check", "--message", "-", cwd=suite.repo.path, stdin=text).status == 0
    suite.repo.write("lib.py", "x = 2\n")
    judged = spawn("gate-check", "--message", "-", cwd=suite.repo.path, stdin=text)
    assert judged.status == 1 and "claim-stale" in judged.out
    assert spawn("gate-check", "--message", "-", cwd=suite.repo.path, stdin=b"Done: \xff\n").status == 0


SLOW = {
    "pytest.ini": "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n",
    "test_m.py": "import pytest\ndef test_a(): pass\n@pytest.mark.slow\ndef test_slow(): assert 0\n",
    "tests/test_p.py": "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_p(n): pass\n"
    "def test_k(): pytest.skip('net')\n",
}
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TRUE = [
    "All tests pass", f"All tests pass on Python {HERE}", "Make sure tests pass (they do)", "Fix test_slow",
    "All tests pass in CI and locally",
    "All tests pass on top of main", "3 tests, 3 passes", "test_a passes", "test_p passes", "tests/test_p.py passes",
    "test_m passes", "./test_m.py passes", "Tests pass locally, including the new ones",
]  # fmt: skip
LIES = {
    "All tests pass, including the slow ones": "not slow",
    "All tests pass, including the net ones": "net",
    "All tests pass on Python 3.2": f"CPython {HERE}",
    "All tests pass with -n 2": "0 workers",
    "All tests pass, none skipped": "1 skipped",
    "test_slow passes": "no test of that name",
    "test_a and test_slow pass": "no test of that name",
    "test_p[3] passes": "no test of that name",
    "tests/test_nonexistent.py passes": "no module of that name",
    "6 tests, 6 passes": "3 passed",
}


def test_by_hand_in_the_hook_and_from_an_agent_the_same(suite: Suite) -> None:
    """What qualifies a claim, and what never ran, is judged alike whoever asks."""
    for name, content in SLOW.items():
        suite.repo.write(name, content)
    suite.repo.commit()
    assert suite.run("--strict-markers").status == 0
    for number, message in enumerate(TRUE + [*LIES]):
        text = f"Change\n\n{message}.\n"
        (suite.repo.path.parent / "message").write_text(text)
        ways = [call("gate-check", "--message", suite.repo.path.parent / "message", cwd=suite.repo.path)]
        if number % 6 == 0:
            ways.append(spawn("gate-check", "--message", "-", cwd=suite.repo.path, stdin=text.encode()))
        if FULL or number % 4 == 0:
            done = commit(suite, text)
            ways.append(Ran(done.returncode, done.stdout + done.stderr, ""))
        said = [ran.out for ran in ways]
        assert {ran.status for ran in ways} == {int(message in LIES)}, (message, said)
        assert all(LIES.get(message, "") in one for one in said), (message, said)


@pytest.mark.parametrize(
    "part",
    [
        "with ",
        "All tests pass on ",
        "on Linux and ",
        "including the ",
        "9 tests, ",
        "every all tests pass with a b c d e ",
    ],
)
def test_a_long_sentence_takes_no_time(part: str) -> None:
    from ktxkit.claims.rules import verdicts
    from ktxkit.ledger import answers

    rules = answers.load()
    began = time.process_time()
    list(verdicts.claims_in(part * (4000 // len(part)), rules))
    list(verdicts.claims_in(part * (20_000 // len(part)), rules))
    assert time.process_time() - began < 5
