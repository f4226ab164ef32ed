"""Foreign text on its way into the ledger: strict UTF-8, at most a 2 KB head in the event, the whole beside it.

A thousand failures of one import have nearly the same traceback, but not quite: the values of arguments stand inside.
So a long text is cut where pytest cuts its frames, and each frame's source, its arguments and its error lines are
bodies of their own; equal bodies are kept once (measured on 1,500 failures of 11.5 kB: 5.8 MB whole, 0.2 MB by frame).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from ktxkit.base.rules.digests import digest

HEAD = 2048  # bytes of a text that stay in the event
INLINE = 200  # bytes; a shorter body is written out where it stands, a file for it would cost more
PARTS_SHOWN = 48  # parts of a text listed in its event; a longer list is a body itself
VALUE_SHOWN = 500  # characters of a recorded property

_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATOR = re.compile(r"(?:_ ){5,}_?\s*$|_{10,} .* _{10,}\s*$")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")

Keep = Callable[[bytes], str]
Load = Callable[[str], bytes]


def clean(text: str) -> tuple[str, bool]:
    r"""Text that strict readers take, and whether it was escaped: a lone surrogate as `\udXXX`, a backslash doubled."""
    if text.isascii() or not _SURROGATE.search(text):
        return text, False
    doubled = text.replace("\\", "\\\\")
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", doubled), True


def restore_escaped(text: str) -> str:
    """What `clean` was given, where it said that it escaped."""
    return _ESCAPE.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


def head(text: str, limit: int = HEAD) -> str:
    """The first `limit` bytes of the UTF-8, cut between characters. `text` is clean."""
    data = text.encode("utf-8")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def describe(text: str, keep: Keep) -> dict[str, Any]:
    """A text as an event carries it; `keep` stores a body and returns its digest."""
    plain, escaped = clean(text)
    data = plain.encode("utf-8")
    made: dict[str, Any] = {"head": head(plain), "bytes": len(data)}
    if escaped:
        made["escaped"] = True
    if len(data) <= HEAD:
        return made
    made["digest"] = digest(data)
    parts = [_part(part, keep) for part in bodies(plain)]
    if len(parts) <= PARTS_SHOWN:
        made["parts"] = parts
    else:
        made["manifest"] = keep(json.dumps(parts, ensure_ascii=True).encode("ascii"))
    return made


def _part(text: str, keep: Keep) -> dict[str, str]:
    data = text.encode("utf-8")
    return {"text": text} if len(data) < INLINE else {"ref": keep(data)}


def restore(described: dict[str, Any], load: Load) -> str:
    """The whole text again, byte for byte. Raises ValueError where the bodies do not make up the digest."""
    if "digest" not in described:
        whole = str(described["head"])
    else:
        parts = described["parts"] if "parts" in described else json.loads(load(described["manifest"]))
        data = b"".join(part["text"].encode("utf-8") if "text" in part else load(part["ref"]) for part in parts)
        if digest(data) != described["digest"]:
            raise ValueError("the kept bodies do not make up the text that was recorded")
        whole = data.decode("utf-8")
    return restore_escaped(whole) if described.get("escaped") else whole


def bodies(text: str) -> list[str]:
    """The text in consecutive pieces: separators, arguments, source and error lines of each frame apart."""
    found: list[str] = []
    kinds: list[str] = []
    at_top = True
    for line in text.splitlines(keepends=True):
        kind, at_top = _kind(line, at_top)
        if found and kinds[-1] == kind:
            found[-1] += line
        else:
            found.append(line)
            kinds.append(kind)
    return found


def _kind(line: str, at_top: bool) -> tuple[str, bool]:
    """What a line belongs to, and whether the next one may still be an argument (they stand at the top of a frame)."""
    if _SEPARATOR.match(line):
        return "separator", True
    if line.startswith(("E  ", "E\n")):
        return "error", False
    if at_top and " = " in line and line[0] not in " \t>":
        return "arguments", True
    return "source", at_top and not line.strip()


def value(encoded: Any) -> Any:
    """A recorded property as JSON: what JSON has stays; other numbers and objects become their text with a type tag."""
    if encoded is None or isinstance(encoded, bool):
        return encoded
    if isinstance(encoded, int):
        return encoded if abs(encoded) < 2**63 else {"type": "int", "text": str(encoded)[:VALUE_SHOWN]}
    if isinstance(encoded, float):
        return encoded if math.isfinite(encoded) else {"type": "float", "text": repr(encoded)}
    if isinstance(encoded, str):
        return clean(encoded)[0][:VALUE_SHOWN]
    return {"type": type(encoded).__name__[:100], "text": clean(_repr(encoded))[0][:VALUE_SHOWN]}


def _repr(found: Any) -> str:
    try:
        return repr(found)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may do anything; that it failed is what is recorded
        return f"<repr failed: {type(error).__name__}>"
