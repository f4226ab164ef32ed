"""What a machine, a repository and its configuration can do to a job: facts in, findings out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LOW_DISK = 2 * 1024**3  # bytes free below which a job is likely to end badly
GIT_MINIMUM = (2, 38)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `level` is ok, advice, warning or error."""

    check: str
    level: str
    message: str
    hint: str = ""
    where: str = ""

    def document(self) -> dict[str, str]:
        facts = {"check": self.check, "level": self.level, "message": self.message}
        return {**facts, **{k: v for k, v in (("hint", self.hint), ("where", self.where)) if v}}


OURS = "jobs are not touched by it; your own git in a worktree is"
# Settings that have surprised somebody, as `git config --list` names them: (the value that does, or ""; why; level).
SURPRISES: dict[str, tuple[str, str, str]] = {
    "core.hookspath": ("", f"hooks come from there, not from .git/hooks; {OURS}", "advice"),
    "core.autocrlf": ("true input", f"files change their line ends on the way into the index; {OURS}", "warning"),
    "core.fsmonitor": ("", f"git asks another process what changed; {OURS}", "advice"),
    "core.attributesfile": ("", f"attributes from outside the repository apply; {OURS}", "advice"),
    "core.worktree": ("", "the checkout is not where the repository is; worktrees of it are unusual", "warning"),
    "core.sharedrepository": ("", "others may write here: .ktx/ stays private to you", "advice"),
    "core.ignorecase": ("true", "names that differ only in case are one file here", "warning"),
    "core.filemode": ("false", "git overlooks executable bits; a unit's chmod is collected all the same", "warning"),
    "diff.external": ("", f"git diff runs another program; {OURS}", "advice"),
    "diff.noprefix": ("true", f"git diff leaves a/ and b/ out; {OURS}", "advice"),
    "apply.whitespace": ("fix", f"git apply changes what it applies; {OURS}", "warning"),
    "commit.gpgsign": ("true", "your commits in a worktree ask for a key; ours are not signed", "advice"),
    "merge.ff": ("false", f"merges make a commit even where none is needed; {OURS}", "advice"),
    "fetch.prune": ("true", "a fetch deletes remote branches' records", "advice"),
    "gc.auto": ("", "git collects garbage at another time than it would; private refs keep what jobs need", "advice"),
    "gc.pruneexpire": ("now", "objects that no ref names are deleted at once, unfinished work among them", "warning"),
    "extensions.worktreeconfig": ("true", "worktrees have configuration of their own", "advice"),
    "extensions.partialclone": ("", "objects are fetched when they are needed: a job may need the network", "warning"),
}  # fmt: skip


def surprises(config: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    """Settings in force that could surprise. `config` is key (lower case) to (value, origin)."""
    for key, (wanted, why, level) in SURPRISES.items():
        if key in config:
            value, origin = config[key]
            if not wanted or value.lower() in wanted.split():
                yield Finding("configuration", level, f"{key} = {value}: {why}", where=origin)


def git_version(version: tuple[int, ...]) -> Finding:
    """Whether git is new enough. Source: `merge-tree --write-tree` came with 2.38."""
    text = ".".join(map(str, version))
    if version < GIT_MINIMUM:
        return Finding("git", "error", f"git {text} is too old", "git >= 2.38 is needed (merge-tree --write-tree)")
    return Finding("git", "ok", f"git {text}")


def landlock(version: int, least: int) -> Finding:
    """Whether units can be isolated (`isolate` in a job file)."""
    if version < least:
        hint = f"`isolate` needs Landlock {least} (Linux 5.19 or newer, `landlock` in its `lsm=`)"
        return Finding("isolation", "advice", "this kernel cannot isolate units from each other", hint)
    return Finding("isolation", "ok", f"units can be isolated (Landlock {version})")


def disk(free: int, place: str) -> Finding:
    """Whether there is room; `free` is bytes."""
    text = f"{free / 1024**3:.1f} GiB free"
    if free < LOW_DISK:
        return Finding("disk", "warning", text, "each worktree is a whole checkout; make room, or set KTX_DIR", place)
    return Finding("disk", "ok", text, where=place)


def environment(env: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that change what git does for everybody who inherits them."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"):
        if name in env:
            hint = "unset it: your own git calls go to another place than you stand in"
            yield Finding("environment", "warning", f"{name} is set; {OURS}", hint)
    for name in sorted(key for key in env if key.startswith("KTX_")):
        yield Finding("environment", "advice", f"{name} = {env[name]}")
