"""Looking at what a job depends on, before it does: git, store, locks, worktrees, hooks, configuration, disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktxkit.app import overview
from ktxkit.app.rules import checkup
from ktxkit.app.rules.checkup import Finding
from ktxkit.base import landlock
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.text import plural
from ktxkit.git.git import version
from ktxkit.ledger import ledger
from ktxkit.store import config, leases
from ktxkit.store.rules import names
from ktxkit.store.store import is_ignored
from ktxkit.store.world import World

CONTRACT = "checkup"
HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
ORDER = {"error": 0, "warning": 1, "advice": 2, "ok": 3}


def checkup_of(world: World, scripts: Iterable[str]) -> Document:
    """Every finding, worst first. Writes nothing. `scripts` are those that PATH should have."""
    found = [*_machine(world, scripts), *checkup.environment(world.env)]
    try:
        repository = world.repository
    except CannotRun as error:
        found.append(Finding("repository", "error", error.message.partition("\n")[0], error.hint, error.where))
    else:
        kind = f"{'bare ' if repository.bare else ''}{repository.object_format} repository"
        found.append(Finding("repository", "ok", kind, where=str(repository.common_dir)))
        for look in (_shape, _store, _state, _ledger, _hooks, _configuration, _ours):
            found.extend(look(world))
    found.sort(key=lambda finding: ORDER[finding.level])
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": CONTRACT,
        "at": timestamp(world.clock.now()),
        "findings": [finding.document() for finding in found],
    }


def _machine(world: World, scripts: Iterable[str]) -> Iterator[Finding]:
    try:
        yield checkup.git_version(version(world.env))
    except CannotRun as error:
        yield Finding("git", "error", error.message, "install git 2.38 or newer")
    yield checkup.landlock(landlock.version(), landlock.LEAST)
    missing = [name for name in scripts if shutil.which(name, path=world.env.get("PATH", "")) is None]
    if missing:
        hint = "put the directory of the installed scripts into PATH (pipx ensurepath, or activate the environment)"
        yield Finding("commands", "warning", f"not in PATH: {', '.join(missing)}", hint)


def _shape(world: World) -> Iterator[Finding]:
    repository = world.repository
    if world.git.text("rev-parse", "--is-shallow-repository") == "true":
        hint = "jobs work in it; merges with older branches may not (git fetch --unshallow)"
        yield Finding("repository", "advice", "the history is cut off (shallow clone)", hint)
    if world.git.at(repository.place).run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).status != 0:
        yield Finding("repository", "advice", "HEAD is detached", "name the target of a job: --target BRANCH")
    elif world.git.resolve("HEAD") is None:
        yield Finding("repository", "warning", "there is no commit yet", "a job needs a first commit to start from")
    if repository.linked:
        yield Finding("repository", "advice", "this is a linked worktree; the store is at the main one")


def _store(world: World) -> Iterator[Finding]:
    root = world.store.root
    if not root.is_dir():
        yield Finding("store", "ok", "nothing has run here yet", where=str(root))
        yield checkup.disk(shutil.disk_usage(_existing(root)).free, str(root))
        return
    mode = root.stat().st_mode & 0o777
    if mode & 0o077:
        yield Finding("store", "warning", f"others can look into it (mode {mode:03o})", f"chmod 700 {root}", str(root))
    if not os.access(root, os.W_OK):
        yield Finding("store", "error", "it cannot be written", "chown it, or set KTX_DIR", str(root))
    inside = world.repository.top is not None and world.repository.common_dir not in (root, *root.parents)
    if inside and world.git.at(root.parent).ok("rev-parse", "--show-toplevel"):
        ignored = is_ignored(world.git.at(root.parent), world.store)
        level, text = ("ok", "git ignores it") if ignored else ("error", "git does not ignore it")
        hint = "" if ignored else "a later '!' rule includes it again: remove that rule, or set KTX_DIR"
        yield Finding("store", level, text, hint, str(root))
        yield Finding(
            "store", "advice", "`git clean -fdx` removes it with everything in it", "KTX_DIR keeps it elsewhere"
        )
    yield checkup.disk(shutil.disk_usage(root).free, str(root))


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.is_dir())


def _state(world: World) -> Iterator[Finding]:
    """Stale locks, dead worktrees, damaged documents: what `git ktx status` shows in full."""
    made = overview.overview(world)
    for row in made["branches"]:
        if row["standing"] != "held":
            level = "error" if row["standing"] == "blocked" else "warning"
            yield Finding("locks", level, f"{row['ref']} is {row['standing']}: {row['why']}", row["next"], row["where"])
    for row in made.get("damaged", ()):
        yield Finding(
            "documents", "error", row["message"], "it was damaged from outside, or by a full disk", row["where"]
        )
    yield from _worktrees(world, made["worktrees"]["dead"])


def _worktrees(world: World, dead: int) -> Iterator[Finding]:
    moved = _moved(world)
    tell = "worktree-open --prune tells git where they are" if moved else ""
    if moved:
        text = f"{plural(moved, 'worktree')} moved with the repository: git knows the old place"
        yield Finding("worktrees", "warning", text, tell)
    if dead:
        yield Finding("worktrees", "warning", f"{plural(dead, 'worktree')} dead", "worktree-open --prune clears them")
    prunable = world.git.at(world.repository.place).text("worktree", "list", "--porcelain").count("\nprunable")
    if prunable:
        hint = tell or "git worktree prune, when you are sure that no disk is missing or directory moved"
        yield Finding("worktrees", "advice", f"git knows {plural(prunable, 'worktree')} whose directory is gone", hint)


def _ledger(world: World) -> Iterator[Finding]:
    """Every line of the ledger of test runs, with its link."""
    if not world.store.exists(names.LEDGER):
        return
    where = str(world.store.path(names.LEDGER))
    try:
        count = sum(1 for _ in ledger.lines(world))
    except BrokenContract as error:
        yield Finding("ledger", "error", error.message, ledger.MEND, error.where)
    else:
        yield Finding("ledger", "ok", f"{plural(count, 'line')}, each follows the one before", where=where)


def _moved(world: World) -> int:
    count = 0
    for place in leases.every_place(world):
        try:
            count += place.has_moved()
        except BrokenContract:  # gate-ok: told among the damaged documents
            continue
    return count


def _hooks(world: World) -> Iterator[Finding]:
    place = Path(world.inherited.run("rev-parse", "--path-format=absolute", "--git-path", "hooks").text)
    for name in HOOKS:
        hook = place / name
        if not hook.is_file():
            continue
        body = hook.read_bytes()[:65536]
        whose = "ktxkit's" if b"ktx" in body else "the pre-commit framework's" if b"pre-commit" in body else "your own"
        if os.access(hook, os.X_OK):
            yield Finding("hooks", "ok", f"{name}: {whose}", where=str(hook))
        else:
            yield Finding("hooks", "warning", f"{name}: {whose}, but not executable", f"chmod +x {hook}", str(hook))
    top = world.repository.top
    if top is not None and (top / ".pre-commit-config.yaml").is_file():
        ours = b"ktxkit" in (top / ".pre-commit-config.yaml").read_bytes()
        text = "names ktxkit" if ours else "does not name ktxkit (`git ktx init` prints the lines)"
        yield Finding("hooks", "ok" if ours else "advice", f".pre-commit-config.yaml {text}")


def _configuration(world: World) -> Iterator[Finding]:
    """The settings that are in force for the user's own git, with the file that each comes from."""
    listed = world.inherited.run("config", "--list", "--null", "--show-origin").nul
    settings: dict[str, tuple[str, str]] = {}
    for origin, entry in zip(listed[::2], listed[1::2], strict=False):
        key, _, value = entry.decode("utf-8", "replace").partition("\n")
        settings[key.lower()] = (value, origin.decode("utf-8", "replace"))
    yield from checkup.surprises(settings)
    filters = sorted({key.split(".")[1] for key in settings if key.startswith("filter.")})
    if filters:
        text = f"content filters: {', '.join(filters)}; patches are taken from what git stores, after them"
        yield Finding("configuration", "advice", text)


def _ours(world: World) -> Iterator[Finding]:
    path = config.place(world)
    if path is None or not path.exists():
        return
    problems = config.problems(world)
    for problem in problems:
        yield Finding(
            "ktx-config", "error", problem["message"], "docs/formats/config.md lists the keys", problem["where"]
        )
    if not problems:
        yield Finding("ktx-config", "ok", "valid", where=str(path))
