"""What every job plugin is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stromboli.api import Job, Pod
from stromboli.controllers.changes import Belonging


class JobPlugin(Protocol):
    """Made from its arguments; raises a ValueError that says what they may be."""

    def check(self, job: Job) -> None:
        """Raise an ApiError if the plugin cannot do what it is for with this job."""
        ...

    def belongings(self, job: Job) -> Sequence[Belonging]:
        """What must be there before the pods."""
        ...

    def dress(self, pod: Pod, job: Job) -> Pod:
        """The pod with what the plugin adds; the one given stays as it is."""
        ...
