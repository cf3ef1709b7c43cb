"""Constraints on single fields that every API server checks: patterns, enumerations, defaults and limits.

They come from the same rules as `api.validation`. Lists have limits because the server computes beforehand what a CEL
rule (api.rules) may cost at the greatest length that the schema allows, and refuses definitions that may cost
too much. The limits are far beyond what people write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from stromboli.api import (
    Command,
    CronJob,
    CronJobSpec,
    CronJobTemplate,
    DependsOn,
    ExactMatch,
    Flow,
    FlowDependsOn,
    FlowPatch,
    FlowProbe,
    Guarantee,
    GuaranteePercentage,
    HttpGetProbe,
    HttpHeader,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    HyperNodeStatus,
    Job,
    JobFlowSpec,
    JobSpec,
    JobState,
    JobTemplate,
    JobVolume,
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
    RegexMatch,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
    SubGroupPolicy,
    TaskSpec,
    TaskStatusProbe,
    TcpSocketProbe,
)
from stromboli.api.defaults import FAILED_JOBS, MAX_RETRY, RESERVATION_TTL, SUCCESSFUL_JOBS
from stromboli.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER
from stromboli.api.rules.lifecycle_policies import EVENTS
from stromboli.api.schedules import TIME_ZONE_PATTERN
from stromboli.api.validation.batch import (
    ACTIONS,
    DIMENSIONS,
    GROUP_PHASES,
    JOB_PHASES,
    MAX_EVENTS,
    QUEUE_STATES,
    RESERVATION_PHASES,
    TOPOLOGY_POLICIES,
)
from stromboli.api.validation.cron_jobs import CONCURRENCY_POLICIES, MAX_SCHEDULE, MAX_TIME_ZONE
from stromboli.api.validation.job_flows import (
    HEADER_NAME_PATTERN,
    HEADER_VALUE_PATTERN,
    MAX_FLOWS,
    MAX_PROBES,
    MAX_TARGETS,
    MAX_TEXT,
    PATH_PATTERN,
    RETAIN_POLICIES,
    TASK_PHASES,
)
from stromboli.api.validation.limits import (
    MAX_EXPRESSIONS,
    MAX_JOB_VOLUMES,
    MAX_LABEL_KEYS,
    MAX_MEMBERS,
    MAX_MOUNT_PATH,
    MAX_OWNERS,
    MAX_PATTERN,
    MAX_POLICIES,
    MAX_QUANTITY_LENGTH,
    MAX_SUB_GROUP_POLICIES,
    MAX_TASKS,
)
from stromboli.api.validation.rules import SELECTOR_OPERATORS
from stromboli.api.validation.topology import MAX_TIER_NAME, MEMBER_TYPES

Schema = dict[str, Any]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
# An empty name counts as not set: `default` fills it in later.
_NAME: Schema = {"maxLength": 253, "pattern": rf"^({_LABEL}(\.{_LABEL})*)?$"}
_TASK_NAME: Schema = {"maxLength": 63, "pattern": f"^({_LABEL})?$"}
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"

QUANTITY: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "pattern": rf"^\+?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "maxLength": MAX_QUANTITY_LENGTH,
    "minimum": 0,
}
DURATION: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "pattern": rf"^\+?({_NUMBER}(e[+-]?[0-9]{{1,2}})?|({_NUMBER}(ns|us|µs|μs|ms|s|m|h|d))+)$",
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
            # Volcano's, for jobs that go to other clusters. We do not read it, but keep what users write.
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
            "minTaskMember": {"maxProperties": MAX_TASKS, "additionalProperties": _between(0)},
            "queue": {"default": DEFAULT_QUEUE, **_NAME},
            "priorityClassName": _NAME,
            "subGroupPolicy": {"maxItems": MAX_SUB_GROUP_POLICIES},
        }
    },
    SubGroupPolicy: {
        "properties": {
            "matchLabelKeys": {"maxItems": MAX_LABEL_KEYS},
            "subGroupSize": _between(1),
            "minSubGroups": _between(0),
        }
    },
    PodGroupStatus: {"properties": {"phase": _one_of(*GROUP_PHASES)}},
    NetworkTopology: {"properties": {"mode": _one_of("", "hard", "soft")}},
    LabelSelector: {"properties": {"matchExpressions": {"maxItems": MAX_EXPRESSIONS}}},
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
            "tasks": {"minItems": 1, "maxItems": MAX_TASKS},
            "policies": {"maxItems": MAX_POLICIES},
            "queue": {"default": DEFAULT_QUEUE, **_NAME},
            "maxRetry": {"default": MAX_RETRY, **_between(0)},
            "minSuccess": _between(1),
            "ttlSecondsAfterFinished": _between(0),
            "priorityClassName": _NAME,
            "volumes": {"maxItems": MAX_JOB_VOLUMES},
        },
    },
    CronJob: {"required": ["spec"]},
    CronJobSpec: {
        "required": ["schedule", "jobTemplate"],
        "properties": {
            "schedule": {"minLength": 1, "maxLength": MAX_SCHEDULE},
            "timeZone": {"minLength": 1, "maxLength": MAX_TIME_ZONE, "pattern": TIME_ZONE_PATTERN},
            "startingDeadlineSeconds": _between(0),
            "concurrencyPolicy": {"default": "Allow", **_one_of(*CONCURRENCY_POLICIES)},
            "suspend": {"default": False},
            "successfulJobsHistoryLimit": {"default": SUCCESSFUL_JOBS, **_between(0)},
            "failedJobsHistoryLimit": {"default": FAILED_JOBS, **_between(0)},
        },
    },
    CronJobTemplate: {
        "required": ["spec"],
        "properties": {"metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
    JobFlowSpec: {
        "properties": {"flows": {"maxItems": MAX_FLOWS}, "jobRetainPolicy": _one_of(*RETAIN_POLICIES)},
    },
    Flow: {"required": ["name"], "properties": {"name": {"minLength": 1, **_NAME}}},
    FlowDependsOn: {"properties": {"targets": {"maxItems": MAX_TARGETS, "items": {"maxLength": 253}}}},
    FlowPatch: {"properties": {"jobSpec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}},
    FlowProbe: {
        "properties": {list_: {"maxItems": MAX_PROBES} for list_ in ("httpGetList", "tcpSocketList", "taskStatusList")},
    },
    HttpGetProbe: {
        "properties": {"path": {"maxLength": MAX_TEXT, "pattern": PATH_PATTERN}, "port": _between(0, 65535)},
    },
    HttpHeader: {
        "properties": {
            "name": {"maxLength": MAX_TEXT, "pattern": HEADER_NAME_PATTERN},
            "value": {"maxLength": MAX_TEXT, "pattern": HEADER_VALUE_PATTERN},
        },
    },
    TcpSocketProbe: {"required": ["port"], "properties": {"port": _between(0, 65535)}},
    TaskStatusProbe: {"properties": {"phase": _one_of(*TASK_PHASES)}},
    JobTemplate: {"required": ["spec"]},
    JobVolume: {
        "required": ["mountPath"],
        "properties": {
            "mountPath": {"maxLength": MAX_MOUNT_PATH, "pattern": "^/"},
            "volumeClaimName": _NAME,
        },
    },
    TaskSpec: {
        "required": ["template"],
        "properties": {
            "name": _TASK_NAME,
            "replicas": {"default": 0, **_between(0)},
            "minAvailable": _between(0),
            "policies": {"maxItems": MAX_POLICIES},
            "maxRetry": {"default": MAX_RETRY, **_between(0)},
            "topologyPolicy": _one_of(*TOPOLOGY_POLICIES),
        },
    },
    DependsOn: {
        "properties": {
            "iteration": _one_of("", "any", "all"),
            "name": {"maxItems": MAX_TASKS, "items": {"maxLength": 63}},
        }
    },
    PartitionPolicy: {
        "required": ["totalPartitions", "partitionSize"],
        "properties": {"totalPartitions": _between(1), "partitionSize": _between(1), "minPartitions": _between(0)},
    },
    LifecyclePolicy: {
        "required": ["action"],
        "properties": {
            "action": _one_of(*ACTIONS),
            "event": _one_of("", *EVENTS),
            "events": {"maxItems": MAX_EVENTS, "items": _one_of(*EVENTS), "x-kubernetes-list-type": "atomic"},
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
            "owners": {"minItems": 1, "maxItems": MAX_OWNERS},
            "ttl": {"default": RESERVATION_TTL},
            "allocateOnce": {"default": False},
            "queue": _NAME,
            "nodeName": _NAME,
            "replaces": {"required": ["uid"], "properties": {"uid": {"minLength": 1}}},
        },
    },
    ReservationStatus: {"properties": {"phase": _one_of(*RESERVATION_PHASES)}},
    ReservationOwner: {"properties": {"namespaces": {"items": {"maxLength": 63, "pattern": f"^{_LABEL}$"}}}},
    HyperNode: {"required": ["spec"]},
    HyperNodeSpec: {
        "required": ["tier", "members"],
        "properties": {
            "tier": _between(0),
            "tierName": {"maxLength": MAX_TIER_NAME},
            "members": {"minItems": 1, "maxItems": MAX_MEMBERS},
        },
    },
    HyperNodeMember: {"required": ["type", "selector"], "properties": {"type": _one_of(*MEMBER_TYPES)}},
    ExactMatch: {"required": ["name"], "properties": {"name": {**_NAME, "minLength": 1}}},
    RegexMatch: {
        "required": ["pattern"],
        "properties": {"pattern": {"minLength": 1, "maxLength": MAX_PATTERN}},
    },
    HyperNodeStatus: {"properties": {"nodeCount": _between(0)}},
}
"""What is merged into the generated schema of a struct."""
