"""A job from the command line: what its words name, what it would do, how it goes, and what came of it.

A job's plan and the words for it: made of a command line, shown before it runs, written as a job file.

Progress: a live display on a terminal, plain lines elsewhere; on stderr, never among the data.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktxkit.app import cli
from ktxkit.app.rules.report_text import duration, render
from ktxkit.base import files, process
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest, plural, printable
from ktxkit.store import jobs
from ktxkit.store.active import ActiveJob
from ktxkit.work.job import prepare
from ktxkit.work.job import run as job
from ktxkit.work.rules.job_file import PROJECT, RECONCILE, SET_UP, plan_of
from ktxkit.work.rules.report import LANDED, WAITING

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFile, JobUnit
    from ktxkit.store.world import World
    from ktxkit.work.rules.job_file import JobCommand, JobPlan


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


class JobRequest(NamedTuple):
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
        return [*found, *unseen_changes(self.world, self.target)]

    def names(self, word: str) -> list[str]:
        """The words that a unit's key is made of."""
        return [word] if self._is_file(word) else words_of(word)

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
        words = words_of(word)
        if not words:
            raise CannotRun("a unit's command is empty", hint="git ktx run 'CMD' 'CMD'")
        self._look_at(words[1:])
        first = next((one for one in words if not ASSIGNMENT.match(one)), "")
        if self._is_file(first) and "/" in first and word.startswith(first):
            return self.by_shell(f"{shlex.join(self._script(first))}{word[len(first) :]}")
        known = not first or first in OF_SHELL or not PLAIN.fullmatch(first) or self._is_file(first)
        if not known and _which(first) is None:
            raise self._unknown(first)
        return self.by_shell(word)

    @property
    def _below(self) -> str:
        """Where the command line stands below the top: units run there, too. Raises CannotRun if none has that."""
        top, git = self.world.repository.top, self.world.git
        below = os.path.relpath(self.world.cwd, top) if top is not None and top != self.world.cwd else ""
        if below and git.resolve(self.target) and not git.run("ls-tree", "-d", "--full-tree", self.target, below).out:
            raise CannotRun(f"no unit has {printable(below)}/: it is not committed", hint="go to a directory that is")
        return below

    def _there(self, argv: list[str]) -> list[str]:
        return [*IN_DIRECTORY, self._below, *argv] if self._below else argv

    def by_shell(self, text: str) -> str:
        """A text for the shell, run where the command line stands."""
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
            hint = f"git ktx run {shlex.quote(name.rstrip('/'))}/*"
            return CannotRun(f"{printable(name)} is a directory, and no command", hint=hint)
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
            raise CannotRun("it cannot be read", location=str(path), hint="name a script, or a command") from error
        if first.startswith(b"#!"):
            return [*words_of(os.fsdecode(first[2:])), place]
        reader = INTERPRETERS.get(path.suffix)
        if reader is None:
            hint = f"chmod +x {shlex.quote(word)}, and commit that"
            raise CannotRun("it is not executable", location=str(path), hint=hint)
        return [reader, place]


def unseen_by_job(world: World, resumed: str | None, document: JobFile | None) -> list[str]:
    """What a person should know of the checkout before units of a job file, or of a job that is resumed, run."""
    job = ActiveJob.load(world, resumed) if resumed else None
    whole = document or (job.file() if job else None) or {"units": []}
    return unseen_changes(world, job.target if job else whole.get("target", ""), whole.get("units", ()))


def unseen_changes(world: World, target: str, units: Sequence[JobUnit] = ()) -> list[str]:
    """What a person should know of changes in the checkout that units, which begin at the target, do not have."""
    branch = "" if world.repository.top is None else world.repository.branch(world.git)
    if not branch or target not in ("", branch, branch.removeprefix("refs/heads/")):
        return []
    told = world.git.run("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no").nul
    changed = [os.fsdecode(line[3:]) for line in told]
    said = f"your checkout has changes that are not committed ({_some(changed)}): units do not see them, and what "
    said += "changes the same file cannot land before they are committed or put away"
    runs = ([run] if isinstance(run, str) else run for unit in units for run in [unit.get("run", "")])
    named = {os.path.normpath(word) for run in runs for text in run for word in words_of(text)}
    own = [path for path in changed if path in named]
    more = f"units run {_some(own)} as committed, without your changes: commit it first if they are meant"
    return [*([said] * bool(changed)), *([more] * bool(own))]


