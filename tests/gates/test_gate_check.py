"""gate-check on real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import data
from tests.support.commands import call
from tests.support.repos import Repo

SOURCE = """name: orders
table: shop.orders
grain: [order_id]
columns:
  - {name: order_id, type: string}
measures:
  - {name: gross, expr: sum(amount)}
"""
PAGE = "---\nsummary: Orders\nsl_refs: [orders]\n---\nGross is `orders.gross`.\n"


@pytest.fixture
def layer(repo: Repo) -> Repo:
    """One source and one page that refers to it."""
    repo.write("semantic-layer/shop/orders.yaml", SOURCE.replace("amount", "order_id"))
    repo.write("wiki/global/orders.md", PAGE)
    repo.commit("knowledge")
    return repo


def test_a_renamed_measure_is_found_on_the_page_that_nobody_touched(layer: Repo) -> None:
    layer.write("semantic-layer/shop/orders.yaml", SOURCE.replace("amount", "order_id").replace("gross", "gross_cents"))
    layer.git("add", "-A")
    ran = call("gate-check", "--json", cwd=layer.path)
    assert ran.status == 1
    (finding,) = ran.document["findings"]
    assert (finding["rule"], finding["path"], finding["line"]) == ("stale-entity", "wiki/global/orders.md", 5)
    assert finding["nearest"] == ["orders.gross_cents"]


def test_what_the_base_has_too_is_inherited(layer: Repo) -> None:
    layer.write("wiki/global/orders.md", PAGE + "Net is `orders.net`.\n")
    layer.commit("stale")
    layer.write("wiki/global/orders.md", PAGE + "Net is `orders.net`.\nMore.\n")
    layer.git("add", "-A")
    ran = call("gate-check", "--json", cwd=layer.path)
    assert ran.status == 0
    (finding,) = ran.document["findings"]
    assert finding["inherited"] is True
    assert call("gate-check", "--all", cwd=layer.path).status == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nofile", "no such file: nofile"),
        ("wiki/global/nofile.md", "no such file: wiki/global/nofile.md"),
        ("../outside", "../outside is outside this repository"),
        ("..", ".. is outside this repository"),
        ("/etc/passwd", "/etc/passwd is outside this repository"),
        ("untracked.md", "untracked.md is not in the index"),
        ("empty", "empty is not in the index"),
    ],
)
def test_a_file_that_is_not_there_is_status_2(layer: Repo, name: str, said: str) -> None:
    layer.write("untracked.md", "x\n")
    (layer.path / "empty").mkdir()
    ran = call("gate-check", name, cwd=layer.path)
    assert ran.status == 2 and said in ran.err, ran.err
    assert call("gate-check", "--tree", "HEAD", "nofile", cwd=layer.path).status == 2


def test_a_directory_is_all_files_below_it(layer: Repo) -> None:
    ran = call("gate-check", "--json", "wiki", cwd=layer.path)
    assert ran.document["looked"]["pages"] >= 1
    assert (
        call("gate-check", "--json", ".", cwd=layer.path).document["looked"]
        == (call("gate-check", "--json", "--all", cwd=layer.path).document["looked"])
    )
    assert call("gate-check", "--json", "global", cwd=layer.path / "wiki").document["looked"] == ran.document["looked"]


def test_a_named_file_that_is_being_deleted_names_who_refers_to_it(layer: Repo) -> None:
    gone = next(path for path in layer.git("ls-files", "semantic-layer").split())
    layer.git("rm", "-q", gone)
    ran = call("gate-check", "--json", gone, cwd=layer.path)
    assert ran.status == 1 and {one["path"].partition("/")[0] for one in ran.document["findings"]} == {"wiki"}
    layer.git("reset", "-q", "--hard")
    (layer.path / gone).unlink()  # the index still has it
    assert call("gate-check", gone, cwd=layer.path).status == 0


@pytest.mark.parametrize(
    ("wanted", "change", "told"),
    [
        ("R12", "rename", {("stale-entity", "wiki/global/orders.md")}),
        ("R13", "page", set()),
        ("R13", "both", set()),
        ("R14", "source", {("unknown-sl-ref", "wiki/global/orders.md"), ("unknown-source", "wiki/global/orders.md")}),
    ],
)
def test_what_a_change_leaves_behind(layer: Repo, wanted: str, change: str, told: set[tuple[str, str]]) -> None:
    assert data.case("references", wanted)
    if change == "rename":
        layer.write("semantic-layer/shop/orders.yaml", SOURCE.replace("amount", "order_id").replace("gross", "net"))
    if change in ("page", "both"):
        layer.git("rm", "-q", "wiki/global/orders.md")
    if change in ("source", "both"):
        layer.git("rm", "-q", "semantic-layer/shop/orders.yaml")
    layer.git("add", "-A")
    found = call("gate-check", "--index", "--json", cwd=layer.path).document["findings"]
    assert {(one["rule"], one["path"]) for one in found} == told


def test_everything_and_a_part_is_refused(layer: Repo) -> None:
    ran = call("gate-check", "--all", "wiki", cwd=layer.path)
    assert ran.status == 2 and "--all is everything, wiki is a part" in ran.err and "leave out one" in ran.err


def test_nothing_to_look_at_is_said(repo: Repo) -> None:
    ran = call("gate-check", cwd=repo.path)
    assert ran.status == 0
    assert "looked at nothing" in ran.err
    assert call("gate-check", "--require-input", cwd=repo.path).status == 2


@pytest.mark.needs_data
def test_orbit_has_the_known_facts_and_no_other_error(tmp_path: Path) -> None:
    repo = data.orbit(tmp_path / "orbit")
    document = call("gate-check", "--all", "--json", cwd=repo.path).document
    errors = [one for one in document["findings"] if one["level"] == "error"]
    told = {
        rule: sum(one.get("count", 1) for one in errors if one["rule"] == rule) for rule in {e["rule"] for e in errors}
    }
    assert told == {"unknown-artifact": 23, "unknown-table": 6, "unknown-link": 1}
    (link,) = [one for one in errors if one["rule"] == "unknown-link"]
    assert (link["path"], link["reference"]) == ("wiki/global/orbit-how-we-work.md", "orbit-team-lanes-detail")


@pytest.mark.needs_data
def test_b2b_has_nothing(tmp_path: Path) -> None:
    repo = data.b2b(tmp_path / "b2b")
    document = call("gate-check", "--all", "--json", cwd=repo.path).document
    assert document["findings"] == []
    assert document["looked"]["sources"] == 89
    assert document["looked"]["joins"] == 110


@pytest.mark.parametrize("args", [["--all"], ["--index"], ["--tree", "HEAD"], ["--changed-since", "HEAD~1"]], ids=str)
def test_what_a_partial_clone_lacks_is_fetched_at_once(layer: Repo, tmp_path: Path, args: list[str]) -> None:
    for n in range(12):
        layer.write(f"wiki/global/p{n}.md", PAGE + f"{n}\n")
    layer.write("other/large.bin", "not asked for\n")
    layer.commit("more")
    for key in ("allowFilter", "allowAnySHA1InWant"):
        layer.git("config", f"uploadpack.{key}", "true")
    place = tmp_path / "partial"
    subprocess.run(
        ["git", "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{layer.path}", str(place)], check=True
    )
    repo = Repo(place)
    repo.git("config", "core.sparseCheckout", "true")
    repo.write(".git/info/sparse-checkout", "/none\n")
    repo.git("read-tree", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{repo.git('hash-object', '-w', '--stdin')},new")
    packs = len(list((place / ".git/objects/pack").glob("*.promisor")))
    ran = call("gate-check", *args, "--json", cwd=place)
    assert ran.status == 0 and ran.document["counts"]["error"] == 0, ran.err
    if args != ["--index"]:
        assert ran.document["looked"]["pages"] >= 12
    assert len(list((place / ".git/objects/pack").glob("*.promisor"))) == packs + 1
    missing = repo.git("rev-list", "--objects", "--all", "--missing=print")
    assert f"?{layer.git('rev-parse', 'HEAD:other/large.bin')}" in missing
