"""What the attic holds: listed, shown, compared, and brought back.

Who put a ref there, when and why is in its reflog (git's own, which goes with the ref). What another clone fetched, or
an older version kept, has none: then the commit's own date is all that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ktxkit.base.clock import timestamp
from ktxkit.base.errors import CannotRun, Conflict, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest, plural, printable
from ktxkit.git import merging
from ktxkit.git.neutral import open_neutral
from ktxkit.git.rules.patch import Entry
from ktxkit.store.leases import worktrees
from ktxkit.store.world import World
from ktxkit.work import target
from ktxkit.work.attic import ATTIC, kept_note

FIELDS = "%(refname)%00%(objectname)%00%(committerdate:unix)"
LOGGED = "%gD%x00%gn <%ge>%x00%gs"  # ref@{seconds}, who, why
SHOWN = 10  # names in a message


class AtticEntry(NamedTuple):
    """A ref of the attic. `kept_at`: seconds since the epoch. None, `by` and `why` empty: nothing tells."""

    ref: str
    commit: str
    committed_at: int
    kept_at: int | None = None
    by: str = ""
    why: str = ""
    base: str = ""  # the commit that the work began at, where it was recorded

    @property
    def name(self) -> str:
        """`JOB/WORKTREE/ATTEMPT-COMMIT`, as the command line takes it."""
        return self.ref.removeprefix(ATTIC)

    def document(self) -> dict[str, str]:
        job, _, rest = self.name.partition("/")
        worktree, _, stamp = rest.rpartition("/")
        made = {"ref": self.ref, "name": self.name, "commit": self.commit, "job": job, "worktree": worktree}
        made |= {"attempt": stamp.partition("-")[0], "committedAt": _time(self.committed_at)}
        made |= {} if self.kept_at is None else {"keptAt": _time(self.kept_at)}
        pairs = (("by", self.by), ("why", self.why), ("base", self.base))
        return made | {key: printable(value) for key, value in pairs if value}


def _time(seconds: int) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


def entries(world: World) -> list[AtticEntry]:
    """Every ref of the attic, what was kept last first."""
    git = worktrees(world).git
    refs = [line.split("\0") for line in git.run("for-each-ref", f"--format={FIELDS}", ATTIC).lines]
    named = "".join(f"{ref}\n" for ref, _, _ in refs).encode()
    logged: dict[str, tuple[int, str, str]] = {}
    if refs:
        told = git.run("log", "-g", "--date=unix", f"--format={LOGGED}", "--stdin", "--", stdin=named).lines
        for line in told:
            at, by, why = line.split("\0")
            ref, _, seconds = at.partition("@{")
            logged.setdefault(ref, (int(seconds.rstrip("}")), by, why))
    found = []
    for ref, commit, seconds in refs:
        known = AtticEntry(ref, commit, int(seconds))
        if ref in logged:
            kept_at, by, text = logged[ref]
            why, base = kept_note(text)
            known = known._replace(kept_at=kept_at, by=by, why=why, base=base)
        found.append(known)
    return sorted(found, key=lambda entry: (-(entry.kept_at or entry.committed_at), entry.ref))


def entry(world: World, name: str) -> AtticEntry:
    """The entry of that name, or the only one below it (`JOB/WORKTREE`). Raises CannotRun for none, or several."""
    wanted = name.removeprefix(ATTIC).rstrip("/")
    known = entries(world)
    found = [item for item in known if item.name == wanted or item.commit == wanted]
    found = found or [item for item in known if item.name.startswith(f"{wanted}/")]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(item.name for item in found[:SHOWN])
        raise CannotRun(f"{name!r} means {len(found)} entries of the attic: {shown}", hint="name one of them")
    near = [item.name for item in known if wanted in item.name.split("/")] or nearest(wanted, [i.name for i in known])
    hint = f"did you mean {near[0]}?" if near else "`git ktx attic list` shows what there is"
    raise CannotRun(f"nothing in the attic is named {name!r}", hint=hint)


def base_of(world: World, entry: AtticEntry) -> str:
    """The commit that the work is counted from: the recorded base, else where it left what is checked out.

    Raises CannotRun where the two have no commit in common.
    """
    git = worktrees(world).git
    if entry.base and git.resolve(entry.base) is not None:
        return entry.base
    here = world.git.resolve("HEAD")
    shared = git.run("merge-base", here, entry.commit, ok=(0, 1)).text if here is not None else ""
    if not shared:
        raise CannotRun(f"{entry.name} has no commit in common with HEAD", hint=f"git show {entry.ref}")
    return shared


def changed(world: World, entry: AtticEntry) -> list[Entry]:
    """The paths that the work changed, counted from its base."""
    with open_neutral(world) as neutral:
        return merging.changes(neutral, base_of(world, entry), entry.commit)


def diff(world: World, entry: AtticEntry, paths: Sequence[str] = ()) -> bytes:
    """The work as a patch that loses no byte; of the named paths alone, where some are named."""
    options = ("-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")
    return worktrees(world).git.run("diff", *options, base_of(world, entry), entry.commit, "--", *paths).out


def restore_branch(world: World, entry: AtticEntry, branch: str) -> str:
    """A new branch with the work as its newest commit; returns its full ref. Raises CannotRun, Refused (it exists)."""
    ref = branch if branch.startswith("refs/heads/") else f"refs/heads/{branch}"
    if not world.git.ok("check-ref-format", "--branch", ref.removeprefix("refs/heads/")):
        raise CannotRun(f"{branch!r} cannot be a branch name", hint="see git-check-ref-format(1)")
    if world.git.resolve(ref) is not None:
        raise Refused(f"branch {branch} exists already", hint="take another name")
    worktrees(world).branch_create(ref, entry.commit, world.repository.zero, f"ktxkit: restored from {entry.ref}")
    return ref


def restore_files(world: World, entry: AtticEntry, paths: Sequence[str] = ()) -> list[bytes]:
    """Merge the work into the files of this checkout, uncommitted; returns the paths that were written.

    Raises Conflict where both changed the same lines, Refused (`dirty_target`) where something uncommitted is in the
    way: nothing is written then.
    """
    top, head = world.repository.top, world.git.resolve("HEAD")
    if top is None or head is None:
        raise CannotRun("there is no checkout here to restore into", hint="--branch NAME makes a branch of it")
    git = world.git.at(top)
    with open_neutral(world) as neutral:
        base, ours = neutral.need_tree(base_of(world, entry)), neutral.need_tree(head)
        made = merging.merge(neutral, base, ours, neutral.need_tree(entry.commit))
        if not made.clean:
            clashes = sorted(made.stages)
            raise Conflict(
                f"it conflicts with what is checked out: {_listed(clashes)}",
                outcome="textual_conflict",
                location=str(top),
                hint=f"nothing was written; git ktx attic restore {entry.name} --branch NAME keeps it apart",
            )
        wanted = [item for item in merging.changes(neutral, ours, made.tree) if _is_named(item.path, paths)]
    target.require_free(world, git, wanted, made.tree)
    merging.write_files(git, made.tree, wanted)
    return [item.path for item in wanted]


def _is_named(path: bytes, paths: Sequence[str]) -> bool:
    named = [name.rstrip("/").encode("utf-8", "surrogateescape") for name in paths]
    return not named or any(path == name or path.startswith(name + b"/") for name in named)


def _listed(paths: Sequence[bytes]) -> str:
    shown = ", ".join(printable(path) for path in paths[:SHOWN])
    return f"{shown} and {plural(len(paths) - SHOWN, 'other')}" if len(paths) > SHOWN else shown
