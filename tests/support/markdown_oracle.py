"""A second opinion on code spans: markdown-it-py's own inline parser, with the same blocks and the same three fixes."""

from __future__ import annotations

from functools import cache
from typing import Any

from ktxkit.gates.rules.markdown import NESTING_LIMIT


@cache
def parser() -> Any:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"maxNesting": NESTING_LIMIT}).enable("table")
    reference = next(rule.fn for rule in made.block.ruler.__rules__ if rule.name == "reference")

    def not_footnotes(state: Any, start: int, end: int, silent: bool) -> bool:
        begin = state.bMarks[start] + state.tShift[start]
        return not state.src.startswith("[^", begin) and bool(reference(state, start, end, silent))

    made.block.ruler.at("reference", not_footnotes)
    made.inline.ruler.before("link", "wiki_link", _wiki_link)
    setattr(made, "validateLink", lambda url: True)  # noqa: B010 - every destination is a link to CommonMark
    return made


def _wiki_link(state: Any, silent: bool) -> bool:
    from ktxkit.gates.rules.markdown import _WIKI_LINK

    found = _WIKI_LINK.match(state.src, state.pos)
    if not found:
        return False
    if not silent:
        state.push("wiki_link", "", 0).content = found[1]
    state.pos = found.end()
    return True


def codes(text: str) -> list[str]:
    """The code spans of a body."""
    tokens = parser().parse(text.replace("\r\n", "\n").replace("\r", "\n"))
    children = [child for token in tokens if token.type == "inline" for child in token.children or ()]
    return [child.content for child in children if child.type == "code_inline"]
