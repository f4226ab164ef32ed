"""A page as a picture: picture.py PAGE PNG. Debian's Chromium draws it, in light colours, as on a small laptop."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

WIDTH, HEIGHT = 1120, 860  # pixels


def main(page: str, picture: str) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("picture: chromium is not installed; `make system` as root installs it")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        drawn = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        drawn.goto(Path(page).resolve().as_uri())
        drawn.wait_for_function("document.documentElement.dataset.ready")
        drawn.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
