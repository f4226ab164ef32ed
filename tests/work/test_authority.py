"""What decides is never read from where the judged can write, and damage in one unit's folder is that unit's alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.store.active import ActiveJob, Unit
from ktxkit.work import collect, integrate
from tests.support.commands import call, spawn
from tests.support.jobs import job_file, outcomes, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
FOLDER = '"$(dirname "$KTX_LEASE")"'
REWRITE = """import json, os, sys
path, changes = os.environ["KTX_LEASE"], json.loads(sys.argv[1])
if sys.argv[2:]:
    path = os.path.join(os.environ["KTX_DIR"], "jobs", os.environ["KTX_JOB"], sys.argv[2])
document = json.load(open(path))
for key, value in changes.items():
    document.pop(key, None)
    if value is not None:
        document[key] = value
json.dump(document, open(path, "w"))
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.init(tmp_path / "repo")
    made.write("README", "a repository\n")
    made.write("rewrite.py", REWRITE)
    made.commit("first")
    made.git("branch", "other")
    made.write("secret", "of another branch")
    made.commit("evil")
    made.git("branch", "evil")
    made.git("reset", "-q", "--hard", "other")
    return made


def rewritten(changes: dict[str, Any], document: str = "") -> str:
    return f"python3 rewrite.py '{json.dumps(changes)}' {document}"


def run(repo: Repo, document: dict[str, Any]) -> dict[str, str]:
    ran = call("job-run", str(job_file(repo, {"target": "main", **document})), "--job", "j1", cwd=repo.path)
    assert "Traceback" not in ran.err, ran.err
    return outcomes(repo)


LEASES = {
    "another policy": rewritten({"policy": {"allow": ["**"]}}),
    "no policy": rewritten({"policy": None, "policyDigest": None}),
    "another base": rewritten({"base": "f" * 40}),
    "another unit": rewritten({"unitKey": "good", "position": 1}),
    "another place": rewritten({"path": "/tmp"}),
    "gone": 'rm "$KTX_LEASE"',
    "cut off": 'echo "{" > "$KTX_LEASE"',
    "a directory": 'rm "$KTX_LEASE"; mkdir "$KTX_LEASE"',
    "its folder is gone": f"rm -r {FOLDER}",
}


def test_a_lease_that_says_otherwise_is_its_units_end(repo: Repo) -> None:
    units = [unit("good", "mkdir -p wiki; echo g > wiki/g", allow=["wiki/**"])]
    units += [unit(how, f"echo e > forbidden; {change}", allow=["wiki/**"]) for how, change in LEASES.items()]
    assert run(repo, {"units": units}) == {"good": "accepted", **dict.fromkeys(LEASES, "broken_contract")}
    assert repo.git("ls-tree", "-r", "--name-only", "main").split() == ["README", "rewrite.py", "wiki/g"]


KINDS = {
    "an empty document": "echo {{}} > {}",
    "no json": "head -c 9 /dev/zero > {}",
    "a directory": "mkdir {}",
    "a pipe": "mkfifo {}",
    "a link": "ln -s /etc/passwd {}",
    "a link to nothing": "ln -s nothing {}",
}


DOCUMENTS = ("receipt", "patch", "intent", "sentinel", "verdict", "result")


@pytest.mark.parametrize("kind", KINDS)
def test_damage_in_one_units_folder_is_that_units(repo: Repo, kind: str) -> None:
    units = [unit("good", "echo g > g")]
    for name in DOCUMENTS:
        units.append(unit(name, f"echo e > {name}; {KINDS[kind].format(f'{FOLDER}/{name}.json')}"))
    assert run(repo, {"units": units}) == {"good": "accepted", **dict.fromkeys(DOCUMENTS, "broken_contract")}
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "g", "rewrite.py"]
    kept = [path.name for path in (repo.path / ".ktx/quarantine/j1").glob("documents-*/*")]
    assert {name for name in DOCUMENTS if not any(name in one for one in kept)} == set(), "what was there is kept"


def test_a_patch_that_is_a_directory_is_put_aside(repo: Repo) -> None:
    place = '"$KTX_DIR/ingest-patches/j1/0002-evil.patch"'
    units = [unit("good", "echo g > g"), unit("evil", f"echo e > e; mkdir -p {place}")]
    assert run(repo, {"maxParallel": 1, "units": units}) == {"good": "accepted", "evil": "broken_contract"}


