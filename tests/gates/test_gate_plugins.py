"""The other gates, the configuration and the baseline, on real repositories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import BIN, Ran, call, spawn
from tests.support.gates import page, source
from tests.support.repos import Repo

MART = source("mart", measures="total")


def configured(repo: Repo, config: str, **files: str) -> Repo:
    repo.write("ktx-gates.yaml", config)
    for name, text in files.items():
        repo.write(name.replace("__", "/").replace("_dot_", "."), text)
    repo.commit("gates")
    return repo


def found(ran: Ran) -> list[dict[str, Any]]:
    assert ran.status in (0, 1), ran.err
    findings: list[dict[str, Any]] = ran.document["findings"]
    return findings


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
        "additionalProperties": False,
        "required": ["port"],
    }
)


def test_schema_gate_has_places_for_yaml_and_json(repo: Repo) -> None:
    config = 'gates:\n  - {gate: schema, schema: service.schema.json, files: ["conf/*"]}\n'
    repo.write("service.schema.json", SCHEMA)
    repo.write("conf/a.yaml", "port: 1\nname: a\n")
    repo.write("conf/b.yaml", 'name: b\nport: "1"\n')
    repo.write("conf/c.json", '{"port": 1,\n "nme": "x"}\n')
    repo.write("conf/d.json", '{\n\t"port": 1, "name": "\\ud83d\\ude00"\n}\n')
    repo.write("other/e.yaml", "port: no\n")
    configured(repo, config)
    findings = found(call("gate-check", "--all", "--json", cwd=repo.path))
    told = [(one["path"], one["rule"], one.get("line")) for one in findings]
    assert told == [("conf/b.yaml", "schema-type", 2), ("conf/c.json", "schema-unknown-key", 2)]


def test_schema_gate_judges_files_without_content(repo: Repo) -> None:
    """An empty file is not JSON; an empty YAML document is null, and the schema says whether that will do."""
    config = 'gates:\n  - {gate: schema, schema: s.json, files: ["conf/*"]}\n'
    repo.write("conf/empty.json", "")
    repo.write("conf/blank.json", "\n")
    repo.write("conf/empty.yaml", "")
    repo.write("conf/comments.yaml", "# nothing\n")
    configured(repo, config, s_dot_json=SCHEMA)
    told = [(one["path"], one["rule"]) for one in found(call("gate-check", "--all", "--json", cwd=repo.path))]
    json_ones = [("conf/blank.json", "yaml-syntax"), ("conf/empty.json", "yaml-syntax")]
    yaml_ones = [(f"conf/{name}.yaml", "schema-type") for name in ("comments", "empty")]
    assert sorted(told) == sorted([*json_ones, *yaml_ones])
    configured(repo, config, s_dot_json='{"type": ["object", "null"]}')
    told = [(one["path"], one["rule"]) for one in found(call("gate-check", "--all", "--json", cwd=repo.path))]
    assert told == json_ones


@pytest.mark.parametrize(
    ("text", "said"), [("# later\n# on\n", "comments alone are not JSON"), (" \n", "an empty file is not JSON")]
)
def test_a_json_file_without_a_value_says_what_it_is(repo: Repo, text: str, said: str) -> None:
    repo.write("conf/a.json", text)
    configured(repo, 'gates:\n  - {gate: schema, schema: s.json, files: ["conf/*"]}\n', s_dot_json='{"type": "object"}')
    (one,) = found(call("gate-check", "--all", "--json", cwd=repo.path))
    assert (one["message"], one["hint"]) == (said, "write a value: null, {} or []")


@pytest.mark.parametrize(
    "rules",
    [
        {"pattern": "a|" * 500_000},
        {"properties": {"a": {"items": [{"patternProperties": {"a|" * 500_000: {}}}]}}},
        {"anyOf": [{"pattern": f"{n}|" * 400} for n in range(100)]},
    ],
    ids=["one", "a property's", "many"],
)
def test_a_schema_of_patterns_that_would_take_all_memory_is_refused(repo: Repo, rules: dict[str, Any]) -> None:
    repo.write("conf/a.json", "1")
    configured(repo, 'gates:\n  - {gate: schema, schema: s.json, files: ["conf/*"]}\n', s_dot_json=json.dumps(rules))
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 2 and "its patterns are longer than the 64000 characters" in ran.err, ran.err


def test_a_configuration_that_is_named_and_staged_otherwise_says_which_was_read(repo: Repo) -> None:
    configured(repo, "gates: [{gate: artifacts}]\n")
    assert "as it is staged" not in call("gate-check", "--all", "--config", "ktx-gates.yaml", cwd=repo.path).err
    repo.write("ktx-gates.yaml", "gates: [{gate: nothing}]\n")
    ran = call("gate-check", "--all", "--config", "ktx-gates.yaml", cwd=repo.path)
    assert ran.status == 0 and "ktx-gates.yaml is read as it is staged; the file there is another one" in ran.err
    assert "as it is staged" not in call("gate-check", "--all", cwd=repo.path).err
    repo.git("add", "-A")
    assert call("gate-check", "--all", "--config", "ktx-gates.yaml", cwd=repo.path).status == 2


def test_a_gate_that_looks_at_nothing_is_named(repo: Repo) -> None:
    config = """gates:
  - {gate: artifacts}
  - {gate: schema, name: right, schema: s.json, files: ["conf/*.yaml"]}
  - {gate: schema, name: misspelt, schema: s.json, files: ["cnf/*.yaml"]}
