"""Subresources that are not part of the object's own schema: scale, binding, eviction, finalize, log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from stromboli.api.timestamps import format_timestamp
from stromboli.embedded.admission import Admission, Review
from stromboli.embedded.kinds import Object, ResourceType, dig
from stromboli.embedded.schema import DecodeError, decode, object_schema
from stromboli.embedded.schema.field_errors import invalid as field_invalid
from stromboli.embedded.schema.field_errors import required
from stromboli.embedded.selectors import matches, selector_text
from stromboli.embedded.status import StatusError, bad_request, conflict, invalid, not_found, too_many_requests
from stromboli.embedded.store import Record, Store

from .content import read_body
from .deleter import Deleter
from .messages import LogResponse, Outcome, Request, json_response
from .options import WriteOptions, delete_options, write_options
from .patcher import patched
from .routes import Route
from .writer import Writer, Written, is_finished

BUDGETS: Final = "poddisruptionbudgets.policy"
_KINDS: Final = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}
_CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    def __init__(self, store: Store, writer: Writer, deleter: Deleter, admission: Admission) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter
        self._admission = admission

    def _admit(self, route: Route, request: Request, body: Object, *, dry_run: bool) -> None:
        """Raises a StatusError if an admission policy refuses what is created for a pod."""
        kind = _KINDS[route.subresource]
        self._admission.validate(
            Review(
                operation="CREATE",
                type=route.type,
                namespace=route.namespace,
                name=route.name,
                user=request.user,
                subresource=route.subresource,
                dry_run=dry_run,
                object=body,
                kind=kind,
            )
        )

    def _record(self, route: Route) -> Record:
        record = self._store.get(route.key)
        if record is None:
            raise not_found(route.type.resource, route.name)
        return record

    # -- scale --------------------------------------------------------------------------------------------------------

    def scale(self, route: Route, request: Request, now: float) -> Outcome:
        record = self._record(route)
        value = record.value()
        scale = _scale_of(route.type, value)
        if request.method == "GET":
            return json_response(scale)
        options = write_options(request, "UpdateOptions")
        body = patched(request, route, scale) if request.method == "PATCH" else read_body(request)
        if not isinstance(body, dict):
            raise bad_request("the object provided is unrecognized: a Scale must be an object")
        try:
            wanted = decode(body, object_schema("Scale"))
        except DecodeError as error:
            raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {error}') from None
        replicas = dig(wanted, "spec", "replicas", default=0)
        if replicas < 0:
            problem = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", route.name, [problem])
        version = dig(wanted, "metadata", "resourceVersion", default="")
        if version and version != str(record.version):
            raise conflict(route.type.resource, route.name)
        assert route.type.scale is not None
        _set(value, route.type.scale.spec, replicas)
        plain = Route(route.type, route.namespace, route.name)
        written = self._writer.update(plain, record, value | {"apiVersion": route.type.api_version}, options, now)
        return json_response(_scale_of(route.type, written.value))

    # -- binding ------------------------------------------------------------------------------------------------------

    def bind(self, route: Route, request: Request, now: float) -> Outcome:
        body = read_body(request)
        if not isinstance(body, dict) or body.get("kind", "Binding") != "Binding":
            raise bad_request("the object provided is unrecognized: a Binding must be an object")
        options = write_options(request, "CreateOptions")
        target, metadata = body.get("target"), body.get("metadata") or {}
        if not isinstance(metadata, dict) or not isinstance(target, dict):
            raise bad_request("a Binding needs metadata and a target")
        name = metadata.get("name")
        if not isinstance(name, str) or (route.name or name) != name:
            raise bad_request("name in URL does not match name in Binding object")
        node = target.get("name")
        if not isinstance(node, str) or not node:
            raise invalid("", "Binding", name, [required("target.name")])
        if target.get("kind") not in (None, "", "Node"):
            problem = field_invalid("target.kind", target["kind"], 'must be "Node" or empty')
            raise invalid("", "Binding", name, [problem])
        binding = Route(route.type, route.namespace, name, "binding")
        record = self._record(binding)
        self._admit(binding, request, body, dry_run=options.dry_run)
        self._bind(record, node, metadata, options, now)
        return json_response(_CREATED, 201)

    def _bind(self, record: Record, node: str, metadata: Object, options: WriteOptions, now: float) -> None:
        value = record.value()
        name = record.key.name
        uid = metadata.get("uid")
        if uid and uid != record.metadata.uid:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.metadata.uid}"
            raise conflict("pods/binding", name, problem)
        if record.metadata.deletion_timestamp is not None:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if dig(value, "spec", "schedulingGates"):
            raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        bound = dig(value, "spec", "nodeName", default="")
        if bound:
            raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{bound}"')
        value["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            extra = metadata.get(field)
            if extra:
                if not isinstance(extra, dict) or not all(isinstance(one, str) for one in extra.values()):
                    raise bad_request(f"metadata.{field} must be a map of strings")
                value["metadata"][field] = {**(value["metadata"].get(field) or {}), **extra}
        _set_condition(value, "PodScheduled", "True", format_timestamp(int(now)))
        if not options.dry_run:
            self._store.put(record.key, value)

    # -- eviction -----------------------------------------------------------------------------------------------------

    def evict(self, route: Route, request: Request, now: float) -> Outcome:
        body = read_body(request)
        if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
            raise bad_request("the object provided is unrecognized: an Eviction must be an object")
        metadata = body.get("metadata") or {}
        if isinstance(metadata, dict) and metadata.get("name", route.name) != route.name:
            raise bad_request(f"name in URL does not match name in Eviction object: {route.name}")
        written = body.get("deleteOptions") or {}
        options = delete_options({**written, "kind": "DeleteOptions"} if isinstance(written, dict) else written, {})
        options_query = delete_options(None, request.query)
        record = self._record(route)
        value = record.value()
        if options_query.dry_run:
            options = replace(options, dry_run=True)
        self._admit(route, request, body, dry_run=options.dry_run)
        # A pod that does not run yet, or no longer, disrupts nothing.
        is_running = dig(value, "status", "phase") not in ("Succeeded", "Failed", "Pending")
        if is_running and record.metadata.deletion_timestamp is None:
            self._take_from_budget(record, value, now, dry_run=options.dry_run)
        self._deleter.delete(route.type, record, options, now, is_eviction=True)
        return json_response(_CREATED, 201)

    def _take_from_budget(self, pod: Record, pod_value: Object, now: float, *, dry_run: bool) -> None:
        budgets = [
            record
            for record in self._store.list(BUDGETS, pod.key.namespace)
            if matches(dig(record.value(), "spec", "selector"), pod.metadata.labels)
        ]
        if len(budgets) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise StatusError(500, "InternalError", message)
        for record in budgets:
            value = record.value()
            status = value.setdefault("status", {})
            allowed = status.get("disruptionsAllowed", 0)
            if not _is_ready(pod_value) and _may_lose_unhealthy(value):
                continue
            if status.get("observedGeneration", 0) < value["metadata"].get("generation", 0):
                message = f"The disruption budget {record.key.name} is still being processed by the server."
                raise _budget_refusal(message, seconds=10)
            if allowed <= 0:
                needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
                have = f"needs {needed} healthy pods and has {healthy} currently"
                raise _budget_refusal(f"The disruption budget {record.key.name} {have}")
            status["disruptionsAllowed"] = allowed - 1
            status["disruptedPods"] = {
                **(status.get("disruptedPods") or {}),
                pod.key.name: format_timestamp(int(now)),
            }
            if not dry_run:
                self._store.put(record.key, value)

    # -- others -------------------------------------------------------------------------------------------------------

    def finalize(self, route: Route, request: Request, now: float) -> Outcome:
        """Set the finalizers of a namespace."""
        record = self._record(route)
        options = write_options(request, "UpdateOptions")
        given, _ = self._writer.read(route.type, read_body(request), options)
        value = record.value()
        version = given["metadata"].get("resourceVersion", "")
        if version and version != str(record.version):
            raise conflict(route.type.resource, route.name)
        value["spec"] = {"finalizers": dig(given, "spec", "finalizers", default=[])}
        written = Written(value)
        if not options.dry_run:
            if is_finished(value):
                self._store.delete(record.key, value)
            else:
                written = Written(value, record=self._store.put(record.key, value))
        return json_response(written.data())

    def log(self, route: Route, request: Request, now: float) -> Outcome:
        pod = self._record(route).value()
        names = [
            container["name"]
            for field in ("containers", "initContainers")
            for container in dig(pod, "spec", field, default=[])
        ]
        container = request.query.get("container", "")
        if not container:
            if len(dig(pod, "spec", "containers", default=[])) > 1:
                raise bad_request(
                    f"a container name must be specified for pod {route.name}, choose one of: [{' '.join(names)}]"
                )
            container = names[0] if names else ""
        if container not in names:
            raise bad_request(f"container {container[:100]} is not valid for pod {route.name}")
        if not dig(pod, "spec", "nodeName"):
            raise bad_request(f'container "{container}" in pod "{route.name}" is waiting to start: the pod has no node')
        return LogResponse(pod, container, request.query)


def _scale_of(type: ResourceType, value: Object) -> Object:
    assert type.scale is not None
    metadata = value["metadata"]
    selector = dig(value, *type.scale.selector) if type.scale.selector else None
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": dig(value, *type.scale.spec, default=0)},
        "status": {
            "replicas": dig(value, *type.scale.status, default=0),
            "selector": selector if isinstance(selector, str) else selector_text(selector),
        },
    }


def _set(value: Object, path: tuple[str, ...], new: Any) -> None:
    for step in path[:-1]:
        value = value.setdefault(step, {})
    value[path[-1]] = new


def _set_condition(pod: Object, name: str, status: str, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    kept = [one for one in conditions if one.get("type") != name]
    condition = {"type": name, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
    pod["status"]["conditions"] = [*kept, condition]


def _is_ready(pod: Object) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _may_lose_unhealthy(budget: Object) -> bool:
    """Whether a pod that is not ready may go, which the budget does not count as healthy anyway."""
    if dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy = dig(budget, "status", "currentHealthy", default=0)
    desired = dig(budget, "status", "desiredHealthy", default=0)
    return bool(healthy >= desired > 0)


def _budget_refusal(cause: str, *, seconds: int = 0) -> StatusError:
    return too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        seconds=seconds,
        causes=[{"reason": "DisruptionBudget", "message": cause}],
    )
