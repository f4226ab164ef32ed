"""What kind of repository this is: asked of git once, never guessed from `.git/...` joins.

The remote: which branch is its default, and fetching, which may fail without stopping anything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest, printable
from ktxkit.git.git import Begun, Git, GitFailed, GitResult

PLAIN_HEAD = re.compile(rb"ref: refs/heads/[^\x00-\x20\x7f~^:?*\[\\]+\n")
SMALL = 65536  # bytes of a file of git's that names one thing
NO_FILES_BACKEND = b"ref: refs/heads/.invalid\n"
if TYPE_CHECKING:
    from ktxkit.base.documents import ObjectFormat


class Repository(NamedTuple):
    """Facts of the repository that a directory belongs to. Paths are absolute and resolved."""

    top: Path | None  # top level of the checkout we stand in; None in a bare repository
    git_dir: Path  # of this checkout (`.git/worktrees/NAME` in a linked worktree)
    common_dir: Path  # shared by all worktrees
    bare: bool
    object_format: ObjectFormat  # sha1 or sha256
    superproject: Path | None  # where this is a submodule

    @property
    def linked(self) -> bool:
        """In a linked worktree: its own git dir differs from the common one."""
        return self.git_dir != self.common_dir

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"

    @property
    def zero(self) -> str:
        """The id that means "no object"."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    @property
    def default_store(self) -> Path:
        """Where `.ktx/` is without KTX_DIR (design, section 4)."""
        if self.superproject is not None and self.top is not None and not self.linked:
            return self.top / ".ktx"
        if self.common_dir.name == ".git" and not self._common_is_bare():
            return self.common_dir.parent / ".ktx"
        return self.common_dir / "ktx"

    def _common_is_bare(self) -> bool:
        return self.bare and not self.linked

    def branch(self, git: Git) -> str | None:
        """The full ref that HEAD of this checkout names, born or not; None where HEAD is detached.

        Read from its file where that says it plainly (gitrepository-layout(5), "HEAD"); a reftable repository has a
        branch there that cannot be, and git is asked, as it is of a link (core.preferSymlinkRefs).
        """
        head = self.git_dir / "HEAD"
        said = files.read(head, SMALL) if not head.is_symlink() else b""
        if PLAIN_HEAD.fullmatch(said) and said != NO_FILES_BACKEND:
            return os.fsdecode(said[5:-1])
        answer = git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1, 128), twice=(128,))
        return answer.text if answer.status == 0 else None

    @property
    def directory(self) -> Path:
        """A directory to run git in."""
        return self.top or self.git_dir


def question(git: Git) -> Begun:
    """The question after the facts, all in one call."""
    facts = ("--absolute-git-dir", "--git-common-dir", "--is-bare-repository", "--show-object-format")
    inside = ("--is-inside-work-tree", "--show-toplevel", "--is-inside-git-dir", "--show-superproject-working-tree")
    return git.begin("rev-parse", "--path-format=absolute", *facts, *inside)


def discover(query: Begun) -> Repository:
    """The facts, as git answers. Raises CannotRun outside a repository or where git refuses it (safe.directory)."""
    answer = query.answer(ok=None)
    lines = answer.lines
    within = lines[4:5] == ["true"]  # else the next question ends it with 128, after the answers that are wanted
    if answer.status != 0 and (within or len(lines) != 5 or lines[4] != "false"):
        raise _none(answer) or GitFailed(answer)
    if (within and (len(lines) not in (7, 8) or lines[6] != "false")) or lines[2] not in ("true", "false"):
        raise CannotRun(
            "the repository's path holds a line break", location=str(answer.cwd), hint="move the repository"
        )
    top, outer = (lines[5], "".join(lines[7:])) if within else ("", "")
    return Repository(
        top=_real(top) if top else None,
        git_dir=_real(lines[0]),
        common_dir=_real(lines[1]),
        bare=lines[2] == "true",
        object_format="sha256" if lines[3] == "sha256" else "sha1",
        superproject=_real(outer) if outer else None,
    )


