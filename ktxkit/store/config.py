"""What a repository's `.ktx-config.yaml` may say: wrong keys with the nearest right ones, and a template.

The repository's `.ktx-config.yaml`: read from the checkout we stand in, checked whole, never guessed.

`.ktx-config.yaml` at the top of the checkout (contract `config`): what a repository asks of the commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.base import contracts, files, kinds
from ktxkit.base.errors import BrokenContract, CannotRun, KtxError
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.strict_yaml import Node, Parsed, read
from ktxkit.base.rules.text import nearest
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.documents import DamagedDocument, KtxConfig, KtxConfigLedger
    from ktxkit.base.kinds import D, Kind


FILE = ".ktx-config.yaml"
TEMPLATE = """\
# ktxkit, for everybody who works on this repository. Every key is optional; what stands here is the default.
# `git ktx doctor` checks this file. A job file and the command line say it instead where they say it.
schemaVersion: 1

# Defaults of every job file (job-run).
# job:
#   target: main            # the branch that jobs land on; without it the one that is checked out
#   connectionId: local     # whose data it is, in every trace event
#   sourceKey: manual
#   maxParallel: 8          # units at once; without it the number of processors
#   timeLimit: 3600         # seconds for each unit
#   onFailure: continue     # or abort: nothing lands after a unit has failed
#   onConflict: set-aside   # or stop: nothing lands then; or prune: what dangles is taken out
#   verify: make check      # runs on every candidate, in a checkout of its own
#   copy: [.env]            # ignored files that a unit's worktree needs too
#   policy:
#     allow: ["wiki/**"]    # what a unit may touch
#     deny: ["**/*.lock"]

# What each new worktree needs before anybody works in it; its output is kept.
# setup: npm ci

# A command that is told of the end of each job, of suspects and of blocked branches, as JSON on its stdin.
# notify: ./tools/notify.sh

# Ingestion (ingest-run). Without keepSnapshots every snapshot stays under raw-sources/.
# ingest:
#   keepSnapshots: 10       # the newest of each source; older ones go in the commit of the next sync

# Prose is what people read and no test does. After an edit of it a claim of a test run still stands
# (git ktx help claims).
# claims:
#   prose: ["*.md", "*.rst"]

