"""The fault harness itself: it stops where it says, and counts what there is."""

from __future__ import annotations

from tests.support.commands import Ran
from tests.support.faults import Killed, count_effects, run_killed, spread
from tests.support.repos import Repo

OPEN = ["--job", "j1", "--unit", "u1"]


def test_it_kills_at_the_effect_it_names(repo: Repo) -> None:
    before = run_killed("worktree-open", OPEN, repo.path, 0, "before")
    assert isinstance(before, Killed) and before.effect.startswith("spawn git")
    assert not (repo.path / ".ktx").exists()


def test_a_run_with_fewer_effects_ends_by_itself(repo: Repo) -> None:
    ran = run_killed("worktree-open", OPEN, repo.path, 100_000, "after")
    assert isinstance(ran, Ran) and ran.status == 0


def test_effects_are_files_and_processes(repo: Repo) -> None:
    effects = count_effects("worktree-open", OPEN, repo.path)
    assert any(effect.startswith("os.replace") and effect.endswith("lease.json") for effect in effects)
    assert any(effect.startswith("spawn git worktree add") for effect in effects)
    assert any(effect.startswith("exit git worktree add") for effect in effects)
    assert spread(effects, 5)[0] == 0 and spread(effects, 5)[-1] == len(effects) - 1


def test_torn_writes_half(repo: Repo) -> None:
    effects = count_effects("worktree-open", OPEN, repo.path)
    named = max(n for n, effect in enumerate(effects) if effect.startswith("os.replace "))
    last = max(n for n, effect in enumerate(effects[:named]) if effect == "os.write")
    other = Repo.init(repo.path.parent / "other")
    other.commit()
    assert isinstance(run_killed("worktree-open", OPEN, other.path, last, "torn"), Killed)
    torn = [path for path in (other.path / ".ktx").rglob("*.tmp") if path.stat().st_size > 0]
    assert len(torn) == 1 and not torn[0].read_text().endswith("}\n")
