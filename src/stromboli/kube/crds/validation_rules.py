"""What the API server itself refuses: the rules of `api.validation`, in the words that a CustomResourceDefinition has.

No webhook stands between a user and the cluster, so an object that cannot be used has to be refused by its schema:
by facets (a pattern, an enumeration, a least value), which every server knows, and by rules in CEL, for what takes
more than one field to see. Rules are evaluated from Kubernetes 1.25 on. On older servers, and for the little that
neither can say, the controllers refuse the object with a condition.

The servers reckon beforehand what a rule may cost, at the greatest number of items that the schema allows, and refuse
definitions that may cost too much. That is why lists have limits here; they are far beyond what people write. Before
1.34 they take an amount for as long as a whole request, and before 1.30 a list that a rule makes itself for endless;
those servers get no rules with either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from stromboli.api import (
    Command,
    DependsOn,
    Guarantee,
    GuaranteePercentage,
    Job,
    JobSpec,
    JobState,
    LabelSelector,
    LabelSelectorRequirement,
    LifecyclePolicy,
    NetworkTopology,
    PartitionPolicy,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodTemplateSpec,
    Queue,
    QueueSpec,
    QueueStatus,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    SubGroupPolicy,
    TaskSpec,
)
from stromboli.api.defaults import MAX_RETRY, RESERVATION_TTL
from stromboli.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER, ROOT_QUEUE
from stromboli.api.validation.batch import (
    ACTIONS,
    DIMENSIONS,
    EVENTS,
    GROUP_PHASES,
    JOB_PHASES,
    QUEUE_STATES,
    TOPOLOGY_POLICIES,
)
from stromboli.api.validation.rules import SELECTOR_OPERATORS

Schema = dict[str, Any]

CEL: Final = (1, 25)
"""The first Kubernetes whose servers evaluate rules."""
ALL_RULES: Final = (1, 34)
"""The first whose servers take all of them."""

MOST_TASKS: Final = 256
MOST_POLICIES: Final = 32
MOST_RESOURCES: Final = 64
LONGEST_QUANTITY: Final = 64

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# An empty name is one that was not given: `default` fills it in later.
_NAME: Schema = {"maxLength": 253, "pattern": rf"^({_LABEL}(\.{_LABEL})*)?$"}
_TASK_NAME: Schema = {"maxLength": 63, "pattern": f"^({_LABEL})?$"}
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"

QUANTITY: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "pattern": rf"^\+?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "maxLength": LONGEST_QUANTITY,
    "minimum": 0,
}
DURATION: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "pattern": rf"^\+?({_NUMBER}|({_NUMBER}(ns|us|µs|μs|ms|s|m|h|d))+)$",
    "maxLength": 100,
    "minimum": 0,
}


def _one_of(*allowed: str) -> Schema:
    return {"enum": list(allowed)}


def _between(least: int, most: int | None = None) -> Schema:
    return {"minimum": least} if most is None else {"minimum": least, "maximum": most}


FACETS: Final[Mapping[type[Struct], Schema]] = {
    Queue: {"properties": {"spec": {"default": {}}}},
    QueueSpec: {
        "properties": {
            "weight": {"default": 1, **_between(0, 65535)},
            "reclaimable": {"default": True},
            "priority": _between(0),
            "parent": _NAME,
            "dequeueStrategy": {"default": "traverse", **_one_of("", "fifo", "traverse")},
            # Volcano's, for jobs that go to other clusters. We do not read it, but it stays where it was written.
            "extendClusters": {
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
    Guarantee: {"properties": {"policy": _one_of("", "Best-Effort", "Guaranteed")}},
    GuaranteePercentage: {
        "properties": {
            "value": {"type": "number", **_between(0, 1)},
            "dimensions": {"items": {"pattern": f"^({'|'.join(DIMENSIONS)}|.*/.*)$"}},
        }
    },
    QueueStatus: {"properties": {"state": _one_of(*QUEUE_STATES)}},
    PodGroup: {"properties": {"spec": {"default": {}}}},
    PodGroupSpec: {
        "properties": {
            "minMember": _between(0),
            "minTaskMember": {"additionalProperties": _between(0)},
            "queue": {"default": DEFAULT_QUEUE, **_NAME},
            "priorityClassName": _NAME,
            "subGroupPolicy": {"maxItems": 64},
            # Some versions of Volcano have it.
            "preemptable": {"type": "boolean"},
        }
    },
    SubGroupPolicy: {"properties": {"subGroupSize": _between(1), "minSubGroups": _between(0)}},
    PodGroupStatus: {"properties": {"phase": _one_of(*GROUP_PHASES)}},
    NetworkTopology: {"properties": {"mode": _one_of("", "hard", "soft")}},
    LabelSelector: {"properties": {"matchExpressions": {"maxItems": 64}}},
    LabelSelectorRequirement: {"properties": {"operator": _one_of(*SELECTOR_OPERATORS)}},
    PodTemplateSpec: {
        "required": ["spec"],
        "properties": {"spec": {"required": ["containers"], "properties": {"containers": {"minItems": 1}}}},
    },
    Job: {"required": ["spec"]},
    JobSpec: {
        "required": ["tasks"],
        "properties": {
            "schedulerName": {"default": DEFAULT_SCHEDULER},
            "minAvailable": _between(0),
            "tasks": {"minItems": 1, "maxItems": MOST_TASKS},
            "policies": {"maxItems": MOST_POLICIES},
            "queue": {"default": DEFAULT_QUEUE, **_NAME},
            "maxRetry": {"default": MAX_RETRY, **_between(0)},
            "minSuccess": _between(1),
            "ttlSecondsAfterFinished": _between(0),
            "priorityClassName": _NAME,
        },
    },
    TaskSpec: {
        "required": ["template"],
        "properties": {
            "name": _TASK_NAME,
            "replicas": {"default": 0, **_between(0)},
            "minAvailable": _between(0),
            "policies": {"maxItems": MOST_POLICIES},
            "maxRetry": {"default": MAX_RETRY, **_between(0)},
            "topologyPolicy": _one_of(*TOPOLOGY_POLICIES),
        },
    },
    DependsOn: {
        "properties": {
            "iteration": _one_of("", "any", "all"),
            "name": {"maxItems": MOST_TASKS, "items": {"maxLength": 63}},
        }
    },
    PartitionPolicy: {
        "required": ["totalPartitions", "partitionSize"],
        "properties": {"totalPartitions": _between(0), "partitionSize": _between(0), "minPartitions": _between(0)},
    },
    LifecyclePolicy: {
        "required": ["action"],
        "properties": {
            "action": _one_of(*ACTIONS),
            "event": _one_of("", *EVENTS),
            "events": {
                "maxItems": len(EVENTS),
                "items": _one_of(*EVENTS),
                "x-kubernetes-list-type": "set",
            },
        },
    },
    JobState: {"properties": {"phase": _one_of(*JOB_PHASES)}},
    Command: {
        "required": ["action", "target"],
        "properties": {
            "action": {"minLength": 1},
            "target": {
                "required": ["kind", "name"],
                "properties": {"kind": _one_of("Job", "Queue"), "name": {"minLength": 1}},
            },
        },
    },
    Reservation: {"required": ["spec"]},
    ReservationSpec: {
        "required": ["template", "owners"],
        "properties": {
            "owners": {"minItems": 1, "maxItems": 64},
            "ttl": {"default": RESERVATION_TTL},
            "allocateOnce": {"default": False},
            "queue": _NAME,
            "nodeName": _NAME,
        },
    },
    ReservationOwner: {"properties": {"namespaces": {"items": _TASK_NAME}}},
}
"""What is added to the schema of a struct, by the places that it has there."""


@dataclass(frozen=True)
class Rule:
    """What must hold of one object, as an expression and as a sentence."""

    must: str
    message: str
    since: tuple[int, int] = CEL


def _given(path: str) -> str:
    # A word that the language keeps for itself.
    path = path.replace(".namespace", ".__namespace__")
    return f"(has({path}) && {path} != '')"


def _within(smaller: str, larger: str, message: str) -> Rule:
    """Each amount of one list at most that of another, for the resources both of them name."""
    given = " || ".join(f"!has({path})" for path in _steps(smaller) + _steps(larger))
    return Rule(
        f"{given} || {smaller}.all(r, !(r in {larger}) || "
        f"{_quantity(f'{smaller}[r]')}.compareTo({_quantity(f'{larger}[r]')}) <= 0)",
        message,
        since=ALL_RULES,
    )


def _quantity(amount: str) -> str:
    # To make text of bare numbers would be shorter, but no server could reckon how long that text may be.
    return f"(type({amount}) == string ? quantity({amount}) : quantity('0').add({amount}))"


def _steps(path: str) -> list[str]:
    """`self.a.b` as `self.a`, `self.a.b`: each of them may be missing."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts) + 1)]


