"""Ids of test runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


def new_run_id(now: datetime) -> str:
    """Sorts by time; unique by its tail."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
