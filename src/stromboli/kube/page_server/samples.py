"""What the page shows over time: a sample for each picture, thinned when there are too many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stromboli.insight import Picture
from stromboli.page import MOST_POINTS, JobRow, ResourceSeries, Series, thinned

_DIGITS: Final = 6
_WAITING_PODS: Final = "pods"
_WAITING_JOBS: Final = "jobs"


class Samples:
    """All series have the same times. One that begins later was 0 before."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._columns: dict[str, list[float]] = {}
        self.was_thinned = False
        """Whether the last sample changed earlier ones."""

    def add(self, picture: Picture, jobs: Iterable[JobRow]) -> None:
        self.was_thinned = len(self._times) >= 2 * MOST_POINTS
        if self.was_thinned:
            self._times, self._columns = thinned(self._times, self._columns, picture.now)
        values = _values(picture, jobs)
        for name in values.keys() - self._columns.keys():
            self._columns[name] = [0.0] * len(self._times)
        self._times.append(round(picture.now, 3))
        for name, column in self._columns.items():
            column.append(values.get(name, 0.0))

    def series(self) -> Series:
        return _series(list(self._times), {name: list(column) for name, column in self._columns.items()})

    def last(self) -> Series:
        """The last sample alone."""
        return _series(self._times[-1:], {name: column[-1:] for name, column in self._columns.items()})


def _values(picture: Picture, jobs: Iterable[JobRow]) -> dict[str, float]:
    values = {
        _WAITING_PODS: float(sum(job.pods.waiting for job in picture.jobs)),
        _WAITING_JOBS: float(sum(job.state == "waiting" for job in jobs)),
    }
    for name, amount in picture.capacity.items():
        values[f"capacity {name}"] = float(amount)
        values[f"used {name}"] = float(picture.used.get(name, 0))
    for queue in picture.queues:
        values[f"queue {queue.name}"] = round(queue.share, _DIGITS)
    for one in picture.namespaces:
        values[f"namespace {one.queue}/{one.namespace}"] = round(one.share, _DIGITS)
    return values


def _series(times: list[float], columns: dict[str, list[float]]) -> Series:
    def of(kind: str) -> dict[str, list[float]]:
        return {name.removeprefix(kind): columns[name] for name in sorted(columns) if name.startswith(kind)}

    used = of("used ")
    return Series(
        times=times,
        resources={
            name: ResourceSeries(used=used[name], capacity=values) for name, values in of("capacity ").items()
        },
        waiting_pods=columns.get(_WAITING_PODS, []),
        waiting_jobs=columns.get(_WAITING_JOBS, []),
        queues=of("queue "),
        namespaces=of("namespace "),
    )
