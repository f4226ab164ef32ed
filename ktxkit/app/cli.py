"""Numbers on a command line: what `float` and `int` would take and nothing can be done with is refused.

Outcome words and the exit status each of them has (design, section 3). None is ever reported as another.

One way from result or error to stdout, stderr and exit status.

A command is `parser()`, `run(args, world)` and `main(argv)`; everything else that touches a terminal is here.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.base.rules.named import NamedTuple

if TYPE_CHECKING:
    from ktxkit.store.world import World


LONGEST = 1e9  # seconds: 31 years
LARGEST = 1 << 53  # what JSON readers keep exactly (RFC 8259, section 6)


def seconds(text: str) -> float:
    """A number of seconds (or, where the option says so, of milliseconds). Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LONGEST:  # also what is not a number
        raise ArgumentTypeError(f"{text!r} is no number from 0 to {LONGEST:.0f}")
    return value


def count(text: str) -> int:
    """A whole number that is not negative. Raises ArgumentTypeError."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= LARGEST:
        raise ArgumentTypeError(f"{text!r} is no whole number from 0 to {LARGEST}")
    return value


def from_one(text: str) -> int:
    """A whole number that is to be 1 or more; who takes it says so of 0. Raises ArgumentTypeError."""
    try:
        return count(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 to {LARGEST}") from None


STATUS: dict[str, int] = {
    "accepted": 0,
    "subsumed": 0,
    "noop": 0,
    "done": 0,
    "policy_rejected": 1,
    "dirty_target": 1,
    "target_moved": 1,
    "refused": 1,
    "findings": 1,
    "cannot_run": 2,
    "textual_conflict": 3,
    "semantic_conflict": 3,
    "suspect_revert": 3,
    "verification_failed": 3,
    "partial": 3,
    "failed": 3,
    "interrupted": 130,
    "blocked": 4,
    "invalid_patch": 5,
    "missing_base": 5,
    "broken_contract": 5,
}


def status_of(outcome: str) -> int:
    """Exit status of an outcome word. Raises KeyError for a word that is not one."""
    return STATUS[outcome]


# argparse looks for a catalogue of translations of each of its words; it has none, and looking costs 1.5 ms.
argparse._ = str  # type: ignore[attr-defined]

INTERRUPTED = 130
WIDEST = 100  # columns of help
SAID = 400  # characters of an answer that are repeated where it could not be written


class Result(NamedTuple):
    """What a command has to say. `document` is what `--json` carries; `lines` is the text form on stdout."""

    outcome: str = "done"
    document: Mapping[str, Any] | None = None
    contract: str = ""
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    raw: bytes | None = None
    status: int | None = None
    data: Mapping[str, Any] = MappingProxyType({})

    @property
    def exit_status(self) -> int:
        return status_of(self.outcome) if self.status is None else self.status


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for each option, only to try it: the width is asked for without importing shutil."""

    def __init__(self, prog: str, width: int) -> None:
        super().__init__(prog, width=width - 2)


@cache
def columns() -> int:
    """The terminal's width: COLUMNS, else what the terminal says, else 80."""
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]) > 0:
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


COMMON = frozenset({"help", "version", "directory", "ktx_dir", "json", "quiet"})  # of every command, in every mode


