"""How much a queue holds by right, and what a plan of evictions changes about that.

What a queue holds by right is the best packing of its work within its deserved amount (`packing`): whole pods and whole
gangs, which all together do not exceed it in any resource. The rest stands on lent room. A pod that is larger than the
deserved amount is all on lent room; so is the second of two pods of 4 GPUs in a queue that deserves 6.

`gain` is what a claimant's queue would hold by right in addition, `loss` what the queues of victims would lose. Both
cover the whole plan so far: the evictions that the open statement already contains, and the pods it has placed.

Packings are not always exact (see there). A gain is never overstated, and a loss never understated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from operator import mul
from typing import Protocol

from stromboli.cluster import PODS, Job, Queue, Status, Task
from stromboli.scheduling.framework import Framework

from .packing import Packed, Unit, pack
from .work_units import TaskGroup, Units, WorkUnits, held_tasks

_PIPELINED = Status.PIPELINED


class Entitled(Protocol):
    """A queue or a subtree of queues. Amounts are by column."""

    @property
    def name(self) -> str: ...
    @property
    def members(self) -> Sequence[Queue]: ...
    @property
    def deserved(self) -> Sequence[int]: ...
    @property
    def guarantee(self) -> Sequence[int]: ...


class RightfulUse:
    def __init__(self, session: Framework, *, zero_is_unstated: bool) -> None:
        """`zero_is_unstated`: a deserved amount of 0 means that the queue states nothing for that resource, which is
        then no limit. Otherwise it means nothing is deserved."""
        self.work = WorkUnits(session)
        self._ledger = session.ledger
        self._zero_is_unstated = zero_is_unstated
        total = session.total.tolist()
        # With a common denominator, shares of different resources are integers and compare exactly.
        one = lcm(*filter(None, total))
        self._values = [one // amount if amount > 0 and column != PODS else 0 for column, amount in enumerate(total)]
        self._limits: dict[str, list[int | None]] = {}
        self._stated_values: dict[str, list[int]] = {}  # of resources for which a place states nothing: 0
        self._packings: dict[object, Packed] = {}  # by place, units and room
        # What was found out since the last change of the ledger.
        self._known: dict[object, Packed] = {}  # packings, by place and change
        self._leaving: dict[object, tuple[Units, Units]] = {}  # (units before, units after) of a job that loses a pod
        self._rows = session.ledger.views.rows()

    def limits(self, place: Entitled) -> list[int | None]:
        known = self._limits.get(place.name)
        if known is None:
            known = self._limits[place.name] = [
                None if not value or (self._zero_is_unstated and amount == 0) else amount
                for amount, value in zip(place.deserved, self._values, strict=True)
            ]
        return known

    def _worth(self, place: Entitled, amounts: Sequence[int]) -> int:
        """These amounts as a share of the cluster, without resources for which a place states nothing."""
        values = self._stated_values.get(place.name)
        if values is None:
            limits = self.limits(place)
            values = [0 if limit is None else value for limit, value in zip(limits, self._values, strict=True)]
            self._stated_values[place.name] = values
        return sum(map(mul, amounts, values))

    # -- what a plan changes --------------------------------------------------------------------------------------

    def loss(self, place: Entitled, job: Job, tasks: Sequence[Task] | None) -> int:
        """What a place holds by right at the beginning of the statement, minus what it would hold without these tasks
        of a job, or without the job (None)."""
        self._forget()
        leaving, staying = self._change(job, tasks)
        return self._fall(place, leaving, staying)

    def loss_so_far(self, place: Entitled) -> int:
        self._forget()
        return self._fall(place, {}, {})

    def most_lost(self, place: Entitled, leaves: Sequence[int] = ()) -> int:
        """An upper bound of `loss` that needs no packing: without what leaves, the rest of a packing still fits."""
        lost = 0
        amounts = [self.work.evicted_amount(queue) for queue in place.members]
        for gone in [amount for amount in (leaves, *amounts) if amount]:
            lost += self._worth(place, gone)
        return lost

    def gain(
        self, place: Entitled, job: Job, arriving: TaskGroup, held: Sequence[int], *, from_now: bool = False
    ) -> int:
        """What a place would hold by right in addition, with these tasks and, unless `from_now`, with those that the
        statement has placed already. `held`: what the place holds now."""
        self._forget()
        placed = self.work.group(job, ()) if from_now else self._placed(job)
        limits = self.limits(place)
        comes = arriving.request
        more = [one + other for one, other in zip(placed.request, comes, strict=True)]
        used = [one + other for one, other in zip(job.allocated.tolist(), comes, strict=True)]
        fits = [
            limit is None or not amount or has + other <= limit
            for limit, amount, has, other in zip(limits, used, held, comes, strict=True)
        ]
        if all(fits):  # beside everything else that the place holds of these resources
            return self._worth(place, more)
        now = self.work.of(job)
        then = self._packed(place, now, self.work.of(job, also=arriving))
        first = self._packed(place, now, self.work.of(job, without=placed), at_first=True)
        return then.at_least - first.at_most

    def _placed(self, job: Job) -> TaskGroup:
        """The tasks of a job that the statement has placed."""
        number = job.counts[_PIPELINED]
        nominated = self._ledger.nominated
        promised = 0
        if number and nominated:
            promised = sum([t.status is _PIPELINED for key, t in job.tasks.items() if key in nominated])
        placed = self.work.alike_group(job, number - promised)
        if placed is None:
            tasks = [t for t in held_tasks(job) if t.status is _PIPELINED and not t.nominated]
            placed = self.work.group(job, tasks)
        return placed

    def _fall(self, place: Entitled, leaving: Units, staying: Units) -> int:
        if leaving == staying and not any(queue in self.work.losers() for queue in place.members):
            return 0
        first = self._packed(place, {}, {}, at_first=True)
        then = self._packed(place, leaving, staying)
        return max(first.at_most - then.at_least, 0)

    def _change(self, job: Job, tasks: Sequence[Task] | None) -> tuple[Units, Units]:
        """(what a job is now, what it would be), in units. Pods alike change it alike."""
        key = (job.key, None if tasks is None else tuple([task.request.tobytes() for task in tasks]))
        known = self._leaving.get(key)
        if known is None:
            now = self.work.of(job)
            rest = {} if tasks is None else self.work.of(job, without=self.work.group(job, tasks))
            known = self._leaving[key] = (now, rest)
        return known

    def _packed(self, place: Entitled, minus: Units, plus: Units, *, at_first: bool = False) -> Packed:
        key = (place.name, at_first, _key(minus), _key(plus))
        known = self._known.get(key)
        if known is None:
            units: Units = {}
            for queue in place.members:
                _add(units, self.work.before(queue) if at_first else self.work.now(queue), +1)
            _add(units, minus, -1)
            _add(units, plus, +1)
            known = self._known[key] = self._pack(place, {unit: n for unit, n in units.items() if n > 0})
        return known

    def _pack(self, place: Entitled, units: Units) -> Packed:
        room = self._room(place)
        key = (place.name, tuple(room), frozenset(units.items()))
        known = self._packings.get(key)
        if known is None:
            known = self._packings[key] = pack(units, room, self._values)
        return known

    def _room(self, place: Entitled) -> list[int | None]:
        """What is left of the deserved amount for pods. Nodes that count as a queue's own whether or not it uses them
        are part of what it holds by right."""
        unused = sum((queue.unused for queue in place.members), start=0 * place.members[0].unused).tolist()
        return [
            None if limit is None else max(limit - max(amount, 0), 0)
            for limit, amount in zip(self.limits(place), unused, strict=True)
        ]

    def _forget(self) -> None:
        if self._rows.changed():
            self._known.clear()
            self._leaving.clear()


def _key(units: Units) -> tuple[object, ...]:
    return tuple(sorted(units.items()))


def _add(total: Units, units: Mapping[Unit, int], sign: int) -> None:
    for unit, number in units.items():
        total[unit] = total.get(unit, 0) + sign * number
