"""Run the gates on a tree, the index or files, and print what they find.

reads    what is being committed (the index; with --tree a tree), never the working files; ktx-gates.yaml of it
writes   cache/ of the store (facts of a large tree; may be deleted); --write-baseline FILE; with --prune what it mends
exits    0 nothing that is charged, 1 findings, 2 usage, or nothing looked at with --require-input
example  gate-check --all
         gate-check --changed-since origin/main --format github
         gate-check --explain stale-entity
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.gates.rules.formats import FORMATS
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("gate-check", __doc__)
    scope = made.add_argument_group("what is looked at (default: what differs between the index and HEAD)")
    scope.add_argument("--all", action="store_true", help="everything in the index, or in --tree")
    scope.add_argument("--index", action="store_true", help="what is being committed, as git's environment has it")
    scope.add_argument("--tree", metavar="REV", help="a commit or tree instead of the index")
    scope.add_argument("--changed-since", metavar="REV", help="what differs from REV; what REV has too is inherited")
    scope.add_argument("--pushed", metavar="REMOTE", help="what a push sends: the lines of pre-push on standard input")
    scope.add_argument("--message", metavar="FILE", help="a commit's message, as commit-msg is given it; `-`: stdin")
    scope.add_argument(
        "--messages", metavar="A..B", help="the messages of these commits, each held against its own tree"
    )
    scope.add_argument("files", nargs="*", metavar="FILE", help="these files, and what refers to what they declare")
    how = made.add_argument_group("how")
    how.add_argument("--root", default="", metavar="DIR", help="where semantic-layer/ and wiki/ are, from the top")
    how.add_argument("--config", metavar="FILE", help="the gates' configuration (default: ktx-gates.yaml, if there)")
    how.add_argument("--gate", action="append", default=[], metavar="NAME", help="only this gate; again for more")
    how.add_argument("--advise", action="store_true", help="advice too: what may be a former name")
    how.add_argument("--strict-connections", action="store_true", help="tell names that several connections answer")
    how.add_argument("--baseline", metavar="FILE", help="findings that are known: counted, not charged")
    how.add_argument("--write-baseline", metavar="FILE", help="write every finding there, and succeed")
    how.add_argument("--update-baseline", metavar="FILE", help="take debts that are paid out of it (with --all)")
    how.add_argument("--require-input", action="store_true", help="status 2 where nothing was looked at")
    how.add_argument(
        "--require",
        action="append",
        default=[],
        choices=("any", "expressions"),
        help="status 2 where nothing was looked at, or where expressions of SQL were not read",
    )
    how.add_argument("--prune", action="store_true", help="take out what dangles; with --tree name the repaired tree")
    how.add_argument("--fix", action="store_true", help="show the mends that are certain, as a diff")
    how.add_argument("--write", action="store_true", help="with --fix: write them into the checkout")
    out = made.add_argument_group("output")
    out.add_argument("--format", choices=FORMATS, default="text", help="how findings are printed (default: text)")
    out.add_argument("--explain", metavar="RULE", help="print a rule's page and exit; `list` shows the rules")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.app import requests
    from ktxkit.gates import checking
    from ktxkit.gates.rules.findings import summary
    from ktxkit.gates.rules.formats import render

    requests.check_gates(args)
    if args.explain:
        from ktxkit.gates import checking

        return cli.Result(lines=checking.explain(args.explain))
    answer = checking.check(world, requests.gate_request(args))
    verdict, outcome = answer.verdict, answer.verdict["outcome"]
    looked = bool(args.message or args.gate) or any(gate.get("looked") for gate in verdict["gates"])
    inapplicable = [] if looked else checking.next_step(world)
    notes = [*answer.notes, *(inapplicable or [f"gate-check: {summary(verdict)}"])]
    if args.write_baseline is not None or args.update_baseline is not None:
        from ktxkit.gates import configuration
    if args.write_baseline is not None:
        path = configuration.write_baseline(world, args.write_baseline, verdict)
        outcome, notes = "done", [*notes, f"gate-check: wrote the baseline {path}"]
    if args.update_baseline is not None:
        notes = [*notes, configuration.update_baseline(world, args.update_baseline, verdict)]
    lines = [] if args.json else [*answer.lines] or render(args.format, verdict, answer.content)
    return cli.Result(outcome=outcome, document=verdict, contract="verdict", lines=lines, notes=notes)


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
