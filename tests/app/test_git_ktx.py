"""git ktx status, doctor, init and clean on real repositories."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ktxkit import __version__
from ktxkit.app import git_ktx
from ktxkit.app.commands import GROUPS, scripts
from ktxkit.base import contracts, identity, owners
from ktxkit.store import jobs
from ktxkit.store.rules import names
from ktxkit.store.world import World
from tests.support.commands import Ran, call
from tests.support.jobs import job_file, unit
from tests.support.repos import Repo

ROOT = Path(__file__).resolve().parents[2]


def ktx(repo: Repo, *words: str) -> Ran:
    return call("git-ktx", *words, cwd=repo.path)


def document(repo: Repo, *words: str) -> Any:
    return ktx(repo, *words, "--json").document


def a_job(repo: Repo, job: str, changes: dict[str, str], *, land: bool = True) -> None:
    """A job by hand: each unit writes its text into `page`; an empty text changes nothing."""
    for key in changes:
        assert call("worktree-open", "--job", job, "--unit", key, cwd=repo.path).status == 0
    for number, (key, text) in enumerate(changes.items(), start=1):
        if text:
            (repo.path / ".ktx" / names.worktree_dir(job, number, key) / "page").write_text(text)
        assert call("patch-collect", "--job", job, "--unit", key, cwd=repo.path).status == 0
        call("patch-apply", "--job", job, "--unit", key, cwd=repo.path)
        call("worktree-close", "--job", job, "--unit", key, "--outcome", "success", cwd=repo.path)
    if land:
        assert call("job-land", "--job", job, cwd=repo.path).status == 0


def refs(repo: Repo) -> list[str]:
    return repo.git("for-each-ref", "--format=%(refname)", "refs/ktx").splitlines()


def test_nothing_yet(repo: Repo) -> None:
    done = ktx(repo, "status")
    assert done.status == 0 and "Nothing has run here yet" in done.out
    assert document(repo, "status")["present"] is False
    assert ktx(repo, "clean").out == "Nothing to clear.\n"
    assert not (repo.path / ".ktx").exists()


def test_help(repo: Repo) -> None:
    everything = ktx(repo, "help").out
    assert everything.startswith("every day\n  git ktx run ") and everything == ktx(repo).out
    short = ktx(repo, "-h").out
    assert all(f"\n{group}\n" in short for group in GROUPS) and all(name in short for name in scripts())
    assert ktx(repo, "help", "job-file").out == (ROOT / "docs/formats/job-file.md").read_text()
    assert ktx(repo, "help", "status").out == ktx(repo, "status", "--help").out
    assert ktx(repo, "help", "job-run").out == call("job-run", "--help", cwd=repo.path).out
    pages = ktx(repo, "help", "pages").out
    assert re.search(r"^job-failed +My job failed$", pages, re.MULTILINE) and "git-ktx-land" in pages
    assert ktx(repo, "help", "job-failed").out == (ROOT / "docs/guides/job-failed.md").read_text()
    assert json.loads(ktx(repo, "help", "receipt").out) == contracts.schema("receipt")
    unknown = ktx(repo, "help", "job-rnu")
    assert unknown.status == 2 and "did you mean job-run?" in unknown.err


def test_every_command_is_in_one_group() -> None:
    named = [name for members in GROUPS.values() for name in members]
    assert sorted(named) == sorted([*git_ktx.names(), *(name for name in scripts() if name != "git-ktx")])


def test_status_names_the_next_step(repo: Repo) -> None:
    assert call("worktree-open", "--job", "j1", "--unit", "one", cwd=repo.path).status == 0
    row = document(repo, "status")["jobs"][0]
    assert (row["state"], row["outcomes"], row["next"]) == ("open", {"open": 1}, "patch-collect --job j1 --unit one")
    (repo.path / ".ktx" / names.worktree_dir("j1", 1, "one") / "page").write_text("text")
    steps = []
    for _ in range(3):
        step = document(repo, "status")["jobs"][0]["next"].split(" ")
        steps.append(step[0])
        assert call(step[0], *step[1:], cwd=repo.path).status == 0
    assert steps == ["patch-collect", "patch-apply", "job-land"]

    done = ktx(repo, "status")
    assert done.status == 0 and "Last: j1, done, 1 of 1 unit in." in done.out


def test_status_names_the_rebase_where_the_target_moved(repo: Repo) -> None:
    """It named the landing that is refused."""
    a_job(repo, "j1", {"one": "text"}, land=False)
    repo.write("beside", "beside\n")
    repo.commit()
    step = document(repo, "status")["jobs"][0]["next"].split(" ")
    assert step == ["job-land", "--rebase", "--job", "j1"]
    assert call(*step, cwd=repo.path).status == 0
    assert (repo.path / "beside").exists() and "next" not in document(repo, "status")["jobs"][0]


def lock(repo: Repo, **facts: Any) -> Path:
    """A lock document on main, as a process left it."""
    world = World(repo.path, os.environ)
    dead = {"bootId": owners.boot_id(), "pid": 1, "startTime": 1}
    made = {
        "schemaVersion": 1, "kind": "lock", "ref": "refs/heads/main", "nonce": "0" * 32, "phase": "committing",
        "owner": dead, "since": "2026-05-17T12:00:00.000Z", **facts,
    }  # fmt: skip
    return world.writable_store.write("lock", names.branch_lock_doc("refs/heads/main"), made)


def test_status_shows_what_is_blocked_or_was_cut_off(repo: Repo) -> None:
    path = lock(repo)
    done = ktx(repo, "status")
    assert done.status == 0 and "Branch refs/heads/main is interrupted (committing): a process died in it" in done.out
    lock(repo, phase="blocked", blocked="HEAD is elsewhere")
    done = ktx(repo, "status")
    assert done.status == 1 and "is blocked (blocked): HEAD is elsewhere" in done.out and str(path) in done.out
    assert ktx(repo, "doctor").status == 1
    path.write_text("{}")
    done = ktx(repo, "status")
    assert done.status == 1 and f"Damaged: {path}: " in done.out


def test_status_sees_a_running_job(repo: Repo) -> None:
    from ktxkit.base.lock import flocked

    world = World(repo.path, os.environ)
    jobs.create(world, "j1", target="refs/heads/main")
    with flocked(world.store.path("locks/run-j1.lock"), clock=world.clock):
        assert document(repo, "status")["jobs"][0]["running"] is True
        assert "j1  running, 0 of 0 units in" in ktx(repo, "status").out
    assert document(repo, "status")["jobs"][0]["running"] is False


def test_clean_takes_what_is_in_and_nothing_else(repo: Repo) -> None:
    repo.write("page", "one\n")
    repo.commit()
    a_job(repo, "done", {"a": "two\n", "b": ""})
    a_job(repo, "partial", {"c": "three\n", "d": "four\n"})
    a_job(repo, "open", {"e": "five\n"}, land=False)
    before = refs(repo)
    shown = document(repo, "clean", "--records")
    assert {(item["what"], item["name"]) for item in shown["items"]} == {("refs", "done"), ("records", "done")}
    assert refs(repo) == before and shown["done"] is False
    done = ktx(repo, "clean", "--yes")
    assert done.status == 0 and "Cleared 1 thing." in done.out
    assert refs(repo) == [ref for ref in before if "/done/" not in ref]
    assert (repo.path / ".ktx/jobs/done").is_dir(), "records stay unless asked for"
    assert ktx(repo, "clean", "--records", "--yes").status == 0
    kept = {path.name for path in (repo.path / ".ktx/jobs").iterdir()}
    assert kept == {"partial", "open"} and {p.name for p in (repo.path / ".ktx/ingest-patches").iterdir()} >= kept
    assert ktx(repo, "clean", "--records", "--yes").out == "Nothing to clear.\n"
    assert repo.git("fsck", "--connectivity-only", "--no-dangling") == ""


def test_clean_takes_the_cache_with_the_records(repo: Repo) -> None:
    repo.write("page", "one\n")
    repo.commit()
    kept = repo.write(".ktx/cache/facts.sqlite", "facts")
    assert ktx(repo, "clean", "--yes").out == "Nothing to clear.\n" and kept.is_file()
    (item,) = document(repo, "clean", "--records")["items"]
    assert (item["what"], item["bytes"]) == ("cache", 5) and kept.is_file()
    assert ktx(repo, "clean", "--records", "--yes").status == 0 and not kept.parent.exists()
    assert ktx(repo, "clean", "--records", "--yes").out == "Nothing to clear.\n"


def test_clean_saves_what_a_dead_worktree_holds(repo: Repo) -> None:
    assert call("worktree-open", "--job", "j1", "--unit", "one", cwd=repo.path).status == 0
    (repo.path / ".ktx" / names.worktree_dir("j1", 1, "one") / "only-here").write_text("work\n")
    world = World(repo.path, os.environ)
    jobs.change(world, "j1", lambda job: job.update({"state": "aborted"}))
    assert "can be cleared" in ktx(repo, "clean").out
    item = document(repo, "clean", "--yes")["items"][0]
    assert item["what"] == "worktree" and repo.git("show", f"{item['atticRef']}:only-here") == "work"


def test_init_writes_once_and_doctor_agrees(repo: Repo) -> None:
    done = ktx(repo, "init")
    assert done.status == 0 and "- id: gate-check" in done.out
    assert document(repo, "doctor")["findings"] and "ktx-config: valid" in ktx(repo, "doctor", "--all").out
    assert ktx(repo, "init").status == 1
    text = (repo.path / ".ktx-config.yaml").read_text()
    live = "\n".join(line[2:] if line.startswith("# ") and ":" in line else line for line in text.splitlines()[4:])
    (repo.path / ".ktx-config.yaml").write_text(live)
    assert "ktx-config: valid" in ktx(repo, "doctor", "--all").out, "every default that the template shows is one"


WRONG: list[tuple[str, str, str]] = [
    ("key", "job:\n  maxParalel: 4\n", ":2:3: job.maxParalel means nothing here; did you mean maxParallel?"),
    ("no key near", "qqq: 1\n", ":1:1: qqq means nothing here"),
    ("value", "job:\n  maxParallel: many\n", "job.maxParallel"),
    (
        "nested",
        "ledger:\n  preconditions:\n    - name: db\n      runs: x\n",
        ":4:7: ledger.preconditions.0.runs means nothing",
    ),
    ("syntax", "job: [\n", ":2:1: "),
    ("list", "- 1\n", ":1:1: a mapping is expected"),
    ("twice", "notify: a\nnotify: b\n", ":2:1: "),
    ("not utf-8", "notify: \udcff\n", ":1:9: not UTF-8"),
]


@pytest.mark.parametrize(("text", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_configuration_is_named(repo: Repo, text: str, says: str) -> None:
    (repo.path / ".ktx-config.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    found = [f for f in document(repo, "doctor")["findings"] if f["check"] == "ktx-config"]
    assert found[0]["level"] == "error" and says in f"{found[0]['where']}: {found[0]['message']}", found
    (repo.path / "job.yaml").write_text("schemaVersion: 1\nconnectionId: c\nsourceKey: s\nunits: []\n")
    done = call("job-run", "job.yaml", cwd=repo.path)
    assert done.status == 2 and says in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n", "---\n"])
def test_an_empty_configuration_is_one(repo: Repo, text: str) -> None:
    (repo.path / ".ktx-config.yaml").write_text(text)
    assert "ktx-config: valid" in ktx(repo, "doctor", "--all").out


def test_defaults_reach_a_job(repo: Repo) -> None:
    (repo.path / ".ktx-config.yaml").write_text(
        "job:\n  connectionId: warehouse\n  sourceKey: metabase\n  target: main\n"
    )
    repo.commit()
    (repo.path / "job.yaml").write_text("schemaVersion: 1\nsourceKey: mine\nunits: [{key: a, run: 'echo a > a'}]\n")
    done = call("job-run", "job.yaml", "--job", "j1", "--json", cwd=repo.path)
    assert done.status == 0, done
    assert (done.document["connectionId"], done.document["sourceKey"]) == ("warehouse", "mine")


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("core.autocrlf", "true", "warning  configuration: core.autocrlf = true"),
        ("apply.whitespace", "fix", "warning  configuration: apply.whitespace = fix"),
        ("filter.lfs.clean", "x", "advice   configuration: content filters: lfs"),
    ],
)
def test_doctor_names_settings_that_surprise(repo: Repo, setting: str, value: str, says: str) -> None:
    repo.git("config", setting, value)
    assert says in ktx(repo, "doctor").out


def test_doctor_looks_at_hooks_store_and_environment(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".git/hooks/pre-push", "#!/bin/sh\n").chmod(0o644)
    repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexec pre-commit\n").chmod(0o755)
    repo.write(".pre-commit-config.yaml", "repos: []\n")
    lock(repo, phase="idle")
    (repo.path / ".ktx").chmod(0o755)
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    out = ktx(repo, "doctor", "--all").out
    for says in (
        "pre-push: your own, but not executable",
        "pre-commit: the pre-commit framework's",
        "does not name ktxkit",
        "others can look into it (mode 755)",
        "GIT_INDEX_FILE is set",
        "git ignores it",
    ):
        assert says in out, out
    repo.write(".gitignore", "!/.ktx/\n")
    assert "error    store: git does not ignore it" in ktx(repo, "doctor").out


def test_doctor_outside_a_repository(tmp_path: Path) -> None:
    done = call("git-ktx", "doctor", cwd=tmp_path)
    assert done.status == 1 and "error    repository: " in done.out


def test_a_bare_repository(tmp_path: Path) -> None:
    bare = Repo.init(tmp_path / "bare.git", "--bare")
    assert ktx(bare, "init").status == 2
    assert ktx(bare, "status").status == 0
    assert "there is no commit yet" in ktx(bare, "doctor").out


@pytest.mark.parametrize("name", git_ktx.names())
def test_each_subcommand_answers(repo: Repo, name: str) -> None:
    done = ktx(repo, name, "--help")
    assert done.status == 0 and done.out.startswith(f"usage: git ktx {name} ") and "\nexamples:\n" in done.out
    assert ktx(repo, name, "--no-such").status == 2
    assert name in (Path(__file__).parents[2] / "docs/commands/git-ktx.md").read_text()
    assert name in ktx(repo).out


def test_clean_takes_the_checkout_that_candidates_were_verified_in(repo: Repo) -> None:
    """It stayed for ever, with what the verifications had installed, and held the job's records up."""
    wish = {"verify": {"run": "true"}, "units": [unit("a", "echo x > x")]}
    assert call("job-run", job_file(repo, wish), "--job", "j1", cwd=repo.path).status == 0
    checkout = repo.path / ".ktx" / names.integration_dir("j1")
    assert checkout.is_dir()
    shown = document(repo, "clean")
    assert [item["name"] for item in shown["items"] if item["what"] == "worktree"] == [str(checkout)]
    assert checkout.is_dir()
    assert ktx(repo, "clean", "--yes", "--records").status == 0
    assert not checkout.exists() and not (repo.path / ".ktx/jobs/j1").exists()
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert ktx(repo, "clean", "--yes", "--records").out == "Nothing to clear.\n"


