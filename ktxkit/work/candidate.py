"""From what a unit hands over to a tree that may land, or the reason why not. Nothing visible moves here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.named import NamedTuple
from ktxkit.base.rules.text import path_bytes, printable
from ktxkit.git import merging, staging
from ktxkit.git.neutral import Neutral
from ktxkit.git.objects import Objects
from ktxkit.git.rules import patch as changes
from ktxkit.git.rules.patch import Clash, Content, Entry, Side, entries_of
from ktxkit.store.world import World
from ktxkit.work.collect import judge_entries
from ktxkit.work.rules.policy import Breach, Policy, is_below

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from ktxkit.base.documents import Patch, PrunedReference, ReceiptGates, ReceiptOutcome, VerdictFinding

    JudgedOutcome: TypeAlias = Literal["candidate"] | ReceiptOutcome

SUSPECT: Final = "suspect_revert"
NO_BLOB = ("absent", "gitlink")


class Offer(NamedTuple):
    """What a unit hands over. `recorded_tree` is of the base it was opened at; its change counts from `base_tree`."""

    base_tree: str
    recorded_tree: str
    tree: str
    entries: tuple[Entry, ...]
    policy: Mapping[str, Any] = {}
    patch_bytes: int = 0
    unpublished: frozenset[bytes] = frozenset()  # submodules at commits that no remote of theirs has


class CandidateVerdict(NamedTuple):
    """`outcome`: `candidate` (then `tree` may go on to the next judge), `subsumed`, or the word of its rejection."""

    outcome: JudgedOutcome
    tree: str = ""
    entries: tuple[Entry, ...] = ()  # integration tree to `tree`
    conflicts: tuple[Clash, ...] = ()
    breaches: tuple[Breach, ...] = ()
    findings: tuple[VerdictFinding, ...] = ()
    gates: ReceiptGates | None = None
    followed: Mapping[bytes, bytes] = {}
    pruned: tuple[PrunedReference, ...] = ()  # what was taken out of the tree so that the gates pass


def offer_of(world: World, neutral: Neutral, document: Patch, patch: Path | None, policy: Mapping[str, Any]) -> Offer:
    """The offer that a patch document names, proven against objects and patch bytes.

    Raises BrokenContract: `invalid_patch` where the bytes or the paths are not what the document says, `missing_base`
    where the base is not here.
    """
    where = str(patch) if patch else document.get("ref", "patch document")
    if document["objectFormat"] != neutral.object_format:
        raise _invalid(f"it is of object format {document['objectFormat']}", where)
    if document["transport"] == "patch":
        _same_bytes(document, patch, where)
    base_tree = _base_tree(neutral, document, where)
    tree = document["tree"]
    if neutral.tree_of(tree) is None:
        if document["transport"] != "patch" or patch is None:
            raise _invalid("its objects are gone and it has no patch", where)
        merging.prefetch(neutral, (e.old.oid for e in _named(document, where) if e.old.kind not in NO_BLOB))
        made = merging.tree_with_patch(neutral, base_tree, patch)
        if made != tree:
            raise _invalid(f"it makes tree {made} of its base, not {tree}", where)
    entries = merging.changes(neutral, base_tree, tree)
    merging.prefetch(neutral, (e.new.oid for e in entries if e.new.kind not in NO_BLOB))
    if _named(document, where) != set(entries):
        raise _invalid("its paths are not those that its trees differ in", where)
    recorded = neutral.tree_of(document["base"]) or base_tree
    lost = frozenset(path_bytes(item) for item in document.get("unpublished", ()))
    return Offer(base_tree, recorded, tree, tuple(entries), policy, document.get("patchBytes", 0), lost)


def _named(document: Patch, where: str) -> set[Entry]:
    try:
        return set(entries_of(document))
    except ValueError as error:
        raise _invalid(f"a path is damaged: {error}", where) from error


def _same_bytes(document: Patch, patch: Path | None, where: str) -> None:
    try:
        found = merging.file_digest(patch) if patch else None
    except FileNotFoundError:
        raise _invalid("its patch file is gone", where) from None
    if found != (document.get("patchDigest"), document.get("patchBytes")):
        raise _invalid("the patch file is not the one that was collected (digest or length differ)", where)


def _base_tree(neutral: Neutral, document: Patch, where: str) -> str:
    found = neutral.tree_of(document["baseTree"])
    if found is None:
        raise BrokenContract(
            f"the base tree {document['baseTree']} is not in this repository",
            location=where,
            hint="fetch the base commit, then apply again",
            outcome="missing_base",
        )
    return found


def _invalid(why: str, where: str) -> BrokenContract:
    return BrokenContract(f"invalid patch: {why}", location=where, hint="collect it again", outcome="invalid_patch")


def by_policy(neutral: Neutral, objects: Objects, offer: Offer) -> list[Breach]:
    """The policy's word; content is read only where a rule asks for it."""
    content = _content(objects, offer.entries, Policy.of(offer.policy))
    return judge_entries(
        neutral, objects, offer.entries, content, offer.policy, offer.patch_bytes, offer.tree, offer.unpublished
    )


