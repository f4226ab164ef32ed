"""git's hooks of a repository: ours put before what is there, and taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base.errors import CannotRun, Refused
from ktxkit.gates import hook_files
from ktxkit.gates.rules import hooks
from ktxkit.git.git import Git, scrubbed
from ktxkit.store.world import World


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


def place(world: World) -> Path:
    """The repository's own hooks directory. Raises Refused where its hooks are not its own."""
    git = Git(world.cwd, scrubbed(world.env))  # the runners of `world` pin core.hooksPath
    scope, value = hook_files.settings(git)
    directory = hook_files.directory(git)
    own = hook_files.inside(directory, world.repository)
    if own and scope in ("", "local", "worktree"):
        return directory
    why = (
        f"core.hooksPath is set ({scope}: {value})" if scope else "the hooks directory is a link out of the repository"
    )
    calls = "; ".join(f"{name}: {_call(name)}" for name in hooks.HOOKS)
    raise Refused(
        f"{why}: hooks that other repositories share are not changed",
        where=str(directory),
        hint=f"add one line to each hook there ({calls})",
    )


def _call(name: str) -> str:
    """The line that gates in a hook of one's own: the last one of ours."""
    last = hook_files.body(name).decode("ascii").rstrip("\n").rpartition("\n")[2]
    return last[last.index("gate-check") :] + " || exit"


def install(world: World, names: Sequence[str]) -> list[Done]:
    """Put our hooks; a hook that is there is kept and runs first. Raises Refused where one cannot be kept."""
    directory, wanted = place(world), chosen(names)
    with hook_files.alone(directory):
        planned = [_planned(directory / name) for name in wanted]
        _refuse(planned)
        for step in planned:
            if step.action == "chain" and not hook_files.same(step.path):
                hook_files.keep(step.path)
            if step.action != "already":
                hook_files.put(step.path, hooks.stamped(hook_files.body(step.name)))
    return planned


def _refuse(planned: Sequence[Done]) -> None:
    for step in planned:
        if step.action == "refuse":
            raise Refused(
                "a hook was changed since, and one that was there before is kept beside it: nothing was done"
                if step.chained
                else "our hook was edited: nothing was done",
                where=str(step.path),
                hint="move the file away, then install again",
            )


def _planned(path: Path) -> Done:
    content = hook_files.content(path)
    chained = _is_chained(path)
    current = content == hooks.stamped(hook_files.body(path.name))
    action = hooks.on_install(hooks.whose(content), current=current, chained=chained, same=hook_files.same(path))
    return Done(path.name, action, path, chained or action == "chain")


def _is_chained(path: Path) -> bool:
    return hook_files.content(hook_files.chained(path)) is not None


def uninstall(world: World, names: Sequence[str]) -> list[Done]:
    """Take our hooks away and give the ones that were there before their places back, byte for byte."""
    directory, wanted = place(world), chosen(names)
    if not directory.is_dir():
        return [Done(name, "absent", directory / name) for name in wanted]
    with hook_files.alone(directory):
        return [_taken(directory / name) for name in wanted]


def _taken(path: Path) -> Done:
    chained = _is_chained(path)
    owner = hooks.whose(hook_files.content(path))
    action = hooks.on_uninstall(owner, chained=chained, same=hook_files.same(path))
    if action == "remove":
        hook_files.remove(path)
    elif action == "restore":
        hook_files.restore(path)
    return Done(path.name, action, path, chained)
