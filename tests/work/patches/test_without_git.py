"""What is kept, read without the git that wrote it: by dulwich, byte for byte, mode for mode.

Unit trees, kept patches, the attic, packs and landed commits of SHA-1 repositories. dulwich knows no `GIT_INDEX_FILE`,
split or sparse index, and its status disagrees about submodules: it is asked for objects and refs only.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dulwich.objects import Blob, Commit, Tree
from dulwich.pack import Pack, apply_delta
from dulwich.patch import FilePatch, apply_patch_hunks, git_base85_decode, parse_unified_diff
from dulwich.refs import Ref
from dulwich.repo import Repo as Reader
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.commands import call
from tests.support.integration import Job
from tests.support.repos import Repo
from tests.support.trees import EXECUTABLE, LINK, REGULAR, File, Files, Store, edits, materialise, trees

FULL = os.environ.get("KTX_TEST_FULL") == "1"
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
GITLINK = "160000"
SUBMODULE = b"mods/sub"
DECLARED = {b".gitmodules": File(REGULAR, b'[submodule "sub"]\n\tpath = mods/sub\n\turl = ../sub\n')}
ONE, OTHER = b"1" * 40, b"2" * 40  # commits of the submodule


class Objects(Store):
    """A writer that has gitlinks too: their content is the commit's id."""

    def blob(self, file: File) -> str:
        return file.content.decode() if file.mode == GITLINK else super().blob(file)


@dataclass
class Scene:
    """One repository for all examples; each gets a base of its own on main, and a job."""

    repo: Repo
    objects: Objects
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def begin(self, base: Files) -> Job:
        commit = self.objects.commit(base)
        (self.repo.path / ".git/refs/heads/main").write_text(f"{commit}\n")
        self.repo.git("read-tree", "--reset", "-u", commit)
        self.repo.git("clean", "-qfdx", "-e", ".ktx")
        return Job.begin(self.repo, f"j{next(self.numbers)}")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    repo = Repo.init(tmp_path_factory.mktemp("without-git") / "repo")
    return Scene(repo, Objects(repo.path / ".git/objects"))


def commit_at(reader: Reader, name: str) -> Commit:
    """The commit of a ref or an id, which says of itself what it is called."""
    found = reader[reader.refs[Ref(name.encode())] if name.startswith("refs/") else name.encode()]
    assert isinstance(found, Commit)
    found.check()
    return found


def files_of(reader: Reader, tree: bytes, above: bytes = b"") -> dict[bytes, File]:
    """Every path of a tree with its mode and content; each object is checked as `fsck` would, its id recomputed."""
    found: dict[bytes, File] = {}
    whole = reader[tree]
    assert isinstance(whole, Tree)
    whole.check()
    assert Store.name("tree", whole.as_raw_string()) == tree.decode()
    for name, mode, oid in whole.items():
        if mode == 0o40000:
            found |= files_of(reader, oid, above + name + b"/")
        elif mode == 0o160000:
            found[above + name] = File(GITLINK, oid)
        else:
            blob = reader[oid]
            assert isinstance(blob, Blob) and Store.name("blob", blob.data) == oid.decode()
            found[above + name] = File(f"{mode:o}", blob.data)
    return found


# -- a patch, applied without git ----------------------------------------------------------------------


def applied(base: Files, patch: bytes) -> dict[bytes, File]:
    """The files that a patch makes of a base; it must fit to the byte."""
    made = dict(base)
    for part in parse_unified_diff(patch):
        old, new = (path.partition(b"/")[2] if path else None for path in (part.old_path, part.new_path))
        before = made.pop(old) if old else File("", b"")
        assert part.old_mode is None or not old or before.mode == f"{part.old_mode:o}", part
        if new:
            mode = f"{part.new_mode:o}" if part.new_mode else before.mode
            assert new not in made, part
            made[new] = File(mode, _content(part, before))
    return made


def _content(part: FilePatch, before: File) -> bytes:
    content = b"Subproject commit %s\n" % before.content if before.mode == GITLINK else before.content
    if part.binary:
        assert part.binary_new is not None
        data = zlib.decompress(git_base85_decode(part.binary_new))
        return b"".join(apply_delta(content, data)) if part.binary_new_delta else data
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    after = apply_patch_hunks(part, [line for line in lines if line])
    assert after is not None, part
    whole = b"".join(after)
    return whole.removeprefix(b"Subproject commit ").rstrip(b"\n") if part.new_mode == 0o160000 else whole


# -- the properties ------------------------------------------------------------------------------------


@st.composite
def works(draw: st.DrawFn) -> tuple[Files, Files, Files, bool]:
    """A base, what one unit makes of it, what another does; whether the first moves the submodule."""
    base = draw(trees())
    return inside(base), inside(draw(edits(base))), inside(draw(edits(base))), draw(st.booleans())


def inside(files: Files) -> Files:
    """The files, of which no link leads out of the tree: no unit may make one."""
    return {path: file._replace(content=b"b") if file.content == b"../b" else file for path, file in files.items()}


def tree_at(files: Files, commit: bytes = ONE) -> dict[bytes, File]:
    """The files beside a declared submodule at this commit."""
    return {**files, **DECLARED, SUBMODULE: File(GITLINK, commit)}


