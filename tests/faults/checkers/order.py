"""What must be written before what, and what nobody may write over.

A pod is listed by the Reservation that it uses before it is bound. A Reservation that serves once is over when its pod
is bound, and no earlier: its room would be nobody's. What was decided about a pod without a node is not written to one
that has one. Whoever writes what follows from an object that others write as well says which version it has read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from stromboli.embedded.server import Request

from .truth import Document, Truth, name, uid

RESERVATIONS: Final = "reservations.scheduling.volcano.sh"
USES: Final = "scheduling.stromboli.io/reservation"


class Order:
    def __init__(self, truth: Truth, report: Callable[[str, str], None]) -> None:
        self._truth = truth
        self._report = report
        self._bound: set[str] = set()  # uids of pods that ever had a node

    def committed(self, resource: str, before: Document | None, after: Document | None, writer: str) -> None:
        if after is None:
            return
        if resource == "pods":
            self._pod(before, after, writer)
        elif resource == RESERVATIONS and before is not None:
            self._reservation(before, after, writer)

    def _pod(self, before: Document | None, after: Document, writer: str) -> None:
        node = after["spec"].get("nodeName")
        if not node:
            return
        if before is not None and before["spec"].get("nodeName"):
            self._still_bound(before, after, writer)
            return
        self._bound.add(uid(after))
        place = (after["metadata"].get("annotations") or {}).get(USES, "")
        reservation = self._truth.of(RESERVATIONS).get(place.partition("/")[0])
        if reservation is None or not place.endswith(uid(reservation)):
            return
        status = reservation.get("status", {})
        listed = {user["uid"] for user in status.get("currentOwners") or ()}
        if status.get("phase") == "Available" and uid(after) not in listed:
            text = f"{writer} binds {name(after)}, which {name(reservation)} does not list, although it uses that"
            self._report("listed", text)

    def _still_bound(self, before: Document, after: Document, writer: str) -> None:
        if writer.startswith("scheduler"):
            if _waits(after) and not _waits(before):
                self._report("old-status", f"{writer} says that {name(after)} waits, and it has a node")
            nominated = after["status"].get("nominatedNodeName")
            if nominated and nominated != before["status"].get("nominatedNodeName"):
                self._report("old-status", f"{writer} nominates {name(after)}, and it has a node")

    def _reservation(self, before: Document, after: Document, writer: str) -> None:
        phases = before.get("status", {}).get("phase"), after.get("status", {}).get("phase")
        if phases == ("Available", "Succeeded") and after["spec"].get("allocateOnce"):
            users = {user["uid"] for one in (before, after) for user in one["status"].get("currentOwners") or ()}
            if not users & self._bound:
                self._report("released", f"{writer} releases {name(after)} before a pod of it is bound")

    def arrives(self, who: str, what: str, request: Request) -> None:
        if not what.startswith("PATCH"):
            return
        body = json.loads(request.body)
        if _needs_version(who, what, body) and not (body.get("metadata") or {}).get("resourceVersion"):
            self._report("version", f"{who} does not say for which version it asks for {what} {request.path}")


def _needs_version(who: str, what: str, body: dict[str, Any]) -> bool:
    if who.startswith("controllers") and what != "PATCH events":
        return True
    status = body.get("status") or {}
    if what == "PATCH pods/status":
        said = {one["type"] for one in status.get("conditions") or ()}
        return who.startswith("scheduler") and "PodScheduled" in said
    return what == "PATCH reservations/status" and "currentOwners" in status


def _waits(pod: Document) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
