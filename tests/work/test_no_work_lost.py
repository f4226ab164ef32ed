"""No work is lost: random histories of people and commands in up to four worktrees over one repository.

Each edit writes a word that stands nowhere else. What a person does may lose words (a reset, an edit over an edit):
that is their own. No command of ours loses one, whatever was done before it, in which state it found a worktree, and
where it was killed: each word that was there is on a branch, in a worktree, in the stash or the attic, or in a unit's
commit. A word in a file that its author told git to ignore is no work. `KTX_TEST_SEED=N` runs one history alone.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Ran, call, script
from tests.support.repos import Repo

FULL = os.environ.get("KTX_TEST_FULL") == "1"
ONE = os.environ.get("KTX_TEST_SEED")
HISTORIES, STEPS = (2000, 16) if FULL else (30, 12)
GROUPS = 10
MOSTLY = 0.75
WORD = re.compile(rb"word-[0-9]+")
NAMED, UNITS = ("a", "b"), ("u", "v")
PATHS = ("f", "d/g", "new", "build/out", "dist/x.log", "tmp.obj", "n.one", "n.two")
PENDING = ("rebase-merge/orig-head", "rebase-merge/autostash", "ORIG_HEAD.none", "MERGE_HEAD", "CHERRY_PICK_HEAD")


class History:
    """One history: the repository, what was done, and every word that somebody could still miss."""

    def __init__(self, template: Path, place: Path, seed: int) -> None:
        shutil.copytree(template, place, symlinks=True)
        self.repo = Repo(place)
        self.random = random.Random(seed)
        self.seed = seed
        self.focus = self.random.choice((*NAMED, *UNITS))  # most of it happens in one worktree
        self.log: list[str] = []
        self.succeeded: set[str] = set()  # commands that ended with 0
        self.words: set[bytes] = set()
        self.count = 0
        self.ignored: dict[Path, set[str]] = {}  # endings that a worktree's author told git to ignore
        self._seen: dict[str, frozenset[bytes]] = {}  # words of objects that were read

    # Where things are

    def place(self, name: str) -> Path:
        store = self.repo.path / ".ktx/worktrees"
        found = [store / "adhoc" / name] if name in NAMED else sorted((store / "j1").glob(f"*-{name}*"))
        return next((path for path in found if (path / ".git").exists()), self.repo.path / "none")

    def worktree(self) -> Repo | None:
        """Some worktree that is there."""
        there = [path for name in (*NAMED, *UNITS) if (path := self.place(name)).exists()]
        here = self.place(self.focus)
        if here in there and self.random.random() < MOSTLY:
            return Repo(here)
        return Repo(self.random.choice(there)) if there else None

    def one_of(self, names: tuple[str, ...]) -> str:
        return self.focus if self.focus in names and self.random.random() < MOSTLY else self.random.choice(names)

    def held(self, *, collected: bool = True) -> set[bytes]:
        """Every word of a file in a worktree, and of a blob that a ref, a HEAD, an index or the stash leads to.

        `collected`: what was collected of units too, which their author may have overwritten since.
        """
        found: set[bytes] = set()
        for top, folders, names in os.walk(self.repo.path):
            folders[:] = [name for name in folders if name not in (".git", ".trash", "jobs", "tmp", "locks")]
            if ".ktx/ingest" in top or ".ktx/attempts" in top:
                continue
            for name in names:
                found.update(WORD.findall((Path(top) / name).read_bytes()))
        return found | self._objects(() if collected else ("--exclude=refs/ktx/units/*",))

    def _objects(self, without: tuple[str, ...]) -> set[bytes]:
        extra = self.repo.git("log", "-g", "--format=%H", "refs/stash", check=False).split()
        for admin in (self.repo.path / ".git/worktrees").glob("*"):
            for name in PENDING:
                if (admin / name).is_file():
                    extra += (admin / name).read_text().split()[:1]
        words = ("rev-list", "--objects", "--no-object-names", *without, "--all", "--indexed-objects", *extra)
        listed = self.repo.git(*words).split()
        new = [oid for oid in listed if oid not in self._seen]
        if new:
            block = "".join(f"{oid}\n" for oid in new).encode()
            data, at = self.repo.git_bytes("cat-file", "--batch", stdin=block), 0
            while at < len(data):
                end = data.index(b"\n", at)
                oid, kind, size = data[at:end].split(b" ")
                body = data[end + 1 : end + 1 + int(size)]
                self._seen[oid.decode()] = frozenset(WORD.findall(body) if kind == b"blob" else ())
                at = end + 1 + int(size) + 1
        return {word for oid in listed for word in self._seen[oid]}

    # What happens

    def step(self) -> None:
        act = self.random.choice(ACTS)
        if act in PEOPLE:
            before = self.held(collected=False)
            act(self)
            self.words -= before - self.held(collected=False)  # what its author wrote over, or took back
            self.words &= self.held()
        else:
            act(self)
            lost = self.words - self.held()
            assert not lost, "\n".join((f"seed {self.seed}", repr(lost), *self.log))

    def note(self, what: str, ran: Ran | None = None) -> None:
        said = f" -> {ran.status} {(ran.err or ran.out).strip()[:200]}" if ran is not None else ""
        self.log.append(f"\n{what}{said}")
        self.succeeded |= {what.split()[0]} if ran is not None and ran.status == 0 else set()
        assert ran is None or not ("--help" in ran.err and ran.status == 2), f"it is not understood: {self.log[-1]}"

    def run(self, *words: str) -> Ran:
        ran = call(*words, cwd=self.repo.path)
        self.note(" ".join(words), ran)
        assert ran.status in (0, 1, 3, 4), "\n".join(self.log)
        return ran

    def git(self, tree: Repo, *words: str) -> None:
        done = subprocess.run(["git", *words], cwd=tree.path, capture_output=True, check=False)
        self.note(f"{tree.path.name}: git {' '.join(words)} -> {done.returncode}")

    def target(self) -> tuple[str, ...]:
        """Some worktree's words on a command line."""
        name = self.one_of((*NAMED, *UNITS))
        return (name,) if name in NAMED else ("--job", "j1", "--unit", name)