"""
    repo.write("conf/a.yaml", "port: 1\n")
    repo.write("wiki/global/a.md", "---\nsummary: A\n---\ntext\n")
    configured(repo, config, s_dot_json="{}")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 0 and "looked at 1 page, 1 file by right, nothing by misspelt: " in ran.err
    ran = call("gate-check", "--all", "--require-input", cwd=repo.path)
    assert ran.status == 2 and "nothing was looked at by misspelt" in ran.err
    ran = call("gate-check", "--all", "--root", "conf", "--require-input", cwd=repo.path)
    assert ran.status == 2 and "nothing was looked at by artifacts, misspelt" in ran.err
    ran = call("gate-check", "--all", "--root", "cnf", cwd=repo.path)
    assert ran.status == 2 and "the root cnf is no directory" in ran.err and "did you mean conf?" in ran.err
    repo.write("wiki/global/a.md", "---\nsummary: A\n---\nother\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--require-input", cwd=repo.path)  # a change need not touch what every gate looks at
    assert ran.status == 0 and "nothing by" not in ran.err


def test_a_command_that_is_not_there_or_is_killed_is_named(repo: Repo) -> None:
    configured(repo, "gates:\n  - {gate: command, name: mine, run: [no-such-program]}\n")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 2 and "the gate mine: cannot start no-such-program" in ran.err
    configured(repo, "gates:\n  - {gate: command, name: mine, run: [sh, -c, 'kill -9 $$']}\n")
    (one,) = found(call("gate-check", "--all", "--json", cwd=repo.path))
    assert one["message"] == "mine was ended by signal SIGKILL"


def test_a_new_schema_judges_files_that_nobody_touched(repo: Repo) -> None:
    config = 'gates:\n  - {gate: schema, schema: service.schema.json, files: ["conf/*"]}\n'
    repo.write("service.schema.json", "{}")
    repo.write("conf/b.yaml", "name: b\n")
    configured(repo, config)
    repo.write("service.schema.json", SCHEMA)
    repo.git("add", "-A")
    (one,) = found(call("gate-check", "--json", cwd=repo.path))
    assert (one["path"], one["rule"]) == ("conf/b.yaml", "schema-required")


def test_a_schema_that_is_none_or_fetches_is_status_2(repo: Repo) -> None:
    config = 'gates:\n  - {gate: schema, schema: s.json, files: ["*.yaml"]}\n'
    for text in ("{", '{"type": 3}', '{"$ref": "https://example.invalid/s.json"}'):
        configured(repo, config, s_dot_json=text)
        ran = call("gate-check", "--all", cwd=repo.path)
        assert ran.status == 2, ran.out
        assert "s.json" in ran.err


def test_command_gate_sees_the_tree_and_no_variable_of_git(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    config = """gates:
  - gate: command
    name: looks
    run: |
      env | grep -E '^(GIT_|KTX_)' | grep -v -E '^(GIT_TERMINAL|KTX_GATE_FILES|KTX_LEASE_NONCE)' && exit 9
      test "$(cat a.txt)" = staged || exit 8
      tr '\\0' ' ' < "$KTX_GATE_FILES"; git status --porcelain; exit 1
