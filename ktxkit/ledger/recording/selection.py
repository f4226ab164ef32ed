"""What a run was asked to cover: arguments, options that leave tests out, workers, order; told by pytest's config."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.errors import KtxError
from ktxkit.ledger.rules.payload import clean
from ktxkit.store.world import World

Options = object  # what an argument parser gives
ARGUMENTS_SHOWN = 1000
# Options that leave tests out. The value is what the option is when it is not used.
NARROWING: dict[str, tuple[str, Any]] = {
    "keyword": ("-k", ""),
    "markexpr": ("-m", ""),
    "lf": ("--lf", False),
    "stepwise": ("--sw", False),
    "stepwise_skip": ("--sw-skip", False),
    "deselect": ("--deselect", None),
    "ignore": ("--ignore", None),
    "ignore_glob": ("--ignore-glob", None),
    "noconftest": ("--noconftest", False),
    "override_ini": ("-o", None),
    "inifilename": ("-c", None),
    "testmon": ("--testmon", False),
    "splits": ("--splits", None),
    "num_shards": ("--num-shards", 1),
    "picked": ("--picked", None),
}
# Of these, what `addopts` gives is the project's own word; the others depend on what is in no tree.
CONFIGURABLE = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "noconftest", "override_ini")
# What `-o` may set without leaving out a test. pytest 9 makes `-o` of --strict-markers, --strict-config and --strict.
SELECTS_NOTHING = (
    *("strict", "xfail_strict", "log_", "junit_", "faulthandler_", "tmp_path_retention_", "truncation_limit_"),
    *("verbosity_", "console_output_style", "filterwarnings", "enable_assertion_pass_hook", "minversion", "cache_dir"),
)
COLLECTORS = ("no:python", "no:unittest", "no:doctest")  # plugins without which tests are not found
# Who deselects for which option: the module that calls the hook.
DESELECTING = {"_pytest.mark": ("-m", "-k"), "_pytest.main": ("--deselect",)}


def selection(config: pytest.Config) -> dict[str, Any]:
    """What was asked for: where the arguments came from, and every option that leaves tests out.

    What the project's own configuration leaves out of every run (`addopts`) stands apart: `configured`.
    """
    own = of_addopts(config)
    source = getattr(config, "args_source", None)
    made: dict[str, Any] = {
        "argsSource": source.name.lower() if source is not None else "unknown",
        "args": [clean(str(arg))[0] for arg in config.args[:ARGUMENTS_SHOWN]],
        "narrowing": narrowing(config, own),
    }
    if made["argsSource"] == "args" and (getattr(own, "file_or_dir", None) or None) == config.args:
        made["argsSource"] = "addopts"
    configured = _configured(config, own)
    declared = os.environ.get("KTX_TEST_SCOPE")
    return (
        made | ({"configured": configured} if configured else {}) | ({"declared": declared[:200]} if declared else {})
    )


def of_addopts(config: pytest.Config) -> Options | None:
    """What `addopts` of the configuration file gives alone; None where there is none, or it is not the project's own.

    A file that git ignores, or that lies outside of the checkout, is no part of the project.
    """
    words = config.getini("addopts")
    path = config.inipath
    replaced = any(str(one).startswith("addopts=") for one in config.option.override_ini or ())
    if not words or path is None or config.option.inifilename or replaced:
        return None
    try:
        found = config._parser.parse_known_args([str(word) for word in words])
    except (SystemExit, pytest.UsageError):
        return None  # options that nobody knows any more: nothing counts as configured
    return found if _is_of_project(path) else None


def _is_of_project(path: Path) -> bool:
    """Whether the repository has a file, tracked or to be, so that the tree of a run tells its content."""
    try:
        world = World(path.parent, os.environ)
        top = world.repository.top
        if top is None or not path.resolve().is_relative_to(top.resolve()):
            return False
        flags = ("--others", "--ignored", "--exclude-standard", "-z")
        return not world.git.run("ls-files", *flags, "--", str(path.resolve())).out
    except KtxError:
        return False


def _value(options: Options | None, name: str, unused: Any) -> Any:
    found = getattr(options, name, unused)
    if name == "override_ini":
        found = [str(one) for one in found or () if not str(one).startswith(SELECTS_NOTHING)]
    return unused if found in (unused, None, [], "", False) else found


def narrowing(config: pytest.Config, own: Options | None = None) -> list[dict[str, str]]:
    """Each option that narrows, with its value, without what `own` gives: the options of `addopts`."""
    found = []
    for name, (option, unused) in NARROWING.items():
        value = _value(config.option, name, unused)
        configured = _value(own, name, unused) if name in CONFIGURABLE else unused
        if isinstance(value, list) and isinstance(configured, list):
            value = list((Counter(map(str, value)) - Counter(map(str, configured))).elements())
        if value not in (unused, configured, []):
            found.append(_option(option, value))
    committed = set(getattr(own, "plugins", None) or ())
    plugins = [name for name in config.option.plugins or () if name in COLLECTORS and name not in committed]
    found += [_option("-p", name) for name in plugins]
    if os.path.realpath(config.invocation_params.dir) != os.path.realpath(config.rootpath):
        source = getattr(config, "args_source", None)
        if source is not None and source.name == "INVOCATION_DIR":
            found.append(_option("directory", directory(config)))
    return found


def _configured(config: pytest.Config, own: Options | None) -> list[dict[str, str]]:
    """Each option of `addopts` that leaves tests out of every run, where nothing overrides it."""
    found = []
    for name in CONFIGURABLE:
        option, unused = NARROWING[name]
        value = _value(own, name, unused)
        if value != unused and (isinstance(value, list) or value == getattr(config.option, name, unused)):
            found.append(_option(option, value))
    return found + [_option("-p", name) for name in getattr(own, "plugins", None) or () if name in COLLECTORS]


def _option(option: str, value: Any) -> dict[str, str]:
    return {"option": option, "value": clean(str(value))[0][:500]}


def beside_top(config: pytest.Config, top: Path | None) -> list[dict[str, str]]:
    """A root directory that is not the top of the checkout narrows like an option: what lies outside it is not seen."""
    if top is None or os.path.realpath(top) == os.path.realpath(config.rootpath):
        return []
    place = os.path.relpath(os.path.realpath(config.rootpath), os.path.realpath(top))
    return [{"option": "root directory", "value": clean(place)[0][:500]}]


def directory(config: pytest.Config) -> str:
    """Where pytest was started, relative to its root directory."""
    return clean(os.path.relpath(config.invocation_params.dir, config.rootpath))[0]


def paths(config: pytest.Config) -> list[str]:
    """The path arguments, relative to the root directory; node ids keep what follows `::`."""
    found = []
    for arg in config.args[:ARGUMENTS_SHOWN]:
        path, sep, rest = str(arg).partition("::")
        place = os.path.relpath(config.invocation_params.dir / path, config.rootpath)
        found.append(clean(place + sep + rest)[0])
    return found


def mode(config: pytest.Config) -> str:
    """`collect`, `plan` (nothing is executed), `setup` (only fixtures are) or `run`."""
    option = config.option
    if option.collectonly or getattr(option, "showfixtures", False) or getattr(option, "show_fixtures_per_test", False):
        return "collect"
    if getattr(option, "setupplan", False):
        return "plan"
    return "setup" if getattr(option, "setuponly", False) else "run"


def workers(config: pytest.Config) -> tuple[int, str]:
    """The number of xdist workers (0: none) and the scheduling mode."""
    count = len(getattr(config.option, "tx", None) or ())
    dist = str(getattr(config.option, "dist", "no"))
    return (count, dist) if count and dist != "no" else (0, "no")


def order(config: pytest.Config) -> dict[str, Any]:
    """Who decides the order, where a plugin does, and from which seed."""
    option = config.option
    if config.pluginmanager.hasplugin("randomly") and getattr(option, "randomly_reorganize", True):
        return {"by": "randomly", "seed": str(getattr(option, "randomly_seed", ""))[:100]}
    if getattr(option, "random_order_bucket", None) and getattr(option, "random_order_seed", None):
        return {"by": "random-order", "seed": str(option.random_order_seed)[:100]}
    for name, word in (("failedfirst", "--ff"), ("newfirst", "--nf")):
        if getattr(option, name, False):
            return {"by": word}
    return {}


def deselected_by(options: Sequence[str]) -> bool:
    """Whether the hook `pytest_deselected`, in which we are, is called for one of these options."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("pluggy", "ktxkit"):
        frame = frame.f_back  # type: ignore[assignment]
    name = "" if frame is None else frame.f_globals.get("__name__", "")
    return any(option in options for option in DESELECTING.get(name, ()))