def test_damage_done_to_a_sibling_is_not_the_siblings(repo: Repo) -> None:
    """The later unit writes over the documents of the one that has been accepted, and lands nothing of it lost."""
    good = "$KTX_DIR/jobs/j1/units/0001-good"
    units = [
        unit("good", "echo g > g"),
        unit("evil", f"echo e > e; echo {{}} > {good}/receipt.json", after=["good"]),
    ]
    assert run(repo, {"units": units})["good"] == "accepted"
    assert repo.git("show", "main:g") == "g"
    receipt = json.loads((repo.path / ".ktx/jobs/j1/units/0001-good/receipt.json").read_text())
    assert receipt["outcome"] == "accepted"


@pytest.mark.parametrize("outcome", ["accepted", "subsumed", "noop"])
def test_a_receipt_that_a_unit_writes_itself_decides_nothing(repo: Repo, outcome: str) -> None:
    """Else a unit that was never gated nor verified would be on record as integrated."""
    forged = {
        "schemaVersion": 1, "kind": "receipt", "jobId": "j1", "unitKey": "sly", "position": 1, "attempt": 1,
        "outcome": outcome, "at": "2026-01-01T00:00:00.000000Z", "integrationRef": "refs/ktx/jobs/j1/integration",
        "before": "0" * 40, "patchTree": "0" * 40, "nonce": "0" * 32, "conflicts": [], "findings": [], "paths": [],
        "durationMs": 1,
    }  # fmt: skip
    if outcome == "accepted":
        forged |= {"after": "1" * 40, "commit": "1" * 40, "tree": "1" * 40}
    repo.write("forged.json", json.dumps(forged))
    repo.commit("a receipt to copy")
    units = [unit("sly", f"echo e > e; cp forged.json {FOLDER}/receipt.json"), unit("good", "echo g > g")]
    run(repo, {"verify": {"run": "test ! -e e"}, "units": units})
    assert repo.git("ls-tree", "-r", "--name-only", "main").split() == ["README", "forged.json", "g", "rewrite.py"]


JOBS = {
    "another target": rewritten({"target": "refs/heads/other"}, "job.json"),
    "another job file": rewritten({"jobFileDigest": None}, "job.json"),
    "no units": rewritten({"units": []}, "job.json"),
    "cut off": 'echo "{" > "$KTX_DIR/jobs/j1/job.json"',
    "gone": 'rm "$KTX_DIR/jobs/j1/job.json"',
}


@pytest.mark.parametrize("how", JOBS)
def test_the_running_job_holds_what_it_was_begun_with(repo: Repo, how: str) -> None:
    other = repo.git("rev-parse", "other")
    units = [unit("good", "echo g > g"), unit("sly", f"echo s > s; {JOBS[how]}")]
    assert run(repo, {"verify": {"run": "test ! -e s"}, "units": units})["good"] == "accepted"
    assert repo.git("show", "main:g") == "g"
    assert "s" not in repo.git("ls-tree", "-r", "--name-only", "main").split()
    assert repo.git("rev-parse", "other") == other
    job = json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())
    assert job["target"] == "refs/heads/main" and len(job["units"]) == 2 and "jobFileDigest" in job


FILES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "of other words": lambda file: file.write_text(file.read_text().replace("test !", "true !")),
}


@pytest.mark.parametrize("how", FILES)
def test_a_job_file_that_is_not_the_jobs_is_status_5(repo: Repo, how: str) -> None:
    """A job whose file is gone is not one that was made by hand: its verification would be forgotten."""
    units = [unit("a", "echo a > a"), unit("b", "exit 1")]
    document = {"onFailure": "abort", "maxParallel": 1, "verify": {"run": "test ! -e evil"}, "units": units}
    run(repo, document)
    file = repo.path / ".ktx/jobs/j1/job-file.json"
    FILES[how](file)
    repo.write("evil", "moved")
    repo.commit("the target moves")
    before = repo.git("rev-parse", "main")
    for command in (("job-land", "--job", "j1", "--rebase"), ("job-run", "--resume", "j1")):
        ran = spawn(*command, cwd=repo.path)
        assert ran.status == 5 and str(file) in ran.err, ran.err
    assert repo.git("rev-parse", "main") == before


def test_a_document_of_another_place_is_not_believed(repo: Repo) -> None:
    for key in ("one", "two"):
        place = Path(call("worktree-open", "--job", "j", "--unit", key, "--target", "main", cwd=repo.path).out.strip())
        (place / key).write_text(key)
        for command in ("patch-collect", "patch-apply"):
            assert call(command, "--job", "j", "--unit", key, cwd=repo.path).status == 0
    units = repo.path / ".ktx/jobs/j/units"
    (units / "0002-two/receipt.json").write_bytes((units / "0001-one/receipt.json").read_bytes())
    ran = call("job-land", "--job", "j", cwd=repo.path)
    assert ran.status == 5 and "0002-two/receipt.json" in ran.err, ran.err
    assert repo.git("rev-list", "--count", "main") == "1"


