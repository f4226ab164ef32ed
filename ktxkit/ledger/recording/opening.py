"""What is known of a run before it starts: its environment and tools. Told by pytest's own config.

The opened run: its id, its event file, its line in the ledger, and how it is closed.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ktxkit.base import files, owners
from ktxkit.base.clock import since_process_start, timestamp
from ktxkit.base.errors import KtxError
from ktxkit.base.rules.digests import digest_of
from ktxkit.git import snapshot
from ktxkit.ledger import asking, chain, ledger
from ktxkit.ledger.asking import new_run_id
from ktxkit.ledger.event_log import Artifacts, EventWriter, encode
from ktxkit.ledger.recording.selection import (
    ARGUMENTS_SHOWN,
    Unversioned,
    directory,
    paths,
    selection,
)
from ktxkit.ledger.rules.fold import INTERRUPTED, USAGE
from ktxkit.ledger.rules.payload import clean
from ktxkit.store import config as settings
from ktxkit.store.rules import names
from ktxkit.store.store import Store
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.ledger.redis import Mirror


VARIABLES = (
    *("PYTHONHASHSEED", "PYTHONPATH", "PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONWARNINGS"),
    *("TZ", "LANG", "LC_ALL"),
)
MARKED = ("CI",)  # variables of which only the presence is part of the profile


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


def packages(directories: list[str]) -> list[str]:
    """Names and versions of what is installed, from the names of the metadata directories alone."""
    found = set()
    for place in directories:
        if place and Path(place).is_dir():
            found |= {entry.name for entry in os.scandir(place) if entry.name.endswith((".dist-info", ".egg-info"))}
    return sorted(clean(name)[0] for name in found)


def tools(config: pytest.Config) -> dict[str, Any]:
    """Versions of pytest and its plugins."""
    from ktxkit import __version__

    found = sorted({f"{dist.project_name} {dist.version}" for _, dist in config.pluginmanager.list_plugin_distinfo()})
    return {"pytest": pytest.__version__, "ktxkit": __version__, "plugins": found[:200]}


# Who deselects for which option: the module that calls the hook.
DESELECTING = {"_pytest.mark": ("-m", "-k"), "_pytest.main": ("--deselect",)}
RUNNER_VARIABLE = "KTX_RUNNER"  # what `test-run` tells the plugin: JSON, taken out of the environment at once


MIRROR_VARIABLE = "KTX_REDIS_URL"


def beside_top(config: pytest.Config, top: Path | None) -> list[dict[str, str]]:
    """A root directory that is not the top of the checkout narrows like an option: what lies outside it is not seen."""
    if top is None or os.path.realpath(top) == os.path.realpath(config.rootpath):
        return []
    place = os.path.relpath(os.path.realpath(config.rootpath), os.path.realpath(top))
    return [{"option": "root directory", "value": clean(place)[0][:500]}]


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


def order(config: pytest.Config) -> dict[str, str]:
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


class Opening:
    """Where the events of this run go. Without a writer they are counted as dropped."""

    def __init__(self, config: pytest.Config, world: World, run: str, runner: dict[str, Any]) -> None:
        self.config, self.world, self.run, self.runner = config, world, run, runner
        self.project = runner.get("project") or asking.resolve(world)
        self.writer: EventWriter | None = None
        self.store = world.store
        self.timer = (0.0, "")
        # When the process began (ns): files that are newer are made by the run itself.
        self.begun = time.time_ns() - int(since_process_start() * 1e9)
        self.outside: tuple[bytes, ...] = ()  # what of the checkout is in no tree, at its end
        self.configured: list[str] = []  # options of `addopts` that leave tests out
        self.trouble = ""
        self.in_ledger = False
        self._open()
        self.artifacts = Artifacts(self.store.path(names.ARTIFACTS))
        self.mirror = self._mirror()

    def _mirror(self) -> Mirror | None:
        """A copy of the events on a Redis stream, where one is asked for."""
        url = os.environ.get(MIRROR_VARIABLE)
        if not url:
            return None
        from ktxkit.ledger import redis

        return redis.Mirror(url, redis.stream_of(self.project, self.run), os.environ)

    def _open(self) -> None:
        """The event file in the store; where that cannot be written, in the user's state directory; or nowhere."""
        state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
        try:
            self.store = self.world.writable_store
            self._open_in(self.store)
            self._enter()
            return
        except (OSError, KtxError) as error:
            self.trouble = f"{self.store.root}: {_said(error)}"
        try:
            self.store = Store(Path(state) / "ktxkit" / names.slug(self.project))
            self._open_in(self.store)
            self.trouble += f"; recorded in {self.store.root}"
        except (OSError, KtxError) as error:
            self.trouble += f"; {_said(error)}: nothing is recorded"

    def _open_in(self, store: Store) -> None:
        if self.writer is None:
            path = store.path(names.events_file(self.run))
            files.make_dirs(path.parent)
            self.writer = EventWriter(path)

    def _enter(self) -> None:
        ledger.opened(self.world, self.run, self.project, parent=os.environ.get("KTX_TEST_RUN"))
        self.in_ledger = True

    @property
    def sink(self) -> Callable[[str], None]:
        """Where records go, by the shortest way."""
        return self.put if self.writer is None or self.mirror is not None else self.writer.put

    def put(self, record: str) -> None:
        if self.writer is not None:
            self.writer.put(record)
        if self.mirror is not None:
            self.mirror.put(record)

    def put_last(self, record: Mapping[str, Any]) -> None:
        """The record that ends the run, sealed with the store's key where there is one."""
        made = encode(record) if self.writer is None else chain.put_sealed(self.world, self.writer, record)
        if self.mirror is not None:
            self.mirror.put(made)

    def flush(self) -> None:
        if self.writer is not None:
            self.writer.flush()

    def run_started(self, parent: str | None) -> dict[str, Any]:
        """The first event: all that is known before collection."""
        count, dist = workers(self.config)
        made: dict[str, Any] = {
            "event": "run_started",
            "schemaVersion": 1,
            "t": 0,
            "run": self.run,
            "at": timestamp(self.world.clock.now()),
            "project": self.project,
            "trigger": self.runner.get("trigger", "unmanaged"),
            "managed": bool(self.runner),
            "mode": mode(self.config),
            "argv": [clean(arg)[0][:4000] for arg in self.config.invocation_params.args][:ARGUMENTS_SHOWN],
            "directory": directory(self.config),
            "selection": self._selection(),
            "environment": environment(os.environ, self._variables()),
            "workers": count,
            "scheduling": dist,
            "order": order(self.config),
            "owner": owners.this_owner().document(),
            "load": round(os.getloadavg()[0], 2),
            "tools": tools(self.config),
        }
        for key in ("declared", "preconditions", "runner"):
            if key in self.runner:
                made[key] = self.runner[key]
        if parent:
            made["parent"] = parent
        return made | self._tree("tree")

    def _variables(self) -> Iterable[str]:
        """The variables that the configuration names, whoever reads it: the runner, or we where there is none."""
        if self.runner:
            return cast(Iterable[str], self.runner.get("variables", ()))
        try:
            return cast(Iterable[str], settings.ledger(self.world).get("environment", ()))
        except KtxError as error:
            self.trouble = self.trouble or f"its environment is not known: {_said(error)}"
            return ()

    def _selection(self) -> dict[str, Any]:
        made = selection(self.config) | {"paths": paths(self.config)}
        self.configured = [one["option"] for one in made.get("configured", ())]
        try:
            top = self.world.repository.top
        except KtxError:
            return made  # the tree is not known either, and says why
        return made | {"narrowing": [*made["narrowing"], *beside_top(self.config, top)]}

    def tree_after(self) -> dict[str, Any]:
        """The tree when the tests are done: what ran is only proven where it is the same as before."""
        return self._tree("treeAfter")

    def _tree(self, key: str) -> dict[str, Any]:
        try:
            repository = self.world.repository
            if repository.top is None:
                return {}
            state = snapshot.take(self.world.git, repository)
            self.outside = state.outside
            return {key: state.document()}
        except KtxError as error:
            return {key: {"dirty": False, "why": _said(error)[:500]}} if self.world.cwd.is_dir() else {}

    def unversioned(self, files: Iterable[str]) -> dict[str, list[str]]:
        """What of the loaded files is in no commit, where anything is; after `tree_after`."""
        try:
            top = self.world.repository.top
            own = settings.FILE.encode() not in self.outside  # a configuration of the project declares
            declared = settings.ledger(self.world).get("generated", []) if own else []
        except KtxError:
            return {}  # the tree is not known either, and says why
        if top is None:
            return {}
        pythonpath = dict(variables(os.environ)).get("PYTHONPATH", "")
        found = Unversioned(self.config, top, self.outside, self.begun, declared, pythonpath).among(files)
        return {"unversioned": found} if found else {}

    def health(self, faults: int, first: str) -> dict[str, Any]:
        """What was not recorded, where anything was not."""
        found: dict[str, Any] = {}
        if self.writer is not None:
            found |= {"dropped": self.writer.dropped, "fault": self.writer.fault[:500], "forks": self.writer.forks}
        found |= {"unkept": self.artifacts.refused, "faults": faults}
        found["fault"] = found.get("fault") or first or self.trouble[:500]
        if self.mirror is not None:
            self.mirror.settle()
        if self.mirror is not None and self.mirror.degraded:
            found["transportDegraded"] = True
            found["fault"] = found["fault"] or f"redis: {self.mirror.fault or 'events were dropped'}"[:500]
        return {key: value for key, value in found.items() if value}

    def end(self, faults: int, first: str) -> str:
        """Close the file and, where nobody waits for the run, its entry in the ledger. Returns what is to be said."""
        writer = self.writer
        if writer is None:
            return f"ktxkit: run {self.run} is not recorded: {self.trouble}"
        if os.getpid() != writer.owner_pid:
            return ""
        writer.close()
        if self.mirror is not None:
            self.mirror.close()
        if self.in_ledger and not self.runner:
            ledger.settle(self.world, self.run)
        lost = writer.dropped + faults
        if self.mirror is not None and self.mirror.degraded and not lost and not self.trouble:
            return (
                f"ktxkit: run {self.run} is recorded; its copy on Redis is not whole: {self.mirror.fault or 'dropped'}"
            )
        if lost or self.trouble:
            why = self.trouble or writer.fault or first
            return f"ktxkit: run {self.run} is recorded in part ({lost} records dropped): {why}"
        return ""