def edit(it: History) -> None:
    tree = it.worktree()
    if tree is None:
        return
    name = it.random.choice(PATHS)
    it.count += 1
    word = b"word-%d" % it.count
    path = tree.path / name
    if path.parent.is_file() or path.is_dir():
        return
    path.parent.mkdir(exist_ok=True)
    old = path.read_bytes() if path.exists() and it.random.random() < 0.5 else b""
    path.write_bytes(old + word + b"\n")
    it.note(f"{tree.path.name}: write {word.decode()} to {name}")
    if not any(name.endswith(end) for end in it.ignored.get(tree.path, ())):
        it.words.add(word)


def ignore(it: History) -> None:
    tree = it.worktree()
    if tree is None:
        return
    end = it.random.choice((".one", ".two", ".log"))
    with open(tree.path / ".gitignore", "ab") as file:
        file.write(b"*%s\n" % end.encode())
    it.ignored.setdefault(tree.path, set()).add(end)
    it.note(f"{tree.path.name}: ignore *{end}")
    for name in PATHS:
        if name.endswith(end) and (tree.path / name).is_file() and not tree.git("ls-files", name):
            it.words -= set(WORD.findall((tree.path / name).read_bytes()))


def git_in(*words: str, only: tuple[str, ...] = ()) -> Callable[[History], None]:
    def act(it: History) -> None:
        tree = it.worktree()
        if tree is not None and (not only or tree.path.name in only):
            it.git(tree, *words)

    return act


def user_edits_target(it: History) -> None:
    """A commit on the branch that jobs land on."""
    it.count += 1
    word = b"word-%d" % it.count
    it.repo.write(it.random.choice(("f", "other")), word + b"\n")
    it.git(it.repo, "commit", "-qam", "target")
    it.words.add(word)


def open_it(it: History) -> None:
    words = it.target()
    it.run("worktree-open", *words, *(("--base", "main") if "--job" in words and it.random.random() < 0.3 else ()))


def close_it(it: History) -> None:
    outcome = it.random.choice(("success", "success", "empty", "crash", "conflict"))
    more = ("--discard",) if it.random.random() < 0.4 and outcome in ("success", "empty") else ()
    words = it.target()
    if it.random.random() < 0.25:
        killed(it, "worktree-close", *words, "--outcome", outcome, *more)
    else:
        ran = call("worktree-close", *words, "--outcome", outcome, *more, cwd=it.repo.path)
        it.note(f"close {words} {outcome} {more}", ran)


