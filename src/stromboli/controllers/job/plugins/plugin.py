"""The interface of job plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject


class JobPlugin(Protocol):
    """Built from its arguments; the constructor raises a ValueError that says what they may be."""

    def check(self, job: Job) -> None:
        """Raise an ApiError if the plugin cannot work for this job."""
        ...

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        """The objects that must exist before the pods are created."""
        ...

    def decorate(self, pod: Pod, job: Job) -> Pod:
        """The pod with what the plugin adds; the argument stays unchanged."""
        ...
