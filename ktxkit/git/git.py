"""git, and nothing else here, is how a repository is read and changed (design, section 6).

Two runners. *Inherit* keeps git's environment and only reads what is being committed. *Scrub* drops every `GIT_*`
variable, since with an inherited GIT_DIR a commit lands on the wrong branch; it pins what could run foreign code or
move content. Paths and patches are bytes from end to end.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from ktxkit.base import process
from ktxkit.base.errors import CannotRun
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
ROOM = 1024 * 1024  # bytes that a git may say before we listen: what a pipe may hold without privileges
_peeled: dict[tuple[str, str, str], str] = {}  # (objects, full id, kind) to what it peels to: that never changes


class GitFailed(CannotRun):
    """git ended with a status that was not expected. Shows argv, status and both streams."""

    def __init__(self, answer: GitResult, hint: str = "") -> None:
        argv = " ".join(printable(part) for part in answer.argv)
        streams = "".join(
            f"\n  {name}: {printable_block(stream)}"
            for name, stream in (("stdout", answer.out[:4000]), ("stderr", answer.err[-4000:]))
            if stream.strip()
        )
        super().__init__(
            f"git {process.ending(answer.status)}: {truncated(argv, 600)}{streams}",
            where=str(answer.cwd),
            hint=hint or _hint(answer.err),
        )
        self.answer = answer


def printable_block(stream: bytes) -> str:
    """Foreign output on our terminal: control characters escaped, lines kept, indented."""
    return "\n    ".join(printable(line) for line in stream.strip().split(b"\n"))


def _hint(err: bytes) -> str:
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

    @property
    def text(self) -> str:
        """stdout without its last newline; bytes that are not UTF-8 survive as surrogates."""
        return self.out.removesuffix(b"\n").decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.out.strip() else []

    @property
    def nul(self) -> list[bytes]:
        """The fields of a NUL-terminated answer."""
        return self.out.removesuffix(b"\0").split(b"\0") if self.out else []


class Begun:
    """A git that is at work while we do something else; in a `with`, one that nobody waited for is ended."""

    def __init__(self, argv: tuple[str, ...], cwd: Path, child: process.Child) -> None:
        self._argv, self._cwd, self._child = argv, cwd, child

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.returncode is None:
            process.end_group(self._child)
            process.end_reader(self._child)

    def answer(self, ok: Collection[int] | None = (0,)) -> GitResult:
        """Wait for its end. Raises GitFailed where the status is not in `ok` (None: any)."""
        out, err = self._child.communicate()
        return expected(GitResult(self._argv, self._cwd, self._child.returncode, out, err), ok)


def expected(answer: GitResult, ok: Collection[int] | None) -> GitResult:
    """The answer, where its status is in `ok` (None: any). Raises GitFailed otherwise."""
    if ok is not None and answer.status not in ok:
        raise GitFailed(answer)
    return answer


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
    ) -> None:
        self.cwd = cwd
        self.env = dict(env)
        self.config = dict(config or {})
        self.fds = tuple(fds)
        self.names = names

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
        return type(self)(cwd, self.env, self.config, self.fds, self.names)

    def having(self, **env: str) -> Git:
        """The same runner with more environment."""
        return type(self)(self.cwd, {**self.env, **env}, self.config, self.fds, self.names)

    def configured(self, **config: str) -> Git:
        """The same runner with more configuration; `core_fsync="x"` is `core.fsync=x`."""
        pairs = {key.replace("_", ".", 1): value for key, value in config.items()}
        return type(self)(self.cwd, self.env, {**self.config, **pairs}, self.fds, self.names)

    def holding(self, fd: int) -> Git:
        """The same runner, whose children keep a descriptor open: a lock on it lasts until they have ended too."""
        return type(self)(self.cwd, self.env, self.config, (*self.fds, fd), self.names)

    def asking(self, names: NameLookup | None) -> Git:
        """The same runner, which asks `names` what refs and ids stand for where that serves its directory."""
        return type(self)(self.cwd, self.env, self.config, self.fds, names)

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
    ) -> GitResult:
        """Run git to its end. Raises GitFailed where the status is not in `ok` (None: any), or at `timeout` seconds."""
        full = {**self.environment(), **(env or {})}
        done = process.run(process.Command(["git", *args], self.cwd, full, timeout, self.fds), stdin=stdin)
        answer = GitResult(done.argv, self.cwd, done.status, done.out, done.err)
        if done.timed_out:
            raise GitFailed(answer, hint=f"it did not end within {timeout} seconds")
        return expected(answer, ok)

    def begin(self, *args: Argument) -> Begun:
        """Start a git that needs no input, and go on; what it says waits in a pipe."""
        argv = ("git", *args)
        child = process.start(process.Command(argv, self.cwd, self.environment(), pass_fds=self.fds), pipesize=ROOM)
        return Begun(tuple(os.fsdecode(word) for word in argv), self.cwd, child)

    def text(self, *args: Argument, env: Mapping[str, str] | None = None) -> str:
        """stdout of a call that must succeed, without its last newline."""
        return self.run(*args, env=env).text

    def ok(self, *args: Argument) -> bool:
        """Whether a call answers 0. Any other status is False: only for questions whose no is a status."""
        return self.run(*args, ok=None).status == 0

    def resolve(self, revision: str, kind: str = "commit") -> str | None:
        """The full id of a revision peeled to `kind`, or None where there is none."""
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
        answer = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{{kind}}}", ok=None)
        return answer.text if answer.status == 0 and answer.out else None

    def start(self, *args: Argument, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """A git that goes on while we talk to it (`cat-file --batch` and its kin)."""
        return process.start(
            process.Command(["git", *args], self.cwd, self.environment(), pass_fds=self.fds), stdin=stdin
        )


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without any `GIT_*` variable, with what must be pinned."""
    kept = {key: value for key, value in environ.items() if not key.startswith("GIT_")}
    return {**kept, **PINNED_ENV}


def for_others(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment for a foreign command in another directory: what would lead its git astray is dropped.

    Identity, SSH and global configuration stay: they are the user's. Source: `git rev-parse --local-env-vars`, which
    misses the last three.
    """
    pairs = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
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
