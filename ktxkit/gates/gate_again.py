"""The same question about the same content: its verdict is kept, so that the gates are not even loaded.

A kept verdict is named by all that it follows from: the files, what is inherited, the options, and the gates' sources.
Where a gate looks at more than the tree (a command, a gate of somebody's own) none is kept.
"""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.digests import digest
from ktxkit.gates import gate_read
from ktxkit.gates.rules.verdict import idle
from ktxkit.store.rules import names
from ktxkit.store.world import World

if TYPE_CHECKING:
    from ktxkit.base.contracts import Document
    from ktxkit.gates.fact_cache import FactCache
    from ktxkit.gates.rules.formats import Content
    from ktxkit.git.objects import Objects

KIND = "verdict"
OTHERWISE = ("tree", "changed_since", "files", "config", "baseline", "update_baseline", "prune")
MANAGED = ("PRE_COMMIT_FROM_REF", "PRE_COMMIT_TO_REF", "PRE_COMMIT_LOCAL_BRANCH")


@dataclass(frozen=True)
class Standing:
    """What is being committed: the index; the trees of HEAD (None where there is none) and of a merge's other sides.

    `objects`: the reader that told of HEAD.
    """

    listed: gate_read.Listed
    base: str | None = None
    heads: tuple[str, ...] = ()
    objects: Objects | None = None


def check(world: World, args: Namespace) -> tuple[Document, Content]:
    """The verdict that the command line asks for, and the content of what was judged.

    Raises CannotRun for a revision or file that is none, and where nothing was looked at but had to be.
    """
    verdict, content = _kept(world, args) if _is_plain(world, args) else _anew(world, args, None)[:2]
    if args.require_input and not any(gate.get("looked") for gate in verdict["gates"]):
        raise CannotRun("nothing was looked at", hint="no semantic-layer/ or wiki/ here? --root names their place")
    if args.require_input and idle(verdict):
        hint = "its `files` in ktx-gates.yaml match nothing, or --root names another place"
        raise CannotRun(f"nothing was looked at by {', '.join(idle(verdict))}", hint=hint)
    return verdict, content


def _is_plain(world: World, args: Namespace) -> bool:
    """Whether the index, as a whole or against HEAD, is asked about, and the options are all that is said of it."""
    if any(getattr(args, key, None) for key in OTHERWISE) or args.message is not None or args.pushed is not None:
        return False
    asked = args.all or args.index
    return args.write_baseline is None and (asked or not any(world.env.get(key) for key in MANAGED))


def _anew(world: World, args: Namespace, standing: Standing | None) -> tuple[Document, Content, bool]:
    from ktxkit.gates import gate_check

    return gate_check.check(world, args, standing)


def _kept(world: World, args: Namespace) -> tuple[Document, Content]:
    if args.all:
        return _answer(world, args, Standing(gate_read.index(world)))
    from ktxkit.git.objects import Objects

    with Objects(world.git) as objects:  # they are read by it too: one process less
        listed, head = gate_read.index(world), objects.find("HEAD^{tree}")
        heads = gate_read.merge_heads(world) if head else []
        trees = tuple(gate_read.resolved(world, one) for one in heads)
        return _answer(world, args, Standing(listed, head[0] if head else None, trees, objects))


def _answer(world: World, args: Namespace, standing: Standing) -> tuple[Document, Content]:
    cache = _cache(world)
    name = _name(world, args, standing) if cache is not None else ""
    known = cache.note(KIND, name) if cache is not None else None
    if known is not None:
        verdict: Document = json.loads(known)
        return verdict, _content(world, standing.listed)
    verdict, content, repeatable = _anew(world, args, standing)
    cache = cache or _cache(world)
    if repeatable and cache is not None:
        cache.keep_note(KIND, name or _name(world, args, standing), json.dumps(verdict).encode("ascii"))
    return verdict, content


def _cache(world: World) -> FactCache | None:
    """The cache, where one was made already."""
    place = world.store.path(names.FACTS)
    if not place.is_file():
        return None
    from ktxkit.gates.fact_cache import FactCache

    return FactCache(place)


def _name(world: World, args: Namespace, standing: Standing) -> str:
    from ktxkit.gates import gate_version

    said = [args.all, args.index, args.root, args.advise, args.strict_connections, sorted(args.gate)]
    asked = [gate_version.version(), said, "GIT_INDEX_FILE" in world.env, standing.base, standing.heads]
    return digest(json.dumps([*asked, standing.listed.tree, digest(standing.listed.raw)]).encode("ascii"))


def _content(world: World, listed: gate_read.Listed) -> Content:
    def content(path: bytes) -> bytes | None:
        from ktxkit.gates import gate_check

        return gate_check.content_of(world, listed.files)(path)

    return content
