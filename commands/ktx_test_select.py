"""Which tests a change can reach, each with the chain of reasons; and how many of how many.

reads    the base revision and the checkout (or --index, --tree REV), .ktx-config.yaml (affected.inert)
writes   .ktx/cache/affected.sqlite: facts of files, disposable
exits    0 answered (`unknown` is an answer: what could be meant is in it), 1 with --strict where it is unknown, 2 usage
example  test-select --base main
         test-select --base origin/main --index --strict -z | xargs -0 -r pytest
         test-select --why tests/test_shop.py::test_total
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ktxkit import cli
from ktxkit.world import World


def parser() -> cli.Parser:
    made = cli.Parser("test-select", __doc__)
    made.add_argument("--base", default="HEAD", metavar="REV", help="what the change starts from (default: HEAD)")
    target = made.add_mutually_exclusive_group()
    target.add_argument("--index", action="store_true", help="where it ends: what is staged")
    target.add_argument("--tree", default="", metavar="REV", help="where it ends: a revision (default: the checkout)")
    made.add_argument(
        "--environment", action="append", default=[], metavar="NAME", help="this variable differs as well"
    )
    made.add_argument("--strict", action="store_true", help="refuse (1) where the answer is unknown")
    made.add_argument("--why", default="", metavar="TEST", help="only this test: the chain from the change to it")
    made.add_argument("-z", dest="nul", action="store_true", help="only the ids, each ended by NUL")
    return made


def run(args: argparse.Namespace, world: World) -> cli.Result:
    from ktxkit.flows.affected import answers, select

    wish = select.Wish(base=args.base, tree=args.tree, index=args.index, environment=tuple(args.environment))
    document = select.select(world, wish).document
    outcome = "refused" if args.strict and document["verdict"] == "unknown" else "done"
    if args.why:
        document = answers.only(document, args.why)
    if args.nul:
        raw = b"".join(one["id"].encode("utf-8", "surrogateescape") + b"\0" for one in document["tests"])
        return cli.Result(outcome, document, "selection", raw=raw, notes=answers.notes(document))
    shown = answers.chains(document) if args.why else answers.lines(document)
    return cli.Result(outcome, document, "selection", lines=shown, notes=answers.notes(document))


def main(argv: Sequence[str] | None = None) -> int:
    return cli.execute(parser(), run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
