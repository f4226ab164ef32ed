"""Run the gates on a tree, the index or files, and print what they find.

reads    what is being committed (the index; with --tree a tree, with --all everything in it), never the working files
writes   nothing; inside a job, with --job and --unit, the unit's verdict.json
exits    0 nothing that is charged, 1 findings, 2 usage, or nothing looked at with --require-input
example  gate-check --all; gate-check --changed-since origin/main; gate-check --tree HEAD~1 --all --json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.world import World


def parser() -> cli.Parser:
    made = cli.Parser("gate-check", __doc__)
    scope = made.add_argument_group("what is looked at (default: what differs between the index and HEAD)")
    scope.add_argument("--all", action="store_true", help="everything in the index, or in --tree")
    scope.add_argument("--index", action="store_true", help="what is being committed, as git's environment has it")
    scope.add_argument("--tree", metavar="REV", help="a commit or tree instead of the index")
    scope.add_argument("--changed-since", metavar="REV", help="what differs from REV; what REV has too is inherited")
    scope.add_argument("--pushed", metavar="REMOTE", help="what a push sends: the lines of pre-push on standard input")
    scope.add_argument("--message", metavar="FILE", help="a commit's message, as commit-msg is given it")
    scope.add_argument("files", nargs="*", metavar="FILE", help="these files, and what refers to what they declare")
    how = made.add_argument_group("how")
    how.add_argument("--root", default="", metavar="DIR", help="where semantic-layer/ and wiki/ are, from the top")
    how.add_argument("--advise", action="store_true", help="advice too: what may be a former name")
    how.add_argument("--strict-connections", action="store_true", help="tell names that several connections answer")
    how.add_argument("--require-input", action="store_true", help="status 2 where nothing was looked at")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.core.gates.text_form import lines, summary
    from ktxkit.flows.gate_check import check

    args.stdin = sys.stdin.buffer.read() if args.pushed is not None else b""
    verdict = check(world, args)
    return cli.Result(
        outcome=verdict["outcome"],
        document=verdict,
        contract="verdict",
        lines=lines(verdict),
        notes=[f"gate-check: {summary(verdict)}"],
    )


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
