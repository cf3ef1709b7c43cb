"""Which pods of a DaemonSet give way to ones from its present template.

With `maxUnavailable` (1 unless it says otherwise) old pods are deleted, and made again: first those that are not
available anyway, then others until so many nodes have no available pod. With `maxSurge` a new pod is made beside the
old one on so many nodes, and the old one goes when the new one is available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stromboli.api import DaemonSet
from stromboli.controllers.workloads.amounts import resolved
from stromboli.controllers.workloads.owned_pods import OwnedPod


@dataclass(frozen=True, slots=True)
class OnNode:
    """The pods of one DaemonSet on a node that should have one."""

    new: OwnedPod | None  # from the present template, neither finished nor going
    old: Sequence[OwnedPod]  # from earlier ones, as well
    new_counts: bool  # the new one is available
    old_counts: bool


def limits(owner: DaemonSet, nodes: int) -> tuple[int, int]:
    """How many nodes may have a second pod, and how many none that is available."""
    rolling = owner.spec.update_strategy.rolling_update
    surge = 0 if rolling is None else resolved(rolling.max_surge, nodes, round_up=True)
    given = None if rolling is None else rolling.max_unavailable
    unavailable = (0 if surge else 1) if given is None else resolved(given, nodes, round_up=True)
    return surge, unavailable if surge or unavailable else 1


def renewed(owner: DaemonSet, nodes: Mapping[str, OnNode], empty: int) -> tuple[list[OwnedPod], list[str]]:
    """The pods that are deleted, and the nodes that get a second pod. `empty`: so many more nodes have no pod yet."""
    if owner.spec.update_strategy.type == "OnDelete":
        return [], []
    surge, unavailable = limits(owner, len(nodes) + empty)
    if surge:
        return _with_second_pods(nodes, surge)
    return _with_gaps(nodes, empty, unavailable), []


def _with_second_pods(nodes: Mapping[str, OnNode], surge: int) -> tuple[list[OwnedPod], list[str]]:
    gone: list[OwnedPod] = []
    second: list[str] = []
    free = surge - sum(one.new is not None and bool(one.old) and not one.new_counts for one in nodes.values())
    for node, one in nodes.items():
        if not one.old:
            continue
        if one.new is not None and one.new_counts:
            gone += one.old
        elif one.new is None and not one.old_counts:
            gone += one.old  # nobody misses it
        elif one.new is None and free > 0:
            free -= 1
            second.append(node)
    return gone, second


def _with_gaps(nodes: Mapping[str, OnNode], empty: int, unavailable: int) -> list[OwnedPod]:
    gone: list[OwnedPod] = []
    missing = empty + sum(not (one.new_counts or one.old_counts) for one in nodes.values())
    for one in nodes.values():
        if one.old and one.new is None and not one.old_counts:
            gone += one.old
    for one in nodes.values():
        if one.old and one.old_counts and missing < unavailable:
            gone += one.old
            missing += 1
    return gone
