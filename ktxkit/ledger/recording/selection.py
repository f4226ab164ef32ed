"""What a run was asked to cover: arguments, options that leave tests out, workers, order; told by pytest's config."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from ktxkit.base.errors import KtxError
from ktxkit.git.snapshot import is_left_by_runs
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
# Plugins without which tests pass that would not; `-W` and `-o` are looked at by their values.
JUDGES = ("no:warnings", "no:skipping", "no:unraisableexception", "no:threadexception")
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
    changing = _changing(config, own)
    made |= {"configured": configured} if configured else {}
    made |= {"changing": changing} if changing else {}
    return made | ({"declared": declared[:200]} if declared else {})


def _callers_plugins(config: pytest.Config, committed: set[str]) -> Iterator[tuple[str, str]]:
    """Plugins that the caller brings, or conftest files that the caller takes away: no commit tells what they do. What
    an installed distribution offers as a plugin is part of the environment.
    """
    manager = config.pluginmanager
    installed = {id(plugin) for plugin, _ in manager.list_plugin_distinfo()}
    named = [("-p", name) for name in config.option.plugins or () if name not in committed]
    named += [("PYTEST_PLUGINS", name) for name in os.environ.get("PYTEST_PLUGINS", "").split(",") if name.strip()]
    for option, name in named:
        plain = name.strip()
        if plain.startswith("no:"):
            if plain.endswith(".py"):
                yield option, plain
            continue
        plugin = manager.get_plugin(plain)
        module = getattr(plugin, "__name__", plain)
        known = plain == "ktxkit" or module.partition(".")[0] == "_pytest" or id(plugin) in installed
        if not known and not _is_entry_point(plain, module):
            yield option, plain


def _is_entry_point(name: str, module: str) -> bool:
    from importlib.metadata import entry_points

    return any(one.name == name or one.module == module for one in entry_points(group="pytest11"))


def _changing(config: pytest.Config, own: Options | None) -> list[dict[str, str]]:
    """What of the caller's own lets tests pass that would not: it leaves out none of them."""
    committed = Counter(map(str, getattr(own, "pythonwarnings", None) or ()))
    warnings = Counter(map(str, config.option.pythonwarnings or ())) - committed
    found = [_option("-W", word) for word in warnings if not word.startswith("error")]
    found += [_option("-o", word) for word in map(str, config.option.override_ini or ()) if word.startswith(CHANGES)]
    found += [_option("--runxfail", "")] * (config.option.runxfail and not getattr(own, "runxfail", False))
    found += [_option("-p", name) for name in config.option.plugins or () if name in JUDGES]
    found += _of_plugins(config.option, own)
    return found + ([_option("python", "-O: assertions of the code are not made")] if sys.flags.optimize else [])


def _of_plugins(given: object, own: object) -> list[dict[str, str]]:
    """Options of pytest-rerunfailures, flaky and pytest-cov: a later try counts, or less coverage is enough."""
    found = []
    for name, option in (("reruns", "--reruns"), ("force_flaky", "--force-flaky")):
        value = getattr(given, name, None)
        if value and value != getattr(own, name, None):
            found.append(_option(option, value))
    least = getattr(own, "cov_fail_under", None)
    if least and (getattr(given, "cov_fail_under", None) or 0) < least:
        found.append(_option("--cov-fail-under", getattr(given, "cov_fail_under", None)))
    if least and getattr(given, "no_cov", False) and not getattr(own, "no_cov", False):
        found.append(_option("--no-cov", ""))
    return found


CHANGES = ("filterwarnings", "xfail_strict=f", "xfail_strict=0", "xfail_strict=n", "xfail_strict=False")


# -- what is in no commit


def loaded(plugins: Iterable[object] = (), files: Iterable[str] = ()) -> list[str]:
    """The files of modules, plugins and tests that are loaded, without those of Python and of what is installed."""
    installed = _installed()
    found = set(files)
    for module in [*sys.modules.values(), *plugins]:
        if isinstance(module, ModuleType):  # some are lazy, and would be loaded by a look at their attributes
            found.add(ModuleType.__getattribute__(module, "__dict__").get("__file__"))
    return sorted(path for path in found if isinstance(path, str) and not path.startswith(installed))


