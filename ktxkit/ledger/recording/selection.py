"""What a run was asked to cover: arguments, options that leave tests out, workers, order; told by pytest's config."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
import time
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest

import ktxkit
from ktxkit.base.clock import since_process_start
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
    if made["argsSource"] == "args":
        made["argsSource"] = _same_as(config, own)
    configured = _configured(config, own)
    declared = os.environ.get("KTX_TEST_SCOPE")
    changing = _changing(config, own)
    made |= {"configured": configured} if configured else {}
    made |= {"changing": changing} if changing else {}
    return made | ({"declared": declared[:200]} if declared else {})


def _same_as(config: pytest.Config, own: Options | None) -> str:
    """What of pytest's own choice the arguments come to: `pytest .` at the top is what `pytest` is."""
    if (getattr(own, "file_or_dir", None) or None) == config.args:
        return "addopts"
    given = set(paths(config))
    root = os.path.realpath(config.rootpath)
    if "." in given and not any("::" in one for one in given):
        return "invocation_dir"
    testpaths = {os.path.relpath(os.path.join(root, one), root) for one in config.getini("testpaths")}  # noqa: PTH118
    return "testpaths" if testpaths and testpaths == given else "args"


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
    """The files of modules, plugins and tests that are loaded, and of other code that was executed, without those of
    Python and of what is installed, and without what the process made itself.
    """
    installed, ear = _installed(), Ear.heard
    found = {*files, *(ear.files() if ear else ())}
    for module in [*sys.modules.values(), *plugins]:
        if isinstance(module, ModuleType):  # some are lazy, and would be loaded by a look at their attributes
            found.add(ModuleType.__getattribute__(module, "__dict__").get("__file__"))
    found -= ear.made if ear else set()
    return sorted(path for path in found if isinstance(path, str) and not path.startswith(installed))


class Ear:
    """Hears from the interpreter which files' code it executes (PEP 578), however it is reached: `import`, `runpy`,
    `spec_from_file_location`, `exec`. A text that is compiled under another name is known by its digest again.

    One for each process, since a hook cannot be taken away; it keeps a bounded number of names and never raises.
    """

    heard: ClassVar[Ear | None] = None
    LIMIT = 20_000  # names of each kind
    SIZE = 1 << 20  # bytes; a longer text is no code that somebody wrote

    def __init__(self) -> None:
        self.begun = time.time_ns() - int(since_process_start() * 1e9)
        self.names: set[str] = set()
        self.ran: set[str] = set()
        self.made: set[str] = set()  # of what ran, what is younger than the process
        self.read: set[str] = set()
        self.texts: dict[tuple[int, int], str] = {}  # size and hash of what was compiled, and under which name
        self.faults = 0

    @classmethod
    def listen(cls) -> None:
        if cls.heard is None:
            cls.heard = cls()
            sys.addaudithook(cls.heard.hear)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        try:
            if event == "open":
                if type(args[0]) is str and args[0] not in self.read and len(self.read) < self.LIMIT:
                    self.read.add(os.path.abspath(args[0]))  # noqa: PTH100
            elif event == "exec":
                if args[0].co_filename not in self.names:
                    self._runs(args[0].co_filename)
            elif event == "compile":
                self._compiles(*args)
            elif event == "ctypes.dlopen" and type(args[0]) is str:
                self._runs(args[0])
        except Exception:  # noqa: BLE001 - raised here it would end the code that is executed; it is counted
            self.faults += 1

    def _runs(self, name: str) -> None:
        if len(self.names) >= self.LIMIT:
            return
        self.names.add(name)
        if name.startswith(_installed()):
            return
        path = os.path.abspath(name)  # noqa: PTH100
        if os.path.isfile(path):  # noqa: PTH113 - else somebody made up a name
            (self.made if _made_since(path, self.begun) else self.ran).add(path)

    def _compiles(self, source: object, name: object) -> None:
        text = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
        if isinstance(text, bytes) and 0 < len(text) <= self.SIZE and len(self.texts) < self.LIMIT:
            self.texts[len(text), hash(text)] = os.fsdecode(name) if isinstance(name, bytes) else str(name)

    def files(self) -> set[str]:
        """The files whose code was executed, older than the process."""
        sizes = {size for (size, _), name in self.texts.items() if name in self.names}
        found = set(self.ran)
        for path in self.read - self.ran - self.made if sizes else ():
            if not path.startswith(_installed()) and self._is_compiled(path, sizes):
                found.add(path)
        return found

    def _is_compiled(self, path: str, sizes: Container[int]) -> bool:
        """Whether the text of a file that was read was compiled, under a name whose code was executed."""
        try:
            if os.stat(path).st_size not in sizes or not os.path.isfile(path) or _made_since(path, self.begun):  # noqa: PTH113,PTH116
                return False
            text = Path(path).read_bytes()
        except OSError:
            return False  # gone, or not to be read any more
        return self.texts.get((len(text), hash(text))) in self.names


@cache
def _installed() -> tuple[str, ...]:
    """Where Python and the installed distributions are."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
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
        places = _places(self.pythonpath.split(os.pathsep))
        on_path = {place for place, has in _places(sys.path).items() if has} | _linked()
        installed = (*_installed(), *(place for place in on_path if not place.startswith(root)))
        named = set(_hiding(self.top, ignored))
        for path in {*files, *([str(self.config.inipath)] if self.config.inipath else [])}:
            real = _real(path)
            name = real.removeprefix(root)
            if not real.startswith(root):
                own = os.path.isfile(real) and not real.startswith(installed)  # noqa: PTH113
                outside = own and path != _main() and not _made_since(real, self.begun)
                brought = (outside and not _is_declared_abroad(real, self.declared)) or _is_brought(real, places)
                named |= {real} if brought else set()
            elif _is_outside(name, ignored) and not _made_since(real, self.begun):
                named |= set() if _is_declared(name, self.top, self.declared, ignored) else {name}
        return [clean(name)[0][:2000] for name in sorted(named)[:UNVERSIONED_SHOWN]]


def _main() -> str | None:
    """The script that started the process: an editor's runner, say."""
    return getattr(sys.modules.get("__main__"), "__file__", None)


def _linked() -> set[str]:
    """Directories of what is installed by a link (`pip install -e`), ours too: of `.pth` files, and of finders."""
    found = {os.path.dirname(os.path.dirname(ktxkit.__file__))}  # noqa: PTH120
    for place in {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib")}:
        for link in Path(place).glob("*.pth") if os.path.isdir(place) else ():  # noqa: PTH112
            try:
                lines = link.read_text("utf-8", "replace").splitlines()
            except OSError:
                continue  # gate-ok: one that cannot be read links nothing, for Python neither
            found |= {line.strip() for line in lines if os.path.isdir(line.strip())}  # noqa: PTH112
    for name, module in list(sys.modules.items()):
        mapping = vars(module).get("MAPPING") if name.startswith("__editable__") else None
        found |= {*map(str, mapping.values())} if isinstance(mapping, dict) else set()
    return {os.path.realpath(place) + os.sep for place in found}


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


def _is_declared_abroad(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file outside of the checkout is declared: by its name, or its whole path (`~` is the home)."""
    plain = path.rpartition(os.sep)[2]
    return any(fnmatch(path if "/" in one else plain, os.path.expanduser(one)) for one in patterns)  # noqa: PTH111


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
