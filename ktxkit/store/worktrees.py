"""Linked worktrees: made, populated, let go (design, section 6).

`git worktree add` writes shared files and loses races; a flock goes around it, and around what forgets a worktree.
Files are written outside of it. A checkout is let go by one rename, so that its path is free at once and a kill leaves
no half of it; its registration too. `git worktree remove` would delete what stands at the path then, behind a link too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EXDEV  # from one file system to another
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files, owners
from ktxkit.base.clock import Clock
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.identity import processes_inside
from ktxkit.base.lock import flocked
from ktxkit.base.removal import below_by_mount, delete, delete_own, entry, mounts, move, nothing_mounted
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable
from ktxkit.git import stale
from ktxkit.git.checkout import checkouts, locked, registrations_of, run_alone
from ktxkit.git.git import Argument, Git, GitFailed, GitResult
from ktxkit.git.repository import Registered, parse_worktrees
from ktxkit.store.rules import names
from ktxkit.store.store import Store

if TYPE_CHECKING:
    from ktxkit.base.clock import Limits
    from ktxkit.store.world import World

# Many may wait for one of git's own locks at once: its defaults (100 ms and 1 s) are too short then.
ORPHANS = 60.0  # seconds to wait for the children of a killed opening
PATIENT = {"core.filesRefLockTimeout": "2000", "core.packedRefsTimeout": "10000"}
# A unit sees the repository's bytes, whatever the user has configured; attributes of the repository still hold.
PLAIN = {
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.attributesFile": os.devnull,
    "core.symlinks": "true",
}


class Worktrees(NamedTuple):
    """The worktrees of one repository. `git` stands in the common directory: the caller's checkout decides nothing.

    It names that directory in GIT_DIR too: with `safe.bareRepository=explicit` git does not find it by standing there.
    """

    git: Git
    world: World
    clock: Clock
    limits: Limits

    @classmethod
    def of(cls, world: World) -> Worktrees:
        common_dir = world.repository.common_dir
        env = {**world.git.env, "GIT_DIR": str(common_dir)}
        git = Git(common_dir, env, {**world.git.config, **PATIENT})
        return cls(git, world, world.clock, world.limits)

    @property
    def store(self) -> Store:
        """The store as it is: looking makes none. What writes takes the lock first, and that makes it."""
        return self.world.store

    def at(self, path: Path) -> Git:
        """The runner in one of the worktrees."""
        env = {key: value for key, value in self.git.env.items() if key != "GIT_DIR"}
        return Git(self.store.guarded(path), env, self.git.config)

    def on_own(
        self, *args: Argument, git: Git, ok: Collection[int] | None = (0,), stdin: bytes | None = None
    ) -> GitResult:
        """Run git on refs that only we change: what a git of ours that was killed left there is cleared (`_run`)."""
        return self._run(*args, git=git, ok=ok, stdin=stdin)

    def _run(
        self,
        *args: Argument,
        git: Git | None = None,
        ok: Collection[int] | None = (0,),
        stdin: bytes | None = None,
    ) -> GitResult:
        """Run git; where a git that was killed stands in the way, and that is proven, clear it away and run again."""
        runner = git or self.git
        answer = runner.attempt(*args, stdin=stdin)
        for _ in range(2):
            # A ref is set to what it was to be: twice is once. What adds and removes worktrees looks for itself.
            if answer.status == 0 or not (self._mend(answer.err) or args[0] == "update-ref" or args[1] == "list"):
                break
            answer = runner.attempt(*args, stdin=stdin)
        if not answer.is_among(ok):
            raise GitFailed(answer)
        return answer

    def _mend(self, told: bytes) -> bool:
        """True where the obstacle is gone: its owner finished, or it is proven to have none any more. Nothing is, while
        processes elsewhere work on this store: no list of processes here shows theirs."""
        registration = b"failed to read" in told and b"worktrees/" in told
        if not registration and b".lock': File exists" not in told:
            return False
        deadline, age = self.clock.monotonic() + self.limits.obstacle_wait, self.limits.lock_age
        while self.clock.monotonic() < deadline:
            if registration and (self._cleared() or not stale.half_registered(self.git.cwd)):
                return True
            if not registration and not owners.others(self.store.root) and stale.clear_lock(told, self.git.cwd, age):
                return True
            self.clock.sleep(0.05)
        return False

    def mend(self) -> list[str]:
        """Clear half-made registrations that are proven dead; returns their names."""
        with self._alone():
            return self._cleared()

    def _cleared(self) -> list[str]:
        elsewhere = owners.others(self.store.root)
        return [] if elsewhere else stale.clear_registrations(self.git.cwd, self.limits.lock_age)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = self.world.writable_store.path(names.WORKTREES_LOCK)
        with flocked(lock, clock=self.clock, what="the list of worktrees"):
            yield

    def listed(self) -> list[Registered]:
        """Every worktree that git knows, the main one first."""
        return parse_worktrees(self._run("worktree", "list", "--porcelain", "-z").out)

    def registered(self, path: Path) -> Registered | None:
        """What git knows of the worktree at `path`, or None. Paths are compared as they resolve."""
        wanted = os.path.realpath(path)
        return next((entry for entry in self.listed() if os.path.realpath(entry.path) == wanted), None)

    def add(self, path: Path, commit: str, *, branch: str = "", sparse: Sequence[str] = ()) -> Path:
        """Register a worktree without files, on an existing branch or detached at `commit`; returns its git dir.

        Raises Refused where the branch is checked out elsewhere, GitFailed, CannotRun.
        """
        files.make_dirs(path.parent)
        self._must_be_apart(path)
        options = ("--quiet", "--no-checkout", *(() if branch else ("--detach",)))
        with self._alone(), entry(self.store.guarded(path)) as (name, at):
            # by the descriptor: a git that fails deletes what it made by name, and a link may stand there by then
            words, git = (
                ("worktree", "add", *options, f"/proc/self/fd/{at}/{name}", branch or commit),
                self.git.holding(at),
            )
            answer = self._run(*words, git=git, ok=None)
            if answer.status != 0 and not os.path.lexists(path):
                answer = self._run(*words, git=git, ok=None)
            if b"already checked out at" in answer.err or b"already used by worktree at" in answer.err:
                raise elsewhere(branch, answer.err)
            if answer.status != 0:
                raise GitFailed(answer, machinery=True)  # nobody has worked there yet
            admin = self._isolated(path)
            if sparse:  # writes shared configuration (extensions.worktreeConfig), once
                self.at(path).run("sparse-checkout", "set", "--cone", *sparse)
        return admin

    def _must_be_apart(self, path: Path) -> None:
        """Raises Refused where a mount makes of the path another worktree's directory: its files would be written."""
        known, place = mounts(), Path(os.path.realpath(path))
        for top in checkouts(self.git.cwd):
            if below_by_mount(place, Path(os.path.realpath(top)), known):
                said = f"a mount makes of that a directory of another worktree: {printable(str(top))}"
                raise Refused(said, location=str(path), hint="choose a place that is no other name of a checkout's")

    def _isolated(self, path: Path) -> Path:
        """The git directory of a new worktree, before anything runs there. Raises CannotRun where git, standing in it,
        works on another one."""
        told = self.at(path).run("rev-parse", "--absolute-git-dir", "--show-toplevel").out.removesuffix(b"\n")
        admin, _, top = told.partition(b"\n")
        known = os.path.realpath(self.git.cwd / "worktrees")
        if os.path.dirname(os.path.realpath(os.fsdecode(admin))) != known:  # noqa: PTH120
            said = f"git takes {printable(admin)} for the git directory of a new worktree: it is not one of ours"
            raise CannotRun(said, location=str(path), hint="look at GIT_DIR, and at the .git file that stands there")
        if os.path.realpath(top) != os.path.realpath(os.fsencode(path)):
            raise CannotRun(
                f"git takes {printable(top)} for the top of a new worktree: nothing in it would be isolated",
                location=str(path),
                hint="core.worktree in the shared configuration does that: `git config --worktree core.worktree DIR` in"
                " the main checkout, then `git config --unset core.worktree`",
            )
        return Path(os.path.realpath(os.fsdecode(admin)))

    def populate(self, path: Path, env: Mapping[str, str], *, plain: bool) -> None:
        """Write the files of HEAD and the index. `env` goes to git's filters (GIT_LFS_SKIP_SMUDGE)."""
        git = self.at(path)
        config = {**git.config, **(PLAIN if plain else {})}
        run_alone(Git(git.cwd, {**git.env, **env}, config), "read-tree", "--reset", "-u", "HEAD")

    def let_go(self, path: Path) -> Path | None:
        """Free `path` and forget the worktree; returns what is left to delete (see `delete`), or None.

        The rename is the moment of truth. Raises GitFailed where git will not forget it, Refused where something is
        mounted inside: deleting would go into it.
        """
        nothing_mounted(path)
        if locked(self.git.cwd, path):
            hint = "`git worktree unlock` it, then do it again"
            raise Refused("git is told to leave this worktree alone: it is locked", location=str(path), hint=hint)
        trash = self._into_trash(path)
        self.forget(path)
        return trash

    def _into_trash(self, path: Path) -> Path | None:
        aside = self._trash_of(path)
        try:
            move(self.store.guarded(path), aside)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != EXDEV:
                raise
            if not os.path.lexists(path):  # the kernel looks at the mounts first
                return None
            beside = Path(os.path.realpath(path.parent))
            aside = beside / f".{path.name[:80]}.{os.urandom(6).hex()}.ktx-trash"
            os.rename(path, aside)  # noqa: PTH104
        return aside

    def _trash_of(self, path: Path) -> Path:
        """A new name in the trash."""
        trash = self.world.writable_store.directory(names.TRASH)
        files.make_dirs(trash)
        return trash / f"{path.name[:80]}.{owners.hold(self.store.root).mark}-{os.urandom(6).hex()}"

    def empty_trash(self) -> None:
        """Delete what a process that is proven dead had let go; never while somebody works inside."""
        folder = self.store.directory(names.TRASH)
        for name in os.listdir(folder) if folder.is_dir() else ():  # noqa: PTH208
            if owners.is_abandoned(name, self.store.root) and not processes_inside(folder / name):
                delete(folder / name)

    def settle(self, path: Path) -> None:
        """Wait until no git is at work on a worktree any more: what a killed opening started goes on to its end.

        Taking the worktree away before would let it write into the next one. Raises Refused after `ORPHANS` seconds.
        """
        deadline = self.clock.monotonic() + ORPHANS
        while alive := stale.at_work_on(path):
            if self.clock.monotonic() >= deadline:
                hint = f"wait for it, or end it: {', '.join(map(str, alive))}"
                raise Refused(
                    "a git of an opening that was killed is still at work there", location=str(path), hint=hint
                )
            self.clock.sleep(0.05)

    def forget(self, path: Path) -> None:
        """Drop git's registration of a worktree whose directory is gone. Nothing to do where there is none.

        What stands at its path now is left alone. Raises OSError.
        """
        gone = []
        with self._alone():
            for admin in registrations_of(self.git.cwd, path):
                gone.append(self._trash_of(admin))
                try:
                    move(admin, gone[-1])
                except OSError as error:
                    if error.errno != EXDEV:
                        raise
                    delete(admin)
            with suppress(OSError):  # others are registered; git takes it away as well
                os.rmdir(self.git.cwd / "worktrees")  # noqa: PTH106
        for aside in gone:
            delete(aside)

    def repair(self, path: Path, admin: Path) -> None:
        """Tie a worktree that was moved to its registration `admin`, in both directions (gitrepository-layout(5)).

        `git worktree repair` mends every worktree that is registered, whatever it is told: in a copy of a repository
        it takes those of the original.
        """
        mode = stat.S_IMODE(os.stat(path / ".git").st_mode)  # noqa: PTH116
        with self._alone():
            files.write_atomic(admin / "gitdir", os.fsencode(path / ".git") + b"\n", mode=mode)
            aside = files.temp_dir(self.store.directory("tmp"), f"scratch-{owners.hold(self.store.root).mark}-")
            try:  # not beside it: what a kill left there would be the unit's
                files.write_atomic(aside / "link", b"gitdir: " + os.fsencode(admin) + b"\n", mode=mode)
                os.rename(aside / "link", path / ".git")  # noqa: PTH104
            finally:
                delete_own(aside)
            files.sync_dir(path)

    def branch_create(self, ref: str, commit: str, zero: str, note: str) -> None:
        """Create a branch that must not exist. `note` goes to its reflog and proves later who made it."""
        answer = self._run("update-ref", "--create-reflog", "-m", note, ref, commit, zero, ok=None)
        if answer.status != 0 and not (self.git.resolve(ref) == commit and self.newest_reflog(ref) == note):
            raise GitFailed(answer)

    def keep(self, ref: str, commit: str, note: str = "") -> None:
        """Point a ref of ours at a commit, flushed to the disk. `note` goes to its reflog, with who and when."""
        at = {"GIT_COMMITTER_DATE": f"@{int(self.clock.now().timestamp())} +0000"}
        config = {**self.git.config, "core.fsync": "objects,reference"}
        durable = Git(self.git.cwd, {**self.git.env, **at}, config)
        logged = ("--create-reflog", "-m", note) if note else ()
        self._run("update-ref", "--no-deref", *logged, ref, commit, git=durable)

    def newest_reflog(self, ref: str) -> str:
        """The message of the newest reflog entry of a ref; "" where there is none."""
        return self.git.run("log", "-g", "-1", "--format=%gs", ref, "--", ok=(0, 128), twice=(128,)).text

    def delete_ref(self, ref: str, old: str) -> bool:
        """Delete a ref that still has its old value. False where it moved or is gone. Raises GitFailed."""
        return self.delete_refs({ref: old}, {})

    def delete_refs(self, refs: Mapping[str, str], because: Mapping[str, str]) -> bool:
        """Delete refs, all of them or none, where each still has its old value and those of `because`, on which it was
        decided, have theirs (empty: there is none). False where one has moved. Raises GitFailed."""
        lines = [f"verify {ref} {at or '0' * len(next(iter(refs.values())))}" for ref, at in because.items()]
        for ref, old in refs.items():
            lines += ["option no-deref", f"delete {ref} {old}"]
        block = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        answer = self._run("update-ref", "--stdin", stdin=block, ok=None)
        if answer.status != 0 and all(self._at(ref) == old for ref, old in {**because, **refs}.items()):
            raise GitFailed(answer)
        return answer.status == 0

    def _at(self, ref: str) -> str:
        """What a ref names, unpeeled; empty where there is none."""
        told = self.git.run("for-each-ref", "--format=%(refname) %(objectname)", ref).lines
        return next((line.partition(" ")[2] for line in told if line.partition(" ")[0] == ref), "")

    def delete_branch(self, ref: str, old: str, because: Mapping[str, str]) -> bool:
        """Delete a branch and its section of the configuration (`delete_refs`). False where it moved."""
        if not self.delete_refs({ref: old}, because):
            return False
        section = f"branch.{ref.removeprefix('refs/heads/')}"
        with self._alone():
            if self.git.ok("config", "--local", "--get-regexp", f"^{_quoted(section)}[.]"):
                self._run("config", "--local", "--remove-section", section)
        return True


def _quoted(name: str) -> str:
    """A name as a literal of git's extended regular expressions."""
    return "".join(f"[{char}]" if char in ".+*?()|{}$" else char for char in name)


def elsewhere(branch: str, stderr: bytes) -> Refused:
    """git says that a branch is checked out, or being rebased, in another worktree."""
    place = printable(stderr.partition(b" at '")[2].rpartition(b"'")[0])
    message = f"branch {branch} is checked out already"
    return Refused(message, location=place, hint="work there, or open it with --detach at the same commit")
