"""Units that can write nowhere but where their work is: their worktree, their place among the documents, git's objects.

A write of one unit into the worktree of another that runs cannot be told from that one's own: no file says which
process wrote it. So it is prevented where a job asks for it and the kernel can (Landlock), before it is anybody's work.

Files that lie among the documents of jobs and are none: found before anything lands, named, and left where they are.

Nothing reads them; but whoever put them there could have meant to be read.

What a unit, or a stray process of one, wrote over its documents: put aside, and what the job itself wrote is put back.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import files, kinds, sandbox
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError
from ktxkit.base.identity import identify
from ktxkit.base.removal import make_private, move
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.git.neutral import scratch_dir
from ktxkit.store.active import Unit
from ktxkit.store.leases import LeaseLocation, path_of
from ktxkit.store.rules import names
from ktxkit.store.world import World
from ktxkit.work.integrate import DONE
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules import shared_state
from ktxkit.work.rules.shared_state import DOCUMENT

if TYPE_CHECKING:
    from ktxkit.base.documents import Intent, Lease, Receipt
    from ktxkit.base.kinds import D, Kind


EVERYONE = ("=/dev", "=/proc", "/dev/shm")  # devices that are there, what a process says of itself; shared memory
OF_STORE = ("ledger", "locks/owners")  # test runs are recorded wherever tests run


class Walls(NamedTuple):
    """What a command is started behind; nothing of the kind for units that are not isolated.

    `wrong`: why what it made could not be taken over, when it has ended.
    """

    before: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    wrong: list[KtxError] = []  # noqa: RUF012


def check(world: World, also: Sequence[str] | None) -> None:
    """Before a job that isolates its units begins. Raises CannotRun where it cannot be, or a place would undo it."""
    if also is None:
        return
    if sandbox.landlock_version() < sandbox.LEAST:
        raise CannotRun(
            "this kernel cannot isolate units",
            hint="it needs Landlock (Linux 5.19 or newer, `landlock` in its `lsm=`); leave `isolate` out",
        )
    _also(world, also)


@contextmanager
def behind(run: JobRun, unit: Unit, lease: Lease) -> Iterator[Walls]:
    """For the block, what a unit's command is started behind.

    An isolated one has a repository of its own meanwhile, and what it made there is taken over at the block's end.
    """
    if run.plan.isolate is None:
        yield Walls(wrong=[])
        return
    location = LeaseLocation.of_unit(run.job, unit)
    private = location.private(lease)
    with scratch_dir(run.world) as place:
        temporary = place / "tmp"
        files.make_dirs(temporary)
        private.make(*names.job_refs(run.job.id)[:1])
        own = [
            temporary,
            path_of(lease),
            private.directory,
            *_documents(run, unit),
            *_also(run.world, run.plan.isolate),
        ]
        places = [place for place in EVERYONE if Path(place.lstrip("=")).exists()] + [str(place) for place in own]
        walls = Walls(sandbox.starter("isolate", *places), dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary)), [])
        try:
            yield walls
        finally:
            try:
                location.take_over(lease)
            except KtxError as error:
                if error.machinery:  # that is no verdict on the unit: the job is resumed
                    raise
                walls.wrong.append(error)


def _documents(run: JobRun, unit: Unit) -> list[Path]:
    """Where an isolated unit may write in the store, of what is there."""
    places = (run.job.unit_dir(unit), f"ingest-traces/{run.job.id}", *OF_STORE)
    return [place for place in map(run.world.store.directory, places) if place.exists()]


def _also(world: World, also: Sequence[str]) -> list[Path]:
    """The places that the job file adds, from the repository's top. Raises CannotRun for one that cannot be."""
    return [_place(world, name) for name in also]


def _place(world: World, name: str) -> Path:
    home = world.env.get("HOME", "")
    place = world.repository.directory / (name.replace("~", home, 1) if home and name.split("/")[0] == "~" else name)
    real = Path(os.path.realpath(place))
    if not real.exists():
        raise CannotRun("isolated units cannot write where nothing is", location=str(place), hint="make it first")
    worktrees = Path(os.path.realpath(world.store.path("worktrees")))
    if real in (worktrees, *worktrees.parents) or worktrees in real.parents:
        raise CannotRun(
            "units that may write there are not isolated: the worktrees of others are in it",
            location=str(place),
            hint="name directories beside the repository's, or leave `isolate` out",
        )
    return real


KEPT = 200  # paths that are named


def note(run: JobRun) -> None:
    """Name what is there in the trace and in the job's warnings."""
    changes = run.watch.finish() if run.watch else []
    late = [change for change in changes if change["what"].startswith(f"{DOCUMENT} ")]
    if late:
        run.tracer.emit("work_unit", "changes_found_late", {"changes": late}, level="error")
    found = [printable(path) for path in _found(run)]
    if not found and not late:
        return
    if found:
        facts = {"paths": found[:KEPT], "count": len(found)}
        run.tracer.emit("work_unit", "stray_files_found", facts, level="error")
    told = [f".ktx/{path} is no document of a job: something put it there, nothing reads it" for path in found[:KEPT]]
    told += [f"{one['message']} while units ran, without being theirs" for one in late]
    more = [f"{plural(len(found) - KEPT, 'stray file')} more"] if len(found) > KEPT else []
    run.update(warnings=list(dict.fromkeys([*run.job.document.get("warnings", ()), *told, *more]))[:10_000])


