"""What a machine, a repository and its configuration can do to a job: facts in, findings out. Pure.

Looking at what a job depends on, before it does: git, store, locks, worktrees, hooks, configuration, disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.app import overview
from ktxkit.base import files, sandbox
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.text import plural
from ktxkit.git.git import version
from ktxkit.ledger import chain, ledger
from ktxkit.store import config, leases
from ktxkit.store.rules import names
from ktxkit.store.store import is_ignored
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import LedgerLine

LOW_DISK = 2 * 1024**3  # bytes free below which a job is likely to end badly
GIT_MINIMUM = (2, 38)


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at. `level` is ok, advice, warning or error."""

    check: str
    level: str
    message: str
    hint: str = ""
    path: str = ""

    def document(self) -> dict[str, str]:
        facts = {"check": self.check, "level": self.level, "message": self.message}
        return {**facts, **{k: v for k, v in (("hint", self.hint), ("where", self.path)) if v}}


OURS = "jobs are not touched by it; your own git in a worktree is"
# Settings that have surprised somebody, as `git config --list` names them: (the value that does, or ""; why; level).
SURPRISES: dict[str, tuple[str, str, str]] = {
    "core.hookspath": ("", f"hooks come from there, not from .git/hooks; {OURS}", "advice"),
    "core.autocrlf": ("true input", f"files change their line ends on the way into the index; {OURS}", "warning"),
    "core.fsmonitor": ("", f"git asks another process what changed; {OURS}", "advice"),
    "core.attributesfile": ("", f"attributes from outside the repository apply; {OURS}", "advice"),
    "core.worktree": ("", "the checkout is not where the repository is; worktrees of it are unusual", "warning"),
    "core.sharedrepository": ("", "others may write here: .ktx/ stays private to you", "advice"),
    "core.ignorecase": ("true", "names that differ only in case are one file here", "warning"),
    "core.filemode": ("false", "git overlooks executable bits; a unit's chmod is collected all the same", "warning"),
    "diff.external": ("", f"git diff runs another program; {OURS}", "advice"),
    "diff.noprefix": ("true", f"git diff leaves a/ and b/ out; {OURS}", "advice"),
    "apply.whitespace": ("fix", f"git apply changes what it applies; {OURS}", "warning"),
    "commit.gpgsign": ("true", "your commits in a worktree ask for a key; ours are not signed", "advice"),
    "merge.ff": ("false", f"merges make a commit even where none is needed; {OURS}", "advice"),
    "fetch.prune": ("true", "a fetch deletes remote branches' records", "advice"),
    "gc.auto": ("", "git collects garbage at another time than it would; private refs keep what jobs need", "advice"),
    "gc.pruneexpire": ("now", "objects that no ref names are deleted at once, unfinished work among them", "warning"),
    "extensions.worktreeconfig": ("true", "worktrees have configuration of their own", "advice"),
    "extensions.partialclone": ("", "objects are fetched when they are needed: a job may need the network", "warning"),
}  # fmt: skip


def surprises(config: Mapping[str, tuple[str, str]]) -> Iterator[Diagnosis]:
    """Settings in force that could surprise. `config` is key (lower case) to (value, origin)."""
    for key, (wanted, why, level) in SURPRISES.items():
        if key in config:
            value, origin = config[key]
            if not wanted or value.lower() in wanted.split():
                yield Diagnosis("configuration", level, f"{key} = {value}: {why}", path=origin)


def git_version(version: tuple[int, ...]) -> Diagnosis:
    """Whether git is new enough. Source: `merge-tree --write-tree` came with 2.38."""
    text = ".".join(map(str, version))
    if version < GIT_MINIMUM:
        return Diagnosis("git", "error", f"git {text} is too old", "git >= 2.38 is needed (merge-tree --write-tree)")
    return Diagnosis("git", "ok", f"git {text}")


