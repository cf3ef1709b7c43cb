"""What the parts of the generator share while a world is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from all_features.generator.documents import Document

ARRIVALS_END = 36  # seconds: nothing new after this
LAST_DISTURBANCE = 48  # nodes are lost, returned and patched before this
UNTIL = 84
PRIORITIES = {"": 0, "middle": 10, "high": 100}


@dataclass
class Draft:
    dice: Random
    documents: list[Document] = field(default_factory=list)
    nodes: dict[str, Document] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)  # that take pods
    namespaces: dict[str, int] = field(default_factory=dict)  # with their weights
    tree: bool = False
    reserved_apps: list[str] = field(default_factory=list)  # labels that Reservations look for, with their queue
    app_queues: dict[str, str] = field(default_factory=dict)
    claims: int = 0

    def add(self, *documents: Document) -> None:
        self.documents += documents

    def chance(self, part: float) -> bool:
        return self.dice.random() < part

    def namespace(self) -> str:
        return self.dice.choice(sorted(self.namespaces))

    def queue(self) -> str:
        return self.dice.choice(self.queues)

    def priority(self) -> str:
        return self.dice.choices(sorted(PRIORITIES), (6, 1, 2))[0]