def _found(run: JobRun) -> Iterator[str]:
    store, mine = run.world.store, names.job_dir(run.job.id)
    for name in _children(store.path("jobs")):
        place = f"jobs/{name}"
        if not store.path(place).is_dir() or os.path.islink(store.path(place)):  # noqa: PTH114
            yield place
        else:
            yield from (f"{place}/{one}" for one in shared_state.unknown_of_job(_children(store.path(place))))
    units = {names.unit_name(unit.position, unit.key) for unit in run.job.units}
    yield from (f"{mine}/units/{one}" for one in shared_state.unknown(_children(store.path(f"{mine}/units")), units))
    for unit in sorted(units):
        place = f"{mine}/units/{unit}"
        yield from (f"{place}/{one}" for one in shared_state.unknown(_children(store.path(place)), shared_state.UNIT))
    patches = f"ingest-patches/{run.job.id}"
    yield from (
        f"{patches}/{one}"
        for one in shared_state.unknown(_children(store.path(patches)), {f"{u}.patch" for u in units})
    )
    trees = f"worktrees/{run.job.id}"
    kept = [one for one in _children(store.path(trees)) if not shared_state.is_earlier_attempt(one, units)]
    yield from (f"{trees}/{one}" for one in shared_state.unknown(kept, {*units, "integration"}))


