"""Objects with mistakes in them: valid documents, each changed in one to three places at random.

A change sets a field, removes one, or takes an item of a list away or twice. Values are those that mean something to
some rule: small numbers, amounts, names, events. The same seed gives the same objects.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

Document = dict[str, Any]

_TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}


def _task(name: str, **fields: Any) -> Document:
    return {"name": name, "replicas": 2, "template": copy.deepcopy(_TEMPLATE), **fields}


BASES: tuple[Document, ...] = (
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": "q", "annotations": {
            "volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2/3"}},
        "spec": {
            "weight": 2, "parent": "p", "capability": {"cpu": "8", "memory": "8Gi", "example.com/gpu": 4},
            "deserved": {"cpu": "4", "memory": "4Gi"},
            "guarantee": {"resource": {"cpu": 2, "memory": "2Gi"}, "policy": "Guaranteed",
                          "percentage": {"value": 0.5, "dimensions": ["cpu"]}},
        },
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {
            "minMember": 2, "queue": "q", "minResources": {"cpu": "2"}, "minTaskMember": {"a": 1},
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
            "subGroupPolicy": [{"name": "s", "subGroupSize": 2, "labelSelector": {
                "matchLabels": {"app": "a"}, "matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}]}}],
        },
    },
    {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {
            "minAvailable": 3, "queue": "q", "plugins": {"env": [], "svc": []},
            "policies": [{"event": "PodFailed", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"},
                         {"events": ["PodEvicted", "Unknown"], "action": "RestartTask", "timeout": "10m"}],
            "volumes": [{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/b", "volumeClaimName": "c"}],
            "tasks": [
                _task("a", minAvailable=1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
                _task("b", dependsOn={"name": ["a"], "iteration": "any"}),
                _task("c", partitionPolicy={"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1}),
            ],
        },
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"},
        "spec": {
            "template": copy.deepcopy(_TEMPLATE) | {}, "ttl": "1h", "queue": "q", "nodeName": "n1",
            "owners": [{"object": {"kind": "Pod", "name": "p", "namespace": "ns"}},
                       {"labelSelector": {"matchLabels": {"app": "a"}}, "namespaces": ["ns"]}],
        },
    },
    {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "t", "namespace": "default"},
        "spec": {
            "schedule": "*/5 8-17 * * mon-fri", "timeZone": "Europe/Rome", "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 60, "suspend": True, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": {"minAvailable": 1, "tasks": [_task("a")]}},
        },
    },
    {
        "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f", "namespace": "default"},
        "spec": {"jobRetainPolicy": "delete", "flows": [
            {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}},
            {"name": "c", "patch": {"jobSpec": {"queue": "q"}}, "dependsOn": {"targets": ["a", "b"], "probe": {
                "httpGetList": [{"taskName": "a", "path": "/a", "port": 80, "httpHeader": {"name": "A", "value": "b"}}],
                "tcpSocketList": [{"port": 80}], "taskStatusList": [{"taskName": "a", "phase": "Running"}]}}},
        ]},
    },
    {
        "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "minAvailable": 1, "plugins": {"svc": []}, "tasks": [_task("a"), _task("b", dependsOn={"name": ["a"]})],
        },
    },
    {
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "h"},
        "spec": {
            "tier": 2, "tierName": "block",
            "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "a"}}},
                        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
                        {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-9]+$"}}},
                        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}],
        },
    },
    {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "c", "namespace": "default"},
        "action": "CloseQueue", "target": {"kind": "Queue", "name": "q"},
    },
    {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"volcano.sh/jdb-min-available": "2"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}]},
    },
)  # fmt: skip

_EXTRAS: dict[str, tuple[tuple[tuple[str, ...], Any], ...]] = {
    "Queue": (
        (("spec", "dequeueStrategy"), "lifo"), (("spec", "priority"), -1),
        (("spec", "parent"), "q"),
        (("spec", "guarantee"), {"policy": "Guaranteed"}),
    ),
    "Job": (
        (("spec", "networkTopology"), {"highestTierAllowed": 1, "highestTierName": "rack"}),
        (("spec", "runningEstimate"), "soon"), (("spec", "maxRetry"), -1), (("spec", "minSuccess"), 0),
        (("spec", "plugins", "magic"), []), 
        (("spec", "policies"), [{"event": event, "action": "AbortJob"} for event in ("*", "PodFailed")]),
        (("spec", "queue"), "j" * 64), (("spec", "queue"), "root"), (("metadata", "name"), "j" * 64),
        (("spec", "tasks"), [_task("a", minAvailable=2, partitionPolicy={
            "totalPartitions": 2, "partitionSize": 1, "minPartitions": 1})]),
        (("spec", "ttlSecondsAfterFinished"), -1), (("spec", "tasks"), [_task("a", dependsOn={"name": ["a"]})]),
    ),
    "CronJob": (
        (("spec", "schedule"), "60 * * * *"), (("spec", "schedule"), "* * * *"), (("spec", "schedule"), "@often"),
        (("spec", "timeZone"), "a b"), (("spec", "concurrencyPolicy"), "Never"), (("metadata", "name"), "t" * 53),
        (("spec", "jobTemplate", "spec", "minAvailable"), 9),
        (("spec", "jobTemplate", "spec", "plugins"), {"magic": []}),
    ),
    "JobFlow": (
        (("spec", "flows"), [
            {"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]),
        (("spec", "flows"), [{"name": "a", "dependsOn": {"targets": ["a"]}}]),
        (("spec", "flows"), [{"name": "a", "dependsOn": {"targets": ["z"]}}]), (("spec", "jobRetainPolicy"), "keep"),
    ),
    "JobTemplate": (
        (("metadata", "name"), "j" * 62), (("metadata", "name"), "j" * 64),
        (("spec", "minAvailable"), 9), (("spec", "plugins", "magic"), []),
        (("spec", "tasks"), [_task("a"), _task("a")]),
    ),
    "PodGroup": (
        (("spec", "subGroupPolicy"), [{"labelSelector": {"matchLabels": {"-a": "b"}}}]),
        (("spec", "subGroupPolicy"), [{"labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "Exists", "values": ["b"]}]}}]),
    ),
    "Reservation": (
        (("spec", "template", "spec", "nodeName"), "n2"), (("spec", "template", "spec", "priority"), 2_000_000_000),
        (("spec", "template", "spec", "priorityClassName"), "system-node-critical"),
        (("spec", "replaces"), {"uid": "u"}), (("spec", "allocateOnce"), True),
    ),
    "HyperNode": (
        (("spec", "members"), [{"type": "HyperNode", "selector": {"exactMatch": {"name": "h"}}}]),
        (("spec", "members"), [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "a"}}}]),
        (("spec", "members"), [{"type": "Node", "selector": {
            "exactMatch": {"name": "n1"}, "regexMatch": {"pattern": "a"}}}]),
        (("spec", "members"), [{"type": "Node", "selector": {}}]),
        (("spec", "tier"), -1), (("spec", "members"), []),
    ),
    "Pod": (
        (("metadata", "annotations", "volcano.sh/jdb-max-unavailable"), "10%"),
        (("metadata", "annotations", "volcano.sh/jdb-max-unavailable"), "none"),
        (("spec", "schedulerName"), "default-scheduler"),
    ),
}  # fmt: skip

_NUMBERS = (-1, 0, 1, 2, 3, 5, 70_000)
_TEXTS = (
    "", "a", "b", "c", "q", "p", "root", "A", "a b", "-x", "example.com/app", "ns", "n1", "n2", "/a", "/b", "data",
    "PodFailed", "PodEvicted", "*", "TaskCompleted", "Rained", "RestartJob", "SyncJob", "In", "Exists", "Always",
    "0", "1", "-2", "2.5", "0%", "1%", "99%", "100%", "50", "500m", "1Gi", "3Gi", "1e3", "1/2/3", "1/0/1", "root/a",
    "root/a/b", "top/a/b", "root//b", "default", "stromboli-system", "Job", "Queue", "Guaranteed", "Best-Effort", "any",
    "system-x", "volcano", "j" * 64, "k" * 60,
)  # fmt: skip


def mutated(seed: int, count: int) -> Iterator[Document]:
    random = Random(seed)
    for _ in range(count):
        document = copy.deepcopy(random.choice(BASES))
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            _change(document, random)
        yield document


def _change(document: Document, random: Random) -> None:
    extras = _EXTRAS.get(document["kind"], ())
    if extras and random.random() < 0.1:
        path, value = random.choice(extras)
        _set(document, path, copy.deepcopy(value))
        return
    places = list(_places(document, ()))
    if not places:
        return
    owner, key, in_metadata = random.choice(places)
    old = owner[key]
    if isinstance(owner, list) and random.random() < 0.4:
        if random.random() < 0.5:
            owner.append(copy.deepcopy(old))
        else:
            del owner[key]
    elif random.random() < 0.2:
        del owner[key]
    elif isinstance(old, dict | list):
        owner[key] = type(old)()
    else:
        owner[key] = _other(old, random, in_metadata=in_metadata)


def _other(old: Any, random: Random, *, in_metadata: bool) -> Any:
    # The server decodes metadata before it looks at anything else.
    if random.random() < 0.03 and not in_metadata:
        return random.choice((True, "7", 7, [], {}))
    if isinstance(old, int | float):
        return random.choice(_NUMBERS)
    return random.choice(_TEXTS)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, Any, bool]]:
    """Everything that can be changed: not the kind and the version, and no template of a Job."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if key in ("apiVersion", "kind", "template", "containers") and len(path) <= 3 and key != "kind":
            continue
        if key == "kind" and not path:
            continue
        if path or key != "metadata":
            yield value, key, "metadata" in path
        yield from _places(part, (*path, key))


def _set(document: Document, path: tuple[str, ...], value: Any) -> None:
    *owners, last = path
    for name in owners:
        document = document.setdefault(name, {})
    document[last] = value
