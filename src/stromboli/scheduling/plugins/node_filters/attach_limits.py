"""How many volumes of a driver a node takes (CSINode), and claims that only one pod may use at a time.

A volume that several pods of a node use is attached once. A volume that does not exist yet counts as the claim that it
is made for. Pods that bring volumes of their own only are counted by number, so that a gang of them is placed in one
step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final

import numpy as np

from stromboli.api import PersistentVolumeClaim
from stromboli.cluster import OCCUPYING, PODS, LogView, Status, Task
from stromboli.scheduling.callbacks import NodeFilter, ReasonIds, RemainingCount, Rows
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.node_reasons import CLAIM_IN_USE, CLAIM_IN_USE_THERE, attach_limit
from stromboli.scheduling.explanation.volume_reasons import claim_in_use
from stromboli.scheduling.session import Session
from stromboli.scheduling.volumes import ClaimStates, VolumeChoices

from .population import is_there

_USES: Final = OCCUPYING | {Status.PIPELINED, Status.RELEASING}
_ENOUGH: Final = 1 << 40  # of what has no limit

Attached = tuple[tuple[str, Hashable], ...]
"""(driver, which volume) of each volume that a pod has attached."""


class AttachLimitsFilter:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = session.nodes.nodes
        self._index = session.snapshot.volumes
        self._choices = session.state(VolumeChoices)
        self._states = session.state(ClaimStates)
        self._limits: dict[str, Rows | None] = {}  # by driver and row
        self._attached: dict[str, Attached] = {}  # by the key of a task
        self._counted: dict[Hashable, tuple[Rows, LogView[int]]] = {}  # with the rows to count again

    def prepare(self, task: Task) -> NodeFilter | None:
        return self._filter(task, self._wanted(task))

    def remaining(self, task: Task) -> RemainingCount | None:
        """How many more tasks like this one each node takes; None if that is not a matter of numbers."""
        wanted = self._wanted(task)
        if not wanted or any(claim in self._index.shared for claim in task.volumes.claims):
            return None
        return _Remaining(self, {driver: sum(one == driver for one, _ in wanted) for driver, _ in wanted})

    def _filter(self, task: Task, wanted: Attached) -> NodeFilter | None:
        if not wanted:
            return None
        by_driver: dict[str, set[Hashable]] = {}
        for driver, volume in wanted:
            by_driver.setdefault(driver, set()).add(volume)
        shares = any(claim in self._index.shared for claim in task.volumes.claims)

        def judge(rows: Rows) -> ReasonIds:
            answers = np.zeros(len(rows), dtype=np.int32)
            attached = self.at_most(rows)
            for driver, volumes in by_driver.items():
                limits = self.limits_of(driver)
                assert limits is not None
                # Most nodes have far fewer volumes than they take, and need not be counted.
                may_be_full = attached > limits[rows] - len(volumes)
                if not may_be_full.any():
                    continue
                reason = self._session.reason_id(attach_limit(driver, len(volumes)))
                counts = self.counts(driver)
                for position in np.flatnonzero(may_be_full).tolist():
                    row = int(rows[position])
                    number = len(self._on(row, driver) | volumes) if shares else int(counts[row]) + len(volumes)
                    if number > limits[row]:
                        answers[position] = reason
            return answers

        return judge

    def at_most(self, rows: Rows) -> Rows:
        """A bound of the number of attached volumes that takes no time."""
        nodes, ledger = self._session.nodes, self._session.ledger
        tasks: Rows = nodes.used[:, PODS][rows] + nodes.conditional[:, PODS][rows]
        if ledger.in_transit:
            tasks += nodes.pipelined[rows, PODS]
        if ledger.reserved_tasks:
            tasks += nodes.reserved[rows, PODS]
        return tasks if self._index.most_of_a_task == 1 else tasks * self._index.most_of_a_task

    def counts(self, driver: str) -> Rows:
        """By row, how many volumes of a driver are attached; up to date with the ledger."""
        session = self._session
        drained_for = None if session.drained_for is None else session.drained_for.key
        key = (driver, session.horizon, drained_for)
        known = self._counted.get(key)
        if known is None:
            known = self._counted[key] = (np.zeros(len(self._nodes), dtype=np.int64), session.ledger.views.rows())
            known[1].renew()
            users = (task for tasks in self._index.users.values() for task in tasks.values())
            changed = {task.node.row for task in users if task.node is not None}
        else:
            changed = set(known[1].news())
        counts = known[0]
        for row in changed:
            counts[row] = len(self._on(row, driver))
        return counts

    def _on(self, row: int, driver: str) -> set[Hashable]:
        """The volumes of a driver that are attached to a node."""
        return {
            volume
            for task in self._nodes[row].tasks.values()
            if (task.volumes.claims or task.volumes.inline) and is_there(self._session, task)
            for known, volume in self._of(task)
            if known == driver
        }

    def _wanted(self, task: Task) -> Attached:
        """The volumes of a task whose drivers have limits."""
        if not task.volumes.claims and not task.volumes.inline:
            return ()
        return tuple(one for one in self._of(task) if self.limits_of(one[0]) is not None)

    def _of(self, task: Task) -> Attached:
        known = self._attached.get(task.key)
        if known is None:
            found: dict[tuple[str, Hashable], None] = {}
            keeps = True
            for claim_key in task.volumes.claims:
                claim = self._index.claims.get(claim_key)
                if claim is None:
                    continue
                keeps &= bool(claim.spec.volume_name) or not self._index.free
                found |= dict.fromkeys(self._volumes_of(task, claim_key, claim))
            for driver, name in task.volumes.inline:
                found[driver, (task.key, name)] = None
            known = tuple(found)
            if keeps:  # which of the existing volumes a claim gets is known only when the task is placed
                self._attached[task.key] = known
        return known

    def _volumes_of(self, task: Task, claim_key: str, claim: PersistentVolumeClaim) -> Iterator[tuple[str, Hashable]]:
        """What is attached for a claim. As long as its volume is not known, it could be one of any driver."""
        index = self._index
        volume = index.volumes.get(claim.spec.volume_name or self._chosen(task, claim_key))
        if volume is not None:
            csi = volume.spec.csi
            if csi is not None:
                yield csi.driver, csi.volume_handle or volume.metadata.name
            return
        class_name = claim.spec.storage_class_name or ""
        if class_name in index.classes:
            yield index.classes[class_name].provisioner, claim_key
        for driver in self._states.free_drivers(self._states.of(claim_key)):
            yield driver, claim_key

    def _chosen(self, task: Task, claim_key: str) -> str:
        held = self._session.ledger.held.get(task.key)
        volumes = held.volumes if held is not None else self._choices.of(task)
        return volumes.get(claim_key) or next(iter(self._index.naming.get(claim_key, ())), "")

    def limits_of(self, driver: str) -> Rows | None:
        """By row; None if no node has a limit."""
        if driver not in self._limits:
            known = self._index.limits.get(driver, {})
            limits = np.array([known.get(node.name, _ENOUGH) for node in self._nodes], dtype=np.int64)
            self._limits[driver] = limits if bool((limits < _ENOUGH).any()) else None
        return self._limits[driver]


class _Remaining:
    """Of tasks with so many volumes of each driver, which no other task uses."""

    def __init__(self, limits: AttachLimitsFilter, counts: dict[str, int]) -> None:
        self._limits = limits
        self._counts = counts

    def at_least(self, rows: Rows) -> Rows:
        attached = self._limits.at_most(rows)
        return self._left(rows, lambda driver: attached)

    def exactly(self, rows: Rows) -> Rows:
        return np.maximum(self._left(rows, lambda driver: self._limits.counts(driver)[rows]), 0)

    def _left(self, rows: Rows, attached: Callable[[str], Rows]) -> Rows:
        """Below 0 where there are too many already."""
        left: Rows | None = None
        for driver, count in self._counts.items():
            limits = self._limits.limits_of(driver)
            assert limits is not None
            free: Rows = limits[rows] - attached(driver)
            free = free if count == 1 else free // count
            left = free if left is None else np.minimum(left, free)
        assert left is not None
        return left


class ClaimInUseFilter:
    """ReadWriteOncePod: no second pod, on any node."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.snapshot.volumes

    def prepare(self, task: Task) -> NodeFilter | None:
        claims = [claim for claim in task.volumes.claims if claim in self._index.for_one_pod]
        # The answer is used for all tasks with these claims. Whoever still waits is on no node, and does not count.
        others = [other for claim in claims for other in self._index.users.get(claim, {}).values()]
        if len(others) <= len(claims):
            return None
        there, elsewhere = self._session.reason_id(CLAIM_IN_USE_THERE), self._session.reason_id(CLAIM_IN_USE)
        return self._judge(others, there, elsewhere)

    def explain(self) -> None:
        """At the end of a cycle: a claim in use keeps other pods from every node, so it is the reason why they wait."""
        for claim in sorted(self._index.for_one_pod & self._index.users.keys()):
            users = self._index.users[claim].values()
            user = next((task for task in users if task.node is not None and task.status in _USES), None)
            for task in users if user is not None else ():
                if task.status is Status.PENDING and task.job is not None:
                    assert user is not None
                    sentence = claim_in_use(claim, task.key, user.key)
                    self._session.notes.of(task.job).said[Code.PREDICATE_VOLUME_IN_USE] = sentence

    def _judge(self, others: list[Task], there: int, elsewhere: int) -> Callable[[Rows], ReasonIds]:
        def judge(rows: Rows) -> ReasonIds:
            used = {other.node.row for other in others if other.node is not None and is_there(self._session, other)}
            answers = np.zeros(len(rows), dtype=np.int32)
            if used:
                answers[:] = elsewhere
                if len(used) == 1:
                    answers[rows == next(iter(used))] = there
            return answers

        return judge
