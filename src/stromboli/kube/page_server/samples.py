"""What the page shows over time.

Resources in use come from the times in the objects: a pod counts from its start to its end, as in the picture of nodes
over time. Samples at refreshes would not do. While nobody looks they are seconds apart, and a job that ran in between
would be drawn as idle resources; and an object is always seen a moment after it has changed. So a refresh may change
the end of a series, and add points where pods started or ended.

All else (capacities, who waits, the shares of queues) is as of each refresh. Shares change with the first pod that
started or ended since the last one.

When there are too many points, the series are thinned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stromboli.insight import Picture
from stromboli.page import MOST_POINTS, JobRow, ResourceSeries, Series, Span, StepFunction, thinned

_DIGITS: Final = 6
_WAITING_PODS: Final = "pods"
_WAITING_JOBS: Final = "jobs"
_USED: Final = "used "
_CAPACITY: Final = "capacity "
_QUEUE: Final = "queue "
_NAMESPACE: Final = "namespace "


class Samples:
    """All series have the same times. One that begins later was 0 before."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._columns: dict[str, list[float]] = {}
        self._known: dict[str, float | None] = {}  # the end of each span so far, by key
        self._changed = 0  # the position of the first point that the last refresh changed or added
        self.was_thinned = False
        """Whether the last refresh changed all points."""

    def add(self, picture: Picture, jobs: Iterable[JobRow], spans: Sequence[Span]) -> None:
        """A refresh. `spans`: all that are known."""
        self.was_thinned = len(self._times) >= 2 * MOST_POINTS
        if self.was_thinned:
            self._times, self._columns = thinned(self._times, self._columns, picture.now)
        now = round(picture.now, 3)
        values = _values(picture, jobs)
        for name in (values.keys() | {f"{_USED}{name}" for name in picture.capacity}) - self._columns.keys():
            self._columns[name] = [0.0] * len(self._times)
        learned = self._learned(spans, now)
        since = learned[0] if learned else now
        self._changed = bisect_left(self._times, since)
        for time in learned:
            self._insert(time, {})
        self._insert(now, values)
        # Also at earlier refreshes of the same second: the times of objects are whole seconds, so a pod may have
        # started before a sample in which it was not seen yet. Otherwise there would be a notch.
        for name, value in _shares(values).items():
            self._columns[name][self._changed :] = [value] * (len(self._times) - self._changed)
        self._recount(spans)

    def _learned(self, spans: Iterable[Span], now: float) -> list[float]:
        """The times at which pods started or ended that were not known at the last refresh; none before the series."""
        first = self._times[0] if self._times else now
        times = set()
        known: dict[str, float | None] = {}
        for span in spans:
            known[span.key] = span.end
            if span.key not in self._known:
                times.add(span.start)
            if span.end is not None and self._known.get(span.key) is None:
                times.add(span.end)
        self._known = known
        return sorted({round(min(max(time, first), now), 3) for time in times})

    def _insert(self, time: float, values: Mapping[str, float]) -> None:
        """Add a point, if there is none; what is not given stays as it was before."""
        position = bisect_left(self._times, time)
        if position == len(self._times) or self._times[position] != time:
            self._times.insert(position, time)
            for column in self._columns.values():
                column.insert(position, column[position - 1] if position else 0.0)
        for name, value in values.items():
            self._columns[name][position] = value

    def _recount(self, spans: Iterable[Span]) -> None:
        """What pods use at the points that changed."""
        times = self._times[self._changed :]
        used: dict[str, StepFunction] = {}
        for span in spans:
            end = times[-1] + 1 if span.end is None else round(span.end, 3)
            if end > times[0]:
                for name, amount in span.amounts.items():
                    used.setdefault(name, StepFunction()).add(amount, round(min(span.start, times[-1]), 3), end)
        for name, column in self._columns.items():
            if name.startswith(_USED):
                steps = used.get(name.removeprefix(_USED))
                column[self._changed :] = [0.0] * len(times) if steps is None else steps.values(times)

    def series(self) -> Series:
        return _series(list(self._times), {name: list(column) for name, column in self._columns.items()})

    def tail(self) -> Series:
        """The points that the last refresh changed or added: they replace all from the first of these on."""
        first = self._changed
        return _series(self._times[first:], {name: column[first:] for name, column in self._columns.items()})


def _values(picture: Picture, jobs: Iterable[JobRow]) -> dict[str, float]:
    values = {
        _WAITING_PODS: float(sum(job.pods.waiting for job in picture.jobs)),
        _WAITING_JOBS: float(sum(job.state == "waiting" for job in jobs)),
    }
    for name, amount in picture.capacity.items():
        values[f"{_CAPACITY}{name}"] = float(amount)
    for queue in picture.queues:
        values[f"{_QUEUE}{queue.name}"] = round(queue.share, _DIGITS)
    for one in picture.namespaces:
        values[f"{_NAMESPACE}{one.queue}/{one.namespace}"] = round(one.share, _DIGITS)
    return values


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name.startswith((_QUEUE, _NAMESPACE))}


def _series(times: list[float], columns: dict[str, list[float]]) -> Series:
    def of(kind: str) -> dict[str, list[float]]:
        return {name.removeprefix(kind): columns[name] for name in sorted(columns) if name.startswith(kind)}

    used = of(_USED)
    return Series(
        times=times,
        resources={name: ResourceSeries(used=used[name], capacity=values) for name, values in of(_CAPACITY).items()},
        waiting_pods=columns.get(_WAITING_PODS, []),
        waiting_jobs=columns.get(_WAITING_JOBS, []),
        queues=of(_QUEUE),
        namespaces=of(_NAMESPACE),
    )
