"""Repair: what cannot be loaded goes, what dangles is taken out, and no other byte changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktxkit.gates.judging import prune_tree
from ktxkit.gates.rules import markdown
from ktxkit.gates.rules.prune import applied, without_link, without_span
from ktxkit.store.world import World
from tests.support import data
from tests.support.commands import call
from tests.support.gates import page, source
from tests.support.repos import Repo

MART = source("mart", measures="total")
FULL = os.environ.get("KTX_TEST_FULL") == "1"


def committed(repo: Repo, files: dict[str, str]) -> Repo:
    for name, text in files.items():
        repo.write(name, text)
    repo.commit("files")
    return repo


def pruned(repo: Repo, *args: str) -> Any:
    ran = call("gate-check", "--all", "--prune", "--json", *args, cwd=repo.path)
    assert ran.status in (0, 1), ran.err + ran.out
    return ran.document


def world(repo: Repo) -> World:
    return World(repo.path, dict(os.environ))


def test_a_bad_source_and_all_that_names_it(repo: Repo) -> None:
    orders = """# orders of the shop
name: orders
table: raw.orders   # the table
grain: [id]
columns:
  - {name: id, type: string}
joins:
  # the buyer
  - to: customers
    on: orders.id = customers.id
    relationship: many_to_one

  - to: bad   # will go
    on: orders.id = bad.id
    relationship: many_to_one
  - {to: gone, on: orders.id = gone.id, relationship: many_to_one}
measures:
  - {name: n, expr: count(id)}
"""
    body = "Seen in `bad.id`, and `orders.n`.\n\n- `source:bad`\n- kept `orders.id` .\n\n"
    body += "See [[nowhere]] or [[gone|that]].\n"
    front = "sl_refs: [orders, bad.id, bad]\nrefs:\n  - nowhere # really\ntables: ['raw.orders', raw.gone]\n"
    committed(
        repo,
        {
            "semantic-layer/wh/orders.yaml": orders,
            "semantic-layer/wh/bad.yaml": "name: bad\ntable: [\n",
            **source("customers"),
            **page(body, front),
            "links/provenance.json": '[{"artifactKind": "sl", "artifactKey": "wh/bad"},\n {"artifactKind": null}]\n',
        },
    )
    document = pruned(repo)
    assert document["outcome"] == "done"
    assert {(one["kind"], one["artifact"], one["removedRef"]) for one in document["pruned"]} == {
        ("source", "semantic-layer/wh/bad.yaml", "bad"),
        ("join", "semantic-layer/wh/orders.yaml", "orders -> bad"),
        ("join", "semantic-layer/wh/orders.yaml", "orders -> gone"),
        ("inline", "wiki/global/page.md", "source:bad"),
        ("link", "wiki/global/page.md", "[[nowhere]]"),
        ("link", "wiki/global/page.md", "[[gone]]"),
        ("sl_ref", "wiki/global/page.md", "bad.id"),
        ("sl_ref", "wiki/global/page.md", "bad"),
        ("ref", "wiki/global/page.md", "nowhere"),
        ("table", "wiki/global/page.md", "raw.gone"),
        ("row", "links/provenance.json", "wh/bad"),
    }
    assert all(one["absentTarget"] for one in document["pruned"])
    assert (repo.path / "semantic-layer/wh/orders.yaml").read_text() == orders.replace(
        "\n  - to: bad   # will go\n    on: orders.id = bad.id\n    relationship: many_to_one\n", "\n"
    ).replace("  - {to: gone, on: orders.id = gone.id, relationship: many_to_one}\n", "")
    assert not (repo.path / "semantic-layer/wh/bad.yaml").exists()
    assert (repo.path / "wiki/global/page.md").read_text() == (
        "---\nsummary: A page\nsl_refs: [orders]\ntables: ['raw.orders']\n---\n"
        "Seen in `bad.id`, and `orders.n`.\n\n- kept `orders.id` .\n\nSee or that.\n"
    )
    assert (repo.path / "links/provenance.json").read_text() == '[{"artifactKind": null}]\n'
    assert repo.git("diff", "--cached", "--name-only") == ""
    repo.git("add", "-A")
    assert call("gate-check", "--all", cwd=repo.path).status == 0


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_are_kept(repo: Repo, ends: str, mark: str) -> None:
    text = f"{mark}---\nsummary: A page\nsl_refs:\n- mart\n-   gone\n---\nA `mart.total`, `mart.lost`.\n".replace(
        "\n", ends
    )
    committed(repo, {**MART, "wiki/global/page.md": text})
    assert pruned(repo)["outcome"] == "done"
    expected = text.replace(f"-   gone{ends}", "").replace(" `mart.lost`", "")
    assert (repo.path / "wiki/global/page.md").read_bytes() == expected.encode()


def test_the_last_item_takes_its_key_along(repo: Repo) -> None:
    front = "refs:\n  # both gone\n  - one\n  - two\nsl_refs: [gone]\ntags: [a]\n"
    committed(repo, page("", front))
    assert pruned(repo)["outcome"] == "done"
    assert (repo.path / "wiki/global/page.md").read_text() == "---\nsummary: A page\nsl_refs: []\ntags: [a]\n---\n"


def test_joins_of_a_shard(repo: Repo) -> None:
    shard = """tables:
  a:
    table: raw.a
    columns: [{name: id, type: string}]
    joins:
      - to: gone
        on: a.id = gone.id
        relationship: many_to_one
        source: inferred
    descriptions: {ai: |
        text
        }
  b:
    table: raw.b
    columns: [{name: id, type: string}]
