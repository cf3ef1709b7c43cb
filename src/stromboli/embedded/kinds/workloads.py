"""What keeps equal pods in `apps/v1`, and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.embedded import names
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid
from stromboli.embedded.selectors import matches, selector_text

from .pods import default_pod_spec, validate_pod_spec
from .strategy import AGE, NAME, Column, Context, Object, ScalePaths, Strategy, dig

REPLICA_SCALE: Final = ScalePaths(selector=("spec", "selector"))


def default_template(obj: Object) -> None:
    spec = dig(obj, "spec", "template", "spec")
    if isinstance(spec, dict):
        default_pod_spec(spec)


def template_errors(obj: Object) -> list[FieldError]:
    template = dig(obj, "spec", "template", default={})
    errors = names.validate_labels(dig(template, "metadata", "labels", default={}), "spec.template.metadata.labels")
    return errors + validate_pod_spec(template.get("spec") or {}, "spec.template.spec")


def limit_errors(obj: Object, *fields: str) -> list[FieldError]:
    """The numbers of pods that one object may make us create."""
    return [
        invalid(f"spec.{field}", number, f"must be at most {MAX_JOB_REPLICAS}")
        for field in fields
        if isinstance(number := dig(obj, "spec", field), int) and number > MAX_JOB_REPLICAS
    ]


def immutable(obj: Object, old: Object, *fields: str) -> list[FieldError]:
    return [
        invalid(f"spec.{field}", dig(obj, "spec", field), "field is immutable")
        for field in fields
        if dig(obj, "spec", field) != dig(old, "spec", field)
    ]


def count(*path: str) -> Any:
    return lambda obj, now: dig(obj, *path, default=0)


def containers(field: str) -> Any:
    def cell(obj: Object, now: float) -> str:
        return ",".join(one.get(field, "") for one in dig(obj, "spec", "template", "spec", "containers", default=[]))

    return cell


def selector(obj: Object, now: float) -> str:
    return selector_text(dig(obj, "spec", "selector")) or "<none>"


class ReplicaSetStrategy(Strategy):
    selectable: Mapping[str, tuple[str, ...]] = {"status.replicas": ("status", "replicas")}
    columns: tuple[Column, ...] = (
        NAME,
        Column("Desired", count("spec", "replicas"), type="integer"),
        Column("Current", count("status", "replicas"), type="integer"),
        Column("Ready", count("status", "readyReplicas"), type="integer"),
        AGE,
        Column("Containers", containers("name"), priority=1),
        Column("Images", containers("image"), priority=1),
        Column("Selector", selector, priority=1),
    )

    def default(self, obj: Object) -> None:
        default_template(obj)

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object) -> list[FieldError]:
        errors = template_errors(obj) + limit_errors(obj, "replicas")
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
        return immutable(obj, old, "selector")


def _ready(obj: Object, now: float) -> str:
    return f"{dig(obj, 'status', 'readyReplicas', default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"


class DeploymentStrategy(ReplicaSetStrategy):
    columns = (
        NAME,
        Column("Ready", _ready),
        Column("Up-to-date", count("status", "updatedReplicas"), type="integer"),
        Column("Available", count("status", "availableReplicas"), type="integer"),
        AGE,
        Column("Containers", containers("name"), priority=1),
        Column("Images", containers("image"), priority=1),
        Column("Selector", selector, priority=1),
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


class StatefulSetStrategy(ReplicaSetStrategy):
    columns = (
        NAME,
        Column("Ready", _ready),
        AGE,
        Column("Containers", containers("name"), priority=1),
        Column("Images", containers("image"), priority=1),
    )
    selectable: Mapping[str, tuple[str, ...]] = {}

    def default(self, obj: Object) -> None:
        super().default(obj)
        strategy = dig(obj, "spec", "updateStrategy")
        if isinstance(strategy, dict) and strategy.get("type") == "RollingUpdate":
            strategy["rollingUpdate"] = {"partition": 0} | (strategy.get("rollingUpdate") or {})

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return immutable(obj, old, "selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")


def _nodeselector(obj: Object, now: float) -> str:
    chosen = dig(obj, "spec", "template", "spec", "nodeSelector", default={})
    return ",".join(f"{name}={value}" for name, value in sorted(chosen.items())) or "<none>"


class DaemonSetStrategy(ReplicaSetStrategy):
    columns = (
        NAME,
        Column("Desired", count("status", "desiredNumberScheduled"), type="integer"),
        Column("Current", count("status", "currentNumberScheduled"), type="integer"),
        Column("Ready", count("status", "numberReady"), type="integer"),
        Column("Up-to-date", count("status", "updatedNumberScheduled"), type="integer"),
        Column("Available", count("status", "numberAvailable"), type="integer"),
        Column("Node Selector", _nodeselector),
        AGE,
        Column("Containers", containers("name"), priority=1),
        Column("Images", containers("image"), priority=1),
        Column("Selector", selector, priority=1),
    )
    selectable: Mapping[str, tuple[str, ...]] = {}

    def default(self, obj: Object) -> None:
        super().default(obj)
        strategy = dig(obj, "spec", "updateStrategy")
        if isinstance(strategy, dict) and strategy.get("type") == "RollingUpdate":
            strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0} | (strategy.get("rollingUpdate") or {})

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }  # fmt: skip


def _controller(obj: Object, now: float) -> str:
    owners = dig(obj, "metadata", "ownerReferences", default=[])
    found = next((one for one in owners if one.get("controller")), None)
    if found is None:
        return "<none>"
    group = found["apiVersion"].partition("/")[0]
    return f"{found['kind'].lower()}.{group}/{found['name']}"


class RevisionStrategy(Strategy):
    """Its data never change."""

    counts_generations = False
    columns = (
        NAME,
        Column("Controller", _controller),
        Column("Revision", lambda obj, now: obj.get("revision", 0), type="integer"),
        AGE,
    )

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [] if obj.get("data") == old.get("data") else [invalid("data", "", "field is immutable")]


class BudgetStrategy(Strategy):
    columns = (
        NAME,
        Column("Min Available", lambda obj, now: str(dig(obj, "spec", "minAvailable", default="N/A"))),
        Column("Max Unavailable", lambda obj, now: str(dig(obj, "spec", "maxUnavailable", default="N/A"))),
        Column("Allowed Disruptions", count("status", "disruptionsAllowed"), type="integer"),
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
