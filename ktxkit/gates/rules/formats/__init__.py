"""A verdict's findings in the places where people read results: terminal, pipes, code hosts, review tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ktxkit.gates.rules.formats.common import Content, no_content, ordered

__all__ = ["FORMATS", "Content", "render"]

FORMATS = ("text", "json", "jsonl", "sarif", "github", "gitlab", "rdjsonl")
Renderer = Callable[[Mapping[str, Any], Content], list[str]]


def render(format: str, verdict: Mapping[str, Any], content: Content = no_content) -> list[str]:
    """The lines of a verdict (contract `verdict`) in a format, the same whatever the order of its findings.

    `content` gives the bytes of a path of the tree that was judged, or None; rdjsonl alone asks it, since its columns
    count bytes. Raises KeyError for a format that is none of FORMATS.
    """
    found = {**verdict, "findings": ordered(verdict["findings"])}
    return _renderer(format)(found, content)


def _renderer(format: str) -> Renderer:
    """Imported where it is asked for."""
    if format == "text":
        from ktxkit.gates.rules.formats import text

        return text.render
    from ktxkit.gates.rules.formats import github, gitlab, rdjson, records, sarif

    return {
        "json": records.as_json,
        "jsonl": records.as_lines,
        "sarif": sarif.render,
        "github": github.render,
        "gitlab": gitlab.render,
        "rdjsonl": rdjson.render,
    }[format]