@cache
def _installed() -> tuple[str, ...]:
    """Where Python and the installed distributions are."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [os.path.dirname(os.__file__), *site.getsitepackages(), site.getusersitepackages()]  # noqa: PTH120
    spelled = {one for path in paths for one in (path, os.path.realpath(path))}
    return tuple(f"{path}{os.sep}" for path in spelled) + ("<",)


class Unversioned(NamedTuple):
    """Tells what took part in a run and is in no commit.

    `outside` is what of the checkout is in no tree, `begun` the run's start (ns): what was made since, the run made.
    `declared` are patterns of files that the build makes, `pythonpath` is the caller's.
    """

    config: pytest.Config
    top: Path
    outside: Iterable[bytes]
    begun: int
    declared: Sequence[str]
    pythonpath: str

    def among(self, files: Iterable[str]) -> list[str]:
        """Of loaded files, pytest's configuration among them: those that git ignores, and code from outside that is not
        installed; and ignored markers that hide a directory from pytest.
        """
        root = os.path.realpath(self.top) + os.sep
        ignored = {os.fsdecode(path) for path in self.outside}
        plugins, places = self._plugin_files(), _places(self.pythonpath.split(os.pathsep))
        on_path = _places(sys.path).items()
        installed = tuple(place for place, has in on_path if has and not place.startswith(root))
        named = set(_hiding(self.top, ignored))
        for path in {*files, *([str(self.config.inipath)] if self.config.inipath else [])}:
            real = _real(path)
            name = real.removeprefix(root)
            if not real.startswith(root):
                own = path in plugins and not real.startswith(installed)
                named |= {real} if own or _is_brought(real, places) else set()
            elif _is_outside(name, ignored) and not _made_since(real, self.begun):
                named |= set() if _is_declared(name, self.top, self.declared, ignored) else {name}
        return [clean(name)[0][:2000] for name in sorted(named)[:UNVERSIONED_SHOWN]]

    def _plugin_files(self) -> set[str]:
        """The files of plugins that no installed distribution offers, but ours."""
        manager = self.config.pluginmanager
        offered = {id(plugin) for plugin, _ in manager.list_plugin_distinfo()}
        modules = [one for one in manager.get_plugins() if isinstance(one, ModuleType) and id(one) not in offered]
        return {str(one.__file__) for one in modules if not one.__name__.startswith("ktxkit.")}


def _places(path: Iterable[str]) -> dict[str, bool]:
    """The directories of a path of modules, and whether distributions are installed there."""
    found = {}
    for place in map(os.path.realpath, filter(None, path)):
        listed = os.listdir(place) if os.path.isdir(place) else ()  # noqa: PTH112, PTH208
        found[place + os.sep] = any(name.endswith((".dist-info", ".egg-info")) for name in listed)
    return found


UNVERSIONED_SHOWN = 100
_real_directory = cache(os.path.realpath)


def _real(path: str) -> str:
    """As realpath, which would look at each directory above for each file again."""
    folder, _, name = path.rpartition(os.sep)
    return os.path.realpath(path) if os.path.islink(path) else f"{_real_directory(folder)}{os.sep}{name}"  # noqa: PTH114


def _is_brought(path: str, places: Mapping[str, bool]) -> bool:
    """Whether a file comes from a directory of PYTHONPATH that is none of installed distributions."""
    custom = path.endswith((f"{os.sep}sitecustomize.py", f"{os.sep}usercustomize.py"))
    return any(path.startswith(place) and (custom or not installed) for place, installed in places.items())


def _is_outside(name: str, ignored: Container[str]) -> bool:
    """Whether a path is ignored, or in a directory that is; or git's own, or where runs of tests leave their caches."""
    parts = name.split("/")
    if ".git" in parts[:-1]:
        return True
    above = ("/".join(parts[:depth]) + "/" for depth in range(1, len(parts)))
    return name in ignored or any(place in ignored for place in above) or is_left_by_runs(os.fsencode(name))


def _made_since(path: str, begun: int) -> bool:
    try:
        return os.stat(path).st_ctime_ns >= begun  # noqa: PTH116
    except OSError:
        return False  # it was loaded, and is gone: what it was is not known


def _is_declared(name: str, top: Path, patterns: Sequence[str], ignored: Container[str]) -> bool:
    """Whether the project says that its build makes the file: in .ktx-config.yaml, or as the version file of its
    pyproject.toml."""
    plain = name.rpartition("/")[2]
    if any(fnmatch(name if "/" in pattern else plain, pattern.removeprefix("/")) for pattern in patterns):
        return True
    for place in Path(name).parents:
        project = place / "pyproject.toml"
        if (top / project).is_file() and not _is_outside(str(project), ignored):
            try:
                tools = tomllib.loads((top / project).read_text("utf-8")).get("tool", {})
            except (ValueError, OSError):
                continue  # gate-ok: one that cannot be read declares nothing
            if any(_at(tools, *keys) == str(Path(name).relative_to(place)) for keys in VERSION_FILES):
                return True
    return False


VERSION_FILES = (  # where setuptools-scm, hatch-vcs, PDM and versioningit are told which file to write
    ("setuptools_scm", "version_file"),
    ("setuptools_scm", "write_to"),
    ("hatch", "build", "hooks", "vcs", "version-file"),
    ("pdm", "version", "write_to"),
    ("versioningit", "write", "file"),
)


def _at(table: object, *keys: str) -> object:
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def _hiding(top: Path, ignored: Iterable[str]) -> Iterator[str]:
    """Ignored files by which pytest takes a directory with files of the project for an environment, and leaves it out
    (pytest's `_in_venv`).
    """
    for name in ignored:
        found = HIDING.search(name)
        if found and found.start() > 0:
            place = name[: found.start()]
            words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", place)
            if any(one.endswith(b".py") for one in World(top, os.environ).git.run(*words).nul):
                yield name


HIDING = re.compile(r"/(?:pyvenv\.cfg|conda-meta(?:/(?:history)?)?|(?:bin|Scripts)/[Aa]ctivate[^/]*)\Z")


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
    found += [_option(option, name) for option, name in _callers_plugins(config, committed)]
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
