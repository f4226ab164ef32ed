"""Gate `command`: any executable, in a scratch checkout of the tree. Its status is the answer, or its findings are.

It sees `KTX_GATE_FILES` (a file with the touched paths, each ended by NUL) and its own working directory, and no
variable of git's. With `output: findings` each line that it prints is a JSON object with `path` and `message`, and
where they are known `rule`, `level`, `line`, `column`, `reference`, `hint`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktxkit.core.digests import digest
from ktxkit.core.text import printable, truncated
from ktxkit.effects import files, process
from ktxkit.effects.git import scrubbed
from ktxkit.gates import Answer, Finding, Subject

TIME_LIMIT = 600.0  # seconds, unless the settings say otherwise
OUTPUT_SHOWN = 1200  # characters of a failed command's output in its finding
LEVELS = ("error", "warning", "advice")


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Run the command where a file that `files` names is touched (default: any)."""
    chosen = subject.chosen(settings.get("files", ()))
    if not chosen and not subject.is_base:
        return Answer()
    run = settings["run"]
    argv = ["/bin/sh", "-c", run] if isinstance(run, str) else list(run)
    name = str(settings.get("name") or printable(argv[-1] if isinstance(run, str) else argv[0]))[:128]
    with subject.checkout() as top:
        done = run_in(subject, top, argv, chosen, float(settings.get("timeLimit", TIME_LIMIT)))
    return Answer(list(_findings(done, name, settings.get("output") == "findings")), len(chosen))


def _findings(done: process.Completed, name: str, prints: bool) -> Iterator[Finding]:
    """What it printed, where it prints findings; else its status. A failure without a finding is one."""
    found = list(parse(done.out, name)) if prints and not done.timed_out and done.status in (0, 1) else []
    yield from found
    if done.timed_out or (done.status and not found):
        yield failed("command-failed", name, done)


def run_in(subject: Subject, top: Path, argv: list[str], chosen: list[bytes], limit: float) -> process.Completed:
    """Run a command at the top of a checkout; at `limit` seconds its process group is ended."""
    listing = top.parent / "files"
    files.write_atomic(listing, b"".join(path + b"\0" for path in chosen), durable=False)
    env = {key: value for key, value in scrubbed(subject.world.env).items() if not key.startswith(("GIT_", "KTX_"))}
    env |= {"KTX_GATE_FILES": str(listing), "PYTHONDONTWRITEBYTECODE": "1"}
    return process.run(argv, cwd=top, env=env, timeout=limit)


def failed(rule: str, name: str, done: process.Completed, *, why: str = "") -> Finding:
    """A finding on the tree as a whole; the same output is the same finding."""
    said = (done.out + done.err).decode("utf-8", "replace").strip()
    shown = truncated(" / ".join(line.strip() for line in said.splitlines() if line.strip()), OUTPUT_SHOWN)
    status = "did not end in time" if done.timed_out else f"ended with status {done.status}"
    message = f"{name} {why or status}{f': {shown}' if shown else ''}"
    return Finding(rule, b"", message, reference=f"{name}: {digest(said.encode())[3:19]}", gate=name)


def parse(out: bytes, name: str) -> Iterator[Finding]:
    """Findings as JSON Lines. What is none is a finding itself."""
    for number, line in enumerate(out.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        found = _finding(value, name) if isinstance(value, dict) else None
        if found is None:
            message = f"line {number} of {name}'s output is no finding"
            hint = 'print one JSON object a line: {"path": ..., "message": ...}'
            found = Finding("gate-output", b"", message, reference=f"{name}: line {number}", hint=hint, gate=name)
        yield found


def _finding(value: Mapping[str, Any], name: str) -> Finding | None:
    texts = {key: value.get(key, "") for key in ("path", "message", "rule", "level", "reference", "hint")}
    numbers = [value.get(key, 0) for key in ("line", "column")]
    if not all(isinstance(text, str) for text in texts.values()) or not texts["message"]:
        return None
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        return None
    if texts["level"] not in ("", *LEVELS):
        return None
    return Finding(
        texts["rule"][:128] or name,
        texts["path"].encode("utf-8", "surrogatepass"),
        texts["message"],
        numbers[0],
        numbers[1],
        texts["reference"],
        hint=texts["hint"],
        level=texts["level"] or "error",
        gate=name,
    )
