"""`ktx-gates.yaml`: which gates run on a repository, and how. Without it the gate of artifacts runs alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts, files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.patterns import is_glob, matches, text
from ktxkit.base.rules.text import nearest, plural
from ktxkit.gates.rules.model import CONFIGURATION, TOPS, Foldered, GateOptions

if TYPE_CHECKING:
    from ktxkit.gates.inputs import FileListing
    from ktxkit.gates.rules.findings import Finding
    from ktxkit.git.objects import Objects
    from ktxkit.store.world import World


NAME = CONFIGURATION
CONTRACT, BASELINE = "gate-config", "gate-baseline"
ARTIFACTS = "artifacts"
BEFORE, HERE = "before the change", "that stands here"  # which file it is that is trusted
DEFAULT: tuple[Mapping[str, Any], ...] = ({"gate": ARTIFACTS},)
UNREAD = tuple(  # what people write for its name, and nobody reads
    f"{stem}.{end}"
    for stem in (
        "ktx-gates",
        ".ktx-gates",
        "ktx_gates",
        "ktx-gate",
        "KTX-gates",
        "KTX-Gates",
        "Ktx-gates",
        "Ktx-Gates",
        "KTX-GATES",
    )
    for end in ("yaml", "yml")
    if f"{stem}.{end}" != NAME
)
TAKES = {  # the keys of a gate's entry beside `gate` and `name`; those before `|` are needed
    ARTIFACTS: "|",
    "affected": "|",
    "schema": "schema files|",
    "command": "run|output files timeLimit",
    "pre-commit": "|run skip files timeLimit",
    "large": "|files settings",
    **dict.fromkeys(("syntax", "links", "markers", "swallow"), "|files"),
}
Load = Callable[[bytes], bytes | None]


class Config(NamedTuple):
    """How a tree is judged: options of the artifacts' gate, the gates in order, the known debts by fingerprint.

    `whole`: no gate is left out, so that a debt of which nothing is found is paid. `trusted` gives a file of where the
    configuration was read; `trusted_name` says where that is. `where`: its path.
    """

    options: GateOptions = GateOptions()
    gates: tuple[Mapping[str, Any], ...] = DEFAULT
    debts: Mapping[str, Document] = {}
    debts_file: str = ""
    whole: bool = True
    trusted: Load | None = None
    trusted_name: str = BEFORE
    where: str = NAME

    @property
    def baseline(self) -> frozenset[str]:
        """The fingerprints of the known debts."""
        return frozenset(self.debts)


def make(options: Mapping[str, Any], load: Load, *, trusted_name: str = BEFORE) -> Config:
    """From the options of a caller over the repository's own file. `load` gives a file of the tree that is trusted.

    Keys: those of the file, `config` (its path), `baseline`, `rawCurrent`, `rawDeleted`, `only` (names of gates).
    Raises CannotRun where a file that is named is not there, or is not valid.
    """
    named = options.get("config")
    where = str(named or NAME)
    data = load(where.encode("utf-8", "surrogateescape"))
    if data is None and not named:
        _refuse_unread(load)
    if data is None and named:
        raise CannotRun("the gates' configuration is not there", location=where, hint="name a file of the tree")
    document = {**(_read(data, where) if data is not None else {}), **options}
    only = set(options.get("only", ()))
    entries = tuple(_entry(one, where) for one in document.get("gates", DEFAULT))
    more = _plain() & only - {_name(entry) for entry in entries} if only else ()
    entries += tuple({"gate": name} for name in sorted(more))
    unknown = sorted(only - {_name(entry) for entry in entries})
    if unknown:
        near = nearest(unknown[0], sorted(_name(entry) for entry in entries))
        hint = f"did you mean {near[0]}?" if near else f"{where} lists the gates"
        raise CannotRun(f"no gate named {unknown[0]!r} is configured", hint=hint)
    return Config(
        options_of(document),
        tuple(entry for entry in entries if not only or _name(entry) in only),
        _debts(document.get("baseline"), load),
        str(document.get("baseline") or ""),
        not only,
        load,
        trusted_name,
        where,
    )


def _refuse_unread(load: Load) -> None:
    """Raises CannotRun where a configuration lies beside the name that is read: it would gate nothing, in silence."""
    found = next((name for name in UNREAD if load(name.encode()) is not None), None)
    if found is not None:
        raise CannotRun(f"{found} is not read: the gates' configuration is {NAME}", hint=f"git mv {found} {NAME}")


def _entry(entry: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The entry of a gate, with its patterns as they are matched. Raises CannotRun for a key that its gate does not
    take or lacks, and for a command that is none: they would be passed over."""
    needed, _, others = TAKES.get(entry["gate"], "").partition("|")
    told = f"{where}: the gate {_name(entry)}"
    if entry["gate"] in TAKES:
        known = {"gate", "name", *needed.split(), *others.split()}
        odd = [key for key in entry if key not in known and not key.startswith("x-")]
        if odd:
            takes = ", ".join(sorted(known - {"gate", "name"})) or "no settings"
            raise CannotRun(f"it takes no {odd[0]!r}", location=told, hint=f"it takes {takes}")
        lacking = [key for key in needed.split() if not entry.get(key)]
        if lacking:
            raise CannotRun(
                f"it needs {lacking[0]!r}", location=told, hint="`git ktx help gates-config` lists the keys"
            )
    if not _is_command(entry.get("run", "true")):
        raise CannotRun("`run` has no command in it", location=told, hint="a gate that runs nothing passes everything")
    return {**entry, "files": [_pattern(one, told) for one in entry["files"]]} if "files" in entry else entry


