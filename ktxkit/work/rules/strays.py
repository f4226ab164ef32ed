"""What belongs among the documents of jobs: every name that ktxkit gives there. Anything else was put there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

JOB = frozenset(
    {"job.json", "report.json", "verdict.json", "job-file.json", "ingest.json", "ingest-outcome.json"}
    | {"raw-snapshot.json", "knowledge-index.json", "projected.json", "units", "raw", "verified"}
    | {f"{name}{end}.json" for name in ("landing", "verification") for end in ("", "-intent")}
)
UNIT = frozenset(
    {f"{name}.json" for name in ("lease", "patch", "verdict", "intent", "receipt", "sentinel", "result")}
    | {"work-unit.json", "actions.json", "stdout.log", "stderr.log"}
)
_MADE = re.compile(r"\.lock|verify-[0-9a-f]+-[0-9a-f]+\.log|\..*\.tmp")


def unknown(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Names that are no document of ours, sorted; what is written aside or locks one is ours."""
    return sorted(name for name in names if name not in known and not _MADE.fullmatch(name))


def is_earlier_attempt(name: str, units: Collection[str]) -> bool:
    """Whether it is where another attempt of a unit has, or had, its worktree."""
    unit, mark, number = name.rpartition(".attempt-")
    return bool(mark) and number.isdecimal() and unit in units
