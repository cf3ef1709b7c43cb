"""All rules, and what no API server can see of an object, so that only the controllers judge it.

`broken_rules` and `broken_update_rules` are what `validate` raises an error for, and what the other ways to judge an
object are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from . import cron_jobs, groups, hyper_nodes, job_flows, jobs, lifecycle_policies, others, queues, reservations
from .rule import Rule
from .walk import structs

RULES: Final[tuple[Rule, ...]] = (
    *queues.RULES,
    *groups.RULES,
    *jobs.RULES,
    *cron_jobs.RULES,
    *job_flows.RULES,
    *lifecycle_policies.RULES,
    *reservations.RULES,
    *hyper_nodes.RULES,
    *others.RULES,
)


class Broken(NamedTuple):
    """A rule that an object breaks: which, in which field, and the sentence about it."""

    rule: Rule
    field: str
    sentence: str


class Unseen(NamedTuple):
    """What the controllers judge, by a field, and why the API server cannot."""

    kind: str
    field: str
    must: str
    because: str


_OTHERS: Final = "it depends on other objects, which a rule does not see"
_NUMBERS: Final = "a pattern cannot compare numbers"
_LATER: Final = "the server judges it when it is created from the object"

UNSEEN: Final = (
    Unseen("Queue", "spec.parent", "must exist, must not be below the queue itself, at most 31 levels up", _OTHERS),
    Unseen("Queue", "spec.capability", "must be at most that of the parent, for each resource", _OTHERS),
    Unseen("Queue", "spec.guarantee", "must fit in what the parent guarantees, with those of its siblings", _OTHERS),
    Unseen("Queue", "spec.capability[]", "must be less than 2^63 units, as all amounts", _NUMBERS),
    Unseen("Queue", "metadata.annotations", "a path of volcano.sh/hierarchy must not lead through another", _OTHERS),
    Unseen("Queue", "spec", "the guarantees of the queues below it must fit in its own", _OTHERS),
    Unseen("Job", "spec.queue", "must exist; the Job waits until it does", _OTHERS),
    Unseen("Job", "spec.tasks", "must have at most 50,000 replicas together, or as `--max-job-replicas` says",
           "it is a flag of the controllers"),
    Unseen("Job", "spec.tasks[].dependsOn", "must not lead back to the task over others",
           "CEL cannot follow a path of unknown length"),
    Unseen("Job", "spec.tasks[].name", "must not be the name that a task without a name gets",
           "CEL does not know the position of an item"),
    Unseen("Job", "spec.tasks[].dependsOn.name[]", "must not be `default7` if the eighth task has a name",
           "CEL does not know the position of an item"),
    Unseen("Job", "spec.tasks[].name", "must make host names of at most 63 letters, digits and dashes, with the name "
           "of the Job, for the plugin svc", "each plugin has rules of its own"),
    Unseen("Job", "spec.runningEstimate", "must be at most 2^53 seconds, as all durations", _NUMBERS),
    Unseen("Job", "spec.tasks[].template", "must be a valid pod template", _LATER),
    Unseen("Job", "spec.volumes[].volumeClaim", "must be a valid claim", _LATER),
    Unseen("Job", "spec.plugins", "must have arguments that the plugin knows", "each plugin reads its own"),
    Unseen("CronJob", "spec.schedule", "must have no range that ends before it begins",
           _NUMBERS),
    Unseen("CronJob", "spec.timeZone", "must be a time zone that the controllers know", "CEL cannot ask for one"),
    Unseen("CronJob", "spec.jobTemplate", "what is said here of a Job", "the server judges it when it creates the Job"),
    Unseen("JobFlow", "spec.flows", "must not lead back to a flow over its targets",
           "CEL cannot follow a path of unknown length"),
    Unseen("JobFlow", "spec.flows[].name", "must be a JobTemplate; the Job is created once it exists", _OTHERS),
    Unseen("JobFlow", "spec.flows[].patch", "must make a valid Job of its template", _OTHERS),
    Unseen("JobTemplate", "spec", "what is said here of a Job", "the server judges it when it creates the Job"),
    Unseen("PodGroup", "spec.minResources[]", "must be less than 2^63 units, as all amounts", _NUMBERS),
    Unseen("PodGroup", "spec.queue", "must exist; the PodGroup waits until it does", _OTHERS),
    Unseen("Reservation", "spec.template", "must be a valid pod template that requests at least one resource", _LATER),
    Unseen("HyperNode", "spec.members[].selector.regexMatch.pattern", "must be a regular expression",
           "CEL cannot ask whether a text is one"),
    Unseen("HyperNode", "spec.members", "must exist, and select at least one node", _OTHERS),
    Unseen("HyperNode", "spec.members", "must not lead back to the HyperNode over others, and be in no other", _OTHERS),
    Unseen("HyperNode", "spec.members", "must have no node that another one of its tier has, and all or none of the "
           "nodes of one below it", _OTHERS),
    Unseen("HyperNode", "spec.tier", "must be above the tiers of its members", _OTHERS),
    Unseen("HyperNode", "spec.tierName", "must not be the name of another tier, too", _OTHERS),
    Unseen("Command", "action", "must be one that its target supports", "the target reports it as an event"),
)  # fmt: skip

_ON_CREATE: Final = tuple(rule for rule in RULES if not rule.on_update)
_ON_UPDATE: Final = tuple(rule for rule in RULES if rule.on_update)
_CREATED: Final = frozenset(rule.on for rule in _ON_CREATE)
_UPDATED: Final = frozenset(rule.on for rule in _ON_UPDATE)


def broken_rules(obj: Struct) -> Iterator[Broken]:
    """Every rule that an object with defaults breaks."""
    for path, struct in structs(obj, _CREATED):
        for rule in _ON_CREATE:
            if rule.on is type(struct):
                yield from _broken(rule, path, struct)


def broken_update_rules(old: Struct, new: Struct) -> Iterator[Broken]:
    """Every rule of updates that a change breaks."""
    before = dict(structs(old, _UPDATED, on_update=True))
    for path, struct in structs(new, _UPDATED, on_update=True):
        for rule in _ON_UPDATE:
            if rule.on is type(struct) and path in before:
                yield from _broken(rule, path, struct, before[path])


def _broken(rule: Rule, path: str, *values: Struct) -> Iterator[Broken]:
    sentence = rule.sentence(*values)
    if sentence:
        yield Broken(rule, ".".join(filter(None, (path, rule.field))), sentence)
