"""Verifying a candidate: its checkout, the command in it, and the proof that the command changed nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files, kinds, owners, process, unit_process
from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION
from ktxkit.base.errors import Blocked, BrokenContract
from ktxkit.base.identity import identify
from ktxkit.base.process import Command
from ktxkit.base.removal import delete
from ktxkit.base.rules.digests import digest_of
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_b64, path_text, printable
from ktxkit.base.unit_process import end_strays
from ktxkit.git import checkout, child, merging
from ktxkit.git.git import Git
from ktxkit.git.rules.checkout import SAMPLE, CheckoutSnapshot, differences, ignored_changes, moved, parents
from ktxkit.store.branch_lock import HeldBranch
from ktxkit.store.rules import names
from ktxkit.store.worktrees import PLAIN, Worktrees
from ktxkit.store.world import World
from ktxkit.work.rules.reasons import last_lines

if TYPE_CHECKING:
    from typing import TypedDict

    from ktxkit.base.documents import BranchLockVerification, LeftOutPath, LeftOutPaths, Verification, VerificationRun

    class Restored(TypedDict, total=False):
        """What a verification's account says of a checkout that had to be put back."""

        changed: list[str]
        quarantine: str
        quarantined: LeftOutPaths


# Variables of a terminal or session: a pass from another one is a pass all the same, unless the job declares them.
END_READ = 8192  # bytes of the end of an output
_SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM(_.*|INFO)?|COLUMNS|LINES|WINDOWID|DISPLAY|WAYLAND_DISPLAY|TMUX(_PANE)?|STY|COLORTERM"
    r"|SSH_.*|XDG_(SESSION|SEAT|VTNR|CURRENT_DESKTOP).*|DBUS_.*|GPG_(AGENT_INFO|TTY)|INVOCATION_ID|JOURNAL_STREAM"
)


class Check(NamedTuple):
    """What to run and where. `limit`: seconds; `logs`: a directory of the store; `job`: whose passes may be reused.

    `keep`: patterns of ignored files that may stay of an earlier candidate. `env`: variables that the job declares.
    """

    argv: Sequence[str]
    limit: float | None
    checkout: Path
    logs: str
    job: str = ""
    reuse: bool = True
    keep: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


def passed(run: VerificationRun) -> bool:
    """Status 0, in time, and nothing was changed."""
    return run["status"] == 0 and not run.get("timedOut") and not run.get("stateChanged")


def why_not(run: VerificationRun) -> str:
    """One line on a verification that did not pass, with the last lines of what it printed where the log is there."""
    last = last_lines(end_of(Path(run["log"]))) if "log" in run else ""
    said = f"{f': {last}' if last else ''}; its output is in {run.get('log', 'no log')}"
    if run.get("timedOut"):
        return f"the verification did not end in time{said}"
    if run["status"] != 0:
        return f"the verification {process.ending(run['status'])}{said}"
    return f"the verification changed its checkout ({', '.join(run['changed'])}); that is a failure whatever it answers"


def end_of(path: Path) -> str:
    """The end of a log; empty where there is none, or none that can be read."""
    try:
        return files.read_part(path, END_READ, from_end=True).content.decode("utf-8", "replace")
    except (OSError, BrokenContract):
        return ""  # a reason then says less; the report names no log that is not there


