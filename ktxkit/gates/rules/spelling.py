"""How names and references are spelt: one grammar for what is declared and for what refers to it.

A name is any text without a dot, slash, backtick or control character (the schemas say so) that a reader can see and
type: no invisible character, no blank but the plain one, none at its ends, composed (Unicode NFC), and no letter that
only looks like the Latin one beside it. What a code span says is looked at as a reader sees it, too: one that hides
such a character in what looks like a reference is told, and never taken for prose.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import LOOK_ALIKES

NAME = r"[\w$-]+"
CONNECTION = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
PLAIN = re.compile(rf"{NAME}\Z")
SIMPLE = re.compile(r"[\w$]+\Z")
EXPLICIT = re.compile(rf"(?:({CONNECTION})/)?(source|table)(\s*:\s*)(\S.*)\Z", re.DOTALL | re.IGNORECASE)
SLASHED = re.compile(rf"({CONNECTION})/({NAME}(?:\.{NAME})?)\Z")
END = " \t\r\n,;:/!?"  # what may stand behind a reference in its code span, and is not of it
# Unicode's Default_Ignorable_Code_Point beyond the category Cf: fillers, joiners and variation selectors.
_IGNORABLE = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0,
    *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9),
}  # fmt: skip
_PART = r"(?:[\w$]+|\"[^\"\n]{1,256}\"|`[^`\n]{1,256}`|\[[^\[\]\n]{1,256}\])"
_CHAIN = re.compile(rf"(?<![\w$.\"`])({_PART})((?:\.(?:{_PART}|\*))*)(\.?)")
_PIECE = re.compile(rf"{_PART}|\*")
_STATEMENT = re.compile(r"\b(?:from|join|into|update)\s", re.IGNORECASE)
_ALIAS = re.compile(r"\b(?:from|join|into|update)\s+[\w$.\"`\[\]]+\s+(?:as\s+)?([\w$]+)|\)\s+(?:as\s+)?([\w$]+)", re.I)


class Chain(NamedTuple):
    """Names with dots between them, as they stand in a text. `open`: a dot is last; `call`: a bracket follows."""

    parts: tuple[str, ...]
    start: int
    end: int
    open: bool = False
    call: bool = False


def is_hidden(char: str) -> bool:
    """Whether a character shows nothing wherever it stands."""
    if char.isascii():
        return False
    code = ord(char)
    return unicodedata.category(char) == "Cf" or code in _IGNORABLE or 0xE0000 <= code <= 0xE0FFF


def is_odd_blank(char: str) -> bool:
    """Whether a character looks like a blank and is another one (a no-break space, an ideographic space)."""
    return not char.isascii() and (unicodedata.category(char) in ("Zs", "Zl", "Zp") or char == "\u2800")


def looks_like(char: str) -> str:
    """The Latin letter that a letter of another script looks like; the character itself if it looks like none."""
    if char.isascii() or char in "\u00aa\u00ba":
        return char
    plain = unicodedata.normalize("NFKC", char).translate(LOOK_ALIKES)
    return plain if len(plain) == 1 and plain.isascii() and plain.isalpha() else char


@lru_cache(maxsize=1 << 14)
def visible(text: str) -> str:
    """The text without what shows nothing, and with plain blanks."""
    if text.isascii():
        return text
    return "".join(" " if is_odd_blank(char) else char for char in text if not is_hidden(char))


@lru_cache(maxsize=1 << 14)
def folded(text: str) -> str:
    """What the text looks like: `visible`, composed, letters that look like Latin ones as these."""
    if text.isascii():
        return text
    return "".join(map(looks_like, unicodedata.normalize("NFC", visible(text))))


def is_disguised(text: str) -> bool:
    """Whether a hidden character or an odd blank stands beside what can be part of a name."""
    for at, char in enumerate(text):
        if is_hidden(char) or is_odd_blank(char):
            around = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
            if any(other.isalnum() or other in "_$.:/" for other in around):
                return True
    return False


def is_single(text: str) -> bool:
    """Whether a text is one reference and nothing else."""
    bare = text.strip().rstrip(END)
    source, dot, entity = bare.partition(".")
    plain = bool(dot and PLAIN.match(source) and PLAIN.match(entity))
    return plain or bool(EXPLICIT.match(bare) or SLASHED.match(bare))


def begins(text: str, name: str) -> bool:
    """Whether a text begins with a name that ends there."""
    after = text[len(name) : len(name) + 1]
    return text.startswith(name) and not (after.isalnum() or after in ("_", "$"))


def behind(text: str, name: str) -> Iterator[str]:
    """What stands behind a name and a dot, at each place where the name begins."""
    at = text.find(f"{name}.")
    while at >= 0:
        before = text[at - 1 : at]
        if not (before.isalnum() or (before and before in "_$.-")):
            yield text[at + len(name) + 1 :]
        at = text.find(f"{name}.", at + 1)


def head(text: str) -> str:
    """The plain name that a text begins with; empty if none."""
    found = re.match(r"[\w$]+", text)
    return found[0] if found else ""


def oddities(text: str, skeleton: str) -> list[str]:
    """`U+200B ZERO WIDTH SPACE`: what makes a text another one than it looks, each once. `skeleton`: how it looks."""
    odd = [char for char in dict.fromkeys(text) if is_hidden(char) or is_odd_blank(char)]
    if not odd:
        odd = [char for char in dict.fromkeys(text) if looks_like(char) != char]
    if not odd and skeleton != text:
        return ["characters that are not composed (Unicode NFC)"]
    return [f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}" for char in odd]


def wrong_name(name: str) -> tuple[str, str]:
    """Why nobody can refer to a name by what he sees, and the level of that; empty where he can."""
    if name.isascii() and name == name.strip():
        return "", ""
    if name != name.strip():
        return "it begins or ends with a blank", "error"
    odd = oddities(name, name)
    if visible(name) != name:
        return f"it holds {odd[0]}", "error"
    if unicodedata.normalize("NFC", name) != name:
        return "it is not composed (Unicode NFC)", "error"
    if not odd:
        return "", ""
    latin = any(char.isascii() and char.isalpha() for char in name)
    whole = all(char.isascii() or looks_like(char) != char for char in name)
    if not latin and not whole:
        return "", ""  # a word of another script
    return f"it holds {odd[0]}, which looks like {looks_like(_first_alike(name))!r}", "error" if latin else "warning"


def _first_alike(name: str) -> str:
    return next(char for char in name if looks_like(char) != char)


def could_refer(text: str) -> bool:
    """Whether a code span is of a form that may refer to a source or table; which names there are decides."""
    seen = folded(text).strip()
    if "." in seen:
        return True
    bare = seen.rstrip(END)
    return bool(EXPLICIT.match(bare) or SLASHED.match(bare))


def chains(text: str) -> Iterator[Chain]:
    """The names with dots between them in an expression; of a path, a call, and a number too. Quotes are taken off."""
    for found in _CHAIN.finditer(text):
        if found[2] or found[3]:
            parts = (_bare(found[1]), *map(_bare, _PIECE.findall(found[2])))
            after = text[found.end() : found.end() + 1]
            yield Chain(parts, found.start(), found.end(), bool(found[3]), after == "(")


def _bare(part: str) -> str:
    return part[1:-1] if part[0] in '"`[' else part


def aliases(text: str) -> frozenset[str]:
    """The names that a SQL statement gives its tables."""
    if not _STATEMENT.search(text):
        return frozenset()
    return frozenset(name for found in _ALIAS.finditer(text) for name in found.groups() if name)


def words_of(text: str) -> frozenset[str]:
    """Every name that stands in a text of any form, as it is written and as it looks."""
    found: set[str] = set()
    for seen in {text, visible(text), folded(text)}:
        found.update(re.findall(NAME, seen), re.findall(r"[\w$]+", seen))
    return frozenset(found)
