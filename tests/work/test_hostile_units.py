"""A table of hostile and careless units, each beside a good one, without `isolate` and with it.

For each: how it ends; that the good one lands what it would have landed alone; that target, checkout, home and all that
is outside are as they were; and that what happened is named. `knows` says what a unit with the user's own rights can do
where nothing isolates it (`docs/guarantees-units.md`): there, that part is not asked without `isolate`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import sandbox
from tests.support.commands import spawn
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
TABLE: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "cases/hostile_units.json").read_text("utf-8")
)
CASES = [(f"{family}: {case['name']}", case) for family, cases in TABLE.items() for case in cases]
MODES = ("plain", "isolated") if sandbox.landlock_version() >= sandbox.LEAST else ("plain",)
RUNS = [(name, mode, case) for name, case in CASES for mode in MODES]
EVERY = 1 if FULL else 23  # in the short form: some of each mode, since it is odd
GOOD = """touch $S/began; for i in $(seq 400); do test -e $S/done && break; sleep 0.05; done
echo g > g; git add g; git commit -qm g"""
EVIL = """echo e > e; for i in $(seq 400); do test -e $S/began && break; sleep 0.05; done
( %s
) ; sleep %s; touch $S/done; sleep 0.3"""


def test_the_table_is_whole() -> None:
    assert len(CASES) >= 120
    assert len({name for name, _ in CASES}) == len(CASES)
    for name, case in CASES:
        assert case.keys() <= {"name", "run", "named", "knows", "plain", "isolated"}, name
        assert {"plain", "isolated"} <= case.keys(), name


def world(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            found[str(path.relative_to(top))] = (mode, path.read_bytes() if path.is_file() else b"")
    return found


def rules_of_git(repo: Repo) -> dict[str, str]:
    """What says what git does in the repository, and its refs but for ours and the target's."""
    common = repo.path / ".git"
    names = [
        "info/exclude",
        "info/attributes",
        "info/grafts",
        "shallow",
        "objects/info/alternates",
        "commondir",
        "HEAD",
    ]
    found = {name: (common / name).read_text() for name in names if (common / name).exists()}
    found |= {name.name: name.read_text() for name in (common / "hooks").glob("*") if name.suffix != ".sample"}
    listed = repo.git("config", "--local", "--list").splitlines()
    found["config"] = "\n".join(line for line in listed if line != "extensions.worktreeconfig=true")
    refs = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    found["refs"] = "\n".join(ref for ref in refs if not ref.startswith(("refs/ktx/", "refs/heads/main ")))
    return found


@pytest.mark.parametrize(
    ("mode", "case"),
    [pytest.param(mode, case, id=f"{name} ({mode})") for name, mode, case in RUNS[::EVERY]],
)
def test_a_hostile_unit(repo: Repo, hermetic: Path, tmp_path: Path, mode: str, case: dict[str, Any]) -> None:
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    outside.mkdir()
    shared.mkdir()
    (outside / "notes").write_text("years of work")
    repo.git("branch", "keep")
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/exclude").write_text("# mine\n.ktx/\n")
    (repo.path / ".ktx/jobs/j0").mkdir(parents=True)
    before, rules, head = (world(outside), world(hermetic)), rules_of_git(repo), repo.head
    env = {
        "R": str(repo.path),
        "O": str(outside),
        "S": str(shared),
        "W": str(repo.path / ".ktx/worktrees/j1/0002-good"),
    }
    document: dict[str, Any] = {"maxParallel": 2, "env": env}
    document |= {"isolate": {"write": [str(shared)]}} if mode == "isolated" else {}
    pause = 4 if ".lock" in case["run"] else 1  # seconds: what a unit did is put back by then
    units = [unit("evil", EVIL % (case["run"], pause), timeLimit=60), unit("good", GOOD, timeLimit=60)]
    ran = spawn("job-run", job_file(repo, {**document, "units": units}), "--job", "j1", "--json", cwd=repo.path)
    assert ("Traceback" not in ran.err and ran.status in (0, 1, 3, 4, 5)) or ran.status == 2, ran
    knows = case.get("knows", "").split() if mode == "plain" else []
    told = json.loads(ran.out)
    ended = {entry["key"]: entry["outcome"] for entry in (told.get("document") or {}).get("workUnits", ())}
    assert ended.get("evil") == case[mode], ran
    if mode == "plain":
        assert case.get("named", "") in ran.out + ran.err, ran
    if "outside" not in knows:
        assert (world(outside), world(hermetic)) == before
    if "job" in knows:
        return
    if "refs" not in knows:
        assert rules_of_git(repo) == rules
    if "sibling" not in knows:
        listed = repo.git("ls-tree", "-r", "--name-only", "-z", "main").split("\0")
        alone = [name for name in listed if name and not name.startswith(("e", ".git", "git~1"))]
        assert ended["good"] == "accepted" and alone == ["README", "g"] and repo.show("main", "g") == b"g\n", ran
        assert repo.show("main", "README") == repo.show(head, "README")
    assert repo.git("merge-base", head, "main") == head
    if "checkout" not in knows:
        assert repo.git("status", "--porcelain") == ""
        assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
