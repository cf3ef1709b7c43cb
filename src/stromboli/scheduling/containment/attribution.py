"""Whom an error is charged to.

To the object that the code was looking at: the first job or Reservation that is found in the variables of the frames
that the error came through, the innermost first. This needs no help from plugins, and costs nothing while there is no
error. A function that looks at a job and at whoever has the turn (`Turns.current`) fails more often because of the
other: one pod that cannot be judged would otherwise be charged to everybody who considers to evict it. If there is no
job, it is charged to whoever has the turn, and only where nobody has one, to a queue: many jobs depend on it.

It may be wrong: a function that compares two jobs fails because of one of them. So the others that were looked at are
remembered for the rest of the cycle, and who was near several errors is charged with the next. If the same error then
happens without that one, it is pardoned: several others are at fault. Whoever else is charged wrongly is put aside for
a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

from stromboli.api import PodGroup as PodGroupObject
from stromboli.api import Queue as QueueObject
from stromboli.api import Reservation as ReservationObject
from stromboli.api import key
from stromboli.cluster import Holding, Job, Queue, Task
from stromboli.containment import ContainedError, ObjectRef, contained_error

NEAR_TOO_MANY: Final = 2  # errors that others were charged with
MOST_TOGETHER: Final = 4  # a longer tuple is not about one of its members

_OWN_KINDS = (PodGroupObject, QueueObject, ReservationObject)


def charge(
    error: Exception, turn: Job | Queue | None, put_aside: Collection[ObjectRef], before: Sequence[ContainedError]
) -> ContainedError | None:
    """`turn`: whose turn it was. `before`: the errors of this cycle so far. None if nobody can be charged but those who
    are put aside already."""
    owner = ref_of(turn)
    suspects: list[ObjectRef] = []
    for seen in _looked_at(error.__traceback__):
        of_jobs = seen if turn is None else [ref for ref in seen if ref.kind != "Queue"]
        suspects += sorted(of_jobs, key=lambda ref: (ref.kind == "Queue", ref == owner))
    suspects += [] if owner is None else [owner]
    suspects = [ref for ref in dict.fromkeys(suspects) if ref not in put_aside]
    if not suspects:
        return None
    near = {ref: sum(ref in other.bystanders for other in before) for ref in suspects}
    charged = max(suspects, key=lambda ref: near[ref] if near[ref] >= NEAR_TOO_MANY else 0)  # of equal ones the first
    found = contained_error(error, charged, tuple(ref for ref in suspects if ref != charged and ref.kind != "Queue"))
    return replace(found, is_guess=charged != suspects[0])


def ref_of(value: Any) -> ObjectRef | None:
    """The object that can be put aside for this value."""
    match value:
        case Task():
            return ref_of(value.job)
        case Job() if value.stands_for:
            return ObjectRef("Reservation", value.stands_for)
        case Job():
            return None if value.object is None else ObjectRef("PodGroup", value.key)
        case Queue():
            return ObjectRef("Queue", value.name)
        case Holding() if value.id:
            return ObjectRef("Reservation", value.id.partition("/")[0])
        case _ if isinstance(value, _OWN_KINDS):
            return ObjectRef(value.kind, key(value))
        case _:
            return None


def _looked_at(traceback: TracebackType | None) -> Iterator[list[ObjectRef]]:
    """What was in the variables of each frame, the innermost first."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        values: list[Any] = []
        for value in list(frame.f_locals.values()):
            values += value if isinstance(value, tuple) and len(value) <= MOST_TOGETHER else (value,)
        found = [ref_of(value) for value in reversed(values)]  # who asks comes before who is asked about
        yield [ref for ref in found if ref is not None]
