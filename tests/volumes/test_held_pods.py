"""What is recorded of pods whose binds wait for volumes: their nomination, and why they wait."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from builders import established, group, node, queue
from builders import pod as plain_pod
from stromboli.api import Condition, KObject, Pod, PodStatus, decode, names
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Cluster
from stromboli.cluster.events import Applied
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, PatchPod, SelectNode
from stromboli.scheduling.registry import Registry
from volumes.volume_scenes import Document, claim, storage_class

SENTENCE = "Waiting for the volumes of default/{0}; {1} is kept for the pod meanwhile."


def obj(document: Document) -> KObject:
    meta = {"namespace": "default", "uid": document["metadata"]["name"], **document["metadata"]}
    found = decode({**document, "metadata": meta})
    assert isinstance(found, KObject)
    return found


def member(name: str, claims: int = 1, status: PodStatus | None = None) -> Pod:
    """A pod of the gang, with claims `<name>`, `<name>-1`, …"""
    found = plain_pod(name, cpu=1, group="gang")
    for number in range(claims):
        source = {"claimName": f"{name}-{number}" if number else name}
        found.spec.volumes.append({"name": f"v{number}", "persistentVolumeClaim": source})
    return found if status is None else replace(found, status=status)


def known(*pods: Pod, nodes: int = 1, selected: Mapping[str, float] | None = None) -> Cluster:
    """Nodes with 4 CPUs, and a gang of these pods with their claims. `selected`: claims for which n0 is selected, and
    since when."""
    found = Cluster()
    claims = [claim(one["persistentVolumeClaim"]["claimName"]) for pod in pods for one in pod.spec.volumes]
    for one in claims:
        since = (selected or {}).get(one["metadata"]["name"])
        if since is not None:
            one["metadata"]["annotations"] |= {names.SELECTED_NODE: "n0", names.SELECTED_AT: format_timestamp(since)}
    gang = group("gang", min_member=len(pods), phase="Inqueue")
    machines = [node(f"n{number}", cpu=4, memory="64Gi") for number in range(nodes)]
    objects = [*machines, queue("default"), gang, *map(obj, [storage_class(), *claims]), *pods]
    for position, one in enumerate(objects):
        found.apply(Applied(established(one, position)))
    return found


def run(cluster: Cluster, now: float = 1000.0) -> Cycle:
    registry = Registry()
    return Scheduler(registry.default(), registry).run(cluster, now)


def patches(cycle: Cycle) -> dict[str, tuple[str, str]]:
    """What is written to pods, in the order of the decisions."""
    found = [one for one in cycle.decisions if isinstance(one, PatchPod)]
    return {one.task: (one.message, one.nominated) for one in found}


def says(message: str, nominated: str) -> PodStatus:
    condition = Condition(type="PodScheduled", status="False", message=message)
    return PodStatus(phase="Pending", conditions=[condition], nominated_node_name=nominated)


def test_each_pod_of_a_gang_says_what_it_waits_for() -> None:
    own = [f"p{number}" for number in (0, 1, 2, 10)]
    cycle = run(known(*map(member, own)))
    expected = {f"default/{name}": (SENTENCE.format(name, "n0"), "n0") for name in sorted(own)}
    assert list(patches(cycle).items()) == list(expected.items())
    assert [(key, why.message) for key, why in cycle.waiting.items()] == [(key, expected[key][0]) for key in expected]
    (why,) = cycle.reasons.values()
    assert why.message == (
        "Waiting for the volumes of default/p0, default/p1, default/p10 and 1 more; n0 is kept for the pod meanwhile."
    )


def test_pods_with_one_claim_and_with_several() -> None:
    cycle = run(known(member("one"), member("two", claims=2), member("none", claims=0)))
    mates = "Waiting for the volumes of pods that must start together with this one; n0 is kept meanwhile."
    both = "Waiting for the volumes of default/two, default/two-1; n0 is kept for the pod meanwhile."
    assert patches(cycle) == {
        "default/none": (mates, "n0"), "default/one": (SENTENCE.format("one", "n0"), "n0"), "default/two": (both, "n0"),
    }  # fmt: skip


def test_what_a_pod_says_already_is_not_written_again() -> None:
    said = SENTENCE.format("p", "n0")
    cases = {
        "the same": says(said, "n0"),
        "another sentence": says("Something else.", "n0"),
        "another node": says(said, "n7"),
        "no node": says(said, ""),
        "another condition": PodStatus(conditions=[Condition(type="Ready", message=said)], nominated_node_name="n0"),
        "nothing": PodStatus(),
    }
    written = {case: patches(run(known(member("p", status=status)))) for case, status in cases.items()}
    assert written.pop("the same") == {}
    assert all(one == {"default/p": (said, "n0")} for one in written.values())


def test_it_is_written_again_once_the_pod_says_something_else() -> None:
    cluster = known(member("p"))
    said = SENTENCE.format("p", "n0")
    assert patches(run(cluster)) == {"default/p": (said, "n0")}
    pod = cluster.tasks["default/p"].pod  # type: ignore[index]
    for status, written in ((says(said, "n0"), {}), (says("Other.", "n0"), {"default/p": (said, "n0")})):
        cluster.apply(Applied(replace(pod, status=status)))
        assert patches(run(cluster, 1001.0)) == written


def test_held_pods_are_nominated_but_nobody_is_evicted_for_them() -> None:
    cluster = known(*[member(f"p{number}") for number in range(3)])
    cycle = run(cluster)
    assert sum(isinstance(one, SelectNode) for one in cycle.decisions) == 3
    assert [task.nominated for task in cluster.tasks.values()] == ["n0"] * 3
    assert cluster.ledger.nominated == {}
    assert cluster.ledger.any_nominated


def test_after_a_restart_pods_are_held_where_they_are_nominated() -> None:
    # n0 comes first; only the nomination leads to n1.
    status = PodStatus(phase="Pending", nominated_node_name="n1")
    cluster = known(*[member(f"p{number}", status=status) for number in range(3)], nodes=2)
    assert len(cluster.ledger.nominated) == 3
    run(cluster)
    assert {held.node for held in cluster.ledger.held.values()} == {"n1"}
    assert cluster.ledger.nominated == {}
    for key in list(cluster.ledger.held):
        cluster.ledger.release(cluster.tasks[key])
    assert not cluster.ledger.any_nominated
    assert not any(task.nominated for task in cluster.tasks.values())


def test_the_wait_of_a_gang_began_with_its_first_claim() -> None:
    cycle = run(known(member("p0"), member("p1"), selected={"p1": 900.0}))
    assert [one.claim for one in cycle.decisions if isinstance(one, SelectNode)] == ["default/p0"]
    assert cycle.next_due == 900 + 600


def test_if_all_was_settled_before_the_next_cycle_comes_at_once() -> None:
    cycle = run(known(member("p0"), member("p1"), selected={"p0": 990.0, "p1": 900.0}))
    assert not any(isinstance(one, SelectNode) for one in cycle.decisions)
    assert cycle.next_due == 1000


def test_without_claims_pods_are_bound_at_once() -> None:
    cluster = known(*[member(f"p{number}", claims=0) for number in range(3)])
    assert sum(isinstance(one, Bind) for one in run(cluster).decisions) == 3
    assert not cluster.ledger.any_nominated
