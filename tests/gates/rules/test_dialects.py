"""SQL in the dialect of its warehouse, measures that are made of each other, and what cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import call, spawn
from tests.support.gates import by_command, in_core, page
from tests.support.repos import Repo

HEAD = "name: mart\ntable: public.mart\ngrain: [id]\ncolumns:\n"
COLUMNS = "".join(f"  - {{name: {name}, type: {kind}}}\n" for name, kind in [("id", "string"), ("cost", "number"), ("at", "time"), ("tags", "string")])  # fmt: skip # noqa: E501


def mart(expr: str, more: str = "", kind: str = "columns") -> dict[str, str]:
    quoted = expr.replace("'", "''")
    item = f"  - {{name: made, expr: '{quoted}'{', type: string' if kind == 'columns' else ''}}}\n"
    text = HEAD + COLUMNS + (item if kind == "columns" else f"measures:\n{item}")
    return {"semantic-layer/wh/mart.yaml": text + more}


# What each warehouse takes; the general dialect refuses some of it, or finds columns that are none.
TAKEN: dict[str, list[str]] = {
    "bigquery": ["count(distinct `id`)", "date_trunc(at, month)", "safe_divide(cost, 2)", "timestamp_trunc(at, day)"],
    "mysql": ["count(distinct `id`)", "date_format(at, '%Y')", "if(cost > 1, 1, 0)"],
    "databricks": ["count(distinct `id`)", "date_trunc('month', at)", "transform(tags, x -> x + cost)"],
    "snowflake": [
        "date_trunc('month', at)",
        "date_trunc(month, at)",
        "iff(cost > 1, 1, 0)",
        'count("id")',
        "tags:x::string",
    ],
    "postgres": ["date_trunc('month', at)", "cost::numeric", 'sum("cost")'],
    "duckdb": ["date_trunc('month', at)", "list_transform(tags, x -> x)", "cost::int"],
    "redshift": ["date_trunc('month', at)", "nvl(cost, 0)", "getdate() - at"],
    "tsql": ["datetrunc(month, at)", "isnull(cost, 0)", "[cost] + 1", "dateadd(day, 1, at)"],
}
REFUSED = {
    "bigquery": "count(`gone`)",
    "snowflake": "date_trunc('month', gone)",
    "tsql": "[gone] + 1",
    "duckdb": "sum(gone)",
}


@pytest.mark.parametrize(("dialect", "expr"), [(name, expr) for name, taken in TAKEN.items() for expr in taken])
def test_each_in_its_own(dialect: str, expr: str) -> None:
    assert in_core(mart(expr), dialect=dialect) == []
    assert in_core(mart(expr), dialect={"wh": dialect, "*": "postgres"}) == []
    assert in_core(mart(expr, f"x-dialect: {dialect}\n")) == []


@pytest.mark.parametrize(("dialect", "expr"), [(name, taken[0]) for name, taken in TAKEN.items()])
def test_what_lies_over_a_table_is_of_its_dialect(dialect: str, expr: str) -> None:
    """A connector writes the dialect with the table; a person's measures over it need not say it again."""
    table = "".join(f"      {line}\n" for line in COLUMNS.splitlines())
    shard = f"tables:\n  mart:\n    table: public.mart\n    x-dialect: {dialect}\n    columns:\n{table}"
    quoted = expr.replace("'", "''")
    over = f"name: mart\nmeasures:\n  - {{name: made, expr: '{quoted}'}}\n"
    files = {"semantic-layer/wh/_schema/all.yaml": shard, "semantic-layer/wh/mart.yaml": over}
    assert in_core(files) == []
    assert in_core(files, dialect="tsql" if dialect != "tsql" else "mysql") == []
    (wrong,) = in_core({**files, "semantic-layer/wh/mart.yaml": over.replace(quoted, "sum(gone)")})
    assert wrong["rule"] == "expr-unknown-column"


@pytest.mark.parametrize(("dialect", "expr"), REFUSED.items())
def test_a_column_that_is_not_there(dialect: str, expr: str) -> None:
    (found,) = in_core(mart(expr), dialect=dialect)
    assert (found["rule"], found["reference"]) == ("expr-unknown-column", "mart.columns[made].expr: gone")


def test_qualify_and_windows() -> None:
    expr = "row_number() over (partition by id order by at)"
    for dialect in ("", *TAKEN):
        assert in_core(mart(expr), **({"dialect": dialect} if dialect else {})) == []
    (found,) = in_core(mart("select id from mart qualify row_number() over (order by at) = 1"), dialect="snowflake")
    assert found["rule"] == "expr-not-expression"


