"""How pods go: eviction, grace, deletion, and what goes with them."""

from pathlib import Path

from simulation.scenario_runner import SCENARIOS, FirstFit, happened, run, run_text


def test_without_grace_the_room_of_an_evicted_pod_is_free_in_the_next_cycle(tmp_path: Path) -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: old}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
    report = run_text(tmp_path, text, scheduler=FirstFit({2.0: ["default/old"]}), until=5)
    assert happened(report, "Evicted", "Bound") == [(2.0, "Evicted", "default/old"), (3.0, "Bound", "default/new")]
    old = report["pods"]["default/old"]
    assert (old["phase"], old["node"], old["bound"], old["finished"]) == ("Evicted", "n1", 0.0, 2.0)
    assert (old["reason"], old["message"]) == ("Preempted", "The test wants it.")
    assert not any(group.startswith("default/podgroup") and told["running"] == 0 and told["pending"] == 0
                   for group, told in report["podGroups"].items())  # fmt: skip


def test_with_grace_the_room_is_taken_until_the_pod_is_gone() -> None:
    # Evicted at 2 with a grace of 3: gone at 5, and the other one is bound in that cycle.
    report = run("one-node", "grace", scheduler=FirstFit({2.0: ["ns1/slow"]}), until=8)
    assert happened(report, "Evicted", "Bound") == [(2.0, "Evicted", "ns1/slow"), (5.0, "Bound", "ns1/next")]
    assert report["pods"]["ns1/slow"]["finished"] == 5.0


def test_while_it_is_leaving_its_room_counts_on_the_node_but_not_in_its_queue() -> None:
    report = run("one-node", "grace", scheduler=FirstFit({2.0: ["ns1/slow"]}), until=4)
    assert report["pods"]["ns1/slow"]["phase"] == "Evicted"
    assert report["pods"]["ns1/slow"]["finished"] is None
    assert report["nodes"]["n1"]["used"]["cpu"] == "4"
    assert report["queues"]["default"]["allocated"] == {}


def test_a_pod_that_is_leaving_does_not_finish(tmp_path: Path) -> None:
    # It would end at 4, but was evicted at 2 and is gone at 5.
    text = (
        (SCENARIOS / "grace.yaml")
        .read_text(encoding="utf-8")
        .replace("grace: 3s", "grace: 3s, sim.stromboli.io/run: 4s")
    )
    node = (SCENARIOS / "one-node.yaml").read_text(encoding="utf-8")
    report = run_text(tmp_path, f"{node}---\n{text}", scheduler=FirstFit({2.0: ["ns1/slow"]}))
    assert happened(report, "Finished") == [(6.0, "Finished", "ns1/next")]
    assert (report["pods"]["ns1/slow"]["phase"], report["pods"]["ns1/slow"]["finished"]) == ("Evicted", 5.0)


def test_a_deleted_pod_gets_its_grace_too(tmp_path: Path) -> None:
    text = (
        (SCENARIOS / "grace.yaml")
        .read_text(encoding="utf-8")
        .replace("sim.stromboli.io/grace: 3s", "sim.stromboli.io/grace: 3s, sim.stromboli.io/until: 4s")
    )
    node = (SCENARIOS / "one-node.yaml").read_text(encoding="utf-8")
    report = run_text(tmp_path, f"{node}---\n{text}")
    assert happened(report, "Deleted", "Bound") == [(4.0, "Deleted", "ns1/slow"), (7.0, "Bound", "ns1/next")]
    assert (report["pods"]["ns1/slow"]["phase"], report["pods"]["ns1/slow"]["reason"]) == ("Failed", "Deleted")


def test_a_replica_is_replaced_one_second_later_under_a_new_name() -> None:
    # One of three is there already; web-0 and web-1 are made. web-0 goes at 1, so web-2 comes at 2.
    report = run("one-node", "replicas", scheduler=FirstFit({1.0: ["ns1/web-0"]}))
    assert happened(report, "Submitted", "Evicted") == [
        (0.0, "Submitted", "ns1/adopted"),
        (0.0, "Submitted", "ns1/web-0"),
        (0.0, "Submitted", "ns1/web-1"),
        (1.0, "Evicted", "ns1/web-0"),
        (2.0, "Submitted", "ns1/web-2"),
    ]
    assert report["pods"]["ns1/web-2"]["bound"] == 2.0
    assert len({report["pods"][name]["podGroup"] for name in ("ns1/adopted", "ns1/web-1", "ns1/web-2")}) == 1


def test_a_set_that_is_deleted_takes_its_pods_along(tmp_path: Path) -> None:
    base = SCENARIOS
    replicas = (base / "replicas.yaml").read_text(encoding="utf-8")
    deleted = replicas.replace(
        "metadata: {name: web, namespace: ns1}",
        "metadata: {name: web, namespace: ns1, annotations: {sim.stromboli.io/until: 6s}}",
    )
    assert deleted != replicas
    report = run_text(tmp_path, (base / "one-node.yaml").read_text(encoding="utf-8") + "---\n" + deleted)
    assert happened(report, "Deleted") == [
        (6.0, "Deleted", "ns1/adopted"), (6.0, "Deleted", "ns1/web-0"), (6.0, "Deleted", "ns1/web-1"),
    ]  # fmt: skip
    assert report["nodes"]["n1"]["used"]["cpu"] == "0"
    assert report["podGroups"] == {}


def test_pods_are_lost_with_their_node(tmp_path: Path) -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {sim.stromboli.io/until: 3s}}
status: {allocatable: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
    report = run_text(tmp_path, text)
    assert (report["pods"]["default/p"]["phase"], report["pods"]["default/p"]["reason"]) == ("Evicted", "NodeLost")
    assert report["nodes"] == {}


def test_a_namespace_takes_everything_in_it(tmp_path: Path) -> None:
    text = """
apiVersion: v1
kind: Namespace
metadata: {name: ns1, annotations: {sim.stromboli.io/until: 3s}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns1}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns2}
spec: {containers: [{name: c}]}
"""
    report = run_text(tmp_path, text)
    assert happened(report, "Deleted") == [(3.0, "Deleted", "ns1/p")]