ODD: Files = {b"new\nline/\xff": File(EXECUTABLE, b""), b'quo"te\t': File(LINK, b"\xff"), b" a": File(REGULAR, b"\r")}


@settings(max_examples=200 if FULL else 6, suppress_health_check=QUIET, derandomize=not FULL)
@given(drawn=works())
@example(drawn=({}, ODD, {}, True))
@example(drawn=(ODD, {}, {**ODD, b"b": File(REGULAR, b"\0")}, False))
@example(drawn=({b"a": File(LINK, b"x")}, {b"a/b": File(REGULAR, b"x")}, {b"a": File(EXECUTABLE, b"x")}, True))
@example(
    drawn=({b"a": File(REGULAR, bytes(range(256)) * 40)}, {b"a": File(REGULAR, bytes(range(256)) * 41)}, {}, False)
)
def test_what_is_kept_is_what_the_unit_made(scene: Scene, drawn: tuple[Files, Files, Files, bool]) -> None:
    base, made, lost, moves = drawn
    job = scene.begin(tree_at(base))
    final = tree_at(made, OTHER if moves else ONE)
    worktree = job.open("u")
    if moves:
        worktree.git("update-index", "--cacheinfo", f"{GITLINK},{OTHER.decode()},{SUBMODULE.decode()}")
        worktree.git("commit", "-qm", "another commit of the submodule")
    materialise(worktree.path, base, made)
    document = job.collect("u")
    if document["outcome"] == "noop":
        assert final == tree_at(base)
    else:
        with Reader(str(scene.repo.path)) as reader:
            kept = commit_at(reader, f"refs/ktx/units/{job.document['jobId']}/0001-u")
            assert files_of(reader, kept.tree) == final and kept.tree.decode() == document["tree"]
            assert kept.parents == [job.document["base"].encode()]
    if document["transport"] == "patch":
        assert applied(tree_at(base), patch_of(job, "0001-u")) == final
    attic(scene, job, tree_at(base), lost)
    landed(scene, job, final)


def patch_of(job: Job, name: str) -> bytes:
    path: Path = job.repo.path / ".ktx/ingest-patches" / str(job.document["jobId"]) / f"{name}.patch"
    return path.read_bytes()


def landed(scene: Scene, job: Job, final: Files) -> None:
    """Integrated and landed: two commits, each with these files, each on the base."""
    base = job.document["base"].encode()
    assert job.apply("u", gates=False)["outcome"] in ("accepted", "noop")
    with Reader(str(scene.repo.path)) as reader:
        head = commit_at(reader, job.document["integrationRef"])
        assert files_of(reader, head.tree) == final
        assert head.id == base or head.parents == [base]
    job.land()
    with Reader(str(scene.repo.path)) as reader:
        target = commit_at(reader, "refs/heads/main")
        assert files_of(reader, target.tree) == final
        assert target.id == base or target.parents == [base]


def attic(scene: Scene, job: Job, base: Files, lost: Files) -> None:
    """What a unit leaves uncollected and is thrown away is at its attic ref."""
    worktree = job.open("v")
    materialise(worktree.path, {path: file for path, file in base.items() if path not in tree_at({})}, lost)
    names = ("--job", job.document["jobId"], "--unit", "v")
    closed = call("worktree-close", *names, "--outcome", "success", "--discard", "--json", cwd=scene.repo.path)
    assert closed.status == 0, closed
    if tree_at(lost) == base:
        return
    with Reader(str(scene.repo.path)) as reader:
        kept = commit_at(reader, closed.document["atticRef"])
        assert files_of(reader, kept.tree) == tree_at(lost)
        assert not worktree.path.exists()


def test_a_pack_is_whole(tmp_path: Path) -> None:
    """A change of more than a hundred paths is taken into the store as one pack."""
    repo = Repo.init(tmp_path / "repo")
    objects = Objects(repo.path / ".git/objects")
    scene = Scene(repo, objects)
    job = scene.begin({b"README": File(REGULAR, b"x\n")})
    made: dict[bytes, File] = {
        b"dir \xff\n%d/%d" % (n % 7, n): File((REGULAR, EXECUTABLE, LINK)[n % 3], b"%d \xfe" % n) for n in range(300)
    }
    materialise(job.open("u").path, {}, made)
    job.collect("u")
    packs = [path.with_suffix("") for path in (repo.path / ".git/objects/pack").glob("*.pack")]
    packed: set[bytes] = set()
    for path in packs:
        with Pack(str(path), object_format=Reader(str(repo.path)).object_format) as pack:
            pack.check()
            pack.check_length_and_checksum()
            packed |= set(pack)
            for oid in pack:
                pack[oid].check()
    assert {objects.name("blob", file.content).encode() for file in made.values()} <= packed
    with Reader(str(repo.path)) as reader:
        kept = commit_at(reader, f"refs/ktx/units/{job.document['jobId']}/0001-u")
        assert files_of(reader, kept.tree) == {**made, b"README": File(REGULAR, b"x\n")}
    landed(scene, job, {**made, b"README": File(REGULAR, b"x\n")})