def _content(objects: Objects, entries: Sequence[Entry], policy: Policy) -> dict[str, Content]:
    if not policy.text_roots and policy.max_file_bytes is None:
        return {}
    blobs = (one for one in entries if one.new.kind not in NO_BLOB)
    if policy.max_file_bytes is None:
        blobs = (one for one in blobs if is_below(one.path, policy.text_roots))
    return {one.new.oid: objects.content(one.new.oid) for one in blobs}


def merged(
    neutral: Neutral, objects: Objects, offer: Offer, integration_tree: str, *, follow: bool = False
) -> CandidateVerdict:
    """Merge and prove. `follow`: an upstream rename is followed where the new path passes the policy."""
    upstream = merging.changes(neutral, offer.base_tree, integration_tree)
    merging.prefetch(neutral, changes.needed(offer.entries, upstream))
    wide = len(offer.entries) > staging.MANY
    made = merging.merge(neutral, offer.base_tree, integration_tree, offer.tree, wide=wide)
    if not made.clean:
        return CandidateVerdict("textual_conflict", conflicts=tuple(changes.textual(made, offer.entries, upstream)))
    if made.tree == integration_tree:
        return CandidateVerdict("subsumed", tree=made.tree)
    result = tuple(merging.changes(neutral, integration_tree, made.tree))
    wrong = changes.disproved(result, offer.entries, upstream)
    moved = _moved(result, offer, upstream, wrong)
    if wrong and not (moved and follow):
        return CandidateVerdict("textual_conflict", conflicts=tuple(_with_a_way_out(wrong, moved)))
    if moved:
        there = offer._replace(entries=tuple(entry for entry in result if entry.path in set(moved.values())))
        breaches = by_policy(neutral, objects, there)
        if breaches:
            return CandidateVerdict("policy_rejected", breaches=tuple(breaches), followed=moved)
    back = _put_back(neutral, offer, integration_tree, result, upstream)
    if back:
        return CandidateVerdict(SUSPECT, conflicts=tuple(back))
    return CandidateVerdict("candidate", tree=made.tree, entries=result, followed=moved)


def _moved(
    result: Sequence[Entry], offer: Offer, upstream: Sequence[Entry], wrong: Sequence[Clash]
) -> dict[bytes, bytes]:
    """The renames, of upstream or of the unit, that make a merge strange; empty where they do not explain it all."""
    if not wrong:
        return {}
    tried = (changes.renames(result, offer.entries, upstream), changes.moved_by_unit(result, offer.entries, upstream))
    return next((moved for moved in tried if moved and {clash.path for clash in wrong} == set(moved.values())), {})


def _with_a_way_out(wrong: Sequence[Clash], moved: Mapping[bytes, bytes]) -> list[Clash]:
    """The clashes of a merge that followed a rename say so, and which option takes it."""
    old = {new: printable(path) for path, new in moved.items()}
    said = "{} was renamed on one side and edited on the other: --follow-renames takes git's merge of both"
    return [clash._replace(reason=said.format(old[clash.path])) if clash.path in old else clash for clash in wrong]


def _put_back(
    neutral: Neutral, offer: Offer, integration_tree: str, result: Sequence[Entry], upstream: list[Entry]
) -> list[Clash]:
    same = offer.recorded_tree == offer.base_tree
    target = upstream if same else merging.changes(neutral, offer.recorded_tree, integration_tree)
    return changes.reverted(result, target)


def gated(world: World, judged: CandidateVerdict, base_tree: str, options: Mapping[str, Any]) -> CandidateVerdict:
    """The gates' word on a candidate tree: new findings of level error are a semantic conflict.

    With the option `prune` what dangles is taken out of the tree, and it may go on where every gate then passes.
    """
    from ktxkit.gates.judging import check_tree

    asked = {key: value for key, value in options.items() if key != "prune"}
    touched = [entry.path for entry in judged.entries]
    verdict = check_tree(world, judged.tree, base_tree=base_tree, touched=touched, **asked)
    found = verdict["findings"]
    new = tuple(f for f in found if f["level"] == "error" and not f.get("inherited"))
    counted: ReceiptGates = {
        "looked": verdict["looked"],
        "inherited": sum(1 for f in found if f.get("inherited")),
        "warnings": sum(1 for f in found if f["level"] == "warning" and not f.get("inherited")),
    }
    if new and options.get("prune"):
        from ktxkit.gates.judging import prune_tree

        mended = prune_tree(world, judged.tree, base_tree=base_tree, options=asked)
        if mended["outcome"] == "done":
            return judged._replace(tree=mended["prunedTree"], pruned=tuple(mended["pruned"]), gates=counted)
    word: JudgedOutcome = "semantic_conflict" if new else "candidate"
    return judged._replace(outcome=word, findings=new, gates=counted)


def absent(neutral: Neutral) -> Side:
    """The side of a path that is not there."""
    return Side("000000", neutral.zero)
