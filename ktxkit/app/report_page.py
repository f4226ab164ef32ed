"""The report of a job as one page, with the evidence that a reader wants next to it: patches, output, conflict sides.

Evidence shares a budget, so that a job of any size makes a page that opens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ktxkit import __version__
from ktxkit.app.rules.report_html import head, page, tail
from ktxkit.base import files
from ktxkit.base.contracts import Document
from ktxkit.base.errors import BrokenContract
from ktxkit.base.rules.text import path_bytes
from ktxkit.observer import observer_status
from ktxkit.observer.observer_attempt import Attempt
from ktxkit.observer.rules.domain import attempt_name
from ktxkit.observer.rules.status import clock_facts
from ktxkit.store.leases import LEASE, Place
from ktxkit.store.rules import names
from ktxkit.store.world import World

BUDGET = 12_000_000  # characters of evidence in one page
PATCH_LIMIT = 200_000  # characters of one patch
OUTPUT_LIMIT = 20_000  # characters of one stream
SIDE_LIMIT = 20_000  # characters of one side of a conflict
CONFLICTS_SHOWN = 200  # conflicting paths of one page whose sides are shown; the rest is named
BINARY = "(binary)"
SIDES = {"base": "base", "ours": "integratedOn", "theirs": "patchCommit"}  # and the commit that holds each


def render(world: World, report: Document) -> bytes:
    """The page. Evidence that is not there any more is left out."""
    share = BUDGET // max(1, len(report["workUnits"]))
    evidence = {}
    left = CONFLICTS_SHOWN
    for unit in report["workUnits"]:
        found = _evidence(world, unit, share, left) | _observer(world, report["jobId"], unit)
        left -= min(left, len(found.get("conflicts", ())))
        if found:
            evidence[str(unit["position"])] = found
    title = f"{report['jobId']}: {report.get('outcome', report['status'])}"
    data = {"version": __version__, "report": report, "evidence": evidence}
    return page(asset("report.html"), asset("report.css"), asset("common.js") + asset("report.js"), title, data)


def deliver(world: World, made: bytes, where: str) -> tuple[bytes | None, list[str]]:
    """The page for stdout (`-`), or what to say of the file that it was written to."""
    if where == "-":
        return made, []
    path = files.write_named(world.cwd, where, made)
    return None, [f"wrote {path} ({_size(len(made))})"]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{-(-count // 1000)} kB"


def asset(name: str) -> str:
    """A text that the pages are made of."""
    return resources.files("ktxkit.app").joinpath("assets", name).read_text("utf-8")


def _evidence(world: World, unit: Mapping[str, Any], share: int, conflicts_left: int) -> Document:
    found: Document = {}
    limits = {"stdout": (OUTPUT_LIMIT, tail), "stderr": (OUTPUT_LIMIT, tail), "patch": (PATCH_LIMIT, head)}
    for name, (limit, cut) in limits.items():
        found |= _text(name, unit.get(f"{name}Path"), min(limit, share // 3), cut)
    conflicts = unit.get("conflicts", ())
    if conflicts and conflicts_left:
        found["conflicts"] = [
            {**conflict, **(_sides(world, unit, conflict) if number < conflicts_left else {})}
            for number, conflict in enumerate(conflicts)
        ]
    return found


def _observer(world: World, job: str, unit: Mapping[str, Any]) -> Document:
    """The two clocks of a unit that was observed. What cannot be read of them is named, it is no reason for no page."""
    place = Place(
        world, names.unit_dir(job, unit["position"], unit["key"]), job, names.ref_part(unit["position"], unit["key"])
    )
    try:
        lease = place.read(LEASE)
        if lease is None or not world.store.exists(names.observer_file(attempt_name(lease), "activity.jsonl")):
            return {}
        return {"observer": clock_facts(observer_status.clocks(Attempt.of(place, lease)))}
    except BrokenContract as error:
        return {"observer": {"problem": f"{error.where}: {error.message}"}}


def _text(name: str, path: str | None, limit: int, cut: Callable[[str, int], tuple[str, bool]]) -> Document:
    if path is None:
        return {}
    try:
        data = files.read_part(Path(path), 4 * limit, from_end=cut is tail)
    except OSError:
        return {}  # evidence that was cleaned away; the report still names where it was
    whole = data.total <= len(data.content)
    text, short = cut(data.content.decode("utf-8", "replace"), limit)
    return {name: text, **({f"{name}Cut": True} if short or not whole else {})} if text.strip() else {}


def _sides(world: World, unit: Mapping[str, Any], conflict: Mapping[str, Any]) -> dict[str, str]:
    """What base, integration branch and unit hold at a conflicting path, where git still has them."""
    sides = {}
    path = path_bytes(conflict)
    for name, key in SIDES.items():
        if key in unit:
            revision = unit[key].encode("ascii") + b":" + path
            answer = world.git.at(world.repository.place).run("cat-file", "blob", revision, ok=None)
            if answer.status == 0:
                text = BINARY if b"\0" in answer.out[:8000] else answer.out.decode("utf-8", "replace")
                sides[name] = head(text, SIDE_LIMIT)[0]
    return sides
