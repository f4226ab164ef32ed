"""A second opinion on code spans: markdown-it-py's own inline parser, with the same blocks and the same fixes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ktxkit.gates.rules.markdown import NESTING_LIMIT, as_github


@cache
def parser() -> Any:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"maxNesting": NESTING_LIMIT}).enable("table")
    as_github(made)
    setattr(made, "validateLink", lambda url: True)  # noqa: B010 - every destination is a link to CommonMark
    return made


def codes(text: str) -> list[str]:
    """The code spans of a body."""
    env: dict[str, Any] = {}
    tokens = parser().parse(text.replace("\r\n", "\n").replace("\r", "\n"), env)
    for token in tokens:
        if token.type == "inline" and "\n" in token.content:  # a paragraph has none of the blanks its lines begin with
            token.content = re.sub(r"\n[ \t]+", "\n", token.content)
            token.children = parser().parseInline(token.content, env)[0].children
    children = [child for token in tokens if token.type == "inline" for child in token.children or ()]
    return [child.content for child in children if child.type == "code_inline"]
