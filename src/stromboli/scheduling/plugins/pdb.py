"""PodDisruptionBudgets: no more evictions at a time than a budget allows.

The status of a budget says how many more of its pods may be disrupted now. A cycle may evict many pods before the
controller updates that number. So our own evictions are subtracted: those of this session, and those of earlier cycles
that the API server has not shown yet. A pod that the budget already lists as disrupted is counted there.

When a whole gang or sub-group is evicted, all of its pods must fit in the budget at once.

An eviction that is undone costs nothing. There is no callback for that, so we remember each pod that was evicted in
this session, and look at it again when the ledger's log names it.
"""

from __future__ import annotations

from stromboli.api import PodDisruptionBudget
from stromboli.api.selectors import matches_labels
from stromboli.cluster import OCCUPYING, Status, Task, TaskKey
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

_RELEASING = Status.RELEASING


class Pdb(Plugin):
    name = "pdb"

    def __init__(self, arguments: Arguments) -> None:
        # By namespace, and by a label that the budget requires (None: it requires none): (key, budget). A namespace may
        # have a budget for each of its workloads.
        self._budgets: dict[str, dict[tuple[str, str] | None, list[tuple[str, PodDisruptionBudget]]]] = {}
        self._counts_in: dict[TaskKey, list[str]] = {}  # keys of the budgets of pods that were evicted
        self._leaving: dict[str, set[TaskKey]] = {}  # by key of the budget: pods that are evicted

    def open(self, session: Session) -> None:
        self._session = session
        if not session.budgets:
            return
        self._changed = session.ledger.views.tasks()
        self._changed.renew()
        for key, budget in sorted(session.budgets.items()):
            selector = budget.spec.selector
            label = next(iter(sorted(selector.match_labels.items())), None) if selector is not None else None
            of_namespace = self._budgets.setdefault(budget.metadata.namespace, {})
            of_namespace.setdefault(label, []).append((key, budget))
        for task in self._evicted_before(session):
            self._note(task)
        session.add_handlers(deallocate=self._note)
        session.add_preemptable(self._within_budget, protects=True, by_shares=True)
        session.add_reclaimable(self._within_budget, protects=True, by_shares=True)

    def _evicted_before(self, session: Session) -> list[Task]:
        """Pods evicted in an earlier cycle that the API server does not show as terminating yet."""
        return [
            task
            for node in session.nodes.nodes
            for task in node.tasks.values()
            if task.status is Status.RELEASING
            and task.namespace in self._budgets
            and task.pod.metadata.deletion_timestamp is None
        ]

    def _note(self, task: Task) -> None:
        if task.status is _RELEASING:  # otherwise a placement was undone
            keys = self._counts_in[task.key] = [key for key, _ in self._budgets_of(task)]
            for key in keys:
                self._leaving.setdefault(key, set()).add(task.key)

    def _follow(self) -> None:
        """Read which evictions were undone."""
        for task in self._changed.news():
            if task.status is not _RELEASING and task.key in self._counts_in:
                for key in self._counts_in.pop(task.key):
                    self._leaving[key].discard(task.key)

    def _budgets_of(self, task: Task) -> list[tuple[str, PodDisruptionBudget]]:
        """The budgets that an eviction of this pod counts in."""
        known = self._budgets.get(task.namespace)
        if known is None:
            return []
        labels = [None, *task.pod.metadata.labels.items()]
        return [one for label in labels for one in known.get(label, ()) if _costs(one[1], task)]

    def _within_budget(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        budgets = self._budgets_of(candidate)
        if not budgets:
            return Verdict.NOTHING
        together = self._session.going_with(candidate, whole=whole and candidate.job is not None)
        if together is None and candidate.job is not None:
            together = [task for task in candidate.job.tasks.values() if task.status in OCCUPYING]
        self._follow()
        for key, budget in budgets:
            spent = len(self._leaving.get(key, ()))
            asked = sum(_costs(budget, task) for task in together or ())
            if spent + asked > budget.status.disruptions_allowed:
                return Verdict.NO
        return Verdict.NOTHING


def _costs(budget: PodDisruptionBudget, task: Task) -> bool:
    """Whether an eviction of this pod, of the budget's namespace, counts in the budget."""
    if task.name in budget.status.disrupted_pods:
        return False
    return matches_labels(budget.spec.selector, task.pod.metadata.labels)