def _children(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


PAPERS: tuple[tuple[str, Kind[Any]], ...] = (  # beside lease, receipt and intent, which are looked into
    ("patch", kinds.PATCH),
    ("verdict", kinds.VERDICT),
    ("sentinel", kinds.SENTINEL),
    ("result", kinds.UNIT_RESULT),
)
# What a lease gets while it is open, by its closing or the observer.
OURS_LATER = (
    "state",
    "closedAt",
    "outcome",
    "atticRef",
    "leftOut",
    "branchKept",
    "ignored",
    "ignoredKept",
    "busy",
    "observer",
)


def put_right(run: JobRun, unit: Unit) -> str:
    """Make a unit's folder hold what the job wrote there, before anything of it is read; the job holds the truth.

    What cannot be read is put aside, a lease or receipt of ours is put back, a receipt of nobody's decision goes: the
    unit is judged all the same. Returns what was wrong; empty where nothing was.
    """
    place = run.job.unit_dir(unit)
    aside = _Aside(run, unit)
    worktree = run.world.store.path(names.worktree_dir(run.job.id, unit.position, unit.key))
    if identify(worktree) is not None and not os.access(worktree, os.R_OK | os.W_OK | os.X_OK):
        worktree.chmod(files.PRIVATE_DIR)  # it is ours; what is in it is the unit's
    aside.other_than_directory(place)
    patch = run.world.store.path(run.job.patch_file(unit))
    if os.path.lexists(patch) and not stat.S_ISREG(os.lstat(patch).st_mode):
        aside.move(patch, "it is not a regular file")
    lease = aside.read(f"{place}/lease.json", kinds.LEASE)
    receipt = aside.read(f"{place}/receipt.json", kinds.RECEIPT)
    intent = aside.read(f"{place}/intent.json", kinds.INTENT)
    for name, kind in PAPERS:
        aside.read(f"{place}/{name}.json", kind)
    _lease_as_it_was(run, unit, lease, aside)
    _receipt_as_it_was(run, unit, receipt, intent, aside)
    if aside.wrong:
        facts = {"unitKey": unit.key, "documents": aside.wrong, "keptAt": str(aside.quarantine)}
        run.tracer.emit("work_unit", "work_unit_documents_put_right", facts, level="error")
    return f"documents of the unit were altered while it ran: {'; '.join(aside.wrong)}" if aside.wrong else ""


def _lease_as_it_was(run: JobRun, unit: Unit, now: Lease | None, aside: _Aside) -> None:
    held = run.leases.get(unit.key)
    if held is None or (now is not None and _fixed(now) == _fixed(held)):
        return
    place = run.job.unit_doc(unit, "lease")
    if now is None and run.watch is not None and run.watch.guard.took_documents:  # no matter which unit did
        run.world.writable_store.write(kinds.LEASE, place, held)
        return
    aside.move(run.world.store.path(place), "the lease says otherwise than the job" if now else "the lease was gone")
    run.world.writable_store.write(kinds.LEASE, place, held)


def _fixed(lease: Lease) -> dict[str, object]:
    return {key: value for key, value in lease.items() if key not in OURS_LATER}


def _receipt_as_it_was(run: JobRun, unit: Unit, now: Receipt | None, intent: Intent | None, aside: _Aside) -> None:
    held = run.receipts.get(unit.key)
    place = run.job.unit_doc(unit, "receipt")
    if held is not None:
        if now != held:
            aside.move(run.world.store.path(place), "the receipt says otherwise than the job")
            run.world.writable_store.write(kinds.RECEIPT, place, held)
        return
    if now is not None and now["outcome"] in DONE and not _is_on_the_branch(run, unit, now):
        aside.move(run.world.store.path(place), "a receipt of what was never applied")
        now = None
    if now is None and intent is not None:
        aside.move(run.world.store.path(place).with_name("intent.json"), "an intent of what was never begun")


def _is_on_the_branch(run: JobRun, unit: Unit, receipt: Receipt) -> bool:
    """A unit may have called `patch-apply` itself; then its commit is there, and names it."""
    ours = f"{run.job.document['targetAtStart']}..{run.job.integration_ref}"
    commit = receipt.get("commit")
    if commit is None or run.git.resolve(run.job.integration_ref) is None:
        return False
    if commit not in run.git.run("rev-list", "--first-parent", ours, "--").lines:
        return False
    return f"Ktx-Unit: {unit.key}" in run.git.text("show", "--no-patch", "--format=%B", commit).splitlines()


_OF_JOB = re.compile(r"((landing|verification)(-[0-9]+)?(-intent)?|job-file-[0-9]+|report|verdict)\.json")
Signature = tuple[int, int, int, int]


class JobPapers:
    """What stands beside the job's own document, and among its verifications, while units run: none of it is written
    then but by the job's own steps, and those are over when this is looked at.

    What was put there meanwhile goes to the quarantine, what was altered or removed is put back; both are named.
    """

    def __init__(self, run: JobRun) -> None:
        self.run = run
        self._held: dict[str, tuple[Signature | None, bytes]] = {
            place: (sign, files.read(self._path(place))) for place, sign in self._look().items() if sign
        }

    def put_right(self) -> None:
        """Make it what it was when the units began."""
        now = self._look()
        told = []
        for place in sorted(now.keys() | self._held.keys()):
            held, sign = self._held.get(place), now.get(place)
            if held is not None and held[0] == sign:
                continue
            if place in now:
                self._aside(place)
            if held is not None:
                files.write_atomic(self._path(place), held[1])
                self._held[place] = (self._sign(place), held[1])
            word = "was put there" if held is None else "was altered" if place in now else "was removed"
            named = f".ktx/{self.run.job.directory}/{printable(place)}"
            told.append(f"{named} {word} while units ran, and counts for nothing")
        if told:
            self.run.tracer.emit("work_unit", "job_documents_put_right", {"documents": told}, level="error")
            known = self.run.job.document.get("warnings", ())
            self.run.update(warnings=list(dict.fromkeys([*known, *told]))[:10_000])

    def _look(self) -> dict[str, Signature | None]:
        folder = self._path("")
        found = [name for name in _children(folder) if _OF_JOB.fullmatch(name)]
        found += [f"verifications/{name}" for name in _children(folder / "verifications")]
        return {name: self._sign(name) for name in found if os.path.lexists(self._path(name))}

    def _path(self, place: str) -> Path:
        return self.run.world.store.path(f"{self.run.job.directory}/{place}")

    def _sign(self, place: str) -> Signature | None:
        """Of a regular file; None for anything else."""
        try:
            info = os.lstat(self._path(place))
        except FileNotFoundError:
            return None  # it went away this moment
        return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns) if stat.S_ISREG(info.st_mode) else None

    def _aside(self, place: str) -> None:
        mark = f"documents-{os.urandom(4).hex()}"
        goal = self.run.world.store.path(names.quarantine_dir(self.run.job.id, mark))
        files.make_dirs(goal)
        with suppress(FileNotFoundError):  # it went away this moment
            move(self._path(place), goal / place.rpartition("/")[2])


class _Aside:
    """Moves what does not belong there into the quarantine of the job, and keeps what was wrong with each."""

    def __init__(self, run: JobRun, unit: Unit) -> None:
        self.store = run.world.writable_store
        self.wrong: list[str] = []
        mark = f"documents-{unit.position}-{os.urandom(4).hex()}"
        self.quarantine = self.store.path(names.quarantine_dir(run.job.id, mark))

    def read(self, relative: str, contract: Kind[D]) -> D | None:
        try:
            return self.store.read_optional(contract, relative)
        except (BrokenContract, PermissionError) as error:
            self.move(self.store.path(relative), getattr(error, "message", "") or str(error))
            return None

    def other_than_directory(self, relative: str) -> None:
        """What stands where a unit's folder was: a link there would lead every write of ours out of the store."""
        path = self.store.path(relative)
        if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            self.move(path, "it is no directory any more")
            files.make_dirs(path)
        elif path.is_dir() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            self.wrong.append(f"{path.name}: its folder was closed")
            make_private(path)

    def move(self, path: Path, why: str) -> None:
        self.wrong.append(f"{path.name}: {why}"[:1000])
        if not os.path.lexists(path):
            return
        files.make_dirs(self.quarantine)
        move(path, self.quarantine / f"{len(self.wrong)}-{path.name}")