# What must hold before a test run counts as authoritative, and when a test is called slow or flaky.
# ledger:
#   repetitions: 2          # identical executions with both outcomes before a test is flaky
#   preconditions:
#     - name: database
#       run: pg_isready
"""


MEANT: Mapping[str, str] = {  # other tools' words for keys of ours
    "agents": "units", "jobs": "units", "steps": "units", "tasks": "units", "work": "units",
    "args": "run", "cmd": "run", "command": "run", "exec": "run", "script": "run", "shell": "run",
    "id": "key", "name": "key", "title": "key",
    "dependencies": "after", "depends": "after", "depends_on": "after", "dependsOn": "after", "needs": "after",
    "requires": "after",
    "concurrency": "maxParallel", "max_workers": "maxParallel", "parallel": "maxParallel", "workers": "maxParallel",
    "deadline": "timeLimit", "timeout": "timeLimit",
    "base": "target", "branch": "target", "into": "target", "onto": "target",
    "check": "verify", "checks": "verify", "test": "verify", "tests": "verify",
    "environment": "env", "vars": "env", "variables": "env",
    "exclude": "deny", "forbid": "deny", "include": "allow", "only": "allow", "paths": "allow",
    "commit": "message", "files": "rawFiles", "inputs": "rawFiles", "version": "schemaVersion",
}  # fmt: skip


class WrongKey(NamedTuple):
    """A key that means nothing where it stands; `parents` is the keys above it."""

    parents: tuple[str | int, ...]
    key: str
    near: str
    elsewhere: str = ""  # where it would mean something

    @property
    def message(self) -> str:
        where = ".".join(str(part) for part in (*self.parents, self.key))
        meant = f"; it is a key of {self.elsewhere}" if self.elsewhere else ""
        return f"{where} means nothing here" + (f"; did you mean {self.near}?" if self.near else meant)


def wrong_keys(document: Any, schema: Mapping[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[WrongKey]:
    """Every key that a closed object of the schema does not know, outermost first."""
    yield from _wrong_keys(document, schema, path, schema)


def _wrong_keys(
    document: Any, schema: Mapping[str, Any], place: tuple[str | int, ...], whole: Mapping[str, Any]
) -> Iterator[WrongKey]:
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from _wrong_keys(item, schema.get("items", {}), (*place, number), whole)
    if not isinstance(document, Mapping):
        return
    schema = next((way for way in schema.get("anyOf", ()) if "properties" in way), schema)
    if "properties" not in schema:
        return
    known = schema["properties"]
    for key in document:
        if key not in known and not str(key).startswith("x-"):
            near = next(iter(nearest(str(key), list(known), 1)), "")
            meant = MEANT.get(str(key), "")
            above = "the whole, not of a part of it" if place and key in whole.get("properties", {}) else ""
            yield WrongKey(place, str(key), meant if meant in known else "" if above else near, above)
    for key, value in document.items():
        if key in known:
            yield from _wrong_keys(value, known[key], (*place, key), whole)


def faults(root: Node, contract: Kind[Any]) -> Iterator[tuple[int, int, str]]:
    """Line, column and message of what keeps a mapping from being of a contract: wrong keys, else the first value."""
    keys = list(wrong_keys(root.data(), contracts.schema(contract)))
    for key in keys:
        named = root.at([*key.parents, key.key])[1] or root
        yield named.line, named.column, key.message
    if keys:
        return
    try:
        contracts.validate(contract, root.data())
    except BrokenContract as error:
        wrong = contracts.violations(contract, root.data())[0]
        node, by_key = root.at(list(wrong.path))
        place = by_key or node
        said = error.message.removeprefix(f"{contract}: ").removeprefix("document: ")
        if wrong.keyword == "anyOf" and isinstance(value := node.data(), (bool, int, float)):
            word = json.dumps(value)  # `run: true` is a command to whoever writes it, and a boolean to YAML
            said = f'{said.partition(": ")[0]}: {word} is no text here: put it in quotes, "{word}"'
        yield place.line, place.column, said


CONTRACT = kinds.CONFIG
SIZE_LIMIT = 1024 * 1024  # bytes


def config_path(world: World) -> Path | None:
    """Where the file is or would be; None in a bare repository."""
    top = world.repository.top
    return top / FILE if top is not None else None


def load(world: World) -> KtxConfig:
    """The configuration; empty where there is none. Raises CannotRun that names line, key and the nearest right key."""
    found = problems(world)
    if found:
        first, rest = found[0], len(found) - 1
        more = f" (and {rest} more)" if rest else ""
        hint = "`git ktx doctor` lists all of them; `git ktx help config` the keys"
        raise CannotRun(f"{first['message']}{more}", location=first["where"], hint=hint)
    path = config_path(world)
    return _read(path) if path is not None else {}


def problems(world: World) -> list[DamagedDocument]:
    """Everything that is wrong with the file: `where` (file:line:column) and `message`."""
    path = config_path(world)
    if path is None:
        return []
    parsed = _parsed(path)
    if parsed is None:
        return []
    found = [(problem.line, problem.column, problem.message) for problem in parsed.problems]
    root = parsed.root
    if not found and root is not None and root.kind != "map":
        empty = root.kind == "scalar" and root.plain is None
        found = [] if empty else [(root.line, root.column, "a mapping is expected")]
    elif not found and root is not None:
        found = list(faults(root, CONTRACT))
    return [{"where": f"{path}:{line}:{column}", "message": message} for line, column, message in found]


def _read(path: Path) -> KtxConfig:
    parsed = _parsed(path)
    document = parsed.root.data() if parsed is not None and parsed.root is not None else None
    return cast("KtxConfig", document) if isinstance(document, dict) else {}  # `problems` judged it


def _parsed(path: Path) -> Parsed | None:
    """The file, or None where there is none. Raises CannotRun where it cannot be read."""
    try:
        return read(files.read(path, SIZE_LIMIT))
    except FileNotFoundError:
        return None
    except BrokenContract as error:
        raise CannotRun(error.message, location=error.location, hint=error.hint) from error


def load_settings(world: World) -> KtxConfig:
    """The configuration of the checkout that we stand in; empty where there is none. Raises CannotRun."""
    try:
        assert world.repository
    except KtxError:
        return {}  # a store outside any repository
    return load(world)


def ledger(world: World) -> KtxConfigLedger:
    """Its part about the ledger."""
    return load_settings(world).get("ledger", {})


def read_yaml(path: Path, contract: Kind[D]) -> D:
    """A YAML file that must be of a contract. Raises CannotRun: it is a person who writes it."""
    from ktxkit.base.rules.strict_yaml import read

    parsed = read(files.read(path, SIZE_LIMIT))
    if parsed.problems:
        first = parsed.problems[0]
        raise CannotRun(f"not YAML: {first.message}", location=f"{path}:{first.line}:{first.column}", hint=first.hint)
    value = parsed.root.data() if parsed.root is not None else None
    try:
        return contracts.validate(contract, value if value is not None else {}, str(path))
    except BrokenContract as error:
        raise CannotRun(
            error.message, location=error.location, hint=f"the contract `{contract}` lists its keys"
        ) from error
