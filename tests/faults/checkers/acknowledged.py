"""Nothing that was acknowledged is lost: what users made stays until users or their rules delete it, and a server that
starts again has all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stromboli.embedded.store import Store

from .truth import Document, Truth, name, uid

_OF_USERS: Final = ("jobs.batch.volcano.sh", "queues.scheduling.volcano.sh", "nodes", "replicasets.apps",
                    "poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io")  # fmt: skip
_RESERVATIONS: Final = "reservations.scheduling.volcano.sh"


class Acknowledged:
    def __init__(self, truth: Truth, report: Callable[[str, str], None]) -> None:
        self._truth = truth
        self._report = report
        self._made_by: dict[str, str] = {}  # by uid of a Reservation or a pod: the process that created it

    def committed(self, resource: str, before: Document | None, after: Document | None, writer: str) -> None:
        if before is None and after is not None and resource in (_RESERVATIONS, "pods"):
            self._made_by[uid(after)] = writer
        if after is not None or before is None or not writer:
            return
        if resource in _OF_USERS or (resource == _RESERVATIONS and not self._made_by.get(uid(before))):
            self._report("lost", f"{writer} deletes {resource} {name(before)}, which users made")
        if resource == "pods":
            self._pod(before, writer)

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
                wrong = next(one for one in names if found.get(one) != self._truth.of(resource).get(one))
                self._report("lost", f"the server has another {resource} {wrong} than it acknowledged")
