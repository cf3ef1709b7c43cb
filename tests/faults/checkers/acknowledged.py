"""Nothing that was acknowledged is lost: what users made stays until users or their rules delete it, and a server that
starts again has all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stromboli.embedded.store import Change, Store

from .truth import Document, Truth

_OF_USERS: Final = ("jobs.batch.volcano.sh", "queues.scheduling.volcano.sh", "nodes", "replicasets.apps",
                    "poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io")  # fmt: skip
_RESERVATIONS: Final = "reservations.scheduling.volcano.sh"


class Acknowledged:
    def __init__(self, truth: Truth, report: Callable[[str, str], None]) -> None:
        self._truth = truth
        self._report = report
        self._made_by: dict[str, str] = {}  # by uid of a Reservation or a pod: the process that created it

    def committed(self, change: Change, writer: str) -> None:
        resource, value = change.record.key.resource, change.record.value()
        if change.type == "ADDED" and resource in (_RESERVATIONS, "pods"):
            self._made_by[value["metadata"]["uid"]] = writer
        if change.type != "DELETED" or not writer:
            return
        if resource in _OF_USERS or (resource == _RESERVATIONS and not self._made_by.get(value["metadata"]["uid"])):
            self._report("lost", f"{writer} deletes {resource} {change.record.key.name}, which users made")
        if resource == "pods" and change.before is not None:
            self._pod(change.before.value(), writer)

    def _pod(self, before: Document, writer: str) -> None:
        metadata = before["metadata"]
        if writer.startswith("controllers") and not metadata.get("ownerReferences"):
            self._report("lost", f"{writer} deletes pod {metadata['name']}, which users made")
        if writer == "kubelets" and not metadata.get("deletionTimestamp"):
            self._report("lost", f"{writer} deletes pod {metadata['name']}, which nobody deleted")

    def compare(self, store: Store) -> None:
        """At the end, however often the server was started again."""
        for resource in list(store.resources()):
            found = {(f"{record.key.namespace}/" if record.key.namespace else "") + record.key.name: record.value()
                     for record in store.list(resource)}  # fmt: skip
            if found != self._truth.of(resource):
                names = sorted({*found, *self._truth.of(resource)})
                wrong = next(name for name in names if found.get(name) != self._truth.of(resource).get(name))
                self._report("lost", f"the server has another {resource} {wrong} than it acknowledged")