def _none(answer: GitResult) -> CannotRun | None:
    """Outside of any repository, or where `.git` names one that is not there; None where git says something else."""
    said = answer.err.partition(b"fatal: not a git repository")
    if not said[1]:
        return None
    named = said[2].partition(b"\n")[0]
    if named.startswith(b": "):
        hint = "`git worktree repair` in the repository mends a checkout that was moved; -C DIR names another place"
        return CannotRun(f"not a git repository{printable(named)}", location=str(answer.cwd), hint=hint)
    hint = "run this inside a git repository, or name one with -C DIR; `git init` makes one"
    return CannotRun("not a git repository", location=str(answer.cwd), hint=hint)


def _real(text: str) -> Path:
    return Path(os.path.realpath(os.fsencode(text).decode("utf-8", "surrogateescape")))


PATIENCE = 30.0  # seconds that a fetch may take
# What git needs of the caller's environment to reach a remote; everything else of git's stays scrubbed.
REACH = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_NO_VERIFY",
)
QUIET = {"GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}


def default_branch(git: Git, remote: str = "origin") -> str:
    """The full ref of the remote's default branch as this repository knows it, or ""."""
    answer = git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", ok=(0, 1))
    return answer.text if answer.status == 0 else ""


def exists(git: Git, remote: str = "origin") -> bool:
    """Whether the repository has such a remote."""
    return git.ok("config", "--get-regexp", rf"^remote\.{remote}\.url$")


def fetch(git: Git, refspec: str, environ: Mapping[str, str], remote: str = "origin") -> str:
    """Fetch one refspec, without tags and FETCH_HEAD; returns why it failed, or "". Asks nobody anything."""
    reach = {key: environ[key] for key in REACH if key in environ}
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
    try:
        answer = git.run(
            "fetch", *options, "--end-of-options", remote, refspec, env={**QUIET, **reach}, ok=None, timeout=PATIENCE
        )
    except GitFailed as late:
        return late.hint
    return "" if answer.status == 0 else _why(answer.err)


def _why(said: bytes) -> str:
    """The line of git's answer that says what is wrong: the first that is fatal, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith((b"fatal:", b"error:"))]
    return printable((fatal or lines[-1:] or [b"git fetch failed"])[0].removeprefix(b"fatal: "))


class Registered(NamedTuple):
    """What git knows of a worktree."""

    path: Path
    head: str = ""
    branch: str = ""  # full ref; empty where HEAD is detached
    bare: bool = False
    locked: bool = False


def parse_worktrees(out: bytes) -> list[Registered]:
    """`git worktree list --porcelain -z`: attributes end with NUL, a worktree ends with an empty one."""
    found = []
    for block in out.split(b"\0\0"):
        facts = dict(line.partition(b" ")[::2] for line in block.strip(b"\0").split(b"\0"))
        if b"worktree" in facts:
            found.append(
                Registered(
                    path=Path(os.fsdecode(facts[b"worktree"])),
                    head=facts.get(b"HEAD", b"").decode("ascii"),
                    branch=os.fsdecode(facts.get(b"branch", b"")),
                    bare=b"bare" in facts,
                    locked=b"locked" in facts,
                )
            )
    return found


def registrations(common_dir: Path) -> list[Path]:
    """The administrative directory of each linked worktree, by its name. Source: gitrepository-layout(5)."""
    folder = common_dir / "worktrees"
    try:
        return [folder / name for name in sorted(os.listdir(folder))]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []  # git removes the directory with the last of them


def missing_revision(git: Git, revision: str) -> str:
    """What to do where a revision names nothing: fetch it, or another was meant. Runners of CI fetch one ref."""
    remote, _, name = revision.partition("/")
    if name and remote in git.run("remote").lines:
        where = f"git fetch {remote} {name}:refs/remotes/{remote}/{name}"
        return f"it was not fetched, as by a runner of CI that fetches one ref: {where}"
    known = [
        line.partition("/")[2]
        for line in git.run(
            "for-each-ref", "--format=%(refname:lstrip=1)", "refs/heads/", "refs/remotes/", "refs/tags/"
        ).lines
    ]
    near = nearest(revision, known, 2)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if git.run("rev-parse", "--is-shallow-repository").text == "true":
        return "this clone is shallow and may lack it: git fetch --unshallow"
    return "name an existing commit, or fetch it; an unborn branch has none"
