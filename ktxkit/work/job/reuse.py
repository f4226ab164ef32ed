"""What an earlier execution of the same job left that still holds: patches whose inputs are unchanged, and receipts."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktxkit.base.contracts import Document
from ktxkit.store.rules import names
from ktxkit.work.job.state import JobRun
from ktxkit.work.rules.job_file import UnitPlan, inputs_digest

PATHS_AT_ONCE = 500  # arguments of one ls-tree


@dataclass
class Reuse:
    """Looks into the job's own documents. `resumed` is False for a new job: then there is nothing to look at."""

    run: JobRun
    resumed: bool
    _digests: dict[tuple[str, str], str] = field(default_factory=dict)

    def digest(self, plan: UnitPlan, base: str) -> str:
        """Digest of everything that the unit's work depends on, starting from `base`."""
        known = self._digests.get((plan.key, base))
        if known is None:
            tree = self.run.git.resolve(base, "tree")
            assert tree is not None, "a unit's base is a commit of this repository"
            known = inputs_digest(plan, tree, self._raw_ids(plan, base))
            self._digests[plan.key, base] = known
        return known

    def _raw_ids(self, plan: UnitPlan, base: str) -> dict[str, str]:
        """Git blob ids of the unit's raw files in the base; a path that is not there has none."""
        found: dict[str, str] = {}
        for start in range(0, len(plan.raw_files), PATHS_AT_ONCE):
            some = plan.raw_files[start : start + PATHS_AT_ONCE]
            for entry in self.run.git.run("ls-tree", "-r", "-z", "--full-tree", base, "--", *some).nul:
                facts, _, path = entry.partition(b"\t")
                found[path.decode("utf-8", "backslashreplace")] = facts.split(b" ")[2].decode("ascii")
        return found

    def receipt(self, plan: UnitPlan) -> Document | None:
        """The unit's receipt, where it has one already: it is not integrated a second time."""
        if not self.resumed:
            return None
        unit = self.run.unit(plan)
        return self.run.world.store.read_optional(
            "receipt", names.unit_doc(self.run.job_id, unit.position, unit.key, "receipt")
        )

    def patch(self, plan: UnitPlan, base: str) -> Document | None:
        """The patch that the unit handed over, where its inputs are what they were and its objects are there."""
        if not self.resumed:
            return None
        unit, store = self.run.unit(plan), self.run.world.store
        result = store.read_optional("unit-result", names.unit_doc(self.run.job_id, unit.position, unit.key, "result"))
        patch = store.read_optional("patch", names.unit_doc(self.run.job_id, unit.position, unit.key, "patch"))
        if result is None or patch is None or result["outcome"] != "finished":
            return None
        same = result.get("inputsDigest") == self.digest(plan, base) and patch["base"] == base
        kept = "commit" not in patch or self.run.git.resolve(patch["commit"]) is not None
        return patch if same and kept else None