def test_without_a_dialect_the_finding_names_those_that_take_it() -> None:
    (found,) = in_core(mart("count(distinct `id`)", kind="measures"))
    assert "bigquery, mysql, databricks" in found["hint"] and "`dialect:` in ktx-gates.yaml" in found["hint"]
    (found,) = in_core(mart("date_trunc(at, month)"))
    assert (found["rule"], "bigquery" in found["hint"]) == ("expr-unknown-column", True)
    (found,) = in_core(mart("sum(gone)"))
    assert found.get("hint", "") == ""


def test_the_configuration_names_it(tmp_path: Path) -> None:
    files = mart("count(distinct `id`)", kind="measures")
    assert by_command(tmp_path / "a", {**files, "ktx-gates.yaml": "dialect: {wh: BigQuery}\n"}) == []
    repo = Repo.init(tmp_path / "b")
    repo.write("ktx-gates.yaml", "dialect: bigqeury\n")
    repo.commit("misspelt")
    ran = call("gate-check", "--all", cwd=repo.path)
    assert ran.status == 2 and "did you mean bigquery?" in ran.err


MEASURES = {
    "a measure of another": ("total: sum(cost), more: total + 1", set()),
    "two of each other": ("a: b + 1, b: a + 1", {"mart.a", "mart.b"}),
    "one of itself": ("a: a", {"mart.a"}),
    "three in a ring, and one that leads there": ("a: b, b: c, c: a, d: a + 1", {"mart.a", "mart.b", "mart.c"}),
    "two rings with a way between": ("a: b, b: a + m, m: c, c: d, d: c", {"mart.a", "mart.b", "mart.c", "mart.d"}),
    "the name of a column": ("cost: sum(cost)", set()),
    "by its own name": ("a: mart.b, b: mart.a", {"mart.a", "mart.b"}),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_made_of_each_other(name: str) -> None:
    said, wanted = MEASURES[name]
    items = "".join("  - {{name: {}, expr: '{}'}}\n".format(*one.split(": ")) for one in said.split(", "))
    found = in_core({"semantic-layer/wh/mart.yaml": HEAD + COLUMNS + "measures:\n" + items})
    assert {one["reference"] for one in found if one["rule"] == "measure-cycle"} == wanted
    assert not [one for one in found if one["level"] == "error" and one["rule"] != "measure-cycle"]


def test_a_ring_over_a_join() -> None:
    joined = "joins:\n  - {{to: {0}, on: {1}.id = {0}.id, relationship: many_to_one}}\n"
    files = {
        f"semantic-layer/wh/{own}.yaml": (HEAD + COLUMNS).replace("name: mart", f"name: {own}")
        + joined.format(other, own)
        + f"measures:\n  - {{name: m, expr: {other}.m + 1}}\n"
        for own, other in (("one", "two"), ("two", "one"))
    }
    found = in_core(files)
    assert {one["reference"] for one in found} == {"one.m", "two.m"}
    assert "m -> two.m -> m" in found[0]["message"]


def test_a_source_that_only_says_what_its_columns_are() -> None:
    """The fixture of the ingestion plan: neither table nor sql."""
    text = "name: orders\ngrain: [id]\ncolumns: [{name: id, type: string}]\njoins: []\nmeasures:\n  - name: order_count\n    expr: count(*)\n"  # noqa: E501
    assert in_core({"semantic-layer/warehouse/orders.yaml": text, **page("`orders.order_count`")}) == []
    found = in_core({"semantic-layer/warehouse/orders.yaml": text, **page("`orders.gone`")})
    assert [one["rule"] for one in found] == ["stale-entity"]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    for path, text in mart("sum(kosten)", kind="measures").items():
        repo.write(path, text)
    repo.commit("the files")
    (tmp_path / "block").mkdir()
    (tmp_path / "block/sqlglot.py").write_text("raise ImportError('blocked')\n")
    env = {"PYTHONPATH": str(tmp_path / "block")}
    told = spawn("gate-check", "--all", cwd=repo.path, env=env)
    assert (told.status, "1 expression not read (pip install 'ktxkit[sql]')" in told.err) == (0, True), told.err
    assert spawn("gate-check", "--all", "--json", cwd=repo.path, env=env).document["unread"] == {"expressions": 1}
    ran = spawn("gate-check", "--all", "--require", "expressions", cwd=repo.path, env=env)
    assert ran.status == 2 and "1 expression of SQL cannot be read here" in ran.err
    assert call("gate-check", "--all", "--require", "expressions", cwd=repo.path).status == 1
    assert sys.modules.get("sqlglot") is not None
