"""What is known about the real inputs, and what must hold of any change to them."""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import fastjsonschema
import jsonschema
import pytest

from ktxkit.base import contracts
from ktxkit.base.rules import strict_yaml
from ktxkit.gates.judging import options_of
from ktxkit.gates.rules import markdown
from ktxkit.gates.rules.artifacts import judge
from ktxkit.gates.rules.findings import mark_inherited
from ktxkit.gates.rules.model import artifact_path
from ktxkit.gates.rules.scope import close
from tests.support.gates import Files, as_bytes, facts_in, in_core, judged
from tests.support.shared import shared

FULL = os.environ.get("KTX_TEST_FULL") == "1"
pytestmark = pytest.mark.needs_data


def tree(folder: str, inside: str = "") -> dict[str, bytes]:
    top = shared("data", folder)
    return {inside + str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def orbit() -> dict[str, bytes]:
    return tree("orbit")


@pytest.fixture(scope="module")
def b2b() -> dict[str, bytes]:
    return tree("b2b_saas", "semantic-layer/b2b/")


def joins(files: Files) -> set[tuple[str, str]]:
    layer = judged(files).layer
    found = set()
    for source in layer.connections["b2b"].values():
        found |= {(source.name, join["to"]) for _, _, entry in source.declared for join in entry["joins"]}
    return found


def test_deleting_any_join_target_names_every_source_that_joins_it(b2b: dict[str, bytes]) -> None:
    graph = joins(b2b)
    targets = sorted({target for _, target in graph})
    assert len(graph) > 80 and len(targets) > 20
    for target in targets if FULL else targets[::3]:
        left = {path: text for path, text in b2b.items() if not path.endswith(f"/{target}.yaml")}
        assert len(left) == len(b2b) - 1
        told = {(one["path"], one["reference"]) for one in in_core(left) if one["rule"] == "unknown-join-target"}
        joiners = {source for source, to in graph if to == target and source != target}
        assert told == {(f"semantic-layer/b2b/{source}.yaml", target) for source in joiners}


def test_a_target_that_differs_in_case_only_is_told_with_its_name(b2b: dict[str, bytes]) -> None:
    path = "semantic-layer/b2b/opportunities.yaml"
    changed = {**b2b, path: b2b[path].replace(b"to: accounts", b"to: Accounts")}
    (found,) = [one for one in in_core(changed) if one["rule"] == "join-case"]
    assert (found["reference"], found["nearest"], found["path"]) == ("Accounts", ["accounts"], path)


def test_renaming_any_measure_names_the_page_that_refers_to_it(orbit: dict[str, bytes]) -> None:
    layer = judged(orbit).layer
    sources = [source for found in layer.connections.values() for source in found.values()]
    measures = [(source, name) for source in sources for name in sorted(source.measures)]
    assert len(measures) > 40
    for source, name in measures if FULL else measures[::6]:
        page = f"---\nsummary: A page\n---\n`{source.name}.{name}`\n"
        path = next(p for p, _, entry in source.declared if any(one[0] == name for one in entry["measures"])).decode()
        text = orbit[path].replace(f"- name: {name}\n    expr".encode(), b"- name: quite_another\n    expr")
        assert text != orbit[path]
        everything = in_core({**orbit, path: text, "wiki/global/new.md": page})
        found = [one for one in everything if one["path"].endswith("/new.md")]
        others = [one for one in layer.find(source.name) if one is not source and one.has(name)]
        still = others or name in source.columns
        assert [one["rule"] for one in found] == ([] if still else ["stale-entity"]), (source.name, name)


def test_single_words_are_advice_and_never_errors(orbit: dict[str, bytes]) -> None:
    plain, advised = in_core(orbit), in_core(orbit, advise=True)
    assert [one for one in plain if one["level"] == "advice"] == []
    words = {one["reference"] for one in advised if one["rule"] == "unknown-word"}
    former = {"arr_millions", "net_revenue_millions", "gross_revenue_millions", "active_contract_arr_millions"}
    assert former <= words
    assert [one for one in advised if one["level"] == "error"] == [one for one in plain if one["level"] == "error"]


def test_ambiguous_names_are_told_only_where_asked(orbit: dict[str, bytes]) -> None:
    strict = [one for one in in_core(orbit, strictConnections=True) if one["rule"] == "ambiguous-reference"]
    assert "mart_arr_daily" in {one["reference"] for one in strict}
    assert not [one for one in in_core(orbit) if one["rule"] == "ambiguous-reference"]


def test_an_entity_is_looked_for_in_every_connection(orbit: dict[str, bytes]) -> None:
    """dbt-main has the source too, and comes first; postgres-warehouse has the measure."""
    page = {"wiki/global/new.md": "---\nsummary: A\n---\n`mart_arr_daily.total_arr_cents`\n"}
    assert [one for one in in_core({**orbit, **page}) if one["path"].endswith("/new.md")] == []


def test_an_unreadable_source_is_one_error(orbit: dict[str, bytes]) -> None:
    """Not a hundred unknown references: whoever names it is not charged."""
    path = "semantic-layer/dbt-main/stg_accounts.yaml"
    known = {json.dumps(one) for one in in_core(orbit)}
    for broken in (b"name: stg_accounts\ntable: [\n", b"\xff\xfe", b"a: &x 1\n"):
        found = [one for one in in_core({**orbit, path: broken}) if json.dumps(one) not in known]
        assert [(one["path"], one["level"]) for one in found] == [(path, "error")], found


def test_the_same_verdict_in_three_engines_on_every_file(orbit: dict[str, bytes], b2b: dict[str, bytes]) -> None:
    engines: dict[str, Any] = {}
    looked = 0
    for path, text in {**orbit, **b2b}.items():
        name, value = contract_of(path, text)
        for one in value if isinstance(value, list) else [value] if name else []:
            schema = contracts.schema(name)
            if name not in engines:
                made = (
                    jsonschema.Draft202012Validator(schema),
                    fastjsonschema.compile(copy.deepcopy(schema), use_default=False),
                )
                engines[name] = made
            strict, fast = engines[name]
            ours = contracts.violations(name, one) == []
            assert strict.is_valid(one) is ours is valid(fast, one), path
            looked += 1
    assert looked > 180


def contract_of(path: str, text: bytes) -> tuple[str, Any]:
    kind = artifact_path(path.encode()).kind
    if kind == "provenance":
        return "artifact-provenance", json.loads(text)
    if kind == "page":
        front = markdown.split(text.decode()).front
        root = strict_yaml.read_text(front or "").root
        return "artifact-page", root.data() if root is not None else None
    root = strict_yaml.read(text).root
    if kind == "shard":
        return "artifact-shard", root.data() if root is not None else None
    if kind == "source" and root is not None:
        return "artifact-source" if root.get("table") or root.get("sql") else "artifact-overlay", root.data()
    return "", None


def valid(check: Any, value: Any) -> bool:
    try:
        check(value)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


def test_what_is_outside_the_closure_has_nothing_new(orbit: dict[str, bytes]) -> None:
    """Reverse references give what a look at everything gives: changes of all kinds, against each other."""
    chance = random.Random(4)
    how = options_of({})
    paths = [path for path in orbit if artifact_path(path.encode()).kind in ("source", "shard", "page")]
    for _ in range(60 if FULL else 12):
        changed: dict[str, bytes] = dict(orbit)
        touched = chance.sample(paths, chance.choice([1, 1, 2, 5]))
        for path in touched:
            damage(changed, path, chance)
        before, after = facts_of(orbit), facts_of(changed)
        base = judge(before[0], before[1], how)
        former = frozenset(base.layer.homes)
        new = [
            one
            for one in mark_inherited(judge(after[0], after[1], how, former).findings, base.findings, {})
            if not one.inherited
        ]
        differing = [path.encode() for path in {*orbit, *changed} if orbit.get(path) != changed.get(path)]
        scope = close(differing, [after[0], before[0]])
        outside = [one for one in new if one.path not in scope.files]
        assert outside == [], (touched, outside)


def damage(files: dict[str, bytes], path: str, chance: random.Random) -> None:
    text = files[path]
    kind = chance.choice(["delete", "rename", "break", "names"])
    if kind == "delete":
        del files[path]
    elif kind == "rename":
        del files[path]
        files[path.replace(".", "-moved.", 1)] = text
    elif kind == "break":
        files[path] = text[: len(text) // 2] + b"\n\t: [\n"
    else:
        files[path] = text.replace(b"name: ", b"name: x")


def facts_of(files: dict[str, bytes]) -> tuple[Any, frozenset[bytes]]:
    return facts_in(as_bytes(files), b""), frozenset(path.encode() for path in files)


def test_the_folder_is_there() -> None:
    assert shared("data", "orbit").is_dir()
