"""A gate that would pass by being nothing is refused, or told: what it names is not there, or it cannot refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import call
from tests.support.gates import page, source
from tests.support.repos import Repo

NAME = "ktx-gates.yaml"
Files = dict[str, str]

REFUSED: dict[str, tuple[Files, str]] = {
    "another suffix": ({"ktx-gates.yml": "gates: []\n"}, "ktx-gates.yml is not read"),
    "a dot before it": ({".ktx-gates.yaml": "gates: []\n"}, "git mv .ktx-gates.yaml ktx-gates.yaml"),
    "other letters": ({"KTX-Gates.yaml": "gates: []\n"}, "KTX-Gates.yaml is not read"),
    "a key of another gate": ({NAME: "gates: [{gate: artifacts, files: [a/]}]\n"}, "it takes no 'files'"),
    "a key of no use": ({NAME: "gates: [{gate: syntax, timeLimit: 5}]\n"}, "it takes no 'timeLimit'"),
    "a setting misspelt": ({NAME: "gates: [{gate: large, settings: {maxbytes: 5}}]\n"}, "no setting 'maxbytes'"),
    "no command": ({NAME: "gates: [{gate: command, name: own}]\n"}, "the gate own: it needs 'run'"),
    "a blank command": ({NAME: "gates: [{gate: command, run: ' '}]\n"}, "`run` has no command in it"),
    "a comment as command": ({NAME: "gates: [{gate: command, run: '# make lint'}]\n"}, "`run` has no command in it"),
    "an empty word": ({NAME: "gates: [{gate: command, run: ['', x]}]\n"}, "`run` has no command in it"),
    "no schema": ({NAME: "gates: [{gate: schema, files: [a/]}]\n"}, "it needs 'schema'"),
    "no files": ({NAME: "gates: [{gate: schema, schema: s.json}]\n"}, "it needs 'files'"),
    "empty files": ({NAME: "gates: [{gate: schema, schema: s.json, files: []}]\n"}, "it needs 'files'"),
    "what is not wanted": ({NAME: "gates: [{gate: syntax, files: ['!a/']}]\n"}, "no pattern takes files away"),
    "a gate misspelt": ({NAME: "gates: [{gate: artefacts}]\n"}, "did you mean artifacts?"),
}


def repository(path: Path, files: Files) -> Repo:
    repo = Repo.init(path / "r")
    for name, text in files.items():
        repo.write(name, text)
    repo.git("add", "-A")
    return repo


@pytest.mark.parametrize(("files", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_gate_is_refused(tmp_path: Path, files: Files, said: str) -> None:
    repo = repository(tmp_path, {**files, "a/x.json": "{", "s.json": "{}"})
    ran = call("gate-check", "--index", cwd=repo.path)
    assert (ran.status, said in ran.err) == (2, True), ran.err


def gate(**entry: Any) -> Files:
    return {NAME: json.dumps({"gates": [entry]}), "conf/x.json": "{}"}


RULES = gate(gate="schema", schema="s.json", files=["conf/"])
TOLD: dict[str, tuple[Files, list[tuple[str, str]]]] = {
    "a directory misspelt": (gate(gate="syntax", files=["config/"]), [(NAME, "config/")]),
    "one of two": (gate(gate="syntax", files=["conf/", "docs"]), [(NAME, "docs")]),
    "globs": (gate(gate="syntax", files=["*.json", "a/**/*.yaml"]), [(NAME, "*.json"), (NAME, "a/**/*.yaml")]),
    "one glob has files": (gate(gate="syntax", files=["conf/*.json", "conf/*.yaml"]), []),
    "the same directory": (gate(gate="syntax", files=["./conf/", "/conf/", "."]), []),
    "a command": (gate(gate="command", run="exit 1", files=["src/"]), [(NAME, "src/")]),
    "no hooks": (gate(gate="pre-commit"), [(".pre-commit-config.yaml", "")]),
    "a root one too deep": (
        {NAME: "root: know/wiki\n", "know/wiki/global/p.md": "x"},
        [(NAME, "know/wiki/wiki/")],
    ),
    "a dialect of no connection": (
        {NAME: "dialect: {wharehouse: bigquery, '*': postgres}\n", **source(connection="warehouse")},
        [(NAME, "semantic-layer/wharehouse/")],
    ),
    "a site of no directory": (
        {NAME: "siteUrls: {'https://a.example': wiki/globl, 'https://b.example': wiki/global}\n", **page()},
        [(NAME, "wiki/globl")],
    ),
    "a schema that says nothing": ({**RULES, "s.json": '{"$defs": {"a": {"type": "string"}}}'}, [("s.json", "")]),
    "a schema that takes all": ({**RULES, "s.json": "true"}, [("s.json", "")]),
    "a schema that says something": ({**RULES, "s.json": '{"type": "object"}'}, []),
}


@pytest.mark.parametrize(("files", "wanted"), TOLD.values(), ids=TOLD)
def test_what_names_nothing_is_told(tmp_path: Path, files: Files, wanted: list[tuple[str, str]]) -> None:
    repo = repository(tmp_path, files)
    repo.commit("all")
    repo.write("n.txt", "x")
    repo.git("add", "-A")
    for args in (["--all"], ["--index"]):
        ran = call("gate-check", "--json", *args, cwd=repo.path)
        found = [one for one in ran.document["findings"] if one["rule"] == "gate-idle"]
        assert (ran.status, {one["level"] for one in found}) in ((0, {"warning"}), (0, set()))
        assert sorted((one["path"], one.get("reference", "")) for one in found) == sorted(wanted)


KEYWORDS = {
    '{"type": "object", "require": ["a"]}': ["'require' is no keyword of JSON Schema: it refuses nothing"],
    '{"allOf": [{"propertys": {"a": {"typ": "string"}}}]}': [
        "'propertys' is no keyword of JSON Schema: it refuses nothing"
    ],
    '{"properties": {"a": {"maxLenght": 3}, "require": {"type": "string"}}}': [
        "'maxLenght' is no keyword of JSON Schema: it refuses nothing"
    ],
    '{"type": "object", "enumNames": [], "x-order": 1, "tsType": "A", "examples": [{"typ": 1}]}': [],
}


@pytest.mark.parametrize("rules", KEYWORDS)
def test_a_keyword_misspelt(tmp_path: Path, rules: str) -> None:
    repo = repository(tmp_path, {**RULES, "s.json": rules})
    ran = call("gate-check", "--all", "--json", cwd=repo.path)
    found = [one for one in ran.document["findings"] if one["path"] == "s.json"]
    assert (ran.status, [one["message"] for one in found]) == (0, KEYWORDS[rules])


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("conf/x.toml", "a = 1\n", "schema-required"),
        ("conf/x.toml", "b = 2024-01-01\n", ""),
        ("conf/x.toml", "b = \n", "yaml-syntax"),
        ("conf/x.json", "b: 1\n", "yaml-syntax"),
        ("conf/x.json", '{"b": 1, "b": 2}', "yaml-duplicate-key"),
        ("conf/x.json", '{"b":\t1}', ""),
    ],
)
def test_a_file_is_judged_in_its_own_language(tmp_path: Path, name: str, text: str, rule: str) -> None:
    files = {**RULES, "s.json": '{"type": "object", "required": ["b"]}', "conf/x.json": '{"b": 1}', name: text}
    found = call("gate-check", "--all", "--json", cwd=repository(tmp_path, files).path).document["findings"]
    assert [one["rule"] for one in found] == ([rule] if rule else [])


def test_a_change_that_takes_the_hooks_away(tmp_path: Path) -> None:
    repo = repository(tmp_path, {**gate(gate="pre-commit", run="false"), ".pre-commit-config.yaml": "repos: []\n"})
    repo.commit("all")
    repo.git("rm", "-q", ".pre-commit-config.yaml")
    ran = call("gate-check", "--json", cwd=repo.path)
    assert (ran.status, [one["rule"] for one in ran.document["findings"]]) == (1, ["gate-idle"])
    repo.write(NAME, "gates: []\n")
    repo.git("add", "-A")
    assert call("gate-check", cwd=repo.path).status == 0, "the gate goes, too, and that is told"


@pytest.mark.parametrize(("word", "said"), [("Passed", "1 file by pre-commit"), ("Skipped", "(1 file, no hook ran)")])
def test_hooks_that_all_are_skipped(tmp_path: Path, word: str, said: str) -> None:
    manager = ["/bin/sh", "-c", f"echo 'one..........{word}'"]
    repo = repository(tmp_path, {**gate(gate="pre-commit", run=manager), ".pre-commit-config.yaml": "repos: []\n"})
    repo.commit("all")
    repo.write("n.txt", "x")
    repo.git("add", "-A")
    assert said in call("gate-check", "--index", cwd=repo.path).err
    repo.write(".pre-commit-config.yaml", "repos: [] # none\n")
    repo.git("add", "-A")
    assert "by a configuration that the change alters" in call("gate-check", "--index", cwd=repo.path).err


def test_a_configuration_that_git_does_not_have(tmp_path: Path) -> None:
    repo = repository(tmp_path, {**page("x"), ".gitignore": "ktx-*\n"})
    repo.commit("all")
    repo.write(NAME, "gates: [{gate: syntax}]\n")
    for _ in range(2):  # a verdict that is kept has no word of it
        ran = call("gate-check", "--all", cwd=repo.path)
        assert ran.status == 0 and f"{NAME} is here, but git does not have it" in ran.err
    assert "git does not have" not in call("gate-check", "--all", "--config", NAME, cwd=repo.path).err


def test_a_choice_that_the_change_itself_makes_wrong(tmp_path: Path) -> None:
    repo = repository(tmp_path, {**source("orders", "shop"), **page()})
    repo.commit("all")
    repo.write(NAME, "canonical: {orders: shop/order}\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--index", "--json", cwd=repo.path)
    assert (ran.status, [one["rule"] for one in ran.document["findings"]]) == (1, ["canonical-pin"])
    assert not ran.document["findings"][0].get("inherited")