"""
    configured(repo, config, a_dot_txt="committed")
    repo.write("a.txt", "staged")
    repo.git("add", "-A")
    repo.write("a.txt", "working")
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    (one,) = found(call("gate-check", "--json", cwd=repo.path))
    assert one["rule"] == "command-failed"
    assert one["message"] == "looks ended with status 1: a.txt M  a.txt"


def test_command_gate_cannot_harm_the_repository(repo: Repo) -> None:
    run = "git commit -qam own && git checkout -qb other && git gc -q; exit 0"
    config = f"gates:\n  - {{gate: command, name: x, run: '{run}'}}\n"
    configured(repo, config, a_dot_txt="1")
    asked = ("for-each-ref", "symbolic-ref HEAD", "status --porcelain", "count-objects -v")
    before = [repo.git(*words.split()) for words in asked]
    assert call("gate-check", "--all", cwd=repo.path).status == 0
    assert before == [repo.git(*words.split()) for words in asked]


def test_command_gate_with_findings(repo: Repo) -> None:
    lines = [
        {"path": "a.txt", "message": "bad", "rule": "my-rule", "line": 3, "column": 2, "level": "warning"},
        {"path": "a.txt", "message": "worse"},
        {"message": 1},
    ]
    script = "\n".join(json.dumps(line) for line in lines) + "\n\nnot json\n"
    config = 'gates:\n  - {gate: command, name: lint, output: findings, run: "cat out.txt; exit 1"}\n'
    configured(repo, config, out_dot_txt=script)
    findings = found(call("gate-check", "--all", "--json", cwd=repo.path))
    told = {(one["rule"], one["level"], one["path"]) for one in findings}
    assert told == {
        ("my-rule", "warning", "a.txt"),
        ("lint", "error", "a.txt"),
        ("gate-output", "error", ""),
    }


def test_command_gate_ends_at_its_limit(repo: Repo) -> None:
    config = 'gates:\n  - {gate: command, name: slow, run: "sleep 300", timeLimit: 0.2}\n'
    (one,) = found(call("gate-check", "--all", "--json", cwd=configured(repo, config).path))
    assert "did not end in time" in one["message"]


def test_what_a_command_said_of_the_base_is_inherited(repo: Repo) -> None:
    config = 'gates:\n  - {gate: command, name: no-todo, run: "! grep -rn TODO src"}\n'
    configured(repo, config, src__a_dot_txt="TODO\n")
    repo.write("src/b.txt", "fine\n")
    repo.git("add", "-A")
    ran = call("gate-check", "--json", cwd=repo.path)
    assert [one.get("inherited") for one in found(ran)] == [True]
    assert ran.status == 0
    repo.write("src/b.txt", "TODO\n")
    repo.git("add", "-A")
    assert call("gate-check", cwd=repo.path).status == 1


def test_pre_commit_gate_runs_the_repositorys_own_hooks(repo: Repo, tmp_path: Path) -> None:
    hooks = """repos:
  - repo: local
    hooks:
      - {id: no-tabs, name: no-tabs, language: pygrep, entry: "\\t", files: "\\\\.txt$"}
