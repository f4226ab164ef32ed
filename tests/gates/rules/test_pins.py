"""A person's choice of the canonical source: told to units, held by a gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.gates import in_core, page, source
from tests.support.repos import Repo

TREE = {
    **source("orders", "shop", measures="gross"),
    **source("orders", "lake", measures="raw"),
    **source("side", "lake", measures="raw"),
}
PINS = {"canonical": {"orders": "shop/orders"}}
SAID = {
    "`orders.gross`": "",
    "`shop/orders.gross` `source:orders` `lake/side.raw`": "",
    "`orders.raw`": "stale-entity",
    "`lake/orders.raw`": "canonical-pin",
    "`lake/source:orders`": "canonical-pin",
    "`source:lake/orders`": "canonical-pin",
}


@pytest.mark.parametrize("body", SAID)
def test_spans(body: str) -> None:
    assert [one["rule"] for one in in_core({**TREE, **page(body)}, **PINS)] == ([SAID[body]] if SAID[body] else [])
    assert in_core({**TREE, **page(body)}) == []


def test_sl_refs_and_a_choice_that_is_not_there() -> None:
    front = "sl_refs: [orders, lake/orders.raw, shop/orders.gross]\n"
    (found,) = in_core({**TREE, **page(front=front)}, **PINS)
    assert (found["rule"], found["nearest"]) == ("canonical-pin", ["shop/orders.raw"])
    (found,) = in_core(TREE, canonical={"orders": "mart/orders"})
    assert (found["rule"], found["path"], found["reference"]) == ("canonical-pin", "ktx-gates.yaml", "mart/orders")


TOPICS = {
    "orders: shop/orders.gross": "",
    "revenue: shop/orders.gross": "",
    "Turnover of the year: shop/orders": "",
    "glossary: wiki/page": "",
    "revenue: shop/orders.net": "orders has no net",
    "revenue: shop/revenue": "shop has no source revenue",
    "revenue: mart/orders": "mart has no source orders",
    "glossary: wiki/terms": "there is no page terms",
}


@pytest.mark.parametrize("pin", TOPICS)
def test_topics_of_any_name(pin: str) -> None:
    topic, _, place = pin.partition(": ")
    found = in_core({**TREE, **page("`orders.gross`")}, canonical={topic: place})
    wanted = [f"the canonical {topic} is to be {place}, but {TOPICS[pin]}"] if TOPICS[pin] else []
    assert [one["message"] for one in found] == wanted
    assert {(one["rule"], one["path"]) for one in found} <= {("canonical-pin", "ktx-gates.yaml")}


@pytest.mark.parametrize("body", ["`side.raw`", "`lake/side.raw`", "`source:side`", "`lake/source:side`"])
def test_a_name_whose_canonical_source_is_another(body: str) -> None:
    (found,) = in_core({**TREE, **page(body)}, canonical={"side": "shop/orders"})
    assert (found["rule"], found["nearest"]) == ("canonical-pin", ["shop/orders"])
    (found,) = in_core({**TREE, **page(front="sl_refs: [lake/side]\n")}, canonical={"side": "shop/orders"})
    assert found["rule"] == "canonical-pin"


def test_a_canonical_page_is_taken_away(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    for path, text in {**page(), **page(key="other"), "ktx-gates.yaml": "canonical: {glossary: wiki/page}\n"}.items():
        repo.write(path, text)
    repo.commit("the files")
    repo.git("rm", "-q", "wiki/global/page.md")
    found = call("gate-check", "--json", cwd=repo.path).document["findings"]
    assert [(one["rule"], one["level"]) for one in found] == [("canonical-pin", "error")]


def test_what_takes_the_canonical_source_away(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    for path, text in {
        **TREE,
        **page("`orders.gross`"),
        "ktx-gates.yaml": "canonical: {orders: shop/orders}\n",
    }.items():
        repo.write(path, text)
    repo.commit("the files")
    assert call("gate-check", "--all", cwd=repo.path).status == 0
    repo.git("rm", "-q", "semantic-layer/shop/orders.yaml")
    found = call("gate-check", "--json", cwd=repo.path).document["findings"]
    assert {one["rule"] for one in found} >= {"canonical-pin"}
