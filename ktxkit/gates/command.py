"""A command that serves as a gate: its streams in files, a deadline, and nothing of it left running.

Gate `command`: any executable, in a scratch checkout of the tree. Its status is the answer, or its findings are.

It sees `KTX_GATE_FILES` (a file with the touched paths, symbolic links among them, each ended by NUL) and its own
working directory, and no variable of git's. With `output: findings` each line that it prints is a JSON object with
`path` and `message`, and where they are known `rule`, `level`, `line`, `column`, `reference`, `hint`.

Gate `pre-commit`: the repository's own hooks on the touched files, in a scratch checkout.

The manager is the user's, of the version that they pinned: `run` says how it is started (default `pre-commit`). A hook
that fails is a finding, and so is one that changes a file.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktxkit.base import files, owners, process
from ktxkit.base.errors import CannotRun
from ktxkit.base.process import Completed
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import plural, printable, truncated
from ktxkit.base.unit_process import end_strays
from ktxkit.gates.plugin import Answer, Finding, Subject
from ktxkit.git.git import Git

OUTPUT_LIMIT = 4 * 1024 * 1024  # bytes of each stream that are read; a command may print more


def run(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit: float) -> Completed:
    """Run to its end or `limit` seconds, stdin closed. Its group, and what left the group, is ended then.

    The streams go through files beside `cwd`: what it prints never fills the memory, and a process that it leaves
    behind cannot keep us waiting. Raises CannotRun where it cannot be started.
    """
    nonce = secrets.token_hex(16)
    out, err = (cwd.parent / f"{name}-{nonce[:8]}" for name in ("out", "err"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(out, flags, files.PRIVATE_FILE), "wb") as one, open(os.open(err, flags, 0o600), "wb") as other:
        child = process.start(process.Command(argv, cwd, {**env, owners.NONCE: nonce}), stdout=one, stderr=other)
        in_time = process.wait_or_end(child, limit)
    end_strays(nonce)
    told = tuple(os.fsdecode(word) for word in argv)
    return Completed(told, child.returncode, _head(out), _head(err), not in_time)


def _head(path: Path) -> bytes:
    return files.read_part(path, OUTPUT_LIMIT).content


TIME_LIMIT = 600.0  # seconds, unless the settings say otherwise
OUTPUT_SHOWN = 1200  # characters of a failed command's output in its finding
CANNOT_START = 126
WRONG_TOLD, WRONG_READ = 20, 1000  # lines that are no findings
NUMBER_LIMIT, PATH_LIMIT = 1 << 31, 4096  # lines and columns; characters of a path
LEVELS = ("error", "warning", "advice")
_NOT_FOUND = re.compile(
    rb"^(?:/bin/)?(?:ba|da|z|k)?sh: (?:(?:line )?\d+: )?([^\n:]+): (?:command )?not found", re.MULTILINE
)
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
        raise CannotRun(error.message, location=f"the gate {name}", hint=error.hint) from error
    prints = settings.get("output") == "findings"
    found = list(_findings(done, name, prints))
    handed_down = _judged(found) if prints or not done.status or no_answer(done) else found
    return Answer(handed_down if subject.is_base else found, max(len(chosen), 1))


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
    if done.timed_out or (done.status and not any(one.severity == "error" for one in found)):
        yield failed("command-failed", name, done)
    elif not done.status and (lacking := _NOT_FOUND.search(done.err)):
        tool = lacking[1].decode("utf-8", "replace")
        hint = "only the last command's status counts: install it, or begin `run` with `set -e`"
        message = f"its shell found no {printable(tool)[:128]}, and {name} ended with status 0 all the same"
        yield Finding("command-failed", b"", message, reference=tool, hint=hint, level="warning", gate=name)


def run_in(subject: Subject, top: Path, argv: list[str], chosen: list[bytes], limit: float) -> process.Completed:
    """Run a command at the top of a checkout; at `limit` seconds its process group is ended.

    The checkout has another place each time: in what is printed its top is `.`.
    """
    listing = top.parent / "files"
    files.write_atomic(listing, b"".join(path + b"\0" for path in chosen), durable=False)
    done = run(argv, cwd=top, env={**plain(subject), "KTX_GATE_FILES": str(listing)}, limit=limit)
    return done._replace(out=without(done.out, top), err=without(done.err, top))


def plain(subject: Subject) -> dict[str, str]:
    """The environment of a gate's command: no variable of git or of ours, no bytecode written."""
    kept = {key: value for key, value in subject.world.env.items() if not key.startswith(("GIT_", "KTX_"))}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def without(output: bytes, top: Path) -> bytes:
    """What was printed, with paths from the top of the checkout."""
    place = os.fsencode(top)
    return output.replace(place + b"/", b"").replace(place, b".")


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