def landlock_finding(version: int, least: int) -> Diagnosis:
    """Whether units can be isolated (`isolate` in a job file)."""
    if version < least:
        hint = f"`isolate` needs Landlock {least} (Linux 5.19 or newer, `landlock` in its `lsm=`)"
        return Diagnosis("isolation", "advice", "this kernel cannot isolate units from each other", hint)
    return Diagnosis("isolation", "ok", f"units can be isolated (Landlock {version})")


def disk(free: int, path: str) -> Diagnosis:
    """Whether there is room; `free` is bytes."""
    text = f"{free / 1024**3:.1f} GiB free"
    if free < LOW_DISK:
        return Diagnosis("disk", "warning", text, "each worktree is a whole checkout; make room, or set KTX_DIR", path)
    return Diagnosis("disk", "ok", text, path=path)


def environment(env: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Variables that change what git does for everybody who inherits them."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"):
        if name in env:
            hint = "unset it: your own git calls go to another place than you stand in"
            yield Diagnosis("environment", "warning", f"{name} is set; {OURS}", hint)
    for name in sorted(key for key in env if key.startswith("KTX_")):
        yield Diagnosis("environment", "advice", f"{name} = {env[name]}")


CONTRACT = "checkup"
HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
ORDER = {"error": 0, "warning": 1, "advice": 2, "ok": 3}


def checkup_of(world: World, scripts: Iterable[str]) -> Document:
    """Every finding, worst first. Writes nothing. `scripts` are those that PATH should have."""
    found = [*_machine(world, scripts), *environment(world.env)]
    try:
        repository = world.repository
    except CannotRun as error:
        found.append(Diagnosis("repository", "error", error.message.partition("\n")[0], error.hint, error.location))
    else:
        kind = f"{'bare ' if repository.bare else ''}{repository.object_format} repository"
        found.append(Diagnosis("repository", "ok", kind, path=str(repository.common_dir)))
        for look in (_shape, _store, _state, _ledger, _hooks, _configuration, _ours):
            found.extend(look(world))
    found.sort(key=lambda finding: ORDER[finding.level])
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": CONTRACT,
        "at": timestamp(world.clock.now()),
        "findings": [finding.document() for finding in found],
    }


def _machine(world: World, scripts: Iterable[str]) -> Iterator[Diagnosis]:
    try:
        yield git_version(version(world.env))
    except CannotRun as error:
        yield Diagnosis("git", "error", error.message, "install git 2.38 or newer")
    yield landlock_finding(sandbox.landlock_version(), sandbox.LEAST)
    missing = [name for name in scripts if shutil.which(name, path=world.env.get("PATH", "")) is None]
    if missing:
        hint = "put the directory of the installed scripts into PATH (pipx ensurepath, or activate the environment)"
        yield Diagnosis("commands", "warning", f"not in PATH: {', '.join(missing)}", hint)


def _shape(world: World) -> Iterator[Diagnosis]:
    repository = world.repository
    if world.git.text("rev-parse", "--is-shallow-repository") == "true":
        hint = "jobs work in it; merges with older branches may not (git fetch --unshallow)"
        yield Diagnosis("repository", "advice", "the history is cut off (shallow clone)", hint)
    if world.git.at(repository.directory).run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).status != 0:
        yield Diagnosis("repository", "advice", "HEAD is detached", "name the target of a job: --target BRANCH")
    elif world.git.resolve("HEAD") is None:
        yield Diagnosis("repository", "warning", "there is no commit yet", "a job needs a first commit to start from")
    if repository.linked:
        yield Diagnosis("repository", "advice", "this is a linked worktree; the store is at the main one")


