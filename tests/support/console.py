"""Documentation that is executed: files and console sessions of a Markdown page, in a fresh directory.

A fenced block with a title (```yaml title="job.yaml") is a file. A ```console block is a session: `$ ` begins a
command, `> ` goes on with it, what follows is its output, both streams as they come. `...` in it stands for anything.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^( *)```(\w+)?(?: +(.*))?$")
TITLE = re.compile(r'title="([^"]+)"')
MARK = "--- end of "


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is (or ""), its text, and the line it starts in."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, without their indentation."""
    lines = iter(enumerate(page.split("\n"), start=1))
    for number, line in lines:
        found = FENCE.match(line)
        if not found:
            continue
        inside = []
        for _, text in lines:
            if text.strip() == "```":
                break
            inside.append(text.removeprefix(found[1]))
        title = TITLE.search(found[3] or "")
        yield Block(found[2] or "", title[1] if title else "", "\n".join(inside) + "\n", number)


@dataclass(frozen=True)
class Step:
    """A command and the output that the page shows of it."""

    command: str
    output: str
    line: int


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block."""
    command, at = "", 0
    output: list[str] = []
    for number, line in enumerate(block.text.rstrip("\n").split("\n"), start=block.line + 1):
        if line.startswith("$ "):
            if command:
                yield Step(command, "\n".join(output), at)
            command, output, at = line[2:], [], number
        elif line.startswith("> ") and not output:
            command += "\n" + line[2:]
        else:
            output.append(line)
    if command:
        yield Step(command, "\n".join(output), at)


def agrees(shown: str, came: str) -> bool:
    """Whether output is as the page shows it; `...` stands for anything, blank lines at the ends for nothing."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, came.strip(), re.DOTALL) is not None


def play(page: Path, place: Path, env: dict[str, str]) -> int:
    """Execute a page in `place`, in one shell; every output must agree. Returns the number of commands."""
    env = {key: value for key, value in env.items() if not key.startswith(("MAKE", "MFLAGS"))}  # of `make test`
    env = {**env, "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "PS1": "", "COLUMNS": "80"}
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile"], cwd=place, env=env, text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert shell.stdin is not None and shell.stdout is not None
    count = 0
    with shell:
        for block in blocks(page.read_text("utf-8")):
            if block.title:
                (place / block.title).parent.mkdir(parents=True, exist_ok=True)
                (place / block.title).write_text(block.text)
                (place / block.title).chmod(0o755 if block.text.startswith("#!") else 0o644)
            for step in steps(block) if block.language == "console" else ():
                count += 1
                shell.stdin.write(f'{step.command}\n_was=$?; echo "{MARK}{count}: $_was"; (exit $_was)\n')
                came = ""
                for line in shell.stdout:
                    if line.startswith(f"{MARK}{count}: ") or f"{MARK}{count}: " in line:
                        came += line.partition(MARK)[0]
                        break
                    came += line
                assert agrees(step.output, came), (
                    f"{page.name}:{step.line}: $ {step.command}\n{came}\nis not\n{step.output}"
                )
        shell.stdin.close()
    return count
