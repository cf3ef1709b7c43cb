"""Which pods of a group form a sub-group, and which errors in their labels or policies are found."""

from __future__ import annotations

from builders import cluster, established, group, node, pod
from stromboli.api import LabelSelector
from stromboli.api.kinds.batch import NetworkTopology, SubGroupPolicy
from stromboli.cluster import Applied, Cluster, Job, JobKey, TaskKey
from stromboli.cluster.topology import Closeness, SubGroups, sub_groups

PARTITION = "volcano.sh/partition-id"
ROLE = "role"


def policy(
    name: str = "workers",
    *,
    role: str | None = None,
    keys: tuple[str, ...] = (PARTITION,),
    size: int | None = None,
    least: int | None = None,
    topology: NetworkTopology | None = None,
) -> SubGroupPolicy:
    selector = None if role is None else LabelSelector(match_labels={ROLE: role})
    return SubGroupPolicy(
        name=name,
        label_selector=selector,
        match_label_keys=list(keys),
        sub_group_size=size,
        min_sub_groups=least,
        network_topology=topology,
    )


def job_of(known: Cluster) -> Job:
    return next(job for job in known.snapshot().jobs if job.key == JobKey("ns1/pg1"))


def divided(*policies: SubGroupPolicy, pods: dict[str, dict[str, str]]) -> SubGroups:
    members = [pod(f"ns1/{name}", group="pg1", cpu=1, labels=labels) for name, labels in pods.items()]
    return sub_groups(job_of(cluster(group("ns1/pg1", sub_groups=policies), members)))


def members(found: SubGroups) -> dict[str, list[str]]:
    return {one.name: [task.name for task in one.tasks] for one in found.all}


def test_a_group_that_asks_for_nothing_has_no_layout() -> None:
    job = job_of(cluster(group("ns1/pg1"), pod("ns1/p-0", group="pg1")))
    assert job.layout is None
    assert sub_groups(job).all == ()


def test_the_layout_of_a_group_is_what_its_spec_says() -> None:
    rack = NetworkTopology(highest_tier_name="rack")
    block = NetworkTopology(mode="hard", highest_tier_allowed=2)
    soft = NetworkTopology(mode="soft")
    first, second = policy("a", role="a", size=4, least=2, topology=rack), policy("b", keys=(), topology=soft)
    layout = job_of(cluster(group("ns1/pg1", topology=block, sub_groups=(first, second)))).layout
    assert layout is not None
    assert layout.closeness == Closeness(hard=True, highest_tier=2)
    assert [one.closeness for one in layout.policies] == [
        Closeness(hard=True, highest_tier_name="rack"),  # a mode that is not given is hard
        Closeness(hard=False),
    ]
    assert [(one.name, one.keys, one.size, one.least) for one in layout.policies] == [
        ("a", (PARTITION,), 4, 2),
        ("b", (), None, 0),
    ]