def test_what_a_landed_job_kept_is_told_as_kept_and_no_advice_is_to_prune_it(repo: Repo) -> None:
    units = [unit("good", "echo g > g"), unit("bad", "echo b > b; exit 3")]
    assert call("job-run", job_file(repo, {"units": units}), "--job", "j1", cwd=repo.path).status == 3
    said = call("git-ktx", "status", cwd=repo.path).out
    assert "Worktrees: 1 kept as evidence." in said and "prune" not in said
    assert f"kept: {repo.path}/.ktx/worktrees/j1/0002-bad (closed as crash; its job is landed)" in said
    listed = call("worktree-open", "--list", cwd=repo.path).out
    assert "0 left over" in listed and "kept as evidence: its job is landed" in listed
    assert call("git-ktx", "clean", "--yes", cwd=repo.path).status == 0
    (kept,) = repo.git("for-each-ref", "--format=%(refname)", "refs/ktx/attic").splitlines()
    assert repo.show(kept, "b") == b"b\n"


ORIGINS = [
    ({"url": "https://f.test/k.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}, "https://f.test/k.git", "ab12"),
    ({"url": "file:///srv/my%20clone", "dir_info": {}}, "/srv/my clone", f"v{__version__}"),
    (None, "PATH-OR-ADDRESS-OF-KTXKIT", f"v{__version__}"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "source", "revision"), ORIGINS, ids=["git", "a clone", "unknown"])
def test_the_lines_for_pre_commit_name_where_this_one_came_from(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, source: str, revision: str
) -> None:
    about = tmp_path / "installed/ktxkit-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ktxkit\nVersion: 0.1.0\n")
    if said is not None:
        (about / "direct_url.json").write_text(json.dumps(said))
    monkeypatch.syspath_prepend(str(about.parent))
    lines = ktx(repo, "init").out.splitlines()
    assert f"  - repo: {source}" in lines and f"    rev: {revision}  # a tag or commit of it" in lines
    takes = {"ab12": f"git+{source}@ab12"}.get(revision, source if said else "ktxkit")
    assert identity.requirement() == takes
