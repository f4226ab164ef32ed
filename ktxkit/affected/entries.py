"""Console scripts and entry points that a project declares: in pyproject.toml, setup.cfg, setup.py, or as built."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Load = Callable[[str], bytes | None]
Scripts = dict[str, tuple[str, str]]  # name to module and function
Entries = dict[str, tuple[str, ...]]  # group to modules
SCRIPTS = ("console_scripts", "gui_scripts")


def declared(load: Load, toml: Mapping[str, Any]) -> tuple[Scripts, Entries]:
    """Those of one directory. What cannot be read declares nothing."""
    scripts: Scripts = {}
    entries: Entries = {}
    for group, name, value in (*_of_toml(toml), *_of_setup_cfg(load("setup.cfg")), *_of_setup(load("setup.py"))):
        _put(scripts, entries, group, name, value)
    return scripts, entries


def built(data: bytes | None) -> tuple[Scripts, Entries]:
    """Those that a build wrote down, in `*.egg-info/entry_points.txt`."""
    scripts: Scripts = {}
    entries: Entries = {}
    for group, name, value in _sections(data):
        _put(scripts, entries, group, name, value)
    return scripts, entries


def merged(one: Entries, more: Entries) -> Entries:
    """Both, group by group."""
    return {group: tuple(dict.fromkeys((*one.get(group, ()), *more.get(group, ())))) for group in {**one, **more}}


def _put(scripts: Scripts, entries: Entries, group: str, name: str, value: str) -> None:
    module, _, function = value.partition("[")[0].strip().partition(":")
    if group in SCRIPTS:
        scripts[name] = (module, function)
    entries[group] = (*entries.get(group, ()), module)


def _of_toml(toml: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    project, tools = _table(toml, "project"), _table(toml, "tool")
    poetry, flit = _table(tools, "poetry"), _table(tools, "flit")
    for table in (project, poetry, flit):
        for key in ("scripts", "gui-scripts"):
            for name, value in _table(table, key).items():
                yield "console_scripts", name, str(value.get("reference", "") if isinstance(value, dict) else value)
    for groups in (_table(project, "entry-points"), _table(poetry, "plugins"), _table(flit, "entrypoints")):
        for group in groups:
            for name, value in _table(groups, group).items():
                yield group, name, str(value)


def _table(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = outer.get(name, {})
    return found if isinstance(found, dict) else {}


def _of_setup_cfg(data: bytes | None) -> Iterable[tuple[str, str, str]]:
    for section, group, value in _sections(data):
        if section == "options.entry_points":
            yield from _lines(group, value.splitlines())


def _sections(data: bytes | None) -> Iterable[tuple[str, str, str]]:
    read = configparser.RawConfigParser(strict=False, delimiters=("=",), allow_no_value=True)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        read.read_string((data or b"").decode("utf-8", "replace"))
    except configparser.Error:
        return []
    return [(section, name, value or "") for section in read.sections() for name, value in read.items(section)]


def _of_setup(data: bytes | None) -> Iterable[tuple[str, str, str]]:
    """The literal argument `entry_points` of setup(), wherever it is called."""
    try:
        tree = ast.parse(data or b"")
    except (SyntaxError, ValueError, RecursionError):
        return  # gate-ok: it declares nothing; that it changed or cannot be read is told where it is a change
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "entry_points":
            yield from _literal(node.value)


def _literal(node: ast.expr) -> Iterable[tuple[str, str, str]]:
    """A dictionary of groups, each with lines; or the text of an entry_points.txt. Parts that are computed are left."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _sections(node.value.encode("utf-8", "replace"))
    for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant):
            texts = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant)]
            lines = [line for text in texts if isinstance(text, str) for line in text.splitlines()]
            yield from _lines(str(key.value), lines)


def _lines(group: str, lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for line in lines:
        name, sign, value = line.partition("=")
        if sign:
            yield group, name.strip(), value.strip()
