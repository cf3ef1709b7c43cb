"""Kubernetes' own PodGroups and CompositePodGroups, as a server of 1.37 has them with all their gates on."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from stromboli import api
from stromboli.api import ApiError, CompositePodGroup, WorkloadPodGroup
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid

from .pods import set_priority
from .strategy import AGE, NAME, Column, Context, Object, Strategy, dig


def _policy(group: Object, now: float) -> str:
    return "Gang" if dig(group, "spec", "schedulingPolicy", "gang") is not None else "Basic"


def _workload(group: Object, now: float) -> str:
    return str(dig(group, "spec", "workloadRef", "workloadName", default="<none>"))


def _status(group: Object, now: float) -> str:
    conditions = {one.get("type"): one for one in dig(group, "status", "conditions", default=[])}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].get("reason", ""))
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


class _GroupStrategy(Strategy):
    type: ClassVar[Any]
    plural: ClassVar[str]

    def default(self, obj: Object) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("disruptionMode", {"single": {}})

    def before_create(self, obj: Object, context: Context) -> None:
        obj.pop("status", None)
        obj.setdefault("spec", {})
        set_priority(obj, context, self.plural)

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]
        for field in ("priority", "priorityClassName", "preemptionPolicy"):  # `kubectl apply` does not send them
            if field in old["spec"]:
                obj["spec"].setdefault(field, old["spec"][field])

    def validate(self, obj: Object) -> list[FieldError]:
        try:
            api.validate(self._typed(obj))
        except ApiError as error:
            return [invalid(error.field or "<nil>", "", error.message)]
        return []

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        try:
            api.validate_update(self._typed(old), self._typed(obj))
        except ApiError as error:
            return [invalid(error.field or "<nil>", "", error.message)]
        return []

    def _typed(self, obj: Object) -> Any:
        return api.decode_json(msgspec.json.encode(obj), self.type)


class PodGroupStrategy(_GroupStrategy):
    type = WorkloadPodGroup
    plural = "podgroups"
    columns = (NAME, Column("Policy", _policy), Column("Workload", _workload), Column("Status", _status), AGE)


class CompositePodGroupStrategy(_GroupStrategy):
    type = CompositePodGroup
    plural = "compositepodgroups"
    columns = (NAME, Column("Policy", _policy), Column("Workload", _workload), AGE)
