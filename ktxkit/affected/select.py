"""Programs and settings that are no Python: scripts, makefiles, data that may name what is to be run or imported.

A test that starts `run.sh` reaches what the script names; one that reads `plugins.json` what is listed there.

Which tests a change can reach: the facts of both trees, kept by the id of the bytes, and the decision on them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ktxkit.affected import configuration, test_run, trees
from ktxkit.affected.rules import classes, decision, literals, runtime_audit
from ktxkit.affected.rules.decision import ABSENT, Decision, ImpactQuestion, Touched
from ktxkit.affected.rules.graph import Graph, Unit
from ktxkit.affected.rules.runtime_trace import Trace
from ktxkit.affected.rules.scopes import ANYTHING, LINK, MODULE, VERSION, Facts, UsageSink
from ktxkit.affected.runtime import latest
from ktxkit.affected.trees import AffectedCache, TreeSnapshot
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import path_fields, printable, truncated
from ktxkit.gates.facts import no_collection
from ktxkit.git.objects import Objects
from ktxkit.ledger import asking
from ktxkit.store import config
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import (
        AffectedSelection,
        AffectedSelectionChange,
        AffectedSelectionTarget,
        AffectedSelectionTest,
        AffectedSelectionTestChain,
    )

SUFFIXES = (
    ".sh", ".bash", ".zsh", ".mk", ".bat", ".cmd", ".cfg", ".ini", ".toml", ".yaml", ".yml", ".json",
    ".html", ".htm", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl", ".mako", ".xml", ".sql", ".js", ".css",
)  # fmt: skip
NAMES = ("Makefile", "makefile", "GNUmakefile", "Justfile", "justfile", "Procfile", "Rakefile")
LONGEST = 256 * 1024  # bytes that are looked at
SETTINGS = SUFFIXES[6:]  # what is no program
_VARIABLE = re.compile(r"\$\([^()]*\([^()]*\)[^()]*\)|\$\([^()]*\)|\$\{[^{}]*\}|\$[\w@<^*#?!]+|%\w+%")
_COMPUTED = re.compile(  # `python $X`, `. "$X"`: what is run is in a variable
    r"""(?:\bpython[\d.]*|\b(?:sh|bash|source)|^[ \t]*\.)[ \t]+["']?\$[({]?[A-Za-z_]\w*[)}]?["']?(?:[ \t;&|]|$)""",
    re.MULTILINE,
)
_IMPORTED = re.compile(r"\b(?:import|from|-m)\s+([\w.]+)")
_WORD = re.compile(r"[\w.*?/~+-]+")


def is_read(path: str, mode: str) -> bool:
    """Whether facts are taken of a file: Python, a program, or settings."""
    if not mode.startswith("100"):
        return False
    return path.endswith((".py", *SUFFIXES)) or mode == "100755" or path.rpartition("/")[2] in NAMES


def key(path: str, oid: str) -> str:
    """Under what the facts of a file are kept: the same bytes are read otherwise under another kind of name."""
    if path.endswith(".py"):
        return oid
    return f"{oid}:text" if path.endswith(SETTINGS) else f"{oid}:program"


def read(path: str, data: bytes) -> Facts:
    """The facts of a file by its name and its first line. Never raises."""
    first = data[:200].partition(b"\n")[0]
    if path.endswith(".py") or (first.startswith(b"#!") and b"python" in first):
        return classes.read(data)
    sink = UsageSink()
    whole = sink.unit(MODULE, "module", 1)
    text = data[:LONGEST].decode("utf-8", "replace") if b"\0" not in data[:8000] else ""
    sink.part(whole, text)
    program = not path.endswith(SETTINGS)
    if program and _COMPUTED.search(text):
        sink.mark("opaque", "runs a program of a computed name", (whole,))
    composed = _VARIABLE.sub("*", text) if program else ""
    for word in sorted({literals.normal(one) for one in (*_WORD.findall(text), *_WORD.findall(composed))}):
        if word.strip("*.-_?/"):
            sink.mark("words", word, (whole,))
            if literals.dotted(word):
                sink.mark("named", word, (whole,))
                if program:  # python -c 'from tools.go import main'
                    sink.use(ANYTHING, word, (whole,))
    for word in _IMPORTED.findall(text) if program else ():
        sink.use(ANYTHING, word, (whole,))
    return {**sink.document(), "text": True}


CACHE = "cache/affected.sqlite"
CHANGES_SHOWN, STEPS_SHOWN = 2000, 60
FURNITURE_SHOWN = 8


@dataclass(frozen=True)
class SelectionRequest:
    """What is compared. `tree`: a revision; `index`: what is staged; neither: the checkout as it stands."""

    base: str = "HEAD"
    tree: str = ""
    index: bool = False
    environment: Collection[str] = ()


