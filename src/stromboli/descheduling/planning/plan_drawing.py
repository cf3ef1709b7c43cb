"""Plans as text: the nodes that take part, before and after, in bars.

b  ██████··  6 of 8 nvidia.com/gpu  ▶  ████····  4 of 8
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from stromboli.api import Node, Pod
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts, stated_amount

from .plan import Plan
from .plan_objects import Objects

WIDTH: Final = 16
_FINISHED: Final = ("Succeeded", "Failed")


def picture(plans: Sequence[Plan], objects: Objects) -> list[str]:
    """A line for each node that takes part in a plan, in the order of names; nothing if nothing moves."""
    names = sorted({name for plan in plans for move in plan.moves for name in (move.source, move.target)})
    if not names:
        return []
    used: dict[str, Counter[str]] = {name: Counter() for name in names}
    for pod in objects.list(Pod):
        if pod.spec.node_name in used and pod.status.phase not in _FINISHED:
            used[pod.spec.node_name].update(pod_requests(pod.spec))
    change: dict[str, Counter[str]] = {name: Counter() for name in names}
    for plan in plans:
        for move in plan.moves:
            change[move.source].subtract(move.request)
            change[move.target].update(move.request)
    width = max(len(name) for name in names)
    return [line for name in names if (line := _line(name, width, objects, used[name], change[name]))]


def _line(name: str, width: int, objects: Objects, used: Counter[str], change: Counter[str]) -> str:
    node = objects.get(Node, name)
    if node is None:
        return ""
    offered = amounts(node.status.allocatable or node.status.capacity)
    resource = _resource(offered, used, change)
    total = offered.get(resource, 0)
    before, after = used[resource], used[resource] + change[resource]
    return (
        f"{name:<{width}}  {_bar(before, total)}  {_amount(resource, before)} of {_amount(resource, total)} {resource}"
        f"  ▶  {_bar(after, total)}  {_amount(resource, after)} of {_amount(resource, total)}"
    )


def _resource(offered: dict[str, int], used: Counter[str], change: Counter[str]) -> str:
    """The resource that the picture is about: a device if any is moved, else what changes most."""
    moved = [name for name, amount in change.items() if amount and offered.get(name)]
    devices = [name for name in moved if "/" in name]
    candidates = devices or moved or sorted(offered)
    return max(candidates, key=lambda name: (abs(change[name]) / max(1, offered.get(name, 1)), name))


def _bar(amount: int, total: int) -> str:
    width = min(WIDTH, total) if 0 < total <= WIDTH else WIDTH
    filled = round(width * min(amount, total) / total) if total else 0
    return "█" * filled + "·" * (width - filled)


def _amount(resource: str, amount: int) -> str:
    return stated_amount(resource, amount)