"""
    run = json.dumps([str(BIN / "pre-commit")])
    repo.write(".pre-commit-config.yaml", hooks)
    configured(repo, f"gates:\n  - {{gate: pre-commit, run: {run}}}\n", a_dot_txt="old\tdebt\n", b_dot_txt="fine\n")
    repo.write("b.txt", "new\ttab\n")
    repo.git("add", "-A")
    repo.write("b.txt", "working copy is fine\n")
    env = {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    ran = spawn("gate-check", "--json", cwd=repo.path, env=env)
    (one,) = found(ran)
    assert one["rule"] == "hook-failed"
    assert "b.txt:1:new" in one["message"]
    assert "a.txt" not in one["message"]
    repo.write("b.txt", "fine again\n")
    repo.git("add", "-A")
    assert spawn("gate-check", cwd=repo.path, env=env).status == 0


def test_swallow_gate(repo: Repo) -> None:
    body = "for x in y:\n    try:\n        work()\n    except (OSError, ValueError):\n        continue\n"
    body += "    except KeyError as e:\n        log(e)\n"
    configured(repo, "gates:\n  - {gate: swallow, files: [src/]}\n", src__a_dot_py=body, b_dot_py=body)
    (one,) = found(call("gate-check", "--all", "--json", cwd=repo.path))
    assert (one["path"], one["line"], one["column"]) == ("src/a.py", 4, 5)
    assert "(OSError, ValueError)" in one["message"]


def test_a_gate_that_needs_no_settings_can_be_asked_for(repo: Repo) -> None:
    repo.write("a.py", "try:\n    x\nexcept OSError:\n    pass\n")
    repo.commit("python")
    ran = call("gate-check", "--all", "--gate", "swallow", "--json", cwd=repo.path)
    assert [one["rule"] for one in found(ran)] == ["swallowed-exception"]
    for name in ("schema", "command", "swalow"):
        assert call("gate-check", "--all", "--gate", name, cwd=repo.path).status == 2


def test_a_third_partys_gate(repo: Repo, tmp_path: Path) -> None:
    """A distribution with an entry point of the group `ktxkit.gates`, found by its metadata."""
    site = tmp_path / "site"
    (site / "shout-1.0.dist-info").mkdir(parents=True)
    (site / "shout-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: shout\nVersion: 1.0\n")
    entry_points = "[ktxkit.gates]\nshout = shout:check\nbroken = gone:check\n"
    (site / "shout-1.0.dist-info/entry_points.txt").write_text(entry_points)
    (site / "shout.py").write_text(
        "from ktxkit.gates import Answer, Finding\n"
        "def check(subject, settings):\n"
        "    paths = subject.chosen(['**/*.txt'])\n"
        "    loud = [path for path in paths if subject.read(path).isupper()]\n"
        "    say = settings['settings']['say']\n"
        "    return Answer([Finding('shout', path, say, 1, 1, gate='shout') for path in loud], len(paths))\n"
    )
    configured(repo, "gates:\n  - {gate: shout, settings: {say: not so loud}}\n", a_dot_txt="LOUD", b_dot_txt="soft")
    ran = spawn("gate-check", "--all", "--json", cwd=repo.path, env={"PYTHONPATH": str(site)})
    (one,) = found(ran)
    assert (one["rule"], one["path"], one["message"], one["gate"]) == ("shout", "a.txt", "not so loud", "shout")
    absent = call("gate-check", "--all", cwd=repo.path)
    assert absent.status == 2
    assert "no gate named 'shout'" in absent.err
    configured(repo, "gates:\n  - {gate: broken}\n")
    assert spawn("gate-check", "--all", cwd=repo.path, env={"PYTHONPATH": str(site)}).status == 2


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("gates:\n  - {gate: swalow}\n", "did you mean swallow?"),
        ("gatse: []\n", "gatse"),
        ("gates: [\n", "ktx-gates.yaml:2:1"),
        ("root: &a b\n", "anchor"),
        ("baseline: gone.json\n", "gone.json"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_status_2(repo: Repo, config: str, said: str) -> None:
    ran = call("gate-check", "--all", cwd=configured(repo, config).path)
    assert ran.status == 2
    assert said in ran.err


def test_only_the_gates_that_are_asked_for(repo: Repo) -> None:
    config = "gates:\n  - gate: artifacts\n  - {gate: command, name: never, run: 'exit 1'}\n"
    configured(repo, config, **{path.replace("/", "__").replace(".", "_dot_"): text for path, text in MART.items()})
    ran = call("gate-check", "--all", "--json", "--gate", "artifacts", cwd=repo.path)
    assert [gate["name"] for gate in ran.document["gates"]] == ["artifacts"]
    assert ran.status == 0
    assert call("gate-check", "--all", "--gate", "never", cwd=repo.path).status == 1
    assert call("gate-check", "--all", "--gate", "nevr", cwd=repo.path).status == 2


def test_baseline_counts_known_debts_and_charges_new_ones(repo: Repo) -> None:
    for name, text in {**MART, **page("`mart.gone` [[nowhere]]\n")}.items():
        repo.write(name, text)
    repo.commit("debts")
    written = call("gate-check", "--all", "--write-baseline", "debts.json", cwd=repo.path)
    assert written.status == 0
    ran = call("gate-check", "--all", "--baseline", "debts.json", "--json", cwd=repo.path)
    assert (ran.status, ran.document["findings"], ran.document["counts"]["baselined"]) == (0, [], 2)
    repo.write("wiki/global/page.md", "---\nsummary: A page\n---\nMoved down.\n\n`mart.gone` [[nowhere]] `mart.lost`\n")
    configured(repo, "baseline: debts.json\n")
    (one,) = found(call("gate-check", "--all", "--json", cwd=repo.path))
    assert one["reference"] == "mart.lost"
    damaged = repo.write("debts.json", "{}")
    repo.commit("damaged")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert (ran.status, damaged.name in ran.err) == (5, True)


def debts(repo: Repo) -> list[str]:
    """The references of the baseline that lies in the checkout."""
    return [one["reference"] for one in json.loads((repo.path / "debts.json").read_bytes())["findings"]]


def test_a_debt_that_is_paid_is_told_and_can_be_taken_out(repo: Repo) -> None:
    for name, text in {**MART, **page("`mart.gone` [[nowhere]]\n")}.items():
        repo.write(name, text)
    repo.commit("debts")
    assert call("gate-check", "--all", "--write-baseline", "debts.json", cwd=repo.path).status == 0
    assert sorted(debts(repo)) == ["mart.gone", "nowhere"]
    repo.write("wiki/global/page.md", page("[[nowhere]] `mart.new`\n")["wiki/global/page.md"])
    configured(repo, "baseline: debts.json\n")
    told = found(call("gate-check", "--all", "--json", cwd=repo.path))
    assert [(one["rule"], one["level"]) for one in told] == [("stale-entity", "error"), ("baseline-paid", "warning")]
    assert told[1]["path"] == "debts.json" and "mart.gone in wiki/global/page.md" in told[1]["message"]

    repo.write("wiki/global/page.md", page("[[nowhere]]\n")["wiki/global/page.md"])
    repo.git("add", "-A")
    partial = call("gate-check", "--json", cwd=repo.path)  # a change is no look at everything
    assert partial.document["scope"] == "change" and found(partial) == []
    assert call("gate-check", "--update-baseline", "debts.json", cwd=repo.path).status == 2
    assert found(call("gate-check", "--all", "--gate", "artifacts", "--json", cwd=repo.path)) == []
    assert len(debts(repo)) == 2

    ran = call("gate-check", "--all", "--update-baseline", "debts.json", cwd=repo.path)
    assert ran.status == 0 and "took 1 paid debt out of debts.json" in ran.err
    assert debts(repo) == ["nowhere"]
    repo.git("add", "-A")
    ran = call("gate-check", "--all", "--json", cwd=repo.path)
    assert (found(ran), ran.document["counts"]["baselined"]) == ([], 1)


def test_updating_adds_nothing_and_writing_loses_nothing(repo: Repo) -> None:
    for name, text in {**MART, **page("[[nowhere]]\n")}.items():
        repo.write(name, text)
    repo.commit("debts")
    assert call("gate-check", "--all", "--write-baseline", "debts.json", cwd=repo.path).status == 0
    repo.write("wiki/global/page.md", page("[[nowhere]] `mart.gone`\n")["wiki/global/page.md"])
    configured(repo, "baseline: debts.json\n")
    assert call("gate-check", "--all", "--update-baseline", "debts.json", cwd=repo.path).status == 1
    assert debts(repo) == ["nowhere"]
    assert call("gate-check", "--all", "--write-baseline", "debts.json", cwd=repo.path).status == 0
    assert sorted(debts(repo)) == ["mart.gone", "nowhere"]
    absent = call("gate-check", "--all", "--update-baseline", "nowhere.json", cwd=repo.path)
    assert absent.status == 2 and "the baseline is not there" in absent.err


def test_suppressions_name_their_rule_and_their_line(repo: Repo) -> None:
    body = """`mart.gone` <!-- ktx-gate: ignore=stale-entity -->

