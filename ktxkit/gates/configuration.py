"""`ktx-gates.yaml`: which gates run on a repository, and how. Without it the gate of artifacts runs alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ktxkit.base import contracts
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract, CannotRun
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import nearest
from ktxkit.gates.rules.model import GateOptions

if TYPE_CHECKING:
    from ktxkit.gates.inputs import FileListing
    from ktxkit.gates.rules.findings import Finding
    from ktxkit.git.objects import Objects


NAME = "ktx-gates.yaml"
CONTRACT, BASELINE = "gate-config", "gate-baseline"
ARTIFACTS = "artifacts"
BEFORE, HERE = "before the change", "that stands here"  # which file it is that is trusted
DEFAULT: tuple[Document, ...] = ({"gate": ARTIFACTS},)
Load = Callable[[bytes], bytes | None]


class Config(NamedTuple):
    """How a tree is judged: options of the artifacts' gate, the gates in order, the known debts by fingerprint.

    `whole`: no gate is left out, so that a debt of which nothing is found is paid. `trusted` gives a file of where the
    configuration was read; `trusted_name` says where that is.
    """

    options: GateOptions = GateOptions()
    gates: tuple[Document, ...] = DEFAULT
    debts: Mapping[str, Document] = {}
    debts_file: str = ""
    whole: bool = True
    trusted: Load | None = None
    trusted_name: str = BEFORE

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
    if data is None and named:
        raise CannotRun("the gates' configuration is not there", location=where, hint="name a file of the tree")
    document = {**(_read(data, where) if data is not None else {}), **options}
    only = set(options.get("only", ()))
    entries = tuple(document.get("gates", DEFAULT))
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
    )


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
