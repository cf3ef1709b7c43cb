"""What the controllers of all workloads have in common: which objects they visit, and how much they do in a visit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from stromboli.api import KObject, key
from stromboli.controllers.changes import Change, Objects
from stromboli.controllers.work_queue import WorkQueue

from .owned_pods import OwnedPod, OwnedPods, PodsOfOwner
from .surroundings import Surroundings

T = TypeVar("T", bound=KObject)

RETRY = 10.0
"""Seconds after which an object that could not be created is tried again."""


class WorkloadController(Generic[T]):
    kind: type[T]

    def __init__(self, pods: OwnedPods, surroundings: Surroundings) -> None:
        self._pods = pods
        self._in = surroundings
        self._queue = WorkQueue()

    # -- what changed -------------------------------------------------------------------------------------------

    def changed(self, obj: T, *, exists: bool) -> None:
        """An object of the kind was created, changed or deleted."""
        self._queue.add(key(obj))
        if not exists:
            self._queue.set_due(key(obj), None)

    def pod_changed(self, owner: str, pod: OwnedPod) -> None:
        """A pod that the owner has or had was created, changed or deleted."""
        self._queue.add(owner)

    def visit_soon(self, owner: str) -> None:
        self._queue.add(owner)

    def create_failed(self, owner: str, now: float) -> None:
        """An object for the owner could not be created."""
        self._wake(owner, now + RETRY)

    # -- a pass -------------------------------------------------------------------------------------------------

    def next_due(self, now: float) -> float | None:
        return self._queue.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """What is left of the share of an object makes it due again: each pod that is created or deleted is a change
        of one of its pods."""
        changes: list[Change] = []
        due = self._queue.take(now, self._in.visits)
        for owner_key in due:
            owner, share = objects.get(self.kind, owner_key), self._in.share_of(due)
            changes += self._left_over(owner_key, owner, objects, share)
            if owner is not None:
                found = list(self._visit(owner, objects, share, now))
                if found and self._in.is_virtual:
                    self._queue.add(owner_key)
                changes += found
        return changes

    @property
    def unfinished(self) -> bool:
        """Whether the last pass left objects for the next one."""
        return bool(len(self._queue))

    def _left_over(self, owner: str, present: T | None, objects: Objects, most: int) -> Iterable[Change]:
        """What is left of an object of that name that is gone."""
        return ()

    def _visit(self, owner: T, objects: Objects, most: int, now: float) -> Iterable[Change]:
        """`most`: how many pods it may create, delete or count."""
        raise NotImplementedError

    # -- for visits ---------------------------------------------------------------------------------------------

    def _pods_of(self, owner: T) -> PodsOfOwner:
        metadata = owner.metadata
        return self._pods.of(owner.kind, metadata.namespace, metadata.name, metadata.uid)

    def _wake(self, owner: str, at: float | None) -> None:
        """Visit it at that time at the latest."""
        if at is not None:
            known = self._queue.due(owner)
            self._queue.set_due(owner, at if known is None else min(at, known))
