"""What a unit does beside its work is contained and named: output without end, the repository's configuration, others'
worktrees and documents."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import ktxkit
from ktxkit.base import kinds, sandbox
from ktxkit.work.rules.shared_state import UNIT, unknown, unknown_of_job
from tests.support import memory
from tests.support.commands import call, script, spawn
from tests.support.jobs import job_file, outcomes, report, unit
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
MEGABYTE = 1024 * 1024
PRINTED = 1024 * MEGABYTE if FULL else 30 * MEGABYTE
LOG_LIMIT = 17 * MEGABYTE
MEMORY_LIMIT = 150 * MEGABYTE  # of job-run itself; it has 60 MB without any output


def result(repo: Repo, unit: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((repo.path / f".ktx/jobs/j1/units/{unit}/result.json").read_text())
    return loaded


def test_output_without_end_is_kept_in_bounds(repo: Repo) -> None:
    """Beginning and end are kept, what is left out is counted, and memory stays flat."""
    command = f"echo first; head -c {PRINTED} /dev/zero | tr '\\0' x; echo; echo last; echo e >&2; echo a > a.txt"
    path = job_file(repo, {"units": [unit("loud", command)]})
    peak = memory.of_command("job-run", path, "--job", "j1", cwd=repo.path)
    assert peak.status == 0
    print("max RSS", peak.own)
    assert peak.own < MEMORY_LIMIT
    log = repo.path / ".ktx/jobs/j1/units/0001-loud/stdout.log"
    kept = log.read_bytes()
    told = result(repo, "0001-loud")
    assert kept.startswith(b"first\nxxx") and kept.endswith(b"xxx\nlast\n") and len(kept) < LOG_LIMIT
    assert told["stdoutBytes"] == PRINTED + 12 and told["stderrBytes"] == 2 and "stderrCut" not in told
    assert f"[{told['stdoutCut']} bytes were left out here]".encode() in kept
    assert log.with_name("stderr.log").read_bytes() == b"e\n"
    shown = spawn("job-report", "--job", "j1", cwd=repo.path).out
    assert f"loud: {told['stdoutCut']} bytes of its stdout are not in its log" in " ".join(shown.split())


EVIL = """
config=$(git rev-parse --path-format=absolute --git-common-dir)/config
before=$(cat $config)
mkdir -p $EVIL
for hook in pre-commit post-checkout post-merge post-index-change reference-transaction; do
  printf '#!/bin/sh\\necho %s >> $EVIL/ran\\nexit 1\\n' $hook > $EVIL/$hook
  chmod +x $EVIL/$hook
