"""gitignore(5) over a snapshot of the rules: the text that was read decides, not the files of today.

Sources: gitignore(5) and git's dir.c and wildmatch.c; the tests compare every verdict with `git check-ignore`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

_POSIX = {
    b"alnum": rb"a-zA-Z0-9", b"alpha": rb"a-zA-Z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e", b"space": rb"\s",
    b"punct": rb"!-/:-@\[-`{-~", b"upper": rb"A-Z", b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """One line. `base` is the directory of its file, `b""` or with a slash at its end."""

    base: bytes
    regex: re.Pattern[bytes]
    whole_path: bool  # matched against the path below `base`; otherwise against the last name
    directory_only: bool
    negated: bool

    def matches(self, path: bytes, *, is_dir: bool) -> bool:
        if (self.directory_only and not is_dir) or not path.startswith(self.base):
            return False
        name = path[len(self.base) :] if self.whole_path else path[path.rfind(b"/") + 1 :]
        return bool(self.regex.match(name))


@dataclass(frozen=True)
class IgnoreRules:
    """The text of ignore files, weakest first: (directory that the file lies in, content)."""

    sources: tuple[tuple[bytes, bytes], ...] = ()

    @cached_property
    def _patterns(self) -> tuple[Pattern, ...]:
        """Strongest first: deeper files before higher ones, later lines before earlier ones."""
        found: list[Pattern] = []
        for directory, text in sorted(self.sources, key=lambda source: source[0].count(b"/") + bool(source[0])):
            base = directory + b"/" if directory else b""
            lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
            found += [made for line in lines if (made := parse(line, base)) is not None]
        return tuple(reversed(found))

    def matches(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether a rule ignores this very path; its parents are not looked at."""
        for pattern in self._patterns:
            if pattern.matches(path, is_dir=is_dir):
                return not pattern.negated
        return False

    def ignored(self, path: bytes, *, is_dir: bool = False) -> bool:
        """Whether the path is ignored, by itself or below an ignored directory: nothing there is included again."""
        if not self._patterns:
            return False
        at = path.find(b"/")
        while at >= 0:
            if self.matches(path[:at], is_dir=True):
                return True
            at = path.find(b"/", at + 1)
        return self.matches(path, is_dir=is_dir)


def parse(line: bytes, base: bytes = b"") -> Pattern | None:
    """One line of an ignore file; None for a comment, a blank line or a pattern that can match nothing."""
    body = _without_trailing_spaces(line.removesuffix(b"\r"))
    if not body or body.startswith(b"#"):
        return None
    negated = body.startswith(b"!")
    if negated:
        body = body[1:]
    directory_only = body.endswith(b"/")
    if directory_only:
        body = body[:-1]
    whole_path = b"/" in body
    body = body.removeprefix(b"/")
    if not body:
        return None
    translated = _translate(body, crossing=whole_path)
    if translated is None:
        return None
    return Pattern(base, re.compile(translated, re.DOTALL), whole_path, directory_only, negated)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Trailing blanks go, unless a backslash quotes them."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        quotes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if quotes % 2:
            break
        end -= 1
    return line[:end]


def _translate(pattern: bytes, *, crossing: bool) -> bytes | None:
    """A wildmatch pattern as a regular expression for a whole name or path; None where it is malformed."""
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            piece, at = _stars(pattern, at, crossing=crossing)
        elif char == b"?":
            piece, at = b"[^/]", at + 1
        elif char == b"[":
            made = _bracket(pattern, at)
            if made is None:
                return None
            piece, at = made
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            piece, at = re.escape(pattern[at + 1 : at + 2]), at + 2
        else:
            piece, at = re.escape(char), at + 1
        out.append(piece)
    return b"".join(out) + rb"\Z"


def _stars(pattern: bytes, at: int, *, crossing: bool) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    # git compares what stands before the first special character by itself: after it, `**` counts as at the start.
    opens = pattern[at - 1 : at] == b"/" or not re.search(rb"[*?\[\\]", pattern[:at])
    closes = end == len(pattern) or pattern[end : end + 1] == b"/"
    if not crossing or end - at < 2 or not opens or not closes:
        return b"[^/]*", end
    if end == len(pattern):
        return b".+" if at else b".*", end
    return b"(?:.*/)?", end + 1


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """A character class; it never matches a slash. None where it does not end."""
    i = at + 1
    negated = pattern[i : i + 1] in (b"!", b"^")
    i += negated
    parts: list[bytes] = []
    first = True
    while first or pattern[i : i + 1] != b"]":
        first = False
        if i >= len(pattern):
            return None
        named = re.match(rb"\[:([a-z]+):\]", pattern[i:])
        if named:
            if named.group(1) not in _POSIX:
                return None
            parts.append(_POSIX[named.group(1)])
            i += named.end()
            continue
        low, i = _one(pattern, i)
        if pattern[i : i + 1] == b"-" and pattern[i + 1 : i + 2] not in (b"]", b""):
            high, i = _one(pattern, i + 1)
            if high and low <= high:
                parts.append(_quoted(low) + b"-" + _quoted(high))
            continue
        parts.append(_quoted(low))
    inner = b"".join(parts)
    if not inner:
        return (b"[^/]" if negated else b"(?!)"), i + 1
    return b"(?!/)[" + (b"^" if negated else b"") + inner + b"]", i + 1


def _one(pattern: bytes, i: int) -> tuple[bytes, int]:
    if pattern[i : i + 1] == b"\\":
        return pattern[i + 1 : i + 2], i + 2
    return pattern[i : i + 1], i + 1


def _quoted(char: bytes) -> bytes:
    return b"\\x%02x" % char[0] if char else b""


def rules_of(files: Iterable[tuple[bytes, bytes]], exclude: bytes = b"") -> IgnoreRules:
    """Rules from `.gitignore` files (path, content) and the repository's `info/exclude`, which is the weakest."""
    found = [(path.rpartition(b"/")[0], text) for path, text in sorted(files)]
    return IgnoreRules(((b"", exclude), *found) if exclude else tuple(found))
