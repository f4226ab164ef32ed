"""Markdown's own links: files and headings, by the rules and by the command, and what a change breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.gates import by_command, in_core, page
from tests.support.repos import Repo

HEAD = "---\nsummary: A page\n---\n"
TREE: dict[str, str | bytes] = {
    "wiki/global/q.md": HEAD + "# One two\n\n## `Code` part\n",
    "wiki/global/sub/table.csv": "a,b\n",
    "docs/readme.md": "# Read\n",
    "docs/a picture.png": b"\x89PNG",
    "README.md": "x\n",
}
BROKEN, ANCHOR = ("broken-link", "error"), ("unknown-anchor", "warning")
LINKS = {
    "[x](q.md)": None,
    "[x](q)": None,
    "[x](./q.md#one-two)": None,
    "[x](q.md#code-part)": None,
    "[x](../../docs/readme.md#whatever)": None,
    "[x](/docs/readme.md)": None,
    "[x](/wiki/global/q.md)": None,
    "[x](../../docs/)": None,
    "[x](sub/)": None,
    "![x](<../../docs/a picture.png>)": None,
    "![x](../../docs/a%20picture.png)": None,
    "[x](#page)": None,
    "[x](#top)": None,
    "[x](https://example.invalid/z.md)": None,
    "[x](mailto:a@b.c)": None,
    "[x](//example.invalid/z.md)": None,
    "[x][r]\n\n[r]: q.md": None,
    "`[x](gone.md)`": None,
    "[x](gone.md)": BROKEN,
    "[x](gone)": BROKEN,
    "[x](Q.md)": BROKEN,
    "[x](gone.md#anchor)": BROKEN,
    "[x](q.md/)": BROKEN,
    "![x](gone.png)": BROKEN,
    "[x](/global/q.md)": BROKEN,
    "[x](../../../out.md)": BROKEN,
    "[x](gone/)": BROKEN,
    "[x][r]\n\n[r]: gone.md": BROKEN,
    "[r]\n\n[r]: <gone.md> 'title'": BROKEN,
    "![[gone]]": ("unknown-link", "error"),
    "![[q]] [[q#One two]]": None,
    "[x](q.md#one-too)": ANCHOR,
    "[x](#gone)": ANCHOR,
}


@pytest.mark.parametrize("text", LINKS)
def test_links(text: str) -> None:
    found = [(one["rule"], one["level"]) for one in in_core({**TREE, **page(f"# Page\n\n{text}\n", key="p")})]
    wanted = LINKS[text]
    assert found == ([] if wanted is None else [wanted])


def test_by_the_command_with_sites(tmp_path: Path) -> None:
    config = {
        "ktx-gates.yaml": "siteUrls:\n  https://wiki.example/: wiki/global\n  https://git.example/r/blob/main: ''\n"
    }
    good = (
        "<https://wiki.example/q> [x](https://wiki.example/q.md#one-two) [x](https://git.example/r/blob/main/README.md)"
    )
    bad = "<https://wiki.example/gone> [x](https://git.example/r/blob/main/gone.md) [x](https://wiki.example.net/gone)"
    body = f"{good}\n\n{bad}\n\n[x](q.md#one-tow)\n"
    found = by_command(tmp_path / "asked", {**TREE, **config, **page(body, key="p")})
    assert [(one["rule"], one["reference"], one["line"]) for one in found] == [
        ("broken-link", "https://wiki.example/gone", 6),
        ("broken-link", "https://git.example/r/blob/main/gone.md", 6),
        ("unknown-anchor", "q.md#one-tow", 8),
    ]
    assert [one["nearest"] for one in found if one["rule"] == "unknown-anchor"] == [["one-two"]]


@pytest.mark.parametrize(
    ("path", "new", "rule"),
    [
        ("wiki/global/q.md", None, "broken-link"),
        ("docs/readme.md", None, "broken-link"),
        ("wiki/global/q.md", HEAD + "# Three\n", "unknown-anchor"),
    ],
)
def test_a_change_that_breaks_a_link_elsewhere(tmp_path: Path, path: str, new: str | None, rule: str) -> None:
    """The page that links is not touched. With few pages, and with so many that their facts are kept."""
    for count in (0, 210):
        repo = Repo.init(tmp_path / f"r{count}")
        body = "[x](q.md#one-two) [y](../../docs/readme.md)\n"
        more = {f"wiki/global/m{n}.md": f"{HEAD}# M\n\n[m](m{n}.md#m) [q](q.md)\n" for n in range(count)}
        for name, data in {**TREE, **more, **page(body, key="p"), "docs/other.md": "x\n"}.items():
            repo.write(name, data)
        repo.commit("the files")
        assert call("gate-check", "--all", "--json", cwd=repo.path).document["findings"] == []
        if new is None:
            repo.git("rm", "-q", path)
        else:
            repo.write(path, new)
            repo.git("add", "-A")
        found = call("gate-check", "--json", cwd=repo.path).document["findings"]
        told = {one["path"] for one in found if one["rule"] == rule}
        assert "wiki/global/p.md" in told, found
        assert len(told) == (count + 1 if new is None and path.startswith("wiki") else 1)


def test_a_dangling_link_is_taken_out(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "r")
    body = "See [the `q` page](gone.md 'title'), ![a](gone.png) and [q](q.md).\n"
    for name, data in {**TREE, **page(body, key="p")}.items():
        repo.write(name, data)
    repo.commit("the files")
    ran = call("gate-check", "--all", "--prune", "--json", cwd=repo.path)
    assert ran.status == 0, ran.out
    assert (repo.path / "wiki/global/p.md").read_text() == HEAD + "See the `q` page, a and [q](q.md).\n"
    assert [(one["kind"], one["removedRef"]) for one in ran.document["pruned"]] == [
        ("link", "(gone.md)"),
        ("link", "(gone.png)"),
    ]
