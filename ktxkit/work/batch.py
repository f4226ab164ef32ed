"""Many units, verified as one stack: accepted together where it passes, searched for the culprit where it fails.

The outcome is that of one-by-one verification: units are judged in order, each on top of what was accepted before it.
Nothing moves before all of the batch is decided; then each unit moves the branch for itself, so that a process that
dies between two of them leaves whole units.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktxkit.base import files
from ktxkit.base.errors import BrokenContract, KtxError
from ktxkit.base.rules.named import NamedTuple
from ktxkit.git.neutral import Neutral, open_neutral
from ktxkit.git.objects import Objects
from ktxkit.store.active import ActiveJob, Unit
from ktxkit.work import integrate, recover, verification
from ktxkit.work.candidate import CandidateVerdict, Offer
from ktxkit.work.integrate import Application, ApplyOptions, check_message, receipt_of
from ktxkit.work.recover import IntegrationBranch
from ktxkit.work.rules.schedule import Culprit, first_failure, may_confirm, minimal_set

if TYPE_CHECKING:
    from ktxkit.base.documents import Receipt, VerificationRun


class StackedUnit(NamedTuple):
    """A unit in a stack. `commit` is empty where it was rejected before any verification."""

    step: Application
    offer: Offer
    judged: CandidateVerdict
    commit: str = ""
    run: VerificationRun | None = None
    culprit: Culprit | None = None

    @property
    def key(self) -> str:
        return self.step.unit.key


def apply_batch(job: ActiveJob, units: Sequence[Unit], options: ApplyOptions) -> dict[str, Receipt | KtxError]:
    """Apply the collected patches of many units with one verification where it passes; by key, in unit order.

    A unit whose patch is damaged has its error there. Raises Refused where the verification says nothing of the units:
    it fails without them, or answers twice differently for one tree; then nothing has moved.
    """
    check_message(options.message)
    found: dict[str, Receipt | KtxError] = {}
    with recover.integrating(job) as branch:
        branch.lock.note(phase="preflight")
        with open_neutral(job.world) as neutral:
            objects = neutral.objects
            todo = []
            for unit in units:
                step = integrate.begin(branch, unit, options)
                offered = _offer(step, neutral) if isinstance(step, Application) else step
                if isinstance(step, Application) and isinstance(offered, Offer):
                    todo.append((step, offered))
                elif not isinstance(offered, Offer):
                    found[unit.key] = offered
            if todo:
                found.update(_decide_and_move(Batch(branch, neutral, objects), todo))
    return {unit.key: found[unit.key] for unit in units}


def _offer(step: Application, neutral: Neutral) -> Offer | KtxError:
    try:
        return integrate.offer_of(step, neutral)
    except BrokenContract as error:
        return error


def _decide_and_move(batch: Batch, todo: list[tuple[Application, Offer]]) -> dict[str, Receipt]:
    for step, _ in todo:
        integrate.announce(step)
    integrate.start(todo[0][0])  # whoever finds us dead looks there, and heals the checkout
    receipts = {}
    for entry in batch.decide(todo):
        with integrate.naming(entry.step):
            integrate.start(entry.step)
            receipt = _settle(entry)
            integrate.tell(entry.step, receipt)
        receipts[entry.key] = receipt
    return receipts


def _settle(entry: StackedUnit) -> Receipt:
    if entry.judged.outcome == "candidate":
        return integrate.accept(entry.step, entry.judged, entry.commit, entry.run)
    receipt = receipt_of(entry.step, entry.judged, entry.run)
    if entry.culprit is not None:
        receipt["message"] = f"{entry.culprit.text}: {receipt['message']}"
        receipt["blame"] = {"alone": not entry.culprit.together, "together": list(entry.culprit.together)}
    return integrate.close(entry.step, receipt)


class Batch:
    """The units of one batch on their way to a decision. All of them stack on the head of the branch."""

    def __init__(self, branch: IntegrationBranch, neutral: Neutral, objects: Objects) -> None:
        self.branch = branch
        self.neutral = neutral
        self.objects = objects
        self.verifications = 0
        self.controlled = False
        self.culprits = 0
        self.doubtful: list[tuple[StackedUnit, list[StackedUnit]]] = []  # culprit, and what it fails with
        self.logs: set[str] = set()

    def decide(self, todo: list[tuple[Application, Offer]]) -> list[StackedUnit]:
        """Every unit with its outcome, in order."""
        total, decided = len(todo), list[StackedUnit]()
        head = self.branch.head
        with todo[0][0].trace.timed("verification", "batch_verification", {"units": total}) as told:
            while todo:
                entries = self.stack(todo, head)
                stacked = [entry for entry in entries if entry.commit]
                final = self._round(entries, stacked, decided)
                decided += final
                todo = [(entry.step, entry.offer) for entry in entries[len(final) :]]
                head = next((entry.commit for entry in reversed(decided) if entry.judged.outcome == "candidate"), head)
            self._confirm_rest(total)
            told |= {"asked": self.verifications, "culprits": [entry.key for entry in decided if entry.culprit]}
        self._drop_logs(decided)
        return decided

    def stack(self, todo: Sequence[tuple[Application, Offer]], head: str) -> list[StackedUnit]:
        """Each unit merged and gated on top of those before it; a rejected one is left out of the stack."""
        entries = []
        for step, offer in todo:
            if step.patch["outcome"] == "noop":
                entries.append(StackedUnit(step, offer, CandidateVerdict("noop")))
                continue
            judged = integrate.judge(step, self.neutral, self.objects, offer, head)
            commit = ""
            if judged.outcome == "candidate":
                commit = head = integrate.commit_of(step, self.neutral, judged, head)
            entries.append(StackedUnit(step, offer, judged, commit))
        return entries

    def _round(
        self, entries: list[StackedUnit], stacked: list[StackedUnit], decided: list[StackedUnit]
    ) -> list[StackedUnit]:
        """The entries that this round decides: all of them, or those up to the first culprit."""
        if not stacked:
            return entries
        runs = {len(stacked): self.verify(stacked, search=bool(decided))}
        if verification.passed(runs[len(stacked)]):
            return [entry._replace(run=runs[len(stacked)]) if entry.commit else entry for entry in entries]
        self._control(stacked[0].step)

        def fails(count: int) -> bool:
            runs[count] = self.verify(stacked[:count])
            return not verification.passed(runs[count])

        first = first_failure(len(stacked), fails)
        culprit = stacked[first - 1]
        accepted = [entry for entry in decided if entry.judged.outcome == "candidate"]
        left = len(entries) - entries.index(culprit) - 1
        named = self._blame(culprit, [*accepted, *stacked[: first - 1]], len(decided) + len(entries), left)
        rejected = culprit._replace(
            commit="",
            judged=culprit.judged._replace(outcome="verification_failed"),
            run=runs[first],
            culprit=named,
        )
        before = entries[: entries.index(culprit)]
        return [*(entry._replace(run=runs[first - 1]) if entry.commit else entry for entry in before), rejected]

    def verify(self, stacked: Sequence[StackedUnit], *, search: bool = True) -> VerificationRun:
        """Verify the last of a stack. `search`: looking for blame, so that no pass on record answers for it."""
        self.verifications += 1
        top = stacked[-1]
        check = integrate.check_of(top.step)._replace(reuse=not search)
        run = verification.verify(self.branch.lock, check, top.commit, top.judged.tree)
        self.branch.require_unmoved(self.branch.head)
        if "log" in run:
            self.logs.add(run["log"])
        return {**run, "batch": [entry.key for entry in stacked]}

    def _control(self, any_step: Application) -> None:
        """The same command without any of the units. Raises Refused where it fails: then nobody is blamed."""
        if self.controlled:
            return
        self.controlled = True
        self.verifications += 1
        tree = self.neutral.need_tree(self.branch.head)
        integrate.control(self.branch.lock, integrate.check_of(any_step), self.branch.head, tree)

    def _blame(self, culprit: StackedUnit, earlier: list[StackedUnit], total: int, left: int) -> Culprit:
        """Whether the culprit fails on its own, or which smallest part of what came before it fails with it."""
        together: list[StackedUnit] = []
        if self._fails([], culprit) is not True and earlier:
            together = minimal_set(earlier, lambda some: self._fails(some, culprit) is True)
        self.culprits += 1
        if may_confirm(total, self.culprits, self.verifications, left):
            self._confirm(culprit, together)
        else:
            self.doubtful.append((culprit, together))
        return Culprit(culprit.key, tuple(entry.key for entry in together))

    def _fails(self, some: Sequence[StackedUnit], culprit: StackedUnit) -> bool | None:
        """Whether some units and the culprit fail on top of the start; None where they cannot be stacked there."""
        entries = self.stack([(entry.step, entry.offer) for entry in (*some, culprit)], self.branch.head)
        if not all(entry.commit for entry in entries):
            return None
        return not verification.passed(self.verify(entries))

    def _confirm_rest(self, total: int) -> None:
        """Those that could not be confirmed at once, as far as the promise of few verifications goes."""
        for culprit, together in self.doubtful:
            if may_confirm(total, self.culprits, self.verifications):
                self._confirm(culprit, together)

    def _confirm(self, culprit: StackedUnit, together: list[StackedUnit]) -> None:
        """Ask the decisive question again. Raises Refused where it is answered differently: the gate is flaky."""
        if self._fails(together, culprit) is False:
            raise integrate.flaky([culprit.key])

    def _drop_logs(self, decided: Sequence[StackedUnit]) -> None:
        kept = {entry.run["log"] for entry in decided if entry.culprit and entry.run and "log" in entry.run}
        for log in self.logs - kept:
            files.remove(Path(log))
