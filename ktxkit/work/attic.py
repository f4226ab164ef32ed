"""What of a worktree's work is safe elsewhere, and the attic: where work goes that is closed without landing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import kinds
from ktxkit.base.errors import Refused
from ktxkit.base.identity import identify
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.git import child, merging, repository, snapshot
from ktxkit.git.git import Git
from ktxkit.git.neutral import scratch_dir
from ktxkit.git.rules.checkout import Status
from ktxkit.git.staging import touched
from ktxkit.store.leases import LeaseLocation, as_opened, of_lease, path_of, worktrees
from ktxkit.store.rules import names
from ktxkit.store.rules.paths_policy import control, volatile
from ktxkit.store.rules.worktrees import HeldWork, can_be_kept, unsaved, way_out
from ktxkit.store.worktrees import PLAIN
from ktxkit.store.world import World
from ktxkit.work import selection
from ktxkit.work.report import is_in

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, Patch, WorktreeLanding


NAMED = ("--branches", "--tags", "--remotes")  # what keeps a commit where its author looks for it
ATTIC = "refs/ktx/attic/"
BASE = "; work on "  # in the reflog, between why it was kept and the commit that it began at
KEPT = (*NAMED, "--glob=refs/ktx/attic")  # what keeps it at all


def work_in(location: LeaseLocation, lease: Lease, path: Path) -> HeldWork:
    """What the worktree holds, and what of it is kept elsewhere. Raises GitFailed where it cannot be read.

    Of a unit that counts as work which collecting would take; elsewhere everything that git does not ignore.
    """
    git = _reader(location.world, lease, path)
    asked = ("HEAD", "HEAD^{tree}", f"{lease['base']}^{{tree}}", "--symbolic-full-name", "HEAD")
    answer = git.text("rev-parse", *asked, "--path-format=absolute", "--git-path", "modules")
    head, head_tree, base_tree, named, modules = answer.split("\n", 4)
    branch = named if named != "HEAD" else ""
    held = _content(location, lease, git, head)
    landed = landing_in(location, lease)
    others = (f"--exclude={branch.removeprefix('refs/heads/')}", *KEPT, *([landed["head"]] if landed else []))
    own = head != lease["base"] and git.text("rev-list", "--max-count=1", head, "--not", lease["base"], *others)
    in_target = (landed["tree"],) if landed else ()
    return HeldWork(
        tree=held.tree,
        base_tree=base_tree,
        kept_trees=(*_collected(location, lease), *in_target),
        commits=bool(own),
        branch=bool(branch),
        uncommitted=held.tree not in (head_tree, *in_target),
        nested=held.nested,
        left_out=held.left_out,
        submodules=snapshot.submodules_at_risk(git, Path(modules)),
        unit=lease["mode"] == "unit",
        staged=held.staged,
        ignored=held.ignored,
        pending=snapshot.pending(git, Path(modules).parent, (head, lease["base"], *KEPT)),
    )


def landing_in(location: LeaseLocation, lease: Lease) -> WorktreeLanding | None:
    """What of a worktree has landed by itself (`git ktx land`), where its target has it now; the branch is asked."""
    landing = lease.get("landing")
    git = worktrees(location.world).git
    if landing is None or git.resolve(landing["head"]) is None:
        return None
    return landing if is_in(git, landing["target"], landing["commit"], lease["base"]) else None


CUT_FROM = ("new-branch", "detach", "unit")  # modes of a worktree that began at a commit of somebody else's
NAMED_AT_MOST = 5  # commits in one message


class OwnWork(NamedTuple):
    """What a worktree has of its own: the commits behind `base` up to `head` that `known` does not have.

    `known`: what of it has landed, or what of its base the target has dropped (`dropped`: the commits, named); empty
    where the merge base with the target says it all. `tree`: what landed with uncommitted work, in place of that of
    `base`. `again`: commits, named, that the target has dropped and gets again, since they may be the branch's own.
    `refused`: why it cannot land, and `way`: the command that makes it fit.
    """

    head: str
    base: str = ""
    known: str = ""
    tree: str = ""
    dropped: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    refused: str = ""
    way: str = ""

    @property
    def revisions(self) -> tuple[str, ...]:
        """Its commits, as git's revision arguments."""
        return (self.head, f"^{self.base}", *([f"^{self.known}"] if self.known else []))


