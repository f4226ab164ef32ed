"""The git id of a tree from its entries alone: nothing is written into any object store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

DIRECTORY = "40000"


def tree_id(files: Mapping[bytes, tuple[str, str]], object_format: str = "sha1") -> str:
    """The id of the tree that holds these files (path to mode and id). Source: gitformat-pack, tree objects."""
    here: dict[bytes, tuple[str, str]] = {}
    below: dict[bytes, dict[bytes, tuple[str, str]]] = {}
    for path, entry in files.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[rest] = entry
        else:
            here[name] = entry
    here |= {name: (DIRECTORY, tree_id(inside, object_format)) for name, inside in below.items()}
    ordered = sorted(here.items(), key=lambda one: one[0] + (b"/" if one[1][0] == DIRECTORY else b""))
    body = b"".join(b"%b %b\0%b" % (mode.encode(), name, bytes.fromhex(oid)) for name, (mode, oid) in ordered)
    return hashlib.new(object_format, b"tree %d\0" % len(body) + body).hexdigest()
