"""What a run covered: derived from what happened, never from what was declared; and whether it may be relied upon.

`full` only where no argument narrowed, no option narrowed, nothing was deselected or lost, no module failed to collect,
and all that was selected started and finished. Whatever is not known is not full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktxkit.ledger.rules.states import FINISHED

WHOLE = ("testpaths", "invocation_dir")  # pytest's own choice of arguments
WHY_SHOWN = 20


def asked(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the arguments asked for; the only scope a run has while it goes on."""
    selection = record.get("selection", {})
    why = [f"{one['option']} {one['value']}".strip() for one in selection.get("narrowing", ())]
    if record.get("mode", "run") != "run":
        return {"kind": "none", "why": [f"nothing is executed: {record['mode']}"]}
    if record.get("runner", {}).get("affected", {}).get("missed"):
        return {"kind": "partial", "why": ["a proof shows that tests are needed which this selection leaves out"]}
    if selection.get("declared") == "affected" or record.get("declared") == "affected":
        return {"kind": "affected"} | ({"why": why[:WHY_SHOWN]} if why else {})
    if why:
        return {"kind": "partial", "why": why[:WHY_SHOWN]}
    source = selection.get("argsSource", "unknown")
    if source in WHOLE:
        return {"kind": "full"}
    if source != "args":
        return {"kind": "partial", "why": ["where the arguments came from is not known"]}
    paths = selection.get("paths", [])
    if any("::" in path for path in paths):
        return {"kind": "partial", "why": ["node ids"], "paths": paths[:WHY_SHOWN]}
    single = len(paths) == 1 and paths[0].endswith(".py")
    return {"kind": "module" if single else "modules", "paths": paths[:WHY_SHOWN]}


def derive(record: Mapping[str, Any]) -> dict[str, Any]:
    """The scope of a run that has ended: what was asked for, unless something kept it from being covered."""
    wanted = asked(record)
    why = [*wanted.get("why", []), *uncovered(record)]
    if not why:
        return wanted
    made = {"kind": wanted["kind"] if wanted["kind"] == "none" else "partial", "why": why[:WHY_SHOWN]}
    return made | ({"paths": wanted["paths"]} if "paths" in wanted else {})


def uncovered(record: Mapping[str, Any]) -> list[str]:
    """Each reason why what was asked for was not covered."""
    counts, why = record["counts"], []
    if record["state"] != FINISHED:
        why.append(f"the run is {record['state']}")
    for key, text in (
        ("deselected", "{} deselected"),
        ("removed", "{} removed from the collection without a word"),
        ("collectionErrors", "{} not collected: errors"),
        ("notRun", "{} never ran"),
        ("interrupted", "{} interrupted"),
    ):
        if counts.get(key):
            why.append(text.format(counts[key]))
    for key in ("selected", "deselected"):
        if key not in counts and record["state"] == FINISHED:
            why.append(f"how many were {key} is not known")
    lost = record.get("lost", {})
    if any(lost.get(key) for key in ("dropped", "faults", "torn")):
        why.append("the recording is incomplete")
    return why


def less_than(scope: dict[str, Any], before: Sequence[str] | None, ids: Sequence[str] | None) -> dict[str, Any]:
    """The scope of a full run whose tree ran in full before: partial where it lacks ids, or they are not known."""
    if before is None or ids is None:
        why = "whether it lacks tests of the last full run of this tree is not known: a list of ids is gone"
        return {"kind": "partial", "why": [why]}
    lacks = len(set(before) - set(ids))
    return {"kind": "partial", "why": [f"lacks {lacks} tests of the last full run of this tree"]} if lacks else scope


def against_authority(record: Mapping[str, Any]) -> list[str]:
    """Each reason why a run is not authoritative; none: it is, for the tree it ran on and no other."""
    why = []
    if record["scope"]["kind"] != "full":
        why.append(f"its scope is {record['scope']['kind']}")
    if not record.get("managed"):
        why.append("it was not started by test-run: nobody verified the preconditions")
    if record.get("parent"):
        why.append("it ran inside another run")
    tree, after = record.get("tree", {}), record.get("treeAfter", {})
    if not tree.get("tree"):
        why.append(f"the tree it ran on is not known{': ' + tree['why'] if tree.get('why') else ''}")
    elif tree["tree"] != after.get("tree"):
        why.append("the tree changed while it ran" if after.get("tree") else "the tree at its end is not known")
    why += [f"precondition {one['name']} failed" for one in record.get("preconditions", ()) if not one["verified"]]
    return why
