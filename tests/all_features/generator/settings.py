"""The configuration of the scheduler and the policy of the descheduler: all actions and plugins, random numbers."""

from __future__ import annotations

from all_features.generator.documents import Document
from all_features.generator.draft import Draft

ACTIONS = ("enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill")


def configuration(draft: Draft) -> Document:
    dice = draft.dice
    backfill: Document = {"useEstimates": draft.chance(0.4)}
    if draft.chance(0.6):
        backfill |= {"backfillNonBestEffort": True, "mode": dice.choice(("preemption", "wait"))}
    arguments: Document = {
        "reserve": {
            "starvingJobTimeThreshold": dice.choice((3, 5, 8)), "reservedNodePercent": dice.choice((30, 50, 100)),
            "maxHolders": dice.choice((1, 2, 4)), "scope": dice.choice(("node", "node", "amount")),
        },
        "backfill": backfill,
    }  # fmt: skip
    sharing: Document = {"name": "capacity", "enableHierarchy": True} if draft.tree else {"name": "proportion"}
    scope = {"namespaceOrderScope": dice.choice(("beforePriority", "beforePriority", "withinPriority"))}
    packing: list[Document] = [{"name": "binpack"}] if draft.chance(0.6) else []
    return {
        "actions": [{"name": name, "arguments": arguments.get(name, {})} for name in ACTIONS],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {
                "plugins": [
                    {"name": "overcommit", "arguments": {"overcommit-factor": dice.choice((1.2, 2.0))}},
                    {"name": "drf", "enablePreemptable": False, "arguments": scope},
                    {"name": "predicates", "arguments": {"predicate.VolumeBindingTimeout": "8s"}},
                    sharing, {"name": "nodeorder"}, *packing,
                    {"name": "node_reservation", "arguments": {"maxReservedPercent": dice.choice((34, 50))}},
                    {"name": "reservation"},
                ]
            },
        ],
    }  # fmt: skip


def policy(draft: Draft) -> Document:
    dice = draft.dice
    rests = dice.choice((6, 10, 20))
    low = {
        "ResourceType": "cpu", "lowThresholds": {"cpu": dice.choice((30, 45, 60))},
        "defragmentThresholds": {"cpu": 75}, "protectionThresholds": {"cpu": dice.choice((95, 100))},
        "coolDownTime": rests,
    }  # fmt: skip
    pending = {"ResourceType": "cpu", "forPending": True, "minPendingTime": dice.choice((0, 3)), "coolDownTime": rests}
    load = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": dice.choice((60, 80))}, "coolDownTime": rests}
    profiles = [
        ("room", "Defragmentation", pending), ("empty", "Defragmentation", low), ("load", "LoadAware", load)
    ]  # fmt: skip
    dice.shuffle(profiles)
    return {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
        "deschedulingInterval": f"{dice.choice((5, 7, 10))}s",
        "profiles": [
            {
                "name": name, "pluginConfig": [{"name": plugin, "args": arguments}],
                "plugins": {"balance": {"enabled": [plugin]}},
            }
            for name, plugin, arguments in profiles
        ],
    }  # fmt: skip
