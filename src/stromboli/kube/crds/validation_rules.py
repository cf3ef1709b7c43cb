"""Rules over several fields, in CEL, that the API server evaluates from Kubernetes 1.25 on.

There is no admission webhook, so an object that cannot be used has to be refused by its schema: by the facets of single
fields (schema_facets.py), which every server checks, and by these rules. On older servers, and for the little that
neither can express, the controllers refuse the object with a condition.

The servers compute beforehand what a rule may cost and refuse definitions that may cost too much. Before 1.34 they
assume that a quantity is as long as a whole request, and before 1.30 that a list which a rule builds is unlimited;
those servers get no rules with either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from stromboli.api import (
    Guarantee,
    JobSpec,
    LabelSelectorRequirement,
    LifecyclePolicy,
    NetworkTopology,
    PodGroup,
    Queue,
    QueueSpec,
    ReservationOwner,
    ReservationSpec,
    TaskSpec,
)
from stromboli.api.names import ROOT_QUEUE
from stromboli.api.validation.batch import EVENTS
from stromboli.api.validation.objects import STARTED
from stromboli.api.validation.rules import HIGHEST_USER_PRIORITY, SYSTEM_PREFIX

CEL: Final = (1, 25)
"""The first Kubernetes version whose servers evaluate rules."""
ALL_RULES: Final = (1, 34)
"""The first version whose servers accept all of them."""


@dataclass(frozen=True)
class Rule:
    """What must hold for an object: a CEL expression, and the message if it does not."""

    must: str
    message: str
    since: tuple[int, int] = CEL


def _given(path: str) -> str:
    # `namespace` is a reserved word in CEL.
    path = path.replace(".namespace", ".__namespace__")
    return f"(has({path}) && {path} != '')"


def _within(smaller: str, larger: str, message: str) -> Rule:
    """Each quantity of one resource list is at most that of another, for the resources in both."""
    given = " || ".join(f"!has({path})" for path in _steps(smaller) + _steps(larger))
    return Rule(
        f"{given} || {smaller}.all(r, !(r in {larger}) || "
        f"{_quantity(f'{smaller}[r]')}.compareTo({_quantity(f'{larger}[r]')}) <= 0)",
        message,
        since=ALL_RULES,
    )


def _quantity(amount: str) -> str:
    # Converting numbers to text would be shorter, but the server could not estimate the length of that text.
    return f"(type({amount}) == string ? quantity({amount}) : quantity('0').add({amount}))"


def _steps(path: str) -> list[str]:
    """`self.a.b` as `self.a` and `self.a.b`: each may be missing."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts) + 1)]


def _unchanged(kind: type[Struct], *, except_for: tuple[str, ...], message: str) -> tuple[Rule, ...]:
    """One rule for each immutable field."""
    return tuple(
        Rule(f"{_value('self', field)} == {_value('oldSelf', field)}", f"{field.encode_name} {message}")
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in except_for
    )


def _unchanged_in_each(
    items: str, kind: type[Struct], *, except_for: tuple[str, ...], message: str
) -> tuple[Rule, ...]:
    """The same for each item of a list with fixed order and length. CEL has no oldSelf for such an item, but the values
    of one field in all items can be compared with the old ones."""
    return tuple(
        Rule(
            f"self.{items}.map(i, {_value('i', field)}) == oldSelf.{items}.map(i, {_value('i', field)})",
            f"{items}: {field.encode_name} {message}",
            since=ALL_RULES,
        )
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in except_for
    )


def _value(owner: str, field: msgspec.structs.FieldInfo) -> str:
    """A field that may be missing. Empty and missing are equal where they mean the same."""
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
    PodGroup: (
        Rule(
            "!has(self.spec) || !has(oldSelf.spec) || !has(oldSelf.status) || !has(oldSelf.status.phase) || "
            f"!(oldSelf.status.phase in {list(STARTED)}) || self.spec.queue == oldSelf.spec.queue",
            "spec.queue must not change once pods have started: their queue is charged for them",
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
            except_for=("replicas", "minAvailable"),
            message="must not change: only replicas and minAvailable of a task can",
        ),
        *_unchanged(
            JobSpec,
            except_for=("tasks", "minAvailable", "priorityClassName"),
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
        Rule(
            f"has(self.replaces) || !{_given('self.template.spec.priorityClassName')}"
            f" || !self.template.spec.priorityClassName.startsWith('{SYSTEM_PREFIX}')",
            f"template.spec.priorityClassName must not begin with {SYSTEM_PREFIX}: such classes are for system pods",
        ),
        Rule(
            "has(self.replaces) || !has(self.template.spec.priority)"
            f" || self.template.spec.priority <= {HIGHEST_USER_PRIORITY}",
            f"template.spec.priority must be at most {HIGHEST_USER_PRIORITY}",
        ),
        *_unchanged(ReservationSpec, except_for=("ttl",), message="must not change: only the ttl of a reservation can"),
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
"""The rules of a struct, wherever it is used outside a pod template."""

LIST_RULES: Final[Mapping[tuple[type[Struct], str], tuple[Rule, ...]]] = {
    (JobSpec, "policies"): _POLICIES,
    (TaskSpec, "policies"): _POLICIES,
}
"""The rules of a list as a whole."""
