"""A real headless Chromium (Debian's) and axe-core (from npm), installed by `make system`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
AXE = ROOT / ".venv" / "node" / "node_modules" / "axe-core" / "axe.min.js"


def need(what: Path | str | None, name: str) -> str:
    """The thing, or a skip with its reason; where CI=true its absence is a failure."""
    if what is not None and Path(what).exists():
        return str(what)
    reason = f"{name} is not installed; `make system` as root installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium that reaches nothing but files."""
    from playwright.sync_api import sync_playwright

    chromium = need(shutil.which("chromium"), "Debian's chromium")
    with sync_playwright() as driver:
        flags = ["--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"]
        opened = driver.chromium.launch(executable_path=chromium, args=flags)
        try:
            yield opened
        finally:
            opened.close()


def violations(page: Any) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA, one line each."""
    axe = Path(need(AXE, "axe-core")).read_text("utf-8")
    page.evaluate(axe)  # not an inline script: the page's own policy forbids those
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", tags)
    return [f"{v['id']}: {n['target']} {n['failureSummary']}" for v in found["violations"] for n in v["nodes"]]
