"""Who would fit where at an instant: an exact search over nodes, with everything that closes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from all_features.amounts import Amounts, amounts, covers
from all_features.case import Case
from all_features.scenario import PodSpec, Unit
from all_features.world import Report


@dataclass(frozen=True)
class Waiting:
    """A unit that waits: its pods without a node, and how many it has."""

    unit: Unit
    pods: list[PodSpec]
    have: int

    def needed(self) -> list[PodSpec] | None:
        """Pods that would have to start together; None if it is not clear which."""
        number = max(1, self.unit.least - self.have)
        if number > len(self.pods):
            return None
        if number == len(self.pods):
            return self.pods
        equal = (
            len({(tuple(sorted(p.requests.items())), tuple(p.selector.items()), p.tolerates) for p in self.pods}) == 1
        )
        roles_done = not self.unit.roles or self.have >= self.unit.least
        return self.pods[:number] if equal and roles_done else None


def waiting_units(case: Case, report: Report) -> list[Waiting]:
    pods: dict[str, list[PodSpec]] = {}
    have: dict[str, int] = {}
    units: dict[str, Unit] = {}
    for name, told in sorted(report["pods"].items()):
        spec = case.scenario.pod(name)
        if not spec.ours:
            continue
        units[spec.unit.name] = spec.unit
        if told["phase"] == "Pending":
            pods.setdefault(spec.unit.name, []).append(spec)
        elif told["phase"] in ("Running", "Succeeded"):
            have[spec.unit.name] = have.get(spec.unit.name, 0) + 1
    return [Waiting(units[name], found, have.get(name, 0)) for name, found in pods.items()]


def group_names(unit: Unit) -> tuple[str, ...]:
    """How the report may name the group of a unit: its own name, or one that was made for it."""
    namespace, _, bare = unit.name.rpartition(" ")[2].partition("/")
    return (
        f"{namespace}/{bare}",
        f"{namespace}/podgroup-{bare}-",
        f"{namespace}/{bare}-{bare}-",
        f"{namespace}/{bare}-",
    )


def is_for(job: str, unit: Unit) -> bool:
    exact, *prefixes = group_names(unit)
    return job == exact or any(job.startswith(prefix) for prefix in prefixes)


def room_for(case: Case, report: Report, pod: PodSpec) -> dict[str, Amounts]:
    """By node that is open to the pod: what is idle there."""
    found = {}
    for name, told in report["nodes"].items():
        node = case.scenario.node(name, report["end"])
        if node is None or node.admits(pod):
            continue
        locked = told["lockedBy"]
        if locked and locked not in case.scenario.ancestors(pod.queue):
            continue
        if any(not is_for(job, pod.unit) for job in told["reservedFor"]):
            continue
        pods = sum(life.node == name for life in case.history.lives if life.occupies(report["end"] + 0.001))
        idle = amounts(told["allocatable"])
        idle.subtract(amounts(told["used"]))
        idle.subtract(amounts(told["held"]))
        idle.subtract(amounts(told.get("promised")))
        idle["pods"] -= pods + sum(one["node"] == name for one in report["reservations"].values())
        found[name] = idle
    return found


def fit(case: Case, report: Report, pods: Sequence[PodSpec]) -> list[str] | None:
    """Nodes for these pods together; None if there are none."""
    rooms = {pod.key: room_for(case, report, pod) for pod in pods}
    left: dict[str, Amounts] = {name: room for open_nodes in rooms.values() for name, room in open_nodes.items()}
    return _search(sorted(pods, key=lambda pod: (len(rooms[pod.key]), -pod.requests["cpu"])), rooms, left)


def _search(
    pods: Sequence[PodSpec], rooms: dict[str, dict[str, Amounts]], left: dict[str, Amounts]
) -> list[str] | None:  # fmt: skip
    if not pods:
        return []
    first, *others = pods
    for name in sorted(rooms[first.key]):
        if covers(left[name], first.takes):
            after = Amounts(left[name])
            after.subtract(first.takes)
            rest = _search(others, rooms, {**left, name: after})
            if rest is not None:
                return [name, *rest]
    return None