BATCH = 100_000  # bytes of one command line's paths
UNEXPECTED = 3  # pre-commit's status for an error of its own (pre_commit/error_handler.py): no hook said it
CONFIG = b".pre-commit-config.yaml"
_RAN = re.compile(rb"\b(?:Passed|Failed)\s*$", re.MULTILINE)  # at the end of a hook's line; else Skipped


def check_with_pre_commit(subject: Subject, settings: Mapping[str, Any]) -> Answer:
    """Run the hooks. A tree without hooks has no findings."""
    chosen = subject.chosen(settings.get("files", ()), links=True)  # check-symlinks and its kin
    if CONFIG not in subject.files:
        return Answer(() if subject.is_base else [_without_hooks(subject)])
    if not chosen:
        return Answer()
    run = settings.get("run", "pre-commit")
    manager = [run] if isinstance(run, str) else list(run)
    limit = float(settings.get("timeLimit", TIME_LIMIT))
    env = {**plain(subject), "SKIP": str(settings.get("skip", ""))}
    try:
        with subject.checkout() as top:
            done = [_run(manager, top, env, batch, limit) for batch in batches(chosen, os.fsencode(top))]
            changed = _changed(top, env)
    except CannotRun as error:
        raise CannotRun(error.message, location="the gate pre-commit", hint=error.hint) from error
    wrong = [one for one in done if one.status or one.timed_out]
    if subject.is_base and any(no_answer(one, UNEXPECTED) for one in wrong):
        return Answer((), len(chosen))  # nothing is handed down
    if wrong:
        return Answer([failed("hook-failed", "pre-commit", one) for one in wrong], len(chosen))
    if changed:
        shown = ", ".join(printable(path) for path in changed[:5])
        return Answer([failed("hook-failed", "pre-commit", done[0], why=f"changed {shown}")], len(chosen))
    return Answer((), len(chosen), _doubt(subject, chosen, done))


def _doubt(subject: Subject, chosen: Sequence[bytes], done: Sequence[Completed]) -> str:
    """What a pass does not say: that no hook ran (none is for these files or this stage), or that the change chose."""
    doubts = [] if any(_RAN.search(one.out) for one in done) else ["no hook ran"]
    if subject.touched is not None and CONFIG in subject.touched:
        doubts.append("by a configuration that the change alters")
    return ", ".join([plural(len(chosen), "file"), *doubts]) if doubts else ""


def _without_hooks(subject: Subject) -> Finding:
    """Where the change takes the hooks' configuration away, it takes the gate away: an error."""
    gone = subject.base_files is not None and CONFIG in subject.base_files
    hint = "put it back, or take the gate out of ktx-gates.yaml"
    why = "the change takes its configuration away" if gone else "it has no configuration"
    message = f"the gate pre-commit runs no hook: {why}"
    return Finding("gate-idle", CONFIG, message, hint=hint, level="error" if gone else "", gate="pre-commit")


def _run(
    manager: Sequence[str], top: Path, env: Mapping[str, str], batch: Sequence[bytes], limit: float
) -> process.Completed:
    flags = ["run", "--color=never", "--show-diff-on-failure", "--files"]
    done = run([*manager, *flags, *map(os.fsdecode, batch)], cwd=top, env=env, limit=limit)
    return done._replace(out=without(done.out, top), err=without(done.err, top))


def batches(paths: Sequence[bytes], top: bytes, limit: int = BATCH) -> Iterator[list[bytes]]:
    """The paths, absolute, so that none looks like an option, in lists that fit into one command line."""
    batch: list[bytes] = []
    size = 0
    for path in paths:
        full = top + b"/" + path
        if batch and size + len(full) > limit:
            yield batch
            batch, size = [], 0
        batch.append(full)
        size += len(full) + 1
    yield batch


def _changed(top: Path, env: Mapping[str, str]) -> list[bytes]:
    return Git.scrub(top, env).run("diff-files", "--name-only", "-z").nul
