"""Command lines as values: what the library takes, made where the options are declared, no `Namespace` below."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktxkit.base.errors import CannotRun

if TYPE_CHECKING:  # each is imported by its own command alone
    from ktxkit.app.running import JobProgress
    from ktxkit.base.documents import TraceEvent
    from ktxkit.gates.checking import GateRequest
    from ktxkit.ingest.planning import IngestRequest
    from ktxkit.store.world import World
    from ktxkit.work.bare_patches import BareCollection, BarePatchOptions


def check_gates(args: Namespace) -> None:
    """Raises CannotRun for options of `gate-check` that do not go together."""
    if args.explain:
        args.only("with --explain", "explain")
    if args.message is not None or args.messages is not None:
        args.only("for messages", "message", "messages", "gate", "format", "require_input", "require")
    if args.pushed is not None:
        args.refuse("with --pushed", "all", "index", "tree", "changed_since", "files", "prune", "fix", "write")
    if args.tree is not None:
        args.refuse("with --tree", "index", "write")
    if args.update_baseline is not None:
        args.refuse("with --update-baseline", "baseline")
    if args.write_baseline is not None:
        args.refuse("with --write-baseline", "baseline", "update_baseline")
    if args.prune:
        args.refuse("with --prune", "fix", "write")
    if not args.fix:
        args.refuse("without --fix", "write")
    if args.json:
        args.refuse("with --json", "format")


def gate_request(args: Namespace) -> GateRequest:
    """What `gate-check` asks for; with `--pushed` the lines of pre-push are read from standard input."""
    from ktxkit.gates.checking import GateRequest

    return GateRequest(
        everything=args.all,
        index=args.index,
        tree=args.tree,
        changed_since=args.changed_since,
        files=tuple(args.files),
        message=args.message,
        messages=args.messages,
        pushed=args.pushed,
        push_lines=sys.stdin.buffer.read() if args.pushed is not None else b"",
        root=args.root,
        config=args.config,
        gates=tuple(args.gate),
        advise=args.advise,
        strict_connections=args.strict_connections,
        baseline=args.baseline,
        write_baseline=args.write_baseline,
        update_baseline=args.update_baseline,
        require_input=args.require_input or "any" in args.require,
        fix=args.fix,
        write=args.write,
        require_expressions="expressions" in args.require,
        prune=args.prune,
    )


def ingest_request(world: World, args: Namespace, progress: JobProgress) -> IngestRequest:
    """What `ingest-run` asks for; a worker's script that is not committed is run from the checkout, and said to be.

    Raises CannotRun if something is missing, or two options exclude each other.
    """
    from ktxkit.ingest.connectors.interface import connector
    from ktxkit.ingest.planning import IngestRequest
    from ktxkit.work.rules.job_file import argv_of

    connector(args.connector)
    _check_ingest(args)
    return IngestRequest(
        connector=args.connector,
        connection=args.connection,
        source=args.source or args.connector,
        path=str(world.cwd / args.place) if args.place else "",
        url=args.url or "",
        options=_options(args.option),
        worker=_worker(world, args, progress),
        reconcile=argv_of(args.reconcile) if args.reconcile else (),
        reconciles=not args.no_reconcile,
        verify=argv_of(args.verify) if args.verify else (),
        time_limit=args.time_limit,
        on_failure=args.on_failure,
        on_conflict=args.on_conflict,
        isolate=tuple(args.write) if args.isolate or args.write else None,
        everything=args.everything,
        allow_empty=args.allow_empty,
        cache=not args.no_cache,
    )


def _worker(world: World, args: Namespace, progress: JobProgress) -> tuple[str, ...]:
    """The command of each unit. A script that the target has not is run from the checkout, as `git ktx run` does it."""
    from ktxkit.app import running
    from ktxkit.store import config, jobs

    if not args.command or world.git.resolve("HEAD") is None:
        return tuple(args.command)
    target = args.target or config.load(world).get("job", {}).get("target", "")
    scripts = running.Scripts(world, jobs.target_ref(world, target))
    argv = tuple(scripts.argv(args.command))
    progress.note(scripts.notes)
    return argv


def _check_ingest(args: Namespace) -> None:
    if bool(args.place) == bool(args.url):
        raise CannotRun("which source?", hint="PLACE, or --url URL")
    if not args.connection:
        raise CannotRun("which connection is it about?", hint="--connection NAME; sources go to semantic-layer/NAME/")
    if args.time_limit is not None and not args.time_limit > 0:
        raise CannotRun("--time-limit must be more than 0 seconds", hint="leave it out for no limit")
    if args.reconcile and args.no_reconcile:
        raise CannotRun("--reconcile and --no-reconcile exclude each other", hint="leave one of them out")


def _options(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise CannotRun(f"option {one!r} is not KEY=VALUE", hint="as in --option group=card")
        if key in found:
            raise CannotRun(f"option {key!r} is given twice", hint="leave one of them out")
        found[key] = value
    return found


def collection(args: Namespace) -> BareCollection:
    """What `patch-collect --base REV -o FILE` asks for. Raises CannotRun where one of the two is missing."""
    from ktxkit.work.bare_patches import BareCollection

    if not args.output or not args.base:
        raise CannotRun("--base and -o go together", hint="patch-collect -C CHILD --base REV -o FILE")
    policy = _policy(args)
    lists = {"maxFileBytes": args.max_file_bytes, "maxPatchBytes": args.max_patch_bytes}
    policy |= {key: value for key, value in lists.items() if value is not None and value != []}
    policy |= {"slDisallowed": True} if args.sl_disallowed else {}
    return BareCollection(args.output, args.base, args.expect_branch, args.require_clean, args.integration, policy)


def patch_options(args: Namespace) -> tuple[Path, BarePatchOptions]:
    """The file of `patch-apply PATCH`, and what is asked for beside it."""
    from ktxkit.work.bare_patches import BarePatchOptions

    options = BarePatchOptions(
        base=args.base,
        expect_head=args.expect_head,
        message=args.message or "",
        policy=_policy(args),
        follow_renames=args.follow_renames,
        gates=not args.no_gates,
        verify=args.command,
        verify_limit=args.verify_limit,
    )
    return Path(os.path.realpath(args.patch)), options


def _policy(args: Namespace) -> dict[str, Any]:
    from ktxkit.work.bare_patches import CONTROL_BY_HAND

    made: dict[str, Any] = {
        "allowControl": [*CONTROL_BY_HAND, *args.allow_control],
        "foreignLinks": not args.inside_links,
        "allowUnpublished": True,  # by hand it is named, under `unpublished`
    }
    lists = {"allow": args.allow, "deny": args.deny, "textRoots": args.text_root}
    return made | {key: value for key, value in lists.items() if value}


def prove(args: Namespace, world: World, events: Sequence[TraceEvent] = (), status: int | None = None) -> list[str]:
    """Record the progress that `trace-append --proof` proves; returns what a person should know.

    `events`: what was appended, empty if its level is not written. `status`: how the timed command ended.
    """
    if args.proof is None:
        return []
    from ktxkit.observer import status as proving

    asked = proving.ProgressProof(args.job, args.unit, args.proof, args.phase, args.event)
    return proving.notes(world, asked, events) if status is None else proving.notes_of_command(world, asked, status)


def check_event(args: Namespace) -> None:
    """Raises CannotRun for options of `trace-append` that do not go together."""
    if args.stdin:
        args.refuse("with --stdin", "level", "duration_ms")
    if args.command:
        args.refuse("with -- CMD", "level")
    if args.stdin and (args.phase or args.event or args.command or args.data or args.error or args.proof is not None):
        raise CannotRun(
            "--stdin takes whole events", hint="leave --phase, --event, --data, --error, --proof and -- CMD"
        )
    if not args.stdin and not (args.phase and args.event):
        raise CannotRun("an event needs --phase and --event", hint="or --stdin with one JSON object a line")
    if args.command and (args.error or args.duration_ms is not None):
        raise CannotRun("-- CMD is timed and judged by itself", hint="leave --error and --duration-ms out")
