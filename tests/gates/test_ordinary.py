"""A repository without knowledge gates something: the gates for any repository, and the file that names them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import BIN, call
from tests.support.repos import Repo

ALL = "gates: [{gate: syntax}, {gate: links}, {gate: markers}, {gate: large}]\n"
MERGE = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
SCHEMA = json.dumps({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}})
FILES: dict[str, tuple[dict[str, str], list[tuple[str, str, int]]]] = {
    "right": (
        {
            "a.json": "{}", "b.yaml": "a: &x 1\n---\nb: !t 2\n", "c.toml": "a = 1\n", "tsconfig.json": "{// c\n}",
            "chart/t.yaml": "a: {{ .Values.b }}\n", "docs/a.md": "# A b\n\n[x](../c.toml) [y](#a-b) [z](b.md#c)\n",
            "docs/b.md": "# C\n", "rst.txt": "Title\n=======\n<<<<<<<\n",
        },
        [],
    ),
    "JSON": ({"a.json": '{"a": 1,}\n'}, [("syntax", "a.json", 1)]),
    "empty JSON": ({"a.json": ""}, [("syntax", "a.json", 1)]),
    "YAML": ({"a.yml": "a: 1\nb: [\n"}, [("syntax", "a.yml", 3)]),
    "TOML": ({"a.toml": "a = \n"}, [("syntax", "a.toml", 0)]),
    "no UTF-8 told": ({"a.toml": "a = '\udcff'\n"}, [("syntax", "a.toml", 0)]),
    "a link": ({"a.md": "[x](b.md)\n"}, [("broken-link", "a.md", 1)]),
    "an anchor": ({"a.md": "[x](b.md#no)\n", "b.md": "# Yes\n"}, [("unknown-anchor", "a.md", 1)]),
    "a merge": ({"a.py": "x = 1\n" + MERGE}, [("merge-marker", "a.py", 2)]),
    "what is left of one": (
        {"a": "<<<<<<< ours\nb\n", "b": "x\n=======\nb\n>>>>>>> theirs\n", "c": "<<<<<<< ours\na\n=======\nb\n"},
        [("merge-marker", "b", 2), ("merge-marker", "c", 1), ("merge-marker", "a", 1)],
    ),
    "marks of another size": (
        {"a": MERGE.replace("<" * 7, "<" * 10).replace(">" * 7, ">" * 10)}, [("merge-marker", "a", 1)],
    ),
    "quotes": ({"a": ">>>>>>> theirs\n>>>>>>> x\n"}, []),
    "other names of JSON": (
        {"a.jsonl": '{"a": 1}\n\n{\n', "b.ndjson": "{}\n{}\n", "c.ipynb": "{", "d.jsonc": "{/* c */}"},
        [("syntax", "a.jsonl", 3), ("syntax", "c.ipynb", 1)],
    ),
    "large": ({"big.txt": "x" * 1_000_001}, [("large-file", "big.txt", 0)]),
    "suffixes of any case": ({"a.JSON": "{", "b.YML": "a: ["}, [("syntax", "a.JSON", 1), ("syntax", "b.YML", 2)]),
    "an expression of a workflow is no template": (
        {".github/workflows/ci.yml": "on: push\njobs:\n  a: {x: '${{ y }}'}\n b: [\n"},
        [("syntax", ".github/workflows/ci.yml", 4)],
    ),
    "JSON that only Python takes": (
        {"a.json": '{"a": NaN}', "b.json": '{"a": 1, "a": 2}', "c.json": '[{"a": {"b": 1}}, {"a": {"b": 1}}]'},
        [("syntax", "a.json", 0), ("syntax", "b.json", 0)],
    ),
    "keys of YAML that stand twice": (
        {"a.yaml": "a: 1\nb: {a: 1}\na: 2\n",
         "b.yaml": "- a: 1\n- a: 1\n---\na: 1\n", "c.yaml": "1: a\n'1': b\n<<: {a: 1}\n<<: {b: 1}\n"},
        [("syntax", "a.yaml", 3)],
    ),
    "an alias of nothing": ({"a.yaml": "a: &x 1\nb: *x\n---\nc: *x\n"}, [("syntax", "a.yaml", 4)]),
    "JSON with comments": (
        {"tsconfig.json": '{"a": "// no",\n // c\n "b": [1,], /* d */}\n', ".vscode/settings.json": '{"a": 1,,\n}'},
        [("syntax", ".vscode/settings.json", 2)],
    ),
    "a comment that never ends": ({"tsconfig.json": "{/*}\n"}, [("syntax", "tsconfig.json", 2)]),
    "images and links of HTML": (
        {"a.md": "<img alt='x' src=\"no.png\"> <A HREF=b.md#c>x</A> <!-- <img src=c.png> --> `<img src=d.png>`\n\n"
                 "<p align=center>\n  <img width=1 src='e.png'/>\n</p>\n\n<a name=src href>\n", "b.md": "# C\n"},
        [("broken-link", "a.md", 1), ("broken-link", "a.md", 4)],
    ),
    "what a link may hold": (
        {"a.md": "[x](b%20c.md) [y](b%20c.md?plain=1#d-e) [z](d/) [u](d) [v](/d/f.md) [w](#) [t](#top)\n",
         "b c.md": "# D e\n", "d/f.md": "x\n"},
        [],
    ),
    "links to the places of a code host": (
        {"a.md": "[x](../../issues) [y](../../issues/new?a=b) [z](../../../issues)\n", "d/b.md": "[o](../../x.md)\n"},
        [("broken-link", "d/b.md", 1)],
    ),
    "what a site generator puts in": ({"a.md": "[x]({{site.url}}/y) <img src='{{ z }}'> ![w](${v}/u.png)\n"}, []),
    "a name in other letters": ({"a.md": "[x](B.md)\n", "b.md": "x\n"}, [("broken-link", "a.md", 1)]),
    "a rule at the top is no front matter": (
        {"a.md": "---\n\n[x](no.md)\n", "b.md": "---\nsome [x](no.md)\n\n---\n[y](no.md)\n",
         "c.md": "---\na: 1\n---\n[x](no.md)\n"},
        [("broken-link", "a.md", 3), ("broken-link", "b.md", 2), ("broken-link", "c.md", 4)],
    ),
    "pages of other suffixes": (
        {"a.MD": "[x](no.md)\n", "b.mkd": "[x](no.md)\n"}, [("broken-link", "a.MD", 1), ("broken-link", "b.mkd", 1)],
    ),
    "pages that cannot be read": (
        {"a.md": "[x](no.md) caf\udce9\n", "b.md": "[x](no.md)\n" * 30_000, "c.md": "> " * 300 + "[x](no.md)\n"},
        [("md-encoding", "a.md", 1), ("md-size", "b.md", 1), ("md-nesting", "c.md", 1)],
    ),
    "a schema of SchemaStore's name": (
        {"package.json": '{"version": "1"}', "schemas/package.json": SCHEMA}, [("schema-required", "package.json", 1)],
    ),
}  # fmt: skip


def findings(repo: Repo, *args: str) -> list[tuple[str, str, int]]:
    found = call("gate-check", *args, "--json", cwd=repo.path).document["findings"]
    return [(one["rule"], one["path"], one.get("line", 0)) for one in found if not one.get("inherited")]


@pytest.mark.parametrize("name", FILES)
def test_what_is_found(tmp_path: Path, name: str) -> None:
    files, wanted = FILES[name]
    repo = Repo.init(tmp_path / "r")
    for path, text in {**files, "ktx-gates.yaml": ALL}.items():
        repo.write(path, text.encode("utf-8", "surrogateescape"))
    repo.git("add", "-A")
    assert findings(repo, "--all") == wanted


def test_what_the_entry_names_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    files = {
        ".clang-format": "a: [\n",
        "b.jsonc": "{/* c */ 1}\n",
        "c.webmanifest": "{}",
        "d.conf": "a: 1\na: 2\n",
        "e.json": "{",
    }
    repo.write(
        "ktx-gates.yaml", "gates: [{gate: syntax, files: [.clang-format, '*.jsonc', '*.webmanifest', '*.conf']}]\n"
    )
    for path, text in files.items():
        repo.write(path, text)
    repo.git("add", "-A")
    assert findings(repo, "--all") == [
        ("syntax", ".clang-format", 2),
        ("syntax", "b.jsonc", 1),
        ("syntax", "d.conf", 2),
    ]


def test_what_a_change_breaks(tmp_path: Path) -> None:
    """What was there is inherited; a page that was not touched is looked at where its target goes."""
    repo = Repo.init(tmp_path / "r")
    for path, text in {
        "ktx-gates.yaml": ALL,
        "a.md": "[x](b.md) [old](c.md)\n",
        "b.md": "# B\n",
        "x.py": "x\n",
    }.items():
        repo.write(path, text)
    repo.commit("the files")
    repo.write("x.py", "y\n")
    repo.git("add", "-A")
    assert findings(repo) == []
    repo.git("rm", "-q", "b.md")
    assert findings(repo) == [("broken-link", "a.md", 1)]


def test_hooks_say_one_line_each_where_no_gate_applies(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    call("git-ktx", "install-hooks", cwd=repo.path)
    repo.write("m.py", "x = 1\n")
    repo.git("add", "-A")
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    words = ["git", "commit", "-q", "-m", "code"]
    said = subprocess.run(words, cwd=repo.path, env=env, capture_output=True, text=True, check=True).stderr
    before, message = said.splitlines()
    assert before.startswith("gate-check: looked at nothing: no gate applies here yet"), said
    assert message == "gate-check: looked at 1 message: nothing found", said


def test_the_starter(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    repo.write("m.py", "x = 1\n")
    repo.commit("code")
    told = call("git-ktx", "install-hooks", cwd=repo.path)
    assert told.status == 0 and "no gate applies here yet" in told.err and "--starter" in told.err
    looked = call("gate-check", "--all", cwd=repo.path)
    assert looked.status == 0 and "git ktx install-hooks --starter" in looked.err and looked.err.count("\n") == 1
    assert call("gate-check", "--all", "--require", "any", cwd=repo.path).status == 2
    repo.write(".pre-commit-config.yaml", "repos: []\n")
    repo.git("add", "-A")
    written = call("git-ktx", "install-hooks", "--starter", cwd=repo.path)
    assert written.status == 0, written.err
    looked = call("gate-check", "--all", cwd=repo.path)
    assert "ktx-gates.yaml is here, but git does not have it" in looked.err and "there is no" not in looked.err
    text = (repo.path / "ktx-gates.yaml").read_text()
    assert [line.split()[2] for line in text.splitlines() if line.startswith("  - gate:")] == [
        "syntax", "links", "markers", "large", "pre-commit",
    ]  # fmt: skip
    assert call("git-ktx", "install-hooks", "--starter", cwd=repo.path).status == 1
    repo.write("ktx-gates.yaml", text.replace("  - gate: pre-commit\n", ""))
    repo.write("bad.json", "{")
    repo.git("add", "-A")
    refused = call("gate-check", "--index", cwd=repo.path)
    assert refused.status == 1 and "bad.json:1:2: error syntax" in refused.out
    assert "no gate applies" not in call("git-ktx", "install-hooks", cwd=repo.path).err
