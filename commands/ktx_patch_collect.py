"""Collect a unit's change as a patch that loses no byte, and a document that names every touched path.

reads    the unit's worktree (never written to), .ktx/jobs/JOB/units/N-U/lease.json
writes   .ktx/ingest-patches/JOB/N-U.patch, .ktx/jobs/JOB/units/N-U/patch.json, refs/ktx/units/JOB/N-U;
         without a job FILE and FILE.json
exits    0 collected or noop, 1 refused or against the policy, 2 cannot run, 5 a damaged document or a missing base
example  patch-collect --job j1 --unit orders
         patch-collect -C ../child --base main --allow wiki/ -o orders.patch
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import count
from ktxkit.store.world import World

ALONE = (
    *("expect_branch", "integration", "allow", "allow_control", "deny", "inside_links"),
    *("text_root", "sl_disallowed", "max_file_bytes", "max_patch_bytes"),
)


def parser() -> cli.Parser:
    made = cli.Parser("patch-collect", __doc__, unit=True)
    work = made.add_mutually_exclusive_group()
    work.add_argument(
        "--include-uncommitted", action="store_true", help="take uncommitted and untracked work (default)"
    )
    work.add_argument("--require-clean", action="store_true", help="refuse where there is uncommitted work")
    alone = made.add_argument_group("without a job")
    alone.add_argument(
        "-o", dest="output", metavar="FILE", help="write the patch to FILE and its document to FILE.json"
    )
    alone.add_argument("--base", metavar="REV", help="the commit that the change is counted from")
    alone.add_argument("--expect-branch", metavar="NAME", help="refuse where HEAD is not on this branch")
    alone.add_argument("--integration", metavar="REV", default="", help="a branch that the change may have merged in")
    alone.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="paths that may be touched")
    alone.add_argument("--allow-control", action="append", default=[], metavar="PATTERN", help="control files, by name")
    alone.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="paths that may not be touched")
    alone.add_argument("--inside-links", action="store_true", help="symbolic links may not leave the tree")
    alone.add_argument(
        "--text-root", action="append", default=[], metavar="DIR", help="only plain text files below DIR"
    )
    alone.add_argument("--sl-disallowed", action="store_true", help="the semantic layer may not be touched")
    alone.add_argument("--max-file-bytes", type=count, metavar="N", help="no file above N bytes")
    alone.add_argument("--max-patch-bytes", type=count, metavar="N", help="no patch above N bytes")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import requests, views
    from ktxkit.store import jobs
    from ktxkit.work import bare_patches, collect

    if args.output or args.base:
        args.refuse("without a job (-o, --base)", "job", "unit")
        document = bare_patches.collect_by_hand(world, requests.collection(args))
    else:
        args.refuse("for a unit of a job: the job says it", *ALONE)
        job, unit = jobs.need_unit(world, args.job, args.unit, "; without a job: --base REV -o FILE")
        document = collect.collect_unit(job, unit, include_uncommitted=not args.require_clean)
    return views.collected(document)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
