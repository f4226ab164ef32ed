"""What the console scripts start: a command, or the text of its `--help` as it was written when ktxkit was built.

A script imports the function of its own name (`job-run` is `ktx_start:job_run`). To import the parser, and all that it
is made of, takes longer than Python itself to start; a text that is known needs none of it. Where the text was not
written (an editable install, a terminal of another width, a stream of another encoding) the command's parser makes it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's takes 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

WRITTEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ktxkit", "app", "assets")  # noqa: PTH100, PTH118, PTH120
HELP = ("-h", "--help")
WIDTHS = (80, 100)  # columns; texts are never wider than the last


def __getattr__(name: str) -> Callable[[], int]:
    """The `main` of a console script, by the name of its function. Raises AttributeError for one of Python's own."""
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda: start(name)


def start(name: str) -> int:
    """Run the command of the module `ktx_NAME` with the words of this process; its exit status."""
    text = written(name, sys.argv[1:])
    if text and sys.stdout is not None and shown(text):
        return 0
    from importlib import import_module

    status: int = import_module(f"ktx_{name}").main()
    return status


def written(name: str, words: list[str]) -> bytes:
    """The help that these words ask for and nothing else, at the width of the terminal; empty where there is none."""
    *sub, last = words or [""]
    if last not in HELP or len(sub) > (name == "git_ktx"):
        return b""
    try:
        with open(os.path.join(WRITTEN, f"help.{width()}"), "rb") as file:  # noqa: PTH118
            texts = file.read()
    except OSError:
        return b""
    command = " ".join(["git ktx", *sub] if sub else [name.replace("_", "-")])
    _, named, rest = texts.partition(f"\0{command}\n".encode(errors="surrogateescape"))
    return rest.partition(b"\0")[0] if named else b""


def width() -> int:
    """The terminal's width, as the parsers ask for it, and no more than the widest text."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return min(int(said), WIDTHS[-1])
    try:
        return min(os.get_terminal_size(1).columns or WIDTHS[0], WIDTHS[-1])
    except OSError:
        return WIDTHS[0]


def shown(text: bytes) -> bool:
    """Whether the text, which is ASCII, went out. What cannot be written is left to the command, which says why."""
    if sys.stdout.encoding.lower().startswith(("utf-16", "utf-32")):
        return False
    try:
        while text:
            text = text[os.write(1, text) :]
    except OSError:
        return False
    return True