def open_run(config: pytest.Config, world: World) -> Opening:
    """Take the runner's word, if there is one, and open the run."""
    runner = json.loads(os.environ.pop(RUNNER_VARIABLE, "{}"))
    run = runner.get("run") or new_run_id(world.clock.now())
    return Opening(config, world, run, runner)


def unopened(config: pytest.Config, world: World, error: BaseException) -> None:
    """Record a run that ends before pytest is configured: a conftest that cannot be imported, options that are none.

    pytest ends with its status for wrong usage, unless the conftest itself left the process.
    """
    opening = open_run(config, world)
    facts: dict[str, Any] = {
        "event": "run_started",
        "schemaVersion": 1,
        "t": 0,
        "run": opening.run,
        "at": timestamp(world.clock.now()),
        "project": opening.project,
        "trigger": opening.runner.get("trigger", "unmanaged"),
        "managed": bool(opening.runner),
        "mode": "run",
        "argv": [clean(arg)[0][:4000] for arg in config.invocation_params.args][:ARGUMENTS_SHOWN],
        "owner": owners.this_owner().document(),
        **{key: opening.runner[key] for key in ("declared", "preconditions", "runner") if key in opening.runner},
    }
    said = clean(str(error).strip() or type(error).__name__)[0]
    end = {"event": "run_finished", "t": 0, "at": facts["at"], "exitStatus": USAGE, "stop": said[:500]}
    opening.put(encode(facts))
    if isinstance(error, SystemExit | KeyboardInterrupt):
        by = "Exit" if isinstance(error, SystemExit) else "KeyboardInterrupt"
        message = f"it left while it was loaded: {type(error).__name__}({said[:400]})"
        opening.put(encode({"event": "interrupted", "t": 0, "by": by, "message": message}))
        end["exitStatus"] = _status_of(error)
    opening.put_last(end)
    told = opening.end(0, "")
    if told:
        sys.stderr.write(told + "\n")


def _status_of(error: SystemExit | KeyboardInterrupt) -> int:
    """The status with which the process ends: as sys.exit has it, or pytest's of an interrupted run."""
    if not isinstance(error, SystemExit):
        return INTERRUPTED
    return error.code & 0xFF if isinstance(error.code, int) else 0 if error.code is None else 1


def _said(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return error.message if isinstance(error, KtxError) else str(error)
