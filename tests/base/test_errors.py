"""Errors read well: what, where, next step. `docs/errors.md` is the list to review; this makes it anew."""

from __future__ import annotations

import re

from ktxkit.app.git_ktx.help import _pages
from ktxkit.base import contracts
from tests.support.errors import ROOT, page, texts

NAMES = re.compile(r"(HEAD|JSON|UTF-8|YAML|KTX_|GIT_|Metabase|SQL)")
FILLED = re.compile(r"<[^>]*>")


def test_the_list_is_made_anew() -> None:
    place = ROOT / "docs" / "errors.md"
    made = page()
    if not place.exists() or place.read_text("utf-8") != made:
        place.write_text(made, "utf-8")
    assert made.count("\n| ") > 100 and "&lt;" in made


def test_each_is_a_sentence_of_what_is_wrong() -> None:
    wrong = []
    for text in texts():
        words = FILLED.sub("it", text.message)
        place = f"{text.file}:{text.line}: {text.message!r}"
        if text.message[:1].isupper() and not NAMES.match(text.message):
            wrong.append(f"{place} begins with a capital")
        if words.endswith((".", "!")):
            wrong.append(f"{place} ends with a full stop")
        if re.match(r"(error|failed|failure|oops|sorry)\b", words, re.IGNORECASE):
            wrong.append(f"{place} does not say what is wrong")
        if text.hint.endswith(".") or "please" in f"{words} {text.hint}".lower():
            wrong.append(f"{place}: {text.hint!r}")
    assert not wrong, "\n".join(wrong)


def test_who_is_stopped_is_told_what_to_do() -> None:
    """A blocked state always has a next step; of the others all but those that pass on what another says."""
    found = texts()
    silent = [text for text in found if not text.hint and text.status == 4]
    assert not silent, silent
    told = [text for text in found if text.hint]
    assert len(told) >= 0.98 * len(found), [f"{t.file}:{t.line}: {t.message}" for t in found if not t.hint]


def test_a_hint_names_what_is_installed() -> None:
    """Whoever installed ktxkit has no docs/: a hint names a page that `git ktx help` shows."""
    hints = [text.hint for text in texts() if text.hint]
    assert [hint for hint in hints if "docs/" in hint] == []
    named = {name for hint in hints for name in re.findall(r"git ktx help ([a-z][\w-]*)", hint)}
    assert "gates-config" in named and named <= {"pages", *_pages(), *contracts.names()}
