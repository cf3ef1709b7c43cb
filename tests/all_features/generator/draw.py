"""Draws a world with all features in it. `draw(seed)` is always the same for the same seed."""

from __future__ import annotations

from random import Random

from all_features.generator.disturbances import add_budgets, add_disturbances
from all_features.generator.documents import Document, metadata
from all_features.generator.draft import PRIORITIES, UNTIL, Draft
from all_features.generator.nodes import add_nodes
from all_features.generator.queues import add_queues
from all_features.generator.reservations import add_reservations
from all_features.generator.settings import configuration, policy
from all_features.generator.volumes import add_storage
from all_features.generator.works import add_works
from all_features.world import World


def draw(seed: int) -> World:
    draft = Draft(Random(seed))
    draft.add(*(_priority_class(name, value) for name, value in PRIORITIES.items() if name))
    add_nodes(draft)
    add_queues(draft)
    add_storage(draft)
    add_works(draft)
    add_reservations(draft)
    add_budgets(draft)
    add_disturbances(draft)
    return World(draft.documents, configuration(draft), policy(draft), UNTIL)


def _priority_class(name: str, value: int) -> Document:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata(name), "value": value}
