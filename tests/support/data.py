"""The hard cases of `tests/cases`, and scratch repositories that hold the real inputs (skips where they are absent)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.repos import Repo
from tests.support.shared import shared

CASES = Path(__file__).resolve().parent.parent / "cases"


def cases(name: str) -> list[dict[str, Any]]:
    """The hard cases of one file."""
    found: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_bytes())
    return found


def case(name: str, wanted: str) -> dict[str, Any]:
    """One hard case by its id."""
    return next(one for one in cases(name) if one["id"] == wanted)


def orbit(path: Path) -> Repo:
    """A scratch repository that holds the orbit knowledge base."""
    return _committed(path, shared("data", "orbit"), "")


def b2b(path: Path) -> Repo:
    """A scratch repository that holds b2b_saas as one connection."""
    return _committed(path, shared("data", "b2b_saas"), "semantic-layer/b2b")


def _committed(path: Path, source: Path, inside: str) -> Repo:
    repo = Repo.init(path)
    for found in sorted(source.rglob("*")):
        if found.is_file():
            target = path / inside / found.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, target)
    repo.commit("the knowledge base")
    return repo