def _some(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"{', '.join(map(printable, known[:SHOWN]))}{more}"


def _listed(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []  # noqa: PTH208


def _on_path() -> list[str]:
    return sorted({name for place in os.get_exec_path() for name in _listed(Path(place or "."))})


def run(world: World, document: JobFile, request: JobRequest) -> cli.Result:
    """Run the job that a command line stands for, or show what it would do."""
    whole = prepare.completed(world, document, "git ktx run")
    if request.dry:
        return planned(world, whole, request.notes)
    progress = JobProgress(quiet=request.quiet or request.as_json, live=on_terminal())
    progress.note(request.notes)
    whole["job"] = job.new_job_id(world, "run")
    with progress.shown():
        ended = job.start(world, whole, "", job.RunOptions(progress))
    return result_of(ended, command="git ktx run")


def planned(world: World, document: JobFile, notes: Sequence[str] = (), limit: int | None = None) -> cli.Result:
    """What a job would do. Raises CannotRun as starting it would: for names, circles, and an unknown target."""
    plan = plan_of(document)
    target = jobs.target_ref(world, plan.target)
    commit = world.git.resolve(target) or ""
    lines = plan_lines(plan, target, commit, limit or plan.max_parallel or process.cpu_count())
    return cli.Result(
        lines=lines,
        notes=[f"note: {text}" for text in notes],
        data={"jobFile": dict(document), "target": target, "commit": commit},
    )


def result_of(ended: job.JobEnd, notes: Sequence[str] = (), *, command: str = "job-run") -> cli.Result:
    """What a job that has ended says. Raises what ended it, where its report does not say it all."""
    if ended.error is not None and not ended.settled:
        raise ended.error
    said = ended.remarks(command, NOTHING)
    return cli.Result(ended.outcome, ended.report, "report", lines=render(ended.report), notes=[*notes, *said])


IN_DIRECTORY: Final = ("/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh")  # then the directory, and argv
KEY_LENGTH = 40  # characters of a key that is made of a command's words
COMMAND_SHOWN = 100  # characters of a command in a plan
SUFFIXES = (".sh", ".bash", ".py", ".js", ".ts", ".rb", ".pl")  # of scripts: no part of a key
RUNNERS: Final = frozenset(  # what runs a script that is named after it
    {
        "bash", "bun", "deno", "env", "exec", "node", "npx", "perl", "python", "python3", "ruby", "run", "sh", "time",
        "uv",
    }
)  # fmt: skip
SHELLS = ("sh", "bash", "dash", "zsh")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./=-]+)*")
NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # of YAML 1.1 and 1.2
INTERPRETERS: Final = {".sh": "sh", ".bash": "bash", ".py": "python3", ".js": "node", ".rb": "ruby", ".pl": "perl"}


def words_of(command: str) -> list[str]:
    """The words of a shell command, as far as they can be told; the text itself where its quotes do not close."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def key_of(words: Sequence[str]) -> str:
    """A unit's key from its command: `rename` of `python codemods/rename.py --all`, `sed` of `sed -i s/a/b/ f`."""
    plain = [word for word in words if not ASSIGNMENT.match(word)]
    if len(plain) > 2 and plain[1] == "-c" and plain[0].rpartition("/")[2] in SHELLS:
        return key_of(words_of(plain[2]))
    named = [word for word in plain if word.rpartition("/")[2] not in RUNNERS and not word.startswith("-")]
    first = (named or plain or ["unit"])[0].rstrip("/").rpartition("/")[2]
    stem = next((first.removesuffix(end) for end in SUFFIXES if first.endswith(end) and first != end), first)
    return _clean(stem)


def _clean(text: str) -> str:
    key = UNSAFE.sub("-", text).strip(".-")[:KEY_LENGTH].rstrip(".-")
    return f"{key}-1" if key in (PROJECT, RECONCILE) else key or "unit"


