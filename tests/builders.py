"""Builders: a cluster in a few lines, so that a test shows its case and nothing else.

Every builder makes one Kubernetes object from what matters to a test; the rest gets a default that no test
should depend on. Amounts are written as users write them (`cpu=2`, `memory="4Gi"`), keys as they are shown
everywhere (`"ns1/p1"`; without a slash the namespace is `default`).

    known = cluster(
        node("n1", cpu=2, memory="4Gi"),
        queue("q1", weight=3),
        group("ns1/pg1", queue="q1", min_member=2, phase="Inqueue"),
        pod("ns1/p1", group="pg1", cpu=1, node="n1"),
        pod("ns1/p2", group="pg1", cpu=1),
    )
    cycle = session(known, tiers=[["priority", "gang"], [plugin("drf", preemptable=False)]])

`cluster` fills in what an API server would: uids, and creation times one second apart in the order given. So
"older" in a test is simply "listed before", and nothing depends on a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stromboli.api import (
    Affinity,
    Condition,
    Container,
    ExactMatch,
    Guarantee,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    KObject,
    LabelSelector,
    MemberSelector,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PriorityClass,
    Queue,
    QueueSpec,
    QueueStatus,
    RegexMatch,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    key,
    names,
)
from stromboli.api.kinds.batch import NetworkTopology, SubGroupPolicy
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.configuration.configuration_file import ActionOption, Configuration, PluginOption, Tier
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

Amount = str | int | float
Amounts = Mapping[str, Amount]

GPU = "nvidia.com/gpu"
START = 1_893_456_000.0
"""When the first object of every cluster was created, 2030-01-01T00:00:00Z; `created` counts from here."""


def node(
    name: str,
    *,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    gpu: Amount | None = None,
    pods: Amount = 110,
    resources: Amounts | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    ready: bool = True,
    cordoned: bool = False,
    created: float | None = None,
) -> Node:
    """A node that offers just the resources named; `resources` is for those without their own argument."""
    return Node(
        metadata=_metadata(name, created, labels=labels),
        spec=NodeSpec(unschedulable=cordoned, taints=list(taints)),
        status=NodeStatus(
            allocatable=_amounts(cpu, memory, gpu, {"pods": pods, **(resources or {})}),
            conditions=[Condition(type="Ready", status="True" if ready else "False")],
        ),
    )


def pod(
    key: str,
    *,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    gpu: Amount | None = None,
    resources: Amounts | None = None,
    group: str = "",
    node: str = "",
    phase: str = "",
    deleted: bool = False,
    priority: int | None = None,
    priority_class: str = "",
    role: str = "",
    preemptable: bool | None = None,
    may_preempt: bool = True,
    gated: bool = False,
    backfill: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: Sequence[Toleration] = (),
    spread: Sequence[TopologySpreadConstraint] = (),
    containers: Sequence[Container] | None = None,
    owner: OwnerReference | None = None,
    scheduler: str = names.DEFAULT_SCHEDULER,
    created: float | None = None,
) -> Pod:
    """A pod; with a `node` it runs there unless `phase` says otherwise, without one it waits for a place.

    Without amounts it is BestEffort. `containers` replaces the one container made from the amounts.
    """
    marks = dict(annotations or {})
    if group:
        marks[names.GROUP_NAME] = group
    if role:
        marks[names.TASK_SPEC] = role
    if preemptable is not None:
        marks[names.PREEMPTABLE] = str(preemptable).lower()
    if backfill:
        marks[names.BACKFILL] = "true"
    asked = ResourceRequirements(requests=_amounts(cpu, memory, gpu, resources))
    return Pod(
        metadata=_metadata(
            key, created, namespaced=True, labels=labels, annotations=marks, owner=owner, deleted=deleted
        ),
        spec=PodSpec(
            scheduler_name=scheduler,
            node_name=node,
            node_selector=dict(node_selector or {}),
            affinity=affinity,
            tolerations=list(tolerations),
            topology_spread_constraints=list(spread),
            containers=[Container(name="main", resources=asked)] if containers is None else list(containers),
            priority=priority,
            priority_class_name=priority_class,
            preemption_policy="" if may_preempt else "Never",
            scheduling_gates=[PodSchedulingGate(name="wait")] if gated else [],
        ),
        status=PodStatus(phase=phase or ("Running" if node else "Pending")),
    )


def pods(key: str, count: int, **facts: object) -> list[Pod]:
    """`count` equal pods named `<key>-0`, `<key>-1`, …; the facts are those of `pod`."""
    return [pod(f"{key}-{number}", **facts) for number in range(count)]  # type: ignore[arg-type]


def group(
    key: str,
    *,
    queue: str = "",
    min_member: int = 1,
    roles: Mapping[str, int] | None = None,
    priority_class: str = "",
    min_resources: Amounts | None = None,
    phase: str = "Inqueue",
    topology: NetworkTopology | None = None,
    sub_groups: Sequence[SubGroupPolicy] = (),
    created: float | None = None,
) -> PodGroup:
    """A PodGroup, already admitted unless `phase` says "Pending"."""
    return PodGroup(
        metadata=_metadata(key, created, namespaced=True),
        spec=PodGroupSpec(
            min_member=min_member,
            min_task_member=dict(roles or {}),
            queue=queue,
            priority_class_name=priority_class,
            min_resources=dict(min_resources or {}),
            network_topology=topology,
            sub_group_policy=list(sub_groups),
        ),
        status=PodGroupStatus(phase=phase),
    )


def queue(
    name: str,
    *,
    weight: int = 1,
    priority: int = 0,
    capability: Amounts | None = None,
    guarantee: Amounts | None = None,
    deserved: Amounts | None = None,
    reclaimable: bool = True,
    state: str = "Open",
    fifo: bool = False,
    parent: str = "",
    created: float | None = None,
) -> Queue:
    return Queue(
        metadata=_metadata(name, created),
        spec=QueueSpec(
            weight=weight,
            priority=priority,
            capability=dict(capability or {}),
            guarantee=Guarantee(resource=dict(guarantee or {})),
            deserved=dict(deserved or {}),
            reclaimable=reclaimable,
            dequeue_strategy="fifo" if fifo else "",
            parent=parent,
        ),
        status=QueueStatus(state=state),
    )


def hyper_node(
    name: str,
    tier: int,
    *members: str,
    nodes: Sequence[str] = (),
    regex: str = "",
    labels: Mapping[str, str] | None = None,
    tier_name: str = "",
) -> HyperNode:
    """A HyperNode whose members are HyperNodes, or nodes by name, by a regular expression, or by labels."""
    selectors = [MemberSelector(exact_match=ExactMatch(name=node)) for node in nodes]
    if regex:
        selectors.append(MemberSelector(regex_match=RegexMatch(pattern=regex)))
    if labels is not None:
        selectors.append(MemberSelector(label_match=LabelSelector(match_labels=dict(labels))))
    inner = [
        HyperNodeMember(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=member)))
        for member in members
    ]
    return HyperNode(
        metadata=_metadata(name, None),
        spec=HyperNodeSpec(
            tier=tier,
            tier_name=tier_name,
            members=[*inner, *(HyperNodeMember(type="Node", selector=selector) for selector in selectors)],
        ),
    )


def namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Namespace:
    return Namespace(metadata=_metadata(name, None, labels=labels))


def quota(key: str, *, weight: Amount | None = None, hard: Amounts | None = None) -> ResourceQuota:
    """A ResourceQuota; `weight` is the fair-share weight it gives its namespace."""
    limits = dict(hard or {})
    if weight is not None:
        limits[names.NAMESPACE_WEIGHT] = weight
    return ResourceQuota(metadata=_metadata(key, None, namespaced=True), spec=ResourceQuotaSpec(hard=limits))


def priority_class(name: str, value: int, *, is_default: bool = False) -> PriorityClass:
    return PriorityClass(metadata=_metadata(name, None), value=value, global_default=is_default)


def budget(
    key: str,
    *,
    allowed: int,
    selector: Mapping[str, str] | LabelSelector | None = None,
    disrupted: Iterable[str] = (),
) -> PodDisruptionBudget:
    """A PodDisruptionBudget that allows so many disruptions now. `selector`: labels, `{}` for every pod of
    the namespace, None for none. `disrupted`: names of pods whose eviction it knows of already."""
    chosen = LabelSelector(match_labels=dict(selector)) if isinstance(selector, Mapping) else selector
    return PodDisruptionBudget(
        metadata=_metadata(key, None, namespaced=True),
        spec=PodDisruptionBudgetSpec(selector=chosen),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, format_timestamp(START))
        ),
    )


def cluster(*objects: KObject | Iterable[KObject], scheduler_name: str | None = None) -> Cluster:
    """A cluster that knows these objects (lists among them are opened); has a queue `default` in any case."""
    known = Cluster(scheduler_name=scheduler_name)
    everything: list[KObject] = []
    for item in objects:
        everything.extend(item if isinstance(item, Iterable) else (item,))
    if not any(isinstance(obj, Queue) and obj.metadata.name == names.DEFAULT_QUEUE for obj in everything):
        everything.append(queue(names.DEFAULT_QUEUE))
    for position, obj in enumerate(everything):
        known.apply(Applied(established(obj, position)))
    return known


def established(obj: KObject, position: int = 0) -> KObject:
    """The object as an API server would hand it out: with a uid, and a creation time if it has none. Changes
    the object itself, as tests like to look at the one they made."""
    metadata = obj.metadata
    metadata.uid = metadata.uid or f"{obj.kind}:{key(obj)}".lower()
    if metadata.creation_timestamp is None:
        metadata.creation_timestamp = format_timestamp(START + position)
    return obj


@dataclass(frozen=True)
class Ready:
    """A plugin that a test has built itself, with the kinds of callbacks it switches."""

    part: Plugin
    enabled: Mapping[str, bool]


def plugin(which: str | Plugin, arguments: Mapping[str, object] | None = None, **enabled: bool) -> PluginOption | Ready:
    """An entry of a tier: a plugin by name with its arguments, or one the test made; `preemptable=False` and
    so on switch kinds of callbacks off (or on), by the names of `PluginOption.enabled`."""
    if isinstance(which, Plugin):
        return Ready(which, enabled)
    return PluginOption(which, enabled, Arguments(arguments, owner=f"plugin {which}"))


def session(
    known: Cluster,
    *,
    tiers: Iterable[Iterable[str | PluginOption | Ready | Plugin]] = (),
    actions: Iterable[str | ActionOption] = (),
    now: float = START + 1000.0,
) -> Session:
    """A session on a fresh snapshot. Nothing runs; a test calls an action's `execute`, or asks questions."""
    from stromboli.scheduling.cycle import open_session  # Pure tests of objects need not load the kernels.

    registry = Registry(installed_plugins=(), installed_actions=())
    instances: dict[int, Plugin] = {}
    ranks: list[Tier] = []
    for tier in tiers:
        options: list[PluginOption] = []
        for entry in tier:
            option, instance = _opened(entry, registry)
            instances[id(option)] = instance
            options.append(option)
        ranks.append(Tier(tuple(options)))
    configuration = Configuration(
        actions=tuple(ActionOption(a) if isinstance(a, str) else replace(a) for a in actions),
        tiers=tuple(ranks),
    )
    return open_session(known.snapshot(), configuration, lambda option: instances[id(option)], now)


