"""The pytest plugin: records every run into the repository's ledger (entry point `pytest11`).

On whenever the repository has a `.ktx/`, or KTX_LEDGER is set: to a directory (the store to use), `on` (the
repository's own, made where missing) or `off`. Off also with `-p no:ktxkit`. Where it is off it has imported nothing
and done nothing but look for `.git` and `.ktx` above the root directory. Recording never changes a test's outcome or
pytest's status.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ktxkit.ledger import OFF, ON, VARIABLE

if TYPE_CHECKING:
    from ktxkit.store.world import World

TELLING = ("help", "version", "markers", "cacheshow")  # options by which pytest tells something and collects nothing


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder that belongs into this process, or none."""
    try:
        if "_ktxkit_tracer" in sys.modules:
            _follow(config)
        if hasattr(config, "workerinput"):
            if config.workerinput.get("ktxkit"):
                from ktxkit.ledger.recording.recorder import WorkerRecorder

                config.pluginmanager.register(WorkerRecorder(config), "ktxkit-recorder")
            return
        world = None if any(getattr(config.option, name, None) for name in TELLING) else _world(config)
        if world is not None:
            from ktxkit.ledger.recording.recorder import Recorder

            config.pluginmanager.register(Recorder(config, world), "ktxkit-recorder")
    except Exception as error:  # noqa: BLE001 - a fault of the recording must not stop the tests; it is said
        sys.stderr.write(f"ktxkit: this run is not recorded: {error}\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """A conftest that cannot be imported ends pytest before `pytest_configure`: that run is recorded, too."""
    _listen(early_config)
    try:
        return (yield)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if not (os.environ.get("PYTEST_XDIST_WORKER") and "execnet" in sys.modules and sys.argv[:1] == ["-c"]):
            _unopened(early_config, error)
        raise


def _listen(config: pytest.Config) -> None:
    """Hear from now on which code is executed, where the run is recorded."""
    try:
        if _world(config) is not None:
            from ktxkit.ledger.recording.selection import Ear

            Ear.listen()
    except Exception as error:  # noqa: BLE001 - as in `pytest_configure`
        sys.stderr.write(f"ktxkit: which code this run executes is not known: {error}\n")


def _unopened(config: pytest.Config, error: BaseException) -> None:
    try:
        world = _world(config)
        if world is not None:
            from ktxkit.ledger.recording.opening import unopened

            unopened(config, world, error)
    except Exception as fault:  # noqa: BLE001 - as in `pytest_configure`
        sys.stderr.write(f"ktxkit: this run is not recorded: {fault}\n")


def _follow(config: pytest.Config) -> None:
    """In a run of `test-run --trace`: tell the tracer which test it is at."""
    from ktxkit.ledger.recording import recorder

    found = recorder.tracer()
    if found is not None:
        config.pluginmanager.register(recorder.Contexts(found), "ktxkit-contexts")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each xdist worker that its run is recorded."""
    recorder = node.config.pluginmanager.getplugin("ktxkit-recorder")
    if recorder is not None:
        node.workerinput["ktxkit"] = {"configured": recorder.opening.configured}


def _world(config: pytest.Config) -> World | None:
    """The world to record in, or None where recording is off."""
    wish = os.environ.get(VARIABLE, "")
    place = os.environ.get("KTX_DIR") or None
    if wish.lower() in OFF:
        return None
    if wish and wish.lower() not in ON:
        place = str(config.invocation_params.dir / wish)
    elif not wish and not (Path(place).is_dir() if place else has_store(config.rootpath)):
        return None
    from ktxkit.store.world import World

    return World(config.rootpath, os.environ, ktx_dir=place)


def has_store(start: Path) -> bool:
    """Whether the repository that holds `start` has a store, told from the file system alone."""
    for directory in (start, *start.parents):
        dotgit = directory / ".git"
        if dotgit.is_dir():
            return (directory / ".ktx").is_dir() or (dotgit / "ktx").is_dir()
        if dotgit.is_file():
            return _linked_has_store(directory, dotgit)
        if (directory / "HEAD").is_file() and (directory / "objects").is_dir():
            return (directory / "ktx").is_dir()
    return False


def _linked_has_store(directory: Path, dotgit: Path) -> bool:
    """A linked worktree (its git dir names the common one), a submodule or a separate git dir."""
    words = dotgit.read_text("utf-8", "surrogateescape").strip().removeprefix("gitdir:").strip()
    git_dir = directory / words
    shared = git_dir / "commondir"
    common = git_dir / shared.read_text("utf-8", "surrogateescape").strip() if shared.is_file() else git_dir
    common = Path(os.path.realpath(common))
    return any(place.is_dir() for place in (common.parent / ".ktx", common / "ktx", directory / ".ktx"))
