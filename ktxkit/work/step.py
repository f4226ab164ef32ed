"""One application under way, and the documents that say so: its intent, and its receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ktxkit.base.clock import timestamp
from ktxkit.base.contracts import SCHEMA_VERSION, Document
from ktxkit.base.errors import CannotRun
from ktxkit.base.rules.text import path_fields
from ktxkit.store import jobs
from ktxkit.store.branch_lock import Held
from ktxkit.store.rules import names
from ktxkit.store.tracing import Tracer
from ktxkit.store.world import World
from ktxkit.work import verification
from ktxkit.work.candidate import Judged

MESSAGE_LIMIT = 1024  # bytes of a commit message that a user gives
KEPT = 10_000  # conflicts, breaches or findings in one receipt


@dataclass(frozen=True)
class Options:
    """How to apply. `verify_limit`: seconds. `gate_options`: keyword arguments for the gates."""

    verify: Sequence[str] = ()
    verify_limit: float | None = None
    gates: bool = True
    gate_options: Mapping[str, Any] = field(default_factory=dict)
    follow_renames: bool = False
    message: str = ""
    expect_head: str = ""


@dataclass
class Step:
    """One application under way."""

    world: World
    job: Document
    unit: jobs.Unit
    held: Held
    options: Options
    patch: Document
    before: str
    began: float
    attempt: int

    @property
    def place(self) -> tuple[str, int, str]:
        return self.job["jobId"], self.unit.position, self.unit.key

    def doc(self, name: str) -> str:
        return names.unit_doc(*self.place, name)

    @cached_property
    def trace(self) -> Tracer:
        """The job's trace, for this unit."""
        return jobs.tracer(self.world, self.job).bound(unitKey=self.unit.key)


def check_message(message: str) -> None:
    """Raises CannotRun for a blank message, or one above 1,024 bytes; an empty one means the default."""
    if message and (not message.strip() or len(message.encode("utf-8", "surrogateescape")) > MESSAGE_LIMIT):
        raise CannotRun(
            f"a commit message has 1 to {MESSAGE_LIMIT} bytes, and not only blanks",
            hint="--message TEXT, or leave it out for the default",
        )


def message_of(step: Step) -> str:
    """The integration commit's message, with trailers that name what it carries."""
    lead = step.options.message.strip() or f"{step.unit.key}: integrated by ktxkit"
    digest = step.patch.get("patchDigest", "")
    patch = f"Ktx-Patch: {digest}\n" if digest else ""
    return f"{lead}\n\nKtx-Job: {step.job['jobId']}\nKtx-Unit: {step.unit.key}\n{patch}"


def intent_of(step: Step) -> Document:
    """The document that says this application has begun."""
    digest = step.patch.get("patchDigest")
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "intent",
        "step": "apply",
        "jobId": step.job["jobId"],
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "nonce": step.held.nonce,
        "at": timestamp(step.world.clock.now()),
        "ref": step.job["integrationRef"],
        "before": step.before,
        **({"patchDigest": digest} if digest else {}),
    }


def receipt_of(step: Step, judged: Judged, run: Document | None = None) -> Document:
    """The document that says this application is done, without a commit."""
    made: Document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "receipt",
        "jobId": step.job["jobId"],
        "unitKey": step.unit.key,
        "position": step.unit.position,
        "attempt": step.attempt,
        "outcome": judged.outcome,
        "at": timestamp(step.world.clock.now()),
        "integrationRef": step.job["integrationRef"],
        "before": step.before,
        "patchTree": step.patch["tree"],
        "nonce": step.held.nonce,
        **facts_of(judged),
        "paths": [path_fields(entry.path) for entry in judged.entries] or paths_of(step.patch),
        **handed_over(step.patch),
        **({"verification": run} if run else {}),
        **({"message": verification.why_not(run)} if run and judged.outcome == "verification_failed" else {}),
        "durationMs": round((step.world.clock.monotonic() - step.began) * 1000, 3),
    }
    return made


def paths_of(patch: Document) -> list[Document]:
    """The paths that a patch document names, for a receipt."""
    return [{key: item[key] for key in ("path", "pathB64") if key in item} for item in patch["paths"]]


def handed_over(patch: Document) -> Document:
    """How the change came: the patch's digest, or that objects had to do."""
    made = {"patchDigest": patch["patchDigest"]} if "patchDigest" in patch else {}
    return made | ({"transport": "objects"} if patch["transport"] == "objects" else {})


def facts_of(judged: Judged) -> Document:
    """Conflicts, findings, breaches and what was looked at, as a receipt has them."""
    made: Document = {
        "conflicts": [clash.document() for clash in judged.conflicts[:KEPT]],
        "findings": list(judged.findings[:KEPT]),
    }
    if judged.breaches:
        made["breaches"] = [breach.document() for breach in judged.breaches[:KEPT]]
    if judged.gates is not None:
        made["gates"] = judged.gates
    if judged.pruned:
        made["pruned"] = list(judged.pruned[:KEPT])
    if judged.followed:
        made["followed"] = [
            {**path_fields(old), **path_fields(new, "newPath")} for old, new in sorted(judged.followed.items())
        ]
    return made
