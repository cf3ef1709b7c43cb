"""Rules of requests that look at more than the object: at a Queue beside it, or at what is deleted.

A policy whose parameters are all Queues is evaluated once for each of them, with that one as `params`. So a rule says
what must hold for every Queue: that it is not the one which is named, or that it is open. `validation.submission` says
the same of objects in a simulation and to the controllers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stromboli.api.names import DEFAULT_QUEUE, NAMESPACE_WEIGHT, ROOT_QUEUE, SUBMITTER

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


@dataclass(frozen=True, kw_only=True)
class RequestRule:
    """What must hold for a request, and if `each_queue`, for it and every Queue."""

    kind: str
    operations: tuple[str, ...]
    field: str
    must: str
    cel: str
    says: str
    each_queue: bool = False
    only_warns: bool = False


def is_closed(name: str, state: str, what: str) -> str:
    return f'the queue "{name}" is {state}, so it accepts no {what}'


def is_no_leaf(name: str, what: str) -> str:
    return f'the queue "{name}" has queues below it; only a leaf queue accepts {what}'


def _submission(kind: str, what: str, operations: tuple[str, ...], unless: str = "") -> tuple[RequestRule, ...]:
    other = f"{unless}params.metadata.name != object.spec.queue"
    return (
        RequestRule(
            kind=kind, operations=operations, field="spec.queue", must="must be a queue that is open",
            cel=f"{other} || !has(params.status) || !has(params.status.state) || params.status.state in ['', 'Open']",
            says=f"""'the queue "' + object.spec.queue + '" is ' + params.status.state + ', so it accepts no {what}'""",
            each_queue=True,
        ),
        RequestRule(
            kind=kind, operations=operations, field="spec.queue", must="must be a queue without queues below it",
            cel=f"{unless}!has(params.spec.parent) || params.spec.parent != object.spec.queue",
            says=f"""'the queue "' + object.spec.queue + '" has queues below it; only a leaf queue accepts {what}'""",
            each_queue=True,
        ),
    )  # fmt: skip


_OWNED: Final = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.size() > 0 || "
_SAME_QUEUE: Final = "request.operation == 'UPDATE' && oldObject.spec.queue == object.spec.queue || "
_WEIGHT: Final = f"object.spec.hard['{NAMESPACE_WEIGHT}']"
_COUNTS: Final = ("pending", "inqueue", "running", "unknown")
_PLACES: Final = " + ".join(f"(has(oldObject.status.{name}) ? oldObject.status.{name} : 0)" for name in _COUNTS)

_USER: Final = (
    f"has({{0}}.metadata.annotations) && '{SUBMITTER}' in {{0}}.metadata.annotations"
    f" ? {{0}}.metadata.annotations['{SUBMITTER}'] : ''"
)
_OURS: Final = (
    "request.userInfo.username.startsWith('system:serviceaccount:stromboli-system:')"
    " || has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups"
)


def _submitter(kind: str) -> RequestRule:
    """Our controllers write it on what they create for a Job, and administrators bring objects back from a backup."""
    now, before = (f"({_USER.format(one)})" for one in ("object", "oldObject"))
    return RequestRule(
        kind=kind, operations=(CREATE, UPDATE), field=f"metadata.annotations[{SUBMITTER}]",
        must="must be the user who creates the object, and must not change",
        cel=f"request.operation == 'CREATE' ? ({now} in ['', request.userInfo.username] || {_OURS})"
        f" : ({now} == {before} || {_OURS})",
        says=f"'must be the user who creates the object, and must not change: not ' + {now}",
    )  # fmt: skip


REQUEST_RULES: Final = (
    *(_submitter(kind) for kind in ("Job", "CronJob", "JobFlow", "PodGroup", "Pod")),
    *_submission("Job", "jobs", (CREATE,)),
    # What a controller makes for an object that was accepted is judged with that object.
    *_submission("PodGroup", "groups", (CREATE, UPDATE), f"{_OWNED}{_SAME_QUEUE}"),
    RequestRule(
        kind="Queue", operations=(DELETE,), field="metadata.name",
        must=f"must not be {DEFAULT_QUEUE} or {ROOT_QUEUE}: these queues cannot be deleted",
        cel=f"!(oldObject.metadata.name in ['{DEFAULT_QUEUE}', '{ROOT_QUEUE}'])",
        says="'the queue ' + oldObject.metadata.name + ' cannot be deleted'",
    ),
    RequestRule(
        kind="Queue", operations=(DELETE,), field="status", must="must count no PodGroups that have not ended",
        cel=f"!has(oldObject.status) || {_PLACES} == 0",
        says=f"'the queue has ' + string({_PLACES}) + ' PodGroups that have not ended; delete or move them first'",
    ),
    RequestRule(
        kind="Queue", operations=(DELETE,), field="metadata.name", must="must not be the parent of other queues",
        cel="has(params.metadata.deletionTimestamp) || !has(params.spec.parent)"
        " || params.spec.parent != oldObject.metadata.name",
        says="'the queue ' + params.metadata.name + ' is below it; delete that one first'",
        each_queue=True,
    ),
    RequestRule(
        kind="ResourceQuota", operations=(CREATE, UPDATE), field=f"spec.hard[{NAMESPACE_WEIGHT}]",
        must="should be a whole number of at least 1; others count as 1",
        cel=f"!has(object.spec.hard) || !('{NAMESPACE_WEIGHT}' in object.spec.hard) || quantity(string({_WEIGHT}))"
        f".isInteger() && quantity(string({_WEIGHT})).asInteger() >= 1",
        says=f"'should be a whole number of at least 1, and counts as 1, not ' + string({_WEIGHT})",
        only_warns=True,
    ),
)  # fmt: skip
