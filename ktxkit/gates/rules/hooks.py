"""What git tells its hooks, read without guessing: the lines of pre-push, and the message that commit-msg is shown.

Sources: githooks(5), git-commit(1) `--cleanup` and `--verbose`, core.commentChar in git-config(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.base.rules.text import printable

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
CHAINED = ".ktx-before"  # what a hook is called that was there before ours
MARK = b"# ktxkit hook: "  # on the second line of each of ours
SCISSORS = b" ------------------------ >8 ------------------------"
AUTO = b"#;@!$%^&|:"  # what git chooses from where core.commentChar is `auto`
COMMENT_STRING_SINCE = (2, 45)  # the git that knows core.commentString; an older one ignores it
ID_LENGTHS = (40, 64)


@dataclass(frozen=True)
class Push:
    """One line of pre-push: what is pushed to where. Ids are full hex ids."""

    local_ref: bytes
    local: str
    remote_ref: bytes
    remote: str

    @property
    def deletes(self) -> bool:
        return is_zero(self.local)

    @property
    def creates(self) -> bool:
        return is_zero(self.remote)


def is_zero(oid: str) -> bool:
    """The id that means "nothing": as many zeros as an id of this repository has digits."""
    return len(oid) in ID_LENGTHS and not oid.strip("0")


def read_pushes(data: bytes) -> list[Push]:
    """Every line of pre-push's input. Raises CannotRun for one that is none.

    The first field may hold spaces (it is what the user typed, `HEAD^{/a word}`); the other three hold none.
    """
    return [_push(line) for line in data.split(b"\n") if line]


def _push(line: bytes) -> Push:
    fields = line.rsplit(b" ", 3)
    if len(fields) == 4:
        local, remote = fields[1].decode("ascii", "replace"), fields[3].decode("ascii", "replace")
        if _is_id(local) and _is_id(remote):
            return Push(fields[0], local, fields[2], remote)
    raise CannotRun(
        f"not a line of pre-push: {printable(line)[:200]}",
        hint="git gives `LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID` on standard input (githooks(5))",
    )


def _is_id(word: str) -> bool:
    return len(word) in ID_LENGTHS and not set(word) - set("0123456789abcdef")


@dataclass(frozen=True)
class Cleanup:
    """What git will do to a message: which comment string it has, and whether it drops comments.

    `comment` None: git chose one itself (`auto`), and the message tells which.
    """

    comment: bytes | None = b"#"
    strips: bool = True


def cleanup_of(settings: Iterable[tuple[str, bytes]], version: tuple[int, ...], *, edited: bool) -> Cleanup:
    """From the configuration's `core.commentChar`, `core.commentString` and `commit.cleanup`, in its order.

    The later of the first two counts (an older git knows only the first). `edited`: an editor was opened; without one
    git keeps comments, since it put none in.
    """
    comment: bytes | None = b"#"
    mode = b"default"
    for key, value in settings:
        name = key.lower()
        if name == "commit.cleanup":
            mode = value
        elif name == "core.commentchar" or (name == "core.commentstring" and version >= COMMENT_STRING_SINCE):
            comment = None if value == b"auto" else value or b"#"
    return Cleanup(comment, mode == b"strip" or (mode not in (b"whitespace", b"verbatim", b"scissors") and edited))


def cleanup_mode(words: Sequence[str]) -> str:
    """What `--cleanup` says in the command line of the git that runs a hook; git tells its hooks nowhere else."""
    if not words or words[0].rpartition("/")[2] not in ("git", "git-commit"):
        return ""
    asked = ""
    for number, word in enumerate(words):
        if word == "--":
            break
        if word == "--cleanup":
            asked = "".join(words[number + 1 : number + 2])
        elif word.startswith("--cleanup="):
            asked = word.partition("=")[2]
    return asked


def cut(message: bytes, cleanup: Cleanup) -> bytes:
    """The message as it will be committed: nothing from the exact scissors line on, then no comment lines.

    Comments begin in the first column only. The cut is made whatever the cleanup: under it stands a diff.
    """
    lines = [line + b"\n" for line in message.split(b"\n")]
    lines[-1] = lines[-1][:-1]  # what follows the last line end, mostly nothing
    comments = [cleanup.comment] if cleanup.comment is not None else [bytes([c]) for c in AUTO]
    kept = _before_scissors(lines, comments)
    if cleanup.strips:
        comment = cleanup.comment if cleanup.comment is not None else _chosen(lines, kept)
        kept = [line for line in kept if not comment or not line.startswith(comment)]
    return b"".join(kept)


def _before_scissors(lines: list[bytes], comments: list[bytes]) -> list[bytes]:
    marks = {comment + SCISSORS for comment in comments}
    for number, line in enumerate(lines):
        if line.rstrip(b"\n") in marks:
            return lines[:number]
    return lines


def _chosen(lines: list[bytes], kept: list[bytes]) -> bytes:
    """The character that git chose: that of the scissors, else of the last line, which is git's own; else none."""
    if len(kept) < len(lines):
        return lines[len(kept)][:1]
    last = next((line for line in reversed(lines) if line.strip()), b"")
    return last[:1] if last[:1] in [bytes([c]) for c in AUTO] else b""


def stamped(body: bytes) -> bytes:
    """One of our hooks as it is installed: its mark line ends in a digest of the rest, which tells an edit later."""
    first, mark, rest = body.split(b"\n", 2)
    assert mark.startswith(MARK), "each of our hooks has its mark on the second line"
    return b"\n".join((first, mark + b" " + _seal(first, rest), rest))


def _seal(first: bytes, rest: bytes) -> bytes:
    return digest(first + b"\n" + rest)[3:19].encode("ascii")


def whose(content: bytes | None) -> str:
    """Whose hook this is: `none`, `ours` as it was installed, `edited` since, or `foreign`."""
    if content is None:
        return "none"
    lines = content.split(b"\n", 2)
    if len(lines) < 3 or not lines[1].startswith(MARK):
        return "foreign"
    return "ours" if lines[1].endswith(b" " + _seal(lines[0], lines[2])) else "edited"


def on_install(owner: str, *, current: bool, chained: bool, same: bool) -> str:
    """What installing does to one hook: `already`, `put`, `update`, `chain`, or `refuse`.

    `current`: our hook there is of this version. `chained`: a hook that was there before is kept beside. `same`: that
    is the very file that still stands in its place, so an install was stopped between its two steps.
    """
    if owner == "ours":
        return "already" if current else "update"
    if owner == "none":
        return "put"
    if owner == "foreign" and (same or not chained):
        return "chain"
    return "refuse"


def on_uninstall(owner: str, *, chained: bool, same: bool) -> str:
    """What uninstalling does to one hook: `absent`, `remove`, `restore`, or `keep` where it is no longer ours."""
    if owner in ("ours", "none") or same:
        return "restore" if chained else ("remove" if owner == "ours" else "absent")
    return "absent" if owner == "foreign" and not chained else "keep"
