"""Who may use a Reservation, and what may be done for one, checked from the objects alone after every cycle.

    users       of its queue, if it names one; with the label and in the namespace of an owner; of at least the priority
                of the class that its template names. Judged when the pod is bound.
    evictions   only for a Reservation whose template names a class that preempts, of its own queue, of lower priority;
                its queue then has no more than before, or no more than it deserves; without any one of them there would
                be too little room; and none while earlier victims leave for it.
    places      a Reservation without a node that has one in its status waits for pods that leave there.
    movements   a queue to which a user takes what another was charged for stays within what it deserves.

What queues deserve is not computed here: a scheduler that has just started says it, with the objects as they are then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from starvation.scenes import Document
from stromboli.api import Node, Pod, PodGroup, PriorityClass, Reservation, names
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.cycle import open_session
from stromboli.scheduling.decisions import Evict
from stromboli.simulation.engine import Engine
from stromboli.simulation.virtual_time import Microseconds, to_seconds, wall_clock

ANNOTATION = "scheduling.stromboli.io/reservation"


@dataclass
class UseRules:
    engine: Engine
    configuration: Any
    registry: Any
    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    _users: set[tuple[str, str]] = field(default_factory=set)
    _nominated: dict[str, str] = field(default_factory=dict)  # as of the last cycle
    _held: set[str] = field(default_factory=set)  # Reservations with a node, as of the last cycle
    _in_vain: Counter[str] = field(default_factory=Counter)  # cycles in which nobody left for it

    def check(self, at: Microseconds, *, killed: bool) -> None:
        """`killed`: not all that was decided in this cycle was done."""
        now = _Objects(self.engine)
        self._check_users(to_seconds(at), at, now)
        if not killed:
            self._check_evictions(to_seconds(at), at, now)
        self._check_places(to_seconds(at), now)
        known = {} if killed else now.pending  # perhaps nobody was evicted
        if killed:
            self._in_vain.clear()
        self._nominated = {name: one["status"].get("nodeName", "") for name, one in known.items()}
        self._held = now.held

    # -- users ----------------------------------------------------------------------------------------------------

    def _check_users(self, t: float, at: Microseconds, now: _Objects) -> None:
        bound: Counter[str] = Counter()
        moved: dict[str, str] = {}
        for pod in now.pods.values():
            if not pod["spec"].get("nodeName") or (pod["metadata"]["uid"], "bound") in self._users:
                continue
            self._users.add((pod["metadata"]["uid"], "bound"))
            bound[now.queue_of(pod)] += 1
            name, _, uid = pod["metadata"].get("annotations", {}).get(ANNOTATION, "").partition("/")
            one = now.reservations.get(name)
            if one is None or one["metadata"]["uid"] != uid:
                continue
            self.seen["users"] += 1
            self._check_user(t, pod, one, now)
            charged = one["spec"].get("queue") or "default"
            if charged != now.queue_of(pod):
                self.seen["movements"] += 1
                moved[now.queue_of(pod)] = name
        for queue, name in moved.items():
            if bound[queue] == 1:  # others may have been lent something in the same cycle
                has, deserves = self._standing(at, queue)
                if has > deserves:
                    self.wrong.append(f"at {t} queue {queue} has {has} and deserves {deserves}, with a user of {name}")

    def _check_user(self, t: float, pod: Document, one: Document, now: _Objects) -> None:
        who, name, spec = pod["metadata"]["name"], one["metadata"]["name"], one["spec"]
        queue = now.queue_of(pod)
        if spec.get("queue") and spec["queue"] != queue:
            self.wrong.append(f"at {t} {who} of queue {queue} uses {name}, which is for {spec['queue']}")
        labels = pod["metadata"].get("labels", {})
        home = spec["template"].get("metadata", {}).get("namespace") or "default"
        if not any(
            owner["labelSelector"]["matchLabels"].items() <= labels.items()
            and pod["metadata"]["namespace"] in (owner.get("namespaces") or [home])
            for owner in spec["owners"]
        ):
            self.wrong.append(f"at {t} {who} uses {name}, whose owners do not include it")
        least = spec["template"]["spec"].get("priorityClassName")
        highest = max(now.priority_of(pod), pod["spec"].get("priority") or 0)
        if least in now.classes and highest < now.classes[least]["value"]:
            self.wrong.append(f"at {t} {who} uses {name}, which is for priority {least} or higher")

    # -- evictions ------------------------------------------------------------------------------------------------

    def _check_evictions(self, t: float, at: Microseconds, now: _Objects) -> None:
        by_name: dict[str, list[Evict]] = {}
        for decision in self.engine.cycle.decisions:
            if isinstance(decision, Evict) and " for Reservation " in decision.message:
                name = decision.message.partition(" for Reservation ")[2].partition(",")[0]
                by_name.setdefault(name, []).append(decision)
        for name, evictions in by_name.items():
            one = now.reservations.get(name)
            if one is None:
                self.wrong.append(f"at {t} pods are evicted for {name}, which does not exist")
                continue
            self.seen["preemptions"] += 1
            named = one["spec"]["template"]["spec"].get("priorityClassName", "")
            if named not in now.classes or now.classes[named].get("preemptionPolicy") == "Never":
                self.wrong.append(f"at {t} pods are evicted for {name} of class {named!r}")
                continue
            queue = one["spec"].get("queue") or "default"
            for eviction in evictions:
                pod = now.pods.get(eviction.task)
                if pod is not None and now.queue_of(pod) != queue:
                    self.wrong.append(f"at {t} {eviction.task} of another queue is evicted for {name}")
                if pod is not None and now.priority_of(pod) >= now.classes[named]["value"]:
                    self.wrong.append(f"at {t} {eviction.task} of no lower priority is evicted for {name}")
            before, after = self._nominated.get(name, ""), one["status"].get("nodeName", "")
            if before and before == after:
                self.wrong.append(f"at {t} others are evicted for {name}, which waits for {before}")
            victims = [now.pods[eviction.task] for eviction in evictions if eviction.task in now.pods]
            if one["status"].get("phase") == "Pending" and after and len(victims) == len(evictions):
                self._check_amount(t, at, one, victims, now)

    def _check_amount(self, t: float, at: Microseconds, one: Document, victims: list[Document], now: _Objects) -> None:
        """One for another, or within what the queue deserves; and nobody in vain."""
        name, queue = one["metadata"]["name"], one["spec"].get("queue") or "default"
        asked = _millicores(one["spec"]["template"]["spec"])
        freed = [_millicores(victim["spec"]) for victim in victims]
        has, deserves = self._standing(at, queue)
        # What other Reservations gave up is freed as well.
        if asked > sum(freed) and has > deserves and not self._held - now.held:
            self.wrong.append(f"at {t} queue {queue} has {has} and deserves {deserves}, with {name}")
        if len(freed) > 1 and sum(freed) - min(freed) >= asked and not any(map(now.is_of_gang, victims)):
            self.wrong.append(f"at {t} {sum(freed)} are freed for {name}, which asks for {asked}")

    def _check_places(self, t: float, now: _Objects) -> None:
        leaving = {
            pod["spec"]["nodeName"]
            for pod in now.pods.values()
            if "deletionTimestamp" in pod["metadata"] and pod["spec"].get("nodeName")
        }
        for name, one in now.pending.items():
            node = one["status"].get("nodeName", "")
            self._in_vain[name] = self._in_vain[name] + 1 if node and node not in leaving else 0
            self.seen["waits"] += bool(node)
            if self._in_vain[name] > 2:
                self.wrong.append(f"at {t} {name} waits for {node}, where nobody leaves")

    def _standing(self, at: Microseconds, queue: str) -> tuple[int, int]:
        """What a queue has and deserves, in millicores, as a scheduler finds it that has just started."""
        cluster = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
        for obj in self.engine.world.store.everything():
            cluster.apply(Applied(obj))
        session = open_session(
            cluster.snapshot(), self.configuration,
            lambda option: self.registry.plugin(option.name)(option.arguments), wall_clock(at),
        )  # fmt: skip
        column = session.axis.index["cpu"]
        known = next(one for one in session.queues.values() if one.name == queue)
        return int(known.allocated[column]), int(session.deserved[known.name][column])


class _Objects:
    """Objects as dictionaries, so that no method of ours is in the way."""

    def __init__(self, engine: Engine) -> None:
        def documents(kind: Any) -> list[Document]:
            return [msgspec.to_builtins(one) for one in engine.world.store.list(kind)]

        self.pods = {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one
            for one in documents(Pod)
            if one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        }
        self.nodes = {one["metadata"]["name"] for one in documents(Node)}
        self.classes = {one["metadata"]["name"]: one for one in documents(PriorityClass)}
        self.reservations = {one["metadata"]["name"]: one for one in documents(Reservation)}
        self.pending = {
            name: one for name, one in self.reservations.items() if one.get("status", {}).get("phase") == "Pending"
        }
        self.held = {
            name for name, one in self.reservations.items() if one.get("status", {}).get("phase") == "Available"
        }
        self._groups = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in documents(PodGroup)}

    def _group(self, pod: Document) -> Document:
        notes = pod["metadata"].get("annotations", {})
        name = f"{pod['metadata']['namespace']}/{notes.get('scheduling.k8s.io/group-name', '')}"
        found: Document = self._groups.get(name, {"spec": {}})
        return found

    def queue_of(self, pod: Document) -> str:
        return str(self._group(pod)["spec"].get("queue") or "default")

    def is_of_gang(self, pod: Document) -> bool:
        return int(self._group(pod)["spec"].get("minMember", 1)) > 1

    def priority_of(self, pod: Document) -> int:
        named = self._group(pod)["spec"].get("priorityClassName", "")
        if named:
            return int(self.classes.get(named, {"value": 0})["value"])
        return max((one["value"] for one in self.classes.values() if one.get("globalDefault")), default=0)


def _millicores(spec: Document) -> int:
    asked = [one.get("resources", {}).get("requests", {}).get("cpu", "0") for one in spec["containers"]]
    return sum(int(one[:-1]) if str(one).endswith("m") else round(1000 * float(one)) for one in asked)
