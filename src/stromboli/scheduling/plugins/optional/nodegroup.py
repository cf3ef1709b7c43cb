"""Which groups of nodes the pods of a queue run on. A node is in the group that its label `volcano.sh/nodegroup-name`
names; `node_group_rules` has what queues say about groups.

    strict: true                 a queue without rules may use no node; with false it may use those in no group
    enablePreferredOrder: false  of the groups that a queue prefers, the first in the list is best

With the flag `enableHierarchy` a queue without rules has those of the nearest queue above it. A queue with rules never
uses a node that is in no group.

The books of queues do not know the groups: a queue may deserve more than its groups have.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stromboli.api import names
from stromboli.cluster import OCCUPYING, Queue, QueueName, Status, Task, Vector
from stromboli.scheduling.callbacks import NodeFilter, NodeScore, ReasonIds, Rows, Scope
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.node_reasons import (
    group_limits_invalid,
    in_no_node_group,
    node_group_full,
    not_in_node_groups,
)
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

from .node_group_rules import GroupRules, InvalidLimits, limits_of, rules_of

_COUNTED: Final = OCCUPYING | {Status.PIPELINED}


class Nodegroup(Plugin):
    name = "nodegroup"

    def __init__(self, arguments: Arguments) -> None:
        self._strict = arguments.boolean("strict", True)
        self._in_order = arguments.boolean("enablePreferredOrder", False)

    def open(self, session: Session) -> None:
        self._session = session
        inherits = any(option.is_enabled("hierarchy") for option in session.configuration.plugins(self.name))
        self._rules = rules_of(session.queues, inherit=inherits)
        groups = [node.labels.get(names.NODE_GROUP) for node in session.nodes.nodes]
        self._names = sorted({group for group in groups if group is not None})
        index = {group: number for number, group in enumerate(self._names)}
        # By row: the number of its group, and one more than all others if it is in none.
        self._group_of: Rows = np.array([len(index) if g is None else index[g] for g in groups], dtype=np.int64)
        session.add_filter(self._allowed, depends_on=_queue_of, scope=Scope.STATIC)
        session.add_score(self._preferred, depends_on=_queue_of, scope=Scope.STATIC)
        limits = _Limits(session, self._names, self._group_of)
        if limits:
            session.add_filter(limits.prepare, depends_on=_queue_of, scope=Scope.CLUSTER)

    def _rules_for(self, task: Task) -> GroupRules:
        return self._rules.get(_queue_of(task), GroupRules())

    def _allowed(self, task: Task) -> NodeFilter:
        """By group, and at the end for nodes in no group."""
        queue, rules, session = _queue_of(task), self._rules_for(task), self._session
        closed = session.reason_id(not_in_node_groups(queue, has_rules=bool(rules)))
        answers = [0 if rules.allows(group) else closed for group in self._names]
        is_open = not rules and not self._strict
        answers.append(0 if is_open else session.reason_id(in_no_node_group(queue, has_rules=bool(rules))))
        by_row: ReasonIds = np.array(answers, dtype=np.int32)[self._group_of]
        return by_row.__getitem__

    def _preferred(self, task: Task) -> NodeScore | None:
        rules = self._rules_for(task)
        if not rules:
            return None
        scores = [rules.score(group, in_order=self._in_order) for group in self._names]
        by_row = np.array([*scores, 0.0])[self._group_of]
        return by_row.__getitem__


def _queue_of(task: Task) -> QueueName:
    return QueueName("") if task.job is None else task.job.queue.name


class _Limits:
    """How much the pods of a queue may use in a group."""

    def __init__(self, session: Session, groups: list[str], group_of: Rows) -> None:
        self._session = session
        self._groups = groups
        self._group_of = group_of
        self._limits: dict[QueueName, dict[str, dict[str, int]]] = {}
        self._invalid: dict[QueueName, int] = {}  # by queue, the reason
        for name, queue in session.queues.items():
            try:
                stated = limits_of(queue)
            except InvalidLimits as error:
                self._invalid[name] = session.reason_id(group_limits_invalid(name, str(error)))
            else:
                if stated is not None:
                    self._limits[name] = stated
        self._changed = session.ledger.views.rows()
        self._by_row: dict[int, dict[QueueName, Vector]] = {}  # of queues with limits
        self._used: dict[tuple[QueueName, int], Vector] = {}  # by queue and group

    def __bool__(self) -> bool:
        return bool(self._limits or self._invalid)

    def prepare(self, task: Task) -> NodeFilter | None:
        queue = _queue_of(task)
        if queue in self._invalid:
            invalid = self._invalid[queue]
            return lambda rows: np.full(len(rows), invalid, dtype=np.int32)
        if queue not in self._limits:
            return None
        return lambda rows: self._judge(queue, task.request, rows)

    def _judge(self, queue: QueueName, request: Vector, rows: Rows) -> ReasonIds:
        self._follow()
        answers = np.zeros(len(self._groups) + 1, dtype=np.int32)
        for number, group in enumerate(self._groups):
            used = self._used.get((queue, number))
            for name, most in sorted(self._limits[queue].get(group, {}).items()):
                column = self._session.axis.index.get(name)
                if column is None or not request[column]:
                    continue
                has = 0 if used is None else int(used[column])
                if has + int(request[column]) > most:
                    reason = node_group_full(queue, group, name, int(request[column]), has, most)
                    answers[number] = self._session.reason_id(reason)
                    break
        by_row: ReasonIds = answers[self._group_of[rows]]
        return by_row

    def _follow(self) -> None:
        nodes = self._session.nodes.nodes
        for row in sorted(set(self._changed.news()) if self._by_row else range(len(nodes))):
            group = int(self._group_of[row])
            for queue, amount in self._by_row.get(row, {}).items():
                self._used[queue, group] = self._used[queue, group] - amount
            self._by_row[row] = {}
            for task in nodes[row].tasks.values():
                if task.status in _COUNTED and task.job is not None and task.job.queue.name in self._limits:
                    self._count(task.job.queue, group, row, task.request)

    def _count(self, queue: Queue, group: int, row: int, request: Vector) -> None:
        here, nothing = self._by_row[row], self._session.axis.zeros()
        here[queue.name] = here.get(queue.name, nothing) + request
        self._used[queue.name, group] = self._used.get((queue.name, group), nothing) + request
