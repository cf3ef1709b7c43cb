"""Lets pods of a world opt in to the gates of their queues: some gangs and Jobs as a whole, some single pods.

Everything else of the world stays as it was drawn. `draw_gated(seed)` is always the same for the same seed.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from random import Random

from all_features.generator.documents import GROUP, Document
from all_features.generator.draw import draw
from all_features.world import World

GATE = "scheduling.volcano.sh/queue-allocation-gate"


def draw_gated(seed: int) -> World:
    return make_gated(draw(seed), seed)


def make_gated(world: World, seed: int) -> World:
    dice = Random(f"gated {seed}")  # a sequence of its own
    documents = deepcopy(world.documents)
    opted: dict[str, bool] = {}
    for document in documents:
        for owner, template in _pods_of(document):
            name = template["metadata"].get("annotations", {}).get(GROUP, owner)
            if opted.setdefault(name, dice.random() < 0.4):
                template["metadata"].setdefault("annotations", {})[GATE] = "true"
    return replace(world, documents=documents)


def _pods_of(document: Document) -> list[tuple[str, Document]]:
    """Pods and templates, each with the name of what they are of."""
    name = document["metadata"].get("name", "") if "metadata" in document else ""
    match document["kind"]:
        case "Pod" if "nodeName" not in document["spec"]:
            return [(name.partition("-")[0], document)]
        case "ReplicaSet" | "StatefulSet":
            return [(name, document["spec"]["template"])]
        case "Job":
            return [(name, task["template"]) for task in document["spec"]["tasks"]]
        case _:
            return []