""".replace("descriptions: {ai: |\n        text\n        }", "description: |\n      text\n")
    committed(repo, {"semantic-layer/wh/_schema/all.yaml": shard})
    document = pruned(repo)
    assert [(one["kind"], one["removedRef"]) for one in document["pruned"]] == [("join", "a -> gone")]
    start, end = shard.index("    joins:"), shard.index("    description:")
    assert (repo.path / "semantic-layer/wh/_schema/all.yaml").read_text() == shard[:start] + shard[end:]


def test_what_only_lies_in_the_checkout_is_never_lost(repo: Repo) -> None:
    committed(repo, {**MART, **page("`mart.gone`\n")})
    repo.write("wiki/global/page.md", "mine\n")
    ran = call("gate-check", "--all", "--prune", cwd=repo.path)
    assert ran.status == 1
    assert "not as they were judged: wiki/global/page.md" in ran.err
    assert (repo.path / "wiki/global/page.md").read_text() == "mine\n"


@pytest.mark.parametrize("how", ["autocrlf", "attributes"])
def test_line_ends_that_git_makes_in_the_checkout(repo: Repo, how: str) -> None:
    """The file is as git has it, though not its bytes: it was called dirty, and nothing could be done about it."""
    if how == "autocrlf":
        repo.git("config", "core.autocrlf", "true")
    else:
        repo.write(".gitattributes", "*.md text eol=crlf\n")
    name = "wiki/global/p.md"
    committed(repo, {**MART, name: "---\nsummary: x\nsl_refs: [nope]\n---\n\nText.\n"})
    (repo.path / name).unlink()
    repo.git("checkout", "-q", "--", name)
    assert b"\r\n" in (repo.path / name).read_bytes() and repo.git("status", "--porcelain") == ""
    pruned(repo)
    text = (repo.path / name).read_bytes()
    assert b"nope" not in text and text.count(b"\n") == text.count(b"\r\n") == 6
    repo.write(name, text + b"mine\r\n")
    refused = call("gate-check", "--all", "--prune", cwd=repo.path)
    assert refused.status == 1 and "not as they were judged" in refused.err
    assert (repo.path / name).read_bytes() == text + b"mine\r\n"


def test_what_cannot_be_pruned_fails_loudly_and_writes_nothing(repo: Repo) -> None:
    text = MART["semantic-layer/wh/mart.yaml"].replace("count(id)", "count(nothing)")
    committed(repo, {"semantic-layer/wh/mart.yaml": text, **page("`mart.gone`\n")})
    ran = call("gate-check", "--all", "--prune", cwd=repo.path)
    assert ran.status == 1
    assert "the repair is not complete; nothing was written" in ran.err
    assert "expr-unknown-column" in ran.out
    assert repo.git("status", "--porcelain") == ""


def test_a_tree_is_repaired_beside_everything(repo: Repo) -> None:
    committed(repo, {**MART, **page("`mart.gone`\n")})
    before = (repo.head, repo.git("status", "--porcelain"), repo.git("for-each-ref"))
    document = prune_tree(world(repo), repo.tree)
    assert (document["outcome"], document["tree"]) == ("done", document["prunedTree"])
    assert repo.git("diff", "--name-only", repo.tree, document["prunedTree"]) == "wiki/global/page.md"
    assert before == (repo.head, repo.git("status", "--porcelain"), repo.git("for-each-ref"))
    again = prune_tree(world(repo), document["prunedTree"])
    assert (again["pruned"], again["prunedTree"]) == ([], document["prunedTree"])


def test_debts_of_the_base_are_left_alone(repo: Repo) -> None:
    committed(repo, {**MART, **page("`mart.old`\n"), **page("", key="other")})
    base = repo.tree
    repo.write("wiki/global/other.md", "---\nsummary: A page\n---\n`mart.new`, [[page]]\n")
    repo.commit("new debt")
    document = prune_tree(world(repo), repo.tree, base_tree=base)
    assert [one["removedRef"] for one in document["pruned"]] == ["mart.new"]
    assert document["outcome"] == "done"
    assert [one["reference"] for one in document["findings"] if one.get("inherited")] == ["mart.old"]


def test_a_suppressed_place_stays(repo: Repo) -> None:
    body = "`mart.gone` <!-- ktx-gate: ignore=stale-entity -->\n\nand `mart.gone`.\n"
    committed(repo, {**MART, **page(body)})
    assert pruned(repo)["outcome"] == "done"
    assert (repo.path / "wiki/global/page.md").read_text().endswith(body.replace("and `mart.gone`.", "and."))


def test_dropping_a_source_reaches_owners_that_nobody_touched(repo: Repo) -> None:
    committed(repo, {**source("a", joins="b"), **source("b"), **page("`b.id`, `a.id`\n")})
    base = repo.tree
    repo.write("semantic-layer/wh/b.yaml", "name: b\nname: b\n")
    repo.commit("broken")
    document = prune_tree(world(repo), repo.tree, base_tree=base)
    told = {(one["kind"], one["removedRef"]) for one in document["pruned"]}
    assert told == {("source", "b"), ("join", "a -> b"), ("inline", "b.id")}
    assert document["outcome"] == "done"
    assert repo.git("show", f"{document['prunedTree']}:wiki/global/page.md").endswith("---\n, `a.id`")


@pytest.mark.needs_data
def test_orbit_is_repaired(tmp_path: Path) -> None:
    repo = data.orbit(tmp_path / "orbit")
    document = pruned(repo)
    kinds = [one["kind"] for one in document["pruned"]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"row": 23, "table": 6, "link": 1}
    assert document["outcome"] == "done"
    changed = repo.git("diff", "--numstat").split("\n")
    assert {line.split("\t")[2]: line.split("\t")[0] for line in changed if "wiki/" in line} == {
        "wiki/global/orbit-activation-kpi-glossary.md": "0",
        "wiki/global/orbit-customers-source.md": "0",
        "wiki/global/orbit-how-we-work.md": "1",
    }


WORDS = [
    "a",
    "b.",
    " ",
    "  ",
    "\n",
    "\n\n",
    "- ",
    "> ",
    "# ",
    "| ",
    "|-|\n",
    "`x.y`",
    "`k.k`",
    "[[p]]",
    "[[q]]",
    ", ",
    "(",
    ")",
]


@settings(max_examples=3000 if FULL else 250)
@given(st.lists(st.sampled_from(WORDS), max_size=20).map("".join))
def test_one_removal_takes_one_reference(text: str) -> None:
    """Any body: taking out the first reference leaves all others, and nothing of it."""
    read = markdown.read(text)
    spans = [span for span in (*read.codes, *read.links) if span.text in ("x.y", "p")]
    for span in spans[:1]:
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        at = starts[span.line - 1] + span.column - 1
        edit = without_span(text, at) or without_link(text, at)
        assert edit is not None
        taken = text[edit[0] : edit[1]]
        assert ("`x.y`" in taken) != ("[[p]]" in taken)
        assert set(taken.replace("`x.y`", "").replace("[[p]]", "")) <= set(" \n->|#")
        assert edit[2] in ("", "x.y", "p")
        left = markdown.read(applied(text, [edit]))
        kept = [one.text for one in (*read.codes, *read.links)]
        kept.remove(span.text)
        assert sorted(kept) == sorted(one.text for one in (*left.codes, *left.links))


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("`mart.gone` - see\n", "mart.gone - see\n"),
        ("`mart.gone` # see\n", "mart.gone # see\n"),
        ("`mart.gone`\n---\n", "mart.gone\n---\n"),
        ("- `mart.gone`\n- b\n", "- b\n"),
        ("> `mart.gone` is\n", "> is\n"),
        ("a (`mart.gone`) b `mart.gone`.\n", "a () b.\n"),
        ("| `mart.gone` | b |\n|-|-|\n", "| | b |\n|-|-|\n"),
        ("x ``mart.gone`` y\n", "x y\n"),
        ("a `mart.gone`\nb\n", "a\nb\n"),
        ("`mart.\n", "`mart.\n"),
    ],
)
def test_what_is_left_of_a_line(body: str, left: str, repo: Repo) -> None:
    committed(repo, {**MART, **page(body)})
    assert pruned(repo)["outcome"] == "done"
    assert (repo.path / "wiki/global/page.md").read_text() == f"---\nsummary: A page\n---\n{left}"