def _is_command(run: str | list[str]) -> bool:
    lines = run.splitlines() if isinstance(run, str) else run[:1]
    return any(line.strip() and not (isinstance(run, str) and line.lstrip().startswith("#")) for line in lines)


def _pattern(said: str, told: str) -> str:
    """A pattern from the top: `./a` and `/a` are `a`, `.` is everything."""
    if said.startswith("!"):
        raise CannotRun(f"no pattern takes files away: {said!r}", location=told, hint="name what is to be looked at")
    bare = said.removeprefix("./").lstrip("/")
    return bare if bare not in ("", ".") else "**"


def idle_settings(
    config: Config, entry: Mapping[str, Any], files: Mapping[bytes, tuple[str, str]], looked: int
) -> list[Finding]:
    """What an entry, or what is configured of the artifacts, names and the tree does not have. `looked`: at how many
    things the gate did."""
    from ktxkit.gates.rules.findings import Finding

    there = files if isinstance(files, Foldered) else _Folders(files)
    if entry["gate"] != ARTIFACTS:
        about = f"`files` of the gate {_name(entry)}"
        absent = [(about, one) for one in _nowhere(entry.get("files", ()), files, there, looked)]
    else:
        absent = list(_absent(config.options, there))
    folders = sorted({os.fsdecode(path[: path.find(b"/") + 1]) for path in files if b"/" in path}) if absent else []
    found = []
    for about, name in absent:
        near = tuple(nearest(name, folders))
        hint = f"did you mean {near[0]}?" if near else f"mend it in {config.where}, or take it out"
        message = f"{about} names {name}, which the tree does not have"
        found.append(Finding("gate-idle", os.fsencode(config.where), message, reference=name, nearest=near, hint=hint))
    return [one._replace(gate=_name(entry)) for one in found]


class _Folders:
    """The files of a tree in memory, asked for a directory."""

    def __init__(self, files: Iterable[bytes]) -> None:
        self._files = files

    def has_folder(self, folder: bytes) -> bool:
        return any(path.startswith(folder) for path in self._files)


def _nowhere(
    patterns: Sequence[str], files: Mapping[bytes, tuple[str, str]], there: Foldered, looked: int
) -> list[str]:
    """The paths among patterns at which nothing stands; and where no glob names anything, these."""
    plain = [one for one in patterns if not is_glob(one)]
    absent = [one for one in plain if not _stands(one, files, there)]
    globs = [one for one in patterns if is_glob(one)]
    if looked or len(absent) < len(plain) or not globs:
        return absent
    return absent if any(matches(one, text(path)) for path in files for one in globs) else [*absent, *globs]


def _stands(path: str, files: Mapping[bytes, tuple[str, str]], there: Foldered) -> bool:
    """A link or submodule in the place of a directory stands there too: another finding says what it is."""
    name = os.fsencode(path).rstrip(b"/")
    is_file = name in files and (not path.endswith("/") or not files[name][0].startswith("100"))
    return is_file or there.has_folder(name + b"/")


