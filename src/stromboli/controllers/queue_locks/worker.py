"""The lock worker: which nodes are locked for which queue.

It looks at all queues at once, because a node can be locked only once and all queues together may lock only a part of
the cluster. The result is the `status.reservation` of each queue and two conditions; nothing else is remembered, so a
worker that starts anew decides as the old one would have.

A set of locked nodes is kept while it is valid: its nodes exist and take pods, they are enough, and none of them is
needless. If it is not, it is repaired at once. Only in a round, every few seconds, may it be replaced by a better one,
better by a tenth at least and with no less ready for the queue: nodes that have drained are worth keeping. In a round
the queues are also told how much is idle, and what is still used by others.

Queues are served by priority, weight, age and name; queues below a queue before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stromboli.api import Condition, Queue, QueueReservation, ResourceList
from stromboli.api.quantity import format_amount
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.cluster.queue_guarantees import (
    ACCEPTED,
    BY_AMOUNTS,
    BY_NUMBER,
    SATISFIED,
    evicts,
    guaranteed_fraction,
    is_bare,
    is_judged,
    is_open,
    is_refused,
    lock_rank,
    locks_nodes,
    queues_below,
)
from stromboli.scheduling.queue_locks.lock_arguments import LockRules

from . import messages
from .demand import Demand
from .guarantees import Guarantees, Refused
from .lock_status import LockNotice, LockStatus, condition_of, moves, of_type, own_conditions
from .node_use import ClusterView
from .quotas import quota_only
from .score import Amounts, Nodes, Rows, score_of, sum_of
from .search import best_set, pruned, set_in_domains
from .whole_domains import Domains

BETTER_BY = 1.1
"""How much better another set must be to replace a valid one."""


def decide(
    view: ClusterView, queues: Sequence[Queue], rules: LockRules, now: float, *, is_round: bool
) -> dict[str, LockStatus]:
    """The new status of every queue that locks nodes, or did."""
    return _Pass(view, queues, rules, now, is_round=is_round).run()


class _Pass:
    def __init__(
        self, view: ClusterView, queues: Sequence[Queue], rules: LockRules, now: float, *, is_round: bool
    ) -> None:
        self._view = view
        self._queues = {queue.metadata.name: queue for queue in queues}
        self._rules = rules
        self._now = now
        self._is_round = is_round
        self._guarantees = Guarantees(view)
        self._most = rules.most_nodes(self._guarantees.counted)
        self._below = queues_below({name: queue.spec.parent for name, queue in self._queues.items()})
        self._locked: dict[str, list[int]] = {}  # the result: rows by queue
        # What queues that are still to be served have now: it stays theirs if they want it.
        self._waiting = {
            name: [view.row[node] for node in queue.status.reservation.nodes if node in view.row]
            for name, queue in self._queues.items()
            if self._counts(queue)
        }

    def _counts(self, queue: Queue) -> bool:
        """Whether the queue's guarantee was accepted before."""
        judged = self._locks(queue) and is_open(queue)
        return judged and queue.status.reservation.guarantee is not None and not is_refused(queue)

    def _locks(self, queue: Queue) -> bool:
        """Whether nodes are to be locked for the queue while it is open."""
        guarantee = queue.spec.guarantee
        return locks_nodes(guarantee) or (self._rules.locks_bare and is_bare(guarantee))

    def run(self) -> dict[str, LockStatus]:
        results: dict[str, LockStatus] = {}
        for queue in self._in_order():
            name = queue.metadata.name
            results[name] = self._serve(queue)
            self._locked[name] = [self._view.row[node] for node in results[name].reservation.nodes]
            self._waiting.pop(name, None)
        for name, queue in self._queues.items():
            known = queue.status.reservation != QueueReservation() or bool(own_conditions(queue))
            if name not in results and (known or is_bare(queue.spec.guarantee)):
                results[name] = self._released(queue)
        return results

    def _in_order(self) -> list[Queue]:
        wanting = [q for q in self._queues.values() if self._locks(q) and is_open(q)]
        wanting.sort(key=lock_rank)
        ordered: dict[str, Queue] = {}
        for queue in wanting:
            below = self._below[queue.metadata.name]
            deepest_first = [q for q in wanting if q.metadata.name in below]
            deepest_first.sort(key=lambda q: len(self._below[q.metadata.name]))
            for member in deepest_first:
                ordered.setdefault(member.metadata.name, member)
        return list(ordered.values())

    def _released(self, queue: Queue) -> LockStatus:
        """A closed queue locks nothing. Its guarantee is not judged again when it is opened. One of amounts alone is a
        quota, and the queue is told so once."""
        closed = self._locks(queue)
        if not closed and is_bare(queue.spec.guarantee):
            return quota_only(queue, self._now)
        reservation = QueueReservation(guarantee=queue.status.reservation.guarantee if closed else None)
        conditions = [c for c in own_conditions(queue) if closed and c.type == ACCEPTED]
        return LockStatus(reservation, conditions, moves(queue, []))

    # -- one queue ------------------------------------------------------------------------------------------------

    def _serve(self, queue: Queue) -> LockStatus:
        below = [row for name in sorted(self._below[queue.metadata.name]) for row in self._locked.get(name, ())]
        demand = self._guarantees.demand_beside(queue, below)
        notices: list[LockNotice] = []
        if not is_judged(queue):
            if not self._guarantees.counted:
                return LockStatus(queue.status.reservation, own_conditions(queue))  # there is nothing to judge by yet
            refused = self._judge(queue, demand)
            if refused is not None:
                return self._refusal(queue, refused)
            if demand.count == 0 and self._guarantees.number_of_nodes(queue) == 0:
                is_zero = guaranteed_fraction(queue.spec.guarantee) == 0
                warning = messages.NO_PERCENTAGE if is_zero else messages.no_whole_node(self._guarantees.counted)
                notices.append(LockNotice("NoWholeNode", warning, warning=True))
        elif is_refused(queue):
            return LockStatus(QueueReservation(guarantee=queue.spec.guarantee), own_conditions(queue), [])
        nodes, rows, current = self._choices(queue)
        chosen, is_kept = self._choose(queue, demand, nodes, current)
        locked = [nodes.names[row] for row in chosen]
        accepted = condition_of(queue, ACCEPTED, "True", "Accepted", messages.ACCEPTED, self._now)
        if is_kept and not self._is_round and is_judged(queue):
            return LockStatus(queue.status.reservation, [accepted, *of_type(queue, SATISFIED)], notices)
        satisfied = self._satisfied(queue, demand, nodes, chosen, is_kept=is_kept)
        idle = self._view.idle[:, rows[chosen]].sum(axis=1)
        resource: ResourceList = {
            name: format_amount(name, int(idle[c])) for name, c in sorted(self._view.column.items()) if idle[c]
        }
        reservation = QueueReservation(
            nodes=locked,
            locked_at=_since(queue, locked, self._now),
            resource=resource,
            guarantee=queue.spec.guarantee,
            basis=BY_AMOUNTS if demand.count is None else BY_NUMBER,
            evicting=self._to_clear(queue, rows[chosen], satisfied, is_kept=is_kept),
        )
        return LockStatus(reservation, [accepted, satisfied], notices + moves(queue, locked))

    def _judge(self, queue: Queue, demand: Demand) -> Refused | None:
        rivals = self._rivals(queue)
        taken = [row for rows in (*self._locked.values(), *rivals.values()) for row in rows]
        others = sum(len(rows) for rows in self._locked.values())
        for other, rows in rivals.items():
            below = sum(len(self._locked.get(name, ())) for name in self._below[other])
            others += max(len(rows), self._guarantees.needed_nodes(self._queues[other]) - below)
        return self._guarantees.judge(queue, demand=demand, taken=taken, others=others, most=self._most)

    def _rivals(self, queue: Queue) -> dict[str, list[int]]:
        """What queues have that are still to be served. The nodes of a queue above this one are not closed to it: what
        is locked for this one need not be locked for that one, too."""
        name = queue.metadata.name
        return {
            other: rows for other, rows in self._waiting.items() if other != name and name not in self._below[other]
        }

    def _refusal(self, queue: Queue, refused: Refused) -> LockStatus:
        condition = condition_of(queue, ACCEPTED, "False", refused.reason, refused.message, self._now)
        notice = LockNotice("ReservationRefused", refused.message, warning=True)
        return LockStatus(QueueReservation(guarantee=queue.spec.guarantee), [condition], [notice, *moves(queue, [])])

    def _choices(self, queue: Queue) -> tuple[Nodes, Rows, list[int]]:
        """The nodes that a queue may lock, their rows in the view, and which of them it has locked."""
        view, name = self._view, queue.metadata.name
        own = self._below[name]
        open_ = view.usable.copy()
        for taken in (*self._rivals(queue).values(), *self._locked.values()):
            open_[taken] = False
        for row, queues in view.set_aside.items():
            if not queues <= own:
                open_[row] = False
        mine = [view.row[node] for node in queue.status.reservation.nodes if node in view.row]
        mine = [row for row in mine if view.usable[row] and self._is_still(row, own)]
        for row, queues in view.promised.items():
            if not queues <= own:
                open_[row] = False
        open_[mine] = True
        rows = np.flatnonzero(open_)
        place = {int(row): number for number, row in enumerate(rows)}
        return self._nodes(queue, rows), rows, sorted(place[row] for row in mine)

    def _is_still(self, row: int, own: frozenset[str]) -> bool:
        """Whether a node that the queue has locked was not taken: by a queue that goes first, or for a starving job."""
        if any(row in rows for rows in self._locked.values()):
            return False
        return self._view.set_aside.get(row, set()) <= own

    def _nodes(self, queue: Queue, rows: Rows) -> Nodes:
        view, own = self._view, self._below[queue.metadata.name]
        sizes = view.sizes[:, rows]
        covers = sizes - view.fixed[:, rows]
        place = {int(row): number for number, row in enumerate(rows)}
        for row, holder, remainder in view.held:
            if row in place and holder not in own:
                covers[:, place[row]] -= remainder
        mine = view.use_of(own)[:, rows]
        return Nodes(tuple(view.names[row] for row in rows), sizes, np.maximum(covers, 0), mine, view.idle[:, rows])

    # -- choosing -------------------------------------------------------------------------------------------------

    def _choose(self, queue: Queue, demand: Demand, nodes: Nodes, current: list[int]) -> tuple[list[int], bool]:
        """The rows to lock, and whether these are the nodes that were locked before."""
        before = list(queue.status.reservation.nodes)
        most = self._most - sum(len(rows) for rows in self._locked.values())
        growing = max(most - sum(len(rows) for rows in self._rivals(queue).values()), 0)

        def is_met(rows: list[int]) -> bool:
            return bool(demand.is_met(sum_of(nodes, rows))[0])

        def is_before(rows: list[int]) -> bool:
            return sorted(nodes.names[row] for row in rows) == sorted(before)

        valid = is_met(current) and len(current) <= most and not self._has_needless(queue, demand, nodes, current)
        if valid and is_before(current) and not self._is_round:
            return current, True
        if not current and not valid:
            fresh = set_in_domains(nodes, demand, self._domains(nodes), most=growing)
            return fresh, is_before(fresh)
        base = current if valid else self._repaired(nodes, demand, current, most=most, growing=growing)
        fresh = set_in_domains(nodes, demand, self._domains(nodes), most=max(growing, min(len(base), most)))
        if is_met(fresh):
            better = score_of(nodes, fresh, demand.target) > BETTER_BY * score_of(nodes, base, demand.target)
            is_ready = not is_judged(queue) or _shortage(demand, nodes, fresh) <= _shortage(demand, nodes, base)
            if (better and is_ready) or not is_met(base):
                return fresh, is_before(fresh)
        if is_before(base) and self._is_stuck(queue):
            other = self._by_drained(demand, nodes, most=max(growing, len(base)))
            if _shortage(demand, nodes, other) < _shortage(demand, nodes, base):
                base = other
        return base, is_before(base)

    def _domains(self, nodes: Nodes) -> Domains:
        """Which of these nodes each domain has."""
        return np.asarray(self._view.domains[:, [self._view.row[name] for name in nodes.names]])

    def _has_needless(self, queue: Queue, demand: Demand, nodes: Nodes, rows: list[int]) -> bool:
        """Whether fewer nodes would do. A node is needed, too, if without it less would be ready for the queue: a set
        that was chosen because others do not drain would be undone otherwise."""
        if pruned(nodes, demand, rows) == rows:
            return False
        if not is_judged(queue):
            return True
        short = _shortage(demand, nodes, rows)
        for gone in rows:
            rest = [row for row in rows if row != gone]
            if bool(demand.is_met(sum_of(nodes, rest))[0]) and _shortage(demand, nodes, rest) <= short:
                return True
        return False

    def _repaired(self, nodes: Nodes, demand: Demand, current: list[int], *, most: int, growing: int) -> list[int]:
        """The set with as few changes as possible: nodes that are still good stay."""
        keep = current
        largest = most if demand.count is None else min(most, demand.count)
        if len(keep) > largest:
            part = Nodes(
                tuple(nodes.names[row] for row in keep),
                *(amounts[:, keep] for amounts in (nodes.sizes, nodes.covers, nodes.mine, nodes.idle)),
            )
            keep = [keep[row] for row in best_set(part, demand, most=largest)]
        rows = best_set(nodes, demand, most=max(len(keep), growing), keep=keep)
        return pruned(nodes, demand, rows)

    # -- progress -------------------------------------------------------------------------------------------------

    def _is_stuck(self, queue: Queue) -> bool:
        """Whether nothing has drained on the locked nodes for the timeout: the condition's time is when it did."""
        if not self._rules.timeout or not self._is_round:
            return False
        for condition in of_type(queue, SATISFIED):
            if condition.status == "False" and condition.last_transition_time is not None:
                return self._now > parse_timestamp(condition.last_transition_time) + self._rules.timeout
        return False

    def _by_drained(self, demand: Demand, nodes: Nodes, *, most: int) -> list[int]:
        """The nodes with most of what the queue could use at once: what is idle, and what it uses itself."""
        drained = Nodes(nodes.names, nodes.sizes, nodes.idle + nodes.mine, nodes.mine, nodes.idle)
        if demand.count is None:
            return best_set(drained, demand, most=most)
        asked = demand.target > 0
        share = np.divide(drained.covers, nodes.sizes, out=np.zeros_like(nodes.sizes), where=nodes.sizes > 0)
        order = np.argsort(-np.round(share[asked].sum(axis=0), 9), kind="stable")
        return sorted(order[: min(most, demand.count)].tolist())

    def _satisfied(self, queue: Queue, demand: Demand, nodes: Nodes, chosen: list[int], *, is_kept: bool) -> Condition:
        sums = sum_of(nodes, chosen)
        if demand.count is not None and len(chosen) < demand.count:
            said = messages.too_few_locked(len(chosen), demand.count)
            return condition_of(queue, SATISFIED, "False", "TooFewNodes", said, self._now)
        missing = self._missing(demand, sums.cover[:, 0], chosen)
        if missing:
            return condition_of(queue, SATISFIED, "False", "TooFewNodes", messages.not_covered(missing), self._now)
        missing = self._missing(demand, sums.idle[:, 0] + sums.mine[:, 0], chosen, wanted=sums.cover[:, 0])
        if missing:
            said = messages.draining(missing)
            return condition_of(queue, SATISFIED, "False", "Draining", said, self._now, anew=not is_kept)
        return condition_of(queue, SATISFIED, "True", "Satisfied", messages.SATISFIED, self._now)

    def _missing(
        self, demand: Demand, there: Amounts, chosen: list[int], *, wanted: Amounts | None = None
    ) -> dict[str, float]:
        """What is short of the guarantee. A number of nodes guarantees what they hold."""
        target = demand.target if demand.count is None or wanted is None else wanted
        if demand.count is not None and wanted is None:
            return {}
        short = np.maximum(target - there, 0)
        return {name: float(short[c]) for name, c in sorted(self._view.column.items()) if short[c] > 0}

    def _to_clear(self, queue: Queue, rows: Rows, satisfied: Condition, *, is_kept: bool) -> str:
        """The locked node from which pods of others are evicted until the next round: one at a time, in turn. If it is
        replaced before the next round, its successor has to wait for that."""
        last = queue.status.reservation.evicting
        if not evicts(queue.spec.guarantee):
            return ""
        if last and not self._is_round:
            return last
        if satisfied.status == "True":
            return ""
        own = self._below[queue.metadata.name]
        candidates = sorted(
            self._view.names[row]
            for row in rows.tolist()
            if any(number for other, number in self._view.movable.get(row, {}).items() if other not in own)
        )
        later = [name for name in candidates if name > last] if is_kept else []
        return next(iter(later or candidates), "")


def _shortage(demand: Demand, nodes: Nodes, rows: list[int]) -> float:
    """How much of what is asked for the queue could not use at once, as the largest part of any resource."""
    sums = sum_of(nodes, rows)
    wanted = demand.target if demand.count is None else sums.size[:, 0]
    there = sums.idle[:, 0] + sums.mine[:, 0]
    asked = demand.target > 0
    parts = np.maximum(wanted - there, 0)[asked] / np.maximum(wanted[asked], 1)
    return float(parts.max()) if len(parts) else 0.0


def _since(queue: Queue, nodes: Sequence[str], now: float) -> dict[str, str]:
    """When each of these nodes was locked: now, or before; nobody knows it of those that were locked without a time."""
    before = queue.status.reservation
    fresh = [node for node in nodes if node not in before.nodes]
    known = {node: before.locked_at[node] for node in nodes if node in before.nodes and node in before.locked_at}
    return known | dict.fromkeys(fresh, format_timestamp(now))
