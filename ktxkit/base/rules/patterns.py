r"""Path patterns of a policy, and when two names are the same place somewhere.

A pattern without `*`, `?` or `[` is a path: itself and everything below it; with a slash at its end only what is below.
With them it is a glob: `*` and `?` stay inside a name, `**` crosses names.

A pattern of JSON Schema (ECMA 262, section 22.2) as one of Python's `re`: the same strings match, or it is refused.

The two differ in silence: Python's `$` also matches before a last newline, its `\d` and `\w` also match other
alphabets, its `.` matches a carriage return.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
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


class PatternSet:
    """Many patterns, asked at once: what names a path costs as much as the path is deep, only globs are tried in turn.

    `folded`: every spelling of the same place counts, as in `matches_folded`.
    """

    def __init__(self, patterns: Iterable[str], *, folded: bool = False) -> None:
        self._fold = fold if folded else str
        self._named: dict[str, str] = {}
        self._below: dict[str, str] = {}
        self._on_the_way: dict[str, str] = {}
        self._globs: list[tuple[str, str]] = []
        for pattern in patterns:
            bare = self._fold(pattern.removesuffix("/"))
            if is_glob(bare):
                self._globs.append((bare if folded else pattern, pattern))
                continue
            known = self._below if pattern.endswith("/") and not folded else self._named
            known.setdefault(bare, pattern)
            for above in _above(bare):
                self._on_the_way.setdefault(above, pattern)

    def match(self, path: str) -> str:
        """The pattern that names the path, or a place above it; empty where none does."""
        path = self._fold(path)
        if path in self._named:
            return self._named[path]
        for above in _above(path):
            found = self._named.get(above) or self._below.get(above)
            if found:
                return found
        return next((pattern for glob, pattern in self._globs if matches(glob, path)), "")

    def leads_into(self, path: str) -> str:
        """The pattern that names something below the path; empty where none does. For folded ones."""
        found = self._on_the_way.get(self._fold(path), "")
        return found or next((pattern for _, pattern in self._globs if leads_into(pattern, path)), "")


def _above(path: str) -> Iterator[str]:
    """Every place above a path, the nearest first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def leads_into(pattern: str, path: str) -> bool:
    """Whether the path is a place on the way to what the pattern names (`a` for `a/b/`): folded comparison."""
    wanted = fold(pattern.removesuffix("/")).split("/")
    have = fold(path).split("/")
    if len(have) >= len(wanted):
        return False
    return all(one != "**" and matches(one, other) for one, other in zip(wanted, have, strict=False))


_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_NO_SPACE = (
    r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e"
    r"\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff"
)
_INSIDE = {
    "d": "0-9", "D": r"\x00-/:-\U0010ffff", "w": "A-Za-z0-9_", "W": r"\x00-/:-@\[-\^`{-\U0010ffff",
    "s": _SPACE, "S": _NO_SPACE,
}  # fmt: skip
_TOKEN = r"""(?xs)\\ (?: c(?P<control>[A-Za-z]) | u\{(?P<code>[0-9A-Fa-f]{1,6})\} | u(?P<unit>[0-9A-Fa-f]{4})
             | (?P<same>[tnrfv1-9]|x[0-9A-Fa-f]{2}) | (?P<class>[dDwWsSbB]) | (?P<plain>[^A-Za-z0-9]) )
    | (?P<group>\(\?(?:[:=!]|<[=!])) | \(\?P?<(?P<name>[A-Za-z_][A-Za-z0-9_]*)>
    | (?P<quantifier>\{[0-9]+(?:,[0-9]*)?\}) | (?P<one>[^\\{(]|\((?!\?))"""


def translated(pattern: str) -> str:
    """The pattern for `re.search`. Raises ValueError for what Python has not (`\\p{L}`), and for what is no pattern."""
    parts: list[str] = []
    place, inside, token_at = 0, False, re.compile(_TOKEN)
    while place < len(pattern):
        token = token_at.match(pattern, place)
        part = None if token is None else _inside(token, parts[-1]) if inside else _outside(token)
        if token is None or part is None:
            raise ValueError(f"the pattern {pattern!r} cannot be read at character {place + 1}")
        if inside and parts[-1] in ("[", "[^") and token[0] == "]":
            raise ValueError(f"the pattern {pattern!r} has an empty class")
        if not inside and part == "[" and pattern.startswith("^", token.end()):
            part = "[^"
        inside = token[0] != "]" if inside else part in ("[", "[^")
        parts.append(part)
        place = token.end() + (part == "[^")
    text = "".join(parts)
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from error
    return text


def _character(token: re.Match[str]) -> str | None:
    """What stands for one character, and for itself in either place; None for anything else."""
    if token["control"]:
        return f"\\x{ord(token['control']) % 32:02x}"
    if code := token["code"] or token["unit"]:
        number = int(code, 16)
        return None if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF else f"\\U{number:08x}"
    return re.escape(token["plain"]) if token["plain"] else None


def _outside(token: re.Match[str]) -> str | None:
    if token["same"] or token["group"] or token["quantifier"]:
        return token[0]
    if token["class"]:
        return {"b": r"\b", "B": r"(?!\b)"}.get(token["class"]) or f"[{_INSIDE[token['class']]}]"
    if token["name"]:
        return f"(?P<{token['name']}>"
    if token["one"]:
        return {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "}": r"\}"}.get(token["one"], token["one"])
    return _character(token)


def _inside(token: re.Match[str], before: str) -> str | None:
    """Within brackets: what Python may one day read as an operation on sets is escaped."""
    if token["same"]:
        return None if token["same"].isdigit() else token[0]
    if token["class"]:
        return _INSIDE.get(token["class"])
    if token["one"]:
        raw = before not in ("[", "[^", "-") if token[0] == "-" else token[0] == "]" or token[0].isalnum()
        return token[0] if raw else re.escape(token[0])
    if token["group"] or token["quantifier"] or token["name"]:
        return "".join(map(re.escape, token[0]))
    return _character(token)
