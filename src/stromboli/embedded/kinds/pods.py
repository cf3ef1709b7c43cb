"""Pods: defaults, admission, and what may change once a pod exists."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stromboli.api.quantity import QuantityError, amount
from stromboli.embedded import names
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import duplicate, forbidden, invalid, required
from stromboli.embedded.status import forbidden as refused
from stromboli.embedded.store import ObjectKey

from . import pod_table
from .strategy import Context, Object, Strategy, dig

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_FINISHED: Final = ("Succeeded", "Failed")
_EVICTING_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def default_pod_spec(spec: Object) -> None:
    """Defaults that depend on other fields. Templates of workloads get them, too."""
    for container in containers_of(spec):
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
        resources = container.setdefault("resources", {})
        limits = resources.get("limits")
        if limits:
            requests = resources.setdefault("requests", {})
            for resource, limit in limits.items():
                requests.setdefault(resource, limit)
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort", 0))
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def containers_of(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2]
    if "@" in last:
        return "IfNotPresent"
    tag = last.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def validate_pod_spec(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            at = f"{path}.{field}[{index}]"
            name = container.get("name", "")
            if name and (problem := names.label(name)):
                errors.append(invalid(f"{at}.name", name, problem))
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
            if not container.get("image") and path != "spec":
                errors.append(required(f"{at}.image"))
            errors += _validate_resources(container.get("resources") or {}, f"{at}.resources")
            errors += _validate_mounts(container, volumes, f"{at}.volumeMounts")
    errors += names.validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if (node := spec.get("nodeName", "")) and (problem := names.subdomain(node)):
        errors.append(invalid(f"{path}.nodeName", node, problem))
    if not spec.get("containers") and all(error.field != f"{path}.containers" for error in errors):
        errors.append(required(f"{path}.containers"))
    return errors


def _validate_mounts(container: Object, volumes: set[str | None], path: str) -> list[FieldError]:
    mounted = [mount.get("name") for mount in container.get("volumeMounts") or ()]
    return [
        FieldError("FieldValueNotFound", f"{path}[{number}].name", f'Not found: "{name}"')
        for number, name in enumerate(mounted)
        if name not in volumes
    ]


def _validate_resources(resources: Object, path: str) -> list[FieldError]:
    errors = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, written in amounts.items():
            if str(written).startswith("-"):
                errors.append(invalid(f"{path}.{field}[{resource}]", written, "must be greater than or equal to 0"))
    for resource, written in requests.items():
        limit = limits.get(resource)
        try:
            if limit is not None and amount(resource, written) > amount(resource, limit):
                problem = f"must be less than or equal to {resource} limit of {limit}"
                errors.append(invalid(f"{path}.requests", written, problem))
        except QuantityError as error:
            errors.append(invalid(f"{path}.requests[{resource}]", written, str(error)))
    return errors


def _set_scheduler(spec: Object, context: Context) -> None:
    """Where one scheduler places everything, there is nobody else to wait for."""
    if context.scheduler_name and spec.get("schedulerName") == _DEFAULT_SCHEDULER:
        spec["schedulerName"] = context.scheduler_name


class PodStrategy(Strategy):
    counts_generations = False
    returns_deleted = True
    selectable: Mapping[str, tuple[str, ...]] = {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    }
    columns = pod_table.COLUMNS

    def default(self, obj: Object) -> None:
        default_pod_spec(obj.get("spec") or {})

    def before_create(self, obj: Object, context: Context) -> None:
        spec = obj.setdefault("spec", {})
        _set_scheduler(spec, context)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [copy.deepcopy(_GATED)]
        set_priority(obj, context, "pods")
        _tolerate_lost_nodes(spec)

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        obj["status"] = old.get("status", {})
        # `kubectl apply` sends the name that the user wrote again.
        _set_scheduler(obj.get("spec") or {}, context)

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = validate_pod_spec(spec, "spec")
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        known = _gates(old_spec)
        added = [
            forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate}'",
            )
            for index, gate in enumerate(_gates(new_spec))
            if gate not in known
        ]
        if added:
            return added
        if _frozen(new_spec) == _frozen(old_spec):
            kept = old_spec.get("tolerations") or []
            given = new_spec.get("tolerations") or []
            if all(one in given for one in kept):
                return []
        return [forbidden("spec", _MAY_CHANGE)]

    def grace_seconds(self, obj: Object, requested: int | None) -> int | None:
        if not dig(obj, "spec", "nodeName") or dig(obj, "status", "phase") in _FINISHED:
            return 0
        if requested is not None:
            return max(requested, 0)
        return int(dig(obj, "spec", "terminationGracePeriodSeconds", default=30))


def _gates(spec: Object) -> list[str]:
    return [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]


def _frozen(spec: Object) -> Object:
    """The part of a pod's spec that never changes."""
    frozen = copy.deepcopy(spec)
    for container in containers_of(frozen):
        container.pop("image", None)
    for field in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"):
        frozen.pop(field, None)
    return frozen


def qos_class(spec: Object) -> str:
    guaranteed, any_resource = True, False
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        any_resource = any_resource or bool(set(limits) & {"cpu", "memory"} or set(requests) & {"cpu", "memory"})
        guaranteed = guaranteed and all(
            resource in limits and requests.get(resource, limits[resource]) == limits[resource]
            for resource in ("cpu", "memory")
        )
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def set_priority(obj: Object, context: Context, plural: str) -> None:
    """What the admission plugin Priority does, for pods and for groups of them."""
    spec = obj["spec"]
    given = spec.get("priority")
    name = spec.get("priorityClassName", "")
    found: Object | None = None
    if name:
        record = context.store.get(ObjectKey(PRIORITY_CLASSES, "", name))
        if record is None:
            raise refused(plural, obj["metadata"].get("name", ""), f"no PriorityClass with name {name} was found")
        found = record.value()
    else:
        defaults = [record.value() for record in context.store.list(PRIORITY_CLASSES)]
        candidates = [one for one in defaults if one.get("globalDefault")]
        if candidates:
            found = min(candidates, key=lambda one: int(one["value"]))
            spec["priorityClassName"] = found["metadata"]["name"]
    value = int(found["value"]) if found else 0
    if given is not None and given != value:
        problem = (
            f"the integer value of priority ({given}) must not be provided in {plural.removesuffix('s')} spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise refused(plural, obj["metadata"].get("name", ""), problem)
    spec["priority"] = value
    if plural == "pods":
        spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _tolerate_lost_nodes(spec: Object) -> None:
    """What the admission plugin DefaultTolerationSeconds does."""
    tolerations: list[dict[str, Any]] = spec.setdefault("tolerations", [])
    for taint in _EVICTING_TAINTS:
        covered = any(
            one.get("key", taint) == taint and one.get("effect", "NoExecute") in ("NoExecute", "")
            for one in tolerations
        )
        if not covered:
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
