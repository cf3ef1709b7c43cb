"""PodDisruptionBudgets: never more evictions at a time than the owner of the pods allows.

A budget's status says how many more of its pods may be disrupted now. That number is as old as the last time its
controller looked, while a cycle may evict many pods at once and the next cycle may come before the controller does.
So what we have set in motion ourselves is taken off: pods evicted in this session, and pods of an earlier cycle whose
eviction is still on its way. A pod that the budget already lists as disrupted has been counted there.

A gang that goes as a whole is asked for before its first pod goes, so all of it has to fit in the budget at once.

An undone eviction costs nothing. Instead of being told of every undo, we remember each pod that was ever evicted in
this session and look, when asked, which of them are still leaving.
"""

from __future__ import annotations

from stromboli.api import PodDisruptionBudget
from stromboli.api.selectors import matches_labels
from stromboli.cluster import OCCUPYING, Status, Task, TaskKey
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class Pdb(Plugin):
    name = "pdb"

    def __init__(self, arguments: Arguments) -> None:
        self._budgets: dict[str, list[tuple[str, PodDisruptionBudget]]] = {}  # by namespace: (key, budget)
        self._leaving: dict[str, dict[TaskKey, Task]] = {}  # by a budget's key; some may have been spared since

    def open(self, session: Session) -> None:
        if not session.budgets:
            return
        for key, budget in sorted(session.budgets.items()):
            self._budgets.setdefault(budget.metadata.namespace, []).append((key, budget))
        for task in self._on_their_way(session):
            self._note(task)
        session.add_handlers(deallocate=self._note)
        session.add_preemptable(self._within_budget, protects=True)
        session.add_reclaimable(self._within_budget, protects=True)

    def _on_their_way(self, session: Session) -> list[Task]:
        """Pods we evicted in an earlier cycle, and of which the API server has not told us yet that they go."""
        return [
            task
            for node in session.nodes.nodes
            for task in node.tasks.values()
            if task.status is Status.RELEASING
            and task.namespace in self._budgets
            and task.pod.metadata.deletion_timestamp is None
        ]

    def _note(self, task: Task) -> None:
        if task.status is Status.RELEASING:  # Else a placement was undone, which is frequent and costs no budget.
            for key, _ in self._budgets_of(task):
                self._leaving.setdefault(key, {})[task.key] = task

    def _budgets_of(self, task: Task) -> list[tuple[str, PodDisruptionBudget]]:
        """The budgets in which an eviction of this pod counts."""
        return [(key, budget) for key, budget in self._budgets.get(task.namespace, ()) if _costs(budget, task)]

    def _within_budget(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        budgets = self._budgets_of(candidate)
        if not budgets:
            return Verdict.NOTHING
        together = [candidate]
        if whole and candidate.job is not None:
            together = [task for task in candidate.job.tasks.values() if task.status in OCCUPYING]
        for key, budget in budgets:
            leaving = self._leaving.get(key, {})
            spent = sum(task.status is Status.RELEASING for task in leaving.values())
            asked = sum(_costs(budget, task) for task in together)
            if spent + asked > budget.status.disruptions_allowed:
                return Verdict.NO
        return Verdict.NOTHING


def _costs(budget: PodDisruptionBudget, task: Task) -> bool:
    """Whether an eviction of this pod, of the budget's namespace, counts in the budget."""
    if task.name in budget.status.disrupted_pods:
        return False
    return matches_labels(budget.spec.selector, task.pod.metadata.labels)
