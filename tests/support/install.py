"""The project installed as its users install it: a wheel from the tracked files, a fresh virtual environment."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def wrong_install() -> str | None:
    """Why this Python cannot run the tests: what it imports of ours is not of this checkout. None if it can."""
    for name, folder in {"ktxkit.schemas": "schemas", "ktx_job_run": "commands"}.items():
        spec = find_spec(name)
        origins = [*(spec.submodule_search_locations or [spec.origin or ""])] if spec else []
        if not any(Path(origin).is_relative_to(ROOT / folder) for origin in origins):
            return (
                f"the tests need ktxkit installed in editable mode from {ROOT}, but {sys.executable} finds {name} "
                f"{'in ' + ', '.join(origins) if origins else 'nowhere'}, not in {ROOT / folder}. Run `make test`, or "
                f"`{sys.executable} -m pip install -e '.[dev]'` in {ROOT} and pytest again."
            )
    return None


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A directory that one worker makes and all share. `make` fills it at its final place; a failure is not retried."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place = shared / name
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / f"{name}.made").exists():
            place.mkdir()
            make(place)
            (shared / f"{name}.made").touch()
    return place


def export(place: Path) -> Path:
    """The tracked files as they are in the checkout: what a clone holds, without what lies around."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.split(b"\0")):
        source, target = ROOT / os.fsdecode(name), place / os.fsdecode(name)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    return place


def checked(*argv: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """stdout of a command that must succeed; both streams are shown where it does not."""
    done = subprocess.run(
        [*map(str, argv)], cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def venv(place: Path, *packages: str | Path) -> Path:
    """A fresh environment with these packages installed; returns its bin directory."""
    checked(sys.executable, "-m", "venv", "--without-pip", place)
    pip(place / "bin", "install", *packages)
    return place / "bin"


def pip(bin: Path, *args: str | Path) -> None:
    """Our pip on an environment that has none: installing one there would take longer than all that it installs."""
    checked(sys.executable, "-m", "pip", "--python", bin / "python", *args, "-q", "--disable-pip-version-check")
