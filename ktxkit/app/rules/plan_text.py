"""A job's plan and the words for it: made of a command line, shown before it runs, written as a job file."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ktxkit.base.rules.text import plural, printable
from ktxkit.work.rules.job_file import PROJECT, RECONCILE, SET_UP

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFile, JobUnit
    from ktxkit.work.rules.job_file import JobCommand, JobPlan

IN_DIRECTORY: Final = ("/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh")  # then the directory, and argv
KEY_LENGTH = 40  # characters of a key that is made of a command's words
COMMAND_SHOWN = 100  # characters of a command in a plan
SUFFIXES = (".sh", ".bash", ".py", ".js", ".ts", ".rb", ".pl")  # of scripts: no part of a key
RUNNERS: Final = frozenset(  # what runs a script that is named after it
    {
        "bash",
        "bun",
        "deno",
        "env",
        "exec",
        "node",
        "npx",
        "perl",
        "python",
        "python3",
        "ruby",
        "run",
        "sh",
        "time",
        "uv",
    }
)
SHELLS = ("sh", "bash", "dash", "zsh")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./=-]+)*")
NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # of YAML 1.1 and 1.2
INTERPRETERS: Final = {".sh": "sh", ".bash": "bash", ".py": "python3", ".js": "node", ".rb": "ruby", ".pl": "perl"}


def words_of(command: str) -> list[str]:
    """The words of a shell command, as far as they can be told; the text itself where its quotes do not close."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def key_of(words: Sequence[str]) -> str:
    """A unit's key from its command: `rename` of `python codemods/rename.py --all`, `sed` of `sed -i s/a/b/ f`."""
    plain = [word for word in words if not ASSIGNMENT.match(word)]
    if len(plain) > 2 and plain[1] == "-c" and plain[0].rpartition("/")[2] in SHELLS:
        return key_of(words_of(plain[2]))
    named = [word for word in plain if word.rpartition("/")[2] not in RUNNERS and not word.startswith("-")]
    first = (named or plain or ["unit"])[0].rstrip("/").rpartition("/")[2]
    stem = next((first.removesuffix(end) for end in SUFFIXES if first.endswith(end) and first != end), first)
    return _clean(stem)


def _clean(text: str) -> str:
    key = UNSAFE.sub("-", text).strip(".-")[:KEY_LENGTH].rstrip(".-")
    return f"{key}-1" if key in (PROJECT, RECONCILE) else key or "unit"


def keys_of(commands: Sequence[Sequence[str]]) -> list[str]:
    """A key for each command. Where two have the same, their paths tell them apart, else a number."""
    keys = [key_of(words) for words in commands]
    often = Counter(keys)
    longer = [
        _clean("-".join(words[0].removeprefix("./").rpartition(".")[0].split("/")[-2:])) if often[key] > 1 else key
        for key, words in zip(keys, commands, strict=True)
    ]
    scripts = all("/" in words[0] for words in commands)
    best = longer if scripts and len(set(longer)) == len(longer) else keys
    seen: Counter[str] = Counter()
    found = []
    for key in best:
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
    return found if len(set(found)) == len(found) else [f"{key}-{at}" for at, key in enumerate(best, start=1)]


def shown_command(command: str | Sequence[str] | JobCommand) -> str:
    """A command as it would be typed, in one line."""
    words = [command] if isinstance(command, str) else list(getattr(command, "argv", command))
    if (
        words[:2] == ["/bin/sh", "-c"]
        and words[3:4] == ["sh"]
        and words[2].endswith(SET_UP.partition("\n")[2].format())
    ):
        words = words[4:]  # behind the setup
    if tuple(words[: len(IN_DIRECTORY)]) == IN_DIRECTORY:
        words = [f"cd {shlex.quote(words[4])} && {shlex.join(words[5:])}"]
    if words[:2] == ["/bin/sh", "-c"] and len(words) == 3:
        words = words[2:]
    text = printable(words[0] if len(words) == 1 else shlex.join(words))
    return text if len(text) <= COMMAND_SHOWN else f"{text[: COMMAND_SHOWN - 3]}..."


def plan_lines(plan: JobPlan, target: str, commit: str, limit: int) -> list[str]:
    """What a job would do: its units in the order in which they are integrated, and what is around them."""
    where = f"{printable(target.removeprefix('refs/heads/'))} (now at {commit[:12]})"
    lines = [f"{plural(len(plan.units), 'unit')}, {limit} at a time, to land on {where}:"]
    wide = max((len(printable(unit.key)) for unit in plan.units), default=0)
    lines += [f"  first      {shown_command(plan.project)}"] if plan.project else []
    lines += [f"  planned by {shown_command(plan.plan)}"] if plan.plan else []
    for number, unit in enumerate(plan.units, start=1):
        after = f"  (after {', '.join(unit.after)})" if unit.after and unit.key != RECONCILE else ""
        lines.append(f"{number:>5}  {printable(unit.key):<{wide}}  {shown_command(unit.step)}{printable(after)}")
    setup = plan.document.get("setup")
    lines += [f"set up, each worktree: {shown_command(setup)}"] if setup else []
    lines += [f"verified, each and all: {shown_command(plan.verify)}"] if plan.verify else []
    return [*lines, "Nothing was run."]


def job_text(document: JobFile, command: str) -> str:
    """The document as a job file in YAML; `command` is what it stands for."""
    said = [f"# What `{printable(command)}` runs. job-run takes it; docs/formats/job-file.md has every key."]
    rest: Mapping[str, Any] = {key: value for key, value in document.items() if key not in ("schemaVersion", "units")}
    said += [f"{key}: {_scalar(value)}" for key, value in rest.items()]
    said.append("units:")
    for unit in document["units"]:
        said += [f"  - {_pair('key', unit)}", f"    {_pair('run', unit)}"]
    return "\n".join(said) + "\n"


def _pair(key: str, unit: JobUnit) -> str:
    value: Any = unit["key"] if key == "key" else unit.get("run")
    return f"{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A value in YAML: plain where that means the same text, else as JSON, which YAML 1.2 takes."""
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in NOT_TEXT:
        return value
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) if _is_simple(item) else json.dumps(item) for item in value)}]"
    return json.dumps(value)


def _is_simple(item: Any) -> bool:
    return isinstance(item, str) and " " not in item
