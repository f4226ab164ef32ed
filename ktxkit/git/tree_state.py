"""On exactly what content something ran: the tree id that a commit of everything in the checkout would have.

Computed beside the repository: a copy of the index and an object directory of its own, both thrown away. So a run on a
dirty checkout and a later commit of the same content have the same tree id. Ignored files are in no tree; a digest of
their names, sizes and times stands beside it (caches and installed environments left out).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable
from ktxkit.git.git import Git, GitFailed
from ktxkit.git.repository import Repository
from ktxkit.git.staging import stage

HEAD = b"# branch.oid "  # a line of `git status`; `(initial)` where there is no commit
CHANGED_BYTES = 256 * 1024 * 1024  # bytes of changed and untracked files that are read to compute a tree id
PATHS_SHOWN = 200  # changed paths that are named
GENERATED_LIMIT = 20_000  # ignored files that are looked at; beyond, their state is not known
CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".git", ".ktx", "ktx"}
    | {"node_modules", ".venv", "venv", "htmlcov", ".coverage", ".eggs"}
)


@dataclass(frozen=True)
class TreeState:
    """`tree` is None where it could not be told (`why` says so)."""

    commit: str | None
    tree: str | None
    dirty: bool
    changed: tuple[str, ...]
    changed_count: int
    generated: str | None
    why: str = ""

    def document(self) -> dict[str, object]:
        made: dict[str, object] = {"dirty": self.dirty}
        pairs = {"commit": self.commit, "tree": self.tree, "generated": self.generated, "why": self.why or None}
        made |= {key: found for key, found in pairs.items() if found is not None}
        if self.changed_count:
            made |= {"changed": list(self.changed), "changedCount": self.changed_count}
        return made


def take(git: Git, repository: Repository) -> TreeState:
    """The state of the checkout that `git` stands in. Raises GitFailed where git cannot tell its status."""
    assert repository.top is not None, "a bare repository has no checkout"
    git = git.at(repository.top)
    commit, changed, ignored, inside = _status(git)
    head_tree = None if commit is None else git.resolve(commit, "tree")
    why = "a submodule has changes of its own" if inside else ""
    tree: str | None = head_tree
    if changed or head_tree is None:
        tree, why = (None, why) if why else _tree_of(git, repository, changed)
    return TreeState(
        commit=commit,
        tree=tree if not inside else None,
        dirty=bool(changed),
        changed=tuple(printable(path) for path in changed[:PATHS_SHOWN]),
        changed_count=len(changed),
        generated=_generated(repository.top, ignored),
        why=why,
    )


def _status(git: Git) -> tuple[str | None, list[bytes], list[bytes], bool]:
    """HEAD's commit, changed and untracked paths, ignored ones (directories end in `/`), and whether a submodule is
    dirty inside."""
    flags = ["--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
    flags += ["--branch", "--no-ahead-behind"]
    commit: str | None = None
    changed, ignored, inside = [], [], False
    for entry in git.run("-c", "status.relativePaths=false", "status", *flags).nul:
        kind = entry[:1]
        if entry.startswith(HEAD):
            name = entry.removeprefix(HEAD).decode("ascii")
            commit = None if name == "(initial)" else name
        elif kind == b"!":
            ignored.append(entry[2:])
        elif kind == b"?":
            changed.append(entry[2:])
        elif kind in (b"1", b"u"):
            fields = entry.split(b" ", 8 if kind == b"1" else 10)
            inside = inside or b"M" in fields[2][2:3] or b"U" in fields[2][3:4]
            changed.append(fields[-1])
    return commit, sorted(changed), sorted(ignored), inside


def _tree_of(git: Git, repository: Repository, changed: list[bytes]) -> tuple[str | None, str]:
    """The tree of the index plus `changed`, and why there is none."""
    import shutil
    import tempfile

    top = repository.top
    assert top is not None
    volume = 0
    for path in changed:
        try:
            volume += (top / os.fsdecode(path)).lstat().st_size
        except (FileNotFoundError, NotADirectoryError):
            continue  # gate-ok: deleted in the checkout
    if volume > CHANGED_BYTES:
        return None, f"{volume} bytes of changed files are too many to read"
    index = Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with tempfile.TemporaryDirectory(prefix="ktx-tree-") as aside:
        if index.exists():
            # With its time: git takes an entry for clean by its stat only where it is older than the index.
            shutil.copy2(index, f"{aside}/index")
        env = {
            "GIT_INDEX_FILE": f"{aside}/index",
            "GIT_OBJECT_DIRECTORY": f"{aside}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(repository.objects)),
        }
        os.mkdir(f"{aside}/objects")  # noqa: PTH102
        try:
            private = git.having(**env)
            stage(private, (path.removesuffix(b"/") for path in changed))
            return private.text("write-tree"), ""
        except GitFailed as error:
            return None, f"git could not tell the tree: {printable(error.answer.err[:200])}"


def _quoted(path: str) -> str:
    """A path in GIT_ALTERNATE_OBJECT_DIRECTORIES, where `:` separates and `"` begins a C-style string."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _generated(top: Path, ignored: list[bytes]) -> str | None:
    """Digest of (name, size, modification time) of the ignored files, or None where there are too many."""
    seen: list[bytes] = []
    todo = [top / os.fsdecode(path) for path in ignored]
    while todo:
        path = todo.pop()
        if path.name in CACHES or path.suffix in (".pyc", ".egg-info"):
            continue
        try:
            info = path.lstat()
            if stat.S_ISDIR(info.st_mode):
                if not (path / "pyvenv.cfg").exists():
                    todo += path.iterdir()
                continue
        except FileNotFoundError:
            continue  # gate-ok: gone since git looked; who removes files now writes between runs
        seen.append(b"%b\0%d\0%d" % (os.fsencode(path), info.st_size, info.st_mtime_ns))
        if len(seen) > GENERATED_LIMIT:
            return None
    return digest(b"\0\0".join(sorted(seen)))
