"""pytest's and the build's configuration of a tree, as far as selection depends on it."""

from __future__ import annotations

import configparser
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from ktxkit.core.affected.project import SKIPPED, Project

INI = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
OWN_TOML = ("pytest.toml", ".pytest.toml")
_WORD = re.compile(r"[A-Za-z_][\w.]*\Z")
Load = Callable[[str], bytes | None]


def project(load: Load, inert: tuple[str, ...] = ()) -> Project:
    """The project of a tree. `load` gives a file's bytes. What cannot be parsed says nothing (pytest fails on it)."""
    toml = _toml(load("pyproject.toml"))
    options = _pytest(load, toml)
    table = toml.get("project", {})
    scripts = {**table.get("scripts", {}), **table.get("gui-scripts", {})}
    entries = {g: tuple(str(v).partition(":")[0] for v in found.values()) for g, found in _entries(table).items()}
    addopts = _list(options.get("addopts"))
    words = [word for key, value in options.items() if key != "addopts" for word in _list(value)]
    return Project(
        python_files=tuple(_list(options.get("python_files"))) or Project.python_files,
        python_classes=tuple(_list(options.get("python_classes"))) or Project.python_classes,
        python_functions=tuple(_list(options.get("python_functions"))) or Project.python_functions,
        testpaths=tuple(_list(options.get("testpaths"))),
        norecursedirs=tuple(_list(options.get("norecursedirs"))) or SKIPPED,
        doctests="--doctest-modules" in addopts,
        text_tests=any(one.startswith("--doctest-glob") for one in addopts),
        standard=frozenset(sys.stdlib_module_names),
        mapped=_mapped(toml),
        scripts={name: (str(v).partition(":")[0], str(v).partition(":")[2]) for name, v in scripts.items()},
        entries=entries,
        always=tuple(word for word in (*words, *(one.removeprefix("-p") for one in addopts)) if _WORD.match(word)),
        usefixtures=tuple(_list(options.get("usefixtures"))),
        inert=inert,
    )


def _toml(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        return tomllib.loads(data.decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
        return {}


def _pytest(load: Load, toml: dict[str, Any]) -> dict[str, Any]:
    """pytest's options, from the first file that it takes them from; pytest.toml and `[tool.pytest]` since pytest 9."""
    for name in OWN_TOML:
        if (data := load(name)) is not None:
            return dict(_toml(data).get("pytest", {}))
    for name in INI:
        if name == "tox.ini" and (found := _native(toml)):
            return found
        data = load(name)
        if data is None:
            continue
        read = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            read.read_string(data.decode("utf-8", "replace"))
        except configparser.Error:
            continue  # gate-ok: pytest fails on it too, and says why
        section = "tool:pytest" if name == "setup.cfg" else "pytest"
        if read.has_section(section) or name.endswith("pytest.ini"):
            return dict(read.items(section)) if read.has_section(section) else {}
    return {}


def _native(toml: dict[str, Any]) -> dict[str, Any]:
    """What pyproject.toml says: in the table of ini options, or in pytest's own."""
    table = toml.get("tool", {}).get("pytest", {})
    found = table.get("ini_options", table) if isinstance(table, dict) else {}
    return dict(found) if isinstance(found, dict) else {}


def _entries(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = table.get("entry-points", {})
    return {group: one for group, one in found.items() if isinstance(one, dict)}


def _mapped(toml: dict[str, Any]) -> dict[str, str]:
    """Packages that lie in a directory of another name."""
    found = toml.get("tool", {}).get("setuptools", {}).get("package-dir", {})
    return {str(name): str(place) for name, place in found.items() if name} if isinstance(found, dict) else {}


def _list(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    try:
        return shlex.split(str(value or ""), comments=True)
    except ValueError:
        return str(value or "").split()
