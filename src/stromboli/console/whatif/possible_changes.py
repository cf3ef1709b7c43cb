"""What could be different about a waiting job or the cluster around it.

A change is a value: it says in words what it is, and applies itself to the objects of a copy. Fields of a job that
cannot be edited are changed by submitting it again, and then it is the youngest of its queue, as it would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from stromboli.api import KObject, Node, Pod, PodSpec, Queue, Toleration, key
from stromboli.api.quantity import amount, format_amount, stated_amount
from stromboli.api.upstream import with_minimum

from .target import Target

Trial = tuple[list[KObject], list[KObject]]
"""The objects that are there, and those that are submitted now."""


class Change(Protocol):
    @property
    def phrase(self) -> str:
        """Follows "starts now" or "starts"."""
        ...

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial: ...


def _edited(objects: Sequence[KObject], edited: Sequence[KObject]) -> list[KObject]:
    new = {(obj.kind, key(obj)): obj for obj in edited}
    return [new.get((obj.kind, key(obj)), obj) for obj in objects]


# -- the job itself ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Minimum:
    """Fewer pods must start together."""

    pods: int
    field: str  # minAvailable of a Job, minMember of a PodGroup, minCount of one of Kubernetes

    @property
    def phrase(self) -> str:
        return f"with {self.field} {self.pods}"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        if target.job is not None:
            changed: KObject = replace(target.job, spec=replace(target.job.spec, min_available=self.pods))
        else:
            assert target.group is not None
            changed = with_minimum(target.group, self.pods)
        return _edited(objects, [changed]), []


@dataclass(frozen=True, slots=True)
class WithoutSelector:
    name: str
    value: str

    @property
    def phrase(self) -> str:
        return f"without the selector {self.name}={self.value}"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        def change(spec: PodSpec) -> PodSpec:
            return replace(spec, node_selector={k: v for k, v in spec.node_selector.items() if k != self.name})

        return target.without(objects), target.resubmitted(change)


@dataclass(frozen=True, slots=True)
class WithoutNodeAffinity:
    phrase: str = "without its node affinity"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        def change(spec: PodSpec) -> PodSpec:
            return spec if spec.affinity is None else replace(spec, affinity=replace(spec.affinity, node_affinity=None))

        return target.without(objects), target.resubmitted(change)


@dataclass(frozen=True, slots=True)
class WithToleration:
    taint: str

    @property
    def phrase(self) -> str:
        return f"with a toleration of the taint {self.taint}"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        def change(spec: PodSpec) -> PodSpec:
            return replace(spec, tolerations=[*spec.tolerations, Toleration(key=self.taint, operator="Exists")])

        return target.without(objects), target.resubmitted(change)


@dataclass(frozen=True, slots=True)
class SmallerRequest:
    """Each pod requests at most so much of a resource."""

    resource: str
    most: int

    @property
    def phrase(self) -> str:
        return f"with at most {stated_amount(self.resource, self.most)} {self.resource} for each pod"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        def change(spec: PodSpec) -> PodSpec:
            containers = []
            left = self.most
            for container in spec.containers:
                requests = dict(container.resources.requests)
                wants = amount(self.resource, requests.get(self.resource, 0))
                given = min(wants, left)
                left -= given
                if given < wants:
                    requests[self.resource] = format_amount(self.resource, given)
                containers.append(replace(container, resources=replace(container.resources, requests=requests)))
            return replace(spec, containers=containers)

        return target.without(objects), target.resubmitted(change)


@dataclass(frozen=True, slots=True)
class OtherQueue:
    queue: str

    @property
    def phrase(self) -> str:
        return f"in queue {self.queue}"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        return target.without(objects), target.resubmitted(lambda spec: spec, queue=self.queue)


@dataclass(frozen=True, slots=True)
class WithoutGates:
    phrase: str = "without its scheduling gates"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        free = [replace(pod, spec=replace(pod.spec, scheduling_gates=[])) for pod in target.waiting]
        return _edited(objects, free), []


# -- the cluster around it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueOpened:
    queue: str

    @property
    def phrase(self) -> str:
        return f"when queue {self.queue} is opened"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        opened = [
            replace(obj, status=replace(obj.status, state="Open"))
            for obj in objects
            if isinstance(obj, Queue) and obj.metadata.name == self.queue
        ]
        return _edited(objects, opened), []


@dataclass(frozen=True, slots=True)
class Capability:
    queue: str
    resource: str
    most: int

    @property
    def phrase(self) -> str:
        most = stated_amount(self.resource, self.most)
        return f"with a capability of {most} {self.resource} in queue {self.queue}"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        raised = []
        for obj in objects:
            if isinstance(obj, Queue) and obj.metadata.name == self.queue:
                limits = {**obj.spec.capability, self.resource: format_amount(self.resource, self.most)}
                raised.append(replace(obj, spec=replace(obj.spec, capability=limits)))
        return _edited(objects, raised), []


@dataclass(frozen=True, slots=True)
class Uncordoned:
    node: str

    @property
    def phrase(self) -> str:
        return f"when node {self.node} is uncordoned"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        freed = [
            replace(obj, spec=replace(obj.spec, unschedulable=False))
            for obj in objects
            if isinstance(obj, Node) and obj.metadata.name == self.node
        ]
        return _edited(objects, freed), []


@dataclass(frozen=True, slots=True)
class Ended:
    """Other jobs have finished."""

    jobs: tuple[str, ...]
    pods: frozenset[str]  # all of theirs that have not ended yet

    @property
    def phrase(self) -> str:
        *others, last = self.jobs
        return f"when {', '.join(others)} and {last} end" if others else f"when {last} ends"

    def apply(self, objects: Sequence[KObject], target: Target) -> Trial:
        ended = [
            replace(obj, status=replace(obj.status, phase="Succeeded"))
            for obj in objects
            if isinstance(obj, Pod) and key(obj) in self.pods
        ]
        return _edited(objects, ended), []
