"""On exactly what content something ran: the tree id that a commit of everything in the checkout would have.

Computed beside the repository: a copy of the index and an object directory of its own, both thrown away. So a run on a
dirty checkout and a later commit of the same content have the same tree id. Ignored files are in no tree; a digest of
their names, sizes and times stands beside it (caches and installed environments left out).

All work in a worktree as a tree: committed, staged, unstaged and untracked, through a private index.

The worktree's own index is copied with its time (git's check for files that changed within the index's own tick needs
it) and never touched. Only the repository's own ignore rules count: a global one must not make work invisible.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ktxkit.base import files
from ktxkit.base.errors import Refused
from ktxkit.base.removal import delete_own
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import printable
from ktxkit.git.child import require_readable
from ktxkit.git.git import Git, GitFailed, GitResult
from ktxkit.git.neutral import owned_dir
from ktxkit.git.repository import Repository
from ktxkit.git.staging import as_checked_out, stage

HEAD = b"# branch.oid "  # a line of `git status`; `(initial)` where there is no commit
CHANGED_BYTES = 256 * 1024 * 1024  # bytes of changed and untracked files that are read to compute a tree id
PATHS_SHOWN = 200  # changed paths that are named
GENERATED_LIMIT = 20_000  # ignored files that are looked at; beyond, their state is not known
CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".git", ".ktx", "ktx"}
    | {"node_modules", ".venv", "venv", "htmlcov", ".coverage", ".eggs"}
)
IN_CACHE = CACHES - {"ktx", ".coverage"}  # directories that are a cache by their name alone

# What runs of tests leave beside the files that they test. Its names are its own: a file of this name is no module.
BYTECODE = re.compile(rb"\.(?:cpython|pypy|graalpy)-?[0-9][^/]*\.(?:py[co](?:\.[0-9]+)?|nbi|nbc)\Z")
RUN_CACHES = re.compile(
    rb"(?:\A|/)(?:\.pytest_cache|\.hypothesis|\.benchmarks)/|(?:\A|/)\.(?:coverage(?:\.[^/]+)?|testmondata[^/]*)\Z"
)
HIDDEN = re.compile(rb"(?:\A|\0)(?:[a-z]|S) ")  # tags of `ls-files -v`
# Contents count, not what somebody set so that git looks less closely (git-config(1)).
STAT_PINNED = {"core_trustctime": "true", "core_checkStat": "default", "core_untrackedCache": "false"}


class TreeState(NamedTuple):
    """`tree` is None where it could not be told (`why` says so)."""

    commit: str | None
    tree: str | None
    dirty: bool
    changed: tuple[str, ...]
    changed_count: int
    generated: str | None
    why: str = ""
    outside: tuple[
        bytes, ...
    ] = ()  # what of the checkout is in no tree: ignored, in other repositories. `/`: a directory

    def document(self) -> dict[str, object]:
        made: dict[str, object] = {"dirty": self.dirty}
        pairs = {"commit": self.commit, "tree": self.tree, "generated": self.generated, "why": self.why or None}
        made |= {key: found for key, found in pairs.items() if found is not None}
        if self.changed_count:
            made |= {"changed": list(self.changed), "changedCount": self.changed_count}
        return made


def take(git: Git, repository: Repository, changed_bytes: int = CHANGED_BYTES) -> TreeState:
    """The state of the checkout that `git` stands in. Raises GitFailed where git cannot tell its status.

    `changed_bytes`: where changed files have more, they are not read, and there is no tree id.
    """
    assert repository.top is not None, "a bare repository has no checkout"
    git = git.at(repository.top)
    with unhidden(git.configured(**STAT_PINNED)) as looking:
        commit, changed, ignored, inside = _status(looking)
        head_tree = None if commit is None else git.resolve(commit, "tree")
        why = "a submodule has changes of its own" if inside else ""
        tree: str | None = head_tree
        if changed or head_tree is None:
            tree, why = (None, why) if why else _tree_of(looking, repository, changed, changed_bytes)
    return TreeState(
        commit=commit,
        tree=tree if not inside else None,
        dirty=bool(changed),
        changed=tuple(printable(path) for path in changed[:PATHS_SHOWN]),
        changed_count=len(changed),
        generated=_generated(repository.top, ignored),
        why=why,
        outside=(*ignored, *(path for path in changed if path.endswith(b"/"))),
    )


@contextmanager
def unhidden(git: Git) -> Iterator[Git]:
    """The runner itself, or one with a copy of its index in which no entry tells git not to look at a file."""
    if not is_hiding(git):
        yield git
        return
    import tempfile

    index = Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with tempfile.TemporaryDirectory(prefix="ktx-index-") as aside:
        files.copy_with_times(index, Path(aside, "index"))
        private = git.having(GIT_INDEX_FILE=f"{aside}/index")
        _unhide(private)
        yield private


def is_hiding(git: Git) -> bool:
    """Whether any entry of the index is marked assume-unchanged or skip-worktree."""
    return HIDDEN.search(git.run("ls-files", "-v", "-z").out) is not None


def is_left_by_runs(path: bytes, *, tracked: bool = False) -> bool:
    """Whether a file is bytecode or, where it is untracked, a cache that runs of tests keep: no content of a tree."""
    return BYTECODE.search(path) is not None or (not tracked and RUN_CACHES.search(path) is not None)


def uncommitted(git: Git) -> list[bytes]:
    """Paths whose content in the checkout is not what the index of the runner has, untracked ones with them."""
    with unhidden(git) as looking:
        if looking is not git:
            looking.run("update-index", "-q", "--refresh", ok=(0, 1))
        unstaged = looking.run("diff-files", "--name-only", "-z").nul
        untracked = looking.run("ls-files", "--others", "--exclude-standard", "-z").nul
    own = [path for path in unstaged if not is_left_by_runs(path, tracked=True)]
    return sorted({*own, *(path for path in untracked if not is_left_by_runs(path))})


def _status(git: Git) -> tuple[str | None, list[bytes], list[bytes], bool]:
    """HEAD's commit, changed and untracked paths, ignored ones (directories end in `/`), and whether a submodule is
    dirty inside."""
    flags = ["--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
    flags += ["--branch", "--no-ahead-behind", "--ignore-submodules=none"]
    commit: str | None = None
    changed, doubted, ignored, inside = [], [], [], False
    for entry in git.run("-c", "status.relativePaths=false", "status", *flags).nul:
        kind = entry[:1]
        if entry.startswith(HEAD):
            name = entry.removeprefix(HEAD).decode("ascii")
            commit = None if name == "(initial)" else name
        elif kind == b"!":
            ignored.append(entry[2:])
        elif kind == b"?":
            if not is_left_by_runs(entry[2:]):
                changed.append(entry[2:])
        elif kind in (b"1", b"u"):
            fields = entry.split(b" ", 8 if kind == b"1" else 10)
            if fields[1] == b".M" and is_left_by_runs(fields[-1], tracked=True):
                continue
            own = b"M" in fields[2][2:3] or (b"U" in fields[2][3:4] and _has_untracked(git, fields[-1]))
            if fields[1] == b".M" and fields[2][:3] == b"S.." and not own:
                continue  # all that is new in the submodule is what runs of tests leave
            inside = inside or own
            changed.append(fields[-1])
            doubted += [fields[-1]] if fields[1] == b".M" and kind == b"1" else []
    same = as_checked_out(git, doubted)
    return commit, sorted(path for path in changed if path not in same), sorted(ignored), inside


def _has_untracked(git: Git, path: bytes) -> bool:
    """Whether a submodule has untracked files that are more than what runs of tests leave."""
    words = ("ls-files", "-z", "--others", "--exclude-standard")
    below = git.at(git.cwd / os.fsdecode(path))
    return any(not is_left_by_runs(one) for one in below.run(*words).nul)


def _tree_of(git: Git, repository: Repository, changed: list[bytes], limit: int) -> tuple[str | None, str]:
    """The tree of the index plus `changed`, and why there is none."""
    import tempfile

    top = repository.top
    assert top is not None
    volume = 0
    for path in changed:
        try:
            volume += (top / os.fsdecode(path)).lstat().st_size
        except (FileNotFoundError, NotADirectoryError):
            continue  # gate-ok: deleted in the checkout
    if volume > limit:
        return None, f"{volume} bytes of changed files are too many to read"
    index = Path(git.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with tempfile.TemporaryDirectory(prefix="ktx-tree-") as aside:
        if index.exists():
            # With its time: git takes an entry for clean by its stat only where it is older than the index.
            files.copy_with_times(index, Path(aside, "index"))
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
    """Digest of (name, size, modification time) of the ignored files, or None where there are too many.

    A cache may be ignored by a `.gitignore` of its own, as pytest's is: git then lists what is in it one by one.
    """
    seen: list[bytes] = []
    places = [Path(os.fsdecode(path)) for path in ignored]
    todo = [top / place for place in places if IN_CACHE.isdisjoint(place.parts[:-1])]
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


PINNED = {
    "core.excludesFile": "/dev/null",
    "core.ignoreStat": "false",
    "core.safecrlf": "false",
    "core.fsync": "objects,reference",
    "i18n.commitEncoding": "utf-8",
    "advice.addEmbeddedRepo": "false",
}
IDENTITY = {
    "GIT_AUTHOR_NAME": "ktxkit",
    "GIT_AUTHOR_EMAIL": "ktxkit@localhost",
    "GIT_COMMITTER_NAME": "ktxkit",
    "GIT_COMMITTER_EMAIL": "ktxkit@localhost",
}


class WorktreeSnapshot(NamedTuple):
    """What a worktree holds. `tree` has everything but ignored files; `nested` are repositories inside, not in it."""

    head: str
    head_tree: str
    tree: str
    nested: tuple[bytes, ...] = ()

    @property
    def uncommitted(self) -> bool:
        return self.tree != self.head_tree


def take_snapshot(git: Git, scratch: Path, leave_out: Sequence[bytes] = ()) -> WorktreeSnapshot:
    """The state of the worktree that `git` stands at the top of. `leave_out`: copied files that are not work.

    Writes objects, a private index under `scratch` and nothing else. Raises GitFailed where the state cannot be read.
    """
    reader = Git(git.cwd, git.env, {**git.config, **PINNED})
    index = Path(reader.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    own = owned_dir(scratch, "scratch")
    private = own / "index"
    try:
        if index.exists():
            files.copy_with_times(index, private)
        else:
            reader.having(GIT_INDEX_FILE=str(private)).run("read-tree", "HEAD")
        return _take(reader.having(GIT_INDEX_FILE=str(private)), leave_out)
    finally:
        delete_own(own)


def _take(git: Git, leave_out: Sequence[bytes]) -> WorktreeSnapshot:
    head, head_tree = git.text("rev-parse", "HEAD", "HEAD^{tree}").split("\n")
    _unhide(git)
    as_they_were = _untouched(git)
    told = git.run("ls-files", "-z", "--others", "--exclude-standard")
    require_readable(told)
    others = told.nul
    nested = tuple(path for path in others if path.endswith(b"/"))
    # git refuses to be told to leave out what it ignores anyway
    out = [path for path in leave_out if any(_is_at(other, path.rstrip(b"/")) for other in others)]
    paths = b".\0" + b"".join(b":(exclude,literal,top)" + path.rstrip(b"/") + b"\0" for path in (*nested, *out))
    from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
    added = git.run("add", "--all", "--sparse", *from_stdin, stdin=paths, ok=None, env={"GIT_LITERAL_PATHSPECS": "0"})
    if added.status != 0:
        _refuse_names(added)
    if as_they_were:
        git.run("update-index", "-z", "--index-info", stdin=as_they_were)
    return WorktreeSnapshot(head, head_tree, git.text("write-tree"), nested)


def _untouched(git: Git) -> bytes:
    """The index entries, for `update-index --index-info`, of files that git would add and nobody touched."""
    changed = [path for path in git.run("diff-files", "-z", "--name-only", "--diff-filter=M").nul if path]
    same = as_checked_out(git, changed)
    lines = git.run("ls-files", "-s", "-z").nul if same else []
    return b"".join(line + b"\0" for line in lines if line.partition(b"\t")[2] in same)


def _refuse_names(answer: GitResult) -> NoReturn:
    """Raises Refused where git cannot take a name (`.GIT`, `git~1`), GitFailed for anything else."""
    said = next((line for line in answer.err.splitlines() if b"invalid path" in line), None)
    if said is None:
        raise GitFailed(answer)
    raise Refused(
        f"git cannot take a name in it: {printable(said.removeprefix(b'error: '))}",
        location=str(answer.cwd),
        hint="move it away or rename it, then close again; as crash everything is kept where it is",
    )


def _is_at(path: bytes, place: bytes) -> bool:
    return path == place or path.startswith(place + b"/")


def _unhide(git: Git) -> None:
    """Entries that tell git not to look (assume-unchanged, skip-worktree) are looked at where a file is there."""
    hidden = {b"--no-assume-unchanged": b"", b"--no-skip-worktree": b""}
    for line in git.run("ls-files", "-v", "-z").nul:
        tag, path = line[:1], line[2:]
        if not os.path.lexists(os.path.join(os.fsencode(git.cwd), path)):  # noqa: PTH118
            continue
        if tag.islower():
            hidden[b"--no-assume-unchanged"] += path + b"\0"
        if tag.upper() == b"S":
            hidden[b"--no-skip-worktree"] += path + b"\0"
    for option, paths in hidden.items():
        if paths:
            git.run("update-index", option, "-z", "--stdin", stdin=paths)


def commit(git: Git, snapshot: WorktreeSnapshot, message: str, date: str, also: Sequence[str] = ()) -> str:
    """The snapshot as a commit on HEAD: HEAD itself where nothing is uncommitted. The same input is the same id.

    `also`: commits that it keeps as further parents.
    """
    return (
        _commit(git, snapshot.tree, (snapshot.head, *also), message, date)
        if snapshot.uncommitted or also
        else snapshot.head
    )


def _commit(git: Git, tree: str, parents: Sequence[str], message: str, date: str) -> str:
    env = {**IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    writer = Git(git.cwd, git.env, {**git.config, **PINNED})
    named = [word for parent in dict.fromkeys(parents) for word in ("-p", parent)]
    return writer.run("commit-tree", tree, *named, "-m", message, env=env).text


def staged(git: Git, scratch: Path, paths: Sequence[bytes], message: str, date: str) -> str:
    """HEAD with what is staged at `paths`, as a commit on it (as git stash keeps the index)."""
    own = owned_dir(scratch, "scratch")
    try:
        wanted = frozenset(paths)
        lines = [line for line in git.run("ls-files", "-s", "-z").nul if line.partition(b"\t")[2] in wanted]
        private = git.having(GIT_INDEX_FILE=str(own / "index"))
        private.run("read-tree", "HEAD")
        private.run("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines))
        return _commit(git, private.text("write-tree"), (git.text("rev-parse", "HEAD"),), message, date)
    finally:
        delete_own(own)


# Where git keeps commits of an operation that is not finished (git-rebase(1), git-merge(1) --autostash; sequencer.c).
PENDING = (
    "MERGE_AUTOSTASH", "MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge/autostash", "rebase-merge/orig-head",
    "rebase-merge/stopped-sha", "rebase-apply/autostash", "rebase-apply/orig-head", "sequencer/head",
)  # fmt: skip
OWN_REFS = ("refs/worktree", "refs/bisect", "refs/rewritten")  # gitrepository-layout(5): per worktree


def pending(git: Git, admin: Path, safe: Sequence[str]) -> tuple[str, ...]:
    """Commits that only `admin`, the git directory of a worktree, names. `safe`: revisions that hold what is safe."""
    found = [_object_id(admin / name) for name in PENDING]
    if any(names for _, names in files.walk(os.fspath(admin / "refs"))) and os.path.lexists(git.cwd / ".git"):
        found += git.run("for-each-ref", "--format=%(objectname)", *OWN_REFS).text.split()
    alone: list[str] = []
    for name in dict.fromkeys(one for one in found if one):
        told = git.run("rev-list", "--max-count=1", name, "--not", *safe, *alone, ok=(0, 128), twice=(128,))
        if told.status == 0 and told.out:
            alone.append(name)
        elif told.status != 0 and git.resolve(name) is not None:
            raise GitFailed(told)  # it is here, and whether it is safe is not known
    return tuple(alone)


def _object_id(path: Path) -> str:
    try:
        text = files.read(path, 4096).split()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    name = text[0].decode("ascii", "replace") if text else ""
    return name if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name) else ""


def submodules_at_risk(git: Git, modules: Path) -> tuple[bytes, ...]:
    """Populated submodules whose work is nowhere else: their git directories go with the worktree's own.

    Uncommitted work counts, and every ref or HEAD of theirs with commits that no remote branch has. `modules`: the
    worktree's directory of them (`rev-parse --git-path modules`).
    """
    if not modules.is_dir():
        return ()
    links = [entry for entry in git.run("ls-files", "-s", "-z").nul if entry.startswith(b"160000 ")]
    return tuple(path for path in (entry.partition(b"\t")[2] for entry in links) if holds_work(git, path))


def is_unpublished(git: Git, common_dir: Path, path: bytes, name: bytes, commit: str) -> bool:
    """Whether a repository of the submodule is here, the worktree's own or the main checkout's, and no branch that a
    remote of one has contains the commit. What was fetched by its id alone counts as published.

    `name`: the submodule's in .gitmodules. Where no repository of it is here nothing is known, and it is False.
    """
    own = Path(os.fsdecode(os.path.join(os.fsencode(git.cwd), path)))  # noqa: PTH118
    shared = common_dir / "modules" / os.fsdecode(name)
    here = [place for place in (own,) if os.path.lexists(place / ".git")]
    here += [shared] if ".." not in shared.parts and (shared / "HEAD").is_file() else []
    return bool(here) and not any(_is_published(git.at(place), commit) for place in here)


def _is_published(inside: Git, commit: str) -> bool:
    """A remote's branch contains the commit, or a fetch brought it by its id (git-fetch(1), FETCH_HEAD)."""
    words = ("for-each-ref", "--count=1", f"--contains={commit}", "refs/remotes")
    told = inside.run(*words, ok=(0, 128, 129), twice=(128, 129))  # it does not have the commit
    if told.status == 0 and told.out:
        return True
    place = Path(inside.text("rev-parse", "--path-format=absolute", "--git-path", "FETCH_HEAD"))
    return place.is_file() and commit.encode() in files.read(place, 1 << 20)


def holds_work(git: Git, path: bytes) -> bool:
    """Whether a repository inside the worktree has uncommitted work, or commits that no remote branch has."""
    place = Path(os.fsdecode(os.path.join(os.fsencode(git.cwd), path)))  # noqa: PTH118
    if not os.path.lexists(place / ".git"):
        return False
    inside = git.at(place)
    head = ["HEAD"] if inside.resolve("HEAD") is not None else []
    own = inside.run("rev-list", "--max-count=1", *head, "--all", "--not", "--remotes", ok=None)
    dirty = inside.run("status", "--porcelain", "-z", "--untracked-files=normal", ok=None)
    return own.status != 0 or dirty.status != 0 or bool(own.out) or bool(dirty.out)
