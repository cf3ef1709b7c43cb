"""ReplicaSets, Deployments, Jobs of batch/v1, and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stromboli.api.timestamps import parse_timestamp
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.embedded import names
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid, required
from stromboli.embedded.selectors import matches, selector_text

from . import durations
from .pods import default_pod_spec, validate_pod_spec
from .strategy import AGE, NAME, Column, Context, Object, ScalePaths, Strategy, dig

REPLICA_SCALE: Final = ScalePaths(selector=("spec", "selector"))


def _default_template(obj: Object) -> None:
    spec = dig(obj, "spec", "template", "spec")
    if isinstance(spec, dict):
        default_pod_spec(spec)


def _template_errors(obj: Object) -> list[FieldError]:
    template = dig(obj, "spec", "template", default={})
    errors = names.validate_labels(dig(template, "metadata", "labels", default={}), "spec.template.metadata.labels")
    return errors + validate_pod_spec(template.get("spec") or {}, "spec.template.spec")


def _limit_errors(obj: Object, *fields: str) -> list[FieldError]:
    """The numbers of pods that one object may make us create."""
    return [
        invalid(f"spec.{field}", number, f"must be at most {MAX_JOB_REPLICAS}")
        for field in fields
        if isinstance(number := dig(obj, "spec", field), int) and number > MAX_JOB_REPLICAS
    ]


def _immutable(obj: Object, old: Object, *fields: str) -> list[FieldError]:
    return [
        invalid(f"spec.{field}", dig(obj, "spec", field), "field is immutable")
        for field in fields
        if dig(obj, "spec", field) != dig(old, "spec", field)
    ]


def _count(*path: str) -> Any:
    return lambda obj, now: dig(obj, *path, default=0)


def _containers(field: str) -> Any:
    def cell(obj: Object, now: float) -> str:
        return ",".join(one.get(field, "") for one in dig(obj, "spec", "template", "spec", "containers", default=[]))

    return cell


def _selector(obj: Object, now: float) -> str:
    return selector_text(dig(obj, "spec", "selector")) or "<none>"


class ReplicaSetStrategy(Strategy):
    selectable: Mapping[str, tuple[str, ...]] = {"status.replicas": ("status", "replicas")}
    columns = (
        NAME,
        Column("Desired", _count("spec", "replicas"), type="integer"),
        Column("Current", _count("status", "replicas"), type="integer"),
        Column("Ready", _count("status", "readyReplicas"), type="integer"),
        AGE,
        Column("Containers", _containers("name"), priority=1),
        Column("Images", _containers("image"), priority=1),
        Column("Selector", _selector, priority=1),
    )

    def default(self, obj: Object) -> None:
        _default_template(obj)

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[FieldError]:
        errors = _template_errors(obj) + _limit_errors(obj, "replicas")
        selector = dig(obj, "spec", "selector")
        labels = dig(obj, "spec", "template", "metadata", "labels", default={})
        if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for deployment"))
        elif selector is not None and not matches(selector, labels):
            problem = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels, problem))
        if dig(obj, "spec", "template", "spec", "restartPolicy") not in (None, "Always"):
            errors.append(
                FieldError(
                    "FieldValueNotSupported",
                    "spec.template.spec.restartPolicy",
                    f'Unsupported value: "{obj["spec"]["template"]["spec"]["restartPolicy"]}": supported values: '
                    '"Always"',
                )
            )
        return errors

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return _immutable(obj, old, "selector")


def _ready(obj: Object, now: float) -> str:
    return f"{dig(obj, 'status', 'readyReplicas', default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"


class DeploymentStrategy(ReplicaSetStrategy):
    columns = (
        NAME,
        Column("Ready", _ready),
        Column("Up-to-date", _count("status", "updatedReplicas"), type="integer"),
        Column("Available", _count("status", "availableReplicas"), type="integer"),
        AGE,
        Column("Containers", _containers("name"), priority=1),
        Column("Images", _containers("image"), priority=1),
        Column("Selector", _selector, priority=1),
    )
    selectable: Mapping[str, tuple[str, ...]] = {}

    def default(self, obj: Object) -> None:
        super().default(obj)
        strategy = dig(obj, "spec", "strategy")
        if isinstance(strategy, dict) and strategy.get("type") == "RollingUpdate":
            given = strategy.get("rollingUpdate") or {}
            strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%"} | given

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {}


def _completions(job: Object, now: float) -> str:
    done, wanted = dig(job, "status", "succeeded", default=0), dig(job, "spec", "completions")
    if wanted is None:
        parallelism = dig(job, "spec", "parallelism", default=1)
        return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    return f"{done}/{wanted}"


def _duration(job: Object, now: float) -> str:
    start, end = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if not start:
        return ""
    return durations.human((parse_timestamp(end) if end else now) - parse_timestamp(start))


def _job_status(job: Object, now: float) -> str:
    holding = {one.get("type") for one in dig(job, "status", "conditions", default=[]) if one.get("status") == "True"}
    for condition in ("Complete", "Failed", "Suspended"):
        if condition in holding:
            return condition
    return "Running" if dig(job, "metadata", "deletionTimestamp") is None else "Terminating"


class JobStrategy(Strategy):
    default_propagation = "Orphan"  # Kubernetes keeps it so for old clients; kubectl always says what it wants
    selectable: Mapping[str, tuple[str, ...]] = {"status.successful": ("status", "succeeded")}
    columns = (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        Column("Containers", _containers("name"), priority=1),
        Column("Images", _containers("image"), priority=1),
        Column("Selector", _selector, priority=1),
    )

    def default(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        # Neither given: one pod. Only parallelism given: a work queue, which has no number of completions.
        if spec.get("completions") is None and not obj["metadata"].get("uid") and spec.get("parallelism") in (None, 1):
            spec["completions"] = 1
        _default_template(obj)

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        if spec.get("manualSelector"):
            return
        uid = obj["metadata"]["uid"]
        name = obj["metadata"].get("name", "")
        labels = {"controller-uid": uid, "job-name": name}
        labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        template["labels"] = {**(template.get("labels") or {}), **labels}
        spec["selector"] = {"matchLabels": {"controller-uid": uid}}

    def validate(self, obj: Object) -> list[FieldError]:
        is_indexed = dig(obj, "spec", "completionMode") == "Indexed"
        # Who is to complete is written down index by index. Without indexes it is only a number.
        errors = _template_errors(obj) + _limit_errors(obj, "parallelism", *(("completions",) if is_indexed else ()))
        policy = dig(obj, "spec", "template", "spec", "restartPolicy", default="")
        if policy in ("", "Always"):
            errors.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        if is_indexed and dig(obj, "spec", "completions") is None:
            errors.append(required("spec.completions", "when completion mode is Indexed"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        fields: tuple[str, ...] = ("selector", "template", "completionMode")
        if dig(old, "spec", "completionMode") != "Indexed":
            fields = ("completions", *fields)
        return _immutable(obj, old, *fields)


class BudgetStrategy(Strategy):
    columns = (
        NAME,
        Column("Min Available", lambda obj, now: str(dig(obj, "spec", "minAvailable", default="N/A"))),
        Column("Max Unavailable", lambda obj, now: str(dig(obj, "spec", "maxUnavailable", default="N/A"))),
        Column("Allowed Disruptions", _count("status", "disruptionsAllowed"), type="integer"),
        AGE,
    )

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }  # fmt: skip

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            problem = "minAvailable and maxUnavailable cannot be both set"
            both = {"minAvailable": spec["minAvailable"], "maxUnavailable": spec["maxUnavailable"]}
            errors.append(invalid("spec", both, problem))
        for field in ("minAvailable", "maxUnavailable"):
            value = spec.get(field)
            if isinstance(value, int) and value < 0:
                errors.append(invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
            elif isinstance(value, str) and not _is_percentage(value):
                problem = "a valid percent string must be a numeric string followed by an ending '%'"
                errors.append(invalid(f"spec.{field}", value, problem))
        return errors


def _is_percentage(text: str) -> bool:
    digits = text.removesuffix("%")
    return text.endswith("%") and digits.isascii() and digits.isdigit() and len(digits) <= 3 and int(digits) <= 100
