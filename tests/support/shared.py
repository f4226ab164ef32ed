"""Other people's real inputs, in a folder beside the repository; what needs them skips where they are absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("KTX_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")


def shared(*parts: str) -> Path:
    """A place among the shared inputs. Skips the test where it is absent."""
    place = SHARED.joinpath(*parts)
    if not place.exists():
        pytest.skip(f"the shared real inputs are absent: {place}")
    return place
