"""git, and nothing else here, is how a repository is read and changed (design, section 6).

Two runners. *Inherit* keeps git's environment and only reads what is being committed. *Scrub* drops every `GIT_*`
variable, since with an inherited GIT_DIR a commit lands on the wrong branch; it pins what could run foreign code or
move content. Paths and patches are bytes from end to end.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktxkit.base import process
from ktxkit.base import process as pipes
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable, truncated

MINIMUM = (2, 38)  # merge-tree --write-tree
Argument = str | bytes | os.PathLike[str]

PINNED_CONFIG = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "submodule.recurse": "false",
    "diff.orderFile": "/dev/null",  # one that is missing makes even `git status` fail
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
}
PINNED_ENV = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": ":",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


REPOSITORY_ENV = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
        "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE",
        "GIT_COMMON_DIR", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_EXTERNAL_DIFF",
        "GIT_DIFF_OPTS",
    }
)  # fmt: skip


FULL_ID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
ANSWERED = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64}|refs/[^\x00-\x20\x7f~^:?*\[\\@{}]+)\Z")  # ids and full refs
PEELED_KEPT = 20_000
LONGEST = 6 * 3600.0  # seconds that any git of ours may take: a checkout of a very large tree by slow filters is one
ROOM = 1024 * 1024  # bytes that a git may say before we listen: what a pipe may hold without privileges
_peeled: dict[tuple[str, str, str], str] = {}  # (objects, full id, kind) to what it peels to: that never changes

# How a git ended that gave no answer: the one place that tells these from an answer. What git says is matched in the C
# locale, in which every git of ours runs. Source: strerror(3), usage.c, wrapper.c, lockfile.c, read-cache.c and
# csum-file.c in git.
KILLED_BY = (4, 6, 7, 8, 9, 11, 15, 24, 25, 31)  # signals; 128 and one of these: a shell's or git's child was killed
# What the kernel refuses a process for want of something that no unit owns.
REFUSALS = (
    "No space left on device", "Disk quota exceeded", "Too many open files", "Too many open files in system",
    "Cannot allocate memory", "Resource temporarily unavailable", "Input/output error", "Read-only file system",
    "No such device", "No such device or address", "File too large", "Stale file handle", "Too many users",
)  # fmt: skip
_REFUSED = rb": (?:" + b"|".join(text.encode() for text in REFUSALS) + rb")\s*$"
_UNWRITTEN = (
    rb"^(?:fatal|error|warning): (?:(?:unable to|could not|failed to) write|write error|.* write error. Out of disk)"
    rb"|error while loading shared libraries: .*: Error 24$"
    rb"|^(?:fatal: )?[Oo]ut of memory|^fatal: .*: unable to create thread"
)
LOCKED = re.compile(rb"Unable to create '(/[^\n']+\.lock)': File exists")
OF_A_WORKTREE = re.compile(rb"/worktrees/[^/]+/[^/]+\.lock\Z")  # only who works in that checkout can hold it


def killed(status: int) -> bool:
    """Whether a signal ended it, or a child of its own. `status` is negative for a signal, as subprocess has it."""
    return status < 0 or status - 128 in KILLED_BY


def exhausted(err: bytes) -> bool:
    """Whether git says that the machine refused it space, descriptors, memory or a device."""
    # Compiled when the first git fails: most jobs see none.
    return re.search(_REFUSED, err, re.M) is not None or re.search(_UNWRITTEN, err, re.M) is not None


def lock_in_the_way(err: bytes) -> str:
    """The lock that git says another one holds, as a path with surrogates; empty where it says nothing of one."""
    found = LOCKED.search(err)
    return found[1].decode("utf-8", "surrogateescape") if found else ""


def no_answer(status: int, err: bytes) -> bool:
    """Whether it says nothing of what was asked: our own machinery failed, and nobody may be judged by it.

    A lock in the git directory of one worktree is of whoever works there: that is said of the worktree.
    """
    if status == 0:
        return False
    lock = LOCKED.search(err)
    if lock is not None:
        return OF_A_WORKTREE.search(lock[1]) is None
    return killed(status) or exhausted(err)


# Seconds before a git that gave no answer is asked again, where asking twice does no harm; one that failed is asked
# once more, at once: what it stumbled over may have been put back.
PAUSES = (0.05, 0.5)


class GitFailed(CannotRun):
    """git ended with a status that was not expected, or gave no answer (`machinery`: it was killed, the disk is full,
    another git holds a lock). Shows argv, status and both streams."""

    def __init__(self, answer: GitResult, hint: str = "", *, machinery: bool = False) -> None:
        argv = " ".join(printable(part) for part in answer.argv)
        streams = "".join(
            f"\n  {name}: {printable_block(stream)}"
            for name, stream in (("stdout", answer.out[:4000]), ("stderr", answer.err[-4000:]))
            if stream.strip()
        )
        how = f"waited to open the pipe {printable(answer.pipe)} and " if answer.pipe else ""
        super().__init__(
            f"git {how}{process.ending(answer.status)}: {truncated(argv, 600)}{streams}",
            location=str(answer.cwd),
            hint=hint or _hint(answer),
            machinery=machinery or (answer.no_answer and not answer.of_checkout),
        )
        self.answer = answer


class OutOfTime(Refused):
    """What was to end by some moment did not: whoever set it (`Git.within`) says what for."""


def printable_block(stream: bytes) -> str:
    """Foreign output on our terminal: control characters escaped, lines kept, indented."""
    return "\n    ".join(printable(line) for line in stream.strip().split(b"\n"))


def _hint(answer: GitResult) -> str:
    err = answer.err
    if answer.pipe:
        return "nobody writes to that pipe: remove it"
    if killed(answer.status):
        return "somebody killed it, or the kernel did for want of memory: run it again"
    if lock_in_the_way(err):
        return "wait for the git that holds it; a lock that no process holds any more is removed by hand"
    if b"dubious ownership" in err:
        return "git refuses this repository: it is owned by someone else; see safe.directory in git-config(1)"
    if b"not a git repository" in err:
        return "run this inside a git repository, or name one with -C DIR"
    if b"No space left on device" in err or b"quota exceeded" in err:
        return "the disk is full: make room, then run it again"
    if b"Read-only file system" in err or b"Permission denied" in err:
        return "make it writable for you, then run it again"
    return "see what git says there; free space, permissions and `git fsck` tell most causes"


class GitResult(NamedTuple):
    """What git said."""

    argv: tuple[str, ...]
    cwd: Path
    status: int
    out: bytes
    err: bytes
    pipe: str = ""  # that it waited for until it was ended

    @property
    def of_checkout(self) -> bool:
        """Whether a pipe that it waited for stands among the files of the checkout that it ran in: whoever works
        there made it. Its git directory is everybody's."""
        inside = Path(os.path.relpath(self.cwd / self.pipe, self.cwd)).parts
        return bool(self.pipe) and self.pipe != "?" and inside[0] not in (os.pardir, ".git")

    @property
    def no_answer(self) -> bool:
        """Whether our own machinery failed, so that the status says nothing of what was asked."""
        return no_answer(self.status, self.err)

    @property
    def text(self) -> str:
        """stdout without its last newline; bytes that are not UTF-8 survive as surrogates."""
        return self.out.removesuffix(b"\n").decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.out.strip() else []

    def is_among(self, ok: Collection[int] | None) -> bool:
        """Whether it is an answer, with one of those statuses (None: any)."""
        return not self.no_answer and (ok is None or self.status in ok)

    @property
    def nul(self) -> list[bytes]:
        """The fields of a NUL-terminated answer."""
        return self.out.removesuffix(b"\0").split(b"\0") if self.out else []


