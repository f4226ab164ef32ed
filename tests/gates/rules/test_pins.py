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
