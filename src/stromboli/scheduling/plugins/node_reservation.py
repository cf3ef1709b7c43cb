"""Nodes locked for a queue take no pods of other queues.

The controllers lock nodes for queues with `spec.guarantee.policy` or `percentage` (`stromboli.controllers.queue_locks`
chooses them). With this plugin the scheduler honours the locks, and without it there are none. The queue's own pods go
to its nodes first. Pods of others that run there stay until they finish, unless the policy is Guaranteed.

Two kinds of pods of other queues may still land on a locked node: pods without requests, and pods for which others were
evicted there before.

`maxReservedPercent` (50) is the part of the nodes that all queues may lock together. With `lockBareGuarantees` (false)
nodes are locked, with the policy Best-Effort, also for queues that only state amounts. The alias of this plugin is
`queue_reservation`.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from stromboli.cluster import QueueName, Task
from stromboli.scheduling.callbacks import NodeFilter, ReasonIds, Rows, Scope
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.explanation.node_reasons import locked_for
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.queue_locks import LockRules
from stromboli.scheduling.session import Session


class NodeReservation(Plugin):
    name = "node_reservation"

    def __init__(self, arguments: Arguments) -> None:
        LockRules.read(arguments)  # the feature `queue_locks` and the controllers act by them

    def open(self, session: Session) -> None:
        if not session.ledger.locked:
            return
        self._session = session
        self._refusals: dict[frozenset[QueueName], ReasonIds] = {}  # by owners that the queue may use the nodes of
        self._owners = {
            node.lock.owner.name: node.lock.opens_to for node in session.ledger.locked.values() if node.lock is not None
        }
        session.add_filter(self._prepare, scope=Scope.STATIC, depends_on=self._key, live=lambda: 0)  # locks stay

    def _key(self, task: Task) -> Hashable:
        """Most queues lock nothing, and their pods share one answer."""
        return (self._open_to(task), task.nominated if task.nominated in self._session.ledger.locked else "")

    def _open_to(self, task: Task) -> frozenset[QueueName]:
        if task.job is None:
            return frozenset()
        name = task.job.queue.name
        return frozenset(owner for owner, opens_to in self._owners.items() if name in opens_to)

    def _prepare(self, task: Task) -> NodeFilter | None:
        if task.best_effort:
            return None
        verdicts = self._verdicts(self._open_to(task))
        promised = self._session.nodes.by_name.get(task.nominated)
        if promised is not None and verdicts[promised.row]:
            verdicts = verdicts.copy()
            verdicts[promised.row] = 0

        def judge(rows: Rows) -> ReasonIds:
            return verdicts[rows]

        return judge

    def _verdicts(self, open_to: frozenset[QueueName]) -> ReasonIds:
        known = self._refusals.get(open_to)
        if known is None:
            known = self._refusals[open_to] = np.zeros(len(self._session.nodes), dtype=np.int32)
            for _, node in sorted(self._session.ledger.locked.items()):
                assert node.lock is not None
                owner = node.lock.owner.name
                if owner not in open_to:
                    known[node.row] = self._session.reason_id(locked_for(owner))
        return known
