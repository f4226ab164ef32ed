"""What ingestion writes: YAML that every reader takes alike, projected files that say whose they are, duplicates."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ktxkit.ingest.rules.artifacts import Text, essence, exact, near
from ktxkit.ingest.rules.projection import Projected, Projection, apply, dump, owner_of, stamped
from ktxkit.ingest.rules.sql import tables_in

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "no",
        "on",
        "~",
        "1",
        "1e3",
        "0x1f",
        "2026-01-02",
        "a: b",
        "# x",
        "- x",
        "",
        " ",
        "a\nb",
        "a\n\n b",
        "null",
        "=",
        "<<",
    ]
)
SCALARS = TEXTS | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.dictionaries(TEXTS, inner, max_size=4)
        | st.lists(SCALARS | st.dictionaries(TEXTS, inner, max_size=3), max_size=4)
    ),
    max_leaves=12,
)


def loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5))
def test_yaml_comes_back_as_it_was(value: dict[str, Any]) -> None:
    assert loaded(dump(value)) == value


def test_yaml_looks_as_people_write_it() -> None:
    value = {
        "name": "orders",
        "sql": "select 1\nfrom x",
        "grain": ["id"],
        "joins": [],
        "columns": [{"name": "id", "size": 1}],
    }
    assert dump(value) == (
        "name: orders\nsql: |-\n  select 1\n  from x\ngrain:\n  - id\njoins: []\ncolumns:\n  - name: id\n    size: 1\n"
    )


OWNER = "warehouse/metabase"


def projection(**files: str) -> Projection:
    return Projection(tuple(Projected(f"semantic-layer/w/{name}.yaml", body, {}) for name, body in files.items()))


def test_a_projected_file_knows_whether_it_was_edited() -> None:
    text = stamped(OWNER, "name: a\n")
    assert owner_of(text) == (OWNER, True)
    assert owner_of(text + "# mine\n") == (OWNER, False)
    assert owner_of("name: a\n") is None


def test_projection_replaces_its_own_and_keeps_what_others_work_on() -> None:
    path = "semantic-layer/w/{}.yaml".format
    mine = stamped(OWNER, "name: a\n")
    present = {
        path("a"): mine,
        path("edited"): stamped(OWNER, "name: edited\n") + "measures: []\n",
        path("same"): stamped(OWNER, "name: same\n") + "measures: []\n",
        path("foreign"): "name: foreign\n",
        path("other"): stamped("warehouse/dbt", "name: other\n"),
        path("gone"): stamped(OWNER, "name: gone\n"),
        path("gone-edited"): stamped(OWNER, "name: g\n") + "x",
    }
    wanted = projection(a="name: a\nnew: 1\n", edited="name: new\n", same="name: same\n", foreign="x\n", fresh="f\n")
    found = apply(wanted, OWNER, present)
    assert found.changes == {
        path("a"): stamped(OWNER, "name: a\nnew: 1\n"),
        path("fresh"): stamped(OWNER, "f\n"),
        path("gone"): None,
    }
    assert found.kept == (path("edited"), path("foreign"), path("gone-edited"))
    assert len(found.warnings) == 3
    again = apply(projection(a="name: a\n"), OWNER, {path("a"): mine})
    assert not again.changes and not again.kept


def test_duplicates_are_found_without_comparing_all_with_all() -> None:
    def text(name: str, words: str, *, new: bool = True) -> Text:
        return Text(name, essence(words), new)

    long = " ".join(f"word{n}" for n in range(60))
    texts = [
        text("b", f"<!-- from: raw/1.json -->\n{long}"),
        text("a", f"{long}\n\n<!-- from: raw/2.json -->"),
        text("old", "quite another text of some length", new=False),
        text("copy", "quite another text of some length"),
        text("near", f"{long} and a little more"),
        text("far", " ".join(f"other{n}" for n in range(60))),
    ]
    assert [(pair.path, pair.other) for pair in exact(texts)] == [("b", "a"), ("copy", "old")]
    found = near(texts)
    assert {(pair.path, pair.other) for pair in found} == {("near", "a"), ("near", "b")}
    assert all(0.8 <= pair.similarity < 1 for pair in found)
    many = [text(f"p{n:04d}", f"the same lead in every page {n} {n * 7} {n * 13} tail words here") for n in range(2000)]
    assert near([*many, text("z", many[7].essence + " again")])[0].other == "p0007"


SQL = {
    'select 1 from Orders o join "My Schema".items i on true': ["orders", "my schema.items"],
    "with o as (select * from raw.orders), p as (select 2) select * from o, p join q on 1=1": ["raw.orders", "q"],
    "select 'from lies' -- from comments\n /* from more */ from `a`.`b`": ["a.b"],
    "select extract(year from d) from t": ["d", "t"],
    "": [],
}


def test_tables_in_sql() -> None:
    for sql, expected in SQL.items():
        assert tables_in(sql) == expected
