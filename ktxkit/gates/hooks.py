"""The hooks directory of a repository: what stands there, put and taken back in steps that a kill cannot spoil.

git's hooks of a repository: ours put before what is there, and taken away again.

The message of a commit, as it will be committed, before the gates that judge messages.

What a push sends, ref by ref, against what the other side has. Source: githooks(5), pre-push.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktxkit.base import files, process
from ktxkit.base.contracts import Document
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.gates import configuration, inputs, judging, plugin
from ktxkit.gates.judging import JudgeRequest
from ktxkit.gates.plugin import MESSAGE_GATES
from ktxkit.gates.rules import findings, hooks
from ktxkit.gates.rules.findings import Finding, grouped
from ktxkit.gates.rules.hooks import CHAINED, Push, cleanup_mode, cleanup_of, cut, read_pushes
from ktxkit.git.git import Git, scrubbed, version
from ktxkit.git.objects import Objects
from ktxkit.git.repository import Repository
from ktxkit.store.world import World

MODE = 0o755


def body(name: str) -> bytes:
    """One of our hooks as it is shipped."""
    module = importlib.import_module("ktxkit.hooks")
    assert module.__file__ is not None
    return (Path(module.__file__).parent / name).read_bytes()


def settings(git: Git) -> tuple[str, str]:
    """Where `core.hooksPath` comes from (`local`, `worktree`, `global`, `system`) and what it says; empty: unset.

    `git` must not have pinned it.
    """
    answer = git.run("config", "--show-scope", "-z", "--get", "core.hooksPath", ok=(0, 1))
    scope, _, value = answer.out.removesuffix(b"\0").partition(b"\0")
    return os.fsdecode(scope), os.fsdecode(value)


def hooks_directory(git: Git) -> Path:
    """Where git looks for hooks, resolved."""
    answer = git.run("rev-parse", "--path-format=absolute", "--git-path", "hooks")
    return Path(os.path.realpath(answer.text))


def inside(path: Path, repository: Repository) -> bool:
    """Whether a resolved path is this repository's own: in its checkout or its common directory."""
    homes = [repository.common_dir, *([repository.top] if repository.top else [])]
    return any(path.is_relative_to(home) for home in homes)


def hook_content(path: Path) -> bytes | None:
    """The hook that stands there; None where nothing does. A link is a hook with no content of ours."""
    try:
        return b"" if path.is_symlink() else files.read(path)
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise CannotRun(
            "a directory stands where a hook is expected", location=str(path), hint="move it away"
        ) from error


def chained(path: Path) -> Path:
    """Where the hook is kept that was there before."""
    return path.with_name(path.name + CHAINED)


def same(path: Path) -> bool:
    """Whether the hook kept beside is the very file that still stands in its place."""
    beside = chained(path)
    return os.path.lexists(path) and os.path.lexists(beside) and os.path.samestat(path.lstat(), beside.lstat())


