"""Digests: `b3:` plus the hex BLAKE3 of the bytes. git ids stay git ids."""

from __future__ import annotations

from typing import Any


def digest(data: bytes) -> str:
    """`b3:` and 64 hex digits."""
    from blake3 import blake3

    return "b3:" + blake3(data).hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, ASCII: the one form of a value that digests are taken of.

    Raises ValueError for NaN and infinities.
    """
    import json

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def digest_of(value: Any) -> str:
    """Digest of a JSON value's canonical form."""
    return digest(canonical(value))
