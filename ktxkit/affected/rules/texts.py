"""Programs and settings that are no Python: scripts, makefiles, data that may name what is to be run or imported.

A test that starts `run.sh` reaches what the script names; one that reads `plugins.json` what is listed there.
"""

from __future__ import annotations

import re

from ktxkit.affected.rules import literals, reading
from ktxkit.affected.rules.sink import ANYTHING, MODULE, Facts, Sink

SUFFIXES = (
    ".sh", ".bash", ".zsh", ".mk", ".bat", ".cmd", ".cfg", ".ini", ".toml", ".yaml", ".yml", ".json",
    ".html", ".htm", ".j2", ".jinja", ".jinja2", ".tmpl", ".tpl", ".mako", ".xml", ".sql", ".js", ".css",
)  # fmt: skip
NAMES = ("Makefile", "makefile", "GNUmakefile", "Justfile", "justfile", "Procfile", "Rakefile")
LONGEST = 256 * 1024  # bytes that are looked at
SETTINGS = SUFFIXES[6:]  # what is no program
_VARIABLE = re.compile(r"\$\([^()]*\([^()]*\)[^()]*\)|\$\([^()]*\)|\$\{[^{}]*\}|\$[\w@<^*#?!]+|%\w+%")
_COMPUTED = re.compile(  # `python $X`, `. "$X"`: what is run is in a variable
    r"""(?:\bpython[\d.]*|\b(?:sh|bash|source)|^[ \t]*\.)[ \t]+["']?\$[({]?[A-Za-z_]\w*[)}]?["']?(?:[ \t;&|]|$)""",
    re.MULTILINE,
)
_IMPORTED = re.compile(r"\b(?:import|from|-m)\s+([\w.]+)")
_WORD = re.compile(r"[\w.*?/~+-]+")


def is_read(path: str, mode: str) -> bool:
    """Whether facts are taken of a file: Python, a program, or settings."""
    if not mode.startswith("100"):
        return False
    return path.endswith((".py", *SUFFIXES)) or mode == "100755" or path.rpartition("/")[2] in NAMES


def key(path: str, oid: str) -> str:
    """Under what the facts of a file are kept: the same bytes are read otherwise under another kind of name."""
    if path.endswith(".py"):
        return oid
    return f"{oid}:text" if path.endswith(SETTINGS) else f"{oid}:program"


def read(path: str, data: bytes) -> Facts:
    """The facts of a file by its name and its first line. Never raises."""
    first = data[:200].partition(b"\n")[0]
    if path.endswith(".py") or (first.startswith(b"#!") and b"python" in first):
        return reading.read(data)
    sink = Sink()
    whole = sink.unit(MODULE, "module", 1)
    text = data[:LONGEST].decode("utf-8", "replace") if b"\0" not in data[:8000] else ""
    sink.part(whole, text)
    program = not path.endswith(SETTINGS)
    if program and _COMPUTED.search(text):
        sink.mark("opaque", "runs a program of a computed name", (whole,))
    composed = _VARIABLE.sub("*", text) if program else ""
    for word in sorted({literals.normal(one) for one in (*_WORD.findall(text), *_WORD.findall(composed))}):
        if word.strip("*.-_?/"):
            sink.mark("words", word, (whole,))
            if literals.dotted(word):
                sink.mark("named", word, (whole,))
                if program:  # python -c 'from tools.go import main'
                    sink.use(ANYTHING, word, (whole,))
    for word in _IMPORTED.findall(text) if program else ():
        sink.use(ANYTHING, word, (whole,))
    return {**sink.document(), "text": True}
