"""What Reservations hold, as the scheduler derives it from objects, binds in flight and decisions not yet written."""

from __future__ import annotations

from typing import Any

import pytest

from builders import session
from reservations.reservation_scenes import Document, configuration
from stromboli.api import KObject, Pod, decode
from stromboli.cluster import Applied, BindFailed, Cluster, Deleted, ReservationWriteFailed, TaskKey
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, DropUsers, PatchReservation
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.reservations import ReservedRoom

ANNOTATION = "scheduling.stromboli.io/reservation"


def obj(document: Document) -> KObject:
    return decode(document)


def node(name: str, cpu: int = 4) -> KObject:
    status = {"allocatable": {"cpu": cpu}}
    return obj({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})


def held(
    name: str = "r", cpu: int = 4, *, phase: str = "Available", on: str = "n1", uid: str = "",
    lists: tuple[str, ...] = (), **spec: Any,
) -> Any:  # fmt: skip
    """A Reservation that has its node, or none. `lists`: the pods whose use is proved."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    status: Document
    status = {"phase": phase, "nodeName": on, "allocatable": {"cpu": str(cpu), "pods": "1"}} if on else {"phase": phase}
    if lists:
        status["currentOwners"] = [{"namespace": "default", "name": one, "uid": f"uid-{one}"} for one in lists]
    return obj(
        {
            "apiVersion": "scheduling.volcano.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name, "uid": uid or f"uid-{name}"},
            "spec": {
                "template": {"spec": {"containers": [container]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
                "ttl": "0",
                **spec,
            },
            "status": status,
        }
    )


def pod(name: str, cpu: int = 1, *, on: str = "", uses: str = "", uid: str = "", leaving: bool = False) -> Pod:
    notes = {"scheduling.k8s.io/group-name": name, **({ANNOTATION: uses} if uses else {})}
    meta: Document = {"name": name, "uid": uid or f"uid-{name}", "labels": {"app": "web"}, "annotations": notes}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    found = obj(
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec,
            "status": {"phase": "Running" if on else "Pending"},
        }
    )  # fmt: skip
    assert isinstance(found, Pod)
    return found


def group(name: str) -> KObject:
    return obj(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"minMember": 1}, "status": {"phase": "Inqueue"},
        }
    )  # fmt: skip


def cluster(*objects: KObject) -> Cluster:
    made = Cluster()
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    for each in (obj(queue), *objects):
        made.apply(Applied(each))
    return made


def on_node(known: Cluster, name: str = "n1") -> tuple[int, int]:
    """(CPUs that pods use, CPUs that are held)"""
    table = known.snapshot().nodes
    known.validate()
    row, cpu = table.by_name[name].row, known.axis.index["cpu"]
    in_all, kept = int(table.used[row, cpu]), int(table.held[row, cpu])
    return (in_all - kept) // 1000, kept // 1000


def decisions(known: Cluster) -> list[Any]:
    registry = Registry()
    scheduler = Scheduler(registry.load(configuration(), where="scheduler.yaml"), registry)
    return scheduler.run(known, 1e9).decisions


def test_an_owner_is_counted_once() -> None:
    """A Reservation of 4 with a pod of 1: the node has 4 CPUs in use, not 5."""
    known = cluster(node("n1", 8), held(lists=("p",)), pod("p", on="n1"))
    assert on_node(known) == (1, 3)


def test_the_list_and_the_pod_come_in_any_order() -> None:
    known = cluster(node("n1", 8), held(), pod("p", on="n1"))
    assert on_node(known) == (1, 4)
    known.apply(Applied(held(lists=("p",))))
    assert on_node(known) == (1, 3)
    known.apply(Applied(held()))
    assert on_node(known) == (1, 4)


def test_a_listed_pod_on_another_node_is_no_owner() -> None:
    known = cluster(node("n1"), node("n2"), held(lists=("p",)), pod("p", on="n2"))
    assert on_node(known) == (0, 4)
    assert on_node(known, "n2") == (1, 0)


def test_what_a_pod_says_about_itself_is_no_proof() -> None:
    known = cluster(node("n1", 8), held(), pod("p", on="n1", uses="r/uid-r"))
    assert on_node(known) == (1, 4)


def test_a_pod_of_the_name_of_a_listed_one_is_no_owner() -> None:
    known = cluster(node("n1", 8), held(lists=("p",)), pod("p", on="n1", uid="another"))
    assert on_node(known) == (1, 4)


def drops(known: Cluster) -> list[tuple[list[str], list[str]]]:
    """The names of pods that are to be removed from a list, and of those of which nobody knows."""
    found = [one for one in decisions(known) if isinstance(one, DropUsers)]
    return [([user.name for user in one.pods], [user.name for user in one.unseen]) for one in found]


def test_who_is_listed_and_has_no_node_is_decided_about_anew() -> None:
    """The scheduler was killed after it had listed the pods, before it had bound them. The one that still may use the
    Reservation gets the place again, the one of another label does not."""
    other = pod("q", 2)
    other.metadata.labels["app"] = "db"
    known = cluster(node("n1", 8), held(lists=("p", "q")), group("p"), group("q"), pod("p", 3), other)
    assert on_node(known) == (0, 4)
    made = decisions(known)
    assert {one.task: one.reservation for one in made if isinstance(one, Bind)} == {
        "default/p": "r/uid-r", "default/q": "",
    }  # fmt: skip
    assert [one.pods[0].name for one in made if isinstance(one, DropUsers)] == ["q"]
    assert on_node(known) == (5, 1)


@pytest.mark.parametrize("also", [False, True])
def test_a_user_that_is_spared_keeps_its_reservation(also: bool) -> None:
    """The Reservation of a user that is evicted goes with it: nothing would be free otherwise. Who is spared takes it
    back, whoever else was evicted after it."""
    known = cluster(node("n1", 8), group("p"), group("q"), held(lists=("p",)), pod("p", on="n1"), pod("q", on="n1"))
    current = session(known, tiers=[["gang"]])
    row = current.nodes.by_name["n1"].row

    def kept() -> list[int]:
        return [int(amount) for amount in current.nodes.held[row]]

    before, statement = kept(), current.statement()
    user, other = (known.tasks[TaskKey(f"default/{name}")] for name in ("p", "q"))
    statement.evict(user, reason="Preempted", message="for somebody")
    if also:
        statement.evict(other, reason="Preempted", message="for somebody")
    assert any(before)
    assert not any(kept())
    statement.spare(user)
    assert kept() == before
    assert len(statement) == also
    statement.discard()
    assert kept() == before
    known.validate()


def test_who_is_listed_and_gone_is_removed() -> None:
    """The one that nobody knows may be new: whoever removes it has to look."""
    ended = pod("ended", on="n1")
    ended.status.phase = "Succeeded"
    known = cluster(node("n1", 8), held(lists=("ended", "moved", "p", "unknown")), ended, pod("p", on="n1"))
    known.apply(Applied(node("n2")))
    known.apply(Applied(pod("moved", on="n2")))
    assert drops(known) == [(["ended", "moved"], ["unknown"])]


def test_a_bind_that_fails_gives_everything_back() -> None:
    known = cluster(node("n1"), held(), group("p"), pod("p", 3))
    [bind] = [one for one in decisions(known) if isinstance(one, Bind)]
    assert bind.reservation == "r/uid-r"
    assert on_node(known) == (3, 1)
    known.apply(BindFailed(TaskKey("default/p")))
    assert on_node(known) == (0, 4)


def test_a_bind_without_an_answer_that_happened() -> None:
    """The pod is listed and has its node: nothing changes."""
    known = cluster(node("n1"), held(), group("p"), pod("p", 3))
    decisions(known)
    known.apply(Applied(held(lists=("p",))))
    assert on_node(known) == (3, 1)
    known.apply(Applied(pod("p", 3, on="n1")))
    assert on_node(known) == (3, 1)


def test_a_pod_is_deleted_and_created_again_unseen() -> None:
    known = cluster(node("n1", 8), held(lists=("p",)), pod("p", 3, on="n1"))
    known.apply(Applied(pod("p", 1, on="n1", uid="another")))
    assert on_node(known) == (1, 4), "the new one is not listed"


def test_one_for_a_single_pod_is_not_used_twice_while_its_status_is_old() -> None:
    known = cluster(node("n1"), held(allocateOnce=True), group("p"), group("q"), pod("p", 1), pod("q", 1))
    binds = [one for one in decisions(known) if isinstance(one, Bind)]
    assert sorted(one.reservation for one in binds) == ["", "r/uid-r"]
    assert on_node(known) == (2, 0)


def test_it_moves_to_another_node() -> None:
    known = cluster(node("n1"), node("n2"), held())
    assert (on_node(known), on_node(known, "n2")) == ((0, 4), (0, 0))
    known.apply(Applied(held(on="n2")))
    assert (on_node(known), on_node(known, "n2")) == ((0, 0), (0, 4))


def test_a_successor_of_its_name() -> None:
    known = cluster(node("n1"), held(lists=("p",)), pod("p", 1, on="n1"))
    known.apply(Applied(held(cpu=2, uid="new")))
    assert on_node(known) == (1, 2)
    known.apply(Deleted(held(cpu=2, uid="new")))
    assert on_node(known) == (1, 0)


def test_what_a_terminating_pod_leaves_returns() -> None:
    known = cluster(node("n1"), held(lists=("p",)), pod("p", 3, on="n1", leaving=True))
    assert on_node(known) == (3, 1)
    future = known.snapshot().nodes.future_idle_of(0)
    assert int(future[known.axis.index["cpu"]]) == 0, "it is promised to the Reservation"
    known.apply(Deleted(pod("p", 3, on="n1")))
    assert on_node(known) == (0, 4)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_node_that_is_too_small_serves_older_ones_first(order: tuple[str, str]) -> None:
    known = cluster(node("n1", 5), *(held(name, 4) for name in order))
    assert on_node(known) == (0, 5)
    assert {name: int(one.remainder[known.axis.index["cpu"]]) for name, one in known.ledger.holdings.items()} == {
        "a": 4000, "b": 1000,
    }  # fmt: skip


def test_its_node_comes_later() -> None:
    known = cluster(held())
    known.snapshot()
    known.apply(Applied(node("n1")))
    assert on_node(known) == (0, 4)


def test_what_is_decided_counts_until_it_is_written_or_fails() -> None:
    waiting = held(phase="Pending", on="")
    known = cluster(node("n1"), waiting)
    [patch] = [one for one in decisions(known) if isinstance(one, PatchReservation)]
    assert (patch.phase, patch.node) == ("Available", "n1")
    assert on_node(known) == (0, 4)
    known.apply(Applied(waiting))  # an old version
    assert on_node(known) == (0, 4)
    known.apply(ReservationWriteFailed("r"))
    assert on_node(known) == (0, 0)
    assert any(isinstance(one, PatchReservation) for one in decisions(known)), "it is decided again"


def test_a_replaced_pod_pays() -> None:
    """A Reservation that replaces a running pod costs nobody, until the pod is gone."""
    replaces = {"namespace": "default", "name": "old", "uid": "uid-old"}
    known = cluster(node("n1", 8), group("old"), pod("old", 4, on="n1"), held(replaces=replaces))
    known.snapshot()
    queue, cpu = known.queues[next(iter(known.queues))], known.axis.index["cpu"]
    assert int(queue.allocated[cpu]) == 4000
    known.apply(Deleted(pod("old", 4, on="n1")))
    known.snapshot()
    assert int(queue.allocated[cpu]) == 4000


def test_many_at_once_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that are alike are placed together; the outcome is that of placing them one after the other."""

    def binds() -> list[tuple[str, str, str]]:
        objects: list[KObject] = [node(f"n{number}", 6) for number in range(4)]
        objects += [held(f"r{number}", 1 + number, on=f"n{number}", allocateOnce=number == 2) for number in range(4)]
        objects += [obj({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
            "spec": {"minMember": 9}, "status": {"phase": "Inqueue"},
        })]  # fmt: skip
        for number in range(9):
            member = pod(f"g-{number}", 1)
            member.metadata.annotations["scheduling.k8s.io/group-name"] = "g"
            objects.append(member)
        known = cluster(*objects)
        made = sorted((d.task, d.node, d.reservation) for d in decisions(known) if isinstance(d, Bind))
        known.snapshot()
        known.validate()
        return made

    together = binds()
    assert sum(bool(reservation) for _, _, reservation in together) == 1 + 2 + 1 + 4
    monkeypatch.setattr(ReservedRoom, "place_many", lambda self, statement, tasks: 0)
    assert binds() == together
