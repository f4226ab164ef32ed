"""Path patterns of a policy, and when two names are the same place somewhere.

A pattern without `*`, `?` or `[` is a path: itself and everything below it; with a slash at its end only what is below.
With them it is a glob: `*` and `?` stay inside a name, `**` crosses names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Code points that HFS+ ignores in names (git's utf8.c, next_hfs_char): `.g<U+200C>it` is `.git` there.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_MAGIC = re.compile(r"[*?\[]")


def text(path: bytes) -> str:
    """A path as text, reversibly."""
    return path.decode("utf-8", "surrogateescape")


def fold(name: str) -> str:
    """One form for all spellings that some file system takes for the same name: case, normalisation, ignored marks."""
    if name.isascii():
        return name.lower()
    once = unicodedata.normalize("NFC", name.translate(_IGNORED)).casefold()
    return unicodedata.normalize("NFC", once)


def plain_name(segment: str) -> str:
    """A folded segment as NTFS would read it too: no trailing dots and blanks, no stream."""
    return fold(segment).partition(":")[0].rstrip(". ")


def is_glob(pattern: str) -> bool:
    return bool(_MAGIC.search(pattern))


def matches(pattern: str, path: str) -> bool:
    """Whether a path is what the pattern names or lies below it, spelt exactly so."""
    if not is_glob(pattern):
        bare = pattern.removesuffix("/")
        return path.startswith(f"{bare}/") or (path == bare and not pattern.endswith("/"))
    return bool(_compiled(pattern).match(path))


def matches_folded(pattern: str, path: str) -> bool:
    """The same, but every spelling of the same place counts, and `dir/` names `dir` itself too."""
    return matches(fold(pattern.removesuffix("/")), fold(path))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    body = pattern.removesuffix("/")
    below = "/.*" if pattern.endswith("/") else "(?:/.*)?"
    parts = [_segment(part) for part in body.split("/")]
    joined = "/".join(parts)
    joined = joined.replace("\0/", "(?:.*/)?").replace("/\0", "(?:/.*)?").replace("\0", ".*")
    return re.compile(rf"(?s:{joined}{below})\Z")


def _segment(part: str) -> str:
    """One name of a glob as a regular expression that never crosses a slash; `\0` stands for `**`."""
    if part == "**":
        return "\0"
    pieces, at = [], 0
    while at < len(part):
        close = part.find("]", at + 2) if part[at] == "[" else -1
        if close > 0:
            inner = part[at + 1 : close].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = close
        else:
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(part[at]) or re.escape(part[at]))
        at += 1
    return "".join(pieces)


def leads_into(pattern: str, path: str) -> bool:
    """Whether the path is a place on the way to what the pattern names (`a` for `a/b/`): folded comparison."""
    wanted = fold(pattern.removesuffix("/")).split("/")
    have = fold(path).split("/")
    if len(have) >= len(wanted):
        return False
    return all(one != "**" and matches(one, other) for one, other in zip(wanted, have, strict=False))
