"""Whether a shell command runs pytest without the runner. Only what is a command counts: a word in a text does not."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[0-9.]+[smhd]?")
PREFIXES = {
    "env",
    "time",
    "nice",
    "nohup",
    "exec",
    "command",
    "sudo",
    "timeout",
    "xvfb-run",
    "stdbuf",
    "ionice",
    "xargs",
    "{}",
}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "busybox"}
DEEPEST = 5  # commands within commands
EXEC = {"-exec", "-execdir", "-ok", "-okdir"}  # find(1)
RUNNERS = {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run")}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_PYTEST = re.compile(r"(?:.*/)?(?:pytest|py\.test)(?:-3)?")
ENDS = {";", "&&", "||", "|", "&", "\n", "(", ")", "{", "}", "then", "do", "else", "!", "if", "while"}


def bare(command: str, depth: int = DEEPEST) -> str:
    """The part of a command line that runs pytest by itself; empty where none does."""
    for words in _commands(command):
        if _runs_pytest(words):
            return " ".join(words)
    if depth == 0:
        return ""
    within = [text for words in _commands(command) for text in _handed_on(words)] + _substituted(command)
    return next((found for text in within if (found := bare(text, depth - 1))), "")


def _handed_on(words: list[str]) -> list[str]:
    """Texts that a command gives to a shell, or to itself: `bash -c TEXT`, `eval TEXT`, `find -exec COMMAND`."""
    found = [" ".join(words[at + 1 :]) for at, word in enumerate(words) if word in EXEC and "find" in words[0]]
    plain = [_plain(word) for word in words]
    for at, word in enumerate(plain):
        if word == "eval":
            return [*found, " ".join(plain[at + 1 :])]
        if word.rsplit("/", 1)[-1] in SHELLS:
            return [*found, *_text_of_shell(plain[at + 1 :])]
        if not (_ASSIGNMENT.match(word) or word.startswith("-") or word.rsplit("/", 1)[-1] in PREFIXES):
            break
    return found


def _text_of_shell(words: list[str]) -> list[str]:
    """The text after the options of `sh -c`. A script's own arguments are none of the shell's."""
    asked, skip = False, False
    for word in words:
        if skip:
            skip = False
        elif word.startswith(("-", "+")):
            asked = asked or (word.startswith("-") and not word.startswith("--") and "c" in word)
            skip = word.endswith("o") and not word.startswith("--")  # -o pipefail
        else:
            return [word] if asked else []
    return []


def _plain(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    if len(word) > 1 and word[0] == word[-1] == '"':
        return re.sub(r'\\(["\\$`])', r"\1", word[1:-1])
    return word


def _substituted(text: str) -> list[str]:
    """What `$(...)` and backticks run, also within double quotes; single quotes hold no command."""
    open_text = re.sub(r"""("(?:\\.|[^"\\])*")|'[^']*'""", lambda found: found[1] or "''", text, flags=re.DOTALL)
    ticks = open_text.split("`")[1::2]
    return ticks + [part.partition(")")[0] for part in open_text.split("$(")[1:]]


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