done
cp $EVIL/post-merge $(dirname $config)/hooks/
git config core.hooksPath $EVIL
git config user.name Evil
git config filter.x.smudge "echo smudged >> $EVIL/ran; cat"
git config branch.mine.merge refs/heads/main
for i in $(seq 100); do test "$(git config core.hooksPath)" = .git/hooks && break; sleep 0.1; done
touch $EVIL/back
echo a > a.txt
"""
OTHER = """
while ! test -e $EVIL/back; do sleep 0.1; done
echo b > b.txt; git add b.txt; git commit -qm b
git log -1 --format=%an > $EVIL/author
"""


def test_what_a_unit_does_to_the_shared_configuration_is_put_back_and_acts_nowhere(repo: Repo, tmp_path: Path) -> None:
    """Hooks, filters and an identity are gone while the unit still runs; what git writes as people work is left."""
    evil = tmp_path / "evil"
    repo.git("config", "core.hooksPath", ".git/hooks")
    repo.git("config", "remote.origin.url", "one")
    before = (repo.path / ".git/config").read_bytes()
    document = {"maxParallel": 2, "env": {"EVIL": str(evil)}, "units": [unit("evil", EVIL), unit("other", OTHER)]}
    ran = spawn("job-run", str(job_file(repo, document)), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err + ran.out
    assert outcomes(repo) == {"evil": "accepted", "other": "accepted"}
    assert not (evil / "ran").exists(), "no hook, no filter of the unit's ran: not in another unit, not at the landing"
    assert (evil / "author").read_text() != "Evil\n"
    after = (repo.path / ".git/config").read_bytes()
    assert after.startswith(before.rstrip(b"\n")[:20]) and repo.git("config", "core.hooksPath") == ".git/hooks"
    assert repo.git("config", "branch.mine.merge") == "refs/heads/main", "what git writes while people work is left"
    assert repo.git("config", "--get-regexp", "filter|user", check=False) == ""
    assert not (repo.path / ".git/hooks/post-merge").exists()
    told = {one["what"]: one.get("putBack", False) for one in result(repo, "0001-evil")["touched"]}
    for what in ("config config: core.hookspath", "config config: user.name", "hooks post-merge"):
        assert told[what] is True, told
    assert told["config config: branch.mine.merge"] is False
    assert list((repo.path / ".ktx/quarantine/j1").glob("shared-*/post-merge")), "what was taken away is kept"
    assert "core.hookspath changed while evil or other ran; put back" in " ".join(ran.out.split())


BROKEN = {
    "no work tree": "git config core.bare true",
    "not a configuration": "echo '[' >> $config",
    "a later format": "git config core.repositoryformatversion 99",
    "gone": "rm $config",
}


def test_a_configuration_that_stops_git_is_put_back_byte_for_byte(repo: Repo) -> None:
    before = (repo.path / ".git/config").read_bytes()
    lead = "config=$(git rev-parse --path-format=absolute --git-common-dir)/config; echo a > a.txt; "
    units = [unit(f"u{n}", lead + command, after=[f"u{n - 1}"][:n]) for n, command in enumerate(BROKEN.values())]
    ran = spawn("job-run", str(job_file(repo, {"units": units})), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err + ran.out
    assert set(outcomes(repo).values()) == {"accepted", "noop"}
    assert (repo.path / ".git/config").read_bytes() == before
    assert all(any(one.get("putBack") for one in entry["touched"]) for entry in report(repo)["workUnits"])


STRAYS = """
echo l > l.txt
echo x > $KTX_DIR/top.txt
echo x > $KTX_DIR/ingest-patches/$KTX_JOB/0001-a-b.patch.old
echo x > $KTX_DIR/jobs/stray.txt
ln -s / $KTX_DIR/jobs/j9
echo x > $KTX_DIR/jobs/$KTX_JOB/extra.json
echo x > $(dirname $KTX_LEASE)/note
mkdir $KTX_DIR/jobs/$KTX_JOB/units/0077-no $KTX_DIR/worktrees/$KTX_JOB/0088-no
echo x > $KTX_DIR/../mine.txt
"""


def test_keys_that_look_alike_and_files_where_none_belong(repo: Repo) -> None:
    units = [unit(key, f"echo '{key}' > same{n}.txt") for n, key in enumerate(("a/b", "a b", "a-b", "a\u00e4b"))]
    early = unit("early", "mkdir -p ../0006-late; echo planted > ../0006-late/p.txt")
    last = unit("strays", STRAYS, after=["early"])
    document = {"units": [*units, early, unit("late", "echo > late.txt", after=["early"]), last]}
    ran = spawn("job-run", str(job_file(repo, document)), "--job", "j1", "--json", cwd=repo.path)
    assert ran.json["outcome"] == "partial"
    accepted = dict.fromkeys(("a/b", "a b", "a-b", "a\u00e4b", "strays"), "accepted")
    assert outcomes(repo) == {**accepted, "early": "noop", "late": "blocked"}
    assert [repo.show("main", f"same{n}.txt").decode().strip() for n in range(4)] == ["a/b", "a b", "a-b", "a\u00e4b"]
    told = " ".join(ran.document["warnings"])
    for name in (
        "0001-a-b.patch.old",
        "jobs/stray.txt",
        "jobs/j9",
        "j1/extra.json",
        "0007-strays/note",
        "units/0077-no",
        "j1/0088-no",
    ):
        assert f"{name} is no document of a job" in told, told
    assert len(ran.document["warnings"]) == 7
    assert {"checkout mine.txt", "store top.txt"} <= {one["what"] for one in result(repo, "0007-strays")["touched"]}
    assert (repo.path / ".ktx/worktrees/j1/0006-late/p.txt").read_text() == "planted\n", "nobody's file is removed"


def test_what_ktxkit_writes_itself_is_no_stray(repo: Repo) -> None:
    """Retries of edited orders, documents in quarantine, verifications, several landings."""
    orders = {"a": "echo a > a.txt", "b": "echo x > $(dirname $KTX_LEASE)/receipt.json; exit 1", "c": "exit 1"}

    def written() -> Path:
        units = [unit(key, order) for key, order in orders.items()]
        return job_file(repo, {"verify": {"run": ["true"]}, "units": units})

    assert call("job-run", written(), "--job", "j1", cwd=repo.path).status == 3
    for key in ("b", "c"):
        orders[key] = f"echo {key} > {key}.txt"
        call("job-run", "--resume", "j1", written(), "--failed", cwd=repo.path)
        assert call("job-verify", "--job", "j1", "--", "true", cwd=repo.path).status == 0
    assert outcomes(repo) == dict.fromkeys("abc", "accepted")
    files = {path.name for path in (repo.path / ".ktx/jobs/j1").iterdir()}
    assert {"landing-1.json", "landing-2.json", "job-file-1.json", "verifications"} <= files
    assert (repo.path / ".ktx/quarantine/j1").is_dir()
    assert "no document of a job" not in json.dumps(report(repo).get("warnings", []))
    assert "stray_files_found" not in (repo.path / ".ktx/ingest-traces/j1/trace.jsonl").read_text()


def test_every_document_that_is_named_in_the_code_is_known() -> None:
    code = "\n".join(path.read_text() for path in Path(ktxkit.__file__).parent.rglob("*.py"))
    of_job = set(re.findall(r'(?:job\.part|job_part)\((?:[\w.]+, )?f?"([^"/]+)"', code))
    assert {"landing", "landing-{number}", "job-file-{number}", "ingest-outcome"} <= of_job
    assert not unknown_of_job(f"{name.replace('{number}', '1')}.json" for name in of_job)
    of_units = set(re.findall(r'unit_doc\((?:[\w.]+, )+"([^"]+)"', code))
    assert {"lease", "result", "work-unit"} <= of_units
    locations = {str(getattr(kinds, name)) for name in re.findall(r"location\.write\(kinds\.(\w+)", code)}
    assert locations == {"opening", "lease", "sentinel"}
    assert not unknown([f"{name}.json" for name in of_units | locations], UNIT)


GONE = {
    "no-git": ("rm .git; echo x > x.txt", "the worktree's .git is gone: it is no checkout any more"),
    "no-worktree": ('rm -rf "$PWD"', "the worktree is gone"),
    "moved": ('mv "$PWD" "$PWD-else"', "the worktree is gone"),
}


def test_a_unit_that_takes_its_own_worktree_away_says_so_and_stops_no_other(repo: Repo) -> None:
    units = [unit(key, command) for key, (command, _) in GONE.items()] + [unit("well", "echo w > w.txt")]
    ran = spawn("job-run", str(job_file(repo, {"units": units})), "--job", "j1", cwd=repo.path)
    assert outcomes(repo) == {**dict.fromkeys(GONE, "failed"), "well": "accepted"}, ran
    reasons = {entry["key"]: entry["reason"] for entry in report(repo)["failedWorkUnits"]}
    assert reasons == {key: said for key, (_, said) in GONE.items()}
    assert (repo.path / ".ktx/worktrees/j1/0001-no-git/x.txt").exists(), "its files are as they were"


def test_a_unit_that_removes_the_jobs_documents_is_named(repo: Repo) -> None:
    units = [unit("a", "rm -rf $KTX_DIR/jobs; echo a > a.txt")]
    before = repo.head
    ran = spawn("job-run", str(job_file(repo, {"units": units})), "--job", "j1", cwd=repo.path)
    assert ran.status == 3 and outcomes(repo) == {"a": "broken_contract"}, ran
    assert "lease.json: the lease was gone" in report(repo)["failedWorkUnits"][0]["reason"]
    assert repo.head == before


# Each is one attempt; the unit goes on after it. What is expected: whether it can.
ATTEMPTS = {
    "its own worktree": ("echo > own.txt && mkdir d && mv own.txt d/ && ln -s d l && rm l", True),
    "commits and branches": ("git add -A && git commit -qm x && git branch mine", True),
    "a temporary file": ("echo > $(mktemp) && echo > $TMPDIR/x && rm $TMPDIR/x", True),
    "devices": ("echo > /dev/null && echo x > /dev/shm/ktx-$$ && rm /dev/shm/ktx-$$", True),
    "the trace": (f"{script('trace-append')} --phase work_unit --event own --data a=b", True),
    "a place that is named": ("echo > $EVIL/named/x", True),
    "a file beside that place": ("echo > $EVIL/x", False),
    "another's file": ("echo mine > ../0002-other/README", False),
    "a new file of another's": ("echo mine > ../0002-other/new.txt", False),
    "another's file, cut to nothing": ("truncate -s 0 ../0002-other/README", sandbox.landlock_version() < 3),
    "another's file, removed": ("rm -f ../0002-other/README", False),
    "another's file, moved here": ("mv ../0002-other/README stolen", False),
    "another's commit": ("git -C ../0002-other commit -qm x --allow-empty", False),
    "another's index": ("echo > $KTX_DIR/../.git/worktrees/0002-other/index", False),
    "a worktree to come": ("mkdir ../0003-late", False),
    "documents of the job": ("echo > $KTX_DIR/jobs/$KTX_JOB/job.json", False),
    "the user's checkout": ("echo > $KTX_DIR/../README", False),
    "its own configuration": ("git config user.name Evil", True),
    "the configuration": ("git config -f $KTX_DIR/../.git/config user.name Evil", False),
    "a stash": ("echo s > s && git add s && git stash -q && git stash pop -q", True),
    "objects of all": ("rm -f $(find $KTX_DIR/../.git/objects -type f) 2> /dev/null", False),
    "a new object of all": ("mkdir $KTX_DIR/../.git/objects/zz", False),
    "refs of all": ("git --git-dir=$KTX_DIR/../.git update-ref refs/heads/evil HEAD", False),
    "a ref removed": ("rm $KTX_DIR/../.git/refs/heads/main", False),
    "reflogs of all": ("rm -r $KTX_DIR/../.git/logs", False),
    "its registration": ("rm $KTX_DIR/../.git/worktrees/0001-evil/gitdir", False),
    "ignore rules of all": ("echo x >> $KTX_DIR/../.git/info/exclude", False),
    "locks of the store": ("rm $KTX_DIR/locks/*.lock", False),
    "a new device": ("mkdir /dev/ktx-evil", False),
    "a process of another": ("kill -0 $PPID", sandbox.landlock_version() < 6),
    "a hook": ("echo > $KTX_DIR/../.git/hooks/pre-commit", False),
    "a child of a child": ("sh -c 'setsid sh -c \"echo > ../0002-other/README\"'", False),
}


@pytest.mark.skipif(sandbox.landlock_version() < sandbox.LEAST, reason="this kernel has no Landlock")
def test_isolated_units_write_nowhere_but_where_their_work_is(repo: Repo, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    (evil / "named").mkdir(parents=True)
    repo.write("README", "as it was\n")
    repo.commit()
    lead = "while ! test -e ../0002-other/README -a -e $EVIL/named/running; do sleep 0.05; done\n"
    tried = "".join(f"( {text} ) 2>> err; echo $? >> tried\n" for text, _ in ATTEMPTS.values())
    other = "touch $EVIL/named/running; while ! test -e $EVIL/named/done; do sleep 0.05; done; cp README copy"
    units = [unit("evil", f"{lead}{tried}touch $EVIL/named/done"), unit("other", other)]
    document = {"maxParallel": 2, "isolate": {"write": [str(evil / "named")]}, "env": {"EVIL": str(evil)}}
    before = (repo.path / ".git/config").read_bytes()
    ran = spawn("job-run", str(job_file(repo, {**document, "units": units})), "--job", "j1", cwd=repo.path)
    assert ran.status == 0, ran.err + ran.out
    could = [line == "0" for line in repo.show("main", "tried").decode().split()]
    assert dict(zip(ATTEMPTS, could, strict=True)) == {name: expected for name, (_, expected) in ATTEMPTS.items()}
    assert repo.show("main", "copy") == b"as it was\n" and (repo.path / ".git/config").read_bytes() == before
    assert "touched" not in result(repo, "0001-evil"), "commits, branches, stash and configuration were its own"
    assert repo.git("for-each-ref", "refs/heads/mine", "refs/stash", "refs/heads/evil") == ""
    assert repo.git("status", "--porcelain") == ""
    assert not list((repo.path / ".ktx/tmp").glob("scratch*"))


def test_isolation_is_refused_where_it_would_be_none(repo: Repo) -> None:
    for place, message in {"/": "are not", ".": "are not", "..": "are not", "none": "where nothing is"}.items():
        document = {"isolate": {"write": [place]}, "units": [unit("a", "true")]}
        ran = call("job-run", str(job_file(repo, document)), "--job", "j1", cwd=repo.path)
        assert ran.status == 2 and message in ran.err and not (repo.path / ".ktx/jobs/j1").exists(), ran.err


def test_what_is_written_into_a_worktree_outside_of_its_own_run_is_named(repo: Repo) -> None:
    """Into the evidence of one that failed, and of one whose work is collected and waits for its turn."""
    evil = """cd $KTX_DIR/jobs/j1/units
    while ! test -e 0002-failed/result.json -a -e 0003-quick/patch.json; do sleep 0.05; done
    cd $KTX_DIR/worktrees/j1; echo x > 0002-failed/planted; echo x > 0003-quick/planted; echo > 0001-evil/a"""
    units = [unit("evil", evil), unit("failed", "exit 1"), unit("quick", "echo > q")]
    path = job_file(repo, {"maxParallel": 3, "units": units})
    ran = spawn("job-run", str(path), "--job", "j1", "--json", cwd=repo.path)
    assert outcomes(repo) == {"evil": "accepted", "failed": "failed", "quick": "accepted"}
    assert repo.git("ls-tree", "--name-only", "main").split() == ["README", "a", "q"]
    named = [one["what"] for one in result(repo, "0001-evil")["touched"]]
    assert "sibling 0002-failed/planted" in named
    assert any("quick" in one and "after its work was collected" in one for one in ran.document["warnings"]), ran.out
    assert (repo.path / ".ktx/worktrees/j1/0003-quick/planted").exists(), "and it is kept"
