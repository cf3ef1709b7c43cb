"""What must hold after every commit, and of every request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from stromboli.embedded.server import Request, Response

from .truth import SKEW, Document, Truth, cpu_of, is_leaving, is_over, millicores, name, seconds, time_of, uid

HAND_OVER: Final = 1.0  # seconds for which a new leader lets the requests of the last one end
LEASE: Final = 15.0  # seconds that a lease lasts
PENDING: Final = 15.0  # seconds after which somebody who waited is no reason for an eviction any more
NOMINATES: Final = 6.0  # seconds in which it is written for whom somebody was evicted
SAYS: Final = 15.0  # seconds in which an event says why
USED: Final = 5.0  # seconds in which the pod is bound that a Reservation is for
TOGETHER: Final = 2.0  # seconds in which all pods of one job are evicted
ALL_PODS: Final = ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob")  # what a job does that loses one
JOBS: Final = "jobs.batch.volcano.sh"
RESERVATIONS: Final = "reservations.scheduling.volcano.sh"
LEASED: Final = ("scheduler", "controllers", "descheduler")


@dataclass
class _Unexplained:
    """An eviction of which it is not written yet whom it was for."""

    at: float
    nodes: set[str]
    who: str
    life: object
    victim: str
    job: str  # its uid, if its pods go together; then one nomination explains all


class AtOnce:
    def __init__(
        self, truth: Truth, clock: Callable[[], float], life: Callable[[str], object],
        report: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        """`life`: of a process; another one after each start."""
        self._life = life
        self._truth = truth
        self._clock = clock
        self._report = report
        self._leaders: dict[str, tuple[str, float]] = {}  # by component: who, and since when
        self._renewed: dict[str, float] = {}  # by process: when it last took or renewed the lease
        self._excused_nodes: set[str] = set()  # users took room away from them
        self._bound_by: dict[str, object] = {}  # by uid of a pod: the process, in this life
        self._users: dict[str, set[str]] = {}  # by uid of a Reservation: who has ever used it
        self._evicting: Document | None = None
        self._unexplained: list[_Unexplained] = []
        self._evicted: list[tuple[float, str, str]] = []  # of jobs whose pods go together: when, the job, the node
        self._unsaid: list[tuple[float, str, object, Document]] = []  # when, who, in which life, the victim
        self._look_again: deque[tuple[float, str, str, str]] = deque()  # when, at which node, who wrote what
        self._waiting: dict[str, float] = {}  # by uid: pods and Reservations without a node, when they last were so

    # -- commits ----------------------------------------------------------------------------------------------------

    def committed(self, resource: str, before: Document | None, after: Document | None, writer: str) -> None:
        """The truth has it already."""
        match resource:
            case "pods":
                self._pod(before, after, writer)
            case "nodes":
                self._node(before, after)
            case "leases.coordination.k8s.io":
                self._lease(after)
            case "reservations.scheduling.volcano.sh":
                self._reservation(before, after, writer)
            case "queues.scheduling.volcano.sh":
                self._locks()
            case "events" if after is not None:
                about = after["involvedObject"].get("uid")
                self._unsaid = [one for one in self._unsaid if uid(one[3]) != about]
        self._explain(resource, before, after)
        self._ask_why()
        while self._look_again and self._clock() > self._look_again[0][0]:
            self._has_room(*self._look_again.popleft()[1:], again=True)
        if writer and not resource.startswith(("leases", "events")):
            self._fence(writer, f"{resource} {name(after or before or {})}")

    def _lease(self, lease: Document | None) -> None:
        if lease is None or not name(lease).startswith("stromboli-"):
            return
        component, holder = name(lease).removeprefix("stromboli-"), lease["spec"].get("holderIdentity") or ""
        who = holder.rpartition("_")[0]
        self._renewed[who] = self._clock()
        if self._leaders.get(component, ("", 0.0))[0] != who:
            self._leaders[component] = (who, self._clock())

    def _fence(self, writer: str, what: str) -> None:
        component = writer.rpartition("-")[0]
        if component not in LEASED or component not in self._leaders:
            return
        leader, since = self._leaders[component]
        if leader and leader != writer and self._clock() - since > HAND_OVER:
            self._report("fence", f"{writer} wrote {what}, but {leader} has led for {self._clock() - since:.2f} s")
        unrenewed = self._clock() - self._renewed.get(writer, -LEASE)
        if unrenewed > LEASE + HAND_OVER:
            self._report("fence", f"{writer} wrote {what}, {unrenewed:.2f} s after it had renewed its lease")

    def _pod(self, before: Document | None, after: Document | None, writer: str) -> None:
        was = "" if before is None else before["spec"].get("nodeName", "")
        node = "" if after is None else after["spec"].get("nodeName", "")
        if after is not None and not node and not is_leaving(after) and not is_over(after):
            self._waiting[uid(after)] = self._clock()
        if was and node and was != node:
            self._report("one-node", f"pod {name(after or {})} moved from {was} to {node}")
        if after is not None and node and not was:
            self._waiting[uid(after)] = self._clock()
            self._has_room(node, writer, f"pod {name(after)} was bound")

    def _node(self, before: Document | None, after: Document | None) -> None:
        if after is None or before is None or _cpu(after) < _cpu(before):
            self._excused_nodes.add(name(after or before or {}))

    def _has_room(self, node: str, writer: str, what: str, *, again: bool = False) -> None:
        """What a pod leaves of a Reservation that serves once is given to others at once, and one of them may be bound
        before it is; then the node is looked at again."""
        known = self._truth.of("nodes").get(node)
        if known is None:
            if not self._truth.is_stale(writer, self._clock()) and node not in self._excused_nodes:
                self._report("room", f"{what} to {node}, which does not exist")
            return
        used = held = once = 0
        listed: dict[str, str] = {}  # uid of a pod: the Reservation that it uses
        for reservation in self._truth.of(RESERVATIONS).values():
            for user in reservation.get("status", {}).get("currentOwners") or ():
                listed[user["uid"]] = name(reservation)
        by_users: dict[str, int] = {}
        for pod in self._truth.pods(node):
            if not is_over(pod):
                used += cpu_of(pod)
                place = listed.get(uid(pod), "")
                by_users[place] = by_users.get(place, 0) + cpu_of(pod)
        for reservation in self._truth.of(RESERVATIONS).values():
            status = reservation.get("status", {})
            holds = status.get("phase") == "Available" and status.get("nodeName") == node
            if holds and not is_leaving(reservation) and not self._expires(reservation):
                amount = millicores(status.get("allocatable", {}).get("cpu", 0))
                rest = max(0, amount - by_users.get(name(reservation), 0))
                held += rest
                once += rest * bool(reservation["spec"].get("allocateOnce"))
        room = _cpu(known)
        if used + held <= room:
            if self._truth.calm:
                self._excused_nodes.discard(node)
            return
        if node not in self._excused_nodes and not self._truth.is_stale(writer, self._clock()):
            if used + held - once <= room and not again:
                self._look_again.append((self._clock() + USED, node, writer, what))
                return
            self._report("room", f"{what} by {writer}: {node} has {room} m, {used} m are used and {held} m are held")

    def _expires(self, reservation: Document) -> bool:
        """Whether its time is over by the clock of one of the machines."""
        ttl = seconds(reservation["spec"].get("ttl", "24h"))
        return ttl > 0 and self._clock() > time_of(reservation["metadata"]["creationTimestamp"]) + ttl - SKEW

    def _reservation(self, before: Document | None, after: Document | None, writer: str) -> None:
        if after is None:
            return
        status = after.get("status", {})
        was = {} if before is None else before.get("status", {})
        if status.get("phase") in ("", None, "Pending"):
            self._waiting[uid(after)] = self._clock()
        places = was.get("nodeName"), status.get("nodeName")
        if was.get("phase") == status.get("phase") == "Available" and places[0] != places[1]:
            self._report("held-once", f"{name(after)} is on {places[1]}, and was on {places[0]}")
        if was.get("phase") in ("Succeeded", "Expired", "Failed") and status.get("phase") != was.get("phase"):
            self._report("held-once", f"{name(after)} was {was.get('phase')} and is {status.get('phase')}")
        if status.get("phase") == "Available" and was.get("phase") != "Available":
            self._waiting[uid(after)] = self._clock()
            self._has_room(status.get("nodeName", ""), writer, f"{name(after)} is held")
        users = [user["uid"] for user in status.get("currentOwners") or ()]
        if after["spec"].get("allocateOnce") and users:
            running = {uid(pod) for pod in self._truth.pods() if pod["spec"].get("nodeName")}
            known = self._users.setdefault(uid(after), set())
            known.update(running & set(users))
            if len(known) > 1:
                self._report("used-once", f"{name(after)} was used by {len(known)} pods, one after the other")
        if status.get("phase") == "Available":
            here = (pod for pod in self._truth.pods(status["nodeName"]) if uid(pod) in users and not is_over(pod))
            used, most = sum(map(cpu_of, here)), millicores(status.get("allocatable", {}).get("cpu", 0))
            if used > most:
                self._report("used-once", f"pods that {name(after)} lists use {used} m, and it holds {most} m")

    def _locks(self) -> None:
        owners: dict[str, str] = {}
        for queue in self._truth.of("queues.scheduling.volcano.sh").values():
            for node in (queue.get("status", {}).get("reservation") or {}).get("nodes") or ():
                if node in owners:
                    self._report("locks", f"{node} is locked for {owners[node]} and for {name(queue)}")
                owners[node] = name(queue)

    # -- requests ---------------------------------------------------------------------------------------------------

    def arrives(self, who: str, what: str, request: Request) -> None:
        """Just before a request is handled."""
        if what == "POST pods/eviction":
            victim = self._truth.of("pods").get(_pod_key(request.path))
            if victim is not None and not is_leaving(victim):
                self._evicting = json.loads(json.dumps(victim))
        if what.startswith("DELETE pods") and not who.startswith(("controllers", "kubelets")):
            self._report("eviction", f"{who} deletes a pod without asking its budget")

    def handled(self, who: str, life: object, what: str, request: Request, response: Response) -> None:
        if what == "POST pods/binding":
            self._bind(who, life, request, response)
        victim, self._evicting = self._evicting, None
        if what == "POST pods/eviction" and response.status < 300 and victim is not None:
            self._eviction(who, victim)

    def _bind(self, who: str, life: object, request: Request, response: Response) -> None:
        pod = self._truth.of("pods").get(_pod_key(request.path))
        if pod is None:
            return
        asked = json.loads(request.body)["metadata"].get("uid")
        if response.status < 300:
            self._bound_by[uid(pod)] = life
        elif asked == uid(pod) and self._bound_by.get(uid(pod)) is life:
            self._report("bind-once", f"{who} binds {name(pod)} again, which it has bound")

    def _eviction(self, who: str, victim: Document) -> None:
        now, node = self._clock(), victim["spec"].get("nodeName", "")
        self._unsaid.append((now, who, self._life(who), victim))
        if who.startswith("descheduler"):
            self._move(who, victim)
        elif is_over(victim) or not node:
            if not self._truth.is_stale(who, now):
                self._report("eviction", f"{who} evicts {name(victim)}, which holds nothing")
        else:
            recent = [one for one, at in self._waiting.items() if now - at < PENDING and one != uid(victim)]
            waits = [pod for pod in self._truth.pods() if not pod["spec"].get("nodeName") and uid(pod) != uid(victim)]
            if not (recent or waits or self._truth.is_stale(who, now)):
                self._report("beneficiary", f"{who} evicts {name(victim)}, and nobody waits")
            self._ask_for_whom(now, node, who, victim)
        self._budget(who, victim)

    def _ask_for_whom(self, now: float, node: str, who: str, victim: Document) -> None:
        nodes, job = {node}, self._together(victim)
        if job:
            self._evicted = [one for one in self._evicted if now - one[0] <= TOGETHER] + [(now, job, node)]
            nodes |= {place for _, other, place in self._evicted if other == job}
            for one in self._unexplained:
                if one.job == job and now - one.at <= TOGETHER:
                    one.nodes.add(node)
        self._unexplained.append(_Unexplained(now, nodes, who, self._life(who), name(victim), job))
        nominated = set(self._nominated())
        self._unexplained = [one for one in self._unexplained if not one.nodes & nominated]

    def _together(self, victim: Document) -> str:
        """The job of the victim, if it goes as a whole: it ends or restarts with each pod, or it is a gang, whose other
        pods are no use to anybody."""
        owners = {owner["uid"] for owner in victim["metadata"].get("ownerReferences") or ()}
        for job in self._truth.of(JOBS).values():
            if uid(job) in owners:
                policies = job["spec"].get("policies") or ()
                events = {event for one in policies if one.get("action") in ALL_PODS
                          for event in (one.get("event"), *(one.get("events") or ()))}  # fmt: skip
                return uid(job) if events & {"PodEvicted", "*"} or job["spec"].get("minAvailable", 1) > 1 else ""
        return ""

    def _explain(self, resource: str, before: Document | None, after: Document | None) -> None:
        """Whoever is evicted makes room for somebody, and a restarted scheduler has to know for whom."""
        now = self._clock()
        had_node = resource == "pods" and before is not None and before["spec"].get("nodeName")
        if resource in ("pods", JOBS, RESERVATIONS) and (after is None or is_leaving(after)) and not had_node:
            self._unexplained.clear()  # it may be that the one whom it was for is gone
        elif resource in ("pods", RESERVATIONS) and after is not None and not had_node:
            status = after.get("status", {})
            node = status.get("nominatedNodeName") or status.get("nodeName") or after["spec"].get("nodeName")
            self._unexplained = [one for one in self._unexplained if node not in one.nodes]
        due = [one for one in self._unexplained if now - one.at > NOMINATES]
        self._unexplained = [one for one in self._unexplained if one not in due]
        for one in due:
            hindered = self._truth.is_stale(one.who, now) or self._truth.is_stale(f"{one.who} writes", now)
            if not hindered and self._life(one.who) is one.life:
                where = ", ".join(sorted(one.nodes))
                text = f"{one.who} evicted {one.victim} from {where} at {one.at:.2f}, and it is not written for whom"
                self._report("nominated", text)

    def _ask_why(self) -> None:
        """Whoever loses a pod can read the reason."""
        now = self._clock()
        while self._unsaid and now - self._unsaid[0][0] > SAYS:
            at, who, life, victim = self._unsaid.pop(0)
            hindered = self._truth.is_stale(who, now) or self._truth.is_stale(f"{who} says", now)
            if not hindered and self._life(who) is life:
                self._report("reason", f"{who} evicted {name(victim)} at {at:.2f}, and no event says why")

    def _nominated(self) -> Iterator[str]:
        for pod in self._truth.pods(""):
            yield pod.get("status", {}).get("nominatedNodeName") or ""
        for reservation in self._truth.of(RESERVATIONS).values():
            yield reservation.get("status", {}).get("nodeName") or ""

    def _move(self, who: str, victim: Document) -> None:
        for reservation in self._truth.of(RESERVATIONS).values():
            replaces = reservation["spec"].get("replaces") or {}
            if replaces.get("uid") == uid(victim) and reservation.get("status", {}).get("phase") == "Available":
                return
        self._report("move", f"{who} evicts {name(victim)}, and nothing is held for its successor")

    def _budget(self, who: str, victim: Document) -> None:
        labels = victim["metadata"].get("labels") or {}
        for budget in self._truth.of("poddisruptionbudgets.policy").values():
            wanted = budget["spec"]["selector"]["matchLabels"]
            if wanted.items() <= labels.items() and _is_ready(victim):
                healthy = sum(
                    _is_ready(pod) and not is_leaving(pod)
                    for pod in self._truth.pods()
                    if wanted.items() <= (pod["metadata"].get("labels") or {}).items()
                )
                if healthy < budget["spec"]["minAvailable"]:
                    self._report("budget", f"{who} evicts {name(victim)}: {healthy} are left of {wanted}")


def _cpu(node: Document) -> int:
    return millicores(node.get("status", {}).get("allocatable", {}).get("cpu", 0))


def _pod_key(path: str) -> str:
    parts = path.split("/")
    return f"{parts[4]}/{parts[6]}"


def _is_ready(pod: Document) -> bool:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
