"""What a command line can be: what completions and man pages are made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """One option, or (without `flags`) one positional argument. `value` is its metavar; empty for a switch."""

    flags: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...] = ()
    many: bool = False
    group: str = "options"

    @property
    def completes(self) -> str:
        """What its value is: `choices`, `job`, `unit`, `directory`, `file`, or nothing that we know."""
        if self.choices:
            return "choices"
        kind = self.value.strip("[]. ").upper()
        if kind == "JOB":
            return "job"
        if kind == "KEY" and "--unit" in self.flags:
            return "unit"
        if kind in ("DIR", "DIRECTORY"):
            return "directory"
        return "file" if kind in ("FILE", "PATH", "PATCH", "JOBFILE") else ""


@dataclass(frozen=True)
class Command:
    """A command: its docstring, its options in order, and whether it takes a command after `--`."""

    name: str
    doc: str
    options: tuple[Option, ...]
    takes_command: bool = False

    @property
    def summary(self) -> str:
        return self.doc.strip().partition("\n")[0]

    @property
    def switches(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.flags)

    @property
    def positionals(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if not option.flags)
