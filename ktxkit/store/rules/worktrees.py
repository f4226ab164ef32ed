"""What to do about a worktree: decided from its lease and from what stands on the disk, before anything is touched."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable

if TYPE_CHECKING:
    from ktxkit.base.documents import Lease, WorktreeRow


NAMED = 3  # names in one hint
KEPT = ("conflict", "crash")  # outcomes that keep the checkout as evidence
OUTCOMES = ("success", "empty", *KEPT)


class Open(Enum):
    """What opening a unit's worktree means."""

    FRESH = "nothing stands there: make it"
    REUSE = "it is open already, at this base: hand its lease out again"
    OTHER_BASE = "it is open already, at another base: refuse"
    TAKE_OVER = "whoever held it is dead: keep its work in the attic, then make it anew"
    LEFTOVER = "its lease is over, its files are not: keep what is unsaved in the attic, then make it anew"
    BESIDE = "evidence is kept there: make the new one beside it"
    OCCUPIED = "someone works in it: refuse"
    ELSEWHERE = "another machine or pid namespace holds it, and may live: refuse"
    FOREIGN = "a directory stands there that no lease means: a person must look"


def isolated(git_dir: str, common_dir: str, superproject: str) -> bool:
    """Whether a checkout is a linked worktree already. Both directories absolute and resolved: git mixes forms.

    A submodule is an ordinary checkout, wherever its git directory lies. Source: the unit-transaction plan, step 0.
    """
    return git_dir != common_dir and not superproject


def base_candidates(origin_default: str, has_origin: bool) -> list[str]:
    """Where new work starts, best first: origin's default branch, else main, else what is checked out."""
    first = [origin_default] if origin_default else []
    main = ["refs/remotes/origin/main", "refs/heads/main"] if has_origin else ["refs/heads/main"]
    return [*first, *main, "HEAD"]


class WorktreePresence(NamedTuple):
    """What was found where a unit's worktree belongs."""

    present: bool  # something is at the path
    same: bool  # and it is the directory that the lease means
    holder_dead: bool  # the lease names an owner, and that process is proven dead
    busy: bool  # a process has its working directory inside
    elsewhere: str = ""  # that an owner of another machine or pid namespace may live


def decide_open(lease: Lease | None, presence: WorktreePresence, base: str) -> Open:
    """How to open a unit's worktree at `base`."""
    if lease is None:
        return Open.FOREIGN if presence.present else Open.FRESH
    if lease["state"] == "closed":
        if not presence.present:
            return Open.FRESH
        return Open.BESIDE if lease.get("outcome") in KEPT or "leftOut" in lease else Open.LEFTOVER
    if presence.elsewhere:
        return Open.ELSEWHERE
    if not presence.present:
        return Open.TAKE_OVER
    if not presence.same:
        return Open.FOREIGN
    if presence.holder_dead:
        return Open.OCCUPIED if presence.busy else Open.TAKE_OVER
    return Open.REUSE if lease["base"] == base else Open.OTHER_BASE


class HeldWork(NamedTuple):
    """What a worktree holds, and what of it is safe elsewhere. Trees and commits are ids."""

    tree: str  # everything but ignored files
    base_tree: str
    kept_trees: tuple[str, ...] = ()  # trees that refs of ours keep: what was collected
    commits: bool = False  # commits of its own that no other ref reaches
    branch: bool = False  # HEAD is a branch: its commits outlive the checkout
    uncommitted: bool = False
    nested: tuple[bytes, ...] = ()  # repositories inside, which no snapshot holds
    submodules: tuple[bytes, ...] = ()  # submodules with work that is only there
    left_out: tuple[bytes, ...] = ()  # not ignored, and not taken: the policy leaves it out by pattern
    ignored: tuple[bytes, ...] = ()  # files that git ignores and that were not copied in
    unit: bool = False  # its work is what is in the files; what is staged is kept as well, and refuses nothing
    staged: tuple[bytes, ...] = ()  # paths whose staged content is neither in HEAD nor in the files
    pending: tuple[str, ...] = ()  # commits that only its own git directory names: a rebase that is not finished


def unsaved(work: HeldWork) -> str:
    """What removing the checkout would lose, in words; empty where all of it is kept elsewhere or nothing was done."""
    if work.nested:
        return f"a repository inside it ({len(work.nested)}), which nothing else holds"
    if work.submodules:
        return f"work in {len(work.submodules)} of its submodules, which nothing else holds"
    parts = []
    if work.branch or work.tree not in (work.base_tree, *work.kept_trees):
        commits = work.commits and not work.branch
        parts = [*(["commits"] if commits else []), *(["uncommitted work"] if work.uncommitted else [])]
    if work.staged and not work.unit:
        parts.append("what is staged and not in the files")
    if work.pending:
        parts.append("commits that only an unfinished operation, or a ref of the worktree, names")
    return " and ".join(parts)


def way_out(work: HeldWork) -> str:
    """What lets a closing go on that would lose work."""
    keep = "or close as conflict or crash, which leaves everything where it is"
    names = [printable(path.removesuffix(b"/")) for path in (work.nested or work.submodules)]
    shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    if work.nested:
        return f"no attic holds a repository: move {shown} out of the worktree, then close again; {keep}"
    if work.submodules:
        return f"no attic holds a submodule's work: commit and push it in {shown}, then close again; {keep}"
    first = "collect it" if work.unit else "land it (git ktx land NAME --squash)"
    return f"{first}, or close with --discard (it goes to the attic first), or as conflict or crash to keep it"


def can_be_kept(work: HeldWork) -> bool:
    """Whether a commit can hold all of the work."""
    return not work.nested and not work.submodules


def is_evidence(row: WorktreeRow) -> bool:
    """Whether it was closed as one that is kept, or because something of it was not collected; an earlier attempt's has
    no outcome of its own, and is."""
    kept = row.get("outcome", "crash") in KEPT or "leftOut" in row
    return row.get("state") == "closed" and row["present"] and kept


class LeaseFacts(NamedTuple):
    """What is known of a leased worktree when it is asked whether it is dead."""

    noted: bool = False  # an opening began and its lease never came; nobody holds its lock
    state: str = ""  # of the lease
    outcome: str = ""
    in_place: bool = False
    present: bool = True
    same: bool = True
    holder_dead: bool = False
    job_state: str = ""
    busy: bool = False
    resumable: bool = False  # a command continues its job
    locked: bool = False  # `git worktree lock`: git leaves it alone, and so do we
    elsewhere: str = ""  # that an owner of another machine or pid namespace may live


GONE = "its directory is gone"
OVER = ("landed", "aborted", "closed")  # states of a job after which none of its units can be at work


def why_dead(facts: LeaseFacts) -> str:
    """Why a worktree is provably dead; empty where it is not. Age is no reason, and neither is silence.

    A job that failed, or was killed or interrupted, can be resumed: its units are not dead. A process inside is alive,
    whatever the documents say.
    """
    if facts.busy or facts.locked or facts.elsewhere:
        return ""
    if facts.in_place:  # someone else's: only the lease can be over
        return "" if facts.present or facts.state != "open" else GONE
    if facts.noted:
        return "its opening was cut short"
    if not facts.present:
        return GONE if facts.state == "open" else ""
    if not facts.same or not facts.state:
        return ""
    if facts.resumable and facts.state == "open":  # resuming takes it over, and keeps its work
        return ""
    if facts.job_state in OVER and not facts.resumable:
        return f"its job is {facts.job_state}"
    if facts.state == "closed":
        return "" if facts.outcome in KEPT else "its lease is closed"
    return "its owner is dead" if facts.holder_dead else ""
