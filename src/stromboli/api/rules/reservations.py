"""Reservations: what is held, for whom, and where."""

from __future__ import annotations

from typing import Final

from stromboli.api.kinds.batch import ReservationOwner, ReservationSpec

from .rule import Rule, given, unless
from .unchanged import unchanged

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PREFIX: Final = "system-"
"""PriorityClasses of the system have higher priorities, and names that begin like this."""

_CLASS_MUST: Final = f"must not begin with {SYSTEM_PREFIX}: such classes are for system pods"


def _same_node(spec: ReservationSpec) -> str:
    pinned = "" if spec.template is None else spec.template.spec.node_name
    holds = not pinned or not spec.node_name or pinned == spec.node_name
    return unless(holds, f"must be the node of the template ({pinned}), not {spec.node_name}")


def _class_of_users(spec: ReservationSpec) -> str:
    """The API server checks the priority of pods, but not that of templates: only a pod that is moved has one that it
    has seen."""
    name = "" if spec.template is None else spec.template.spec.priority_class_name
    holds = spec.replaces is not None or not name.startswith(SYSTEM_PREFIX)
    return unless(holds, f"{_CLASS_MUST}; it is {name}")


def _priority_of_users(spec: ReservationSpec) -> str:
    priority = None if spec.template is None else spec.template.spec.priority
    holds = spec.replaces is not None or priority is None or priority <= HIGHEST_USER_PRIORITY
    return unless(holds, f"must be at most {HIGHEST_USER_PRIORITY}, not {priority}")


def _somebody(owner: ReservationOwner) -> str:
    target, controller = owner.object, owner.controller
    named = target is not None and any((target.kind, target.namespace, target.name, target.uid))
    controlled = controller is not None and any((controller.kind, controller.name, controller.uid))
    return unless(named or controlled or owner.label_selector is not None, _OWNER_MUST)


_OWNER_MUST: Final = "must say who may use the reservation: an object, a controller or a labelSelector"

RULES: Final = (
    Rule(
        on=ReservationSpec, field="nodeName", must="must be the node of the template", broken=_same_node,
        cel=f"!{given('self.nodeName')} || !{given('self.template.spec.nodeName')}"
        " || self.nodeName == self.template.spec.nodeName",
        says="'must be the node of the template (' + self.template.spec.nodeName + '), not ' + self.nodeName",
    ),
    Rule(
        on=ReservationSpec, field="template.spec.priorityClassName", must=_CLASS_MUST, broken=_class_of_users,
        cel=f"has(self.replaces) || !{given('self.template.spec.priorityClassName')}"
        f" || !self.template.spec.priorityClassName.startsWith('{SYSTEM_PREFIX}')",
        says=f"'{_CLASS_MUST}; it is ' + self.template.spec.priorityClassName",
    ),
    Rule(
        on=ReservationSpec, field="template.spec.priority", must=f"must be at most {HIGHEST_USER_PRIORITY}",
        broken=_priority_of_users,
        cel="has(self.replaces) || !has(self.template.spec.priority)"
        f" || self.template.spec.priority <= {HIGHEST_USER_PRIORITY}",
        says=f"'must be at most {HIGHEST_USER_PRIORITY}, not ' + string(self.template.spec.priority)",
    ),
    Rule(
        on=ReservationOwner, field="", must=_OWNER_MUST, broken=_somebody,
        cel="has(self.labelSelector)"
        + "".join(
            f" || has(self.{part}) && ({' || '.join(given(f'self.{part}.{field}') for field in fields)})"
            for part, fields in (
                ("object", ("kind", "namespace", "name", "uid")),
                ("controller", ("kind", "name", "uid")),
            )
        ),
    ),
    *unchanged(ReservationSpec, except_for=("ttl",), must="must not change: only the ttl of a reservation can"),
)  # fmt: skip
