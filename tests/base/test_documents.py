"""The types of documents: current, true of every valid sample, and of use: a misspelt key is an error of mypy."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ktxkit.base import contracts, documents, kinds
from tools.documents import modules

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = {name: getattr(kinds, name.replace("-", "_").upper()) for name in contracts.names()}
TYPES = typing.get_type_hints(kinds, {"Kind": list, "documents": documents})


def test_the_modules_are_what_the_schemas_give() -> None:
    stale = [path.name for path, text in modules().items() if path.read_text() != text]
    assert not stale, "run `make documents`"


def test_each_kind_has_its_name_and_is_a_plain_string() -> None:
    assert {name: name for name in contracts.names()} == KINDS
    assert {type(kind) for kind in KINDS.values()} == {str}


def test_no_class_has_the_name_of_another() -> None:
    classes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "ktxkit").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
            elif isinstance(node, ast.Assign) and path.name == "documents.py":
                classes.setdefault(ast.unparse(node.targets[0]), []).append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in classes.items() if len(paths) > 1}
    assert twice == {}, "name one otherwise, a document's type in tools/document_names.toml"


def test_the_library_imports_the_types_for_annotations_only() -> None:
    wrong = []
    for path in [*(ROOT / "ktxkit").rglob("*.py"), *(ROOT / "commands").glob("*.py")]:
        tree = ast.parse(path.read_text())
        typing_only = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for inner in ast.walk(node)
        }
        wrong += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            and id(node) not in typing_only
            and "ktxkit.base.documents"
            in {f"{getattr(node, 'module', '')}.{one.name}" for one in node.names}
            | {getattr(node, "module", "")}
            | {one.name for one in node.names}
        ]
    assert not wrong


def misfits(value: Any, wanted: Any, place: str) -> Iterator[str]:
    """Where a value is not of a type."""
    origin, of = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if all(any(misfits(value, one, place)) for one in of):
            yield f"{place}: none of {of}"
    elif origin is typing.Literal:
        if value not in of:
            yield f"{place}: {value!r} is none of {of}"
    elif origin is list and isinstance(value, list):
        for number, one in enumerate(value):
            yield from misfits(one, of[0], f"{place}[{number}]")
    elif origin in (dict, Mapping) and isinstance(value, dict):
        for key, one in value.items():
            yield from misfits(one, of[1], f"{place}.{key}")
    elif typing.is_typeddict(wanted) and isinstance(value, dict):
        yield from _key_misfits(value, typing.get_type_hints(wanted, include_extras=True), place)
    elif not (wanted is float and type(value) is int) and type(value) is not wanted:
        yield f"{place}: {value!r} is no {wanted}"


def _key_misfits(value: dict[str, Any], hints: dict[str, Any], place: str) -> Iterator[str]:
    for key, hint in hints.items():
        optional = typing.get_origin(hint) is typing.NotRequired
        if key in value:
            yield from misfits(value[key], typing.get_args(hint)[0] if optional else hint, f"{place}.{key}")
        elif not optional:
            yield f"{place}.{key} is missing"
    for key in value.keys() - hints.keys():
        if not key.startswith("x-"):
            yield f"{place}.{key} is unknown"


@pytest.mark.parametrize("name", contracts.names())
def test_every_valid_sample_is_of_its_type(name: str) -> None:
    wanted = typing.get_args(TYPES[name.replace("-", "_").upper()])[0]
    samples = sorted((ROOT / "tests" / "schemas" / name / "valid").glob("*.json"))
    assert samples
    assert not [wrong for path in samples for wrong in misfits(json.loads(path.read_bytes()), wanted, path.name)]


@pytest.mark.parametrize("key", ["extra", "jobId", "state"])
def test_a_sample_that_is_not_of_its_type_is_seen(key: str) -> None:
    sample = json.loads(sorted((ROOT / "tests" / "schemas" / "job" / "valid").glob("*.json"))[0].read_bytes())
    changed: Any = {"extra": {**sample, "extra": 1}, "state": {**sample, "state": "opn"}}
    changed["jobId"] = {name: value for name, value in sample.items() if name != "jobId"}
    assert len(list(misfits(changed[key], documents.Job, "job"))) == 1


class Snippet(NamedTuple):
    """A use of one kind of document; `KEY` stands in it for the key, or for what it is misspelt as."""

    code: str
    key: str
    misspelt: str


SNIPPETS = {
    "job": Snippet('print(store.read(kinds.JOB, "")["KEY"])', "integrationRef", "integratonRef"),
    "lease": Snippet('print(store.read(kinds.LEASE, "").get("KEY"))', "unitKey", "unitkey"),
    "patch": Snippet('print([entry["KEY"] for entry in store.read(kinds.PATCH, "")["paths"]])', "change", "chnage"),
    "receipt": Snippet(
        'receipt = store.read(kinds.RECEIPT, "")\nreceipt["KEY"] = "0" * 40\nstore.write(kinds.RECEIPT, "", receipt)',
        "commit",
        "comit",
    ),
    "intent": Snippet(
        'intent = store.read_optional(kinds.INTENT, "")\nprint(intent["KEY"] if intent else "")', "before", "befor"
    ),
    "report": Snippet(
        'print([unit.get("KEY") for unit in store.read(kinds.REPORT, "")["workUnits"]])', "patchTree", "patchtree"
    ),
    "verdict": Snippet('print(contracts.loads(kinds.VERDICT, b"")["counts"].get("KEY"))', "error", "eror"),
    "verification": Snippet(
        'attempt = store.read(kinds.VERIFICATION, "")\nattempt |= {"KEY": "b3:"} if attempt["accepted"] else {}',
        "evidenceDigest",
        "evidenceDigset",
    ),
    "work-unit": Snippet(
        'value: WorkUnit = contracts.validate(kinds.WORK_UNIT, {})\nprint(value["KEY"])', "unitKey", "key"
    ),
    "run-event": Snippet(
        'event = contracts.loads(kinds.RUN_EVENT, b"")\nif event["event"] == "test_result":\n    print(event["KEY"])',
        "outcome",
        "result",
    ),
    "ledger-line": Snippet(
        'line = contracts.loads(kinds.LEDGER_LINE, b"")\nprint(line["record"]["KEY"] if "record" in line else "")',
        "verdict",
        "verdct",
    ),
    "observation": Snippet(
        'made: ActivityChange = {"path": "", "KEY": "tracked", "operation": "create", "byteDelta": 0}\nprint(made)',
        "class",
        "klass",
    ),
}
HEAD = """from __future__ import annotations

from ktxkit.base import contracts
from ktxkit.base import kinds
from ktxkit.base.documents import ActivityChange, WorkUnit
from ktxkit.store.store import Store


def use(store: Store) -> None:
"""


def test_a_misspelt_key_is_an_error_of_mypy(tmp_path: Path) -> None:
    """One run of mypy over all snippets, once with the key and once with the misspelt one."""
    for name, snippet in SNIPPETS.items():
        for key, folder in ((snippet.key, "right"), (snippet.misspelt, "wrong")):
            body = "".join(f"    {line}\n" for line in snippet.code.replace("KEY", key).splitlines())
            path = tmp_path / f"{folder}_{name.replace('-', '_')}.py"
            path.write_text(HEAD + body)
    argv = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *map(str, tmp_path.glob("*.py"))]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in ended.stdout.splitlines() if ": error: " in line]
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert not [line for line in errors if "/right_" in line or "/wrong_" not in line]
    told = {name: [line for line in errors if f"/wrong_{name.replace('-', '_')}.py" in line] for name in SNIPPETS}
    assert len(told) >= 10
    assert not {
        name: lines for name, lines in told.items() if not any(f'"{SNIPPETS[name].misspelt}"' in line for line in lines)
    }