def _opened(entry: str | PluginOption | Ready | Plugin, registry: Registry) -> tuple[PluginOption, Plugin]:
    if isinstance(entry, Plugin):
        entry = Ready(entry, {})
    if isinstance(entry, Ready):
        return PluginOption(getattr(entry.part, "name", "test"), entry.enabled), entry.part
    if isinstance(entry, str):
        option = PluginOption(entry, arguments=Arguments(owner=f"plugin {entry}"))
    else:
        option = replace(entry)
    return option, registry.plugin(option.name)(option.arguments)


def _metadata(
    key: str,
    created: float | None,
    *,
    namespaced: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    deleted: bool = False,
) -> ObjectMeta:
    space, _, name = key.rpartition("/")
    return ObjectMeta(
        name=name,
        namespace=(space or names.DEFAULT_NAMESPACE) if namespaced else "",
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        creation_timestamp=None if created is None else format_timestamp(START + created),
        deletion_timestamp=format_timestamp(START) if deleted else None,
        owner_references=[] if owner is None else [owner],
    )


def _amounts(
    cpu: Amount | None, memory: Amount | None, gpu: Amount | None, others: Amounts | None
) -> dict[str, Amount]:
    named = {"cpu": cpu, "memory": memory, GPU: gpu}
    return {**{name: amount for name, amount in named.items() if amount is not None}, **(others or {})}
