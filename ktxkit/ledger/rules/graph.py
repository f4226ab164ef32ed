"""The ledger as nodes and edges, for whoever joins them in a graph database. Ids are qualified by the project, so that
loading the same thing twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ktxkit.base.rules.digests import digest

Element = dict[str, Any]


def node_id(project: str, kind: str, name: str) -> str:
    """`kind:project#name`; a name too long for an id is its digest."""
    return f"{kind}:{project}#{name if len(name) <= 400 else digest(name.encode('utf-8'))}"


def elements(record: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Iterator[Element]:
    """Nodes and edges of one run: the run, its commit and tree, each test and its suite, each execution as an edge."""
    project = record["project"]
    run = node_id(project, "run", record["run"])
    keys = ("startedAt", "wallSeconds", "state", "verdict", "authoritative", "trigger")
    yield _node("project", f"project:{project}", {"name": project})
    facts = {key: record[key] for key in keys if key in record}
    yield _node("run", run, facts | {"scope": record["scope"]["kind"], "counts": record["counts"]})
    yield _edge("OF", run, f"project:{project}")
    for kind, key in (("commit", "commit"), ("tree", "tree")):
        if key in record.get("tree", {}):
            target = node_id(project, kind, record["tree"][key])
            yield _node(kind, target, {"oid": record["tree"][key]})
            yield _edge("ON", run, target)
    if "parent" in record:
        yield _edge("INSIDE", run, node_id(project, "run", record["parent"]))
    suites: set[str] = set()
    for row in rows:
        test, suite = node_id(project, "test", row["test"]), row["suite"]
        if suite not in suites:
            suites.add(suite)
            yield _node("suite", node_id(project, "suite", suite), {"name": suite})
        yield _node("test", test, {"name": row["test"]})
        yield _edge("PART_OF", test, node_id(project, "suite", suite))
        facts = {"outcome": row["outcome"], "seconds": row["total"] / 1e6, "attempt": row["attempt"]}
        yield _edge("EXECUTED", run, test, facts | {"occurrence": row["occurrence"]})


def _node(kind: str, name: str, facts: Mapping[str, Any]) -> Element:
    return {"element": "node", "kind": kind, "id": name, **facts}


def _edge(kind: str, start: str, end: str, facts: Mapping[str, Any] | None = None) -> Element:
    more = dict(facts or {})
    tail = f"/{more['occurrence']}.{more['attempt']}" if "attempt" in more else ""
    return {"element": "edge", "kind": kind, "id": f"{kind}:{start}->{end}{tail}", "from": start, "to": end, **more}
