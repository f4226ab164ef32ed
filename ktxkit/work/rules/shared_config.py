"""What of the configuration that all worktrees share is put back after a unit changed it, and what is left.

A unit is one of many: what it writes there (hooks of a package manager, an identity, filters) would act in every other
worktree and in the user's own checkout. Left alone is what git itself writes while people work: branches that are
tracked, remotes and submodules that are new, worktree configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Values = Mapping[str, Sequence[bytes]]  # key, as git prints it, to its values in order
PROGRAMS = ("uploadpack", "receivepack", "vcs", "proxy")  # what a remote may name that git runs or goes through
WORKTREE_CONFIG = "extensions.worktreeconfig"
MOVED = ("core.bare", "core.worktree", "core.repositoryformatversion")  # by git, when worktree configuration begins


def to_put_back(old: Values, new: Values) -> list[str]:
    """Keys whose old values are wanted again, sorted."""
    begins = WORKTREE_CONFIG in new and WORKTREE_CONFIG not in old
    changed = sorted(key for key in old.keys() | new.keys() if list(old.get(key, ())) != list(new.get(key, ())))
    return [key for key in changed if not _is_git_at_work(key, key in old, begins)]


def _is_git_at_work(key: str, known: bool, begins: bool) -> bool:
    section, last = key.partition(".")[0], key.rpartition(".")[2]
    if section == "branch":
        return True
    if section in ("remote", "submodule"):
        return not known and last not in (*PROGRAMS, "update")
    return key.startswith(("core.sparsecheckout", "maintenance.")) or (
        begins and (key == WORKTREE_CONFIG or key in MOVED)
    )


def how(known: bool, there: bool) -> str:
    """The word for a change, as the fingerprint has it."""
    return "added" if not known else "changed" if there else "removed"
