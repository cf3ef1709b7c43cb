"""All objects as the store has them, and who may not know that yet.

The store's commits are the truth. Processes see them late, and some faults make that seconds: what a process does
meanwhile can be wrong through no fault of its own. `is_stale` says for whom that is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from stromboli.embedded.store import ObjectKey

SKEW: Final = 15.0  # seconds that a clock of a process can be wrong, after a jump
_EPOCH: Final = 1_893_456_000.0  # when worlds begin

Document = dict[str, Any]


@dataclass
class Truth:
    objects: dict[str, dict[str, Document]] = field(default_factory=dict)
    """By resource, and by namespace and name."""
    stale_until: dict[str, float] = field(default_factory=dict)
    """By process: until when it may not have seen what is older."""
    held: Counter[str] = field(default_factory=Counter)
    """By process: how many things keep it from seeing anything, with no end yet."""
    calm: bool = False
    """Users take no room away any more."""

    def apply(self, key: ObjectKey, after: Document | None) -> None:
        name = f"{key.namespace}/{key.name}" if key.namespace else key.name
        known = self.objects.setdefault(key.resource, {})
        if after is None:
            known.pop(name, None)
        else:
            known[name] = after

    def get(self, key: ObjectKey) -> Document | None:
        return self.of(key.resource).get(f"{key.namespace}/{key.name}" if key.namespace else key.name)

    def of(self, resource: str) -> dict[str, Document]:
        return self.objects.get(resource, {})

    def stale(self, who: str, until: float) -> None:
        self.stale_until[who] = max(self.stale_until.get(who, 0.0), until)

    def hold(self, who: str) -> None:
        self.held[who] += 1

    def let_go(self, who: str, until: float) -> None:
        self.held[who] = max(0, self.held[who] - 1)
        self.stale(who, until)

    def is_stale(self, who: str, now: float) -> bool:
        return self.held[who] > 0 or now <= self.stale_until.get(who, 0.0)

    def pods(self, node: str | None = None) -> Iterator[Document]:
        for pod in self.of("pods").values():
            if node is None or pod["spec"].get("nodeName", "") == node:
                yield pod


def uid(value: Document) -> str:
    return str(value["metadata"]["uid"])


def name(value: Document) -> str:
    return str(value["metadata"]["name"])


def is_over(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_leaving(value: Document) -> bool:
    return bool(value["metadata"].get("deletionTimestamp"))


def millicores(text: object) -> int:
    text = str(text)
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def cpu_of(pod: Document) -> int:
    return sum(
        millicores(container.get("resources", {}).get("requests", {}).get("cpu", 0))
        for container in pod["spec"]["containers"]
    )


def seconds(ttl: str) -> float:
    return float(ttl[:-1]) * {"s": 1, "m": 60, "h": 3600}[ttl[-1]]


def time_of(stamp: str) -> float:
    """In virtual seconds."""
    return datetime.fromisoformat(stamp).timestamp() - _EPOCH