def _absent(options: GateOptions, there: Foldered) -> Iterator[tuple[str, str]]:
    """Directories that settings of the artifacts are about, and that are not there."""
    root = options.root
    if root and not any(there.has_folder(root + f"{top}/".encode()) for top in sorted(TOPS)):
        yield "`root`", f"{os.fsdecode(root)}wiki/"
    for connection, _ in options.dialects:
        if connection and not there.has_folder(root + os.fsencode(f"semantic-layer/{connection}/")):
            yield "`dialect`", f"semantic-layer/{connection}/"
    for _, place in options.sites:
        if place.strip("/") and not there.has_folder(os.fsencode(place.strip("/")) + b"/"):
            yield "`siteUrls`", place


def _plain() -> frozenset[str]:
    """Gates that say what they want by themselves: they can be asked for where none is configured."""
    from ktxkit.gates import plugin
    from ktxkit.gates.plugin import TREE_GATES

    return frozenset(plugin.named(TREE_GATES)) - {ARTIFACTS, "schema", "command"}


def check_root(objects: Objects, root: bytes, listed: FileListing, base: str | None, location: str | None) -> None:
    """Raises CannotRun if a root is named that neither the files nor their base have: nothing would be looked at, ever.

    `base`: a tree id; `location`: who names the root, the configuration of the repository if None.
    """
    if not root or listed.files.has_folder(root):
        return
    if base is not None and objects.entry(base, root.rstrip(b"/")) is not None:
        return
    raise _no_root(root, listed.files, location)


def check_root_in(objects: Objects, root: bytes, trees: Sequence[str]) -> None:
    """Raises CannotRun if the repository's configuration names a root that none of the trees has."""
    if root and all(objects.entry(tree, root.rstrip(b"/")) is None for tree in trees):
        raise _no_root(root, (entry.path for entry in objects.tree(trees[0])), None)


def _no_root(root: bytes, paths: Iterable[bytes], location: str | None) -> CannotRun:
    folders = {path[: path.find(b"/")] for path in paths if b"/" in path}
    name = os.fsdecode(root).rstrip("/")
    near = nearest(name, sorted(map(os.fsdecode, folders)), 1)
    hint = f"did you mean {near[0]}?" if near else "name the directory that holds semantic-layer/ and wiki/"
    return CannotRun(f"the root {name} is no directory of what is looked at", location=location or NAME, hint=hint)


def changed_judges(
    objects: Objects, base: str, files: Mapping[bytes, tuple[str, str]], names: Iterable[str], config: Config
) -> list[str]:
    """What a change makes of the files that it is judged by: a person may, and is told. `base`: a tree id."""
    kept = [str(entry.get("name") or entry["gate"]) for entry in config.gates]
    gates = f"gates now: {', '.join(kept)}" if kept else "no gate is left"
    said = []
    for name in dict.fromkeys(names):
        path = os.fsencode(name)
        before, after = (objects.entry(base, path), files.get(path)) if name else (None, None)
        if (before.oid if before is not None else None) == (after[1] if after is not None else None):
            continue
        what = "takes away" if after is None else "adds" if before is None else "changes"
        said.append(f"gate-check: this change {what} {name}, by which it is judged; {gates}")
    return said


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or entry["gate"])


def options_of(document: Mapping[str, Any]) -> GateOptions:
    """The options of the artifacts' gate."""
    root = str(document.get("root", "")).strip("/")
    current = document.get("rawCurrent")
    return GateOptions(
        root=f"{root}/".encode("utf-8", "surrogateescape") if root not in ("", ".") else b"",
        advise=bool(document.get("advise", False)),
        strict=bool(document.get("strictConnections", False)),
        raw_current=None if current is None else frozenset(current),
        raw_deleted=frozenset(document.get("rawDeleted", ())),
        pins=tuple(sorted(document.get("canonical", {}).items())),
        dialects=_dialects(document.get("dialect")),
        sites=tuple(sorted(document.get("siteUrls", {}).items(), reverse=True)),
    )


