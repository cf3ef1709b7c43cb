"""Each rule about the order of writes finds what breaks it, and nothing in what keeps to it."""

from __future__ import annotations

import json
from typing import Any

from stromboli.embedded.server import Request, Response
from stromboli.embedded.store import ObjectKey

from .checkers.at_once import LEASE, SAYS, AtOnce
from .checkers.at_rest import AtRest
from .checkers.claims import Claims
from .checkers.obeyed import Obeyed
from .checkers.order import Order
from .checkers.truth import Document, Truth

RESERVATIONS = "reservations.scheduling.volcano.sh"


class Book:
    """A checker, what it is told, and what it finds."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.found: list[str] = []
        self.now = 0.0
        self.lives: dict[str, object] = {}
        self.checkers: list[Any] = [
            Order(self.truth, self._report), Claims(self.truth, self._report),
            AtOnce(self.truth, lambda: self.now, self.lives.get, self._report),
        ]  # fmt: skip
        self.obeyed = Obeyed(self.truth, self.lives.get, self._report)
        self.checkers.append(self.obeyed)

    def _report(self, rule: str, text: str) -> None:
        self.found.append(rule)

    def put(self, resource: str, value: Document | None, writer: str = "", name: str = "") -> None:
        key = ObjectKey(resource, (value or {}).get("metadata", {}).get("namespace", ""), name or _name(value))
        before = self.truth.get(key)
        self.truth.apply(key, value)
        for checker in self.checkers:
            checker.committed(resource, before, value, writer)


def _name(value: Document | None) -> str:
    return str((value or {})["metadata"]["name"])


def pod(node: str = "", uses: str = "", **status: Any) -> Document:
    spec: Document = {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
    if node:
        spec["nodeName"] = node
    notes = {"scheduling.stromboli.io/reservation": uses} if uses else {}
    meta = {"name": "p", "uid": "pod", "namespace": "", "annotations": notes}
    return {"metadata": meta, "spec": spec, "status": status}


def reservation(phase: str, *users: str) -> Document:
    status = {"phase": phase, "currentOwners": [{"uid": user, "name": user} for user in users], "nodeName": "n"}
    meta = {"name": "r", "uid": "hold", "creationTimestamp": "2030-01-01T00:00:00Z"}
    return {"metadata": meta, "spec": {"allocateOnce": True}, "status": status}


def node(name: str) -> Document:
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": {"cpu": "4"}}}


def test_a_pod_is_listed_by_its_reservation_before_it_is_bound() -> None:
    for users, expected in (((), ["listed"]), (("pod",), [])):
        book = Book()
        book.put("nodes", node("n"))
        book.put(RESERVATIONS, reservation("Available", *users))
        book.put("pods", pod())
        book.put("pods", pod("n", "r/hold"))
        assert book.found == expected


def test_a_reservation_is_over_when_its_pod_is_bound() -> None:
    for was_bound, expected in ((False, ["released"]), (True, [])):
        book = Book()
        book.put("nodes", node("n"))
        book.put(RESERVATIONS, reservation("Available", "pod"))
        book.put("pods", pod("n" if was_bound else "", "r/hold"))
        book.put(RESERVATIONS, reservation("Succeeded", "pod"), "controllers-a")
        assert book.found == expected


def test_nothing_old_is_said_about_a_pod_with_a_node() -> None:
    book = Book()
    book.put("nodes", node("n"))
    book.put("pods", pod("n"))
    waits = [{"type": "PodScheduled", "status": "False"}]
    book.put("pods", pod("n", conditions=waits, nominatedNodeName="n"), "scheduler-a")
    assert book.found[:2] == ["old-status", "old-status"]


def test_who_writes_says_which_version_it_has_read() -> None:
    book = Book()
    order = book.checkers[0]
    for version in ("7", ""):
        body = {"metadata": {"resourceVersion": version}, "status": {}}
        order.arrives("controllers-a", "PATCH jobs/status", Request("PATCH", "/x", {}, {}, json.dumps(body).encode()))
        assert book.found == ([] if version else ["version"])


def test_nobody_writes_after_its_lease_has_run_out() -> None:
    book = Book()
    lease = {"metadata": {"name": "stromboli-scheduler"}, "spec": {"holderIdentity": "scheduler-a_1"}}
    book.put("leases.coordination.k8s.io", lease, "scheduler-a")
    book.now = LEASE
    book.put("priorityclasses", node("x"), "scheduler-a")
    assert book.found == []
    book.now = LEASE + 2
    book.put("priorityclasses", node("x"), "scheduler-a")
    assert book.found == ["fence"]


def test_an_event_says_why_a_pod_was_evicted() -> None:
    path = "/api/v1/namespaces/ns/pods/p/eviction"
    victim = pod("n", phase="Running")
    victim["metadata"]["namespace"] = "ns"
    event = {"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"uid": "pod"}, "reason": "Preempted"}
    for is_said, expected in ((False, ["reason"]), (True, [])):
        book = Book()
        book.put("nodes", node("n"))
        waits = {**pod(), "metadata": {"name": "w", "uid": "w", "namespace": "ns"}}
        book.put("pods", {**waits, "status": {"nominatedNodeName": "n"}})
        book.put("pods", victim)
        at_once = book.checkers[2]
        at_once.arrives("scheduler-a", "POST pods/eviction", Request("POST", path, {}, {}, b"{}"))
        at_once.handled(
            "scheduler-a", None, "POST pods/eviction", Request("POST", path, {}, {}, b"{}"), Response(201, b"")
        )
        if is_said:
            book.put("events", event, "scheduler-a")
        book.now = SAYS + 1
        book.put("priorityclasses", node("x"))
        assert book.found == expected


def test_a_pod_is_bound_after_its_claims_and_where_they_are() -> None:
    claim = {"metadata": {"name": "data", "uid": "c"}, "spec": {"volumeName": "disk"}}
    where = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["n"]}]}]}
    disk = {"metadata": {"name": "disk"}, "spec": {"claimRef": {"uid": "c"}, "nodeAffinity": {"required": where}}}
    for volume, place, expected in ((disk, "n", []), (disk, "m", ["volumes"]), (None, "n", ["volumes"])):
        book = Book()
        for each in "nm":
            book.put("nodes", node(each))
        book.put("persistentvolumeclaims", {**claim, "metadata": {**claim["metadata"], "namespace": "ns"}})
        if volume is not None:
            book.put("persistentvolumes", volume)
        bound = pod(place)
        bound["metadata"]["namespace"] = "ns"
        book.put("pods", bound, "scheduler-a")
        assert book.found == expected


def test_a_volume_is_given_to_one_claim() -> None:
    book = Book()
    for owner in ("c", "d"):
        book.put("persistentvolumes", {"metadata": {"name": "disk"}, "spec": {"claimRef": {"uid": owner}}})
    assert book.found == ["volumes"]


def test_a_command_that_was_claimed_is_obeyed_unless_its_claimant_ended() -> None:
    command = {"metadata": {"name": "c", "uid": "u"}, "action": "ResumeJob", "target": {"uid": "j"}}
    job = {"metadata": {"name": "j", "uid": "j"}, "status": {"state": {"phase": "Aborted"}}}
    for obeys, ends, expected in ((False, False, ["obeyed"]), (True, False, []), (False, True, [])):
        book = Book()
        book.lives["controllers-a"] = "first"
        book.put("jobs.batch.volcano.sh", job)
        book.put("commands.bus.volcano.sh", command)
        book.put("commands.bus.volcano.sh", None, "controllers-a", name="c")
        if obeys:
            book.put("jobs.batch.volcano.sh", {**job, "status": {"state": {"phase": "Pending"}}}, "controllers-a")
        if ends:
            book.lives["controllers-a"] = "second"
        book.obeyed.compare()
        assert book.found == expected


def member(name: str, phase: str, **meta: Any) -> Document:
    notes = {"scheduling.k8s.io/group-name": "g"}
    meta |= {"name": name, "uid": name, "namespace": "ns", "annotations": notes, "ownerReferences": [{"uid": "j"}]}
    spec = {"nodeName": "n" if phase != "Pending" else ""}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def at_rest(resources: dict[str, list[Document]]) -> list[str]:
    truth = Truth()
    for resource, values in resources.items():
        for value in values:
            truth.apply(ObjectKey(resource, value["metadata"].get("namespace", ""), _name(value)), value)
    return [text for _, text in AtRest(truth).check([], {})]


def test_a_group_does_not_count_pods_that_are_leaving_as_running() -> None:
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 1}, "status": {"running": 1, "phase": "Running"}}
    pods = [member("a", "Running"), member("b", "Running", deletionTimestamp="2030-01-01T00:00:00Z")]
    assert at_rest({"podgroups.scheduling.volcano.sh": [group], "pods": pods}) == ["b is still being deleted"]
    assert at_rest({"podgroups.scheduling.volcano.sh": [group], "pods": [*pods[:1], member("c", "Running")]}) == [
        "group g says 1 Running, and has 2"
    ]


def test_a_job_waits_in_the_end_only_if_its_gang_can_never_be_whole() -> None:
    """The minimum is 2. With one pod failed and one pending there will never be two."""
    status = {"state": {"phase": "Pending"}, "pending": 1}
    job = {"metadata": {"name": "j", "uid": "j"}, "spec": {"tasks": [{"replicas": 2}]}}
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 2}, "status": {"phase": "Inqueue"}}
    for other, expected in (("Failed", []), ("Running", ["b has no node", "group g has 1", "job j is Pending"])):
        said = {other.lower(): 1}
        found = at_rest({
            "jobs.batch.volcano.sh": [{**job, "status": status | said}],
            "podgroups.scheduling.volcano.sh": [{**group, "status": group["status"] | said}],
            "pods": [member("a", other), member("b", "Pending")],
        })  # fmt: skip
        assert [text.startswith(begin) for text, begin in zip(found, expected, strict=True)] == [True] * len(expected)


def test_a_reservation_that_serves_once_is_used_by_one_pod() -> None:
    """Two may be listed for a moment, when another one goes first than was meant to. Only one may ever be bound."""
    users = [{**pod(), "metadata": {"name": each, "uid": each, "namespace": ""}} for each in "ab"]
    for bound, expected in (("", []), ("a", []), ("ab", ["used-once"])):
        book = Book()
        book.put("nodes", node("n"))
        for each in users:
            spec = {**each["spec"], "nodeName": "n" if _name(each) in bound else ""}
            book.put("pods", {**each, "spec": spec})
        book.put(RESERVATIONS, reservation("Available", "a", "b"))
        assert book.found == expected
    assert at_rest({RESERVATIONS: [reservation("Available", "a", "b")], "pods": users})[-1:] == [
        "r serves once, and lists several pods"
    ]
