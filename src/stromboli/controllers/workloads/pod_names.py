"""The names of new pods of sets and Jobs, and which names there have been.

A server completes a prefix with random letters. A simulation has numbers. A number that was used twice would mix up the
records of two pods, so the last one is in an annotation of the owner, where a restart finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from stromboli.api import KObject, Pod
from stromboli.controllers.changes import Objects

from .owned_pods import OwnedPod
from .surroundings import Surroundings

LAST_REPLICA: Final = "scheduling.stromboli.io/last-replica"


class PodNames:
    def __init__(self, owner: KObject, pods: Iterable[OwnedPod], objects: Objects, surroundings: Surroundings) -> None:
        self._owner = owner
        self._pods = pods
        self._objects = objects
        self._are_numbered = surroundings.is_virtual
        self.last: int | None = None  # the last number, once a name was given

    def names(self, infix: str = "") -> Iterator[str]:
        """Names without an end, each for one pod; `infix` comes before the number."""
        metadata = self._owner.metadata
        while True:
            if not self._are_numbered:
                yield f"{metadata.name}-{infix}"
                continue
            last = (self._last_number() if self.last is None else self.last) + 1
            while self._objects.get(Pod, f"{metadata.namespace}/{metadata.name}-{infix}{last}") is not None:
                last += 1
            self.last = last
            yield f"{metadata.name}-{infix}{last}"

    def annotations(self) -> dict[str, str]:
        """Those of the owner with the last number."""
        annotations = self._owner.metadata.annotations
        return annotations if self.last is None else annotations | {LAST_REPLICA: str(self.last)}

    def _last_number(self) -> int:
        metadata = self._owner.metadata
        text = metadata.annotations.get(LAST_REPLICA, "")
        prefix = f"{metadata.namespace}/{metadata.name}-"
        numbers = [pod.number for pod in self._pods if pod.key.startswith(prefix)]
        return max([int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1, *numbers])
