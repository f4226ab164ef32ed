"""One grammar of names: what can be declared can be referred to and is gated, and nothing hides in what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktxkit.gates.rules import spelling
from tests.support.gates import by_command, in_core, judged, page, source

COST = source("mart", columns="id cost", measures="total", table="public.mart")
TREE = {**COST, **source("order-items", measures="total"), **source("side", connection="lake", measures="total")}
GONE = ("stale-entity", "error")
ABOUT = ("stale-entity", "warning")
ODD = ("odd-character", "error")
NEAR = ("near-source", "warning")
EMPTY = ("ref-format", "warning")

SPANS = {
    # what is right
    "mart.total": None,
    "wh/mart.total": None,
    "source:mart": None,
    "source: mart": None,
    "Source:mart.total": None,
    "mart.total,": None,
    "mart.total / mart.id": None,
    "sum(mart.cost)": None,
    "order-items.total": None,
    "wh/order-items.total": None,
    "mart.total-1": None,
    "mart.*": None,
    "count(mart.*)": None,
    "public.mart.cost": None,
    "wh.mart.total": None,
    "db.public.mart.total": None,
    "mart . total": None,
    "ls mart . -l": None,
    "mart .profile": None,
    'mart."total"': None,
    "SELECT m.other FROM public.mart m": None,
    "SELECT mart.other FROM raw.somewhere AS mart": None,
    "mart.pick(1)": None,
    # what is prose
    "models/marts/mart.sql": None,
    "https://mart.example.com/x": None,
    "a.b": None,
    "1.12": None,
    "os.path.join": None,
    "e.g. this": None,
    # what dangles
    "mart.gone": GONE,
    " mart.gone ": GONE,
    "mart.gone,": GONE,
    "mart.gone/": GONE,
    "mart.gone;": GONE,
    "wh/mart.gone": GONE,
    "wh/mart.gone/": GONE,
    "order-items.gone": GONE,
    "mart.gone-by": GONE,
    "mart.2024": GONE,
    "mart.\u0446\u0435\u043d\u0430": GONE,
    "source:gone": ("unknown-source", "error"),
    "source: gone": ("unknown-source", "warning"),
    "Source:gone": ("unknown-source", "warning"),
    "table: gone.t": ("unknown-table", "warning"),
    "source:mart.": ("ref-format", "error"),
    "sum(mart.gone)": ABOUT,
    "mart.total + mart.gone": ABOUT,
    "(mart.gone)": ABOUT,
    "mart.gone()": ABOUT,
    "mart.gone desc": ABOUT,
    "x = mart.gone": ABOUT,
    'mart."gone"': ABOUT,
    '"mart"."gone"': ABOUT,
    "mart.[gone]": ABOUT,
    "mart.total-mart.gone": ABOUT,
    "sum(order-items.gone)": ABOUT,
    "public.mart.gone": ABOUT,
    "wh.mart.gone": ABOUT,
    "db.public.mart.gone": ABOUT,
    "wh.public.mart.gone": ABOUT,
    "mart . gone": ABOUT,
    "sum(mart . gone)": ABOUT,
    "mart.": EMPTY,
    "all of mart. is": EMPTY,
    "mart.<measure>": EMPTY,
    # what nearly is a name
    "Mart.Total": NEAR,
    "MART.total": NEAR,
    "Mart.gone": ("near-source", "advice"),
    "marts.total": NEAR,
    "sum(Mart.Total)": NEAR,
    "mart.Total": GONE,
    # what hides something
    "mart.gone\u200b": ODD,
    "mart.total\u200b": ODD,
    "ma\u00adrt.gone": ODD,
    "mart\u2060.gone": ODD,
    "mart.gone\ufe0f": ODD,
    "mart.\u3164gone": ODD,
    "\u00a0mart.gone": ODD,
    "mart.gone\u00a0": ODD,
    "source:\u00a0gone": ODD,
    "source:go\u200dne": ODD,
    "wh/mart\u200b.gone": ODD,
    "m\u0430rt.total": ODD,
    "m\u0430rt.gone": ODD,
    "mart.t\u043etal": ODD,
    "public.mart\u200b": ODD,
    "public.m\u0430rt": ODD,
    "source:m\u0430rt": ODD,
    "\uff4dart.total": ODD,
    "sum(mart.gone\u200b) + 1": ("odd-character", "warning"),
    "nothing\u200b here": None,
    "caf\u00e9.bar": None,
}


@pytest.mark.parametrize("span", SPANS, ids=ascii)
def test_code_spans(span: str) -> None:
    found = [(one["rule"], one["level"]) for one in in_core({**TREE, **page(f"`{span}`")}, advise=True)]
    wanted = SPANS[span]
    assert found == ([] if wanted is None else [wanted])


def test_the_same_by_the_command(tmp_path: Path) -> None:
    """All at once; the messages name code points, and what was meant."""
    told = {span: wanted for span, wanted in SPANS.items() if wanted is not None}
    body = "\n\n".join(f"`{span}`" for span in SPANS)
    found = by_command(tmp_path / "asked", {**TREE, **page(body)}, "--advise")
    places = {place["line"]: one for one in found for place in one.get("positions", [one])}
    lines = {4 + 2 * number: span for number, span in enumerate(SPANS)}
    assert {lines[line]: (one["rule"], one["level"]) for line, one in places.items()} == told
    by_span = {lines[line]: one for line, one in places.items()}
    assert "U+200B ZERO WIDTH SPACE" in by_span["mart.gone\u200b"]["message"]
    assert by_span["mart.gone\u200b"]["nearest"] == ["mart.gone"]
    assert "U+0430 CYRILLIC SMALL LETTER A" in by_span["m\u0430rt.total"]["message"]
    assert by_span["Mart.Total"]["nearest"] == ["mart.total"]
    assert by_span["mart.Total"]["nearest"] == ["mart.total"]


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ("mart", ""), ("mart.total", ""), ("wh/mart.total", ""), ("order-items.total", ""),
        ("mart.", "ref-format"), (".total", "ref-format"), ("wh/", "ref-format"), ("/mart", "ref-format"),
        ("wh/.total", "ref-format"), (" mart", "ref-format"), ("a/b/c", "ref-format"),
        ("mart.gone", "stale-entity"), ("mart..total", "stale-entity"), ("mart.total,", "stale-entity"),
        ("Mart", "unknown-sl-ref"), ("mart.total\u200b", "odd-character"), ("m\u0430rt", "odd-character"),
        ("mart\u00a0", "odd-character"),
    ],
)  # fmt: skip
def test_entries_of_sl_refs(entry: str, rule: str) -> None:
    front = f'sl_refs: ["{entry}"]\n'
    assert [one["rule"] for one in in_core({**TREE, **page(front=front)})] == ([rule] if rule else [])


NAMES = {
    "order-items": "", "2024_orders": "", "Order Total": "", "\u0432\u044b\u0440\u0443\u0447\u043a\u0430": "",
    "caf\u00e9": "", "a$b": "", "m\u00b2": "", "\u65e5\u4ed8": "",
    "mart\u200b": "error", "ma\u00adrt": "error", "mart\u00a0x": "error", " mart": "error", "mart ": "error",
    "m\u0430rt": "error", "cafe\u0301": "error", "\uff4dart": "error", "\u0441\u043e\u0440": "warning",
    "mart\ufe0f": "error", "a\u3164b": "error",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_that_are_declared(name: str) -> None:
    """Each is refused, or its references are gated."""
    assert spelling.wrong_name(name)[1] == NAMES[name]
    files = source("mart", more=f'measures:\n  - {{name: "{name}", expr: count(id)}}\n')
    levels = [one["level"] for one in in_core(files) if one["rule"] == "entity-name"]
    assert levels == ([NAMES[name]] if NAMES[name] else [])
    if not NAMES[name]:
        assert in_core({**files, **page(f"`mart.{name}`, `sum(mart.{name})`, `source:mart.{name}`")}) == []
        declared = source(name.replace(" ", "_"), measures="total")
        for body in (f"`{name.replace(' ', '_')}.gone`", f"`x + {name.replace(' ', '_')}.gone`"):
            assert [one["rule"] for one in in_core({**declared, **page(body)})][-1:] == ["stale-entity"]


def test_a_source_with_a_blank_in_its_name() -> None:
    text = source("mart", measures="total")["semantic-layer/wh/mart.yaml"].replace("name: mart", "name: order items", 1)
    files = {"semantic-layer/wh/order_items-00000000.yaml": text}
    gone = [
        one["rule"]
        for one in in_core({**files, **page("`order items.gone` `order items.total`")})
        if one["path"][0] == "w"
    ]
    assert gone == ["stale-entity"]


def test_a_name_that_is_gone_is_found_in_an_expression() -> None:
    """`former`: what the base had. The change's scope reaches texts of any form."""
    for text in ("sum(mart.total)", "mart.total,", "Mart.total", "mart.total\u200b", "x-mart.total"):
        assert "mart" in spelling.words_of(text) | {word.casefold() for word in spelling.words_of(text)}
    assert judged({**COST, **page("`sum(mart.total)`")}).findings == ()
