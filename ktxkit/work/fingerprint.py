"""A fingerprint of what a unit must not touch: the user's checkout, refs, stash, configuration, hooks, siblings, store.

Only reads, and takes no lock: a status here never makes an agent's `git add` fail. What a file holds is asked again
only where its inode, size, mode or times changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ktxkit.base import files, kinds
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.digests import digest, digest_of
from ktxkit.base.rules.text import printable
from ktxkit.git.child import git_dir
from ktxkit.git.git import Git
from ktxkit.git.repository import Repository
from ktxkit.git.staging import as_checked_out
from ktxkit.store.rules import names
from ktxkit.store.store import Store
from ktxkit.work.rules import shared_state

Facts = dict[tuple[str, str], str]
ConfigEntries = list[tuple[Path | None, str, bytes]]  # the file of a setting (resolved), its key, its value
ONCE = ("patch", "receipt", "verdict")  # documents of a unit that are written once per attempt
MOVES = ("state", "closedAt", "outcome", "atticRef")  # what a closing changes of a lease
CLOSED = "closed"  # the signature of what cannot be looked at
IN_TURN = 50  # units whose documents are looked at beside those that are at work
IN_PROGRESS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
)
CONFIGS = ("config", "config.worktree")
RULES = ("info/attributes", "info/exclude", "info/grafts", "objects/info/alternates", "shallow")


class Fingerprinter:
    """Takes fingerprints of one repository and job. Keeps what it read, so that the next one is cheap."""

    def __init__(self, git: Git, repository: Repository, store: Store, job_id: str) -> None:
        self.git = git
        self.repository = repository
        self.store = store
        self.job_id = job_id
        self._memory: dict[Path, tuple[str, dict[str, str]]] = {}
        self._units: dict[str, Facts] = {}
        self._turn: list[int] = [0]
        # What git listed, behind the signatures that its files had before it was asked.
        self._listed: tuple[dict[str, str], ConfigEntries] | None = None
        self._listed_refs: tuple[list[tuple[bytes, str]], Facts] | None = None

    def take(self, quiet: Mapping[str, Path] | None = None, fresh: Collection[str] | None = None) -> Facts:
        """The facts now. `quiet`: worktrees of units (`0001-key` to path) that nobody should be working in.

        `fresh` names the units whose documents are read now; of the others some are, in turn, so that a look costs the
        same in a job of many units. None: those of all units are.
        """
        facts: Facts = {}
        for top in self._checkouts():
            facts |= self._checkout(top)
        settings = self._settings()
        facts |= self._refs() | self._shared(settings) | self._hooks(settings) | self._documents(fresh)
        for unit, path in (quiet or {}).items():
            facts |= self._sibling(unit, path)
        return facts

    def _checkouts(self) -> list[Path]:
        """The main checkout, and the linked one that the job was started in where it is not a unit's."""
        tops = [self.repository.top] if self.repository.top is not None else []
        if self.repository.linked and self.repository.common_dir.name == ".git":
            tops.insert(0, self.repository.common_dir.parent)
        ours = self.store.path("worktrees")
        return [top for top in tops if top.is_dir() and ours not in top.parents]

    def _checkout(self, top: Path) -> Facts:
        git = self.git.at(top)
        options = ("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=none")
        kind = (
            shared_state.CHECKOUT if top == self._checkouts()[0] else f"{shared_state.CHECKOUT} {printable(str(top))}"
        )
        facts: Facts = {}
        lines = git.run("status", "--no-renames", *options).nul
        same = as_checked_out(git, [line.split(b" ", 8)[-1] for line in lines if line.startswith(b"1 .M ")])
        for line in lines:
            if line.startswith(b"# branch.oid "):
                facts[kind, "HEAD"] = line[13:].decode("ascii")
            elif line.startswith(b"# branch.head "):
                facts[kind, "branch"] = printable(line[14:])
            elif not line.startswith(b"# "):
                path = line.split(b" ", {b"1": 8, b"u": 10}.get(line[:1], 1))[-1]
                if path not in same:
                    facts[kind, printable(path)] = f"{printable(line)} {_signature(top / os.fsdecode(path))}"
        admin = git_dir(git)
        return facts | {(kind, name): "present" for name in IN_PROGRESS if os.path.lexists(admin / name)}

    def _refs(self) -> Facts:
        """Branches, tags and the stash; git is asked again only where a file that can hold some changed."""
        signs = _signs_of_refs(os.fsencode(self.repository.common_dir))
        if self._listed_refs is None or self._listed_refs[0] != signs:
            self._listed_refs = (signs, self._read_refs())
        return self._listed_refs[1]

    def _read_refs(self) -> Facts:
        wanted = ("refs/heads", "refs/tags", "refs/stash")
        facts: Facts = {}
        for line in self.git.run("for-each-ref", "--format=%(objectname) %(refname)", *wanted).out.splitlines():
            value, _, name = line.partition(b" ")
            kind = shared_state.STASH if name == b"refs/stash" else shared_state.REFS
            facts[kind, printable(name)] = value.decode("ascii")
        if (shared_state.STASH, "refs/stash") in facts:  # a drop below the top moves the reflog only
            facts[shared_state.STASH, "entries"] = digest(self.git.run("log", "-g", "--format=%H", "refs/stash").out)
        return facts

    def _settings(self) -> ConfigEntries:
        """Every setting as the user's git has it: where it comes from, key and value, in order of precedence.

        Git is asked again only where one of the files that it looks for changed, came or went, and each time where
        others have a say (`include.path`): their places only git knows.
        """
        signs = {path: _signature(Path(path)) for path in self._config_files()}
        if self._listed is None or self._listed[0] != signs:
            found = self._read_settings()
            others = any(str(path) not in signs for path, _, _ in found if path is not None)
            including = any(key.startswith(("include.", "includeif.")) for _, key, _ in found)
            self._listed = None if others or including else (signs, found)
            return found
        return self._listed[1]

    def _config_files(self) -> set[str]:
        """The files that git reads settings from where they exist (git-config(1), FILES); links are followed."""
        env, home = self.git.env, self.git.env.get("HOME", "")
        user = (f"{home}/.gitconfig", f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config")
        named = (env.get("GIT_CONFIG_GLOBAL", ""), env.get("GIT_CONFIG_SYSTEM", "") or "/etc/gitconfig")
        own = [str(self.repository.common_dir / name) for name in CONFIGS]
        own.append(str(self.repository.git_dir / "config.worktree"))
        return {os.path.realpath(path) for path in (*own, *user, *named) if path}

    def _read_settings(self) -> ConfigEntries:
        plain = Git(self.git.cwd, self.git.env)  # the runner's own settings are not the user's
        answer = plain.run("config", "--list", "--show-origin", "-z", ok=(0, 128), twice=(128,))
        if answer.status != 0:
            return []
        found = []
        for origin, entry in zip(answer.nul[::2], answer.nul[1::2], strict=True):
            kind, _, name = origin.partition(b":")
            key, _, value = entry.partition(b"\n")
            path = Path(os.path.realpath(self.git.cwd / os.fsdecode(name))) if kind == b"file" else None
            found.append((path, printable(key), value))
        return found

    def _shared(self, settings: ConfigEntries) -> Facts:
        facts: Facts = {}
        for name in CONFIGS:
            path = self.repository.common_dir / name
            keys = self._known(path, lambda path: self._keys(path, settings))
            facts |= {(shared_state.CONFIG, f"{name}: {key}"): value for key, value in keys.items()}
        for name in RULES:
            for value in self._known(self.repository.common_dir / name, _content).values():
                facts[shared_state.CONFIG, name] = value
        return facts

    def _keys(self, path: Path, settings: ConfigEntries) -> dict[str, str]:
        """Each key of a configuration file with the digest of its values: values may be secrets."""
        found: dict[str, list[str]] = {}
        for origin, key, value in settings:
            if origin == path:
                found.setdefault(key, []).append(digest(value))
        return {key: digest_of(values) for key, values in found.items()} or self._keys_alone(path)

    def _keys_alone(self, path: Path) -> dict[str, str]:
        """The same of a file that git takes no setting from, because it is empty, broken, or not switched on."""
        found: dict[str, list[str]] = {}
        words = ("config", "--file", path, "--no-includes", "--list", "-z")
        answer = self.git.run(*words, ok=(0, 128), twice=(128,))
        if answer.status != 0:
            return {"(cannot be read)": digest(files.read(path))}
        for entry in answer.nul:
            key, _, value = entry.partition(b"\n")
            found.setdefault(printable(key), []).append(digest(value))
        return {key: digest_of(values) for key, values in found.items()}

    def _hooks(self, settings: ConfigEntries) -> Facts:
        named = [value for _, key, value in settings if key == "core.hookspath"]
        own = self._expanded(os.fsdecode(named[-1])) if named else ""
        folder = self.repository.directory / own if named else self.repository.common_dir / "hooks"
        facts: Facts = {(shared_state.HOOKS, "core.hooksPath"): printable(own)} if named else {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if not path.name.endswith(".sample"):
                facts[shared_state.HOOKS, printable(path.name)] = ":".join(self._known(path, _content).values())
        return facts

    def _expanded(self, path: str) -> str:
        """A path of the configuration; git alone knows what `~user` and its `%(prefix)` stand for."""
        if not path.startswith(("~", "%", ":")):
            return path
        words = ("config", "--type=path", "--get", "core.hooksPath")
        return Git(self.git.cwd, self.git.env).run(*words, ok=(0, 1, 128), twice=(128,)).text

    def _documents(self, fresh: Collection[str] | None) -> Facts:
        facts: Facts = {}
        for job in self.store.children("jobs"):
            facts[shared_state.JOB, job] = "present"
        units = self.store.children(f"{names.job_dir(self.job_id)}/units")
        patches = set(self.store.children(f"ingest-patches/{self.job_id}"))
        for unit in self._chosen(units, fresh):
            self._units[unit] = self._of_unit(unit, f"{unit}.patch" in patches)
        for gone in self._units.keys() - set(units):
            del self._units[gone]
        for known in self._units.values():
            facts.update(known)
        facts |= self._top()
        accounts = [
            f"provenance/{name}/{end}.jsonl" for name in self.store.children("provenance") for end in ("rows", "raw")
        ]
        for journal in (names.trace_file(self.job_id), "ledger/test-runs.ndjson", *accounts):
            info = _lstat(self.store.path(journal))
            if info is not None:
                facts[shared_state.JOURNAL, journal] = f"{info.st_ino}:{info.st_size}"
        return facts

    def _top(self) -> Facts:
        if not self.store.root.is_dir():
            return {}
        with os.scandir(self.store.root) as entries:
            found = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
        strange = (
            name for name in found if name != names.STORE and not (name.startswith(".") and name.endswith(".tmp"))
        )
        return {(shared_state.STORE, printable(name)): _signature(self.store.root / name) for name in strange}

    def _chosen(self, units: list[str], fresh: Collection[str] | None) -> list[str]:
        """The units that are read now: all of a small job, else those asked for, and the next of the others in turn."""
        if fresh is None or len(units) <= IN_TURN:
            return units
        start = self._turn[0] % len(units)
        self._turn[0] = start + IN_TURN
        return [*(set(units) & set(fresh)), *units[start : start + IN_TURN]]

    def _of_unit(self, unit: str, patch: bool) -> Facts:
        facts: Facts = {}
        folder = self.store.path(f"{names.job_dir(self.job_id)}/units/{unit}")
        for name in ONCE:
            facts |= self._document(f"{unit}/{name}.json", folder / f"{name}.json", _content)
        facts |= self._document(f"{unit}/lease.json", folder / "lease.json", self._lease)
        if patch:
            name = f"{unit}.patch"
            facts |= self._document(f"ingest-patches/{name}", self.store.path(f"ingest-patches/{self.job_id}/{name}"))
        return facts

    def _document(self, name: str, path: Path, read: Callable[[Path], dict[str, str]] | None = None) -> Facts:
        known = self._known(path, read or _content)
        return {(shared_state.DOCUMENT, name): ":".join(known.values())} if known else {}

    def _lease(self, path: Path) -> dict[str, str]:
        document = self.store.read(kinds.LEASE, os.path.relpath(path, self.store.root))
        return {"lease": digest_of({key: value for key, value in document.items() if key not in MOVES})}

    def _sibling(self, unit: str, path: Path) -> Facts:
        facts: Facts = {(shared_state.SIBLING, unit): "watched"}
        if not path.is_dir():
            return facts | {(shared_state.SIBLING, f"{unit}/."): "gone"}
        head = self.git.at(path).run("rev-parse", "--verify", "HEAD", ok=(0, 128), twice=(128,))
        facts[shared_state.SIBLING, f"{unit}/(HEAD)"] = head.text
        return facts | {
            (shared_state.SIBLING, f"{unit}/{printable(name)}"): sign for name, sign in _walk(os.fsencode(path))
        }

    def _known(self, path: Path, read: Callable[[Path], dict[str, str]]) -> dict[str, str]:
        """What `read` says of a file, asked again only where the file changed; empty where there is none."""
        sign = _signature(path)
        if sign == "absent":
            return {}
        if sign == CLOSED:
            return {"unreadable": sign}
        if path not in self._memory or self._memory[path][0] != sign:
            try:
                self._memory[path] = (sign, read(path))
            except FileNotFoundError:
                return {}  # it went away between the look and the read
            except (PermissionError, BrokenContract):
                return {"unreadable": sign}  # whoever needs it is told; a look at it ends nobody's work
        return self._memory[path][1]


def _content(path: Path) -> dict[str, str]:
    info = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    if stat.S_ISLNK(info.st_mode):
        return {"link": os.readlink(path)}  # noqa: PTH115
    if not stat.S_ISREG(info.st_mode):
        return {"kind": oct(stat.S_IFMT(info.st_mode))}
    return {"mode": oct(info.st_mode & 0o777), "content": digest(files.read(path))}


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _signature(path: Path) -> str:
    """Of a file; `absent` where there is none, `closed` where what it lies in may not be looked into."""
    try:
        return _sign(os.stat(path, follow_symlinks=False))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except PermissionError:
        return CLOSED


def _sign(info: os.stat_result) -> str:
    return f"{info.st_ino}:{info.st_mode:o}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


def _signs_of_refs(common: bytes) -> list[tuple[bytes, str]]:
    """Signatures of all files that hold refs (gitrepository-layout(5)) but those of jobs, which are ours alone."""
    names = (b"packed-refs", b"logs/refs/stash")
    found = [(name, _signature(Path(os.fsdecode(common + b"/" + name)))) for name in names]
    return [*found, *_walk(common + b"/reftable"), *_walk(common + b"/refs", common + b"/refs/ktx")]


def _walk(top: bytes, closed: bytes = b"") -> list[tuple[bytes, str]]:
    """Every file below `top` with its signature; directories count by what is in them. `closed` is not entered."""
    found: list[tuple[bytes, str]] = []
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders += [entry.path] if entry.path != closed else []
                    else:
                        found.append((entry.path[len(top) + 1 :], _sign(entry.stat(follow_symlinks=False))))
        except OSError as error:  # removed while we look, or closed to us: that is what is to be told
            found.append((folder[len(top) + 1 :] + b"/", error.strerror or "unreadable"))
    return found
