"""The site builds, with every link inside it checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base import contracts
from tests.support.install import ROOT, checked, export, once

MKDOCS = Path(sys.executable).parent / "mkdocs"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy of the tracked files."""

    def make(place: Path) -> None:
        source = export(place / "source")
        env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        checked(MKDOCS, "build", "--strict", "--quiet", "--site-dir", place / "built", cwd=source, env=env)

    return once(tmp_path_factory, "site", make) / "built"


def test_every_page_is_built(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert not [str(page) for page in pages if not (site / page).is_file()]


def test_every_schema_has_a_page_that_names_its_keys(site: Path) -> None:
    for name in contracts.names():
        text = (site / "formats" / "schemas" / f"{name}.html").read_text("utf-8")
        for key in contracts.schema(name).get("properties", {}):
            assert f"<code>{key}</code>" in text, (name, key)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in ("index.html", "tutorial.html"):
        text = (site / page).read_text("utf-8")
        assert 'src="http' not in text and "fonts.googleapis" not in text, page


@pytest.mark.parametrize("page", ["index.html", "commands/job-run.html"])
def test_search_works_from_files(chromium: Any, site: Path, page: str) -> None:
    """A browser starts no worker from a file, and fetches no index: the site was dumb there."""
    drawn = chromium.new_page(viewport={"width": 1280, "height": 800})
    drawn.on("pageerror", lambda error: pytest.fail(str(error)))
    drawn.goto((site / page).as_uri())
    drawn.locator(".md-search__input").click()
    drawn.keyboard.type("codemods")
    found = drawn.locator(".md-search-result__item a").first
    found.wait_for(timeout=20_000)
    assert ".html" in found.get_attribute("href")
    drawn.close()