def test_pods_with_equal_values_form_a_sub_group() -> None:
    """Sub-groups come in the order of their values, numbers by their amount; pods in the order of their indices."""
    found = divided(policy(), pods={f"w-{index}": {PARTITION: str(index // 2 * 5)} for index in (11, 5, 4, 3, 1, 0)})
    assert members(found) == {
        "workers/0": ["w-0", "w-1"],
        "workers/5": ["w-3"],
        "workers/10": ["w-4", "w-5"],
        "workers/25": ["w-11"],
    }
    assert found.of_task[TaskKey("ns1/w-3")].values == ("5",)


def test_a_policy_without_keys_makes_one_sub_group() -> None:
    found = divided(policy("a", role="a", keys=()), pods={"p-0": {ROLE: "a"}, "p-1": {ROLE: "a"}, "p-2": {}})
    assert members(found) == {"a": ["p-0", "p-1"]}
    assert [task.name for task in found.loose] == ["p-2"]
    assert not found.reported


def test_policies_divide_the_pods_that_they_select() -> None:
    found = divided(
        policy("a", role="a"),
        policy("b", role="b"),
        pods={"p-0": {ROLE: "b", PARTITION: "0"}, "p-1": {ROLE: "a", PARTITION: "0"}},
    )
    assert members(found) == {"a/0": ["p-1"], "b/0": ["p-0"]}


def test_a_pod_of_two_policies_is_refused() -> None:
    found = divided(policy("a", role="a"), policy("", keys=(ROLE,)), pods={"p-0": {ROLE: "a", PARTITION: "0"}})
    assert not found.all
    assert not found.loose
    assert found.refused == {
        TaskKey("ns1/p-0"): 'The pod is selected by the sub-group policies "a" and number 2. A pod can be in one '
        "sub-group only: change the labels of the pod, or the selectors of the policies."
    }


def test_a_selected_pod_without_a_label_is_reported_and_in_no_sub_group() -> None:
    found = divided(policy("a", role="a"), pods={"p-0": {ROLE: "a"}, "p-1": {ROLE: "a", PARTITION: ""}, "p-2": {}})
    assert [task.name for task in found.loose] == ["p-0", "p-1", "p-2"]
    assert sorted(found.reported) == ["ns1/p-0", "ns1/p-1"]
    assert found.reported[TaskKey("ns1/p-0")] == (
        'The sub-group policy "a" selects the pod, but the pod has no value of the label volcano.sh/partition-id, so '
        "it is in no sub-group. Set that label on the pod."
    )
    assert not found.refused


def test_a_sub_group_larger_than_its_size_is_refused() -> None:
    close = policy("a", size=1, topology=NetworkTopology(mode="hard"))
    found = divided(close, pods={"p-0": {PARTITION: "0"}, "p-1": {PARTITION: "0"}, "q": {PARTITION: "1"}})
    assert sorted(found.refused) == ["ns1/p-0", "ns1/p-1"]
    assert found.refused[TaskKey("ns1/p-0")] == (
        'The sub-group "a/0" has 2 pods, but its policy makes sub-groups of 1. Remove pods, or raise subGroupSize.'
    )


def test_more_pods_than_its_size_are_welcome_where_they_may_run_anywhere() -> None:
    """The one that has a node is in the sub-group, so that it is whole; another one counts only for the group."""
    known = cluster(
        node("n1", cpu=9),
        group("ns1/pg1", sub_groups=[policy("a", size=1)]),
        pod("ns1/p-0", group="pg1", labels={PARTITION: "0"}),
        pod("ns1/p-1", group="pg1", node="n1", labels={PARTITION: "0"}),
    )
    found = sub_groups(job_of(known))
    assert [[task.name for task in one.tasks] for one in found.all] == [["p-1"]]
    assert [task.name for task in found.loose] == ["p-0"]
    assert not found.refused


def test_a_pod_that_goes_does_not_make_its_sub_group_too_large() -> None:
    """The new pod of a sub-group of two exists before the old one is gone."""
    known = cluster(
        group("ns1/pg1", sub_groups=[policy(size=2)]),
        pod("ns1/p-0", group="pg1", node="n1", labels={PARTITION: "0"}),
        pod("ns1/p-1", group="pg1", node="n1", labels={PARTITION: "0"}, deleted=True),
        pod("ns1/p-2", group="pg1", node="n1", labels={PARTITION: "0"}, phase="Failed"),
    )
    known.apply(Applied(established(pod("ns1/p-3", group="pg1", labels={PARTITION: "0"}))))
    (found,) = sub_groups(job_of(known)).all
    assert (len(found.tasks), found.members, found.is_too_large) == (4, 2, False)


def test_sub_groups_are_kept_until_a_pod_or_the_group_changes() -> None:
    known = cluster(group("ns1/pg1", sub_groups=[policy()]), pod("ns1/p-0", group="pg1", labels={PARTITION: "0"}))
    first = sub_groups(job_of(known))
    assert sub_groups(job_of(known)) is first
    known.apply(Applied(established(pod("ns1/p-1", group="pg1", labels={PARTITION: "0"}))))
    assert members(sub_groups(job_of(known))) == {"workers/0": ["p-0", "p-1"]}
    known.apply(Applied(established(group("ns1/pg1", sub_groups=[policy("other")]))))
    assert members(sub_groups(job_of(known))) == {"other/0": ["p-0", "p-1"]}