@dataclass
class Selection:
    """The answer, with what it was made from."""

    decision: Decision
    base: TreeSnapshot
    target: TreeSnapshot
    touched: list[Touched]
    graph: Graph
    read: int = 0
    known: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def document(self) -> AffectedSelection:
        return document(self)


def select(world: World, wish: SelectionRequest = SelectionRequest()) -> Selection:
    """The tests that the change from `base` can reach. Raises CannotRun where a revision is none."""
    for name in wish.environment:
        if "=" in name:
            raise CannotRun(f"no name of a variable: {printable(name)}", hint=f"--environment {name.partition('=')[0]}")
    with Objects(world.git.at(world.repository.directory)) as objects, no_collection():
        base = trees.committed(world, objects, wish.base)
        return between(world, objects, base, _target(world, objects, wish), wish.environment)


def between(
    world: World, objects: Objects, base: TreeSnapshot, target: TreeSnapshot, environment: Collection[str] = ()
) -> Selection:
    """The tests that what differs between two trees can reach."""
    facts = _Facts(world, objects, (base, target))
    touched = _touched(base, target)
    graph = _graph(world, facts, base, target, touched)
    changed = _changed(facts, base, target, touched)
    trace = _trace(world, touched, environment)
    question = ImpactQuestion(
        graph=graph,
        touched=touched,
        changed=changed,
        links=_links(facts, target),
        environment=environment,
        observed=_observed(trace, base, touched, changed, environment),
        ran=runtime_audit.running(trace, _ids(base)) if trace is not None else None,
    )
    made = decision.decide(question)
    notes = [note for note in (facts.note, _furniture(made)) if note]
    return Selection(made, base, target, touched, graph, facts.read, facts.known, notes)


def _furniture(made: decision.Decision) -> str:
    """What was left out for what it is: the answer says so."""
    if not made.furniture:
        return ""
    more = len(made.furniture) - FURNITURE_SHOWN
    shown = ", ".join(printable(path) for path in made.furniture[:FURNITURE_SHOWN])
    return truncated(f"no test reads {shown}{f' and {more} more' if more > 0 else ''} (git ktx help affected)", 900)


def _trace(world: World, touched: list[Touched], environment: Collection[str]) -> Trace | None:
    return latest(world, asking.resolve(world)) if touched or environment else None


def _ids(base: TreeSnapshot) -> dict[str, str]:
    return {path: oid for path, (_, oid) in base.entries.items()}


def _observed(
    trace: Trace | None,
    base: TreeSnapshot,
    touched: list[Touched],
    changed: list[decision.UnitChange],
    environment: Collection[str],
) -> list[tuple[Unit, str]]:
    """What the newest traced run saw of what differs; nothing where there is none."""
    if trace is None:
        return []
    units: dict[str, list[str]] = {}
    for one in changed:
        units.setdefault(one.path, []).append(one.unit)
    differing = [runtime_audit.Differs(one.path, one.status, tuple(units.get(one.path, ()))) for one in touched]
    return list(runtime_audit.seeds(trace, _ids(base), differing, environment))


def _target(world: World, objects: Objects, wish: SelectionRequest) -> TreeSnapshot:
    if wish.tree:
        return trees.committed(world, objects, wish.tree)
    return trees.indexed(world) if wish.index else trees.worktree(world)


class _Facts:
    """Facts by id: out of the cache, or read once and put there."""

    def __init__(self, world: World, objects: Objects, snapshots: tuple[TreeSnapshot, ...]) -> None:
        self.objects = objects
        self.snapshots = snapshots
        cache = AffectedCache(world.writable_store.path(CACHE), VERSION)
        wanted = {
            key(path, oid): (path, oid)
            for one in snapshots
            for path, (mode, oid) in one.entries.items()
            if is_read(path, mode)
        }
        found = {key: json.loads(body) for key, body in cache.known(wanted).items()}
        missing = {key: place for key, place in wanted.items() if key not in found}
        bodies = dict(trees.contents(objects, snapshots, sorted({oid for _, oid in missing.values()})))
        made = {key: read(path, bodies[oid]) for key, (path, oid) in missing.items()}
        self.known = len(found)
        cache.keep((key, json.dumps(facts, separators=(",", ":")).encode("ascii")) for key, facts in made.items())
        self.read, self.note = len(made), cache.lost
        cache.close()
        self.by_id: dict[str, Facts] = found | made

    def of(self, entry: tuple[str, str] | None, path: str) -> Facts | None:
        known = entry is not None and is_read(path, entry[0])
        return self.by_id[key(path, entry[1])] if entry is not None and known else None

    def bytes_of(self, oid: str) -> bytes:
        return next(data for _, data in trees.contents(self.objects, self.snapshots, [oid]))


