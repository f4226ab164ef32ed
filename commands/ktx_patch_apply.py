"""Apply one patch onto the integration branch: merged, proven, gated, verified, all or nothing.

reads    .ktx/jobs/JOB/units/N-U/patch.json and its patch, or PATCH (with PATCH.json beside it, or bare with --base)
writes   the branch, .ktx/jobs/JOB/units/N-U/intent.json and receipt.json; with PATCH the branch checked out in -C DIR
exits    0 accepted, subsumed or noop, 1 policy or refused, 2 cannot run, 3 conflict or failed verification,
         4 blocked, 5 invalid patch or missing base
example  patch-apply --job j1 --unit orders --verify -- make check
         patch-apply -C ../checkout orders.patch
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import seconds
from ktxkit.base.errors import CannotRun
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("patch-apply", __doc__, takes_command=True, unit=True)
    made.add_argument("patch", nargs="?", metavar="PATCH", help="a patch file, outside any job")
    made.add_argument("--base", metavar="REV", default="", help="the commit that a bare patch was made from")
    made.add_argument("--expect-head", metavar="OID", default="", help="refuse where the branch is elsewhere")
    made.add_argument("--message", metavar="TEXT", default=None, help="the commit's message, at most 1024 bytes")
    made.add_argument("--allow", action="append", default=[], metavar="PATTERN", help="paths that PATCH may touch")
    made.add_argument("--allow-control", action="append", default=[], metavar="PATTERN", help="control files, by name")
    made.add_argument("--deny", action="append", default=[], metavar="PATTERN", help="paths that PATCH may not touch")
    made.add_argument(
        "--text-root",
        action="append",
        default=[],
        metavar="DIR",
        help="plain text only below DIR (wiki, semantic-layer)",
    )
    made.add_argument("--inside-links", action="store_true", help="symbolic links may not leave the tree")
    made.add_argument("--follow-renames", action="store_true", help="follow an upstream rename the merge has followed")
    made.add_argument("--no-gates", action="store_true", help="do not run the gates")
    made.add_argument("--verify", action="store_true", help="run the command after -- in a checkout of the candidate")
    made.add_argument("--verify-limit", type=seconds, metavar="SECONDS", help="end the verification after this long")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import requests, views
    from ktxkit.store import jobs
    from ktxkit.work import bare_patches, integrate

    if args.verify != bool(args.command):
        raise CannotRun("--verify and a command after -- go together", hint="patch-apply ... --verify -- make check")
    if not args.verify:
        args.refuse("without --verify", "verify_limit")
    if args.message is not None and not args.message.strip():
        raise CannotRun("--message is blank", hint="leave it out for the default")
    if args.patch:
        args.refuse("for a patch file", "job", "unit")
        receipt = bare_patches.apply_file(world, *requests.patch_options(args))
    else:
        args.refuse(
            "for a unit of a job: the job says it",
            "base",
            "allow",
            "allow_control",
            "deny",
            "text_root",
            "inside_links",
        )
        job, unit = jobs.need_unit(world, args.job, args.unit)
        options = integrate.ApplyOptions(
            verify=args.command,
            verify_limit=args.verify_limit,
            gates=not args.no_gates,
            follow_renames=args.follow_renames,
            message=args.message or "",
            expect_head=args.expect_head,
        )
        receipt = integrate.apply_unit(job, unit, options=options)
        integrate.require_verified(receipt, args.command)
    return views.applied(receipt)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