<!-- ktx-gate: ignore=stale-entity,unknown-link -->
`mart.gone` [[nowhere]]

`mart.gone` <!-- ktx-gate: ignore=unknown-link -->
"""
    text = "name: mart2\ntable: raw.mart2 # ktx-gate: ignore=nothing-like-it\n"
    text += "grain: [no] # ktx-gate: ignore=unknown-column\n"
    text += 'columns:\n  - {name: id, type: string, description: "# ktx-gate: ignore=yaml-tag"}\n'
    for name, data in {**MART, **page(body), "semantic-layer/wh/mart2.yaml": text}.items():
        repo.write(name, data)
    repo.commit("all")
    ran = call("gate-check", "--all", "--json", cwd=repo.path)
    told = {(one["rule"], one["path"].rpartition("/")[2], one["line"]) for one in found(ran)}
    assert told == {
        ("stale-entity", "page.md", 9),
        ("suppression-unused", "page.md", 9),
        ("suppression-unknown", "mart2.yaml", 2),
    }
    assert ran.document["counts"]["suppressed"] == 4


def test_a_change_cannot_loosen_its_own_gates(repo: Repo) -> None:
    """The candidate of a job is judged by the configuration of its base."""
    from ktxkit.gates.judging import check_tree
    from ktxkit.store.world import World

    configured(repo, "gates:\n  - {gate: swallow}\n", a_dot_py="x = 1\n")
    base = repo.tree
    repo.write("ktx-gates.yaml", "gates: []\n")
    repo.write("a.py", "try:\n    x = 1\nexcept OSError:\n    pass\n")
    repo.commit("loosened")
    world = World(repo.path, {"PATH": "/usr/bin:/bin", "HOME": str(repo.path)})
    verdict = check_tree(world, repo.tree, base_tree=base)
    assert [one["rule"] for one in verdict["findings"]] == ["swallowed-exception"]