def _touched(base: TreeSnapshot, target: TreeSnapshot) -> list[Touched]:
    """Every path that is not the same in both: another content, another mode, come or gone."""
    found = []
    for path in sorted(base.entries.keys() | target.entries.keys()):
        old, new = base.entries.get(path), target.entries.get(path)
        if old != new:
            found.append(Touched(path, (old[0] if old else ABSENT, new[0] if new else ABSENT)))
    return found


def _graph(world: World, facts: _Facts, base: TreeSnapshot, target: TreeSnapshot, touched: list[Touched]) -> Graph:
    versions: dict[str, list[Facts]] = {}
    for path, entry in target.entries.items():
        if (found := facts.of(entry, path)) is not None:
            versions[path] = [found]
    gone = set()
    for one in touched:
        old = facts.of(base.entries.get(one.path), one.path)
        if old is not None:
            if one.path not in versions:
                gone.add(one.path)
            versions[one.path] = [old, *versions.get(one.path, ())]

    def load(path: str) -> bytes | None:
        entry = target.entries.get(path)
        return facts.bytes_of(entry[1]) if entry is not None and entry[0].startswith("100") else None

    inert = tuple(config.load_settings(world).get("affected", {}).get("inert", ())) if world.repository.top else ()
    project = configuration.project(load, target.entries, inert)
    if any(one.status != decision.CHANGED for one in touched):
        project = replace(project, installed=configuration.installed(test_run.python_of(world)))
    return Graph(versions, base.entries.keys() | target.entries.keys(), project, gone)


def _changed(
    facts: _Facts, base: TreeSnapshot, target: TreeSnapshot, touched: list[Touched]
) -> list[decision.UnitChange]:
    found: list[decision.UnitChange] = []
    for one in touched:
        old = facts.of(base.entries.get(one.path), one.path)
        new = facts.of(target.entries.get(one.path), one.path)
        found += decision.between(one.path, old, new)
    return found


def _links(facts: _Facts, target: TreeSnapshot) -> dict[str, str]:
    """Symbolic links of the tree that lead to somewhere in it."""
    found = {}
    for path, (mode, oid) in target.entries.items():
        if mode == LINK:
            to = os.fsdecode(facts.bytes_of(oid))
            place = os.path.normpath(f"{os.path.dirname(path)}/{to}".lstrip("/"))  # noqa: PTH120
            if not to.startswith("/") and not place.startswith("../"):
                found[path] = "" if place == "." else place
    return found


def document(selection: Selection) -> AffectedSelection:
    """The answer as a document (contract `selection`)."""
    found = selection.decision
    steps: dict[object, AffectedSelectionTestChain] = {}
    target: AffectedSelectionTarget = {"kind": selection.target.kind}
    target |= {"tree": selection.target.name} if selection.target.name else {}
    paths: list[Any] = [
        {**path_fields(os.fsencode(one.path)), "how": one.status} for one in selection.touched[:CHANGES_SHOWN]
    ]
    unbounded: list[Any] = [
        {**path_fields(os.fsencode(path)), "why": said[:500]} for path, said in found.unbounded.items()
    ]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "selection",
        "verdict": found.verdict,
        "base": selection.base.name,
        "target": target,
        "counts": {
            "selected": found.selected,
            "total": found.total,
            "unknown": sum(1 for one in found.tests if one.verdict == decision.UNKNOWN),
            "paths": len(selection.touched),
            "changes": len(found.changes),
        },
        "tests": [_test(one, steps) for one in found.tests],
        "paths": paths,
        "changes": [_change(one) for one in found.changes[:CHANGES_SHOWN]],
        "unbounded": unbounded,
        "read": {"files": selection.read, "known": selection.known},
        "notes": selection.notes,
    }


def _test(one: decision.Picked, known: dict[object, AffectedSelectionTestChain]) -> AffectedSelectionTest:
    """One test. Steps are shared: many chains begin alike."""
    for step in one.chain[:STEPS_SHOWN]:
        if step not in known:
            (path, unit), how = step
            known[step] = {"path": _shown(path), "unit": unit, "how": how[:400]}
    steps = [known[step] for step in one.chain[:STEPS_SHOWN]]
    made: AffectedSelectionTest = {"id": _shown(one.id), "verdict": one.verdict, "chain": steps}
    made |= {"why": _shown(one.why)[:500]} if one.why else {}
    return made


def _change(one: decision.UnitChange) -> AffectedSelectionChange:
    return {"path": _shown(one.path), "unit": one.unit, "kind": one.kind, "how": one.status}


def _shown(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
