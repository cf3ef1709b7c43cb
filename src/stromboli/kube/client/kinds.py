"""Kinds that only this package needs: leases for leader election, and events for people.

They are not part of `stromboli.api`, because no decision depends on one.
"""

from __future__ import annotations

from msgspec import field

from stromboli.api import ApiObject, ApiStruct, ObjectReference


class LeaseSpec(ApiStruct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ApiObject):
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class EventSource(ApiStruct):
    component: str = ""
    host: str = ""


class Event(ApiObject):
    """A message about an object, for people. The server deletes it after an hour by default."""

    api_version: str = "v1"
    kind: str = "Event"
    involved_object: ObjectReference = field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = field(default_factory=EventSource)
    reporting_component: str = ""
    reporting_instance: str = ""
