"""Rows of the gates."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness import Row, Works, ours, peer, run, shared

PAGES, SOURCES = 10_000, 2_000


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


def kept(pages: int) -> Path:
    """A knowledge base that rows share, checked once: a fifth as many sources as pages."""

    def build(place: Path) -> None:
        repo = knowledge(place, pages, pages // 5)
        run(ours("gate-check"), "--all", cwd=repo)

    return shared(f"knowledge-{pages}", build) / "kb"


def again(_: Path, pages: int) -> Works:
    """The same tree again, beside `git status` of it."""
    repo = kept(pages)
    return (
        lambda: run(ours("gate-check"), "--all", cwd=repo),
        lambda: run("git", "status", "--porcelain", cwd=repo),
    )


def warm_and_cold(_: Path, pages: int) -> Works:
    """A large tree again, beside the same without its cache."""
    repo = kept(pages)

    def cold() -> None:
        shutil.rmtree(repo / ".ktx/cache")
        run(ours("gate-check"), "--all", cwd=repo)

    return lambda: run(ours("gate-check"), "--all", cwd=repo), cold


def one_page(_: Path, pages: int) -> Works:
    """One changed page of a large tree, beside pre-commit with one hook that does nothing."""
    repo, theirs = kept(pages), peer("pre-commit")
    hook = {"id": "nothing", "name": "nothing", "entry": "true", "language": "system", "always_run": True}
    (repo / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [{"repo": "local", "hooks": [hook]}]}))
    run("git", "add", "-A", cwd=repo)
    run("git", "commit", "-q", "-m", "hooks", cwd=repo)
    page, count = repo / "wiki/global/p7.md", iter(range(1_000_000))

    def change() -> None:
        page.write_text(f"---\nsummary: page {next(count)}\nsl_refs: [s7]\n---\n\nSee `s7.total`.\n")
        run("git", "add", page, cwd=repo)

    change()
    run(theirs, "run", cwd=repo)

    def mine() -> None:
        change()
        run(ours("gate-check"), "--index", cwd=repo)

    return mine, lambda: run(theirs, "run", cwd=repo)


def schema_of_many(place: Path, sources: int) -> Works:
    """YAML files before one schema, the first time. They are no artifacts: else their SQL is judged as well."""
    repo, theirs = knowledge(place, 0, sources), peer("check-jsonschema")
    (repo / "semantic-layer/wh").rename(repo / "declared")
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    (repo / "source.schema.json").write_text(json.dumps(schema))
    gate = {"gate": "schema", "schema": "source.schema.json", "files": ["declared/"]}
    (repo / "ktx-gates.yaml").write_text(json.dumps({"gates": [gate]}))
    run("git", "add", "-A", cwd=repo)
    paths = [str(path) for path in sorted((repo / "declared").iterdir())]
    return (
        lambda: run(ours("gate-check"), "--all", cwd=repo),
        lambda: run(theirs, "--schemafile", "source.schema.json", *paths, cwd=repo),
    )


SIZES = (100, 1_000)
ROWS = [
    Row("gate-check --all again, a fifth as many sources", PAGES, "pages", "git status", 5.0, again, growth=SIZES,
        seconds=150),
    Row("gate-check --all again", PAGES, "pages", "the same without its cache", 0.05, warm_and_cold, rounds=1),
    Row("gate-check of one changed page", PAGES, "pages", "pre-commit run, a hook that does nothing", 1.0, one_page,
        growth=SIZES),
    Row("gate-check by a schema", SOURCES, "YAML files", "check-jsonschema", 0.5, schema_of_many, rounds=3,
        fresh=True, growth=(20, 200)),
]  # fmt: skip
