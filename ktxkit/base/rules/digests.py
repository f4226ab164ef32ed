"""Digests: `b3:` plus the hex BLAKE3 of the bytes. git ids stay git ids.

Linked lines: each names the digest of the one before, so that no line can be changed or taken out unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any


def digest(data: bytes) -> str:
    """`b3:` and 64 hex digits."""
    from blake3 import blake3

    return "b3:" + blake3(data).hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, ASCII: the one form of a value that digests are taken of.

    Raises ValueError for NaN and infinities.
    """
    return _encode()(value).encode("ascii")


@cache
def _encode() -> Callable[[Any], str]:
    """Taken before a suite replaces `json.dumps`: the recorder works in its process."""
    import json

    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def digest_of(value: Any) -> str:
    """Digest of a JSON value's canonical form."""
    return digest(canonical(value))


def link(previous: Mapping[str, Any] | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """The line after `previous` (None: the first)."""
    made: dict[str, Any] = {**body, "seq": previous["seq"] + 1 if previous else 1}
    if previous:
        made["prev"] = previous["hash"]
    return made | {"hash": digest_of(made)}


def own_hash(line: Mapping[str, Any]) -> str:
    """The digest that a line must carry."""
    return digest_of({key: value for key, value in line.items() if key != "hash"})


Line = Mapping[str, Any]


def checked(lines: Iterable[Line], previous: Line | None = None) -> Iterator[Line]:
    """The lines, each after it was checked. Raises ValueError that says which one is broken and how."""
    for line in lines:
        if line["hash"] != own_hash(line):
            raise ValueError(f"line {line['seq']} is not what its digest says: it was changed")
        if line.get("prev") != (previous["hash"] if previous else None):
            raise ValueError(f"line {line['seq']} does not follow the one before it: a line is missing or was put in")
        if line["seq"] != (previous["seq"] + 1 if previous else 1):
            raise ValueError(f"line {line['seq']} has a wrong number")
        yield line
        previous = line