def own_work(location: LeaseLocation, lease: Lease, git: Git, target: str, head: str) -> OwnWork:
    """Of the worktree where `git` runs, by its lease and by what the branch `target` has now."""
    work, short = _known(location, lease, git, target, head), target.removeprefix("refs/heads/")
    rebase = ["git", "-C", str(git.cwd), "rebase", "--autostash", "--onto", short]
    bases = git.run("merge-base", "--all", target, head, ok=(0, 1)).lines
    if work.known and all(git.is_ancestor(base, work.known) for base in bases):
        return work._replace(base=work.known, way=shlex.join([*rebase, work.known[:12]]))
    if work.dropped:
        said = f"{short} was rewritten since this was opened, and merged into it: {', '.join(work.dropped)} would land"
        return work._replace(refused=f"{said} again", way=shlex.join([*rebase, work.known[:12]]))
    if len(bases) == 1:
        return work._replace(base=bases[0], tree="")
    merge = ["git", "-C", str(git.cwd), "merge", short] if bases else [*rebase, "--root"]
    return work._replace(refused=f"it has {plural(len(bases), 'merge base')} with {target}", way=shlex.join(merge))


def _known(location: LeaseLocation, lease: Lease, git: Git, target: str, head: str) -> OwnWork:
    landing, base = landing_in(location, lease), lease["base"]
    if landing is not None and landing["target"] == target and git.is_ancestor(landing["head"], head):
        same = git.resolve(landing["head"], "tree") == landing["tree"]
        return OwnWork(head, known=landing["head"], tree="" if same else landing["tree"])
    if git.is_ancestor(base, target) or not git.is_ancestor(base, head):
        return OwnWork(head)
    lost = _lost(git, base, target)
    if not lost:
        return OwnWork(head)  # it began at something that the target never had
    lines = git.run("log", "--no-walk=unsorted", "--abbrev=12", "--format=%h %s", *lost[:NAMED_AT_MOST], "--").lines
    more = [f"{len(lost) - NAMED_AT_MOST} more"] if len(lost) > NAMED_AT_MOST else []
    told = (*map(printable, lines), *more)
    return OwnWork(head, known=lost[0], dropped=told) if lease["mode"] in CUT_FROM else OwnWork(head, again=told)


def _lost(git: Git, commit: str, target: str) -> list[str]:
    """Commits in the history of one that a branch had once, by its reflog, and has no more; the newest first."""
    lacking = git.run("rev-list", "--topo-order", commit, f"^{target}", "--").lines
    tips = git.run("rev-list", "--walk-reflogs", target, "--", ok=(0, 128)).lines
    asked = "".join(f"{line}\n" for line in (commit, f"^{target}", *(f"^{tip}" for tip in tips))).encode("ascii")
    never = set(git.run("rev-list", "--stdin", stdin=asked).lines)
    return [one for one in lacking if one not in never]


def held_by(location: LeaseLocation, lease: Lease, tip: str, *, attic: bool) -> dict[str, str] | None:
    """What has the commits of the branch that was made for a worktree, where it goes: a ref, and what it names.

    None where nothing has them, nothing needed where they are the base's. A ref that has them; or the branch of the
    main checkout, origin's default one, or where the worktree landed, which had exactly their tree since the base (a
    squash). `attic`: one there will do.
    """
    made, own = worktrees(location.world), lease["branch"]
    git, base = made.git, lease["base"]
    if tip == base:
        return {}
    places = ("refs/heads", "refs/tags", "refs/remotes", *([ATTIC] if attic else []))
    lines = git.run("for-each-ref", f"--contains={tip}", "--format=%(refname) %(objectname)", *places).lines
    for ref, _, oid in (line.partition(" ") for line in lines):
        if ref != own:
            return {ref: oid}
    if git.is_ancestor(tip, base):
        return {}
    landing = landing_in(location, lease)
    if landing is not None and git.is_ancestor(tip, landing["head"]):
        return _where(git, landing["target"], landing["commit"], base)
    refs = {made.listed()[0].branch, repository.default_branch(git)} - {""}
    return next((found for ref in sorted(refs) if (found := _where(git, ref, tip, base))), None)


def _where(git: Git, ref: str, commit: str, base: str) -> dict[str, str] | None:
    """A ref and what it names, where a landing is in it (`is_in`)."""
    at = git.resolve(ref)
    return {ref: at} if at is not None and is_in(git, ref, commit, base) else None


def _reader(world: World, lease: Lease, path: Path) -> Git:
    """The runner for a worktree in which no edit hides; a unit's is read as it was written."""
    git = child.honest(world.git, path)
    return Git(git.cwd, git.env, {**git.config, **PLAIN}) if lease["mode"] == "unit" else git