def _dialects(said: Any) -> tuple[tuple[str, str], ...]:
    """By connection; of all others under an empty name. Raises CannotRun for a name that is none."""
    if not said:
        return ()
    from ktxkit.gates.rules import expressions

    named = said if isinstance(said, Mapping) else {"": said}
    for name in named.values():
        if not expressions.dialect_of(name):
            near = nearest(name, sorted(expressions.DIALECTS), 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(expressions.DIALECTS))}"
            raise CannotRun(f"there is no dialect of SQL named {name!r}", location=NAME, hint=hint)
    return tuple(sorted((key if key != "*" else "", expressions.dialect_of(name)) for key, name in named.items()))


def _read(data: bytes, where: str) -> Document:
    from ktxkit.base.rules import strict_yaml

    parsed = strict_yaml.read(data)
    if parsed.root is None and not parsed.problems:
        return {}  # an empty file, or comments only
    if parsed.problems or parsed.root is None:
        first = parsed.problems[0]
        raise CannotRun(first.message, location=f"{where}:{first.line}:{first.column}", hint=first.hint)
    value = parsed.root.data()
    try:
        contracts.validate(CONTRACT, value, where)
    except BrokenContract as error:
        raise CannotRun(error.message, location=where, hint="`git ktx help gates-config` lists the keys") from error
    document: Document = value
    return document


def _debts(path: Any, load: Load) -> dict[str, Document]:
    if not path:
        return {}
    data = load(str(path).encode("utf-8", "surrogateescape"))
    if data is None:
        hint = "write one with --write-baseline FILE"
        raise CannotRun("the baseline is not there", location=str(path), hint=hint)
    return {entry["fingerprint"]: entry for entry in contracts.loads(BASELINE, data, str(path))["findings"]}


def paid(config: Config, findings: Iterable[Finding]) -> list[Finding]:
    """A finding for each known debt that nothing is found of any more."""
    from ktxkit.gates.rules.findings import Finding

    left = config.debts.keys() - {one.fingerprint for one in findings}
    where = config.debts_file.encode("utf-8", "surrogateescape")
    hint = f"gate-check --all --update-baseline {config.debts_file}"
    entries = [config.debts[fingerprint] for fingerprint in sorted(left)]
    return [Finding("baseline-paid", where, _said(one), reference=one["fingerprint"], hint=hint) for one in entries]


def _said(entry: Mapping[str, Any]) -> str:
    reference = f" {entry['reference']}" if entry.get("reference") else ""
    return f"paid: {entry['rule']}{reference} in {entry['path'] or 'the tree'}"


def left_of(debts: bytes, directory: str, verdict: Mapping[str, Any]) -> bytes:
    """A baseline without the debts that a verdict on everything tells as paid; nothing is added."""
    document = contracts.loads(BASELINE, debts, directory)
    gone = {one["reference"] for one in verdict["findings"] if one["rule"] == "baseline-paid"}
    kept = [entry for entry in document["findings"] if entry["fingerprint"] not in gone]
    return contracts.dumps(BASELINE, {**document, "findings": kept})


def baseline_of(verdict: Mapping[str, Any]) -> bytes:
    """The baseline that has every error and warning of a verdict."""
    keys = ("fingerprint", "rule", "path", "pathB64", "reference")
    debts = [one for one in verdict["findings"] if one["level"] != "advice"]
    entries = [{key: one[key] for key in keys if key in one} for one in debts]
    entries.sort(key=lambda one: json.dumps(one, sort_keys=True))
    return contracts.dumps(BASELINE, {"schemaVersion": 1, "kind": BASELINE, "findings": entries})


def update_baseline(world: World, name: str, verdict: Mapping[str, Any]) -> str:
    """Take the debts that are paid out of a baseline; says how many."""
    old = files.read(Path(os.path.realpath(world.cwd / name)))
    new = left_of(old, name, verdict)
    if verdict["scope"] != "all":
        raise CannotRun("--update-baseline needs a look at everything", hint="add --all")
    files.write_named(world.cwd, name, new)
    count = sum(1 for one in verdict["findings"] if one["rule"] == "baseline-paid")
    return f"gate-check: took {plural(count, 'paid debt')} out of {name}"


def write_baseline(world: World, name: str, verdict: Mapping[str, Any]) -> Path:
    """Write the baseline that has every finding of the verdict."""
    return files.write_named(world.cwd, name, baseline_of(verdict))