def keys_of(commands: Sequence[Sequence[str]]) -> list[str]:
    """A key for each command. Where two have the same, their paths tell them apart, else a number."""
    keys = [key_of(words) for words in commands]
    often = Counter(keys)
    longer = [
        _clean("-".join(words[0].removeprefix("./").rpartition(".")[0].split("/")[-2:])) if often[key] > 1 else key
        for key, words in zip(keys, commands, strict=True)
    ]
    scripts = all("/" in words[0] for words in commands)
    best = longer if scripts and len(set(longer)) == len(longer) else keys
    seen: Counter[str] = Counter()
    found = []
    for key in best:
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return found if len(set(found)) == len(found) else [f"{key}-{at}" for at, key in enumerate(best, start=1)]


def shown_command(command: str | Sequence[str] | JobCommand) -> str:
    """A command as it would be typed, in one line."""
    words = [command] if isinstance(command, str) else list(getattr(command, "argv", command))
    if (
        words[:2] == ["/bin/sh", "-c"]
        and words[3:4] == ["sh"]
        and words[2].endswith(SET_UP.partition("\n")[2].format())
    ):
        words = words[4:]  # behind the setup
    if tuple(words[: len(IN_DIRECTORY)]) == IN_DIRECTORY:
        words = [f"cd {shlex.quote(words[4])} && {shlex.join(words[5:])}"]
    if words[:2] == ["/bin/sh", "-c"] and len(words) == 3:
        words = words[2:]
    text = printable(words[0] if len(words) == 1 else shlex.join(words))
    return text if len(text) <= COMMAND_SHOWN else f"{text[: COMMAND_SHOWN - 3]}..."


def plan_lines(plan: JobPlan, target: str, commit: str, limit: int) -> list[str]:
    """What a job would do: its units in the order in which they are integrated, and what is around them."""
    where = f"{printable(target.removeprefix('refs/heads/'))} (now at {commit[:12]})"
    lines = [f"{plural(len(plan.units), 'unit')}, {limit} at a time, to land on {where}:"]
    wide = max((len(printable(unit.key)) for unit in plan.units), default=0)
    lines += [f"  first      {shown_command(plan.project)}"] if plan.project else []
    lines += [f"  planned by {shown_command(plan.plan)}"] if plan.plan else []
    for number, unit in enumerate(plan.units, start=1):
        after = f"  (after {', '.join(unit.after)})" if unit.after and unit.key != RECONCILE else ""
        lines.append(f"{number:>5}  {printable(unit.key):<{wide}}  {shown_command(unit.step)}{printable(after)}")
    setup = plan.document.get("setup")
    lines += [f"set up, each worktree: {shown_command(setup)}"] if setup else []
    lines += [f"verified, each and all: {shown_command(plan.verify)}"] if plan.verify else []
    return [*lines, "Nothing was run."]


def job_text(document: JobFile, command: str) -> str:
    """The document as a job file in YAML; `command` is what it stands for."""
    said = [f"# What `{printable(command)}` runs. job-run takes it; `git ktx help job-file` has every key."]
    rest: Mapping[str, Any] = {key: value for key, value in document.items() if key not in ("schemaVersion", "units")}
    said += [f"{key}: {_scalar(value)}" for key, value in rest.items()]
    said.append("units:")
    for unit in document["units"]:
        said += [f"  - {_pair('key', unit)}", f"    {_pair('run', unit)}"]
    return "\n".join(said) + "\n"


def _pair(key: str, unit: JobUnit) -> str:
    value: Any = unit["key"] if key == "key" else unit.get("run")
    return f"{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A value in YAML: plain where that means the same text, else as JSON, which YAML 1.2 takes."""
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in NOT_TEXT:
        return value
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) if _is_simple(item) else json.dumps(item) for item in value)}]"
    return json.dumps(value)


def _is_simple(item: Any) -> bool:
    return isinstance(item, str) and " " not in item


NAMES_SHOWN = 6  # running units named in the display
REFRESHES = 4  # of the display in a second
STYLES = {"good": "green", "bad": "red", "other": "yellow"}
STEPS = {"verifying": "verifying", "gates_started": "the final gates", "landing_started": "landing"}