def environment(world: World, check: Check) -> dict[str, str]:
    """What a verification command sees: no variable of git or of ours, no bytecode written, what the job declares."""
    kept = {key: value for key, value in world.env.items() if not key.startswith(("GIT_", "KTX_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **check.env}


def environment_digest(world: World, check: Check) -> str:
    """Of the environment, but for what says only at which terminal and in which session somebody sits."""
    env = environment(world, check)
    return digest_of({key: value for key, value in env.items() if key in check.env or not _SESSION.fullmatch(key)})


def verify(held: HeldBranch, check: Check, commit: str, tree: str) -> VerificationRun:
    """Run the command in a checkout of the commit; returns its account (`passed` tells).

    Raises Blocked where HEAD or a branch was moved, or the checkout could not be put back: the lock stays then.
    """
    key = key_of(held.world, check, tree)
    known = _known(held.world, check, key)
    if known is not None:
        return {**known, "reused": True}
    run = _asked(held, check, commit, tree)
    if passed(run):
        _remember(held, check, key, commit, run)
    return run


def control_of(held: HeldBranch, check: Check, commit: str, tree: str) -> VerificationRun:
    """The command's answer for the tree without the change in question: within a job asked once, pass or failure."""
    asked = check._replace(reuse=True)
    key = key_of(held.world, check, tree)
    known = _known(held.world, asked, key) or _known(held.world, asked, digest_of(["control", key]))
    if known is not None:
        return {**known, "reused": True}
    run = _asked(held, check, commit, tree)
    _remember(held, check, key if passed(run) else digest_of(["control", key]), commit, run)
    return run


def key_of(world: World, check: Check, tree: str) -> str:
    """What a pass is known by: tree, command, environment, and what the checkout may hold beside the tree."""
    kept = [list(check.keep)] if check.keep else []
    return digest_of([tree, list(check.argv), environment_digest(world, check), *kept])


def _asked(held: HeldBranch, check: Check, commit: str, tree: str) -> VerificationRun:
    """One run of the command, and the checkout put back."""
    env = environment(held.world, check)
    held.note(phase="verifying")
    git = ready(held, check.checkout, commit, check.keep)
    before, ignored = checkout.snapshot(git), checkout.ignored_inventory(git)
    log = held.world.writable_store.path(f"{check.logs}/{_log_name(held.nonce, tree)}.log")
    files.remove(log)
    ran = unit_process.run_logged(
        Command(check.argv, check.checkout, env, check.limit),
        log=log,
        nonce=held.nonce,
        clock=held.world.clock.monotonic,
        started=lambda pgid: held.note(verification=_recorded(pgid)),
    )
    after = checkout.snapshot(git)
    run = _account(held.world, check, tree, ran, log)
    run |= {"before": before.document(), "after": after.document(), "stateChanged": before != after}
    run |= {"ignoredChanges": ignored_changes(ignored, checkout.ignored_inventory(git)).document()}
    run = {**run, **_restored(held, git, before, after, run)}
    run["evidenceDigest"] = digest_of({key: value for key, value in run.items() if key != "durationMs"})
    if passed(run):
        files.remove(log)
        run.pop("log")
    return run


def _log_name(nonce: str, tree: str) -> str:
    return f"verify-{nonce[:12]}-{tree[:12]}"


def _recorded(pgid: int) -> BranchLockVerification:
    recorded: BranchLockVerification = {
        "pgid": pgid,
        "startTime": owners.start_time(pgid) or 0,
        "bootId": (me := owners.this_owner()).boot_id,
    }
    return {**recorded, "machine": me.machine, "pidNamespace": me.namespace}


def _account(world: World, check: Check, tree: str, ran: unit_process.LoggedEnd, log: Path) -> VerificationRun:
    log_digest, size = merging.file_digest(log)
    return {
        "argv": list(check.argv),
        "status": max(ran.status, -64),
        "timedOut": ran.timed_out,
        "durationMs": round(ran.seconds * 1000, 3),
        "tree": tree,
        "commandDigest": digest_of(list(check.argv)),
        "environmentDigest": environment_digest(world, check),
        "logDigest": log_digest,
        "logBytes": size,
        "log": str(log),
    }


def _restored(
    held: HeldBranch, git: Git, before: CheckoutSnapshot, after: CheckoutSnapshot, run: VerificationRun
) -> Restored:
    """Put the checkout back where the command changed it, proven by comparison; what appeared is put aside."""
    changed = differences(before, after)
    if not changed:
        return {}
    if moved(before, after):
        raise Blocked(
            f"the verification moved HEAD or its branch: expected {before.head}, found {after.head}",
            location=str(git.cwd),
            hint=f"its output is in {run['log']}; nothing was restored",
            data={"run": run, "changed": changed},
        )
    quarantine = held.world.writable_store.path(names.quarantine_dir("verification", held.nonce))
    aside = checkout.put_aside(git, after.untracked - before.untracked, quarantine)
    checkout.run_alone(git, "read-tree", "--reset", "-u", "HEAD")
    now = checkout.snapshot(git)
    if now != before:
        raise Blocked(
            f"the checkout could not be put back as it was: {', '.join(differences(before, now))} differ",
            location=str(git.cwd),
            hint="see git status there; files that appeared are in the quarantine",
            data={"run": run, "quarantine": str(quarantine)},
        )
    kept: Restored = {"changed": changed}
    if aside:
        kept["quarantine"] = str(quarantine)
        kept["quarantined"] = {"count": len(aside), "sample": [_left_out(path) for path in aside[:SAMPLE]]}
    return kept


def _left_out(path: bytes) -> LeftOutPath:
    named: LeftOutPath = {"path": path_text(path)}
    named |= {"pathB64": exact} if (exact := path_b64(path)) else {}
    return named


class Passes:
    """What a running job knows to be passes (`World.shared`), so that a document which a unit put there is none."""

    def __init__(self) -> None:
        self._digests: dict[str, str] | None = None  # by place; None: whatever document there is counts

    def hold(self, world: World, job_id: str) -> None:
        """Those that are there now, and those that this process adds, are all that count from now on."""
        folder = names.verified(job_id, "").rpartition("/")[0]
        self._digests = {}
        for name in world.store.children(folder):
            with suppress(BrokenContract):  # a damaged one is no pass: what it said is asked again
                self.add(place := f"{folder}/{name}", world.store.read(kinds.VERIFICATION, place))

    def add(self, name: str, document: Verification) -> None:
        if self._digests is not None:
            self._digests[name] = digest_of(document)

    def read(self, world: World, name: str) -> Verification | None:
        """The document of a pass; None where there is none, or one that is nobody's.

        Raises BrokenContract for a damaged one, where no job that runs can tell.
        """
        if self._digests is None:
            return world.store.read_optional(kinds.VERIFICATION, name)
        if name not in self._digests:
            return None
        found = None
        with suppress(BrokenContract):  # it was written over: what it said is asked again
            found = world.store.read_optional(kinds.VERIFICATION, name)
        return found if found is not None and digest_of(found) == self._digests[name] else None

    def close(self) -> None:
        self._digests = None


def _known(world: World, check: Check, key: str) -> VerificationRun | None:
    """A pass of the same command on the same tree in the same environment, within the same job."""
    if not (check.job and check.reuse):
        return None
    found = world.shared(Passes).read(world, names.verified(check.job, key))
    return found["run"] if found is not None else None


def _remember(held: HeldBranch, check: Check, key: str, commit: str, run: VerificationRun) -> None:
    if not check.job:
        return
    now = timestamp(held.world.clock.now())
    made: Verification = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "verification",
        "jobId": check.job,
        "state": "receipt",
        "nonce": held.nonce,
        "startedAt": now,
        "completedAt": now,
        "integrationRef": held.ref,
        "head": commit,
        "outcome": "done" if passed(run) else "verification_failed",
        "accepted": [],
        "run": run,
    }
    place = names.verified(check.job, key)
    files.make_room(held.world.writable_store.path(place))
    held.world.writable_store.write(kinds.VERIFICATION, place, made, durable=False)
    held.world.shared(Passes).add(place, made)


def runner(held: HeldBranch, path: Path) -> Git:
    """git in the checkout of candidates: the repository's bytes, and only the repository's own ignore rules."""
    honest = child.honest(held.git, path)
    more = {**PLAIN, "core.excludesFile": os.devnull, "core.fsync": "none"}
    return Git(path, honest.env, {**honest.config, **more}, honest.fds)


def _worktrees(world: World) -> Worktrees:
    return Worktrees.of(world)


def ready(held: HeldBranch, path: Path, commit: str, keep: Sequence[str] = ()) -> Git:
    """The checkout, clean and at the commit, but for ignored files that `keep` names.

    Raises Blocked where something is in it that we did not make.
    """
    trees = _worktrees(held.world)
    if identify(path) is None or trees.registered(path) is None or not (path / ".git").is_file():
        delete(trees.let_go(path))
        trees.add(path, commit)
        trees.populate(path, {}, plain=True)
        return runner(held, path)
    git = runner(held, path)
    status = child.read_status(git)
    if not status.clean:
        shown = ", ".join(printable(name) for name in status.dirty[:5])
        raise Blocked(f"unknown work in the checkout of candidates: {shown}", location=str(path), hint="move it away")
    answer = git.run("checkout", "-q", "--detach", "--no-overwrite-ignore", commit, ok=None)
    if answer.status != 0:
        _make_way(held, git, commit)
        checkout.run_alone(git, "checkout", "-q", "--detach", commit)
    _clear_leftovers(held, git, keep)
    return git


def _clear_leftovers(held: HeldBranch, git: Git, keep: Sequence[str]) -> None:
    """What git ignores and an earlier candidate made is gone: a product of it would let the next one pass."""
    # what does not go (a cache that may not be written) is moved away
    git.run("clean", "-q", "-ffdX", *(f"--exclude=!{pattern}" for pattern in keep), ok=None)
    left = child.read_status(git, ignored="matching").ignored
    named = [f"--exclude={pattern}" for pattern in keep]
    kept = git.run("ls-files", "-z", "--others", "--ignored", "--directory", *named).nul if keep else []
    others = [path for path in left if not any(path == name or path.startswith(name) for name in kept)]
    checkout.put_aside(git, others, held.world.writable_store.path(names.quarantine_dir("ignored", held.nonce)))


def _make_way(held: HeldBranch, git: Git, commit: str) -> None:
    """Ignored files that an earlier verification left where the candidate has a file are put aside, never lost."""
    wanted = set(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).nul)
    inventory = checkout.ignored_inventory(git)
    above = {parent for path in wanted for parent in parents(path)}
    inside = [p for p in inventory if p in wanted or p in above or any(q in wanted for q in parents(p))]
    checkout.put_aside(git, inside, held.world.writable_store.path(names.quarantine_dir("ignored", held.nonce)))


def heal(held: HeldBranch, path: Path, logs: str, nonce: str) -> None:
    """After a verification that was cut off: end what it left running, put aside what appeared, write HEAD's files.

    `nonce`: of the holder that died.
    """
    recorded = held.document.get("verification")
    if recorded is not None and not owners.Owner.of({**recorded, "pid": recorded["pgid"]}).elsewhere():
        unit_process.end_recorded(recorded["pgid"], recorded["startTime"])
    end_strays(nonce)  # also what died before it was recorded
    for name in held.world.store.children(logs):
        if nonce != held.nonce and name.startswith(_log_name(nonce, "")):  # our own is one that an error names
            held.world.store.remove(f"{logs}/{name}")  # it says nothing: the verification is run again or not at all
    if not os.path.lexists(path):
        return
    trees = _worktrees(held.world)
    if identify(path) is None:  # a link there would have files written where it leads
        delete(trees.let_go(path))
        return
    git = runner(held, path)
    if trees.registered(path) is None or git.resolve("HEAD") is None:  # a killed `worktree add` leaves HEAD at nothing
        delete(trees.let_go(path))
        return
    if checkout.has_stale_lock(git):
        checkout.remove_lock(git)
    quarantine = held.world.writable_store.path(names.quarantine_dir("verification", held.nonce))
    checkout.put_aside(git, _appeared(git), quarantine)
    checkout.run_alone(git, "read-tree", "--reset", "-u", "HEAD")


def _appeared(git: Git) -> list[bytes]:
    """Files that are neither in HEAD nor ignored: a cut-off checkout of HEAD's own files is not among them."""
    tracked = set(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD").nul)
    status = child.read_status(git)
    return [path for path in {*status.untracked, *status.unmerged} if path not in tracked]
