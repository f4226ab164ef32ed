"""Which tests a change can reach, each with the chain of reasons; and how many of how many. And the proof of it.

reads    the base revision and the checkout (or --index, --tree REV), .ktx-config.yaml (affected.inert)
writes   .ktx/cache/affected.sqlite: facts of files, disposable; with --prove a line of .ktx/ledger/test-runs.ndjson
exits    0 answered (`unknown` is an answer: what could be meant is in it), 1 with --strict where it is unknown, with
         --prove where a needed test is left out or nothing is proven, with --audit where there is a hole, 2 usage
example  test-select --base main
         test-select --base origin/main --index --strict -z | xargs -0 -r pytest
         test-select --why tests/test_shop.py::test_total
         test-select --base main --prove --sample 50 -- -p no:randomly
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ktxkit.app import cli
from ktxkit.app.cli import count
from ktxkit.base.rules.text import printable
from ktxkit.store.world import World


def parser() -> cli.Parser:
    made = cli.Parser("test-select", __doc__, takes_command=True)
    made.add_argument("--base", default="HEAD", metavar="REV", help="what the change starts from (default: HEAD)")
    target = made.add_mutually_exclusive_group()
    target.add_argument("--index", action="store_true", help="where it ends: what is staged")
    target.add_argument("--tree", default="", metavar="REV", help="where it ends: a revision (default: the checkout)")
    made.add_argument("--environment", action="append", default=[], metavar="NAME", help="this variable differs, too")
    made.add_argument("--strict", action="store_true", help="refuse (1) where the answer is unknown")
    made.add_argument("--why", default="", metavar="TEST", help="only this test: the chain from the change to it")
    made.add_argument("-z", dest="nul", action="store_true", help="the ids, each ended by NUL, for `xargs -0`")
    made.add_argument("--audit", action="store_true", help="what the traced run called and the map lacks")
    proof = made.add_argument_group("proof", "what follows `--` goes to pytest")
    proof.add_argument("--prove", action="store_true", help="mutate what changed: who notices must be selected")
    proof.add_argument("--sample", type=count, metavar="N", help="so many mutants (default 50)")
    proof.add_argument("--seed", type=count, metavar="S", help="which of them (default 1)")
    proof.add_argument("--python", default="", metavar="EXE", help="the interpreter (default: the active one's)")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    if args.prove:
        args.only("with --prove", "prove", "base", "sample", "seed", "python", "command")
        return _prove(args, world)
    args.refuse("without --prove", "sample", "seed", "python", "command")
    if args.audit:
        args.only("with --audit", "audit")
        return _audit(world)
    if args.why:
        args.refuse("with --why", "nul")
    from ktxkit.affected import running, select

    made = select.select(world, select.SelectionRequest(args.base, args.tree, args.index, tuple(args.environment)))
    document = made.document
    outcome = "refused" if args.strict and document["verdict"] == "unknown" else "done"
    notes = running.notes_of(document)
    if args.why:
        test = running.from_top(world, args.why, made.target.entries)
        running.require_there(test, made.target.entries, made.graph)
        document = running.only(document, test)
        return cli.Result(outcome, document, "selection", lines=running.chains(document), notes=notes)
    ids = [running.from_here(world, one.id) for one in made.decision.tests]
    raw = b"".join(one.encode("utf-8", "surrogateescape") + b"\0" for one in ids) if args.nul else None
    return cli.Result(outcome, document, "selection", raw=raw, lines=[printable(one) for one in ids], notes=notes)


def _audit(world: World) -> cli.Result:
    from ktxkit.affected import running

    document = running.differential(world)
    outcome = "refused" if document["holes"] else "done"
    return cli.Result(outcome, document, "affected-audit", lines=running.lines(document), notes=running.notes(document))


def _prove(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.affected import proof as proving

    ask = proving.ask(args.base, args.sample, args.seed, args.python, args.command)

    def told(text: str) -> None:
        if not args.quiet:
            sys.stderr.write(f"test-select: {text}\n")
            sys.stderr.flush()

    document = proving.proof(world, ask, told)
    outcome = "done" if document["verdict"] == "proven" else "refused"
    return cli.Result(outcome, document, "affected-proof", lines=proving.lines(document))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
