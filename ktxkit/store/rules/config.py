"""What a repository's `.ktx-config.yaml` may say: wrong keys with the nearest right ones, and a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktxkit.base.rules.text import nearest

FILE = ".ktx-config.yaml"
TEMPLATE = """\
# ktxkit, for everybody who works on this repository. Every key is optional; what stands here is the default.
# `git ktx doctor` checks this file. A job file and the command line say it instead where they say it.
schemaVersion: 1

# Defaults of every job file (job-run).
# job:
#   target: main            # the branch that jobs land on; without it the one that is checked out
#   connectionId: local     # whose data it is, in every trace event
#   sourceKey: manual
#   maxParallel: 8          # units at once; without it the number of processors
#   timeLimit: 3600         # seconds for each unit
#   onFailure: continue     # or abort: nothing lands after a unit has failed
#   onConflict: set-aside   # or stop: nothing lands then; or prune: what dangles is taken out
#   verify: make check      # runs on every candidate, in a checkout of its own
#   copy: [.env]            # ignored files that a unit's worktree needs too
#   policy:
#     allow: ["wiki/**"]    # what a unit may touch
#     deny: ["**/*.lock"]

# A command that is told of the end of each job, of suspects and of blocked branches, as JSON on its stdin.
# notify: ./tools/notify.sh

# Ingestion (ingest-run). Without keepSnapshots every snapshot stays under raw-sources/.
# ingest:
#   keepSnapshots: 10       # the newest of each source; older ones go in the commit of the next sync

# What must hold before a test run counts as authoritative, and when a test is called slow or flaky.
# ledger:
#   repetitions: 2          # identical executions with both outcomes before a test is flaky
#   preconditions:
#     - name: database
#       run: pg_isready
"""


@dataclass(frozen=True)
class WrongKey:
    """A key that means nothing where it stands; `place` is the keys above it."""

    place: tuple[str | int, ...]
    key: str
    near: str

    @property
    def message(self) -> str:
        where = ".".join(str(part) for part in (*self.place, self.key))
        return f"{where} means nothing here" + (f"; did you mean {self.near}?" if self.near else "")


def wrong_keys(document: Any, schema: Mapping[str, Any], place: tuple[str | int, ...] = ()) -> Iterator[WrongKey]:
    """Every key that a closed object of the schema does not know, outermost first."""
    if isinstance(document, list):
        for number, item in enumerate(document):
            yield from wrong_keys(item, schema.get("items", {}), (*place, number))
    if not isinstance(document, Mapping) or "properties" not in schema:
        return
    known = schema["properties"]
    for key in document:
        if key not in known and not str(key).startswith("x-"):
            yield WrongKey(place, str(key), next(iter(nearest(str(key), list(known), 1)), ""))
    for key, value in document.items():
        if key in known:
            yield from wrong_keys(value, known[key], (*place, key))
