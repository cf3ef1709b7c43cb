"""Which pods a plugin looks at: the arguments `namespaces` and `labelSelector` that most of them have, in the order in
which they leave."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stromboli.api import Pod
from stromboli.api.selectors import matches_labels
from stromboli.cluster import Node, Task
from stromboli.descheduling.evictor.default_evictor import read_namespaces, read_selector
from stromboli.descheduling.run import Run
from stromboli.scheduling.configuration import Arguments

_QOS: Final = ("BestEffort", "Burstable", "Guaranteed")


class ChosenPods:
    def __init__(self, arguments: Arguments, *, has_selector: bool = True) -> None:
        self._namespaces = read_namespaces(arguments, "namespaces")
        self._selector = read_selector(arguments, "labelSelector") if has_selector else None

    def covers(self, pod: Pod) -> bool:
        meta = pod.metadata
        return self._namespaces(meta.namespace) and (
            self._selector is None or matches_labels(self._selector, meta.labels)
        )

    def on_node(self, run: Run, node: Node) -> list[Task]:
        """Those of low priority first, then those with the weakest claim on what they use."""
        return in_order(run, [task for task in run.view.tasks_on(node) if self.covers(task.pod)])


def in_order(run: Run, tasks: Collection[Task]) -> list[Task]:
    return sorted(tasks, key=lambda t: (run.prefers_to_stay(t), t.priority, _QOS.index(qos(t)), t.key))


def texts(arguments: Arguments, key: str, allowed: Collection[str] | None = None) -> tuple[str, ...]:
    """A list of texts."""
    given = arguments.get(key) or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise arguments.error(key, "must be a list of texts")
    if allowed is not None and (wrong := [each for each in given if each not in allowed]):
        raise arguments.error(key, f"has {wrong[0]!r}; known are {', '.join(allowed)}")
    return tuple(given)


def qos(task: Task) -> str:
    """The quality-of-service class of a pod."""
    containers = [*task.pod.spec.containers, *task.pod.spec.init_containers]
    resources = [container.resources for container in containers]
    if not any(each.requests or each.limits for each in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= set(each.limits)
        and all(each.requests.get(name, each.limits[name]) == each.limits[name] for name in ("cpu", "memory"))
        for each in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"
