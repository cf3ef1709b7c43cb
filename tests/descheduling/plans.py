"""Plans in a test: a cluster of a few objects, a policy in a line, and what would move."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from builders import START, cluster, established, pod
from stromboli.api import (
    KObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    ReplicaSet,
    ReplicaSetSpec,
    key,
    names,
)
from stromboli.descheduling import Descheduler, Options, Plan, Policy, Registry
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry as SchedulingRegistry

NOW = START + 1000.0
T = TypeVar("T", bound=KObject)


class KnownObjects:
    def __init__(self, objects: Iterable[KObject]) -> None:
        self._objects = {(type(obj), key(obj)): obj for obj in objects}

    def get(self, kind: type[T], key: str) -> T | None:
        return self._objects.get((kind, key))  # type: ignore[return-value]

    def list(self, kind: type[T]) -> list[T]:
        found = sorted(known for known in self._objects if known[0] is kind)
        return [self._objects[known] for known in found]  # type: ignore[misc]


def replicas(name: str, count: int, *, on: str | Sequence[str], **facts: Any) -> list[KObject]:
    """A ReplicaSet with running pods `<name>-0`, … on a node, or on one node each, in a group of its own."""
    nodes = [on] * count if isinstance(on, str) else list(on)
    owner = ReplicaSet(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"rs-{name}"),
        spec=ReplicaSetSpec(replicas=count, selector=LabelSelector(match_labels={"app": name})),
    )
    reference = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=f"rs-{name}", controller=True)
    group = PodGroup(
        metadata=ObjectMeta(name=f"podgroup-rs-{name}", namespace="default", owner_references=[reference]),
        spec=PodGroupSpec(min_member=1, queue="default"),
        status=PodGroupStatus(phase="Running"),
    )
    facts = {"labels": {"app": name}, **facts}
    pods = [
        pod(f"default/{name}-{number}", node=where, owner=reference, group=group.metadata.name, **facts)
        for number, where in enumerate(nodes)
    ]
    return [owner, group, *pods]


def policy(arguments: dict[str, Any], *, plugin: str = "Defragmentation", evictor: dict[str, Any] | None = None,
           point: str = "balance", **top: Any) -> Policy:  # fmt: skip
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
        "profiles": [{
            "name": "test",
            "pluginConfig": [{"name": "DefaultEvictor", "args": evictor or {}}, {"name": plugin, "args": arguments}],
            "plugins": {point: {"enabled": [plugin]}},
        }],
        **top,
    }  # fmt: skip
    return Registry(installed=()).load(json.dumps(document))


def low_nodes(resource: str = "gpu", *, low: float = 30, defragment: float = 75, protection: float = 95,
              **more: Any) -> Policy:  # fmt: skip
    return policy({
        "ResourceType": resource, "lowThresholds": {resource: low}, "defragmentThresholds": {resource: defragment},
        "protectionThresholds": {resource: protection}, **more,
    })  # fmt: skip


def descheduler(objects: Sequence[KObject], chosen: Policy, **more: Any) -> tuple[Descheduler, KnownObjects]:
    known = [established(obj, position) for position, obj in enumerate(objects)]
    registry = SchedulingRegistry(installed_plugins=(), installed_actions=())
    found = Descheduler(lambda: chosen, Registry(installed=()), lambda: Scheduler(registry.default(), registry), **more)
    found.cluster = cluster(*known, scheduler_name=names.DEFAULT_SCHEDULER)
    return found, KnownObjects(known)


def plans_of(objects: Sequence[KObject], chosen: Policy, *, options: Options | None = None, now: float = NOW,
             **more: Any) -> list[Plan]:  # fmt: skip
    found, known = descheduler(objects, chosen, **more)
    return found.plan(known, now, options=options)


def moves(plan: Plan) -> list[tuple[str, str, str]]:
    return [(move.pod.removeprefix("default/"), move.source, move.target) for move in plan.moves]


def set_of(plans: Sequence[Plan]) -> set[tuple[str, str, str]]:
    return {move for plan in plans for move in moves(plan)}


def pods_of(objects: Iterable[KObject]) -> list[Pod]:
    return [obj for obj in objects if isinstance(obj, Pod)]
