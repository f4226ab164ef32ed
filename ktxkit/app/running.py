"""A job from the command line: what its words name, what it would do, how it goes, and what came of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.app import cli, terminal
from ktxkit.app.rules import plan_text
from ktxkit.app.rules.report_text import render
from ktxkit.base import files, process
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest, printable
from ktxkit.store import jobs
from ktxkit.work.job import prepare
from ktxkit.work.job import run as job
from ktxkit.work.rules.job_file import plan_of

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFile
    from ktxkit.store.world import World

NOTHING = "the job has no units: nothing was done"
SHOWN = 5  # paths in a note
FIRST_LINE = 256  # bytes. Source: Linux, BINPRM_BUF_SIZE
OF_SHELL = frozenset(  # what a shell command may begin with beside a program's name
    {
        "!", "(", ":", "[", "[[", "{", ".", "alias", "break", "case", "cd", "command", "continue", "eval", "exec",
        "exit", "export", "for", "function", "if", "local", "read", "readonly", "return", "set", "shift", "source",
        "test", "times", "trap", "type", "ulimit", "umask", "unset", "until", "wait", "while",
    }
)  # fmt: skip


def _which(word: str) -> str | None:
    """Where PATH has a command."""
    import shutil  # late: it loads every compression there is, and most jobs have a file

    return shutil.which(word)


class RunRequest(NamedTuple):
    """How `git ktx run` is to go on with a job file. `notes` are shown before it starts."""

    dry: bool
    quiet: bool
    as_json: bool
    notes: Sequence[str]


class Scripts:
    """What the words of a command line name. Scripts that the target has run from the unit's own worktree; others are
    run from the checkout, since no unit has them. `notes` says which."""

    def __init__(self, world: World, target: str) -> None:
        self.world, self.target = world, target
        self.uncommitted: list[str] = []
        self.unseen: list[str] = []

    @property
    def notes(self) -> list[str]:
        """What a person should know before anything runs."""
        found = []
        if self.uncommitted:
            found.append(f"not committed, so run from your checkout: {_some(self.uncommitted)}")
        if self.unseen:
            found.append(f"not committed, so no unit sees it: {_some(self.unseen)}; commit it first if it is needed")
        changed = self._changed()
        if changed:
            found.append(
                f"your checkout has changes that are not committed ({_some(changed)}): units do not see them, and what "
                "changes the same file cannot land before they are committed or put away"
            )
        return found

    def names(self, word: str) -> list[str]:
        """The words that a unit's key is made of."""
        return [word] if self._is_file(word) else plan_text.words_of(word)

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command that follows `--`. Raises CannotRun where nothing of that name can be started."""
        first, *rest = words
        self._look_at(rest)
        if self._is_file(first) and ("/" in first or _which(first) is None):
            return self._there([*self._script(first), *rest])
        if _which(first) is None:
            raise self._unknown(first)
        return self._there(list(words))

    def command(self, word: str) -> str | list[str]:
        """One word: a script, or text for the shell. Raises CannotRun where it is neither."""
        if self._is_file(word):
            return self._there(self._script(word))
        words = plan_text.words_of(word)
        if not words:
            raise CannotRun("a unit's command is empty", hint="git ktx run 'CMD' 'CMD'")
        self._look_at(words[1:])
        first = next((one for one in words if not plan_text.ASSIGNMENT.match(one)), "")
        if self._is_file(first) and "/" in first and word.startswith(first):
            return self._there_by_shell(f"{shlex.join(self._script(first))}{word[len(first) :]}")
        known = not first or first in OF_SHELL or not plan_text.PLAIN.fullmatch(first) or self._is_file(first)
        if not known and _which(first) is None:
            raise self._unknown(first)
        return self._there_by_shell(word)

    @property
    def _below(self) -> str:
        """Where the command line stands below the top of the checkout: units run there, too."""
        top = self.world.repository.top
        return os.path.relpath(self.world.cwd, top) if top is not None and top != self.world.cwd else ""

    def _there(self, argv: list[str]) -> list[str]:
        return [*plan_text.IN_DIRECTORY, self._below, *argv] if self._below else argv

    def _there_by_shell(self, text: str) -> str:
        return f"cd {shlex.quote(self._below)} || exit; {text}" if self._below else text

    def _is_file(self, word: str) -> bool:
        try:
            return (self.world.cwd / word).is_file()
        except (OSError, ValueError):
            return False  # too long for a name, or with a NUL: it is no file's

    def _look_at(self, words: Sequence[str]) -> None:
        self.unseen += [word for word in words if self._is_file(word) and self._mode(word) == "" and self._inside(word)]

    def _unknown(self, name: str) -> CannotRun:
        place = self.world.cwd / name
        if place.is_dir():
            return CannotRun(
                f"{printable(name)} is a directory, and no command", hint=f"git ktx run {name.rstrip('/')}/*"
            )
        beside = (
            [str(Path(name).parent / one) for one in _listed(place.parent)] if "/" in name else _listed(place.parent)
        )
        near = nearest(name, [*beside, *([] if "/" in name else _on_path())], 2, 0.75)
        hint = f"did you mean {' or '.join(near)}?" if near else "name a script, or quote a whole shell command"
        return CannotRun(f"no script or command named {printable(name)!r}", hint=hint)

    def _inside(self, word: str) -> str:
        """The path from the top of the checkout; empty for a file outside of it, and in a bare repository."""
        top = self.world.repository.top
        whole = self.world.cwd / word
        place = Path(os.path.realpath(whole.parent)) / whole.name
        return str(place.relative_to(top)) if top is not None and place.is_relative_to(top) else ""

    def _mode(self, word: str) -> str:
        """The mode that the target has for the file, where it has the file as it is in the checkout."""
        path, git = self._inside(word), self.world.git
        if not path:
            return ""
        at = self.world.at(self.world.repository.directory).git
        listed = at.run("ls-tree", "-z", "--full-tree", self.target, "--", path).nul
        same = listed and git.run("diff", "--quiet", "--no-ext-diff", self.target, "--", word, ok=(0, 1)).status == 0
        return os.fsdecode(listed[0].partition(b" ")[0]) if same else ""

    def _script(self, word: str) -> list[str]:
        """How a unit starts it. Raises CannotRun where it is not executable and nothing says what reads it."""
        mode, path = self._mode(word), self.world.cwd / word
        if not mode and self._inside(word):
            self.uncommitted.append(word)
        place = f"./{os.path.normpath(word)}" if mode else str(path)
        if mode == "100755" or (not mode and os.access(path, os.X_OK)):
            return [place]
        try:
            first = files.read_part(path, FIRST_LINE).content.split(b"\n")[0]
        except (OSError, BrokenContract) as error:
            raise CannotRun("it cannot be read", where=str(path), hint="name a script, or a command") from error
        if first.startswith(b"#!"):
            return [*plan_text.words_of(os.fsdecode(first[2:])), place]
        reader = plan_text.INTERPRETERS.get(path.suffix)
        if reader is None:
            raise CannotRun("it is not executable", where=str(path), hint=f"chmod +x {word}, and commit that")
        return [reader, place]

    def _changed(self) -> list[str]:
        repository = self.world.repository
        if repository.top is None or repository.branch(self.world.git) != self.target:
            return []
        told = self.world.git.run("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no").nul
        return [printable(line[3:]) for line in told]


def _some(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"{', '.join(map(printable, known[:SHOWN]))}{more}"


def _listed(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []  # noqa: PTH208


def _on_path() -> list[str]:
    return sorted({name for place in os.get_exec_path() for name in _listed(Path(place or "."))})


def run(world: World, document: JobFile, request: RunRequest) -> cli.Result:
    """Run the job that a command line stands for, or show what it would do."""
    whole = prepare.completed(world, document, "git ktx run")
    if request.dry:
        return planned(world, whole, request.notes)
    progress = terminal.JobProgress(quiet=request.quiet or request.as_json, live=terminal.on_terminal())
    progress.note(request.notes)
    whole["job"] = job.new_job_id(world, "run")
    with progress.shown():
        ended = job.start(world, whole, "", job.RunOptions(progress))
    return told(ended, command="git ktx run")


def planned(world: World, document: JobFile, notes: Sequence[str] = (), limit: int | None = None) -> cli.Result:
    """What a job would do. Raises CannotRun as starting it would: for names, circles, and an unknown target."""
    plan = plan_of(document)
    target = jobs.target_ref(world, plan.target)
    commit = world.git.resolve(target) or ""
    lines = plan_text.plan_lines(plan, target, commit, limit or plan.max_parallel or process.cpu_count())
    return cli.Result(
        lines=lines,
        notes=[f"note: {text}" for text in notes],
        data={"jobFile": dict(document), "target": target, "commit": commit},
    )


def told(ended: job.JobEnd, notes: Sequence[str] = (), *, command: str = "job-run") -> cli.Result:
    """What a job that has ended says. Raises what ended it, where its report does not say it all."""
    if ended.error is not None and not ended.settled:
        raise ended.error
    said = ended.told(command, NOTHING)
    return cli.Result(ended.outcome, ended.report, "report", lines=render(ended.report), notes=[*notes, *said])
