"""Judge files in memory, or the same files committed and judged by the command."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktxkit.gates import facts as gate_facts
from ktxkit.gates.judging import options_of
from ktxkit.gates.rules.artifacts import TreeFindings, judge
from ktxkit.gates.rules.findings import document
from ktxkit.gates.rules.groups import Group, Grouped, marks_of, texts_of
from ktxkit.gates.rules.model import GateOptions
from tests.support.commands import call
from tests.support.repos import Repo

RAW = "raw-sources/a/b/2024-01-01-x/c"
Files = Mapping[str, str | bytes]


def as_bytes(files: Files) -> dict[bytes, bytes]:
    return {path.encode(): text.encode() if isinstance(text, str) else text for path, text in files.items()}


def judged(files: Files, **options: Any) -> TreeFindings:
    """The judgement of a tree with these files, without a repository."""
    blobs = as_bytes(files)
    how: GateOptions = options_of(options)
    return judge(facts_in(blobs, how.root), frozenset(blobs), how)


_read: dict[str, Any] = {}


def facts_in(blobs: Mapping[bytes, bytes], root: bytes) -> dict[bytes, Any]:
    """The facts of files; what was read once is kept for the process, by its content."""
    by_oid = {hashlib.sha1(data).hexdigest(): data for data in blobs.values()}
    entries = [("100644", path, hashlib.sha1(data).hexdigest()) for path, data in sorted(blobs.items())]
    return gate_facts.of_tree(entries, root, by_oid.__getitem__, _read)


def in_core(files: Files, **options: Any) -> list[dict[str, Any]]:
    """The findings as documents, by the core alone."""
    return [document(one) for one in judged(files, **options).findings]


def by_command(path: Path, files: Files, *args: str) -> list[dict[str, Any]]:
    """The findings as documents, by `gate-check --all --json` on the files committed."""
    repo = Repo.init(path)
    for name, data in as_bytes(files).items():
        repo.write(name, data)
    repo.commit("the files")
    ran = call("gate-check", "--all", "--json", *args, cwd=path)
    assert ran.status in (0, 1), ran.out + ran.err
    found: list[dict[str, Any]] = ran.document["findings"]
    return found


def source(name: str = "mart", connection: str = "wh", **parts: str) -> dict[str, str]:
    """A small standalone source as a file."""
    columns = parts.get("columns", "id")
    measures = parts.get("measures", "")
    lines = [f"name: {name}", f"table: {parts.get('table', f'raw.{name}')}", "grain: [id]", "columns:"]
    lines += [f"  - {{name: {column}, type: string}}" for column in columns.split()]
    if measures:
        lines += ["measures:", *(f"  - {{name: {measure}, expr: count(id)}}" for measure in measures.split())]
    if parts.get("joins"):
        lines += ["joins:"]
        lines += [
            f"  - {{to: {to}, on: {name}.id = {to}.id, relationship: many_to_one}}" for to in parts["joins"].split()
        ]
    return {f"semantic-layer/{connection}/{name}.yaml": "\n".join(lines) + "\n" + parts.get("more", "")}


def page(body: str = "", front: str = "", key: str = "page") -> dict[str, str]:
    """A page as a file."""
    return {f"wiki/global/{key}.md": f"---\nsummary: A page\n{front}---\n{body}"}


def some_files(chance: random.Random, count: int = 40) -> dict[str, str]:
    """Sources and pages; some of them wrong."""
    made: dict[str, str] = {}
    names = [f"s{n}" for n in range(8)]
    for name in names:
        made |= source(name, measures="m total", joins=chance.choice([*names, "gone"]) if chance.random() < 0.5 else "")
    for n in range(count):
        parts = [f"`{chance.choice(names)}.{chance.choice(['m', 'total', 'id', 'id', 'm'])}`" for _ in range(4)]
        odd = [
            "`s1.former`",
            "[[nowhere]]",
            "`source:gone`",
            "<!-- ktx-gate: ignore=stale-entity -->",
            "`table:raw.s2`",
        ]
        odd += [
            f"<!-- from: {RAW} -->",
            "`raw.s1`",
            "`word`",
            f"[[p{n}]]",
            f"[[p{(n * 3) % count}#part]]",
            "`s3.nearly`",
        ]
        parts += chance.sample(odd, 1 if chance.random() < 0.2 else 0)
        folder = "user/anna" if chance.random() < 0.05 else "global"
        front = (
            "" if chance.random() < 0.03 else f"---\nsummary: a\nsl_refs: [{chance.choice(names)}]\nrefs: [p1]\n---\n"
        )
        made[f"wiki/{folder}/p{n}.md"] = front + "\n\n".join(parts) + "\n"
    return made


def in_groups(facts: dict[bytes, Any], size: int) -> Grouped:
    """The same facts in groups."""
    pages = [path for path, one in facts.items() if one["kind"] == "page"]
    parts = [pages[n : n + size] for n in range(0, len(pages), size)]
    parts.append([path for path in facts if path not in pages])
    return Grouped([_group({path: facts[path] for path in part}) for part in parts])


def _group(part: dict[bytes, Any]) -> Group:
    return Group(list(part), texts_of(part, b""), marks_of(part), lambda: list(part.values()))
