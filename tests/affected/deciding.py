"""The decision on two projects that are only files in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from ktxkit.affected import select
from ktxkit.affected.rules import decision
from ktxkit.affected.rules.decision import ABSENT, ImpactQuestion, Touched
from ktxkit.affected.rules.graph import Graph
from ktxkit.affected.rules.project import TestProject
from ktxkit.affected.rules.scopes import Facts


@lru_cache(maxsize=500)
def read(path: str, text: str) -> Facts:
    return select.read(path, text.encode())


def decided(
    before: Mapping[str, str],
    after: Mapping[str, str],
    environment: Collection[str] = (),
    ran: decision.Ran | None = None,
) -> decision.Decision:
    """The decision on two projects, without a repository."""
    touched, changed, gone = [], [], set()
    versions = {path: [read(path, text)] for path, text in after.items() if select.is_read(path, "100644")}
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        modes = (("100644" if path in before else ABSENT), ("100644" if path in after else ABSENT))
        touched.append(Touched(path, modes))
        if select.is_read(path, "100644"):
            old = read(path, before[path]) if path in before else None
            changed += decision.between(path, old, versions.get(path, [None])[0])
            if old is not None:
                gone |= {path} - versions.keys()
                versions[path] = [old, *versions.get(path, [])]
    graph = Graph(versions, before.keys() | after.keys(), TestProject(), gone)
    return decision.decide(ImpactQuestion(graph, touched, changed, environment=environment, ran=ran))
