"""What an earlier execution of the same job left that still holds: patches whose inputs are unchanged, and receipts.

The middle of a job: units run in parallel, their patches are integrated in unit order as soon as possible.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ktxkit.base import kinds
from ktxkit.base.errors import Blocked, Conflict, KtxError
from ktxkit.store.active import Unit
from ktxkit.work import batch, closing, integrate, report
from ktxkit.work.job import containment
from ktxkit.work.job.state import JobRun, silent
from ktxkit.work.job.unit import UnitEnd, close_or_keep, work
from ktxkit.work.rules.job_file import UnitPlan, inputs_digest
from ktxkit.work.rules.report import left_out, left_out_again
from ktxkit.work.rules.schedule import LANDED, Schedule, ScheduledUnit

if TYPE_CHECKING:
    from ktxkit.base.documents import LeaseOutcome, Patch, Receipt, TraceEventLevel


PATHS_AT_ONCE = 500  # arguments of one ls-tree


class Reuse:
    """Looks into the job's own documents. `resumed` is False for a new job: then there is nothing to look at."""

    def __init__(self, run: JobRun, resumed: bool) -> None:
        self.run = run
        self.resumed = resumed
        self._digests: dict[tuple[str, str], str] = {}

    def digest(self, plan: UnitPlan, base: str) -> str:
        """Digest of everything that the unit's work depends on, starting from `base`."""
        known = self._digests.get((plan.key, base))
        if known is None:
            known = inputs_digest(plan, self.run.tree_of(base), self._raw_ids(plan, base))
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

    def receipt(self, plan: UnitPlan) -> Receipt | None:
        """The unit's receipt, where it has one already: it is not integrated a second time."""
        if not self.resumed or plan.key in self.run.selection.rerun:
            return None
        unit = self.run.unit(plan)
        return self.run.job.read(kinds.RECEIPT, "receipt", unit)

    def patch(self, plan: UnitPlan, base: str) -> Patch | None:
        """The patch that the unit handed over, where its inputs are what they were and its objects are there."""
        if not self.resumed or plan.key in self.run.selection.rerun:
            return None
        unit, job = self.run.unit(plan), self.run.job
        result, patch = job.read(kinds.UNIT_RESULT, "result", unit), job.read(kinds.PATCH, "patch", unit)
        if result is None or patch is None or result["outcome"] != "finished":
            return None
        same = result.get("inputsDigest") == self.digest(plan, base) and patch["base"] == base
        kept = "commit" not in patch or self.run.git.resolve(patch["commit"]) is not None
        return patch if same and kept else None


TICK = 0.2  # seconds between looks at the stop flag


