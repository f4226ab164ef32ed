"""The part of the build that pyproject.toml cannot say: completions, man pages and help, from the parsers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
install_data: Any = Distribution().get_command_class("install_data")
MAN = Path("share", "man", "man1")  # below the environment: `man` looks beside each directory of PATH


sys.path[:0] = [str(ROOT), str(ROOT / "commands")]  # of this build's process: what is built, not what is installed


def parsers(distribution: Any) -> list[Any]:
    """The parsers of every command, from the sources that are being built."""
    from ktxkit.app.commands import all_parsers

    scripts = sorted(distribution.entry_points["console_scripts"])
    return all_parsers(f"ktx_{script.partition(':')[2].strip()}" for script in scripts)


class BuildTexts(build_py):
    """Into the wheel, not into a checkout: there they would be those of yesterday's parsers."""

    outputs: list[str]

    def run(self) -> None:
        super().run()
        self.outputs = []
        if self.editable_mode:
            return
        made = parsers(self.distribution)
        from ktx_start import WIDTHS
        from ktxkit.app import commands

        texts = {f"completions.{shell}": commands.render(shell, made) for shell in commands.SHELLS}
        texts |= {f"help.{width}": commands.help_texts(made, width) for width in WIDTHS}
        for name, text in texts.items():
            path = Path(self.build_lib, commands.WRITTEN.relative_to(ROOT), name)
            path.write_text(text, "utf-8")
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
    cmdclass={"build_py": BuildTexts, "install_data": InstallManPages},
    data_files=[(str(MAN), [])],  # made here, filled above
)