class Begun:
    """A git that is at work while we do something else; in a `with`, one that nobody waited for is ended."""

    def __init__(self, git: Git, args: Sequence[Argument], child: process.Child) -> None:
        self.git, self._args, self._child = git, args, child

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.returncode is None:
            process.end_group(self._child)
            process.end_reader(self._child)

    def answer(self, ok: Collection[int] | None = (0,)) -> GitResult:
        """Wait for its end. Raises GitFailed where the status is not in `ok` (None: any), or is no answer."""
        try:
            out, err = self._child.communicate(timeout=LONGEST)
        except process.DeadlinePassed:
            process.end_group(self._child)
            out, err = self._child.communicate()
        argv = tuple(os.fsdecode(word) for word in ("git", *self._args))
        told = GitResult(argv, self.git.cwd, self._child.returncode, out, err, pipes.pipe_of(self._child.pid))
        return told if told.is_among(ok) else self.git.tried_twice(told, self._args, ok)


class NameLookup(Protocol):
    """Answers what names stand for without a process for each question (`ktxkit.git.objects.RunReader`)."""

    def serves(self, cwd: Path) -> bool: ...

    def find(self, name: str) -> tuple[str, str, int] | None: ...


class Git:
    """A runner bound to a directory and an environment."""

    def __init__(
        self,
        cwd: Path,
        env: Mapping[str, str],
        config: Mapping[str, str] | None = None,
        fds: Collection[int] = (),
        names: NameLookup | None = None,
        until: float | None = None,
    ) -> None:
        self.cwd = cwd
        self.env = dict(env)
        self.config = dict(config or {})
        self.fds = tuple(fds)
        self.names = names
        self.until = until

    @classmethod
    def scrub(cls, cwd: Path, environ: Mapping[str, str]) -> Git:
        """For everything that changes anything: git's variables dropped, dangerous configuration pinned."""
        return cls(cwd, scrubbed(environ), PINNED_CONFIG)

    @classmethod
    def inherit(cls, cwd: Path, environ: Mapping[str, str]) -> Git:
        """Only to read what is being committed: GIT_INDEX_FILE and its kin are kept."""
        return cls(cwd, {**environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"})

    def at(self, cwd: Path) -> Git:
        """The same runner in another directory."""
        return type(self)(cwd, self.env, self.config, self.fds, self.names, self.until)

    def having(self, **env: str) -> Git:
        """The same runner with more environment."""
        return type(self)(self.cwd, {**self.env, **env}, self.config, self.fds, self.names, self.until)

    def configured(self, **config: str) -> Git:
        """The same runner with more configuration; `core_fsync="x"` is `core.fsync=x`."""
        pairs = {key.replace("_", ".", 1): value for key, value in config.items()}
        return type(self)(self.cwd, self.env, {**self.config, **pairs}, self.fds, self.names, self.until)

    def holding(self, fd: int) -> Git:
        """The same runner, whose children keep a descriptor open: a lock on it lasts until they have ended too."""
        return type(self)(self.cwd, self.env, self.config, (*self.fds, fd), self.names, self.until)

    def asking(self, names: NameLookup | None) -> Git:
        """The same runner, which asks `names` what refs and ids stand for where that serves its directory."""
        return type(self)(self.cwd, self.env, self.config, self.fds, names, self.until)

    def within(self, until: float | None) -> Git:
        """The same runner, whose calls raise OutOfTime at that moment of the monotonic clock (None: they have time)."""
        return type(self)(self.cwd, self.env, self.config, self.fds, self.names, until)

    def environment(self) -> dict[str, str]:
        """The environment of a call: the pinned configuration goes in through GIT_CONFIG_COUNT, argv stays readable."""
        pairs = {}
        for number, (key, value) in enumerate(self.config.items()):
            pairs[f"GIT_CONFIG_KEY_{number}"] = key
            pairs[f"GIT_CONFIG_VALUE_{number}"] = value
        count = {"GIT_CONFIG_COUNT": str(len(self.config))} if self.config else {}
        return {**self.env, **count, **pairs}

    def run(
        self,
        *args: Argument,
        stdin: bytes | None = None,
        ok: Collection[int] | None = (0,),
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        twice: Collection[int] = (),
    ) -> GitResult:
        """Run git to its end. Raises GitFailed where the status is not in `ok` (None: any), at `timeout` seconds, and
        where it gave no answer (it was killed, the disk is full), whatever `ok` is.

        What may be asked twice is asked again before that. `twice`: statuses that git has for a no and for failures,
        believed where a second try ends so too.
        """
        answer = self.attempt(*args, stdin=stdin, env=env, timeout=timeout)
        if answer.status in twice:
            answer = self.attempt(*args, stdin=stdin, env=env, timeout=timeout)
        return answer if answer.is_among(ok) else self.tried_twice(answer, args, ok, stdin=stdin, env=env)

    def attempt(
        self,
        *args: Argument,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> GitResult:
        """Run git to its end, once; how it ended is the caller's to judge. Raises GitFailed at `timeout` seconds."""
        full = {**self.environment(), **(env or {})}
        limit = LONGEST if timeout is None else timeout
        left = limit if self.until is None else self.until - time.monotonic()
        if left < limit:
            limit = max(0.0, left)
        done = process.run(process.Command(["git", *args], self.cwd, full, limit, self.fds, no_pipes=True), stdin=stdin)
        answer = GitResult(done.argv, self.cwd, done.status, done.out, done.err, done.pipe)
        if done.timed_out and left <= limit:
            raise OutOfTime(
                f"git {printable(answer.argv[1])} would take longer than there is time", location=str(self.cwd)
            )
        if done.timed_out:
            raise GitFailed(answer, hint=f"it did not end within {limit:g} seconds")
        return answer

    def tried_twice(
        self,
        answer: GitResult,
        args: Sequence[Argument],
        ok: Collection[int] | None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> GitResult:
        """The answer of a git that failed, or gave none, asked anew. Raises GitFailed where it is none of `ok`."""
        index = {**self.env, **(env or {})}.get("GIT_INDEX_FILE", "")
        if repeatable(args, own_index=bool(index)) and not answer.of_checkout:
            for pause in PAUSES if answer.no_answer else (0.0,):
                time.sleep(pause)
                if index and killed(answer.status):
                    Path(f"{index}.lock").unlink(missing_ok=True)  # ours alone: it left it
                answer = self.attempt(*args, stdin=stdin, env=env)
                if answer.is_among(ok):
                    return answer
        raise GitFailed(answer)

    def begin(self, *args: Argument) -> Begun:
        """Start a git that needs no input, and go on; what it says waits in a pipe."""
        command = process.Command(["git", *args], self.cwd, self.environment(), LONGEST, self.fds, no_pipes=True)
        return Begun(self, args, process.start(command, pipesize=ROOM))

    def text(self, *args: Argument, env: Mapping[str, str] | None = None) -> str:
        """stdout of a call that must succeed, without its last newline."""
        return self.run(*args, env=env).text

    def ok(self, *args: Argument) -> bool:
        """Whether a call answers 0, not 1. Raises GitFailed for any other status: that is no answer."""
        return self.run(*args, ok=(0, 1)).status == 0

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether a commit is another one, or in its history; False where one of them is absent. Raises GitFailed."""
        answer = self.run("merge-base", "--is-ancestor", old, new, ok=(0, 1, 128), twice=(128,))
        if answer.status == 128 and self.resolve(old) is not None and self.resolve(new) is not None:
            raise GitFailed(answer)
        return answer.status == 0

    def resolve(self, revision: str, kind: str = "commit") -> str | None:
        """The full id of a revision peeled to `kind`, or None where there is none. Raises GitFailed where git could
        not tell: a ref that was not read is not one that is absent."""
        if revision.startswith("-"):
            return None
        asked = (self.env.get("GIT_OBJECT_DIRECTORY") or str(self.cwd), revision, kind)
        if asked in _peeled:
            return _peeled[asked]
        found = self._peeled(revision, kind)
        if found is not None and FULL_ID.fullmatch(revision):
            if len(_peeled) >= PEELED_KEPT:
                _peeled.clear()
            _peeled[asked] = found
        return found

    def _peeled(self, revision: str, kind: str) -> str | None:
        if self.names is not None and ANSWERED.fullmatch(revision) and self.names.serves(self.cwd):
            known = self.names.find(f"{revision}^{{{kind}}}")
            return known[0] if known is not None else None
        absent = (1, 128) if "@{" in revision else (1,)  # git ends so for a reflog entry or an upstream that is none
        name = f"{revision}^{{{kind}}}"
        answer = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, *absent), twice=(128,))
        return answer.text if answer.status == 0 and answer.out else None

    def start(self, *args: Argument, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """A git that goes on while we talk to it (`cat-file --batch` and its kin)."""
        return process.start(
            process.Command(["git", *args], self.cwd, self.environment(), pass_fds=self.fds, no_pipes=True), stdin=stdin
        )


# Those that change nothing, or only add objects, whose names are their content: asking twice is asking once.
READERS = frozenset(
    {
        "cat-file", "check-attr", "check-ignore", "check-ref-format", "commit-tree", "diff", "diff-files", "diff-index",
        "diff-tree", "for-each-ref", "hash-object", "log", "ls-files", "ls-tree", "merge-base", "merge-tree", "mktree",
        "rev-list", "rev-parse", "show", "status", "var",
    }
)  # fmt: skip
OF_AN_INDEX = frozenset({"add", "read-tree", "update-index", "write-tree"})  # the same, where the index is our own
CHANGES_CONFIG = {"--unset", "--unset-all", "--remove-section"}
NOT_TWICE = {"commit-tree": {"-S"}, "config": CHANGES_CONFIG, "symbolic-ref": {"-m", "-d"}}  # signing asks a person


def repeatable(args: Sequence[Argument], *, own_index: bool) -> bool:
    """Whether a git may be asked twice. `own_index`: it works on an index that only we have."""
    words = [os.fsdecode(word) for word in args]
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in ("-c", "-C") else 1]
    if not words or NOT_TWICE.get(words[0], set()) & set(words):
        return False
    if words[0] in ("config", "symbolic-ref"):  # with a second name they write
        return sum(not word.startswith("-") for word in words[1:]) <= 1
    return words[0] in READERS or (words[0] in OF_AN_INDEX and own_index)


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without any `GIT_*` variable, with what must be pinned."""
    kept = {key: value for key, value in environ.items() if not key.startswith("GIT_")}
    return {**kept, **PINNED_ENV}


def for_others(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment for a foreign command in another directory: what would lead its git astray is dropped.

    The dates of a surrounding git (a hook's) are not those of what is made now. Identity, SSH and global configuration
    stay: they are the user's. Source: `git rev-parse --local-env-vars`, which misses the last three.
    """
    pairs = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")
    return {key: value for key, value in environ.items() if key not in REPOSITORY_ENV and not key.startswith(pairs)}


def version(environ: Mapping[str, str]) -> tuple[int, ...]:
    """git's version, the leading numbers of it. Raises CannotRun where there is no git."""
    answer = process.run(process.Command(["git", "--version"], Path("/"), scrubbed(environ)))
    words = answer.out.split()
    numbers: list[int] = []
    for part in words[2].split(b".") if len(words) > 2 else []:
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


_versions: dict[str | None, tuple[int, ...]] = {}  # by PATH: a process asks once


def require_version(environ: Mapping[str, str]) -> tuple[int, ...]:
    """The version, where it is new enough. Raises CannotRun otherwise."""
    path = environ.get("PATH")
    found = _versions.get(path) or _versions.setdefault(path, version(environ))
    if found < MINIMUM:
        raise CannotRun(
            f"git {'.'.join(map(str, found)) or '(unknown version)'} is too old",
            hint=f"git >= {MINIMUM[0]}.{MINIMUM[1]} is needed (merge-tree --write-tree)",
        )
    return found
