"""The shared hard inputs beside the repository; what needs them skips where they are absent."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("KTX_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