def test_directories_deeper_than_any_stack_are_a_change_like_others(repo: Repo) -> None:
    """Read, listed, compared, closed and deleted without one call inside another for each directory."""
    depth = 1100 if FULL else 450
    deep = f"import os\nfor i in range({depth}):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w').write('x')\n"
    repo.write("deep.py", deep)
    repo.commit("a tool")
    units = [unit("good", "echo g > g"), unit("deep", "python3 deep.py")]
    stack = sys.getrecursionlimit()
    sys.setrecursionlimit(min(stack, depth))  # a deeper tree takes its time by the square
    try:
        assert run(repo, {"units": units}) == {"good": "accepted", "deep": "accepted"}
    finally:
        sys.setrecursionlimit(stack)
    assert repo.git("show", f"main:{'d/' * depth}x") == "x"
    assert not (repo.path / ".ktx/worktrees/j1/0002-deep").exists()
    assert not list((repo.path / ".ktx/worktrees/.trash").glob("*"))
    subprocess.run(["rm", "-rf", repo.path / "d"], check=True)  # pytest's own clearing would recurse into it


def test_objects_that_a_unit_removes_are_said_to_be_gone(repo: Repo) -> None:
    objects = repo.path / ".git/objects"
    units = [unit("a", f"find {objects} -type f -delete"), unit("b", "sleep 1; echo g > g")]
    path = job_file(repo, {"target": "main", "units": units})
    ran = spawn("job-run", str(path), "--job", "j1", cwd=repo.path)
    assert ran.status not in (0, 70) and "Error" not in ran.err, ran.err
    status = spawn("git-ktx", "status", cwd=repo.path)
    assert "Traceback" not in ran.err + status.err


PLANTED = {
    "landing.json": ("echo {} > landing.json", "mkfifo landing.json", "mkdir landing.json"),
    "landing-intent.json": ("echo {} > landing-intent.json",),
    "verification.json": ("echo {} > verification.json",),
    "verification-intent.json": ("echo {} > verification-intent.json",),
    "verifications": ("mkdir -p verifications; echo {} > verifications/0001.json",),
    "report.json": ("ln -s /etc/passwd report.json",),
    "verdict.json": ("echo x > verdict.json",),
}


def test_what_is_put_beside_the_jobs_document_counts_for_nothing_and_is_named(repo: Repo) -> None:
    where = '"$KTX_DIR/jobs/$KTX_JOB"'
    ways = [(name, how) for name, hows in PLANTED.items() for how in hows]
    units = [unit("good", "echo g > g")]
    units += [unit(f"evil {at}", f"echo e > e{at}; cd {where}; {how}") for at, (_, how) in enumerate(ways)]
    units.append(unit("last", ": > l"))
    keys = [str(one["key"]) for one in units]
    assert run(repo, {"maxParallel": 1, "units": units}) == dict.fromkeys(keys, "accepted")
    landed = repo.git("ls-tree", "--name-only", "main").split()
    assert landed == sorted(["README", "g", "l", "rewrite.py", *(f"e{at}" for at in range(len(ways)))])
    told = json.loads((repo.path / ".ktx/jobs/j1/report.json").read_text())["warnings"]
    named = [line for line in told if "was put there while units ran, and counts for nothing" in line]
    assert [name for name in PLANTED if not any(name in line for line in named)] == [], told
    kept = [path.name for path in (repo.path / ".ktx/quarantine/j1").glob("documents-*/*")]
    assert len(kept) >= len(ways), "what was there is kept"


FORGES = """import json, os, subprocess, sys
from pathlib import Path
from ktxkit.base import kinds
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.verification import Check, key_of
Path("s").write_text("s")
subprocess.run(["git", "add", "s"], check=True)
tree = subprocess.run(["git", "write-tree"], check=True, capture_output=True, text=True).stdout.strip()
world = World.here(None, None, os.environ)
verify = Check(["/bin/sh", "-c", sys.argv[1]], None, Path("."), "", "j1")
key = key_of(world, verify, tree)
now, digest = "2026-01-01T00:00:00.000Z", "b3:" + "0" * 64
run = {"argv": list(verify.argv), "status": 0, "timedOut": False, "durationMs": 1, "tree": tree,
  "commandDigest": digest, "environmentDigest": digest, "logDigest": digest, "logBytes": 0, "stateChanged": False}
world.writable_store.write(kinds.VERIFICATION, names.verified("j1", key), {"schemaVersion": 1, "kind": "verification",
  "jobId": "j1", "state": "receipt", "nonce": "0" * 32, "startedAt": now, "completedAt": now, "accepted": [],
  "integrationRef": "refs/ktx/jobs/j1/integration", "head": "0" * 40, "outcome": "done", "run": run})
"""


