"""Proofs that the ledger has.

A checkout of its own in which a suite runs on mutated files. The user's tree is never written to.

The mutation proof: definitions of the change are made wrong, one at a time; what notices must have been selected.

Each mutant meets the selected tests; one that they let live meets the whole suite. A mutant that only the suite kills
is a miss: a test that was needed and not selected.

`test-select --prove`: the proof of one change's selection, made in a copy and kept in the ledger.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ktxkit.affected import select, test_run
from ktxkit.affected.rules.decision import Touched
from ktxkit.affected.rules.mutants import Mutant, is_data, mutants, sample, valid, values
from ktxkit.base import contracts, files, kinds, process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun, Refused
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import plural, printable
from ktxkit.git import neutral, snapshot
from ktxkit.ledger import asking, chain
from ktxkit.ledger.asking import new_run_id
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    from ktxkit.base.documents import AffectedProof, AffectedProofMiss, ProofVerdict

    class ProvenFacts(TypedDict):
        """What a run's record says of the proof that its selection rests on."""

        proof: NotRequired[str]
        missed: NotRequired[int]

    class PluginAnswer(TypedDict):
        """What the plugin in the copy says of a run of pytest."""

        ran: int
        failed: int
        first: str


KIND = b'"kind":"affected-proof"'


def newest(world: World, base: str = "", tree: str = "") -> AffectedProof | None:
    """The newest proof, of this change where one is named. Raises BrokenContract where its line is damaged."""
    path = world.store.path(names.LEDGER)
    if not path.exists():
        return None
    data = files.read(path, limit=1 << 40)
    end = data.rfind(b"\n") + 1
    while (at := data.rfind(KIND, 0, end)) >= 0:
        start = end = data.rfind(b"\n", 0, at) + 1
        line = data[start : data.find(b"\n", at)]
        if KIND in line[:64] and (not tree or tree.encode("ascii") in line):
            read = contracts.loads(kinds.LEDGER_LINE, line, str(path))
            chain.require_own(read, path)
            found = read["proof"]
            if not tree or (found["base"], found.get("tree")) == (base, tree):
                return found
    return None


def of_change(world: World, base: str) -> tuple[str, ProvenFacts]:
    """What may be said of the selection for the change from a base tree to the checkout, and the facts for a run."""
    tree = snapshot.take(world.git, world.repository).tree if world.repository.top else None
    proof = newest(world, base, tree) if tree else None
    if proof is not None and proof["missed"]:
        said = (
            f"test-run: this run does not cover the change: proof {proof['id']} has {plural(proof['missed'], 'miss')}"
        )
        return said, {"proof": proof["id"], "missed": proof["missed"]}
    if proof is not None and proof["verdict"] == "proven":
        numbers = f"{proof['killed']} of {proof['mutants']} mutants noticed, no miss"
        return f"test-run: it rests on proof {proof['id']} of this change: {numbers}", {"proof": proof["id"]}
    other = newest(world)
    if other is not None:
        return f"test-run: it rests on proof {other['id']}, which is of another change", {"proof": other["id"]}
    return "test-run: nothing proves the selection: test-select --prove does", {}


REGULAR = ("100644", "100755")
ARGUMENTS_BYTES = 100_000  # of node ids on one command line; more of them go through a file
NO_TESTS = 5  # pytest's status where none was collected
PLUGINS = ("-p", "no:cacheprovider", "-p", "ktx_proof_told")
RESULT_VARIABLE = "KTX_PROOF_TOLD"
PLUGIN = """import json, os
ran, failed = {}, {}
def pytest_runtest_logreport(report):
    ran[report.nodeid] = None
    if report.failed:
        failed[report.nodeid] = None
def pytest_collectreport(report):
    if report.failed:
        failed[report.nodeid] = None
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        with open(os.environ["KTX_PROOF_TOLD"], "w") as stream:
            json.dump({"ran": len(ran), "failed": len(failed), "first": next(iter(failed), "")}, stream)
"""


class Outcome(NamedTuple):
    """One run. `noticed`: it did not pass; `failed`: how many tests did not, and the first of them."""

    noticed: bool
    late: bool
    failed: int
    ran: int
    first: str
    seconds: float
    text: str = ""


