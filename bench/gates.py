"""Rows of the gates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from harness import BIN, Row, Work, ours, run


def _peer(name: str) -> Path:
    """A peer that `make bench` installs beside our environment, or that is on PATH."""
    beside = BIN.parent / "peers/bin" / name
    found = beside if beside.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"the bench needs {name} as a peer: `make bench` installs it")
    return Path(found)


def knowledge(place: Path, pages: int, sources: int) -> Path:
    """A knowledge base in order: each page refers to eight sources and eight pages."""
    repo = place / "kb"
    (repo / "semantic-layer/wh").mkdir(parents=True)
    (repo / "wiki/global").mkdir(parents=True)
    for number in range(sources):
        (repo / f"semantic-layer/wh/s{number}.yaml").write_text(
            f"name: s{number}\ntable: wh.s{number}\ngrain: [id]\ncolumns:\n  - {{name: id, type: number}}\n"
            f"measures:\n  - {{name: total, expr: sum(id)}}\njoins:\n  - {{to: s{(number * 7 + 1) % sources}, "
            f"on: s{number}.id = s{(number * 7 + 1) % sources}.id, relationship: many_to_one}}\n"
        )
    for number in range(pages):
        said = [(number * 13 + step * 7) % sources for step in range(8)]
        body = "".join(
            f"`s{one}.total` says more than `s{one}.id`; see [[p{(number + one) % pages}]].\n\n" for one in said
        )
        (repo / f"wiki/global/p{number}.md").write_text(
            f"---\nsummary: page {number}\nsl_refs: [s{number % sources}]\n---\n\n{body}"
        )
    run("git", "init", "-q", "-b", "main", repo, cwd=place)
    run("git", "add", "-A", cwd=repo)
    run("git", "commit", "-q", "-m", "base", cwd=repo)
    return repo


def gates(pages: int, sources: int) -> Callable[[Path], tuple[Work, Work]]:
    """The same tree again, beside `git status` of it."""

    def make(place: Path) -> tuple[Work, Work]:
        repo = knowledge(place, pages, sources)
        run(ours("gate-check"), "--all", cwd=repo)
        return (
            lambda: run(ours("gate-check"), "--all", cwd=repo) and None,
            lambda: run("git", "status", "--porcelain", cwd=repo) and None,
        )

    return make


def warm_and_cold(place: Path) -> tuple[Work, Work]:
    """A large tree again, beside the same without its cache."""
    repo = knowledge(place, 10_000, 2_000)
    run(ours("gate-check"), "--all", cwd=repo)

    def cold() -> None:
        shutil.rmtree(repo / ".ktx/cache")
        run(ours("gate-check"), "--all", cwd=repo)

    return lambda: run(ours("gate-check"), "--all", cwd=repo) and None, cold


def one_page(place: Path) -> tuple[Work, Work]:
    """One changed page of a large tree, beside pre-commit with one hook that does nothing."""
    repo = knowledge(place, 10_000, 2_000)
    hook = {"id": "nothing", "name": "nothing", "entry": "true", "language": "system", "always_run": True}
    (repo / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [{"repo": "local", "hooks": [hook]}]}))
    run("git", "add", "-A", cwd=repo)
    run("git", "commit", "-q", "-m", "hooks", cwd=repo)
    run(ours("gate-check"), "--all", cwd=repo)
    page, count = repo / "wiki/global/p7.md", iter(range(1_000_000))

    def mine() -> None:
        page.write_text(f"---\nsummary: page {next(count)}\nsl_refs: [s7]\n---\n\nSee `s7.total`.\n")
        run("git", "add", page, cwd=repo)
        run(ours("gate-check"), "--index", cwd=repo)

    return mine, lambda: run(_peer("pre-commit"), "run", cwd=repo) and None


def schema_of_many(place: Path) -> tuple[Work, Work]:
    """2,000 YAML files before one schema, the first time."""
    repo = knowledge(place, 0, 2_000)
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    (repo / "source.schema.json").write_text(json.dumps(schema))
    gate = {"gate": "schema", "schema": "source.schema.json", "files": ["semantic-layer/"]}
    (repo / "ktx-gates.yaml").write_text(json.dumps({"gates": [gate]}))
    run("git", "add", "-A", cwd=repo)
    paths = [str(path) for path in sorted((repo / "semantic-layer/wh").iterdir())]
    return (
        lambda: run(ours("gate-check"), "--all", cwd=repo) and None,
        lambda: run(_peer("check-jsonschema"), "--schemafile", "source.schema.json", *paths, cwd=repo) and None,
    )


ROWS = [
    Row("gate-check --all again, 1,000 pages, 200 sources", "git status", 5.0, gates(1_000, 200)),
    Row("gate-check --all again, 10,000 pages, 2,000 sources", "git status", 5.0, gates(10_000, 2_000)),
    Row("gate-check --all again, 10,000 pages, 2,000 sources", "the same without its cache", 0.05, warm_and_cold),
    Row("gate-check of one changed page of 10,000", "pre-commit run, a hook that does nothing", 1.0, one_page),
    Row("gate-check by a schema, 2,000 YAML files", "check-jsonschema", 0.5, schema_of_many),
]
