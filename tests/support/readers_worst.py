"""The worst inputs under 1 MB that are known, for each reader of the gates."""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 999_000
PAGE = 262_000  # bytes of the largest page that is read
FRONT = "---\nsummary: a\n---\n`a.b`\n\n"
SOURCE = "name: a\ntable: b\ngrain: [c]\ncolumns: [{name: c, type: string}]\n"


def many(piece: str, size: int = SIZE) -> bytes:
    data = piece.encode()
    return data * (size // len(data))


YAML = {
    "items": "- a\n",
    "flow": "[",
    "maps": "{a: ",
    "comment": "# c\n",
    "scalar": "word ",
    "quote": '"a\\n',
    "tabs": "\t",
    "colons": ": ",
    "question": "? ",
    "anchors": "&a ",
    "block": "a: |\n  b\n",
    "tag": "!a ",
    "dash": "- ",
    "break": "\r\n",
    "docs": "---\n",
    "percent": "%a\n",
    "dates": "- 2024-01-01\n",
    "escape": '"\\x41',
    "nul": "\x00",
}
BODY = {
    "star": "* a\n+ b\n",
    "list": "- `a.b`\n",
    "nested": "- " * 95 + "a\n\n",
    "numbered": "1. " * 30 + "a\n",
    "quotes": "> - " * 40 + "a\n",
    "paragraphs": "a\n\n",
    "headings": "#\n",
    "marked": "# _a_ *b* `c` [d](e)\n",
    "starred": "# " + "*a_b" * 240 + "\n",
    "bracketed": "# " + "[a" * 480 + "\n",
    "table": "|`x.y`|b|\n",
    "columns": "a\n|-|\n\n",
    "rules": "a\n|-\n",
    "wide": ("a|" * 130 + "\n" + "-|" * 130 + "\n" + "a|\n" * 50 + "\n"),
    "cells": "|a" * 1000 + "\n" + "|-" * 1000 + "\n" + ("|a" * 1000 + "\n") * 20,
    "definitions": "[a]: /x\n",
    "indented": "[a]: /x\n    b\n",
    "open": "[a]:\n",
    "lazy": "> a\nb\n",
    "brackets": "[`a.b`",
    "wiki": "[[a",
    "links": "[a](b ",
    "images": "![a](",
    "spans": "`a.b` ",
    "comments": "<!-- a -->",
    "tags": "<a b='",
    "html": "<div>\n\n",
    "titles": "[a](b (x",
    "autolinks": "<ab:",
    "mails": "<a@b.",
    "parens": "[a]((((((((",
    "pages": "[[a]]`a`",
    "cdata": "<![CDATA[",
    "lines": "[a\n",
    "labels": "[a][",
    "escapes": "[\\",
    "pipes": "|`a\\|b`",
    "setext": "a\n-\n",
    "fences": "```\n```\n",
    "mix": "- a\n> b\n",
}
PYTHON = {
    "names": "a\n",
    "calls": "a(a)(a);",
    "commas": "1,",
    "handlers": "try:\n a\nexcept E:\n pass\n",
    "waivers": "try:a\nexcept:pass\n#gate-ok\n",
    "starred": "*a,=b;",
    "strings": "f'{a}';",
    "returns": "def f():\n return 1\n",
    "comments": "#gate-ok\n",
    "deep": "(",
    "minus": "-",
}
SQL = {
    "sum": "sum(c)",
    "parentheses": "(" * 40 + "c" + ")" * 40,
    "calls": "f(a.b, " * 39 + "c" + ")" * 39,
    "cases": "case when c then " * 40 + "c",
    "dots": "a" + ".b" * 200,
    "commas": "f(" + "1," * 2000 + "1)",
    "text": "f('" + "x" * 4000 + "')",
}


def worst() -> Iterator[tuple[str, str, bytes]]:
    """Name, reader and input of each."""
    for name, piece in YAML.items():
        yield f"yaml-{name}", "source", many(piece)
    yield (
        "yaml-bomb",
        "yaml",
        "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 20000)).encode(),
    )
    yield "yaml-keys", "yaml", b"".join(b"k%d: v\n" % n for n in range(49_000))
    for name, piece in BODY.items():
        yield f"page-{name}", "page", FRONT.encode() + many(piece, PAGE)
    for name, head in (
        ("keys", ""),
        ("nested-keys", "x-" + "k" * 400_000 + ":\n"),
        ("column-keys", SOURCE.partition("columns")[0] + "columns:\n- "),
    ):
        rows = "".join(f"{' ' if head.startswith('x-') else '  ' if head else ''}k{n}: v\n" for n in range(40_000))
        yield f"source-{name}", "source", (head + rows.lstrip() if head.endswith("- ") else head + rows).encode()
    yield "source-wrong", "source", (SOURCE + "measures:\n" + "  - {name: 1}\n" * 30_000).encode()
    yield "page-lazy-deep", "page", (FRONT + ">" * 190 + " a\n").encode() + many("a\n", PAGE - 300)
    yield "page-emoji", "page", (FRONT + "\U0001f600").encode() + many("[", PAGE // 2 - 9) + many("]", PAGE // 2 - 9)
    yield "page-spans-emoji", "page", (FRONT + "\U0001f600").encode() + many("`a.b` ", PAGE - 9)
    yield "page-front", "page", b"---\nrefs:\n" + many("- a\n", 250_000) + b"---\n"
    for name, piece in PYTHON.items():
        yield f"python-{name}", "python", many(piece)
        yield f"python-{name}-fewer", "python", many(piece, 149_000)
    yield "python-type", "python", b"try:\n a\nexcept a" + b".a" * 30_000 + b":\n pass\n"
    for name, piece in SQL.items():
        measures = (f'  - {{name: m{n}, expr: "{piece}"}}\n' for n in range(min(19_000, 950_000 // (len(piece) + 32))))
        yield f"sql-{name}", "source", (SOURCE + "measures:\n" + "".join(measures)).encode()
    yield from _together()
    yield from _lines()


def _together() -> Iterator[tuple[str, str, bytes]]:
    """What is judged against what else is there: names that nearly are others."""
    columns = "".join(f"  - {{name: col_{n}, type: string}}\n" for n in range(3_000))
    wrong = "".join(f"  - {{name: m{n}, expr: sum(colx_{n})}}\n" for n in range(1_000))
    yield "near-columns", "tree", f"name: b\ntable: t\ngrain: [c]\ncolumns:\n{columns}measures:\n{wrong}".encode()
    joins = "".join(f"  - {{to: taable_{n}, on: a.c = b.c, relationship: many_to_one}}\n" for n in range(5_000))
    tables = "".join(f"  table_{n}: {{table: t, columns: []}}\n" for n in range(9_000))
    yield "near-joins", "tree", f"{SOURCE}joins:\n{joins}".encode()
    yield "shard-tables", "shard", f"tables:\n{tables}".encode()
    yield "shard-tables-tree", "tree", f"tables:\n{tables}".encode()
    spans = "".join(f"`source:table_{n}` [[page_{n}]] " for n in range(6_000))
    yield "near-spans", "tree", (FRONT + spans).encode()
    row = b'{"artifactKind": "wiki", "artifactKey": "aa", "rawPath": "raw-sources/a/b/2024-01-01-x/c"}'
    yield "rows", "provenance", b"[" + b",\n".join([row] * 10_500) + b"]"


def _lines() -> Iterator[tuple[str, str, bytes]]:
    line = '{"path": "a/b", "message": "m", "line": 3}\n'
    yield "lines", "lines", many(line)
    yield "lines-none", "lines", many("x\n")
    yield "lines-deep", "lines", many("[")
    yield "message", "message", b";" + many("# a\n")
    yield "message-scissors", "message", b";" + many("# ------------------------ >8 ------------------------ \n")
    yield "pushes", "pushes", many(f"refs/heads/a {'1' * 40} refs/heads/a {'0' * 40}\n")
    yield "pushes-spaces", "pushes", many(" ")
    yield "comments", "comments", many("# ktx-gate: ignore=a,b,c\n")
    yield "comments-words", "comments", b"# ktx-gate: ignore=" + many("a,")
    yield "config", "config", b"gates:\n" + many("  - {gate: artifacts}\n")
    yield "config-comment", "config", many("# c\n")
    entry = '{"fingerprint": "' + "a" * 32 + '", "rule": "yaml-tag", "path": "a"},\n'
    head = b'{"schemaVersion": 1, "kind": "gate-baseline", "findings": [\n'
    yield "baseline", "baseline", head + many(entry)[:-2] + b"]}"
    yield "baseline-deep", "baseline", many("[")
    yield "schema", "schema", b'{"name": "a", "list": [' + many('{"name": "b"},\n')[:-2] + b"]}"
    yield "schema-wrong", "schema", b'{"name": "a", "list": [' + many("{},1,", 400_000)[:-1] + b"]}"
    yield "foreign", "foreign", b'{"allOf": [' + many('{"type": "object"},\n')[:-2] + b"]}"
