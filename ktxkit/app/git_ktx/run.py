"""Run commands side by side, each in a worktree of its own, and land what passes; no file is needed.

Each WORD is a unit: a script, or a command for the shell. With -n one command runs N times, and KTX_UNIT is 1 to N in
it. Units start from the target's newest commit and see nothing else; each one's change is collected, merged in order
and, with --verify, tried in a clean checkout. What passes lands in one commit. Started in a subdirectory, units,
--setup and --verify run in that subdirectory of their checkouts.

reads    the repository; scripts that are not committed, from your checkout
writes   what job-run writes: .ktx/, and the target branch once, last; with --save the job file, and nothing runs
exits    as job-run: 0 done, 1 refused, 2 usage, 3 some of it did not land, 4 blocked, 130 interrupted
example  git ktx run -n 4 -- ./agent.sh
         git ktx run 'sed -i s/colour/color/ *.md' 'python codemods/imports.py'
         git ktx run codemods/*.sh --verify 'make test'
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ktxkit.app import cli
from ktxkit.app.cli import count, from_one, seconds
from ktxkit.base.errors import CannotRun, Refused

if TYPE_CHECKING:
    from ktxkit.base.documents import JobFile
    from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("git ktx run", __doc__, takes_command=True)
    made.add_argument("words", nargs="*", metavar="WORD", help="a script or a shell command: one unit each")
    made.add_argument("-n", "--units", type=from_one, metavar="N", help="so many units of one command (-- CMD)")
    made.add_argument("--verify", metavar="CMD", help="what each change, and all of them together, must pass")
    made.add_argument("--setup", metavar="CMD", help="what each new worktree needs first, as in 'npm ci'")
    made.add_argument("--target", metavar="BRANCH", help="the branch to land on (default: the one checked out)")
    made.add_argument("-j", "--max-parallel", type=count, metavar="N", help="units at once (default: processors)")
    made.add_argument("--time-limit", type=seconds, metavar="S", help="seconds for each unit")
    made.add_argument("-m", "--message", metavar="TEXT", help="message of the landing commit")
    made.add_argument("--dry-run", action="store_true", help="show the plan, run nothing")
    made.add_argument("--save", metavar="FILE", help="write the job file that this stands for, run nothing")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import running
    from ktxkit.store import config, jobs

    target = jobs.target_ref(world, args.target or config.load(world).get("job", {}).get("target", ""))
    scripts = running.Scripts(world, target)
    document = _document(args, scripts)
    if args.save:
        return _saved(args, world, document, scripts.notes)
    return running.run(world, document, running.JobRequest(args.dry_run, args.quiet, args.json, scripts.notes))


def _document(args: argparse.Namespace, scripts: Any) -> JobFile:
    """The job file that the command line stands for. Raises CannotRun where it names no unit."""
    from ktxkit.app.running import keys_of

    if args.units is not None and len(args.words) > 1:
        raise CannotRun(f"-n takes one command, not {len(args.words)}", hint="git ktx run -n 4 -- ./agent.sh")
    if args.units == 0:
        raise CannotRun("-n must be 1 or more", hint="git ktx run -n 4 -- ./agent.sh")
    commands = _commands(args, scripts)
    if args.units is not None:
        commands, keys = commands * args.units, [str(number) for number in range(1, args.units + 1)]
    else:
        keys = keys_of([words for words, _ in commands])
    made: dict[str, object] = {"schemaVersion": 1}
    made |= {key: value for key, value in _around(args, scripts).items() if value is not None}
    made["units"] = [{"key": key, "run": command} for key, (_, command) in zip(keys, commands, strict=True)]
    return cast("JobFile", made)


def _commands(args: argparse.Namespace, scripts: Any) -> list[tuple[list[str], str | list[str]]]:
    """Of each unit the words that name it, and what runs."""
    if args.command and args.words:
        raise CannotRun("words and -- CMD exclude each other", hint="each WORD is a unit, and so is what follows --")
    if args.command:
        return [(args.command, scripts.argv(args.command))]
    if not args.words:
        raise CannotRun("what is to run?", hint="git ktx run -n 4 -- ./agent.sh, or git ktx run 'CMD' 'CMD'")
    return [(scripts.names(word), scripts.command(word)) for word in args.words]


def _around(args: argparse.Namespace, scripts: Any) -> dict[str, object]:
    return {
        "target": args.target,
        "message": args.message,
        "setup": args.setup and scripts.by_shell(args.setup),
        "verify": args.verify and scripts.by_shell(args.verify),
        "maxParallel": args.max_parallel,
        "timeLimit": args.time_limit,
    }


def _saved(args: argparse.Namespace, world: World, document: JobFile, notes: Sequence[str]) -> cli.Result:
    """Raises Refused where the file is there already."""
    from ktxkit.app.running import job_text
    from ktxkit.base import files

    args.refuse("with --save: nothing runs", "dry_run")
    path = Path(os.path.normpath(world.cwd / args.save))
    if os.path.lexists(path):
        raise Refused("it is there already", location=str(path), hint="name another file, or remove it")
    files.write_named(world.cwd, args.save, job_text(document, "git ktx run").encode("utf-8"))
    lines = [f"wrote {path}", f"next: job-run {shlex.quote(args.save)}"]
    return cli.Result(lines=lines, notes=notes, data={"path": str(path), "jobFile": dict(document)})
