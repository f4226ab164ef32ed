"""Every command line of the documentation that no session plays is run here, in a repository that has what it names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.test_pages import PAGES, command_lines, name, ours
from tests.support.commands import Ran, call, spawn
from tests.support.console import blocks, steps
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
FILLED = {
    "JOB": "j1", "$job": "j1", "nightly": "j1", "KEY": "orders", "FILE": "page.txt", "REMOTE": "origin", "CHILD": ".",
    "DIR": ".", "PATCH": "a.patch", "REV": "HEAD", "OID": "HEAD", "NAME": "main", "P": "wiki/", "TEXT": "Land it",
    "ENTRY": "j1", "PATH": "page.txt", "BRANCH": "again",
}  # fmt: skip
# What cannot come to a good end here, with what it says instead.
ELSEWHERE = {
    "https://metabase.example": "METABASE",  # a server that is none, and no credentials for it
    "target/manifest.json": "no such",  # of a dbt project
    "$CI_MERGE_REQUEST_DIFF_BASE_SHA": "no commit or tree",  # a runner's: tests/docs/test_ci_recipes.py
    "exports/metabase": "no such",
    "handed-over": "there is no ledger",  # of another job of a pipeline
    ".ktx-of-the-tests": "there is no ledger",
    "target/surefire-reports/TEST-*.xml": "no such",
}
LONG = ("test-run", "job-run")  # they start pytest or a job: in the long form
ENDS = {0, 1, 3, 4}


def unplayed() -> list[tuple[str, list[str]]]:
    found: dict[str, tuple[str, list[str]]] = {}
    for page in PAGES:
        played = {step.command for block in blocks(page.read_text("utf-8")) for step in steps(block)}
        for _, line in command_lines(page):
            if line.strip() not in played:
                found |= {" ".join(words): (name(page), words) for words in ours(line)}
    return list(found.values())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A page, a unit `orders` of a job j1 with its worktree, a job file, tests, JUnit XML, a Makefile, a remote."""
    repo = Repo.init(tmp_path_factory.mktemp("lines") / "repo")
    repo.write("wiki/global/page.md", "---\ntitle: Page\nsummary: A page.\n---\n\n# Page\n")
    repo.write("page.txt", "Nothing is claimed here.\n")
    repo.commit("first")
    repo.write("Makefile", "test check:\n\t@true\n")
    repo.write("build/report.xml", '<testsuite><testcase classname="t" name="a" time="0.1"/></testsuite>')
    repo.write("tests/test_a.py", "def test_x(): pass\n")
    repo.write("tests/test_shop.py", "def test_total(): pass\n")
    repo.write("tests/unit/test_b.py", "def test_y(): pass\n")
    for script in ("agent", "agent.sh", "codemod-b", "codemods/one.sh"):
        repo.write(script, "#!/bin/sh\necho $KTX_UNIT > made.$KTX_UNIT\n").chmod(0o755)
    repo.write(
        "nightly.yaml",
        "schemaVersion: 1\nconnectionId: c\nsourceKey: s\nunits: [{key: a, run: 'echo a > wiki/a.md'}]\n",
    )
    repo.commit("second")
    repo.write("wiki/global/other.md", "---\ntitle: Other\nsummary: Another page.\n---\n\n# Other\n")
    repo.git("add", "-N", ".")
    (repo.path / "a.patch").write_text(repo.git("diff", "--binary", "--full-index") + "\n")
    repo.git("rm", "-q", "--cached", "wiki/global/other.md")
    (repo.path / "wiki/global/other.md").unlink()
    repo.git("update-ref", "refs/remotes/origin/main", "HEAD~1")
    opened = call("worktree-open", "--job", "j1", "--unit", "orders", cwd=repo.path)
    (Path(opened.out.strip()) / "new.md").write_text("new\n")
    repo.git("update-ref", "refs/ktx/attic/j1/0001-orders/1-abc", "HEAD")
    opened = call("worktree-open", "topic", cwd=repo.path)
    topic = Repo(Path(opened.out.strip()))
    topic.write("topic.txt", "topic\n")
    topic.commit("A topic")
    repo.git("branch", "release")
    repo.git("config", "ktx.project", "example.org/p")
    return repo


def run(place: Repo, words: list[str]) -> Ran:
    words = ["night" if word == "$job" and words[0] == "job-run" else FILLED.get(word, word) for word in words]
    if words[0] == "worktree-watch" and "--once" not in words:
        words += ["--for", "0"]
    inside = words[0] in ("worktree-watch", "trace-append") and "--job" not in words
    (tree,) = (place.path / ".ktx/worktrees/j1").glob("*-orders") if inside else (place.path,)
    apart = {"--", "--stdin", "--pushed", "-C"} & set(words)  # it has a command, an input or a directory of its own
    return (spawn if apart else call)(words[0], *words[1:], cwd=tree)


def _named(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " ".join(value)[:60]


@pytest.mark.parametrize(("page", "words"), unplayed(), ids=_named)
def test_a_line_runs(place: Repo, page: str, words: list[str]) -> None:
    if (words[0] in LONG or words[:2] == ["git-ktx", "run"]) and not FULL:
        pytest.skip("starts pytest or a job: make test-full")
    done = run(place, words)
    assert "Traceback" not in done.err, done.err
    said = [text for what, text in ELSEWHERE.items() if what in words]
    if said:
        assert done.status == 2 and said[0] in done.err, done
    else:
        assert done.status in ENDS, (page, words, done)