class JobLoop:
    """Runs every unit to its outcome. One thread integrates (this one); units have threads of their own."""

    def __init__(self, run: JobRun, reuse: Reuse) -> None:
        self.run = run
        self.reuse = reuse
        self.plans = {plan.key: plan for plan in run.plan.units}
        self.schedule = Schedule([plan.node for plan in run.plan.units], run.limit)
        self.threads: dict[str, threading.Thread] = {}
        self.ends: queue.Queue[UnitEnd | BaseException] = queue.Queue()
        self.waiting: dict[str, UnitEnd] = {}
        self.batched: dict[str, Receipt | KtxError] = {}  # decided, not settled yet
        self.refusals: dict[str, str] = {}  # by key, why a patch could not be judged
        self.papers = containment.JobPapers(run)
        self.said: dict[str, dict[str, str]] | None = None  # by key, what the trace has of why it was left out
        self.changed_by: dict[str, list[str]] = {}  # of each path: the units that changed it and were accepted

    def __call__(self) -> Mapping[str, str]:
        """Outcome word of every unit."""
        try:
            while not self.schedule.done:
                self._skip_hopeless()
                self._start()
                self._integrate_ready()
                if self.schedule.running:
                    self._take(wait=not self._may_integrate())
        except BaseException:
            self.run.stop.set()  # the threads end their commands and return
            raise
        finally:
            for thread in self.threads.values():
                thread.join()
        for plan in self.run.plan.units:
            containment.put_right(self.run, self.run.unit(plan))
        self.papers.put_right()
        return dict(self.schedule.outcomes)

    def _start(self) -> None:
        if self.run.stop.is_set() and not self.run.aborting:
            self.run.aborting = "interrupted"
            self.run.notify("job_stopping", {"job": self.run.job.id})
        if self.run.aborting:
            self.schedule.close()
            for node in self.schedule.drop_waiting():
                self.waiting[node.key] = _not_started(node, self._why())
            return
        for node in self.schedule.startable():
            base = self._base(node)
            self.schedule.started(node.key)
            plan = self.plans[node.key]
            old = self._from_before(plan, base)
            wanted = self.run.selection.keys
            if old is None and wanted and node.key not in wanted:
                self.waiting[node.key] = _not_started(node, f"only {', '.join(sorted(wanted))}")
                self.schedule.ended(node.key)
            elif old is not None:
                self._ended(old)
            else:
                words = (plan, base, self.reuse.digest(plan, base))
                self.threads[plan.key] = threading.Thread(target=self._work, args=words, name=f"unit {plan.key}")
                self.threads[plan.key].start()

    def _base(self, node: ScheduledUnit) -> str:
        if node.key in self.run.selection.rerun:
            return self.run.head()
        return (
            self.schedule.base_after(node) or self.run.hooks.unit_base(self.run) or str(self.run.job.document["base"])
        )

    def _from_before(self, plan: UnitPlan, base: str) -> UnitEnd | None:
        """What an earlier execution left of a unit: its receipt, or a patch whose inputs are unchanged."""
        receipt = self.reuse.receipt(plan)
        patch = self.reuse.patch(plan, base) if receipt is None else None
        if receipt is None and patch is None:
            return None
        facts = {"unitKey": plan.key, "what": "receipt" if receipt else "patch"}
        self.run.tracer.emit("work_unit", "work_unit_reused", facts, level="info")
        return UnitEnd(plan.key, patch=patch, receipt=receipt)

    def _why(self) -> str:
        return {"failure": "another unit failed", "conflict": "another unit conflicted"}.get(
            self.run.aborting, "the job was interrupted"
        )

    def _work(self, plan: UnitPlan, base: str, inputs: str) -> None:
        """In a thread of the unit's own: the schedule starts as many as may run at a time."""
        try:
            self.ends.put(work(self.run, plan, base, inputs))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that takes the ends
            self.ends.put(error)

    def _take(self, *, wait: bool) -> None:
        """Take what units have ended; wait for one if asked, but not longer than a tick."""
        try:
            found = self.ends.get(timeout=TICK if wait else 0.001)
        except queue.Empty:
            return  # gate-ok: none has ended: that is no error
        if isinstance(found, BaseException):
            raise found
        self._ended(found)

    def _ended(self, end: UnitEnd) -> None:
        self.waiting[end.key] = end
        self.threads.pop(end.key, None)  # it has put its end, which was its last word
        self.schedule.ended(end.key)
        self.run.notify("unit_ended", {"unit": end.key, "problem": end.problem})
        if end.problem and self.run.plan.on_failure == "abort" and not self.run.aborting:
            self.run.aborting, self.run.stopped_by = "failure", end.problem
            self.run.stop.set()

    def _skip_hopeless(self) -> None:
        for node, failed in self.schedule.unstartable():
            self.waiting[node.key] = _not_started(node, f"it waits for {', '.join(failed)}, which did not land")
            self.schedule.ended(node.key)

    def _may_integrate(self) -> bool:
        """Whether the next unit can be integrated now; with one verification for many, not while units still run."""
        if self.schedule.integrable() is None:
            return False
        waits = self.run.plan.verify_batch and not self.run.aborting and not self.batched
        return not (waits and (self.schedule.running or self.schedule.startable()))

    def _integrate_ready(self) -> None:
        """At most one, so that freed places are filled before the next."""
        node = self.schedule.integrable()
        if node is None or not self._may_integrate():
            return
        if self.run.plan.verify_batch and not self.run.aborting and node.key not in self.batched:
            self._decide_batch()
        end = self.waiting.pop(node.key)
        if end.receipt is not None:
            outcome = str(end.receipt["outcome"])
            self.run.receipts[node.key] = end.receipt
            self._close_if_open(self.plans[node.key], outcome)
            self.schedule.settled(node.key, outcome, str(end.receipt.get("after") or end.receipt["before"]))
        else:
            outcome = self._outcome(node, end)
            self.schedule.settled(node.key, outcome, self._head_after(node.key))
        self.run.hooks.settled(self.run, self.plans[node.key], outcome, replayed=end.replayed)
        self._tell(node.key, end, outcome)
        if (
            outcome not in LANDED
            and not end.problem
            and not end.receipt
            and self.run.plan.on_conflict == "stop"
            and not self.run.aborting
        ):
            self.run.aborting, self.run.stopped_by = "conflict", outcome
            self.run.stop.set()

    def _tell(self, key: str, end: UnitEnd, outcome: str) -> None:
        """Whoever listens is told of a unit's outcome: why, and how long its command ran."""
        if self.run.notify is silent:
            return
        unit = self.run.unit(self.plans[key])
        left = {"message": end.message or self.refusals.get(key, "")}
        if not end.started:
            left = left_out_again(self._left_before().get(key), {"outcome": outcome, **left})
            outcome = left["outcome"]
        facts: dict[str, object] = {"unit": key, "outcome": outcome}
        reason, ms = report.why(self.run.job, unit, outcome, left, self.changed_by)
        ms = ms if end.started else None
        for item in end.patch["paths"] if end.patch and outcome == "accepted" else ():
            self.changed_by.setdefault(item["path"], []).append(key)
        facts |= {"before": True} if end.receipt is not None else {}
        self.run.notify("unit_settled", {**facts, "reason": reason, **({"ms": ms} if ms is not None else {})})

    def _left_before(self) -> dict[str, dict[str, str]]:
        """Why each unit was left out, as far as the trace has it when it is first asked."""
        if self.said is None:
            self.said = left_out(report.events_of(self.run.job, [])) if self.reuse.resumed else {}
        return self.said

    def _decide_batch(self) -> None:
        """Verify all units whose turn it is as one stack."""
        keys = []
        for node in self.schedule.all_integrable():
            end = self.waiting[node.key]
            if end.problem or end.receipt is not None:
                break
            keys.append(node.key)
        units = [self.run.unit(self.plans[key]) for key in keys]
        for unit in units:
            containment.put_right(self.run, unit)
        self.papers.put_right()
        try:
            self.batched = dict(batch.apply_batch(self.run.job, units, self._options()))
        except Blocked:
            raise
        except KtxError as error:
            if error.machinery:
                raise
            self.batched = dict.fromkeys(keys, error)

    def _head_after(self, key: str) -> str:
        """The integration head with this unit; later units of its batch may be on the branch already."""
        decided = self.batched.pop(key, None)
        if isinstance(decided, dict):
            return str(decided.get("after") or decided["before"])
        return self.run.head()

    def _outcome(self, node: ScheduledUnit, end: UnitEnd) -> str:
        plan = self.plans[node.key]
        if self.run.aborting and not end.problem:
            end = UnitEnd(node.key, "skipped", f"not integrated: {self._why()}")
        if end.problem:
            self._leave(plan, end)
            return end.problem
        outcome = self._integrate(plan)
        return outcome if outcome in LANDED or not end.replayed else self._again(node, plan, outcome)

    def _again(self, node: ScheduledUnit, plan: UnitPlan, outcome: str) -> str:
        """A replayed result that cannot be integrated is forgotten, and the unit's own command runs, once."""
        self.run.hooks.forget(self.run, plan)
        self.batched.pop(plan.key, None)
        facts = {"unitKey": plan.key, "outcome": outcome}
        self.run.tracer.emit("work_unit", "work_unit_cache_stale_recompute", facts, level="info")
        base = self._base(node)
        end = work(self.run, plan, base, self.reuse.digest(plan, base))
        if end.problem:
            self._leave(plan, end)
            return end.problem
        return self._integrate(plan)

    def _leave(self, plan: UnitPlan, end: UnitEnd) -> None:
        """A unit that is not integrated: worktree and output are kept, and the reason is on record."""
        unit = self.run.unit(plan)
        facts: dict[str, object] = {"unitKey": plan.key, "reason": end.problem, "message": end.message}
        facts |= {} if end.started else {"started": False}
        quiet = end.problem in ("skipped", "interrupted")  # nothing of it went wrong
        error = None if quiet else end.failure or Conflict(end.message or end.problem)
        level: TraceEventLevel = "info" if quiet else "error"
        self.run.tracer.emit("work_unit", "work_unit_not_integrated", facts, level=level, error=error)
        containment.put_right(self.run, unit)
        lease = self.run.job.unit_doc(unit, "lease")
        if self.run.world.store.exists(lease):
            self.run.leases.pop(unit.key, None)
            why = closing.INTERRUPTED if self.run.aborting == "interrupted" else ""
            closing.close_unit(self.run.job, unit, "crash", reason=why)

    def _integrate(self, plan: UnitPlan) -> str:
        unit = self.run.unit(plan)
        if self.run.watch:
            self.run.watch.handling(unit)
        self.run.phase = "integration"
        if plan.key not in self.batched:
            containment.put_right(self.run, unit)
            self.papers.put_right()
        try:
            decided = self.batched.get(plan.key)
            if isinstance(decided, KtxError):
                raise decided
            if decided is None:
                if self.run.plan.verify:
                    self.run.notify("verifying", {"unit": plan.key})
                with self.run.watch.holding(unit) if self.run.watch else nullcontext():
                    decided = integrate.apply_unit(self.run.job, unit, options=self._options())
                self.batched[plan.key] = decided
            outcome = str(decided["outcome"])
            self.run.receipts[plan.key] = decided
        except Blocked:
            raise
        except KtxError as error:
            if error.machinery:  # that is no verdict on the unit: the job is resumed
                raise
            facts = {"unitKey": plan.key, "outcome": error.outcome}
            self.run.tracer.emit("integration", "patch_refused", facts, level="error", error=error)
            outcome = error.outcome if error.outcome != "cannot_run" else "failed"
            self.refusals[plan.key] = error.message
        self._close(unit, outcome)
        self.run.phase = "units"
        return outcome

    def _close(self, unit: Unit, outcome: str) -> None:
        close_or_keep(self.run, unit, _closing(outcome))

    def _close_if_open(self, plan: UnitPlan, outcome: str) -> None:
        """A unit whose receipt was written by an execution that was killed before it closed the worktree."""
        unit = self.run.unit(plan)
        lease = self.run.job.unit_doc(unit, "lease")
        found = self.run.world.store.read_optional(kinds.LEASE, lease)
        if found is not None and found["state"] == "open":
            self._close(unit, outcome)

    def _options(self) -> integrate.ApplyOptions:
        prune = {"prune": True} if self.run.plan.on_conflict == "prune" else {}
        options = integrate.ApplyOptions(gate_options={**self.run.plan.gates, **prune})
        return options.verified_by(self.run.plan.verify)


def _not_started(node: ScheduledUnit, why: str) -> UnitEnd:
    return UnitEnd(node.key, "skipped", f"not started: {why}", started=False)


def _closing(outcome: str) -> LeaseOutcome:
    """How a unit's worktree is closed after integration."""
    if outcome == "noop":
        return "empty"
    return "success" if outcome in LANDED else "conflict"
