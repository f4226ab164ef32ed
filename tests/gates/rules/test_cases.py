"""Every hard case gets its verdict, by the core and by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.rules import strict_yaml
from ktxkit.gates.rules import markdown
from tests.support import data
from tests.support.gates import Files, by_command, in_core, page, source

Case = dict[str, Any]
Judge = Callable[..., list[dict[str, Any]]]


def case(name: str, wanted: str) -> Case:
    return data.case(name, wanted)


def ids(name: str) -> list[str]:
    return [one["id"] for one in data.cases(name)]


@pytest.fixture(params=["core", "command"])
def judge(request: pytest.FixtureRequest, tmp_path: Path) -> Judge:
    """The same question to the core and to the command."""
    if request.param == "core":
        return in_core

    def ask(files: Files, *args: str, **options: Any) -> list[dict[str, Any]]:
        flags = ["--advise"] if options.get("advise") else []
        return by_command(tmp_path / "asked", files, *flags, *args)

    return ask


def rules(findings: list[dict[str, Any]], level: str = "error") -> set[str]:
    return {one["rule"] for one in findings if one["level"] == level}


# -- Markdown: what is code


@pytest.mark.parametrize("wanted", ids("markdown"))
def test_markdown_spans(wanted: str) -> None:
    one = case("markdown", wanted)
    body = markdown.read(one["input"].removeprefix("\ufeff"))
    assert [span.text for span in body.codes] == one["code_spans"]


@pytest.mark.parametrize("wanted", ids("markdown"))
def test_markdown_findings(wanted: str, judge: Judge) -> None:
    """What is code is gated: with a source `s` that has nothing of it, each dotted span is a finding."""
    one = case("markdown", wanted)
    text = one["input"].removeprefix("\ufeff")
    files = {**source("s"), "wiki/global/page.md": f"---\nsummary: A page\n---\n{text}".encode()}
    expected = {span for span in one["code_spans"] if span in ("s.good", "s.stale")}
    stale = [found for found in judge(files) if found["rule"] == "stale-entity" and found["level"] == "error"]
    assert {found["reference"] for found in stale} == expected


# -- YAML


BOMB = "m_0: &b_0 {k_0: 1}\n" + "".join(
    f"m_{n}: &b_{n} {{<<: [*b_{n - 1}, *b_{n - 1}], k_{n}: 1}}\n" for n in range(1, 25)
)
LAUGHS = "a_0: &a_0 [lol]\n" + "".join(f"a_{n}: &a_{n} [{', '.join([f'*a_{n - 1}'] * 9)}]\n" for n in range(1, 10))
SOURCE_HEAD = "name: orders\ntable: raw.orders\ngrain: [id]\ncolumns:\n  - {name: id, type: string}\n"


def yaml_files(one: Case) -> Files:
    """The tree in which a case stands: front matter, a source, or an expression of one."""
    text: str = {"Y07": BOMB, "Y08": LAUGHS}.get(one["id"], "") or one["input"]
    if one["id"] == "Y30":
        return {"semantic-layer/wh/orders.yaml": SOURCE_HEAD.replace("name: orders", "name: order")}
    if one["id"] == "Y32":
        more = "measures:\n  - {name: arr_cents, expr: sum(arr_cents)}\n"
        return source("orders", columns="id arr_cents", more=more)
    if text.startswith("expr: "):
        measure = f"measures:\n  - name: m\n    {text}"
        return {"semantic-layer/wh/orders.yaml": SOURCE_HEAD + measure}
    if "sl_refs" in text or text in ("name: no\n", "\ufeffname: orders\n"):
        return {**source("mart"), "wiki/global/page.md": f"---\nsummary: A page\n{text.removeprefix(chr(0xFEFF))}---\n"}
    return {"semantic-layer/wh/orders.yaml": text}


@pytest.mark.parametrize("wanted", ids("yaml"))
def test_yaml(wanted: str, judge: Judge) -> None:
    one = case("yaml", wanted)
    found = judge(yaml_files(one))
    syntax = {"Y02", "Y12", "Y13"}  # about YAML alone: what they hold is no whole artifact
    if one["verdict"] == "ok":
        assert wanted in syntax
        assert not [rule for rule in rules(found) if rule.startswith("yaml-")]
    elif one["verdict"] == "warning":
        assert one["rule"] in rules(found, "warning")
        assert not rules(found)
    else:
        assert one["rule"] in rules(found), found


@pytest.mark.parametrize("wanted", ["Y07", "Y08"])
def test_a_bomb_ends_at_its_first_alias(wanted: str) -> None:
    """Not timed: what makes it slow (building values) cannot happen, since nothing is built."""
    parsed = strict_yaml.read({"Y07": BOMB, "Y08": LAUGHS}[wanted].encode())
    assert parsed.root is None
    assert [problem.rule for problem in parsed.problems] == ["yaml-alias"]


def test_the_hint_of_a_date_and_of_a_map() -> None:
    dated = in_core(yaml_files(case("yaml", "Y20")))
    assert [one["hint"] for one in dated if one["rule"] == "schema-type"] == ["quote it"]
    mapped = in_core(yaml_files(case("yaml", "Y24")))
    assert any("a:b" in one.get("hint", "") for one in mapped if one["rule"] == "schema-type")


# -- what holds nothing


EMPTY = {"nothing": "", "a mark": "\ufeff", "blanks": " \n  \n", "comments": "# total\n# gone\n"}


@pytest.mark.parametrize("said", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize(
    "path", ["semantic-layer/wh/mart.yaml", "semantic-layer/wh/_schema/public.yml", "links/provenance.json"]
)
def test_a_file_that_holds_nothing(path: str, said: str) -> None:
    """It silences references to what it declared, so it is an error itself."""
    found = in_core({**page("`mart.total`"), path: said})
    assert [(one["rule"], one["level"], one["path"]) for one in found] == [("yaml-empty", "error", path)]


@pytest.mark.parametrize("said", ["---\n", "---\n...\n", "null\n", "~", "--- #\n", "{}", "[]", "''"])
def test_a_document_that_says_nothing(said: str) -> None:
    for path in ("semantic-layer/wh/mart.yaml", "semantic-layer/wh/_schema/public.yaml"):
        assert rules(in_core({**page("`mart.total`"), path: said})), said


@pytest.mark.parametrize("said", ["", "# summary: A\n", "\n\n", "null\n", "{}\n", "--- {}\n", "[]\n", "''\n"])
def test_front_matter_that_says_nothing(said: str) -> None:
    for end in ("---\n", "..."):
        assert rules(in_core({"wiki/global/a.md": f"---\n{said}{end}\n# A\n"})), said


def test_an_emptied_source_by_the_command(tmp_path: Path) -> None:
    files = {"semantic-layer/wh/mart.yaml": "# gone\n", "wiki/global/b.md": "---\n# no\n---\nb\n"}
    found = by_command(tmp_path / "asked", {**page("`mart.total`"), **files})
    assert [(one["rule"], one["path"], one["line"], one["column"]) for one in found] == [
        ("yaml-empty", "semantic-layer/wh/mart.yaml", 1, 1),
        ("schema-required", "wiki/global/b.md", 2, 1),
    ]


# -- front matter


@pytest.mark.parametrize("wanted", ids("front_matter"))
def test_front_matter(wanted: str, judge: Judge) -> None:
    one = case("front_matter", wanted)
    found = judge({**source("mart"), "wiki/global/page.md": one["input"].encode()})
    if one["verdict"] == "ok":
        assert found == []
    else:
        assert one["rule"] in rules(found), found


# -- references


MART = source("mart", measures="total")


@pytest.mark.parametrize(
    ("wanted", "body", "expected"),
    [
        ("R01", "`orbit_raw.accounts`", set()),
        ("R02", "`1.12`", set()),
        ("R05", "`README.md`, `config.yaml`, `os.path`", set()),
        ("R06", "`mart.gone`", {("stale-entity", "mart.gone")}),
        (
            "R08",
            "`source:gone`, `table:gone.t`, `elsewhere/mart.x`",
            {
                ("unknown-source", "source:gone"),
                ("unknown-table", "table:gone.t"),
                ("unknown-connection", "elsewhere/mart.x"),
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) == 3 else "",
)
def test_references(wanted: str, body: str, expected: set[tuple[str, str]], judge: Judge) -> None:
    assert case("references", wanted)
    files = {**MART, **source("accounts", table="orbit_raw.accounts"), **page(body)}
    assert {(one["rule"], one["reference"]) for one in judge(files)} == expected


def test_r06_has_the_nearest_names(judge: Judge) -> None:
    (found,) = judge({**MART, **page("`mart.totl`")})
    assert found["nearest"] == ["mart.total"]
    assert found["searched"] == ["wh/mart"]


@pytest.mark.parametrize("name", ["a.b", "a/b", "a\\tb"])
def test_r18_names_that_references_cannot_spell(name: str, judge: Judge) -> None:
    text = SOURCE_HEAD + f'measures:\n  - {{name: "{name}", expr: count(id)}}\n'
    assert rules(judge({"semantic-layer/wh/orders.yaml": text})) == {"entity-name"}


ROW = {"artifactKind": "wiki", "artifactKey": "page", "rawPath": "raw-sources/n/a.json"}


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "raw-sources//a.json",
        "./raw-sources/n/a.json",
        "raw-sources/n/e\u0301.json",
        "/raw-sources/n/a.json",
        "a/../b",
    ],
)
def test_r19_paths_have_one_form(path: str, judge: Judge) -> None:
    rows = json.dumps([{**ROW, "rawPath": path}])
    files = {**page(), "links/provenance.json": rows, "raw-sources/n/a.json": "{}"}
    assert rules(judge(files)) == {"path-not-normal"}


def test_r19_case_and_composition_are_bytes(judge: Judge) -> None:
    rows = json.dumps([{**ROW, "rawPath": "raw-sources/n/A.json"}])
    files = {**page(), "links/provenance.json": rows, "raw-sources/n/a.json": "{}"}
    assert rules(judge(files)) == {"unknown-raw-path"}


def test_r20_deleted_in_this_snapshot_is_fine() -> None:
    rows = json.dumps([{**ROW, "rawPath": "cards/gone.json"}, {**ROW, "rawPath": "cards/here.json"}])
    files = {**page(), "links/provenance.json": rows}
    assert in_core(files, rawCurrent=["cards/here.json"], rawDeleted=["cards/gone.json"]) == []
    (found,) = in_core(files, rawCurrent=["cards/here.json"])
    assert (found["rule"], found["reference"]) == ("unknown-raw-path", "cards/gone.json")


def test_r21_artifact_keys_exist(judge: Judge) -> None:
    rows = json.dumps(
        [{**ROW, "artifactKey": "nowhere"}, {**ROW, "artifactKind": "sl", "artifactKey": "wh/mart.total"}]
    )
    files = {**page(), **MART, "links/provenance.json": rows, "raw-sources/n/a.json": "{}"}
    (found,) = judge(files)
    assert (found["rule"], found["reference"], found["line"]) == ("unknown-artifact", "nowhere", 1)


def test_r22_one_finding_for_all_places(judge: Judge) -> None:
    (found,) = judge({**MART, **page("`mart.gone`\n\n" * 500)})
    assert found["count"] == 500
    assert found["positions"][:2] == [{"line": 4, "column": 1}, {"line": 6, "column": 1}]
    assert len(found["positions"]) == 20
