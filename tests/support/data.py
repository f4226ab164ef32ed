"""Real inputs and hard cases that lie beside the project. Tests that read them skip where they are absent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.repos import Repo

ROOT = Path(__file__).resolve().parent.parent.parent


def shared() -> Path:
    """The folder of shared inputs (KTX_SHARED, or beside the project). Skips where it is absent."""
    found = Path(os.environ.get("KTX_SHARED") or ROOT.parent / "shared")
    if not found.is_dir():
        pytest.skip(f"shared inputs are absent: {found}")
    return found


def cases(name: str) -> list[dict[str, Any]]:
    """The hard cases of one file; none where the folder is absent (the tests that need them then say so)."""
    path = Path(os.environ.get("KTX_SHARED") or ROOT.parent / "shared") / "cases" / f"{name}.json"
    found: list[dict[str, Any]] = json.loads(path.read_bytes()) if path.is_file() else []
    return found


def case(name: str, wanted: str) -> dict[str, Any]:
    """One hard case by its id. Skips where the folder is absent."""
    shared()
    return next(one for one in cases(name) if one["id"] == wanted)


def orbit(path: Path) -> Repo:
    """A scratch repository that holds the orbit knowledge base."""
    return _committed(path, shared() / "data" / "orbit", "")


def b2b(path: Path) -> Repo:
    """A scratch repository that holds b2b_saas as one connection."""
    return _committed(path, shared() / "data" / "b2b_saas", "semantic-layer/b2b")


def _committed(path: Path, source: Path, inside: str) -> Repo:
    repo = Repo.init(path)
    for found in sorted(source.rglob("*")):
        if found.is_file():
            target = path / inside / found.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, target)
    repo.commit("the knowledge base")
    return repo
