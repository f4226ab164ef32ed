"""Show, compare and bring back what was closed without landing.

    git ktx attic list [ENTRY]                         what there is (below JOB, or JOB/WORKTREE): when, who, why
    git ktx attic show ENTRY                           one entry: where its work began, and the paths that it changed
    git ktx attic diff ENTRY [PATH ...]                its work as a patch, to read or to apply
    git ktx attic restore ENTRY [PATH ...]             merge it into the files of this checkout, uncommitted
    git ktx attic restore ENTRY --branch BRANCH        make a new branch of it, which worktree-open --ref opens

reads    refs/ktx/attic/ with their reflogs
writes   restore: the files of this checkout, or a new branch; the entry itself stays
exits    0 done, 1 refused: something is in the way, 2 no such entry, 3 it conflicts with what is checked out
example  git ktx attic restore j1/0001-orders --branch orders-again
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ktxkit.app import cli
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import path_fields, plural, printable

if TYPE_CHECKING:
    from ktxkit.app.attic import AtticEntry
    from ktxkit.store.world import World

ACTIONS = ("list", "show", "diff", "restore")


def parser() -> cli.Parser:
    made = cli.Parser("git ktx attic", __doc__)
    made.add_argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list")
    made.add_argument("name", nargs="?", default="", metavar="ENTRY", help="an entry, or what its name begins with")
    made.add_argument("paths", nargs="*", metavar="PATH", help="these files or directories only (diff, restore)")
    made.add_argument("--branch", default="", metavar="BRANCH", help="restore: a new branch instead of files")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import attic

    if args.action in ("list", "show"):
        args.refuse(f"of `{args.action}`", "paths")
    if args.branch and (args.action != "restore" or args.paths):
        raise CannotRun("--branch is of `restore ENTRY`, and takes the whole entry", hint="see git ktx attic --help")
    if args.action == "list":
        below = args.name.rstrip("/")
        known = [item for item in attic.entries(world) if f"{item.name}/".startswith(f"{below}/" if below else "")]
        rows = [item.document() for item in known]
        return cli.Result(lines=[_line(row) for row in rows] or ["The attic is empty."], data={"entries": rows})
    if not args.name:
        raise CannotRun(f"{args.action} what?", hint="`git ktx attic list` shows what there is")
    found = attic.entry(world, args.name)
    if args.action == "show":
        return _shown(world, found)
    if args.action == "diff":
        patch = attic.diff(world, found, args.paths)
        return cli.Result(raw=patch, data={**found.document(), "patch": patch.decode("utf-8", "backslashreplace")})
    if args.branch:
        ref = attic.restore_branch(world, found, args.branch)
        lines = [f"{ref.removeprefix('refs/heads/')} has it: worktree-open --ref {args.branch}"]
        return cli.Result(lines=lines, data={**found.document(), "branch": ref})
    written = attic.restore_files(world, found, args.paths)
    lines = [printable(path) for path in written] or ["nothing to restore: the files have all of it"]
    return cli.Result(lines=lines, data={**found.document(), "paths": [path_fields(path) for path in written]})


def _line(row: dict[str, str]) -> str:
    at = row["keptAt"] if "keptAt" in row else f"before {row['committedAt']}"
    return f"{at[:19]}Z  {row['name']}  {row.get('by', 'by nobody knows whom')}: {row.get('why', 'it is not recorded')}"


def _shown(world: World, entry: AtticEntry) -> cli.Result:
    from ktxkit.app import attic

    entries = attic.changed(world, entry)
    row = {**entry.document(), "base": attic.base_of(world, entry)}
    lines = [f"{key:<12} {value}" for key, value in row.items()]
    lines += [f"{plural(len(entries), 'path')}:", *(f"  {item.change}  {printable(item.path)}" for item in entries)]
    paths = [{**path_fields(item.path), "change": item.change} for item in entries]
    return cli.Result(lines=lines, data={**row, "paths": paths})