class WorktreeContents(NamedTuple):
    """The tree of the work, repositories inside it that no tree can hold, what the policy's patterns leave out, the
    paths whose staged content is nowhere else, and the files that git ignores (those copied in apart)."""

    tree: str
    nested: tuple[bytes, ...]
    left_out: tuple[bytes, ...]
    staged: tuple[bytes, ...]
    ignored: tuple[bytes, ...]


def _content(location: LeaseLocation, lease: Lease, git: Git, head: str) -> WorktreeContents:
    with scratch_dir(location.world) as scratch:
        if lease["mode"] != "unit" or child.hidden(git, scratch):
            found = snapshot.take_snapshot(git, scratch, tuple(os.fsencode(name) for name in lease.get("copied", ())))
            status = child.read_status(git, ignored="traditional", whole=True)
            inside = {*found.nested, *_ignored_repositories(git, status, found.nested)}
            ignored = _ignored_files(status, lease)
            return WorktreeContents(found.tree, tuple(sorted(inside)), (), status.staged_only, ignored)
        reader = Git(git.cwd, git.env, {**git.config, "core.excludesFile": os.devnull})
        status = child.read_status(reader, ignored="traditional", whole=True)
        policy = of_lease(location.world, lease)
        opened = as_opened(location.world, lease["base"], policy)
        chosen = selection.choose(status, {}, (), policy, as_opened=opened)
        nested = tuple(path for path in chosen.take if path.endswith(b"/") or _is_repository(reader, path))
        taken = tuple(path for path in chosen.take if path not in nested)
        left_out = tuple(path for path, _ in chosen.excluded)
        patch, tree = _patch_of(location, lease), ""
        if patch is not None and head == patch["head"] == patch["base"]:
            tree = patch["tree"] if selection.is_as(reader, scratch, taken, patch) else ""
        tree = tree or selection.tree_of_worktree(reader, scratch / "index", taken, head)
        if patch is not None and tree != patch["tree"]:
            tree, _ = touched(reader, scratch, merging.changed(reader, patch["base"], tree), tree)
        if policy.generated:
            changed = merging.changed(reader, lease["base"], tree)
            tree, out = selection.without_left_out(reader, scratch, changed, tree, policy)
            left_out = tuple(sorted({*left_out, *(path for path, _ in out)}))
        inside = {*nested, *_ignored_repositories(git, status, nested)}
        ignored = _ignored_files(status, lease)
        return WorktreeContents(tree, tuple(sorted(inside)), left_out, status.staged_only, ignored)


def _ignored_files(status: Status, lease: Lease) -> tuple[bytes, ...]:
    """What git ignores and nothing else has, by name; caches and build output last, so that a sample shows the rest."""
    copied = {os.fsencode(name) for name in lease.get("copied", ())}
    found = [path for path in status.ignored if path not in copied and not control(path)]
    return tuple(sorted(found, key=lambda path: (bool(volatile(path)), path)))


def _ignored_repositories(git: Git, status: Status, known: Sequence[bytes]) -> list[bytes]:
    """Repositories and linked worktrees where git looks for nothing, with work that is only there. git names them
    though it does not go into them; what else is ignored is no work."""
    named = [path for path in status.ignored if path.endswith(b"/") and path not in known]
    return [path for path in named if snapshot.holds_work(git, path)]


def _is_repository(git: Git, path: bytes) -> bool:
    """A repository stands where a tracked file was: git lists it as that file's change or deletion, not as nested.

    A submodule of the commit is none: what it holds is looked at by itself.
    """
    place = os.fsencode(git.cwd) + b"/" + path
    if os.path.islink(place) or not os.path.lexists(place + b"/.git"):  # noqa: PTH114
        return False
    return not git.run("ls-tree", "-z", "HEAD", "--", path).out.startswith(b"160000 ")


def _collected(location: LeaseLocation, lease: Lease) -> tuple[str, ...]:
    """The trees that were collected of this unit: at its ref, and of this attempt's patch document."""
    if "jobId" not in lease:
        return ()
    at_ref = location.world.git.resolve(location.collected_ref, "tree")
    patch = _patch_of(location, lease)
    return tuple(tree for tree in (at_ref, patch["tree"] if patch is not None else None) if tree)


def _patch_of(location: LeaseLocation, lease: Lease) -> Patch | None:
    """The patch document of this attempt, where it was collected."""
    patch = location.read(kinds.PATCH) if "jobId" in lease else None
    return patch if patch is not None and patch.get("attempt") == lease["attempt"] else None


