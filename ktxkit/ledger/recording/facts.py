"""What is known of a run before it starts: selection, environment, workers, order. Told by pytest's own config."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktxkit.base.rules.digests import digest_of
from ktxkit.ledger.rules.payload import clean

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
VARIABLES = (
    *("PYTHONHASHSEED", "PYTHONPATH", "PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONWARNINGS"),
    *("TZ", "LANG", "LC_ALL"),
)
MARKED = ("CI",)  # variables of which only the presence is part of the profile
COLLECTORS = ("no:python", "no:unittest", "no:doctest")  # plugins without which tests are not found


def selection(config: pytest.Config) -> dict[str, Any]:
    """What was asked for: where the arguments came from, and every option that leaves tests out."""
    source = getattr(config, "args_source", None)
    made: dict[str, Any] = {
        "argsSource": source.name.lower() if source is not None else "unknown",
        "args": [clean(str(arg))[0] for arg in config.args[:ARGUMENTS_SHOWN]],
        "narrowing": narrowing(config),
    }
    declared = os.environ.get("KTX_TEST_SCOPE")
    return made | ({"declared": declared[:200]} if declared else {})


def narrowing(config: pytest.Config) -> list[dict[str, str]]:
    """Each option that narrows, with its value."""
    found = []
    for name, (option, unused) in NARROWING.items():
        value = getattr(config.option, name, unused)
        if value not in (unused, None, [], "", False):
            found.append({"option": option, "value": clean(str(value))[0][:500]})
    found += [{"option": "-p", "value": name} for name in config.option.plugins or () if name in COLLECTORS]
    if os.path.realpath(config.invocation_params.dir) != os.path.realpath(config.rootpath):
        source = getattr(config, "args_source", None)
        if source is not None and source.name == "INVOCATION_DIR":
            found.append({"option": "directory", "value": directory(config)})
    return found


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


def environment(env: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, Any]:
    """The environment profile: what may change an outcome without a change of the tree. `digest` is of all of it.

    Of the variables `more` (the configuration names them; they may hold secrets) only a digest of the value is kept.
    """
    made: dict[str, Any] = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "host": platform.node()[:255] or "unknown",
        "processors": len(os.sched_getaffinity(0)),
        "packages": digest_of(packages(sys.path)),
        "variables": {name: clean(value)[0][:1000] for name, value in variables(env)}
        | {name: "set" for name in MARKED if name in env}
        | {name: digest_of(clean(env[name])[0]) for name in more if name in env},
    }
    if env.get("KTX_ENV_PROFILE"):
        made["profile"] = env["KTX_ENV_PROFILE"][:200]
    return made | {"digest": digest_of(made)}


def variables(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables of the profile, without what `test-run --trace` puts before PYTHONPATH."""
    for name in VARIABLES:
        value = env.get(name)
        if value and name == "PYTHONPATH":
            value = _without_ours(value, env)
        if value is not None:
            yield name, value


def _without_ours(path: str, env: Mapping[str, str]) -> str | None:
    from ktxkit.affected.traced.begin import DIRECTORY

    if DIRECTORY not in env:
        return path
    return os.pathsep.join(one for one in path.split(os.pathsep) if not one.startswith(env[DIRECTORY])) or None


def packages(places: list[str]) -> list[str]:
    """Names and versions of what is installed, from the names of the metadata directories alone."""
    found = set()
    for place in places:
        if place and Path(place).is_dir():
            found |= {entry.name for entry in os.scandir(place) if entry.name.endswith((".dist-info", ".egg-info"))}
    return sorted(clean(name)[0] for name in found)


def tools(config: pytest.Config) -> dict[str, Any]:
    """Versions of pytest and its plugins."""
    from ktxkit import __version__

    found = sorted({f"{dist.project_name} {dist.version}" for _, dist in config.pluginmanager.list_plugin_distinfo()})
    return {"pytest": pytest.__version__, "ktxkit": __version__, "plugins": found[:200]}
