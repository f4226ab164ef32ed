"""The site is looked at in a browser, too."""

from __future__ import annotations

from tests.app.conftest import chromium

__all__ = ["chromium"]
