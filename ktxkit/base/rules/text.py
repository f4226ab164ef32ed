"""Bytes and text for people: paths are bytes from end to end and are made readable only here.

How a JSON document is laid out: indented for people; of a long array each item is one line.

What indents is written in Python and takes its time for thousands of items; one line is written in C.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, overload

if TYPE_CHECKING:
    from ktxkit.base.documents import LeftOutPaths, PathAccount, PathEntry

    class AdminDirFields(TypedDict):
        adminDir: str
        adminDirB64: NotRequired[str]

    class CheckoutFields(TypedDict):
        checkout: str
        checkoutB64: NotRequired[str]

    class NewPathFields(TypedDict):
        newPath: str
        newPathB64: NotRequired[str]

    class OtherFields(TypedDict):
        other: str
        otherB64: NotRequired[str]


_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def printable(value: str | bytes) -> str:
    """One line without control characters: what a terminal may be shown of a foreign name. Not reversible for str."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    # What Python calls printable has none of the characters that are escaped below.
    return text if text.isprintable() else "".join(_readable(char) for char in text)


def _readable(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char in "\n\r\t":
        return _NAMED[char]
    # C0, DEL, C1, line separators, bidirectional overrides, zero-width and byte-order marks, lone surrogates.
    if code < 32 or 127 <= code < 160 or code in (0x2028, 0x2029, 0xFEFF) or 0x200B <= code <= 0x200F:
        return f"\\u{code:04x}"
    if 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return char


@overload
def path_fields(path: bytes) -> PathEntry: ...
@overload
def path_fields(path: bytes, key: Literal["adminDir"]) -> AdminDirFields: ...
@overload
def path_fields(path: bytes, key: Literal["checkout"]) -> CheckoutFields: ...
@overload
def path_fields(path: bytes, key: Literal["newPath"]) -> NewPathFields: ...
@overload
def path_fields(path: bytes, key: Literal["other"]) -> OtherFields: ...
def path_fields(path: bytes, key: str = "path") -> Any:
    """A path for a JSON document: `path` is readable; `pathB64` is there only where the bytes are not plain UTF-8.

    A reader that must have the exact bytes uses `path_bytes`. Where `pathB64` is absent, `path` is exact.
    """
    encoded = path_b64(path)
    return {key: path_text(path), f"{key}B64": encoded} if encoded else {key: path_text(path)}


def path_text(path: bytes) -> str:
    """A path as a document shows it: exact where it is UTF-8, else readable."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return printable(path)


def path_b64(path: bytes) -> str:
    """The bytes of a path that is not UTF-8, in base64; empty for one that is."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        import base64

        return base64.b64encode(path).decode("ascii")
    return ""


def path_bytes(document: Mapping[str, Any], key: str = "path") -> bytes:
    """The exact bytes of a path that `path_fields` wrote. Raises ValueError where the base64 is damaged."""
    encoded = document.get(f"{key}B64")
    if encoded is not None:
        import base64

        return base64.b64decode(encoded, validate=True)
    return str(document[key]).encode("utf-8")


def plural(count: int, word: str, many: str = "") -> str:
    """`1 page`, `2 pages`."""
    return f"{count} {word if count == 1 else (many or word + 's')}"


def counted(account: PathAccount | LeftOutPaths, noun: str) -> str:
    """`3 files (a, b, c)`: how many, and the first names."""
    names = ", ".join(printable(item["path"]) for item in account["sample"][:5])
    return f"{plural(account['count'], noun)} ({names}{', ...' if account['count'] > 5 else ''})"


def nearest(word: str, known: Iterable[str], limit: int = 3, cutoff: float = 0.6) -> list[str]:
    """The known names nearest to a misspelt one, best first; case makes no difference. `cutoff`: how alike, 0 to 1."""
    from difflib import get_close_matches

    by_fold: dict[str, list[str]] = {}
    for name in known:
        by_fold.setdefault(name.casefold(), []).append(name)
    near = get_close_matches(word.casefold(), list(by_fold), n=limit, cutoff=cutoff)
    return [name for fold in near for name in by_fold[fold]][:limit]


# Letters of other scripts that look like Latin ones (Unicode's confusables, those of one letter).
LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u03bf\u03b1\u0261\u0251\u0131\u217c\u0410\u0412\u0415\u041a"
    "\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxsijhdqwoagailABEKMHOPCTYXSIABEZHIKMNOPTYX",
)


def truncated(text: str, limit: int) -> str:
    """The text, or its head with a note of how many characters were cut."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} characters more)"


def stands(name: str, oid: str | None) -> str:
    """Where a ref is: at an id, or nowhere."""
    return f"{name} is gone" if oid is None else f"{name} is at {oid}"


LONG = 1000  # items of an array from which on each is one line
# Of their own: the recorder works in processes whose tests replace `json.dumps`.
INDENTED = json.JSONEncoder(indent=2, ensure_ascii=True, allow_nan=False)
COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def is_long(value: Any) -> bool:
    """Whether an object holds a long array, itself or in an object of it."""
    if isinstance(value, Mapping):
        return any((isinstance(one, list) and len(one) > LONG) or is_long(one) for one in value.values())
    return False


def indented(value: Any, margin: str = "") -> str:
    """ASCII JSON, indented by two; `margin` is what its lines but the first begin with. Raises ValueError for NaN."""
    inner = margin + "  "
    if isinstance(value, list) and len(value) > LONG:
        return f"[\n{inner}" + f",\n{inner}".join(map(COMPACT.encode, value)) + f"\n{margin}]"
    if is_long(value):
        shown = (f"{inner}{COMPACT.encode(key)}: {indented(one, inner)}" for key, one in value.items())
        return "{\n" + ",\n".join(shown) + f"\n{margin}}}"
    text = INDENTED.encode(value)
    return text.replace("\n", "\n" + margin) if margin else text
