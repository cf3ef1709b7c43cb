"""Nodes that already have a pod's images start it sooner.

Each image counts with its size, times the share of nodes that have it. Otherwise the first node that pulled an image
would get all pods that use it. Sums below 23 MB count as nothing, and above 1000 MB per container more is not better.

Nodes report dozens of images, and only those of waiting pods matter, so one pass over all nodes collects these.
"""

from __future__ import annotations

import numpy as np

from stromboli.api import Pod
from stromboli.cluster import Status, Task
from stromboli.scheduling.callbacks import NodeScore, Scores
from stromboli.scheduling.session import Session

MEGABYTE = 1024 * 1024
WORTHWHILE = 23 * MEGABYTE
ENOUGH_PER_CONTAINER = 1000 * MEGABYTE


def full_name(image: str) -> str:
    """With its tag; without one it is `latest`."""
    if image.rfind(":") <= image.rfind("/"):
        return f"{image}:latest"
    return image


class ImageLocality:
    def __init__(self, session: Session, *, weight: float) -> None:
        self._session = session
        self._weight = weight
        self._worth: dict[str, Scores] | None = None  # by image: its scaled size, by row

    def prepare(self, task: Task) -> NodeScore | None:
        worth = self._worths()
        if not worth:
            return None
        images = _images(task.shape.pod)
        known = [worth[image] for image in images if image in worth]
        if not known:
            return None
        most = ENOUGH_PER_CONTAINER * len(images)
        total = np.clip(np.sum(known, axis=0), WORTHWHILE, most)
        scores: Scores = (total - WORTHWHILE) * (100.0 * self._weight / (most - WORTHWHILE))
        return scores.__getitem__ if scores.any() else None

    def _worths(self) -> dict[str, Scores]:
        if self._worth is None:
            self._worth = self._look()
        return self._worth

    def _look(self) -> dict[str, Scores]:
        nodes = self._session.nodes.nodes
        sizes: dict[str, Scores] = {}
        if not any(node.object.status.images for node in nodes):
            return sizes
        waiting = {
            task.shape.id: task.shape.pod
            for job in self._session.jobs
            for task in job.tasks.values()
            if task.status is not Status.RUNNING
        }
        wanted = {image for pod in waiting.values() for image in _images(pod)}
        for row, node in enumerate(nodes):
            for image in node.object.status.images:
                for name in image.names:
                    if name in wanted:
                        if name not in sizes:
                            sizes[name] = np.zeros(len(nodes), dtype=np.float64)
                        sizes[name][row] = image.size_bytes
        return {name: size * (np.count_nonzero(size) / len(nodes)) for name, size in sizes.items()}


def _images(pod: Pod) -> list[str]:
    return [full_name(container.image) for container in pod.spec.containers if container.image]
