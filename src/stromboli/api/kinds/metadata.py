"""The parts of every Kubernetes object: metadata, owner references, conditions, selectors, amounts.

Our types hold only the fields that we read. Unknown fields are skipped while decoding, which is safe because we never
write whole objects back: we send patches, so fields that we do not know keep their values.

Two conventions hold for every struct in this package. Attributes are snake_case and their JSON is camelCase (where
Kubernetes capitalises an abbreviation, as in `hostIP`, the field has an explicit name). And an optional field has the
default that means "not given", so that a test or a controller can build an object from the fields it needs.

`gc=False` tells the interpreter that these objects never form reference cycles. They are trees, and with fifty thousand
pods in memory the cyclic garbage collector would otherwise traverse all of them again and again, and find nothing.
"""

from __future__ import annotations

from msgspec import Struct, field

ResourceList = dict[str, str | int | float]
"""Amounts as the user wrote them (`{"cpu": "500m", "memory": "1Gi"}`); quantity.amounts makes them exact."""


class ApiStruct(Struct, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of every struct inside an object: fields left at their defaults are not encoded."""


class OwnerReference(ApiStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectReference(ApiStruct):
    """A reference to an object; an empty field matches everything."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ObjectMeta(ApiStruct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerReference] = field(default_factory=list)
    resource_version: str = ""
    generation: int = 0
    finalizers: list[str] = field(default_factory=list)


class ApiObject(ApiStruct, omit_defaults=False):
    """Base of every top-level kind. Always encoded with its apiVersion and kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class Condition(ApiStruct):
    """One line of a status: what holds (`type`, `status` True, False or Unknown), since when, and why."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class LabelSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] = field(default_factory=list)


class LabelSelector(ApiStruct):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: list[LabelSelectorRequirement] = field(default_factory=list)