def _unchanged(kind: type[Struct], *, besides: tuple[str, ...], message: str) -> tuple[Rule, ...]:
    """One rule for each field that keeps the value it was created with."""
    return tuple(
        Rule(f"{_value('self', field)} == {_value('oldSelf', field)}", f"{field.encode_name} {message}")
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in besides
    )


def _unchanged_in_each(items: str, kind: type[Struct], *, besides: tuple[str, ...], message: str) -> tuple[Rule, ...]:
    """The same for each item of a list that keeps its order and length. An item of such a list has no old self, but
    the column of one field, through all items, can be compared with what it was."""
    return tuple(
        Rule(
            f"self.{items}.map(i, {_value('i', field)}) == oldSelf.{items}.map(i, {_value('i', field)})",
            f"{items}: {field.encode_name} {message}",
            since=ALL_RULES,
        )
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in besides
    )


def _value(owner: str, field: msgspec.structs.FieldInfo) -> str:
    """A field that may be missing. Where an empty value means the same as none, it is the same here."""
    path = f"{owner}.{field.encode_name}"
    if field.default == "":
        return f"(has({path}) ? {path} : '')"
    if field.default_factory is list:
        return f"(has({path}) ? {path} : [])"
    if field.default_factory is dict:
        return f"(has({path}) ? {path} : {{}})"
    return f"(has({path}) ? [{path}] : [])"


