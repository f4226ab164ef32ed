"""Run by a test in a process of its own: the worst inputs there are under 1 MB, with what each reader takes for them.

Prints one JSON line for each: name, CPU seconds, and how many bytes the process has grown at its peak.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from ktxkit.core.gates import expressions, swallow
from ktxkit.flows import gate_facts

MEGABYTE = 1_000_000


def upto(piece: str, size: int = MEGABYTE) -> bytes:
    data = piece.encode()
    return data * (size // len(data))


def cases() -> list[tuple[str, str, bytes]]:
    bomb = "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 2000))
    front = "---\nsummary: a\n---\n"
    columns = "name: a\ntable: b\ngrain: [c]\ncolumns:\n"
    yaml = {
        "items": "- a\n", "keys": "k{}: v\n", "flow": "[", "maps": "{a: ", "comment": "# c\n", "scalar": "word ", "quote": '"a\\n',
        "tabs": "\t", "colons": ": ", "question": "? ", "anchors": "&a ", "block": "a: |\n  b\n", "bomb": bomb, "tag": "!a ",
        "columns": "  - {name: c, type: string}\n", "dash": "- ", "break": "\r\n", "docs": "---\n", "percent": "%a\n", "dates": "- 2024-01-01\n",
    }  # fmt: skip
    body = {
        "brackets": "[`a.b`", "wiki": "[[a", "links": "[a](b ", "images": "![a](", "ticks": "`a.b` ", "comments": "<!-- a ", "tags": "<a b='",
        "table": "|`x.y`|b|\n", "quote": "> ", "list": "- `a.b`\n", "nested": "- ", "refs": "[a]: /x\n", "html": "<div>\n", "lines": "`a.b`\n",
        "paras": "`a.b`\n\n", "autolink": "<http://", "rules": "---\n", "fences": "```\n", "star": "*a _b ", "entity": "&amp;", "close": "]" ,
    }  # fmt: skip
    found = [(f"yaml-{name}", "source", upto(piece)) for name, piece in yaml.items()]
    found += [("yaml-many-columns", "source", columns.encode() + upto("  - {name: c, type: string}\n", 900_000))]
    found += [
        (
            "shard-tables",
            "shard",
            b"tables:\n" + b"".join(b"  t%d: {table: t, columns: []}\n" % n for n in range(28_000)),
        )
    ]
    found += [(f"page-{name}", "page", front.encode() + upto(piece, 260_000)) for name, piece in body.items()]
    found += [
        ("page-front", "page", b"---\nrefs:\n" + upto("- a\n", 250_000) + b"---\n"),
        ("page-large", "page", upto("`a.b` ")),
    ]
    rows = b",".join([b'{"artifactKind": "wiki", "artifactKey": "a"}'] * 20_000)
    found += [("rows", "provenance", b"[" + rows + b"]")]
    found += [("python", "python", upto("try:\n  a()\nexcept E:\n  pass\n")), ("python-deep", "python", upto("("))]
    found += [("sql", "sql", upto("a + ", 4_000)), ("sql-large", "sql", upto("a + "))]
    return found


def main() -> None:
    for kind in ("page", "source", "shard", "provenance"):
        gate_facts.read(kind, b"a: b")  # what is imported and compiled once is not the input's
    expressions.read("sum(a)")
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, kind, data in cases():
        assert len(data) <= MEGABYTE, name
        before = time.process_time()
        if kind == "sql":
            expressions.read(data.decode())
        elif kind == "python":
            swallow.judge(data)
        else:
            gate_facts.read(kind, data)
        spent = time.process_time() - before
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) * 1024
        print(json.dumps({"name": name, "seconds": round(spent, 3), "bytes": grown}))


if __name__ == "__main__":
    sys.exit(main())
