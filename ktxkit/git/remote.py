"""The remote: which branch is its default, and fetching, which may fail without stopping anything else."""

from __future__ import annotations

from collections.abc import Mapping

from ktxkit.base.rules.text import printable
from ktxkit.git.git import Git, GitFailed

PATIENCE = 30.0  # seconds that a fetch may take
# What git needs of the caller's environment to reach a remote; everything else of git's stays scrubbed.
REACH = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_NO_VERIFY",
)
QUIET = {"GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}


def default_branch(git: Git, remote: str = "origin") -> str:
    """The full ref of the remote's default branch as this repository knows it, or ""."""
    answer = git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", ok=None)
    return answer.text if answer.status == 0 else ""


def exists(git: Git, remote: str = "origin") -> bool:
    """Whether the repository has such a remote."""
    return git.ok("config", "--get-regexp", rf"^remote\.{remote}\.url$")


def fetch(git: Git, refspec: str, environ: Mapping[str, str], remote: str = "origin") -> str:
    """Fetch one refspec, without tags and FETCH_HEAD; returns why it failed, or "". Asks nobody anything."""
    reach = {key: environ[key] for key in REACH if key in environ}
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
    try:
        answer = git.run(
            "fetch", *options, "--end-of-options", remote, refspec, env={**QUIET, **reach}, ok=None, timeout=PATIENCE
        )
    except GitFailed as late:
        return late.hint
    return "" if answer.status == 0 else _why(answer.err)


def _why(said: bytes) -> str:
    """The line of git's answer that says what is wrong: the first that is fatal, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith((b"fatal:", b"error:"))]
    return printable((fatal or lines[-1:] or [b"git fetch failed"])[0].removeprefix(b"fatal: "))
