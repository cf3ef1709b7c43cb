"""Who of a gang chooses first where places are kept for several of its tasks.

Those with few choices come first, so that none takes the only one of another. Among equals the large tasks come first:
what they leave may still be enough for a small one, and elsewhere a small one finds room more easily. All who place a
gang use this one order, from the search for victims to the start: otherwise a promise might not come true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from stromboli.cluster import PODS, Task, TaskKey
from stromboli.scheduling.session import Session


def promised_first(tasks: Iterable[Task]) -> list[Task]:
    """Tasks that others were evicted for come before those that nobody promised anything: the queue is not asked about
    them again, so a sibling must not take the quota that they count on."""
    return sorted(tasks, key=lambda task: not task.nominated)


def with_choices(session: Session, tasks: Sequence[Task]) -> tuple[list[Task], frozenset[TaskKey]]:
    """Tasks of a job in the order in which they choose, and those of them that have places to choose from."""
    found = session.with_kept_places(tasks)
    places = frozenset([task.key for _, task in found])
    if not found or (len(found) == len(tasks) and _are_equal(found)):
        return list(tasks), places
    others = [task for task in tasks if task.key not in places]
    return promised_first([*by_choices(session, found), *others]), places


def largest_first(session: Session, tasks: Sequence[Task]) -> list[Task]:
    return promised_first(by_choices(session, [(0, task) for task in tasks]))


def by_choices(session: Session, found: Sequence[tuple[int, Task]]) -> list[Task]:
    """Tasks with the number of their choices, in the order in which they choose."""
    if _are_equal(found):
        return [task for _, task in found]
    sizes: dict[int, Fraction] = {}
    for _, task in found:
        if task.shape.id not in sizes:
            sizes[task.shape.id] = _size(session, task)
    return [task for _, task in sorted(found, key=lambda pair: (pair[0], -sizes[pair[1].shape.id]))]


def _are_equal(found: Sequence[tuple[int, Task]]) -> bool:
    return len({(number, task.shape.id) for number, task in found}) == 1


def _size(session: Session, task: Task) -> Fraction:
    """The largest part of the cluster that it requests."""
    pairs = list(zip(task.request.tolist(), session.total.tolist(), strict=True))
    parts = [Fraction(asked, total) for column, (asked, total) in enumerate(pairs) if column != PODS and total > 0]
    return max(parts, default=Fraction(0))