def _store(world: World) -> Iterator[Diagnosis]:
    root = world.store.root
    if not root.is_dir():
        yield Diagnosis("store", "ok", "nothing has run here yet", path=str(root))
        yield disk(shutil.disk_usage(_existing(root)).free, str(root))
        return
    mode = root.stat().st_mode & 0o777
    if mode & 0o077:
        yield Diagnosis(
            "store", "warning", f"others can look into it (mode {mode:03o})", f"chmod 700 {root}", str(root)
        )
    if not os.access(root, os.W_OK):
        yield Diagnosis("store", "error", "it cannot be written", "chown it, or set KTX_DIR", str(root))
    inside = world.repository.top is not None and world.repository.common_dir not in (root, *root.parents)
    if inside and world.git.at(root.parent).run("rev-parse", "--show-toplevel", ok=(0, 128)).status == 0:
        ignored = is_ignored(world.git.at(root.parent), world.store)
        level, text = ("ok", "git ignores it") if ignored else ("error", "git does not ignore it")
        hint = "" if ignored else "a later '!' rule includes it again: remove that rule, or set KTX_DIR"
        yield Diagnosis("store", level, text, hint, str(root))
        yield Diagnosis(
            "store", "advice", "`git clean -fdx` removes it with everything in it", "KTX_DIR keeps it elsewhere"
        )
    yield disk(shutil.disk_usage(root).free, str(root))


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.is_dir())


def _state(world: World) -> Iterator[Diagnosis]:
    """Stale locks, dead worktrees, damaged documents: what `git ktx status` shows in full."""
    made = overview.overview(world)
    for row in made["branches"]:
        if row["standing"] != "held":
            level = "error" if row["standing"] == "blocked" else "warning"
            yield Diagnosis(
                "locks", level, f"{row['ref']} is {row['standing']}: {row['why']}", row["next"], row["where"]
            )
    for lost in made.get("damaged", ()):
        yield Diagnosis(
            "documents", "error", lost["message"], "it was damaged from outside, or by a full disk", lost["where"]
        )
    yield from _worktrees(world, made["worktrees"]["dead"])


def _worktrees(world: World, dead: int) -> Iterator[Diagnosis]:
    moved = _moved(world)
    tell = "git ktx prune tells git where they are" if moved else ""
    if moved:
        text = f"{plural(moved, 'worktree')} moved with the repository: git knows the old place"
        yield Diagnosis("worktrees", "warning", text, tell)
    if dead:
        yield Diagnosis("worktrees", "warning", f"{plural(dead, 'worktree')} left over", "git ktx prune clears them")
    prunable = world.git.at(world.repository.directory).text("worktree", "list", "--porcelain").count("\nprunable")
    if prunable:
        hint = tell or "git worktree prune, when you are sure that no disk is missing or directory moved"
        yield Diagnosis(
            "worktrees", "advice", f"git knows {plural(prunable, 'worktree')} whose directory is gone", hint
        )


def _ledger(world: World) -> Iterator[Diagnosis]:
    """Every line of the ledger of test runs, with its link; its end; and the events that belong to it."""
    path = world.store.path(names.LEDGER)
    runs: dict[str, LedgerLine] = {}
    count = 0
    try:
        for line in chain.lines(world):
            runs[line["run"]], count = line, count + 1
        if not count and (lost := chain.gone(world)):
            text = f"the ledger is gone with its store: it had {plural(lost, 'line')}"
            hint = "put the store back from a copy; else the next run, or `ledger-append --repair`, enters the loss"
            yield Diagnosis("ledger", "error", text, hint, str(path))
    except BrokenContract as error:
        yield Diagnosis("ledger", "error", error.message, chain.MEND, error.location)
        return
    if count:
        yield Diagnosis("ledger", "ok", f"{plural(count, 'line')}, each follows the one before", path=str(path))
    yield from _events(world, runs)
    gone = sorted({name for line in runs.values() for name in ledger.missing_artifacts(world, line)})
    if gone:
        text = f"{plural(len(gone), 'artifact')} gone or changed that runs name: {', '.join(gone[:3])}"
        hint = "put them back from a copy; without them some of what these runs say cannot be shown"
        yield Diagnosis("ledger", "error", text, hint, str(world.store.path(names.ARTIFACTS)))