def test_a_pass_that_a_unit_writes_is_none(repo: Repo) -> None:
    """For exactly the tree, command and environment that its own candidate will have."""
    repo.write("forge.py", FORGES)
    repo.commit("a tool")
    verify = "test ! -e s"
    units = [unit("sly", [sys.executable, "forge.py", verify]), unit("good", "echo g > g")]
    document = {"maxParallel": 1, "verify": verify, "units": units}
    assert run(repo, document) == {"sly": "verification_failed", "good": "accepted"}
    assert len(list((repo.path / ".ktx/jobs/j1/verified").iterdir())) == 3, "its own, the base's and the good one's"
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "forge.py", "g", "rewrite.py"]


def test_how_far_a_job_has_landed_is_not_read_from_what_a_unit_can_write(repo: Repo) -> None:
    """Else the final gates and the landing would begin behind what is to be judged."""
    caught = '{"caughtUp": [{"commit": "%s", "target": "%s"}], "unitBase": "%s"}' % ((repo.head,) * 3)
    write = f"""python3 rewrite.py '{caught}' job.json"""
    assert run(repo, {"units": [unit("sly", f"echo s > s; {write}")]}) == {"sly": "accepted"}
    assert repo.git("show", "main:s") == "s"
    document = json.loads((repo.path / ".ktx/jobs/j1/job.json").read_text())
    assert document.keys() & {"caughtUp", "unitBase"} == set()


IN_THE_WINDOW: dict[str, tuple[str, dict[str, Any]]] = {
    "the lease, another policy": ("lease", {"policy": {"allow": ["**"]}}),
    "the lease, another base": ("lease", {"base": "f" * 40}),
    "the patch, another tree": ("patch", {"tree": "f" * 40}),
    "the patch, a tree that is there": ("patch", {"tree": "ANOTHER"}),
    "the patch, of another unit": ("patch", {"unitKey": "good"}),
    "the patch, other paths": ("patch", {"paths": []}),
    "the result": ("result", {"outcome": "finished", "exitStatus": 0}),
    "a receipt": ("receipt", {"outcome": "accepted"}),
}


@pytest.mark.parametrize("more", ["", "echo no > secret; "], ids=["within its policy", "beyond it"])
@pytest.mark.parametrize("step", ["collect", "integrate"])
def test_what_is_written_while_the_job_writes_decides_nothing(
    repo: Repo, step: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told of a change of a unit's documents while the job itself writes them: nor does one land anything."""
    another = repo.git("rev-parse", "evil^{tree}")
    module, name = (collect, "collect_unit") if step == "collect" else (integrate, "apply_unit")
    real = getattr(module, name)

    def change(job: ActiveJob, unit: Unit) -> None:
        document, changes = IN_THE_WINDOW[unit.key]
        path = repo.path / ".ktx" / job.unit_doc(unit, document)
        if step == "collect" or path.exists():
            known = json.loads(path.read_text()) if path.exists() else {}
            changes = {key: another if to == "ANOTHER" else to for key, to in changes.items()}
            path.write_text(json.dumps({**known, **changes}))

    def written(job: ActiveJob, unit: Unit, **options: Any) -> Any:
        if step == "integrate" and unit.key in IN_THE_WINDOW:
            change(job, unit)
        made = real(job, unit, **options)
        if step == "collect" and unit.key in IN_THE_WINDOW:
            change(job, unit)
        return made

    monkeypatch.setattr(module, name, written)
    places = {key: f"allowed{at}" for at, key in enumerate(IN_THE_WINDOW)}
    units = [unit(key, f"{more}echo b > {place}", allow=[place]) for key, place in places.items()]
    found = run(repo, {"units": [*units, unit("good", "echo g > good")]})
    lands = repo.git("diff", "--name-only", "other", "main").split()
    assert found["good"] == "accepted", found
    assert lands == sorted(["good", *(place for key, place in places.items() if found[key] == "accepted")]), found
    ends = ("policy_rejected", "broken_contract", "invalid_patch", "refused")
    assert not more or [key for key in places if found[key] not in ends] == [], found