def keep(path: Path) -> None:
    """Give the hook that is there its second name. Until ours is put, git still runs it."""
    try:
        os.link(path, chained(path), follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(path, chained(path))  # noqa: PTH104 - a file system without hard links
    files.sync_dir(path.parent)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """The hooks directory for ourselves: one install at a time, and what a killed one left half written is removed."""
    if not directory.is_dir():
        files.make_dirs(directory, 0o777)  # as git makes it; the umask decides
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        files.sweep_asides(directory)
        yield
    finally:
        os.close(fd)


def put(path: Path, data: bytes) -> None:
    """Put one of our hooks, executable, as a whole or not at all."""
    files.write_atomic(path, data, mode=MODE)


def remove(path: Path) -> None:
    files.remove(path)
    files.sync_dir(path.parent)


def restore(path: Path) -> None:
    """Give the hook that was there before its name back: its bytes, its mode, its link."""
    if same(path):
        files.remove(chained(path))  # renaming a file to another name of itself does nothing (rename(2))
    else:
        os.replace(chained(path), path)  # noqa: PTH105
    files.sync_dir(path.parent)


@dataclass(frozen=True)
class Done:
    """What was done with one hook, in one word, and where."""

    name: str
    action: str
    path: Path
    chained: bool = False

    def document(self) -> dict[str, object]:
        return {"hook": self.name, "action": self.action, "path": str(self.path), "chained": self.chained}


def chosen(names: Sequence[str]) -> list[str]:
    """The hooks that were named, all of ours where none was. Raises CannotRun for a name that is none."""
    unknown = sorted(set(names) - set(hooks.HOOKS))
    if unknown:
        raise CannotRun(f"no hook named {unknown[0]!r}", hint=f"there are {', '.join(hooks.HOOKS)}")
    return [name for name in hooks.HOOKS if name in names or not names]


def hooks_path(world: World) -> Path:
    """The repository's own hooks directory. Raises Refused where its hooks are not its own."""
    repository = world.repository  # where there is none, that alone is said
    git = Git(world.cwd, scrubbed(world.env))  # the runners of `world` pin core.hooksPath
    scope, value = settings(git)
    directory = hooks_directory(git)
    own = inside(directory, repository)
    if own and scope in ("", "local", "worktree"):
        return directory
    why = (
        f"core.hooksPath is set ({scope}: {value})" if scope else "the hooks directory is a link out of the repository"
    )
    calls = "; ".join(f"{name}: {_call(name)}" for name in hooks.HOOKS)
    raise Refused(
        f"{why}: hooks that other repositories share are not changed",
        location=str(directory),
        hint=f"add one line to each hook there ({calls})",
    )


def _call(name: str) -> str:
    """The line that gates in a hook of one's own: the last one of ours."""
    last = body(name).decode("ascii").rstrip("\n").rpartition("\n")[2]
    return last[last.index("gate-check") :] + " || exit"


def install(world: World, names: Sequence[str]) -> list[Done]:
    """Put our hooks; a hook that is there is kept and runs first. Raises Refused where one cannot be kept."""
    directory, wanted = hooks_path(world), chosen(names)
    with alone(directory):
        planned = [_planned(directory / name) for name in wanted]
        _refuse(planned)
        for step in planned:
            if step.action == "chain" and not same(step.path):
                keep(step.path)
            if step.action != "already":
                put(step.path, hooks.stamped(body(step.name)))
    return planned


def _refuse(planned: Sequence[Done]) -> None:
    for step in planned:
        if step.action == "refuse":
            raise Refused(
                "a hook was changed since, and one that was there before is kept beside it: nothing was done"
                if step.chained
                else "our hook was edited: nothing was done",
                location=str(step.path),
                hint="move the file away, then install again",
            )


def _planned(path: Path) -> Done:
    content = hook_content(path)
    chained = _is_chained(path)
    current = content == hooks.stamped(body(path.name))
    action = hooks.on_install(hooks.whose(content), current=current, chained=chained, same=same(path))
    return Done(path.name, action, path, chained or action == "chain")


def _is_chained(path: Path) -> bool:
    return hook_content(chained(path)) is not None


def uninstall(world: World, names: Sequence[str]) -> list[Done]:
    """Take our hooks away and give the ones that were there before their places back, byte for byte."""
    directory, wanted = hooks_path(world), chosen(names)
    if not directory.is_dir():
        return [Done(name, "absent", directory / name) for name in wanted]
    with alone(directory):
        return [_taken(directory / name) for name in wanted]


def _taken(path: Path) -> Done:
    chained = _is_chained(path)
    owner = hooks.whose(hook_content(path))
    action = hooks.on_uninstall(owner, chained=chained, same=same(path))
    if action == "remove":
        remove(path)
    elif action == "restore":
        restore(path)
    return Done(path.name, action, path, chained)


KEYS = "^(core[.]comment(char|string)|commit[.]cleanup)$"


def check_messages(world: World, messages: Iterable[tuple[str, str]], only: Sequence[str] = ()) -> Document:
    """One verdict on messages, each with its commit, by all gates of messages or `only` these.

    A finding's path is the commit's id; of a message whose commit is still to be made (``) it is MESSAGE_PATH.
    """
    gates = list(only or plugin.named(MESSAGE_GATES))
    looked = dict.fromkeys(gates, 0)
    found: list[Finding] = []
    count = 0
    for commit, message in messages:
        count += 1
        for gate in gates:
            answer = plugin.ask_of_message(gate, world, message, commit)
            looked[gate] += answer.looked
            found += [one._replace(path=commit[:12].encode()) if commit else one for one in answer.findings]
    asked = [{"name": gate, "looked": looked[gate]} for gate in gates]
    return findings.build(grouped(found), {"messages": count if gates else 0}, scope="message", gates=asked)


def message_in(world: World, name: str) -> tuple[str, str]:
    """The message in a file, of no commit yet; `-` is standard input, as it stands. Raises CannotRun where it cannot be
    read.
    """
    if name == "-":
        return "", sys.stdin.buffer.read().decode("utf-8", "replace")
    return "", committed(world, world.cwd / name).decode("utf-8", "replace")


def messages_of(world: World, wanted: str) -> Iterator[tuple[str, str]]:
    """The commits of a range (`A..B`, or all that one revision has), oldest first, with their messages.

    Raises CannotRun for a range that git does not know.
    """
    for commit in _commits(world, wanted):
        shown = world.git.run("show", "-s", "--no-show-signature", "--format=%B", commit)
        yield commit, shown.out.decode("utf-8", "replace")


def _commits(world: World, wanted: str) -> list[str]:
    """The commits of a range, oldest first."""
    hint = "gate-check --messages origin/main..HEAD"
    if wanted.startswith("-") or not wanted:
        raise CannotRun(f"no range of commits: {wanted!r}", hint=hint)
    listed = world.git.run("rev-list", "--reverse", "--topo-order", wanted, "--", ok=None)
    if listed.status != 0:
        shallow = " (a shallow clone may lack it: fetch-depth: 0)"
        raise CannotRun(f"git knows no range {wanted!r}{shallow}", hint=hint)
    return listed.lines


def committed(world: World, path: Path) -> bytes:
    """The message without what git will drop: what stands under the scissors line, and its comments."""
    try:
        message = files.read(path)
    except FileNotFoundError as error:
        raise CannotRun(
            "no such file", location=os.fsdecode(path), hint="commit-msg is given the message's file"
        ) from error
    told = world.inherited.run("config", "-z", "--get-regexp", KEYS, ok=(0, 1)).nul
    settings = [(key.decode("ascii"), value) for key, _, value in (item.partition(b"\n") for item in told)]
    settings += [("commit.cleanup", mode.encode()) for mode in [cleanup_mode(process.words_of(os.getppid()))] if mode]
    edited = world.env.get("GIT_EDITOR") != ":"  # git says so to its hooks where it opens no editor
    return cut(message, cleanup_of(settings, version(world.env), edited=edited))


def check_pushes(world: World, remote: str, lines: bytes, options: Mapping[str, Any]) -> Document:
    """One verdict on all that is pushed; what is deleted needs none. Raises CannotRun for input that is not git's."""
    pairs = {pair for push in read_pushes(lines) if not push.deletes for pair in [trees(world, push, remote)] if pair}
    with Objects(world.git) as objects:
        return findings.together([_judged(world, objects, tree, base, options) for tree, base in sorted(pairs)])


def _judged(world: World, objects: Objects, tree: str, base: str, options: Mapping[str, Any]) -> Document:
    """By the configuration of what the other side has: a push of foreign work must not run what that work says."""
    known = inputs.tree(world, base or tree).files
    config = configuration.make(options, lambda path: objects.read(known[path][1]) if path in known else None)
    root = config.options.root
    listed = inputs.tree(world, tree)
    trees = (inputs.tree(world, one) for one in (tree, base) if one)
    inputs.fetch_listed(world, trees, root)
    after = judging.read_listed(world, listed, objects, root, judging.reader(world, objects, listed, root))
    before = judging.read_beside(world, inputs.tree(world, base), after, objects, root) if base else None
    return judging.verdict(world, objects, JudgeRequest(after, before, everything=before is None), config)


def trees(world: World, push: Push, remote: str) -> tuple[str, str] | None:
    """The tree that is pushed and the one that the other side has, empty where it has none; None for a lone blob."""
    tree = world.git.resolve(push.local, "tree")
    if tree is None:
        if world.git.run("cat-file", "-e", push.local, ok=(0, 1, 128), twice=(128,)).status != 0:
            raise CannotRun(f"{push.local} is pushed but is not in this repository", hint="git fsck tells more")
        return None
    known = None if push.creates else world.git.resolve(push.remote, "tree")
    return tree, known or _published(world, push.local, remote)


def _published(world: World, local: str, remote: str) -> str:
    """The newest commit below that the remote is known to have, as a tree: a new branch is judged against it."""
    commit = world.git.resolve(local)
    if commit is None:
        return ""
    new = world.git.run("rev-list", "--boundary", commit, "--not", f"--remotes={remote}").lines
    edge = [line[1:] for line in new if line.startswith("-")]
    if not new:
        return world.git.resolve(commit, "tree") or ""  # the other side has it under another name
    if not edge:
        return ""
    best = world.git.run("merge-base", commit, *edge, ok=(0, 1))
    return world.git.resolve(best.lines[0], "tree") or "" if best.lines else ""
