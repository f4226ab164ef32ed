"""A project's name from the address of its origin."""

from __future__ import annotations

import re

_SCP = re.compile(r"(?:[^@/]+@)?([^/:@]+):(?!//)(.+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]*)(?::[0-9]+)?/(.*)", re.IGNORECASE)


def from_url(url: str) -> str:
    """`host/owner/name`, the same for every way to write an address; never with a password. A path: `file:PATH`."""
    found = _URL.fullmatch(url)
    if found is None:
        scp = _SCP.fullmatch(url)
        if scp is None or url.startswith(("/", ".")):
            return f"file:{url.rstrip('/').removesuffix('.git')}"
        found = scp
    host, path = found[1].lower(), found[2].strip("/").removesuffix(".git").strip("/")
    return f"{host}/{path}" if host else f"file:/{path}"
