"""Console scripts and entry points that a project declares: in pyproject.toml, setup.cfg, setup.py, or as built.

pytest's and the build's configuration of a tree, as far as selection depends on it.
"""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktxkit.affected.rules.project import SKIPPED, TestProject

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


def merged(entries: Entries, more: Entries) -> Entries:
    """Both, group by group."""
    return {
        group: tuple(dict.fromkeys((*entries.get(group, ()), *more.get(group, ())))) for group in {**entries, **more}
    }


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


INI = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
CONFIGURATIONS = {*INI, "pytest.toml", ".pytest.toml", "pyproject.toml"}
OWN_TOML = ("pytest.toml", ".pytest.toml")
_WORD = re.compile(r"[A-Za-z_][\w.]*\Z")
_DOTTED = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)+(?![\w.])")


def project(load: Load, paths: Collection[str] = (), inert: tuple[str, ...] = ()) -> TestProject:
    """The project of a tree. `load` gives a file's bytes. What cannot be parsed says nothing (pytest fails on it).

    `paths`: the tree's; configuration of pytest's below the top, and what a build left in `*.egg-info`, count as well.
    """
    made = _top(load, inert)
    found = {path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] in CONFIGURATIONS}
    for folder in sorted(found - {""}):
        below = _top(lambda name, at=folder: load(f"{at}/{name}"), ())  # type: ignore[misc]
        made = _with(made, folder, below)
    for path in paths:
        if path.endswith(".egg-info/entry_points.txt"):
            scripts, found_entries = built(load(path))
            made = replace(made, scripts={**scripts, **made.scripts}, entries=merged(made.entries, found_entries))
    return made


def _with(made: TestProject, folder: str, below: TestProject) -> TestProject:
    """A project with one that pytest may be started in below it: what either takes for a test is one."""
    default = TestProject()
    if (below.python_files, below.python_classes, below.python_functions) == (
        default.python_files, default.python_classes, default.python_functions,
    ) and not (below.doctests or below.text_tests or below.unread or below.testpaths or below.usefixtures):  # fmt: skip
        return replace(made, below=(*made.below, folder), always=(*made.always, *below.always), **_built(made, below))
    return replace(
        made,
        python_files=(*made.python_files, *below.python_files),
        python_classes=(*made.python_classes, *below.python_classes),
        python_functions=(*made.python_functions, *below.python_functions),
        doctests=made.doctests or below.doctests,
        text_tests=made.text_tests or below.text_tests,
        unread=made.unread or below.unread,
        usefixtures=(*made.usefixtures, *below.usefixtures),
        always=(*made.always, *below.always),
        below=(*made.below, folder),
        **_built(made, below),
    )


def _built(made: TestProject, below: TestProject) -> dict[str, Any]:
    """What both declare to be installed, and whose names their filters of warnings have."""
    return {
        "scripts": {**below.scripts, **made.scripts},
        "entries": merged(made.entries, below.entries),
        "warned": (*made.warned, *below.warned),
    }


def _warned(options: dict[str, Any], addopts: list[str]) -> tuple[str, ...]:
    """The categories of warnings that pytest loads as it starts."""
    value = options.get("filterwarnings") or ""
    lines = [str(one) for one in value] if isinstance(value, list) else str(value).splitlines()
    return tuple(one for text in (*lines, *addopts) for one in _DOTTED.findall(text.partition("#")[0]) if ":" in text)


def _top(load: Load, inert: tuple[str, ...]) -> TestProject:
    toml = _toml(load("pyproject.toml"))
    options = _pytest(load, toml)
    options, unread = _overridden(options)
    scripts, points = declared(load, toml)
    addopts = _list(options.get("addopts"))
    words = [word for key, value in options.items() if key != "addopts" for word in _list(value)]
    return TestProject(
        python_files=tuple(_list(options.get("python_files"))) or TestProject.python_files,
        python_classes=tuple(_list(options.get("python_classes"))) or TestProject.python_classes,
        python_functions=tuple(_list(options.get("python_functions"))) or TestProject.python_functions,
        testpaths=tuple(_list(options.get("testpaths"))),
        norecursedirs=tuple(_list(options.get("norecursedirs"))) or SKIPPED,
        doctests="--doctest-modules" in addopts,
        text_tests=any(one.startswith("--doctest-glob") for one in addopts),
        standard=frozenset(sys.stdlib_module_names),
        mapped=_mapped(toml),
        scripts=scripts,
        entries=points,
        warned=_warned(options, addopts),
        always=tuple(word for word in (*words, *(one.removeprefix("-p") for one in addopts)) if _WORD.match(word)),
        usefixtures=tuple(_list(options.get("usefixtures"))),
        named=tuple(one.partition("::")[0].removeprefix("./").rstrip("/") for one in addopts if one[:1] not in "-"),
        unread=unread,
        inert=inert,
    )


def _overridden(options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The options with those that `addopts` sets (`-o name=value`), and why they may be others; empty where not."""
    words = _list(options.get("addopts"))
    found: dict[str, Any] = {}
    for at, word in enumerate(words):
        value = ""
        if word in ("-o", "--override-ini"):
            value = words[at + 1] if at + 1 < len(words) else ""
        elif word.startswith("-o"):
            value = word.removeprefix("-o")
        elif word.startswith("--override-ini="):
            value = word.partition("=")[2]
        elif word in ("-c", "--config-file", "--rootdir") or word.startswith(("--config-file=", "--rootdir=")):
            return options, f"pytest takes its configuration from elsewhere (addopts has {word})"
        name, sign, text = value.partition("=")
        found |= {name.strip(): text} if sign else {}
    return {**options, **found}, ""


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


def installed(python: str) -> frozenset[str]:
    """Names of the modules that an interpreter's environment has, by the directory in which it keeps them."""
    found: set[str] = set()
    places = list(Path(python).parent.parent.glob("lib*/python3*/site-packages"))
    for place in places or [Path(sysconfig.get_path("purelib"))]:
        names = sorted(one.name for one in place.iterdir())
        found |= {name.partition(".")[0] for name in names if not name.endswith((".dist-info", ".egg-info", ".pth"))}
    return frozenset(found)
