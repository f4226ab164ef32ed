"""Whether a shell command runs pytest without the runner. Only what is a command counts: a word in a text does not."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[0-9.]+[smhd]?")
PREFIXES = {"env", "time", "nice", "nohup", "exec", "command", "sudo", "timeout", "xvfb-run", "stdbuf", "ionice"}
RUNNERS = {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run")}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_PYTEST = re.compile(r"(?:.*/)?(?:pytest|py\.test)(?:-3)?")
ENDS = {";", "&&", "||", "|", "&", "\n", "(", ")", "{", "}", "then", "do", "else", "!", "if", "while"}


def bare(command: str) -> str:
    """The part of a command line that runs pytest by itself; empty where none does."""
    for words in _commands(command):
        if _runs_pytest(words):
            return " ".join(words)
    return ""


def _commands(text: str) -> list[list[str]]:
    """The simple commands of a line: quoted text is one word, so that what it says is not taken for a command."""
    found: list[list[str]] = [[]]
    for word in _words(text):
        if word in ENDS:
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


def _words(text: str) -> list[str]:
    token = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s;&|()'"\\])+|&&|\|\||[;&|()\n]""", re.DOTALL)
    return [found[0] for found in token.finditer(text)]


def _runs_pytest(words: list[str]) -> bool:
    words = list(words)
    while words:
        first = words[0].strip("'\"")
        if (
            _ASSIGNMENT.match(first)
            or first.startswith("-")
            or re.fullmatch(r"[0-9.]+[smhd]?", first)
            or first.rsplit("/", 1)[-1] in PREFIXES
        ):
            words.pop(0)
        elif len(words) > 1 and (first, words[1]) in RUNNERS:
            del words[:2]
        else:
            break
    if not words:
        return False
    first = words[0].strip("'\"")
    if _PYTEST.fullmatch(first):
        return True
    return bool(_PYTHON.fullmatch(first)) and _module(words[1:]) in ("pytest", "py.test")


def _module(words: list[str]) -> str:
    """The module of `python ... -m MODULE`."""
    skip = False
    for at, word in enumerate(words):
        if skip or word in ("-X", "-W"):  # these take a value
            skip = not skip
            continue
        if word == "-m" and at + 1 < len(words):
            return words[at + 1]
        if word.startswith("-m") and len(word) > 2:
            return word[2:]
        if not word.startswith("-"):
            return ""
    return ""
