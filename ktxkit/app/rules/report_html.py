"""One self-contained page: style, script and data in one file, nothing fetched, nothing run but our own script.

The data is JSON in the page, escaped so that no content can end its element; the script puts it into the document as
text, never as markup; a content security policy allows exactly the two hashes of our style and script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from typing import Any


def page(template: str, style: str, script: str, title: str, data: Mapping[str, Any]) -> bytes:
    """The page as UTF-8. `template` has one `{{name}}` for each of title, style, script, their hashes, and data."""
    parts = {
        "title": html.escape(_whole(title)),
        "style": style,
        "script": script,
        "style-hash": digest(style),
        "script-hash": digest(script),
        "data": embedded(data),
    }
    made, rest = "", template
    while "{{" in rest:
        before, _, after = rest.partition("{{")
        name, _, rest = after.partition("}}")
        made += before + parts[name]
    return (made + rest).encode("utf-8")


def digest(text: str) -> str:
    """The source expression of a content security policy for this inline text (CSP level 3, hash-source)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element: no `<`, so neither `</script` nor `<!--`; lone surrogates replaced."""
    return _whole(json.dumps(data, separators=(",", ":"), ensure_ascii=False)).replace("<", "\\u003c")


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def head(text: str, limit: int) -> tuple[str, bool]:
    """The beginning of a text up to a line's end within `limit` characters, and whether it was cut."""
    if len(text) <= limit:
        return text, False
    return text[: text.rfind("\n", 0, limit) + 1 or limit], True


def tail(text: str, limit: int) -> tuple[str, bool]:
    """The end of a text from a line's beginning within `limit` characters, and whether it was cut."""
    if len(text) <= limit:
        return text, False
    begin = text.find("\n", len(text) - limit) + 1
    return text[begin or len(text) - limit :], True
