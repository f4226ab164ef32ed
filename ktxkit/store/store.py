"""`.ktx/`: the only way to its documents. Found from git's common directory, ignored before anything is in it.

A question that needs only a place in it is answered before contracts and files would be imported: they come late here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.removal import StorePath, in_the_way

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktxkit.base.contracts import Document, Name
    from ktxkit.base.kinds import D, Kind
    from ktxkit.git.git import Git
    from ktxkit.git.repository import Repository

PROBE = "ktx-ignore-probe"  # a name inside the store that must be ignored
Rules = tuple[tuple[int, ...] | None, ...]  # what stat says of each file that ignore rules are read from


class Store:
    """Reads and writes documents under one `.ktx/`. Relative paths come from `ktxkit.store.rules.names`."""

    def __init__(self, root: Path) -> None:
        self.root: Path = StorePath.below(root)(root)
        self.ignored_by: Rules | None = None  # the files whose rules git was last seen to ignore it by
        self.put_aside: Callable[[str], None] | None = None  # what a running job does with what stands in the way

    def path(self, relative: str) -> Path:
        """The place of a relative path; it never leaves the store.

        Raises BrokenContract where something else stands in place of a directory on the way, a link above all.
        """
        assert not relative.startswith("/") and ".." not in relative.split("/"), relative
        self._require_directories(relative.split("/")[:-1])
        return self.root / relative

    def guarded(self, path: Path) -> Path:
        """A path that `entry` reaches without following links where it is one of this store."""
        return type(self.root)(path) if self.root in path.parents else path

    def directory(self, relative: str) -> Path:
        """The place of a directory, there or not. Raises BrokenContract where anything else stands there."""
        self._require_directories(relative.split("/"))
        return self.root / relative

    def regular(self, relative: str) -> Path:
        """The place of a file, there or not. Raises BrokenContract where anything but a regular file stands there."""
        path = self.path(relative)
        if not _is(stat.S_ISREG, path):
            self._in_the_way(relative, "regular file")
        return path

    def _require_directories(self, parts: list[str]) -> None:
        place = str(self.root)
        for depth, part in enumerate(("", *parts)):
            place = f"{place}/{part}" if part else place
            if not _is(stat.S_ISDIR, place):
                self._in_the_way("/".join(parts[:depth]), "directory")
                return

    def _in_the_way(self, relative: str, wanted: str) -> None:
        if self.put_aside is not None and relative:
            self.put_aside(relative)
            return
        raise in_the_way(self.root / relative, wanted)

    def exists(self, relative: str) -> bool:
        return os.path.lexists(self.path(relative))

    @overload
    def write(self, contract: Kind[D], relative: str, document: D, *, durable: bool = True) -> Path: ...
    @overload
    def write(self, contract: str, relative: str, document: Mapping[str, Any], *, durable: bool = True) -> Path: ...
    def write(self, contract: Name, relative: str, document: Any, *, durable: bool = True) -> Path:
        """Write a document whole or not at all; with `durable` it and its name are on the disk on return."""
        from ktxkit.base import contracts, files

        path = self.path(relative)
        files.write_atomic(path, contracts.dumps(str(contract), document, str(path)), durable=durable)
        return path

    @overload
    def read(self, contract: Kind[D], relative: str) -> D: ...
    @overload
    def read(self, contract: str, relative: str) -> Document: ...
    def read(self, contract: Name, relative: str) -> Any:
        """Read a document that must be there. Raises BrokenContract where it is not, or is not valid."""
        found = self.read_optional(str(contract), relative)
        if found is None:
            raise BrokenContract(
                f"{contract} document is missing",
                location=str(self.path(relative)),
                hint="it was removed, or never written: git ktx status tells what is left of the job",
            )
        return found

    @overload
    def read_optional(self, contract: Kind[D], relative: str) -> D | None: ...
    @overload
    def read_optional(self, contract: str, relative: str) -> Document | None: ...
    def read_optional(self, contract: Name, relative: str) -> Any:
        """Read a document, or None where there is none. Raises BrokenContract where it is not valid."""
        from ktxkit.base import contracts, files
        from ktxkit.store.rules import names

        path = self.path(relative)
        try:
            data = files.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise BrokenContract(
                "a directory stands where a document is expected", location=str(path), hint="move it away"
            ) from error
        document = contracts.loads(str(contract), data, str(path))
        wrong = names.misplaced(relative, document)
        if wrong:
            hint = "it was altered, or copied from elsewhere: put back the one that was written there"
            raise BrokenContract(f"the document is not of this place: {wrong}", location=str(path), hint=hint)
        return document

    def remove(self, relative: str) -> bool:
        """Remove a document. False where it was not there."""
        from ktxkit.base import files

        return files.remove(self.path(relative))

    def ledger_marks(self) -> list[Path]:
        """Where the end of the ledger is marked, beside its head: in its lock file, and in the git directory."""
        from ktxkit.store.rules import names

        root, dot_git = self.root, self.root.parent / ".git"
        if root.name != ".ktx":  # in a bare repository or a separate git directory, or kept elsewhere
            inside = (root.parent / "HEAD").is_file()
            return [root / names.LEDGER_LOCK, *([root.parent / names.LEDGER_MARK] if inside else [])]
        if dot_git.is_file():  # a submodule's
            text = dot_git.read_text("utf-8", "surrogateescape")
            dot_git = root.parent / text.strip().removeprefix("gitdir:").strip()
        return [root / names.LEDGER_LOCK, *([dot_git / names.LEDGER_MARK] if dot_git.is_dir() else [])]

    def children(self, relative: str) -> list[str]:
        """Names in a directory of the store, sorted; temporary files left out; empty where it is absent."""
        try:
            found = os.listdir(self.directory(relative))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in found if not name.startswith("."))


def _is(kind: Callable[[int], bool], path: Path | str) -> bool:
    """Whether a path is of a kind, or not there."""
    try:
        return kind(os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True


def prepare(store: Store, repository: Repository, git: Git) -> Store:
    """Make the store's root, ignored by git before anything is created in it. Idempotent.

    The rule goes to `info/exclude` of the common directory, never to a tracked `.gitignore`. Where an existing rule
    (also a directory-only one) ignores it already, nothing is written. Raises CannotRun where the store cannot be made.
    """
    from ktxkit.base import files

    if store.root.is_symlink():
        hint = "set KTX_DIR to where it leads, or remove the link"
        raise CannotRun("the store is a symbolic link; git looks behind none", location=str(store.root), hint=hint)
    if store.root.is_dir() and any(store.root.iterdir()):
        return store  # one that somebody made by mkdir is not ignored before it is used
    try:
        _exclude(store, repository, git)
        files.make_dirs(store.root)
    except OSError as error:
        raise CannotRun(
            f"cannot create the store: {error.strerror}",
            location=str(store.root),
            hint="set KTX_DIR or --ktx-dir to a place that can be written",
        ) from error
    return store


def ensure_ignored(store: Store, repository: Repository, git: Git) -> None:
    """git ignores the store, also where it stood before the rule or the rule was taken away. Raises CannotRun.

    A worktree in a store that is not ignored would be staged by `git add -A` as a gitlink.
    """
    try:
        _exclude(store, repository, git)
    except OSError as error:
        message = f"cannot make git ignore the store: {error.strerror}"
        raise CannotRun(
            message, location=str(store.root), hint="set KTX_DIR to a place outside the checkout"
        ) from error


def _exclude(store: Store, repository: Repository, git: Git) -> None:
    main = store.root.parent
    if repository.common_dir == store.root or repository.common_dir in store.root.parents:
        return  # inside the git directory: git never looks there
    top = _top_of(main, repository, git)
    if top is None:
        return  # KTX_DIR outside any repository
    own = Path(top) == repository.top
    rules = _rules_of(store, repository, Path(top)) if own else None
    if rules is not None and rules == store.ignored_by:
        return
    asked = git.at(main)
    if (rules is not None and _no_rule(store, repository, Path(top))) or not is_ignored(asked, store):
        exclude = _exclude_file(main, repository, git, own=own)
        _add_rule(exclude, os.path.relpath(store.root, top), lambda: is_ignored(asked, store))
        rules = _rules_of(store, repository, Path(top)) if own else None
        if not is_ignored(asked, store):
            raise CannotRun(
                "git does not ignore the store although info/exclude names it",
                location=str(exclude),
                hint="a later rule includes it again (a '!' pattern in .gitignore?); remove that rule or set KTX_DIR",
            )
    store.ignored_by = rules


def _exclude_file(main: Path, repository: Repository, git: Git, *, own: bool) -> Path:
    """`info/exclude` of the checkout that `main` is in; a linked one stays linked. Source: gitrepository-layout(5)."""
    if own:
        return Path(os.path.realpath(repository.common_dir / "info" / "exclude"))
    return Path(
        os.path.realpath(git.at(main).text("rev-parse", "--path-format=absolute", "--git-path", "info/exclude"))
    )


def _rules_of(store: Store, repository: Repository, top: Path) -> Rules:
    """The files that decide whether git ignores the store, as they are now: while they stay so, its answer does.

    Source: gitignore(5); the user's own file has no say (`is_ignored`).
    """
    configs = (repository.common_dir / name for name in ("config", "config.worktree"))
    return tuple(_stat_of(path) for path in (*_rule_files(store, repository, top), *configs))


def _rule_files(store: Store, repository: Repository, top: Path) -> list[Path]:
    inside = store.root.relative_to(top).parts
    folders = [top.joinpath(*inside[:depth]) for depth in range(len(inside) + 1)]
    return [*(folder / ".gitignore" for folder in folders), repository.common_dir / "info" / "exclude"]


def _no_rule(store: Store, repository: Repository, top: Path) -> bool:
    """Whether no file says anything that could ignore the store: git need not be asked. Source: gitignore(5)."""
    from ktxkit.base import files

    for path in filter(os.path.lexists, _rule_files(store, repository, top)):
        if path.is_symlink() or not path.is_file() or not os.access(path, os.R_OK):
            return False
        if any(line.strip() and not line.startswith(b"#") for line in files.read(path).splitlines()):
            return False
    return True


def _stat_of(path: Path) -> tuple[int, ...] | None:
    try:
        info = os.stat(path)  # noqa: PTH116
    except OSError:
        return None  # not there, or not to be read: git takes no rule from it either
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def _top_of(main: Path, repository: Repository, git: Git) -> str | None:
    """The top of the checkout that a directory lies in, or None."""
    if main == repository.top:
        return str(main)
    answer = git.at(main).run("rev-parse", "--show-toplevel", ok=(0, 128), twice=(128,)) if main.is_dir() else None
    return answer.text if answer is not None and answer.status == 0 else None


def _add_rule(exclude: Path, inside: str, enough: Callable[[], bool]) -> None:
    """Append the rule for the store's place in the checkout. `enough`: whether what another process wrote while we
    waited ignores it already."""
    from ktxkit.base import files
    from ktxkit.base.lock import flocked_directory

    files.make_dirs(exclude.parent, 0o755)
    before = _stat_of(exclude)
    with flocked_directory(exclude.parent):
        if _stat_of(exclude) != before and enough():
            return
        old = files.read(exclude) if exclude.exists() else b""
        lead = b"" if not old or old.endswith(b"\n") else b"\n"
        mode = exclude.stat().st_mode & 0o777 if exclude.exists() else 0o644
        files.write_atomic(exclude, old + lead + b"/" + _escaped(os.fsencode(inside)) + b"/\n", mode=mode)


def is_ignored(git: Git, store: Store) -> bool:
    """Whether the repository's own rules ignore what will be in the store: a user's global rule holds for one user.

    check-ignore ends with 128 under GIT_LITERAL_PATHSPECS=1.
    """
    probe = f"{store.root}/{PROBE}"
    from ktxkit.git.git import Git

    own = Git(git.cwd, git.env, {**git.config, "core.excludesFile": os.devnull})
    answer = own.run("check-ignore", "-q", "--no-index", "--", probe, ok=(0, 1), env={"GIT_LITERAL_PATHSPECS": "0"})
    return answer.status == 0


def _escaped(path: bytes) -> bytes:
    """A path as a literal gitignore pattern."""
    out = b"".join(b"\\" + bytes([c]) if bytes([c]) in b"\\*?[" else bytes([c]) for c in path)
    return out[:-1] + b"\\ " if out.endswith(b" ") else out