_TRIGGERS = "(has({p}.event) && {p}.event == {e} || has({p}.events) && {e} in {p}.events)"


def _triggers(policy: str, event: str) -> str:
    return _TRIGGERS.format(p=policy, e=event)


_POLICIES: Final = (
    Rule(
        f"{list(EVENTS)}.all(e, self.filter(p, {_triggers('p', 'e')}).size() <= 1)",
        "must not repeat an event, which has an action already",
    ),
    Rule(
        "self.all(p, !has(p.exitCode) || self.exists_one(o, has(o.exitCode) && o.exitCode == p.exitCode))",
        "must not repeat an exitCode, which has an action already",
    ),
    Rule(
        f"""!self.exists(p, {_triggers("p", "'*'")}) || self.all(p, (!has(p.event) || p.event in ['', '*'])"""
        " && (!has(p.events) || p.events.all(e, e == '*')))",
        'must not name other events beside "*", which means all of them',
    ),
)

RULES: Final[Mapping[type[Struct], tuple[Rule, ...]]] = {
    Queue: (
        Rule(
            "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "spec.parent must not be the queue itself",
        ),
    ),
    QueueSpec: (
        _within("self.deserved", "self.capability", "deserved must be at most the capability, for each resource"),
        _within(
            "self.guarantee.resource",
            "self.deserved",
            "guarantee.resource must be at most the deserved amount, for each resource",
        ),
        _within(
            "self.guarantee.resource",
            "self.capability",
            "guarantee.resource must be at most the capability, for each resource",
        ),
    ),
    Guarantee: (
        Rule(
            f"!{_given('self.policy')} || has(self.percentage) || has(self.resource) && self.resource.size() > 0",
            "must have a resource or a percentage",
        ),
    ),
    NetworkTopology: (
        Rule(
            f"!has(self.highestTierAllowed) || !{_given('self.highestTierName')}",
            "must have highestTierAllowed or highestTierName, not both",
        ),
    ),
    LabelSelectorRequirement: (
        Rule(
            "!(self.operator in ['In', 'NotIn']) || has(self.values) && self.values.size() > 0",
            "must have at least one value for the operators In and NotIn",
        ),
        Rule(
            "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
            "must have no values for the operators Exists and DoesNotExist",
        ),
    ),
    JobSpec: (
        Rule(
            f"self.tasks.all(t, !{_given('t.name')} || self.tasks.exists_one(o, has(o.name) && o.name == t.name))",
            "tasks: a name must not be used twice in a job",
        ),
        Rule(
            "!has(self.minAvailable) || self.minAvailable <= self.tasks.map(t, t.replicas).sum()",
            "minAvailable must be at most the replicas of all tasks",
            since=ALL_RULES,
        ),
        Rule(f"self.queue != '{ROOT_QUEUE}'", "queue must not be root: jobs go to the queues below it"),
        Rule(
            "self.tasks.size() == oldSelf.tasks.size()",
            "tasks must not be added or removed: only their replicas and minAvailable can change",
        ),
        *_unchanged_in_each(
            "tasks",
            TaskSpec,
            besides=("replicas", "minAvailable"),
            message="must not change: only replicas and minAvailable of a task can",
        ),
        *_unchanged(
            JobSpec,
            besides=("tasks", "minAvailable", "priorityClassName"),
            message="must not change once the job exists",
        ),
    ),
    TaskSpec: (
        Rule("!has(self.minAvailable) || self.minAvailable <= self.replicas", "minAvailable must be at most replicas"),
        Rule(
            "!has(self.partitionPolicy)"
            " || self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize == self.replicas",
            "partitionPolicy must have totalPartitions × partitionSize = replicas",
        ),
        Rule(
            "!has(self.name) || !has(self.dependsOn) || !has(self.dependsOn.name)"
            " || !(self.name in self.dependsOn.name)",
            "dependsOn must not lead back to the task itself",
        ),
    ),
    LifecyclePolicy: (
        Rule(
            f"({_given('self.event')} || has(self.events) && self.events.size() > 0) != has(self.exitCode)",
            "must have either an event or an exitCode",
        ),
        Rule("!has(self.exitCode) || self.exitCode != 0", "exitCode must not be 0, which is success"),
    ),
    ReservationSpec: (
        Rule(
            f"!{_given('self.nodeName')} || !{_given('self.template.spec.nodeName')}"
            " || self.nodeName == self.template.spec.nodeName",
            "nodeName must be the node of the template",
        ),
        *_unchanged(ReservationSpec, besides=("ttl",), message="must not change: only the ttl of a reservation can"),
    ),
    ReservationOwner: (
        Rule(
            "has(self.labelSelector)"
            + "".join(
                f" || has(self.{part}) && ({' || '.join(_given(f'self.{part}.{field}') for field in fields)})"
                for part, fields in (
                    ("object", ("kind", "namespace", "name", "uid")),
                    ("controller", ("kind", "name", "uid")),
                )
            ),
            "must say who may use the reservation: an object, a controller or a labelSelector",
        ),
    ),
}
"""What must hold of a struct, wherever it stands outside a pod template."""

LIST_RULES: Final[Mapping[tuple[type[Struct], str], tuple[Rule, ...]]] = {
    (JobSpec, "policies"): _POLICIES,
    (TaskSpec, "policies"): _POLICIES,
}
"""What must hold of a list as a whole."""