def tone(outcome: str) -> str:
    """Whether a unit's outcome is `good`, `bad`, or `other` (nothing of it was tried)."""
    return "good" if outcome in LANDED else "other" if outcome in (*WAITING, "skipped", "interrupted") else "bad"


class JobProgress:
    """What a job has done so far; called from its threads' owner with an event name and facts."""

    def __init__(self, *, quiet: bool, live: bool) -> None:
        self.job = ""
        self.total = 0
        self.quiet = quiet
        self.running: dict[str, float] = {}  # units at work, and since when
        self.step = ""  # what the job itself does
        self.settled: Counter[str] = Counter()
        self._began = time.monotonic()
        self._display: Any = None
        self._live = live and not quiet

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        unit = str(facts.get("unit", ""))
        self.step = f"{STEPS[event]} {printable(unit)}".rstrip() if event in STEPS else ""
        if event == "job_started":
            self.job, self.total = str(facts["job"]), int(facts["units"])
        elif event == "unit_started":
            self.running[unit] = time.monotonic()
        elif event == "unit_ended":
            self.running.pop(unit, None)
        elif event == "job_stopping":
            at_work = f"{plural(len(self.running), 'unit')} at work {'is' if len(self.running) == 1 else 'are'} ended; "
            self._line(f"stopping: {at_work if self.running else ''}what has finished is kept")
        elif event == "unit_settled":
            self.settled[str(facts["outcome"])] += 1
            if "before" not in facts:  # an earlier execution has told of it
                self._settled(unit, facts)

    def note(self, lines: Sequence[str]) -> None:
        """Say what is to be known before it begins."""
        for text in lines:
            self._line(f"note: {text}")

    def _settled(self, unit: str, facts: Mapping[str, Any]) -> None:
        """One line for a unit that has its outcome: which, how long its command took, and why."""
        outcome = str(facts["outcome"])
        took = f" ({duration(facts['ms'])})" if "ms" in facts else ""
        why = f": {facts['reason']}" if facts.get("reason") else ""
        word = outcome.replace("_", " ")
        place = f"[{sum(self.settled.values())}/{self.total}] "
        self._line(f"{place}{word:<18} {printable(unit)}{took}{why}", (len(place), len(word), STYLES[tone(outcome)]))

    def text(self) -> str:
        """The display: counts by outcome, then who is at work and for how long, and what the job does."""
        now = time.monotonic()
        counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in sorted(self.settled.items()))
        head = f"{sum(self.settled.values())} of {plural(self.total, 'unit')}: {counts or 'none ended yet'}"
        lines = [f"{head}; {duration(1000 * (now - self._began))}"]
        shown = [f"{printable(name)} {now - since:.0f} s" for name, since in [*self.running.items()][:NAMES_SHOWN]]
        more = f" and {len(self.running) - NAMES_SHOWN} more" if len(self.running) > NAMES_SHOWN else ""
        lines += [f"working: {', '.join(shown)}{more}"] if shown else []
        return "\n".join([*lines, *([f"now: {self.step}"] if self.step else [])])

    def _line(self, text: str, styled: tuple[int, int, str] | None = None) -> None:
        """One line; above the display where there is one. `styled`: from where, how many characters, in what style."""
        if self.quiet:
            return
        if self._display is not None:
            self._display.say(text, styled)
            return
        encoding = sys.stderr.encoding or "ascii"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stderr.flush()

    @contextmanager
    def shown(self) -> Iterator[JobProgress]:
        """Show the display for the block, where there is a terminal for it."""
        if not self._live:
            yield self
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        class Shown(Live):
            def say(self, line: str, styled: tuple[int, int, str] | None) -> None:
                made = Text(line)
                if styled is not None:
                    made.stylize(styled[2], styled[0], styled[0] + styled[1])
                self.console.print(made, soft_wrap=True)

        console = Console(stderr=True, highlight=False)
        with Shown(
            console=console,
            transient=True,
            get_renderable=lambda: Text(self.text()),
            refresh_per_second=REFRESHES,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as display:
            self._display = display
            try:
                yield self
            finally:
                self._display = None


def on_terminal() -> bool:
    """Whether stderr is a terminal that can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
