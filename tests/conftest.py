"""Every test is hermetic: own HOME and XDG, no user or system git configuration, identity and dates set, no editor."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import endings
from tests.support.cleaned import check, is_wanted
from tests.support.install import wrong_install
from tests.support.repos import Repo

HOME = Path.home()
PIP_CACHE = os.environ.get("PIP_CACHE_DIR") or str(Path(os.environ.get("XDG_CACHE_HOME") or HOME / ".cache", "pip"))

CLEAN_ALL = "1" in (os.environ.get("KTX_TEST_FULL"), os.environ.get("KTX_TEST_CLEANED"))  # tests see no KTX_ variable

# A commit that looks whether to collect garbage takes half as long again.
GIT_CONFIG = '[init]\n\tdefaultBranch = main\n[protocol "file"]\n\tallow = always\n[maintenance]\n\tauto = false\n'

hypothesis.settings.register_profile("untimed", deadline=None)  # a machine that is busy fails no test
hypothesis.settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    problem = wrong_install()
    if problem:
        raise pytest.UsageError(problem)
    config.pluginmanager.register(endings, "endings")


def pytest_collection_finish() -> None:
    """What was collected stays: no collection of garbage looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def hermetic(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean environment, for us and for every child. Returns the HOME."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        # MAKE...: under `make test` a make of a test's own would say which directory it enters. PYTHON...: where no
        # bytecode is written every command compiles what it imports, and a test takes twice its time
        unwanted = name.startswith(("GIT_", "KTX_", "XDG_", "MAKE", "MFLAGS", "PYTHON"))
        if unwanted and name not in ("PYTHONPATH", "PYTHONHOME"):
            monkeypatch.delenv(name)
    config = home / ".gitconfig"
    config.write_text(GIT_CONFIG)
    settings = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Author",
        "GIT_AUTHOR_EMAIL": "author@example.invalid",
        "GIT_COMMITTER_NAME": "Committer",
        "GIT_COMMITTER_EMAIL": "committer@example.invalid",
        "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
        "GIT_EDITOR": "false",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "NO_COLOR": "1",
        "PIP_CACHE_DIR": PIP_CACHE,  # of the user: what one environment downloaded the next one need not
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    # A command that forgot -C or KTX_DIR must not find this project's own repository and write into it.
    trap = tmp_path_factory.mktemp("nowhere")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(trap.parent))
    monkeypatch.chdir(trap)
    return home


@pytest.fixture(autouse=True)
def cleaned(request: pytest.FixtureRequest, hermetic: Path) -> Iterator[None]:
    """Clean removes no work, whatever a test made of its jobs: after every one in the full suite, else of some."""
    wanted = is_wanted(request.node.nodeid, CLEAN_ALL)
    place = request.getfixturevalue("tmp_path") if wanted and "tmp_path" in request.fixturenames else None
    yield
    if place is not None and place.is_dir():
        request.node.user_properties += [("cleaned", count)] if (count := check(place)) else []


@pytest.fixture(scope="session")
def repo_template(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Made in the first test that copies it, whose environment is a clean one."""
    place = tmp_path_factory.mktemp("template") / "repo"

    def made() -> Path:
        if not place.exists():
            template = Repo.init(place)
            template.write("README", "a repository\n")
            template.commit("first")
        return place

    return made


@pytest.fixture
def repo(tmp_path: Path, repo_template: Callable[[], Path]) -> Repo:
    """A repository with one commit on main."""
    made = Repo(shutil.copytree(repo_template(), tmp_path / "repo", symlinks=True))
    made.git("update-index", "-q", "--refresh")
    return made
