"""Every kind of breaking change: the tests that break are selected, by the core and by the command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ktxkit.affected.running import covers
from tests.affected.deciding import decided
from tests.affected.kinds import KINDS, SEVENTEEN, USES, Kind
from tests.support.commands import call
from tests.support.repos import Repo
from tests.support.suites import OFF

each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """All projects side by side, committed."""
    made = Repo.init(tmp_path_factory.mktemp("kinds") / "repo")
    made.write("pytest.ini", "[pytest]\n")
    made.write(".gitignore", "__pycache__\n")
    for kind in KINDS:
        for path, text in kind.before.items():
            made.write(f"{kind.name}/{path}", text)
    for name, value in {"name": "A", "email": "a@example.invalid"}.items():
        made.git("config", f"user.{name}", value)
    made.commit()
    return made


def put(repo: Repo, kind: Kind) -> None:
    for path, text in kind.change.items():
        if text is None:
            (repo.path / kind.name / path).unlink()
        else:
            repo.write(f"{kind.name}/{path}", text)


def outcomes(repo: Repo) -> set[str]:
    """The node ids that do not pass, as a real pytest has them; a file that is not collected stands for its tests.

    What the suites' own programs end with is no status of an interpreter that failed (1): such a run counts as broken.
    """
    off = [word for name in (*OFF, "ktxkit", "cacheprovider") for word in ("-p", f"no:{name}")]
    argv = [sys.executable, "-m", "pytest", *off, "-q", "--continue-on-collection-errors", "-rfE", "--tb=no"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # its children's too: no run sees another's compiled file
    done = subprocess.run(argv, cwd=repo.path, env=env, capture_output=True, text=True, check=False)
    lines = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return {line.partition("[")[0] for line in lines}


def test_there_are_seventeen_and_the_hard_ones() -> None:
    assert len(SEVENTEEN) == 17 and len({kind.name for kind in KINDS}) == len(KINDS)


def test_they_do_break(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the changes everything passes; after them exactly what each kind says breaks."""
    assert outcomes(repo) == set()
    for kind in KINDS:
        put(repo, kind)
        for name, value in kind.environment.items():
            monkeypatch.setenv(name, value)
    broken = outcomes(repo)
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd", "-e", ".ktx")
    for kind in KINDS:
        for test in kind.breaks:
            assert any(covers(one, f"{kind.name}/{test}") for one in broken), (kind.name, broken)


@each
def test_the_command_selects_what_breaks(repo: Repo, kind: Kind) -> None:
    put(repo, kind)
    differing = [word for name in kind.environment for word in ("--environment", name)]
    ran = call("test-select", "--json", *differing, cwd=repo.path)
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-qfd", "-e", ".ktx")
    assert ran.status == 0, ran.out
    picked = [one["id"] for one in ran.document["tests"]]
    for test in kind.breaks:
        assert any(covers(one, f"{kind.name}/{test}") for one in picked), (kind.name, picked)


def test_what_a_traced_run_saw_in_what_is_reached_is_reached() -> None:
    """Reading does not see who runs `g`; the run saw a test in it that its class takes over, and one that is made."""
    files = {
        "m.py": "def f(): return 1\n",
        "g.py": "from m import f\nclass Base: pass\ndef g(): return f()\n",
        "test_a.py": "from g import Base\nclass TestA(Base): pass\ndef test_o(): pass\n",
        "test_b.py": "def test_p(): pass\n",
    }
    seen = {("g.py", "g"): [(("test_a.py", "TestA.test_x"), "ran it"), (("test_b.py", "made_by_a_hook"), "ran it")]}
    made = decided(files, {**files, "m.py": "def f(): return 2\n"}, ran=lambda unit: seen.get(unit, ()))
    assert [one.id for one in made.tests] == ["test_a.py::TestA", "test_b.py"]
    assert not decided(files, {**files, "m.py": "def f(): return 2\n"}).tests


@pytest.mark.parametrize("kind", [*KINDS, *USES], ids=lambda kind: kind.name)
def test_the_core_selects_what_breaks_and_leaves_out_what_cannot(kind: Kind) -> None:
    made = decided(kind.before, kind.after, kind.environment)
    picked = [one.id for one in made.tests]
    assert all(any(covers(one, test) for one in picked) for test in kind.breaks), picked
    assert not [test for test in kind.keeps if any(covers(one, test) for one in picked)], picked
    for one in made.tests:
        assert one.chain or one.why, "each has its reason"