class Parser(argparse.ArgumentParser):
    """The options that every command has. `takes_command`: what follows `--` becomes `args.command`.

    `intermixed`: options may stand between positional arguments, also where some of these may be left out.
    """

    def __init__(
        self, prog: str, doc: str, *, takes_command: bool = False, unit: bool = False, intermixed: bool = False
    ) -> None:
        super().__init__(
            prog=prog,
            description=doc,
            formatter_class=self._formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.doc = doc
        self.width = 0  # columns of help; 0: the terminal's
        self.takes_command = takes_command
        self.intermixed = intermixed
        common = self.add_argument_group("common options")
        common.add_argument("-h", "--help", action="help", help="show this text and exit")
        common.add_argument("--version", action=_Version, help="show the version and exit")
        common.add_argument("-C", dest="directory", metavar="DIR", help="run as if started in DIR")
        common.add_argument("--ktx-dir", metavar="DIR", help="the store, instead of the repository's own (or KTX_DIR)")
        common.add_argument("--json", action="store_true", help="print exactly one JSON document, errors included")
        common.add_argument("-q", "--quiet", action="store_true", help="say nothing but data and errors")
        if unit:
            common.add_argument("--job", metavar="JOB", help="the job (KTX_JOB, or the lease of this worktree)")
            common.add_argument("--unit", metavar="KEY", help="the unit (KTX_UNIT, or the lease of this worktree)")

    def _formatter(self, prog: str) -> _Formatter:
        return _Formatter(prog, self._columns)

    @property
    def _columns(self) -> int:
        return self.width or min(WIDEST, columns())

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse; raises CannotRun for wrong usage, SystemExit after `--help` and `--version`."""
        words, command = list(argv), []
        if self.takes_command and "--" in words:
            cut = words.index("--")
            words, command = words[:cut], words[cut + 1 :]
            if not command:
                self.error("no command follows --")
        args = self.parse_intermixed_args(words) if self.intermixed else self.parse_args(words)
        if self.takes_command:
            args.command = command
        args.refuse = partial(self._refuse, args)
        args.only = partial(self._only, args)
        return args

    def _refuse(self, args: argparse.Namespace, mode: str, *without: str) -> None:
        """Raises CannotRun where an option was given that this mode of the command does not obey: `args.refuse`.

        `without`: names of such options, as in `args`; `mode`: when they are not obeyed.
        """
        if "command" in without and args.command:
            self.error(f"-- CMD is not obeyed {mode}")
        for action in self._actions:
            if action.dest in without and getattr(args, action.dest) not in (action.default, []):
                name = action.option_strings[-1] if action.option_strings else str(action.metavar)
                self.error(f"{name} is not obeyed {mode}")

    def _only(self, args: argparse.Namespace, mode: str, *obeyed: str) -> None:
        """Raises CannotRun where any other option was given than those, and those of every command: `args.only`."""
        others = {action.dest for action in self._actions} | ({"command"} if self.takes_command else set())
        self._refuse(args, mode, *(others - COMMON - set(obeyed)))

    def format_help(self) -> str:
        """Examples first; every line within the terminal's width, 80 where there is none."""
        from ktxkit.app.rules.help_text import render

        self.description = render(self.doc, self._columns - 1)
        if self.takes_command:
            self.usage = None
            shown = self.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
            self.usage = f"{shown}\n{'':{len(self.prog) + 8}}[-- CMD ...]"
        return super().format_help()

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse passes over a stream that cannot be written; a full disk must be said."""
        if message:
            _write(message.removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        """Wrong usage. Raises CannotRun that names what may have been meant."""
        message, near = self._meant(message)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        if self.takes_command and not near and (message.startswith(("unrecognized", "there is no option"))):
            meant = f"what the command itself takes goes behind `--`: {self.prog} -- ...; "
        raise CannotRun(f"{self.prog}: {message}", hint=f"{meant}see {self.prog} --help")

    def _meant(self, message: str) -> tuple[str, list[str]]:
        """What argparse says, shorter where what was meant is known, and the options or words that may be meant."""
        from ktxkit.base.rules.text import nearest

        _, unknown, words = message.partition("unrecognized arguments: ")
        if unknown:
            first = next((word for word in words.split() if word.startswith("-")), "").partition("=")[0]
            flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
            near = nearest(first, flags, 2, 0.7) if first.startswith("--") else []
            return (f"there is no option {first}" if first else message), near
        before, wrong, rest = message.partition("invalid choice: ")
        if wrong:
            word, _, choices = rest.partition(" (choose from ")
            near = nearest(word.strip("'\""), [one.strip("'\") ") for one in choices.split(",")], 2)
            return (f"{before}invalid choice: {word}" if near else message), near
        return message, []


def add_keep_ignored(parser: Parser) -> None:
    """The option of what removes worktrees."""
    text = "copy ignored files out before they go, to .ktx/kept-ignored/"
    parser.add_argument("--keep-ignored", action="append", default=[], metavar="PATTERN", help=text)


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ktxkit import __version__

        print(f"{parser.prog} {__version__}")  # noqa: T201
        parser.exit()


Run = Callable[[argparse.Namespace, "World"], Result]


def execute(parser: Parser, run: Run, argv: Sequence[str] | None) -> int:
    """Run a command to its exit status. No traceback for anything a user can cause."""
    _fill_missing_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    result: Result | None = None
    try:
        args = parser.parse(words)
        from ktxkit.store.world import World

        world = World.here(args.directory, args.ktx_dir, os.environ)
        result = _ran(run, args, world)
        _print_result(parser.prog, result, as_json=args.json, quiet=args.quiet)
        status = result.exit_status
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else 0
    except KtxError as error:
        status = _print_error(parser.prog, error, as_json)
    except BrokenPipeError:
        status = _quiet_pipe()
    except OSError as error:
        status = _unsaid(parser.prog, error, result) if result else _print_error(parser.prog, _from_os(error), as_json)
    except KeyboardInterrupt:
        status = _say(f"{parser.prog}: interrupted", INTERRUPTED)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = _quiet_pipe()
    except OSError as error:
        status = _unsaid(parser.prog, error, result)
    return status


def _ran(run: Run, args: argparse.Namespace, world: World) -> Result:
    try:
        return run(args, world)
    finally:
        world.close()


def _unsaid(prog: str, error: OSError, result: Result | None) -> int:
    """stdout cannot be written: said on stderr, with what was done all the same. What waits for stdout is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _print_error(prog, _from_os(error, result), as_json=False)


def _fill_missing_streams() -> None:
    """Started with a standard stream closed (`>&-`): the next file opened would take its place and be written into."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            assert fd == number, "the lowest free descriptor is the missing one"
            setattr(sys, name, open(fd, "w" if number else "r"))  # noqa: SIM115 - it lives as long as the process


def _from_os(error: OSError, result: Result | None = None) -> CannotRun:
    """A full disk, a missing permission and their kin. `result`: what could not be said, though it is done."""
    hints = {28: "the disk is full", 122: "the quota is used up", 27: "a file size limit (ulimit -f) was reached"}
    hint = hints.get(error.errno or 0, "check permissions, free space and that nobody removed it meanwhile")
    why = error.strerror or str(error)
    if result is not None:
        said = next((line for line in result.lines if line.strip()), "")[:SAID]
        done = f"{result.outcome}: {said.removeprefix(f'{result.outcome}: ')}" if said else result.outcome
        why = f"it is done, but its answer could not be written ({why}): {done}"
    return CannotRun(why, location=_readable_name(error), hint=hint)


def _readable_name(error: OSError) -> str:
    from ktxkit.base.rules.text import printable

    return printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes | os.PathLike) else ""


def _quiet_pipe() -> int:
    """The reader went away: nothing more can be said to it (128 + SIGPIPE, as the shell has it)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _print_result(prog: str, result: Result, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        _write(envelope(prog, result))
    elif result.raw is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(result.raw)
    else:
        for text in result.lines:
            _write(text)
    if not quiet:
        for text in result.notes:
            _say(text)


def envelope(prog: str, result: Result) -> str:
    """The one JSON document of `--json`: contract `result`, the command's own document inside it."""
    from ktxkit.base import contracts

    if result.document is not None and result.contract:
        contracts.validate(result.contract, dict(result.document))
    body = {
        "schemaVersion": contracts.SCHEMA_VERSION,
        "kind": "result",
        "command": prog,
        "outcome": result.outcome,
        "status": result.exit_status,
        **({"contract": result.contract} if result.contract else {}),
        **({"document": dict(result.document)} if result.document is not None else {}),
        **({"data": dict(result.data)} if result.data else {}),
    }
    contracts.validate("result", body)
    from ktxkit.base.rules.text import indented

    return indented(body)


def _print_error(prog: str, error: KtxError, as_json: bool) -> int:
    if as_json:
        import json

        body = {
            "schemaVersion": 1,
            "kind": "result",
            "command": prog,
            "outcome": error.outcome,
            "status": error.status,
            "error": {
                "kind": type(error).__name__,
                "message": error.message,
                **({"where": error.location} if error.location else {}),
                **({"hint": error.hint} if error.hint else {}),
            },
            **({"data": error.data} if error.data else {}),
        }
        _write(json.dumps(body, indent=2, ensure_ascii=True))
        return error.status
    place = f"{error.location}: " if error.location else ""
    lead = "" if error.message.startswith(f"{prog}:") else f"{prog}: "
    _say(_shown(f"{lead}{place}{error.message}"))
    if error.hint:
        _say(_shown(f"  hint: {error.hint}"))
    return error.status


def _shown(text: str) -> str:
    """Foreign names and output inside an error cannot drive the terminal: all but line breaks is made readable."""
    from ktxkit.base.rules.text import printable

    return "\n".join(printable(line) for line in text.split("\n"))


def _write(text: str) -> None:
    sys.stdout.write(_encodable(text, sys.stdout) + "\n")


def _say(text: str, status: int = 0) -> int:
    sys.stdout.flush()
    sys.stderr.write(_encodable(text, sys.stderr) + "\n")
    return status


def _encodable(text: str, stream: Any) -> str:
    """The text in what the stream can show; what it cannot show is escaped, never an error."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def delegate(prog: str, find: Callable[[], Callable[[Sequence[str] | None], int]], argv: Sequence[str]) -> int:
    """Run another command's main in this process; a name that is none is our own error."""
    try:
        main = find()
    except KtxError as error:
        return _print_error(prog, error, "--json" in argv)
    return main(argv)
