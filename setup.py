"""The part of the build that pyproject.toml cannot say: completions and man pages are written from the parsers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
install_data: Any = Distribution().get_command_class("install_data")
MAN = Path("share", "man", "man1")  # below the environment: `man` looks beside each directory of PATH


def parsers(distribution: Any) -> list[Any]:
    """The parsers of every command, from the sources that are being built."""
    sys.path[:0] = [str(ROOT), str(ROOT / "commands")]
    try:
        from ktxkit.app.commands import all_parsers

        scripts = sorted(distribution.entry_points["console_scripts"])
        return all_parsers(script.partition("=")[2].partition(":")[0].strip() for script in scripts)
    finally:
        del sys.path[:2]


class BuildCompletions(build_py):
    """Into the wheel, not into a checkout: there they would be those of yesterday's parsers."""

    outputs: list[str]

    def run(self) -> None:
        super().run()
        self.outputs = []
        if self.editable_mode:
            return
        made = parsers(self.distribution)
        from ktxkit.app import commands

        place = Path(self.build_lib, commands.WRITTEN.relative_to(ROOT))
        for shell in commands.SHELLS:
            path = place / f"completions.{shell}"
            path.write_text(commands.render(shell, made), "utf-8")
            self.outputs.append(str(path))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *getattr(self, "outputs", [])]


class InstallManPages(install_data):
    """The man pages of every command, of an editable install too: `git ktx --help` opens that of `git-ktx`."""

    def run(self) -> None:
        super().run()
        made = parsers(self.distribution)
        from ktxkit.app import commands

        place = Path(self.install_dir) / MAN
        for name, page in commands.man_pages(made).items():
            path = place / f"{name}.1"
            path.write_text(page, "utf-8")
            self.outfiles.append(str(path))


class WithData(Distribution):
    """An editable install installs data files only where `has_data` says so, which setuptools itself does not have."""

    def has_data(self) -> bool:
        return bool(self.has_data_files())


setup(
    distclass=WithData,
    cmdclass={"build_py": BuildCompletions, "install_data": InstallManPages},
    data_files=[(str(MAN), [])],  # made here, filled above
)