def killed(it: History, *words: str) -> None:
    """A command that dies somewhere."""
    child = subprocess.Popen(
        [script(words[0]), *words[1:]], cwd=it.repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        child.wait(it.random.uniform(0.05, 0.4))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    it.note(f"killed: {' '.join(words)} -> {child.returncode}")


def collect(it: History) -> None:
    it.note("collect", call("patch-collect", "--job", "j1", "--unit", it.one_of(UNITS), cwd=it.repo.path))


def apply(it: History) -> None:
    unit = ("--job", "j1", "--unit", it.one_of(UNITS))
    if it.random.random() < MOSTLY:
        it.note("collect", call("patch-collect", *unit, cwd=it.repo.path))
    it.note("apply", call("patch-apply", *unit, "--no-gates", cwd=it.repo.path))


def land(it: History) -> None:
    if it.random.random() < 0.25:
        killed(it, "job-land", "--job", "j1")
    else:
        it.note("land", call("job-land", "--job", "j1", cwd=it.repo.path))


def land_name(it: History) -> None:
    more = ("--squash",) if it.random.random() < 0.3 else ()
    words = ("land", it.one_of(NAMED), *more)
    it.note(" ".join(words), call("git-ktx", *words, cwd=it.repo.path))


def prune(it: History) -> None:
    if it.random.random() < 0.25:
        killed(it, "worktree-open", "--prune")
    else:
        it.note("prune", call("worktree-open", "--prune", cwd=it.repo.path))


def clean(it: History) -> None:
    more = ("--records",) if it.random.random() < 0.3 else ()
    it.note("clean", call("git-ktx", "clean", "--yes", *more, cwd=it.repo.path))


PEOPLE: list[Callable[[History], None]] = [
    edit, edit, edit, edit, edit, ignore,
    git_in("add", "-A"), git_in("commit", "-qam", "work"), git_in("commit", "-qam", "work"),
    git_in("stash", "-q"), git_in("stash", "pop", "-q"), git_in("reset", "-q", "--hard", "HEAD~1"),
    git_in("reset", "-q", "--soft", "HEAD~1"), git_in("rebase", "main"), git_in("rebase", "--abort"),
    git_in("checkout", "-q", "--", "."), git_in("rm", "-q", "--cached", "f"), git_in("worktree", "lock", "."),
    git_in("worktree", "unlock", "."), git_in("checkout", "-q", "-B", "topic"),
    git_in("checkout", "-q", "--detach", "main"), user_edits_target,
]  # fmt: skip
OURS: list[Callable[[History], None]] = [
    open_it, open_it, open_it, close_it, close_it, close_it, collect, collect, apply, apply, land, land_name, prune,
    clean, clean,
]  # fmt: skip
ACTS = [*PEOPLE, *OURS]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("template") / "repo"


def made(template: Path) -> Path:
    """A repository in which two units of a job and a worktree of a name are open."""
    if not template.exists():
        repo = Repo.init(template)
        for name in ("f", "d/g", "other"):
            repo.write(name, f"{name}\n")
        repo.commit("base")
    return template


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_is_done_no_word_is_lost(template: Path, tmp_path: Path, group: int) -> None:
    seeds = [int(ONE)] if ONE else range(group, HISTORIES, GROUPS)
    succeeded: set[str] = set()
    for seed in seeds:
        it = History(made(template), tmp_path / "repo", seed)
        for name in sorted({it.random.choice(UNITS), it.focus} & set(UNITS)):
            it.run("worktree-open", "--job", "j1", "--unit", name, "--base", "main", "--target", "main")
        for name in sorted({it.random.choice(NAMED), it.focus} & set(NAMED)):
            it.run("worktree-open", name)
        edit(it)
        for _ in range(STEPS):
            it.step()
        succeeded |= it.succeeded
        shutil.rmtree(it.repo.path)
    print(f"{len(seeds)} histories without a loss")
    never = {"collect", "apply", "land", "prune", "clean", "close"} - succeeded
    assert not FULL or ONE or not never, f"in {len(seeds)} histories nothing came of {never}"
