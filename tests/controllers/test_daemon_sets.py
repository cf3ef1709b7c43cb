"""DaemonSets: which nodes get a pod, and how pods of a new template come there."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from builders import node
from controllers.fake_cluster import FakeCluster, template
from stromboli.api import (
    Affinity,
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    RollingUpdateDaemonSet,
    Taint,
    Toleration,
)
from stromboli.api.kinds.apps import Amount


def daemons(**spec: Any) -> DaemonSet:
    return DaemonSet(
        metadata=ObjectMeta(name="log", namespace="ns", generation=1),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels={"app": "log"}), template=template(labels={"app": "log"}), **spec
        ),
    )


def rolling(*, unavailable: Amount | None = None, surge: Amount | None = None) -> DaemonSetUpdateStrategy:
    update = RollingUpdateDaemonSet(max_unavailable=unavailable, max_surge=surge)
    return DaemonSetUpdateStrategy(type="RollingUpdate", rolling_update=update)


def nodes(number: int) -> list[Node]:
    return [node(f"n{one}", cpu=4) for one in range(number)]


def present(cluster: FakeCluster) -> DaemonSet:
    found = cluster.get(DaemonSet, "ns/log")
    assert found is not None
    return found


def change(cluster: FakeCluster, version: str) -> None:
    now = present(cluster)
    changed = template(labels={"app": "log"}, annotations={"version": version})
    metadata = replace(now.metadata, generation=now.metadata.generation + 1)
    cluster.put(replace(now, metadata=metadata, spec=replace(now.spec, template=changed)))
    cluster.settle()


def target(one: Pod) -> str:
    """The node that a pod is for."""
    assert one.spec.affinity is not None
    assert one.spec.affinity.node_affinity is not None
    required = one.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    (term,) = required.node_selector_terms
    (field,) = term.match_fields
    assert (field.key, field.operator, term.match_expressions) == ("metadata.name", "In", [])
    return field.values[0]


def start(cluster: FakeCluster, *pods: Pod) -> None:
    """A scheduler puts pods where they are for, and they run; all unless some are given."""
    for one in pods or list(cluster.list(Pod)):
        if one.status.phase == "Pending" and one.metadata.deletion_timestamp is None:
            bound = replace(one, spec=replace(one.spec, node_name=target(one)))
            cluster.put(replace(bound, status=replace(one.status, phase="Running")))
    cluster.settle()


def places(cluster: FakeCluster) -> list[str]:
    return sorted(one.spec.node_name or target(one) for one in cluster.list(Pod))


def versions(cluster: FakeCluster) -> dict[str, list[str]]:
    """Of the pods on each node."""
    found: dict[str, list[str]] = {}
    for one in cluster.list(Pod):
        found.setdefault(target(one), []).append(one.metadata.annotations.get("version", ""))
    return {name: sorted(several) for name, several in sorted(found.items())}


def test_each_node_gets_a_pod_that_is_for_it() -> None:
    cluster = FakeCluster(*nodes(3), daemons())
    cluster.settle()
    assert places(cluster) == ["n0", "n1", "n2"]
    assert cluster.names(Pod) == ("log-0", "log-1", "log-2")
    start(cluster)
    status = present(cluster).status
    assert (status.desired_number_scheduled, status.current_number_scheduled, status.number_ready) == (3, 3, 3)
    assert (status.number_available, status.number_unavailable, status.updated_number_scheduled) == (3, 0, 3)
    cluster.add(node("n3", cpu=4))
    cluster.settle()
    assert places(cluster) == ["n0", "n1", "n2", "n3"]
    assert present(cluster).status.number_unavailable == 1


def test_only_nodes_that_the_pods_select_get_one() -> None:
    fast = node("fast", cpu=4)
    fast.metadata.labels["disk"] = "ssd"
    slow = node("slow", cpu=4)
    wanted = daemons()
    wanted.spec.template.spec.node_selector = {"disk": "ssd"}
    cluster = FakeCluster(fast, slow, wanted)
    cluster.settle()
    assert places(cluster) == ["fast"]
    start(cluster)
    cluster.put(replace(slow, metadata=replace(slow.metadata, labels={"disk": "ssd"}, uid="x")))
    cluster.put(replace(cluster.list(Node)[0], metadata=replace(fast.metadata, labels={})))  # type: ignore[index]
    cluster.settle()
    assert places(cluster) == ["slow"]


def test_required_affinity_is_checked_and_then_replaced_by_the_one_node() -> None:
    term = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key="zone", operator="In", values=["a"])])
    wanted = daemons()
    wanted.spec.template.spec.affinity = Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=[term])
        )
    )
    near, far = node("near", cpu=4), node("far", cpu=4)
    near.metadata.labels["zone"] = "a"
    cluster = FakeCluster(near, far, wanted)
    cluster.settle()
    assert places(cluster) == ["near"]


def test_taints_keep_pods_away_and_some_drive_them_away() -> None:
    tainted, plain = node("tainted", cpu=4), node("plain", cpu=4)
    tainted.spec.taints = [Taint(key="gpu", value="", effect="NoSchedule")]
    cluster = FakeCluster(tainted, plain, daemons())
    cluster.settle()
    assert places(cluster) == ["plain"]
    start(cluster)
    late = Taint(key="gpu", value="", effect="NoSchedule")
    cluster.put(replace(plain, spec=replace(plain.spec, taints=[late])))
    cluster.settle()
    assert places(cluster) == ["plain"]  # it would not come any more, and it stays
    assert present(cluster).status.number_misscheduled == 1
    cluster.put(replace(plain, spec=replace(plain.spec, taints=[Taint(key="gpu", value="", effect="NoExecute")])))
    cluster.settle()
    assert places(cluster) == []


def test_pods_tolerate_what_befalls_their_nodes() -> None:
    troubled, cordoned = node("troubled", cpu=4), node("cordoned", cpu=4)
    troubled.spec.taints = [Taint(key="node.kubernetes.io/not-ready", value="", effect="NoExecute")]
    cordoned.spec.unschedulable = True
    cluster = FakeCluster(troubled, cordoned, daemons())
    cluster.settle()
    assert places(cluster) == ["cordoned", "troubled"]
    made = cluster.pod("ns/log-0")
    assert (
        Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute") in made.spec.tolerations
    )


def test_a_pod_that_is_lost_is_made_again() -> None:
    cluster = FakeCluster(*nodes(2), daemons())
    cluster.settle()
    start(cluster)
    cluster.evict("ns/log-0")
    cluster.settle()
    assert places(cluster) == ["n0", "n1"]
    assert cluster.names(Pod) == ("log-1", "log-2")


def test_a_pod_comes_when_the_one_before_it_has_gone() -> None:
    """Both might use a port of the node."""
    cluster = FakeCluster(*nodes(2), daemons())
    cluster.settle()
    start(cluster)
    cluster.grace = 5.0
    change(cluster, "2")
    assert versions(cluster) == {"n0": [""], "n1": [""]}
    assert [one.metadata.deletion_timestamp is not None for one in cluster.list(Pod)] == [True, False]
    cluster.advance(5)
    assert versions(cluster) == {"n0": ["2"], "n1": [""]}


def test_pods_go_with_their_node() -> None:
    cluster = FakeCluster(*nodes(2), daemons())
    cluster.settle()
    start(cluster)
    cluster.remove(cluster.list(Node)[1])  # type: ignore[index]
    cluster.settle()
    assert places(cluster) == ["n0"]


def test_a_new_template_comes_node_by_node() -> None:
    cluster = FakeCluster(*nodes(3), daemons())
    cluster.settle()
    start(cluster)
    change(cluster, "2")
    # One node at a time has no pod that runs.
    assert versions(cluster) == {"n0": ["2"], "n1": [""], "n2": [""]}
    for _ in range(3):
        assert sum(one.status.phase == "Running" for one in cluster.list(Pod)) >= 2
        start(cluster)
    assert versions(cluster) == {"n0": ["2"], "n1": ["2"], "n2": ["2"]}
    assert present(cluster).status.updated_number_scheduled == 3


def test_several_nodes_may_be_without_one() -> None:
    # Half of 5, rounded up, is 3.
    cluster = FakeCluster(*nodes(5), daemons(update_strategy=rolling(unavailable="50%")))
    cluster.settle()
    start(cluster)
    change(cluster, "2")
    assert sum(one == ["2"] for one in versions(cluster).values()) == 3


def test_old_pods_that_do_not_run_anyway_go_first() -> None:
    cluster = FakeCluster(*nodes(3), daemons())
    cluster.settle()
    waiting = [one for one in cluster.list(Pod) if target(one) != "n0"]
    start(cluster, *(one for one in cluster.list(Pod) if target(one) == "n0"))
    assert len(waiting) == 2
    change(cluster, "2")
    assert versions(cluster) == {"n0": [""], "n1": ["2"], "n2": ["2"]}


def test_with_a_surge_the_old_pod_stays_until_the_new_one_runs() -> None:
    cluster = FakeCluster(*nodes(2), daemons(update_strategy=rolling(surge=1, unavailable=0)))
    cluster.settle()
    start(cluster)
    change(cluster, "2")
    assert versions(cluster) == {"n0": ["", "2"], "n1": [""]}
    start(cluster)
    assert versions(cluster) == {"n0": ["2"], "n1": ["", "2"]}
    start(cluster)
    assert versions(cluster) == {"n0": ["2"], "n1": ["2"]}


def test_on_delete_only_pods_that_go_come_back_with_the_new_template() -> None:
    cluster = FakeCluster(*nodes(2), daemons(update_strategy=DaemonSetUpdateStrategy(type="OnDelete")))
    cluster.settle()
    start(cluster)
    change(cluster, "2")
    assert versions(cluster) == {"n0": [""], "n1": [""]}
    cluster.evict("ns/log-0")
    cluster.settle()
    assert versions(cluster) == {"n0": ["2"], "n1": [""]}


def test_restarts_change_nothing_and_revisions_are_kept() -> None:
    cluster = FakeCluster(*nodes(2), daemons(revision_history_limit=1))
    cluster.settle()
    start(cluster)
    for version in ("2", "3", "4"):
        change(cluster, version)
        for _ in range(3):
            cluster.restart()
            cluster.settle()
            start(cluster)
    assert versions(cluster) == {"n0": ["4"], "n1": ["4"]}
    assert sorted(one.revision for one in cluster.list(ControllerRevision)) == [3, 4]
