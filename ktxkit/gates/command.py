"""Gate `command`: any executable, in a scratch checkout of the tree. Its status is the answer, or its findings are.

It sees `KTX_GATE_FILES` (a file with the touched paths, symbolic links among them, each ended by NUL) and its own
working directory, and no variable of git's. With `output: findings` each line that it prints is a JSON object with
`path` and `message`, and where they are known `rule`, `level`, `line`, `column`, `reference`, `hint`.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktxkit.base import files, process
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable, truncated
from ktxkit.gates import gate_process
from ktxkit.gates.gate_process import OUTPUT_LIMIT
from ktxkit.gates.plugin import Answer, Finding, Subject

TIME_LIMIT = 600.0  # seconds, unless the settings say otherwise
OUTPUT_SHOWN = 1200  # characters of a failed command's output in its finding
CANNOT_START = 126
WRONG_TOLD, WRONG_READ = 20, 1000  # lines that are no findings
NUMBER_LIMIT, PATH_LIMIT = 1 << 31, 4096  # lines and columns; characters of a path
LEVELS = ("error", "warning", "advice")
_DURATION = re.compile(r"\b[0-9]+(?:[.][0-9]+)?\s?(?:ms|s|sec|secs|seconds?|minutes?)\b")


def check(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Run the command where a file that `files` names is touched, or gone (default: any)."""
    patterns = settings.get("files", ())
    if not subject.concerns(patterns) and not subject.is_base:
        return Answer()
    chosen = subject.chosen(patterns, links=True)
    run = settings["run"]
    argv = ["/bin/sh", "-c", run] if isinstance(run, str) else list(run)
    name = str(settings.get("name") or printable(argv[-1] if isinstance(run, str) else argv[0]))[:128]
    try:
        with subject.checkout() as top:
            done = run_in(subject, top, argv, chosen, float(settings.get("timeLimit", TIME_LIMIT)))
    except CannotRun as error:
        raise CannotRun(error.message, where=f"the gate {name}", hint=error.hint) from error
    prints = settings.get("output") == "findings"
    found = list(_findings(done, name, prints))
    return Answer(_judged(found) if subject.is_base and (prints or no_answer(done)) else found, max(len(chosen), 1))


def no_answer(done: process.Completed, *statuses: int) -> bool:
    """It did not come to an answer: out of time, ended by a signal, or not to be started (sh(1): 126, 127, from 129 on
    the signal that ended what it ran). `statuses`: others that its manual has for this."""
    return done.timed_out or not 0 <= done.status < CANNOT_START or done.status in statuses


def _judged(found: Sequence[Finding]) -> list[Finding]:
    """What a base can hand down: what was said of its files. That a gate could not do its work is said of none, and
    would be a pass for every change from then on."""
    return [one for one in found if one.rule not in ("command-failed", "gate-output")]


def _findings(done: process.Completed, name: str, prints: bool) -> Iterator[Finding]:
    """What it printed, where it prints findings; else its status. A failure without a finding is one."""
    found = list(parse(done.out, name)) if prints and not done.timed_out and done.status in (0, 1) else []
    yield from found
    if prints and len(done.out) >= OUTPUT_LIMIT:
        message = f"{name} printed more than {OUTPUT_LIMIT} bytes; the rest was not read"
        yield Finding("gate-output", b"", message, reference=f"{name}: cut", gate=name)
    if done.timed_out or (done.status and not found):
        yield failed("command-failed", name, done)


def run_in(subject: Subject, top: Path, argv: list[str], chosen: list[bytes], limit: float) -> process.Completed:
    """Run a command at the top of a checkout; at `limit` seconds its process group is ended.

    The checkout has another place each time: in what is printed its top is `.`.
    """
    listing = top.parent / "files"
    files.write_atomic(listing, b"".join(path + b"\0" for path in chosen), durable=False)
    done = gate_process.run(argv, cwd=top, env={**plain(subject), "KTX_GATE_FILES": str(listing)}, limit=limit)
    return replace(done, out=without(done.out, top), err=without(done.err, top))


def plain(subject: Subject) -> dict[str, str]:
    """The environment of a gate's command: no variable of git or of ours, no bytecode written."""
    kept = {key: value for key, value in subject.world.env.items() if not key.startswith(("GIT_", "KTX_"))}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def without(said: bytes, top: Path) -> bytes:
    """What was printed, with paths from the top of the checkout."""
    place = os.fsencode(top)
    return said.replace(place + b"/", b"").replace(place, b".")


def failed(rule: str, name: str, done: process.Completed, *, why: str = "") -> Finding:
    """A finding on the tree as a whole; the same output, but for the time it took, is the same finding."""
    said = (done.out + done.err).decode("utf-8", "replace").strip()
    shown = truncated(" / ".join(line.strip() for line in said.splitlines() if line.strip()), OUTPUT_SHOWN)
    status = "did not end in time" if done.timed_out else process.ending(done.status)
    message = f"{name} {why or status}{f': {shown}' if shown else ''}"
    same = digest(_DURATION.sub("", said).encode())[3:19]
    return Finding(rule, b"", message, reference=f"{name}: {same}", gate=name)


def parse(out: bytes, name: str) -> Iterator[Finding]:
    """Findings as JSON Lines. What is none is a finding itself; of many such lines the first are told."""
    wrong = 0
    for number, line in enumerate(out.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        found = _finding(value, name) if isinstance(value, dict) else None
        if found is not None:
            yield found
            continue
        wrong += 1
        if wrong == WRONG_READ:
            break
        if wrong <= WRONG_TOLD:
            message = f"line {number} of {name}'s output is no finding"
            hint = 'print one JSON object a line: {"path": ..., "message": ...}'
            yield Finding("gate-output", b"", message, reference=f"{name}: line {number}", hint=hint, gate=name)
    if wrong > WRONG_TOLD:
        rest = "; what follows them was not read" if wrong == WRONG_READ else ""
        message = f"{wrong - WRONG_TOLD} more lines of {name}'s output are no findings{rest}"
        yield Finding("gate-output", b"", message, reference=f"{name}: more lines", gate=name)


def _finding(value: Mapping[str, Any], name: str) -> Finding | None:
    texts = {key: value.get(key, "") for key in ("path", "message", "rule", "level", "reference", "hint")}
    numbers = [value.get(key, 0) for key in ("line", "column")]
    if not all(isinstance(text, str) for text in texts.values()) or not texts["message"]:
        return None
    if not all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < NUMBER_LIMIT for one in numbers):
        return None
    if texts["level"] not in ("", *LEVELS) or len(texts["path"]) > PATH_LIMIT:
        return None
    return Finding(
        printable(texts["rule"])[:128] or name,
        _path(texts["path"]),
        texts["message"],
        numbers[0],
        numbers[1],
        texts["reference"],
        hint=texts["hint"],
        level=texts["level"] or "error",
        gate=name,
    )


def _path(text: str) -> bytes:
    """From the top of the tree, in its normal form: `./a` is `a`. Bytes that are not UTF-8 stand as surrogates."""
    if not text:
        return b""
    normal = posixpath.normpath(text)
    try:
        return normal.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return normal.encode("utf-8", "surrogatepass")
