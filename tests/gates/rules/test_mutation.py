"""Every source, measure, column, join and page is changed, one at a time: what breaks something is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench import knowledge
from tests.support.gates import page, source
from tests.support.shared import shared

SMALL = {
    **source("mart", columns="id cost", measures="total gross", joins="side"),
    **source("side", columns="id", measures="much"),
    **page("`mart.total` and `side.much`, [[other]]\n", "sl_refs:\n- mart\nrefs:\n- other\n"),
    **page("[back](page.md)\n", key="other"),
}


def run(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["knowledge", *args])
    return knowledge.main()


def test_a_small_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in SMALL.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    status = run(monkeypatch, str(tmp_path))
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    changed, breaking, told = (int(part) for part in out.splitlines()[-1].split("|")[3:6])
    assert changed > 60 and breaking == told > 30


@pytest.mark.needs_data
@pytest.mark.skipif(os.environ.get("KTX_TEST_FULL") != "1", reason="the long form; `make test-full`")
@pytest.mark.parametrize(("folder", "under"), [("orbit", ""), ("b2b_saas", "semantic-layer/b2b/")])
def test_real_trees(folder: str, under: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, str(shared("data", folder)), "--under", under, "--every", "7") == 0
