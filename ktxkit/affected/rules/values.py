"""Mutants of data: one value of a file that tests may read made another, its form kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

from ktxkit.affected.rules.mutants import SUFFIX, Mutant, parses

_JSON = re.compile(r'"(?:\\.|[^"\\\n])*"(?P<key>\s*:)?|(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])|\b(?:true|false)\b')
_LINE = re.compile(  # `key: value`, `key = value`, `- value`
    r"""^[ \t]*(?:-[ ]|["']?[\w.][\w. "'-]*?[ \t]*[:=][ \t]*)"""
    r"""(?P<value>"[^"\n]*"|'[^'\n]*'|-?\d+(?:\.\d+)?|[A-Za-z_/][^#\n:"'{}\[\]]*?)[ \t]*(?:\#.*)?$""",
    re.MULTILINE,
)
_CELL = re.compile(r'(?:^|(?<=[,;\t]))(?P<value>[^,;\t"\r\n]+)', re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
FORMS = {
    ".json": _JSON, ".yaml": _LINE, ".yml": _LINE, ".toml": _LINE, ".ini": _LINE, ".cfg": _LINE, ".csv": _CELL,
    ".tsv": _CELL,
}  # fmt: skip
HEADED = (".csv", ".tsv")  # the first line names columns


def is_data(path: str) -> bool:
    """Whether values of a file can be told from what is around them, by its name."""
    return _suffix(path) in FORMS


def values(path: str, data: bytes) -> list[Mutant]:
    """One mutant for each value of a data file; none where it is not UTF-8. A few may break its form."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return []
    form = FORMS.get(_suffix(path))
    return list(_each(path, text, form)) if form is not None else []


def valid(path: str, data: bytes) -> bool:
    """Whether a mutated file still is what its name says."""
    try:
        if path.endswith(".json"):
            json.loads(data)
        elif path.endswith(".toml"):
            tomllib.loads(data.decode("utf-8"))
        return is_data(path) or parses(data)
    except ValueError:
        return False


def _each(path: str, text: str, form: re.Pattern[str]) -> Iterator[Mutant]:
    for found in form.finditer(text):
        group = "value" if "value" in form.groupindex else 0
        line = text.count("\n", 0, found.start(group)) + 1
        if (line == 1 and path.endswith(HEADED)) or found.groupdict().get("key"):
            continue
        start, end = (len(text[: found.span(group)[at]].encode("utf-8")) for at in (0, 1))
        yield Mutant(path, "", "value", line, start, end, _other(found[group]))


def _other(value: str) -> str:
    if value.lower() in ("true", "false"):
        other = "false" if value.lower() == "true" else "true"
        return other.capitalize() if value[0].isupper() else other
    if _NUMBER.match(value):
        return str(float(value) + 1) if "." in value else str(int(value) + 1)
    quote = value[-1:] if value[-1:] in "\"'" else ""
    return value.removesuffix(quote) + SUFFIX + quote


def _suffix(path: str) -> str:
    last = path.rpartition("/")[2]
    return f".{last.rpartition('.')[2].lower()}" if "." in last else ""
