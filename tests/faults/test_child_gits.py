"""A git of ours that is killed or fails is nobody's verdict: the job ends in a state that `--resume` continues, and the
same inputs land the same tree. Every git that a job starts is tried in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import sandbox
from tests.faults.test_job_run_faults import DOCUMENT as JOB
from tests.faults.test_job_run_faults import scenario
from tests.support.commands import Ran, spawn
from tests.support.faults import FULL, run_failing, spread
from tests.support.jobs import job_file, outcomes, unit
from tests.support.recovering import REFUSES, put, template_of
from tests.support.repos import Repo
from tests.support.wrapped_git import FATES, WrappedGit

DOCUMENT: dict[str, Any] = {
    "maxParallel": 1,
    "verify": {"run": "test -e README"},
    "units": [
        unit("one", "echo 1 > one; git add one; git commit -qm one"),
        unit("clash", "echo 2 > one"),
        unit("two", "echo 2 > two; rm README.old", after=["one"]),
    ],
}
WANTED = {"one": "accepted", "clash": "textual_conflict", "two": "accepted"}
UNDISTURBED: dict[bytes, tuple[int, str]] = {}  # by the job file
UNDECIDED = {"skipped", "interrupted", "pending", "open", "finished", "collected"}


class Place:
    """A repository with a job file, put back before each trial."""

    def __init__(self, tmp_path: Path, document: dict[str, Any]) -> None:
        self.repo = Repo.init(tmp_path / "place" / "repo")
        self.repo.write("README", "a repository\n")
        self.repo.write("README.old", "of old\n")
        self.repo.commit("first")
        self.file = job_file(self.repo, document)
        self.git = WrappedGit(tmp_path / "git")
        self.template = template_of(self.repo, tmp_path / "aside")

    def run(self, n: int, fate: str) -> Ran:
        put(self.template, self.repo.path.parent, self.repo.path.parent)
        self.git.prepare(n, fate)
        return spawn("job-run", "--job", "j1", self.file, "-q", cwd=self.repo.path, env=self.git.env)

    def again(self) -> Ran:
        """What a person does then: resume, or start where nothing had begun."""
        begun = (self.repo.path / ".ktx/jobs/j1/job.json").exists()
        args = ("--resume", "j1") if begun else ("--job", "j1", self.file)
        return spawn("job-run", *args, "-q", cwd=self.repo.path)

    def landed(self) -> bool:
        return (self.repo.path / ".ktx/jobs/j1/landing.json").exists()

    def blamed(self) -> dict[str, str]:
        """Units with another outcome than they have undisturbed."""
        if not (self.repo.path / ".ktx/jobs/j1/report.json").exists():
            return {}
        found = outcomes(self.repo).items()
        return {key: word for key, word in found if word not in (WANTED[key], *UNDECIDED)}


@pytest.mark.parametrize("fate", FATES)
def test_any_git_of_a_job(tmp_path: Path, fate: str, record_property: Callable[[str, object], None]) -> None:
    tried(Place(tmp_path, DOCUMENT), fate, record_property)


@pytest.mark.skipif(sandbox.landlock_version() < sandbox.LEAST, reason="this kernel has no Landlock")
@pytest.mark.parametrize("fate", ["killed at its end", "failed"])
def test_any_git_of_a_job_whose_units_are_isolated(
    tmp_path: Path, fate: str, record_property: Callable[[str, object], None]
) -> None:
    one, *others = DOCUMENT["units"]
    packed = {**one, "run": f"{one['run']}; git repack -qadf"}
    document = {**DOCUMENT, "isolate": True, "units": [packed, *others]}
    tried(Place(tmp_path, document), fate, record_property)


def undisturbed(place: Place) -> tuple[int, str]:
    """How many gits the job starts, and the tree it lands: for every fate the same."""
    key = place.file.read_bytes()
    if key not in UNDISTURBED:
        first = place.run(-1, "failed")
        assert (first.status, outcomes(place.repo)) == (3, WANTED), first
        UNDISTURBED[key] = len(place.git.started()), place.repo.tree
    return UNDISTURBED[key]


def tried(place: Place, fate: str, record_property: Callable[[str, object], None]) -> None:
    """Each git of the job meets the fate in turn (in the short suite one, of another part of the job for each fate)."""
    count, tree = undisturbed(place)
    wrong = []
    turn = (2 * [*FATES].index(fate) + 1) * count // (2 * len(FATES))
    for n in range(count) if FULL else [turn]:
        ran = place.run(n, fate)
        what = f"{fate}: {n} of {count}, git {' '.join(place.git.started()[n : n + 1])[:150]}"
        if blamed := place.blamed():
            wrong.append(f"{what}: blamed {blamed}, {_end(ran)}")
        if not place.landed():
            again = place.again()
            if again.status != 3:
                wrong.append(f"{what}: ended {_end(ran)}, and then {_end(again)}")
        if place.repo.tree != tree or place.blamed():
            wrong.append(f"{what}: landed {place.repo.tree}, blamed {place.blamed()}, {_end(ran)}")
        locks = [path.name for path in (place.repo.path / ".git").rglob("*.lock")]
        if locks or place.repo.git("status", "--porcelain"):
            wrong.append(f"{what}: left {locks}, {place.repo.git('status', '--porcelain')}")
    record_property("gits", f"{fate}: {count}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("error", ["EMFILE", "ENOMEM", "ENOSPC"])
def test_what_the_machine_refuses_is_no_verdict(tmp_path: Path, error: str) -> None:
    """No descriptor, memory or space for us once (space: from then on): no unit is blamed, and the rest is as ever."""
    it = scenario(tmp_path, JOB)
    effects = it.effects()
    undisturbed, wanted, wrong = it.state(), outcomes(it.repo), []
    hit = [n for n, effect in enumerate(effects) if effect.startswith(REFUSES[error])]
    for n in (hit[k] for k in spread(hit, 5)):
        it.reset()
        ran = run_failing(it.command, it.args, it.repo.path, n, error)
        if (it.repo.path / ".ktx/jobs/j1/report.json").exists():
            found = {key: word for key, word in outcomes(it.repo).items() if word not in (wanted[key], *UNDECIDED)}
            wrong += [f"{n} ({effects[n]}): blamed {found}, {_end(ran)}"] if found else []
        it.must_end_well(f"{error} at {n} ({effects[n]}), which said {ran}", undisturbed)
    assert not wrong, "\n".join(wrong)


def _end(ran: Ran) -> str:
    said = [line.strip() for line in f"{ran.out}\n{ran.err}".splitlines() if "failed at" in line or "hint" in line]
    return f"status {ran.status} {said} {ran.err[:300]}"
