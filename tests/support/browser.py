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


# What is wider than its place and shows no scroll bar, and texts that lie on each other. `.reason` ends in dots.
WRONG = """() => {
  const box = (e) => e.getBoundingClientRect();
  const seen = (e) => box(e).width > 1 && box(e).height > 1 && e.checkVisibility({ checkVisibilityCSS: true });
  const name = (e) => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.slice(0, 40)}`;
  const aside = (e) => e.closest('.visually-hidden, .skip, pre, svg, .track') || e.matches('.reason');
  const all = [...document.querySelectorAll('body *')].filter((e) => seen(e) && !aside(e));
  const cut = all.filter((e) => getComputedStyle(e).overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1);
  const wide = all.filter((e) => !e.closest('.table-wrap, .scroll') && box(e).right > innerWidth + 1);
  const texts = all.filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return [e, [...range.getClientRects()]];
  });
  const meet = (l, r) => Math.min(l.right, r.right) - Math.max(l.left, r.left) > 1
    && Math.min(l.bottom, r.bottom) - Math.max(l.top, r.top) > 3;
  const over = [];
  for (const [i, [a, x]] of texts.entries()) {
    for (const [b, y] of texts.slice(i + 1)) {
      if (a.contains(b) || b.contains(a)) continue;
      if (x.some((l) => y.some((r) => meet(l, r)))) over.push(`${name(a)} lies on ${name(b)}`);
    }
  }
  return [...cut.map((e) => `cut: ${name(e)}`), ...wide.map((e) => `too wide: ${name(e)}`), ...over];
}"""


def looks_right(page: Any, picture: Path) -> list[str]:
    """What is cut, too wide or lies on something else, and what axe finds. The picture is of what was looked at."""
    drawn = page.screenshot(path=str(picture), animations="disabled")  # no colour half way between two
    assert drawn.startswith(b"\x89PNG") and len(drawn) > 10_000, "there is something to see"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling"
    return [*page.evaluate(WRONG), *violations(page)]