@dataclass(frozen=True)
class Copy:
    """The checkout. `words`: more arguments for pytest; `roots`: directories that modules are imported from."""

    world: World
    top: Path
    python: str
    words: Sequence[str] = ()
    roots: Collection[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        return files.read(self.top / path)

    def write(self, path: str, data: bytes) -> None:
        files.write_atomic(self.top / path, data, mode=(self.top / path).stat().st_mode & 0o777, durable=False)

    def run(self, tests: Sequence[str] | None, limit: float | None = None, *, first: bool = False) -> Outcome:
        """The tests (None: all). `limit` in seconds; `first`: no further than the first that fails."""
        if tests is not None and not tests:
            return Outcome(False, False, 0, 0, "", 0.0)
        clock = self.world.clock
        began = clock.monotonic()
        with self._ids(tests or ()) as ids:
            argv = [self.python, "-m", "pytest", "-q", "--tb=no", f"--rootdir={self.top}", *PLUGINS]
            words = [*argv, *(["-x"] if first else []), *self.words, *ids]
            done = process.run(process.Command(words, self.top, self._environment(), limit))
        seconds = clock.monotonic() - began
        told = self._told()
        said = (done.err or done.out)[-2000:].decode("utf-8", "backslashreplace").strip()
        noticed = done.timed_out or done.status not in (0, NO_TESTS)
        return Outcome(noticed, done.timed_out, told["failed"], told["ran"], told["first"], seconds, said)

    @property
    def _beside(self) -> Path:
        return self.top.parent / "beside"

    def _told(self) -> PluginAnswer:
        """What the plugin wrote; nothing where pytest did not come to its end."""
        try:
            found: PluginAnswer = json.loads(files.read(self._beside / "told.json"))
        except (FileNotFoundError, ValueError, RecursionError):
            return {"ran": 0, "failed": 0, "first": ""}
        files.remove(self._beside / "told.json")
        return found

    @contextmanager
    def _ids(self, tests: Sequence[str]) -> Iterator[list[str]]:
        """Node ids as arguments; through a file, as pytest has it since 8.2, where they are too many."""
        if sum(len(one) for one in tests) < ARGUMENTS_BYTES:
            yield list(tests)
            return
        place = self._beside / "ids.txt"
        files.write_atomic(place, "\n".join(tests).encode("utf-8", "surrogateescape") + b"\n", durable=False)
        yield [f"@{place}"]

    def _environment(self) -> dict[str, str]:
        """The user's, but nothing is recorded or cached, and modules come from the copy before any installed one."""
        kept = {key: value for key, value in self.world.env.items() if not key.startswith(("KTX_", "GIT_"))}
        paths = [str(self._beside), *(str(self.top / root) for root in sorted(self.roots))]
        paths += [self._moved(one) for one in kept.get("PYTHONPATH", "").split(os.pathsep) if one]
        more = {
            RESULT_VARIABLE: str(self._beside / "told.json"),
            "KTX_LEDGER": "off",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        return {**kept, **more, **self.env}

    def _moved(self, place: str) -> str:
        """A directory of the user's checkout is the copy's."""
        top = self.world.repository.top
        full = os.path.normpath(self.world.cwd / place)
        if top is None or os.path.commonpath([full, os.path.realpath(top)]) != os.path.realpath(top):
            return place
        return str(self.top / os.path.relpath(full, os.path.realpath(top)))


@contextmanager
def opened(
    world: World,
    entries: Mapping[str, tuple[str, str]],
    loose: Mapping[str, bytes],
    mutated: Collection[str],
    python: str,
    words: Sequence[str] = (),
) -> Iterator[Copy]:
    """A copy of a tree. `entries`: path to mode and id; `loose`: bytes that are no object yet, by id."""
    kept = [(mode, os.fsencode(path), oid) for path, (mode, oid) in entries.items() if oid not in loose]
    kept = [one for one in kept if one[0] != "160000"]
    with neutral.checkout(world, kept) as top:
        for path, (mode, oid) in entries.items():
            if oid in loose:
                _loose(top / path, mode, loose[oid])
        files.write_new(top.parent / "beside" / "ktx_proof_told.py", PLUGIN.encode())
        yield Copy(world, top, python, tuple(words), roots_of(entries, mutated))


def _loose(place: Path, mode: str, data: bytes) -> None:
    files.make_dirs(place.parent)
    if mode in REGULAR:
        files.write_atomic(place, data, mode=int(mode[-3:], 8), durable=False)
    else:
        place.symlink_to(os.fsdecode(data))


def roots_of(paths: Collection[str], mutated: Collection[str]) -> set[str]:
    """The directories that mutated files are imported from: the nearest ones that are no package; always the top."""
    packages = {path.rpartition("/")[0] for path in paths if path.endswith("__init__.py")}
    found = {"."}
    for path in mutated:
        folder = path.rpartition("/")[0]
        while folder in packages and folder:
            folder = folder.rpartition("/")[0]
        if not any(one.startswith((f"{folder}/test_", f"{folder}/conftest.py")) for one in paths):
            found.add(folder or ".")
    return found


LIMIT_LEAST, LIMIT_TIMES = 30.0, 4.0  # seconds; times the suite without a mutant
MISSES_SHOWN = 200
PROVEN: Final = "proven"
MISSED: Final = "missed"
NOTHING: Final = "nothing"
Tests = Callable[[Mutant], Sequence[str]]
ProofListener = Callable[[str], None]


class Met(NamedTuple):
    """What became of one mutant. `suite` is None where the selected tests had killed it."""

    mutant: Mutant
    selected: Outcome
    suite: Outcome | None

    @property
    def missed(self) -> bool:
        return self.suite is not None and self.suite.noticed


@dataclass
class ProofProgress:
    """A proof as it goes."""

    candidates: int
    baseline: Outcome
    met: list[Met] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> ProofVerdict:
        if any(one.missed for one in self.met):
            return MISSED
        return PROVEN if any(one.selected.noticed for one in self.met) else NOTHING

    def document(self) -> dict[str, Any]:
        """The numbers, and every miss with its mutant and the first test that noticed."""
        killed = [one.selected for one in self.met if one.selected.noticed]
        whole = [one for one in killed if not one.late and one.failed]
        suites = [one.suite for one in self.met if one.suite is not None]
        missed = [one for one in self.met if one.missed]
        made: dict[str, Any] = {
            "verdict": self.verdict,
            "candidates": self.candidates,
            "mutants": len(self.met),
            "killed": len(killed),
            "late": sum(1 for one in killed if one.late),
            "survived": sum(1 for one in suites if not one.noticed),
            "missed": len(missed),
            "misses": [_miss(one) for one in missed[:MISSES_SHOWN]],
            "tests": self.baseline.ran,
            "selected": sum(one.selected.ran for one in self.met),
            "selectedOfKilled": sum(one.ran for one in whole),
            "needed": sum(one.failed for one in whole),
            "seconds": {
                "suite": round(self.baseline.seconds, 3),
                "selected": round(sum(one.selected.seconds for one in self.met), 3),
            },
        }
        return made | ({"unloaded": self.unloaded[:MISSES_SHOWN]} if self.unloaded else {})


def _miss(one: Met) -> AffectedProofMiss:
    assert one.suite is not None
    return {
        "path": one.mutant.path,
        "unit": one.mutant.unit,
        "kind": one.mutant.kind,
        "line": one.mutant.line,
        "text": one.mutant.text[:200],
        "test": one.suite.first[:4000] or "the suite as a whole",
    }


def prove(
    copy: Copy, candidates: Sequence[Mutant], count: int, seed: int, tests: Tests, listener: ProofListener
) -> ProofProgress:
    """Meet `count` of the candidates. Raises CannotRun where the suite does not pass as it is, or loads no copy."""
    contents = {path: copy.read(path) for path in {one.path for one in candidates}}
    picked = sample(candidates, contents, count, seed, valid)
    baseline, unloaded = _baseline(copy, {path: contents[path] for path in {one.path for one in picked}})
    account = ProofProgress(len(candidates), baseline, unloaded=unloaded)
    limit = max(LIMIT_LEAST, baseline.seconds * LIMIT_TIMES)
    for number, mutant in enumerate(picked, start=1):
        copy.write(mutant.path, mutant.apply(contents[mutant.path]))
        try:
            selected = copy.run(tests(mutant), limit)
            suite = None if selected.noticed else copy.run(None, limit, first=True)
        finally:
            copy.write(mutant.path, contents[mutant.path])
        account.met.append(Met(mutant, selected, suite))
        word = "missed" if account.met[-1].missed else "survived" if suite is not None else "killed"
        listener(f"{number} of {len(picked)}: {mutant.location} {mutant.kind}: {word}")
    return account


def _baseline(copy: Copy, contents: dict[str, bytes]) -> tuple[Outcome, list[str]]:
    """The suite without a mutant; each module to be mutated leaves a mark where it is loaded."""
    marks = copy.top.parent / "marks"
    files.make_dirs(marks)
    paths = sorted(path for path in contents if path.endswith(".py"))
    for number, path in enumerate(paths):
        mark = os.fsencode(repr(str(marks / str(number))))
        copy.write(path, contents[path].rstrip(b"\n") + b"\n__import__('builtins').open(" + mark + b", 'a').close()\n")
    try:
        outcome = copy.run(None)
    finally:
        for path in paths:
            copy.write(path, contents[path])
    if outcome.noticed:
        raise CannotRun(
            f"the suite does not pass without a mutant: {outcome.failed} failed, first {outcome.first or outcome.text}",
            hint="mend what fails; what is deselected behind `--` instead is not covered by the proof",
        )
    unloaded = [path for number, path in enumerate(paths) if not (marks / str(number)).exists()]
    if paths and len(unloaded) == len(paths):
        raise CannotRun(
            "the suite loads none of the files that would be mutated from the copy",
            location=", ".join(unloaded[:5]),
            hint="is an installed copy imported? install the project in editable form",
        )
    return outcome, unloaded


def candidates(copy: Copy, changed: Sequence[tuple[str, str]], data: Sequence[str] = ()) -> list[Mutant]:
    """The mutants in changed units (path, name; empty: what runs at import), in those around and inside them; and
    one for each value of the data files."""
    by_path: dict[str, set[str]] = {}
    for path, unit in changed:
        by_path.setdefault(path, set()).add(unit)
    found = [one for path, units in by_path.items() for one in mutants(path, copy.read(path)) if _in(one, units)]
    return sorted([*found, *(one for path in data for one in values(path, copy.read(path)))])


def _in(mutant: Mutant, units: set[str]) -> bool:
    return any(
        mutant.unit == unit or (unit and (mutant.unit.startswith(f"{unit}.") or unit.startswith(f"{mutant.unit}.")))
        for unit in units
    )


SHOWN = 5  # paths that are named
NOTHING_TO_MUTATE = "no value, operator, call or return in what changed"


@dataclass(frozen=True)
class ProofRequest:
    """`sample` mutants, drawn with `seed`; `words` are more arguments for pytest."""

    base: str = "HEAD"
    sample: int = 50
    seed: int = 1
    python: str = ""
    words: Sequence[str] = ()


def ask(base: str, count: int | None, seed: int | None, python: str, words: Sequence[str]) -> ProofRequest:
    """What is asked for, with what is not said as it is by itself."""
    return ProofRequest(base, 50 if count is None else count, 1 if seed is None else seed, python, words)


def proof(world: World, ask: ProofRequest, listener: ProofListener) -> AffectedProof:
    """Prove the selection of the change from a base to the checkout. Raises Refused where nothing can be mutated."""
    if ask.sample < 1:
        raise CannotRun(f"--sample {ask.sample}: a proof needs at least one mutant", hint="--sample 50 is the default")
    made = select.select(world, select.SelectionRequest(base=ask.base))
    entries, tests = made.target.entries, [one.id for one in made.decision.tests]
    left = {one.path: _left_alone(made, one) for one in made.touched}
    changed = [
        (one.path, one.unit) for one in made.decision.changes if one.path.endswith(".py") and not left.get(one.path)
    ]
    data = [path for path, why in left.items() if not why and not path.endswith(".py")]
    paths = {path for path, _ in changed}
    python = ask.python or test_run.python_of(world)
    with opened(world, entries, made.target.loose, paths, python, ask.words) as place:
        found = candidates(place, changed, data)
        if not found:
            raise _nothing(ask, left)
        account = prove(place, found, ask.sample, ask.seed, lambda _: tests, listener)
    return _kept(world, ask, made, account)


def _left_alone(made: select.Selection, one: Touched) -> str:
    """Why nothing of a changed path is mutated; empty where something may be."""
    if one.path not in made.target.entries:
        return "it is gone"
    if made.target.entries[one.path][0] not in REGULAR:
        return "no plain file"
    if one.path in made.decision.unbounded:
        return "every test is meant for it: none can be missed"
    if made.graph.project.is_test_file(one.path):
        return "a test: a wrong test says nothing of what is selected"
    if one.path.endswith(".py"):
        same = all(change.path != one.path for change in made.decision.changes)
        return "only layout or remarks differ" if same else ""
    return "" if is_data(one.path) else "no Python, and no JSON, YAML, TOML, CSV or ini"


def _nothing(ask: ProofRequest, left: Mapping[str, str]) -> Refused:
    """Every changed path with why nothing of it is mutated."""
    if not left:
        return Refused(f"nothing to prove: nothing differs from {ask.base}", hint="--base says where the change starts")
    said = [f"{printable(path)}: {why or NOTHING_TO_MUTATE}" for path, why in left.items()]
    more = f"; and {plural(len(said) - SHOWN, 'other path')}" if len(said) > SHOWN else ""
    return Refused(
        f"nothing in the change can be mutated: {'; '.join(said[:SHOWN])}{more}",
        hint="a proof mutates changed modules and data outside of the tests; --base names where the change starts",
    )


def _kept(world: World, ask: ProofRequest, made: select.Selection, account: ProofProgress) -> AffectedProof:
    """The proof as a record of the ledger."""
    tree = snapshot.take(world.git, world.repository).tree
    now = world.clock.now()
    document: dict[str, Any] = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "affected-proof",
        "id": new_run_id(now),
        "at": timestamp(now),
        "project": asking.resolve(world),
        "base": made.base.name,
        **({"tree": tree} if tree else {}),
        "seed": ask.seed,
        "selection": {"tests": made.decision.selected, "of": made.decision.total, "verdict": made.decision.verdict},
        **({"arguments": list(ask.words)} if ask.words else {}),
        **account.document(),
    }
    body = {"kind": "affected-proof", "run": document["id"], "project": document["project"], "proof": document}
    with chain.locked(world):
        chain.append(world, body)  # judges it
    return cast("AffectedProof", document)


def lines(document: AffectedProof) -> list[str]:
    """The proof as text."""
    met = f"{document['killed']} of {document['mutants']} mutants were noticed by the selected tests"
    made = [f"{met}, {document['survived']} by nobody, {document['missed']} only by tests that were not selected"]
    made[0] += " (which are asked where no selected one notices)"
    for one in document["misses"]:
        where = f"{one['path']}:{one['line']} {one['unit'] or '(loading it)'}"
        made.append(f"missed: {where}: {one['kind']} {one['text']!r}: {one['test']}")
    if document["needed"]:
        made.append(
            f"selected {document['selectedOfKilled']} tests where {document['needed']} noticed"
            f" ({document['selectedOfKilled'] / document['needed']:.1f} for each that was needed)"
        )
    made += [f"never loaded by the suite: {path}" for path in document.get("unloaded", ())]
    if document.get("arguments"):
        made.append(f"pytest was given {' '.join(document['arguments'])}: tests that this leaves out are not covered")
    words = {"proven": "no miss", "missed": "the selection leaves out what is needed", "nothing": "nothing is proven"}
    return [*made, f"{document['id']}: {words[document['verdict']]}"]