def _events(world: World, runs: Mapping[str, LedgerLine]) -> Iterator[Diagnosis]:
    place = world.store.path(names.EVENTS)
    strays = sorted({path.stem for path in place.glob("*.ndjson")} - runs.keys()) if place.is_dir() else []
    if strays:
        text = f"{plural(len(strays), 'event file')} without a line: {', '.join(strays[:5])}"
        hint = "whoever asks the ledger next enters those whose recorder has ended; `ledger-append --repair` does, too"
        yield Diagnosis("ledger", "warning", text, hint, str(place))
    changed = sorted(run for run, line in runs.items() if not ledger.intact(world, line))
    if changed:
        text = f"events are gone, or not what the ledger says they are: {', '.join(changed[:5])}"
        hint = (
            "put them back from a copy: their runs are answered for, their tests are not; `ledger-append --repair`"
            " moves changed files aside"
        )
        yield Diagnosis("ledger", "error", text, hint, str(place))
    damaged = sorted(run for run, line in runs.items() if line.get("record", {}).get("state") == "damaged")
    if damaged:
        text = f"{plural(len(damaged), 'run')} damaged: {', '.join(damaged[:5])}"
        yield Diagnosis("ledger", "warning", text, "`ledger-query run RUN` says why; run the tests again")


def _moved(world: World) -> int:
    count = 0
    for place in leases.all_locations(world):
        try:
            count += place.has_moved()
        except BrokenContract:  # gate-ok: told among the damaged documents
            continue
    return count


def _hooks(world: World) -> Iterator[Diagnosis]:
    place = Path(world.inherited.run("rev-parse", "--path-format=absolute", "--git-path", "hooks").text)
    for name in HOOKS:
        hook = place / name
        if not hook.is_file():
            continue
        body = files.read_part(hook.resolve(), 65536).content
        whose = "ktxkit's" if b"ktx" in body else "the pre-commit framework's" if b"pre-commit" in body else "your own"
        if os.access(hook, os.X_OK):
            yield Diagnosis("hooks", "ok", f"{name}: {whose}", path=str(hook))
        else:
            yield Diagnosis("hooks", "warning", f"{name}: {whose}, but not executable", f"chmod +x {hook}", str(hook))
    top = world.repository.top
    if top is not None and (top / ".pre-commit-config.yaml").is_file():
        ours = b"ktxkit" in files.read_part((top / ".pre-commit-config.yaml").resolve(), 1 << 20).content
        text = "names ktxkit" if ours else "does not name ktxkit (`git ktx init` prints the lines)"
        yield Diagnosis("hooks", "ok" if ours else "advice", f".pre-commit-config.yaml {text}")


def _configuration(world: World) -> Iterator[Diagnosis]:
    """The settings that are in force for the user's own git, with the file that each comes from."""
    listed = world.inherited.run("config", "--list", "--null", "--show-origin").nul
    settings: dict[str, tuple[str, str]] = {}
    for origin, entry in zip(listed[::2], listed[1::2], strict=False):
        key, _, value = entry.decode("utf-8", "replace").partition("\n")
        settings[key.lower()] = (value, origin.decode("utf-8", "replace"))
    yield from surprises(settings)
    filters = sorted({key.split(".")[1] for key in settings if key.startswith("filter.")})
    if filters:
        text = f"content filters: {', '.join(filters)}; patches are taken from what git stores, after them"
        yield Diagnosis("configuration", "advice", text)


def _ours(world: World) -> Iterator[Diagnosis]:
    path = config.config_path(world)
    if path is None or not path.exists():
        return
    problems = config.problems(world)
    for problem in problems:
        yield Diagnosis(
            "ktx-config", "error", problem["message"], "`git ktx help config` lists the keys", problem["where"]
        )
    if not problems:
        yield Diagnosis("ktx-config", "ok", "valid", path=str(path))
