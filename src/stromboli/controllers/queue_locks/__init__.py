"""Nodes set aside for queues: which ones, and when that is looked at again.

`worker` decides, as a pure function of the objects; `search` finds the best set of nodes by the `score`, `guarantees`
says what each queue asks for and refuses what does not fit, `quotas` is about those for which nothing is locked,
`node_use` reads the objects, `lock_status` and `messages` have what is written.

`QueueLocks` is what the queue controller calls in every pass. It keeps nothing but the time of the last round and what
the cluster looked like then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from stromboli.api import KObject, Pod, PodGroup, Queue, QueueReservation
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster.queue_guarantees import LOCKS, SATISFIED, is_bare, locks_nodes
from stromboli.controllers.changes import Objects
from stromboli.scheduling.queue_locks.lock_arguments import LockRules

from .lock_status import CONDITIONS, LockNotice, LockStatus
from .node_use import UsageReader
from .quotas import NOT_LOCKED, release_all, tell_quotas
from .worker import decide

__all__ = ["CONDITIONS", "RELOCK_PERIOD", "LockNotice", "LockRules", "LockStatus", "QueueLocks"]

RELOCK_PERIOD: Final = 5.0
"""Seconds between two rounds, unless set."""

_PER_SECOND: Final = 1_000_000


def _concerns(queue: Queue, rules: LockRules) -> bool:
    """Whether a queue locks nodes, or did."""
    guarantee = queue.spec.guarantee
    wants = locks_nodes(guarantee) or (rules.locks_bare and is_bare(guarantee))
    return wants or queue.status.reservation != QueueReservation()


class QueueLocks:
    """Rounds are at multiples of the period since `origin`, so a worker that starts anew keeps the rhythm."""

    def __init__(
        self, rules: Callable[[], LockRules | None], *, period: float = RELOCK_PERIOD, origin: float = 0.0,
        step: float = 0.0, follows_pods: bool = False,
    ) -> None:  # fmt: skip
        """`rules`: the settings in force; None if the plugin is not configured. `step`: the time between two passes
        where that is known, because time is virtual: a round that was due since the last pass is held in this one.
        `follows_pods`: look at once when a pod changes, not only in the next round. On a large cluster that would be
        all the time; in a simulation it makes the outcome independent of restarts."""
        self._follows_pods = follows_pods
        self._has_news = True  # something that is looked at at once
        self._has_changed = True  # anything since the last round
        self._rules_before: LockRules | None = None
        self._rules = rules
        self._period = round(period * _PER_SECOND)
        self._origin = origin
        self._step = round(step * _PER_SECOND)
        self._reader = UsageReader()
        self._last_round: int | None = None
        self._seen = 0  # a digest of the cluster in the last round
        self._seen_now = 0
        self._quiet_rounds = 0  # rounds since it changed
        self._turns = 0  # how many rounds it takes until every node had its turn to be cleared
        self._waits_since: float | None = None  # the earliest time since which a set has not drained
        self._is_used = False
        self._told: dict[str, tuple[str, list[str]]] = {}  # by queue: its UID, and why nothing is locked for it

    def observe(self, obj: KObject | None) -> None:
        """An object was created, changed or deleted, or could not be written."""
        self._has_changed = True
        if self._follows_pods or not isinstance(obj, Pod | PodGroup):
            self._has_news = True

    def decide(self, objects: Objects, now: float, *, is_valid: Callable[[Queue], bool]) -> dict[str, LockStatus]:
        """What the status of queues should say about their locks; queues that are not in it stay as they are."""
        rules = self._rules()
        round_due = self._last_round is None or self._number(now) > self._last_round
        if not (self._has_news or rules != self._rules_before or (round_due and self._is_used)):
            return {}
        self._has_news = False
        self._rules_before = rules
        self._is_used = False
        queues = [queue for queue in objects.list(Queue) if is_valid(queue)]
        if rules is None:
            return self._not_in_vain(release_all(queues, now), queues)
        if not any(_concerns(queue, rules) for queue in queues):
            return self._not_in_vain(tell_quotas(queues, now), queues)
        self._is_used = True
        view = self._reader.read(objects, rules.topology_keys)
        is_round = self._is_round(now)
        self._seen_now = view.digest()
        if is_round:
            self._has_changed = False
            self._quiet_rounds = 0 if self._seen_now != self._seen else self._quiet_rounds + 1
            self._seen = self._seen_now
        statuses = decide(view, queues, rules, now, is_round=is_round)
        self._note(statuses)
        return self._not_in_vain(statuses, queues)

    def _not_in_vain(self, statuses: dict[str, LockStatus], queues: Iterable[Queue]) -> dict[str, LockStatus]:
        """Without what queues were told by this worker before. Volcano's own definition of a Queue has no conditions:
        there the server drops them, and the worker would write them for ever."""
        for queue in queues:
            name = queue.metadata.name
            status = statuses.get(name)
            why = [] if status is None else [c.reason for c in status.conditions if c.type == LOCKS]
            if not why or status is None:
                self._told.pop(name, None)
                continue
            told = (queue.metadata.uid, why)
            if self._told.get(name) == told and any(notice.reason == NOT_LOCKED for notice in status.notices):
                del statuses[name]
            self._told[name] = told
        return statuses

    def next_due(self) -> float | None:
        """When a round may change something although no object does. If nothing has changed since the last one, it
        would find the same, unless it is a node's turn to be cleared."""
        if self._last_round is None or not self._is_used:
            return None
        unchanged = self._seen_now == self._seen and (self._follows_pods or not self._has_changed)
        if unchanged and self._quiet_rounds >= self._turns:
            return None
        return self._start_of(self._last_round + 1)

    def time_limit(self) -> float | None:
        """The round in which a set that does not drain is chosen anew."""
        rules = self._rules()
        if self._last_round is None or not self._is_used or self._waits_since is None:
            return None
        if rules is None or not rules.timeout:
            return None
        number = self._number(self._waits_since + rules.timeout) + 1
        return self._start_of(number) if number > self._last_round else None

    def _start_of(self, number: int) -> float:
        return self._origin + number * self._period / _PER_SECOND

    def _is_round(self, now: float) -> bool:
        """In virtual time a round is held in the first pass that could hold it, or never: rounds that would have found
        nothing new are skipped, and a worker that starts anew does not know whether one was."""
        number = self._number(now)
        last = self._last_round
        if last is None or self._step:
            first = self._number(now - max(self._step, 1) / _PER_SECOND)
            last = first if last is None else max(last, first)
        self._last_round = number
        return number > last

    def _number(self, now: float) -> int:
        return round((now - self._origin) * _PER_SECOND) // self._period

    def _note(self, statuses: dict[str, LockStatus]) -> None:
        self._turns = sum(len(status.reservation.nodes) for status in statuses.values() if status.reservation.evicting)
        since = [
            parse_timestamp(condition.last_transition_time)
            for status in statuses.values()
            for condition in status.conditions
            if condition.type == SATISFIED and condition.status == "False" and condition.last_transition_time
        ]
        self._waits_since = min(since, default=None)