def to_attic(
    location: LeaseLocation,
    lease: Lease,
    path: Path,
    *,
    why: str,
    branch_goes: bool = False,
    work: HeldWork | None = None,
) -> str:
    """Keep what is in a worktree and nowhere else at an attic ref; returns the ref, "" where there is nothing to keep.

    `why` is what `git ktx attic list` says of it. `branch_goes`: commits that only its branch has are kept too. `work`:
    what was just read of it. Raises Refused where something in it cannot be kept, GitFailed where it cannot be read.
    """
    if identify(path) is None:
        return head_to_attic(location, lease, why)
    work = work or work_in(location, lease, path)
    if not can_be_kept(work):
        hint = way_out(work)
        raise Refused(f"it holds {unsaved(work)}", location=str(path), hint=hint)
    if not (unsaved(work) or work.staged or work.left_out) and not (work.commits and (branch_goes or not work.branch)):
        return ""
    message = f"kept from {location.name}, attempt {lease['attempt']}, of {location.job}"
    copied = tuple(os.fsencode(name) for name in lease.get("copied", ()))
    reader = _reader(location.world, lease, path)
    with scratch_dir(location.world) as scratch:
        found = snapshot.take_snapshot(reader, scratch, copied)
        also = list(work.pending)
        if work.staged:
            also.insert(0, snapshot.staged(reader, scratch, work.staged, f"index: {message}", lease["openedAt"]))
    kept = snapshot.commit(reader, found, message, lease["openedAt"], also)
    return _kept_at(location, lease, kept, why)


def tree_of(location: LeaseLocation, lease: Lease) -> str:
    """The tree of everything in a worktree that git does not ignore, but for files that were copied in."""
    reader = _reader(location.world, lease, path_of(lease))
    with scratch_dir(location.world) as scratch:
        return snapshot.take_snapshot(
            reader, scratch, tuple(os.fsencode(name) for name in lease.get("copied", ()))
        ).tree


def head_to_attic(location: LeaseLocation, lease: Lease, why: str) -> str:
    """Where the directory is gone, git still knows its detached HEAD: commits that nothing else reaches are kept."""
    git = worktrees(location.world).git
    entry = worktrees(location.world).registered(path_of(lease))
    if entry is None or entry.branch or git.resolve(entry.head) is None:
        return _kept_before(location, lease)
    if not git.text("rev-list", "--max-count=1", entry.head, "--not", lease["base"], *KEPT):
        return _kept_before(location, lease)
    return _kept_at(location, lease, entry.head, why)


def _kept_before(location: LeaseLocation, lease: Lease) -> str:
    """The attic ref that a closing made before it was cut short, or ""."""
    folder = location.attic_ref(lease["attempt"], "").rpartition("/")[0]
    refs = worktrees(location.world).git.run("for-each-ref", "--format=%(refname)", f"{folder}/").lines
    return next((ref for ref in refs if ref.startswith(f"{folder}/{lease['attempt']}-")), "")


def _kept_at(location: LeaseLocation, lease: Lease, commit: str, why: str) -> str:
    ref = location.attic_ref(lease["attempt"], commit)
    worktrees(location.world).keep(ref, commit, f"{why}{BASE}{lease['base']}")
    return ref


def collected_note(attempt: int) -> str:
    """What the reflog of a unit's collected commit says: which attempt it is of."""
    return f"collected of attempt {attempt}"


def keep_replaced(world: World, ref: str, commit: str, attempt: int) -> None:
    """Keep at an attic ref what an earlier attempt collected, before `commit` of this one takes its place at `ref`.

    What the same attempt collected before goes without one: its author wrote over it.
    """
    old = world.git.resolve(ref)
    if old is None or old == commit:
        return
    made = worktrees(world)
    note = made.newest_reflog(ref)
    if note == collected_note(attempt):
        return
    earlier = next((n for n in range(1, attempt) if note == collected_note(n)), attempt - 1)
    kept = f"{ATTIC}{ref.removeprefix(names.UNITS)}/{earlier}-{old[:16]}"
    made.keep(kept, old, f"attempt {attempt} was collected in its place{BASE}{world.git.resolve(f'{old}^')}")


def kept_note(note: str) -> tuple[str, str]:
    """Why something was kept, and the base of its work, by the reflog of its ref; the base is "" where none is said."""
    why, _, base = note.rpartition(BASE)
    return (why, base) if why else (base, "")
