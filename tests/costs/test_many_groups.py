"""Groups of a tenant that has as many of them as pods: what they cost grows with their number, and not faster.

Groups in chains and circles, parts of composite groups and sub-groups each took a pass over all others: a few thousand
small objects kept the scheduler busy for minutes, in each cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from builders import cluster, group, pod
from starvation.scenes import Document
from starvation.scenes import group as gang
from starvation.scenes import pod as waiting_pod
from stromboli.api.kinds.batch import SubGroupPolicy
from stromboli.api.kinds.metadata import ObjectMeta
from stromboli.api.kinds.workloads import (
    CompositeGangSchedulingPolicy,
    CompositePodGroup,
    CompositePodGroupSpec,
    CompositeSchedulingPolicy,
)
from stromboli.api.upstream import UpstreamGroup, as_pod_group
from stromboli.cluster import JobKey
from stromboli.cluster.topology import layout, sub_groups
from stromboli.cluster.upstream.trees import Members, plans_of
from stromboli.scheduling.gang import close_placement, sub_group_line
from workload_groups.scenes import composite, members, nodes, running, situation, workload_group


class Counted(dict[JobKey, UpstreamGroup]):
    """Counts how often somebody looks for a group."""

    looked = 0

    def __getitem__(self, key: JobKey) -> UpstreamGroup:
        self.looked += 1
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.looked += 1
        return super().__contains__(key)


def chain(count: int, above: str) -> Counted:
    """`c0` is in `c1`, that in `c2` and so on; the last one is in `above`."""
    found = Counted()
    for number in range(count):
        spec = CompositePodGroupSpec(
            parent_composite_pod_group_name=f"c{number + 1}" if number + 1 < count else above,
            scheduling_policy=CompositeSchedulingPolicy(gang=CompositeGangSchedulingPolicy(min_group_count=1)),
        )
        made = as_pod_group(CompositePodGroup(metadata=ObjectMeta(name=f"c{number}", namespace="t"), spec=spec))
        found[JobKey(f"t/{made.metadata.name}")] = made
    return found


@pytest.mark.parametrize(
    ("above", "why"),
    [
        ("gone", "CompositePodGroup t/gone, the parent of CompositePodGroup t/c299, does not exist; create it."),
        ("c299", "CompositePodGroup t/c299 is a parent of itself"),
        ("c0", "is a parent of itself"),
    ],
    ids=["without an end", "into a circle of one", "a circle"],
)
def test_a_long_chain_of_groups_is_walked_once(above: str, why: str) -> None:
    """Each of them walked up, and at each step compared with all before: a chain of 800 took 2 s, one of 10,000 an
    hour."""
    groups = chain(300, above)
    plans = plans_of(groups, lambda key: Members(0, 0))
    assert len(plans) == 300
    assert all(plan.trouble and why in plan.why for plan in plans.values())
    assert groups.looked < 20 * 300


def test_whoever_is_in_a_circle_is_named_and_others_name_where_they_enter_it() -> None:
    groups = chain(5, "c2")
    says = {key: plan.why for key, plan in plans_of(groups, lambda key: Members(0, 0)).items()}
    named = {key.partition("@")[0]: why.partition(" is ")[0].rpartition(" ")[2] for key, why in says.items()}
    assert named == {"t/c0": "t/c2", "t/c1": "t/c2", "t/c2": "t/c2", "t/c3": "t/c3", "t/c4": "t/c4"}


class Names(tuple[str, ...]):
    """Counts how often somebody goes through the names of a policy."""

    __slots__ = ()
    read = 0

    def __contains__(self, name: object) -> bool:
        Names.read += 1
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        Names.read += 1
        return super().__iter__()


def test_the_parts_of_a_composite_group_are_not_tried_on_each_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 groups that their composite can do without took 6 s, and 4,000 half a minute."""
    made = layout.SubGroupPolicy

    def counted(*given: Any, **named: Any) -> layout.SubGroupPolicy:
        return made(*given, **(named | {"groups": Names(named["groups"])}))

    monkeypatch.setattr("stromboli.cluster.queue_index.SubGroupPolicy", counted)
    monkeypatch.setattr(Names, "read", 0)
    parts = [composite("c", 1, whole=True)]
    for number in range(40):
        parts += [workload_group(f"g{number}", 1, parent="c"), *members(f"g{number}", 1)]
    found = situation(*nodes(2, 32), *parts, until=3).run()
    assert len(running(found)) == 40
    assert 0 < Names.read < 40 * 40


def many_sub_groups(count: int, **policy: Any) -> list[Document]:
    """A gang with a sub-group for each pod."""
    head = gang("g", count)
    head["spec"]["subGroupPolicy"] = [{"name": "p", "matchLabelKeys": ["part"], "subGroupSize": 1, **policy}]
    made = [head]
    for number in range(count):
        one = waiting_pod(f"g-{number}", 0.01, group="g")
        one["metadata"]["labels"] = {"part": str(number)}
        made.append(one)
    return made


def test_a_gang_that_needs_a_thousand_sub_groups_starts() -> None:
    """Each was placed inside the call that placed the one before: the scheduler ended with a RecursionError."""
    assert len(running(situation(*nodes(1, 64), *many_sub_groups(1100, minSubGroups=1100), until=2).run())) == 1100


def test_who_comes_next_is_not_found_out_anew_for_each_sub_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were looked at, with all pods, whenever one had its place: 1,600 of them took 35 s."""
    asked: list[str] = []
    missing = sub_group_line.missing_members

    def noted(one: Any) -> int:
        asked.append(one.name)
        return missing(one)

    monkeypatch.setattr(sub_group_line, "missing_members", noted)
    monkeypatch.setattr(close_placement, "missing_members", noted)
    assert len(running(situation(*nodes(1, 64), *many_sub_groups(60), until=2).run())) == 60
    assert len(asked) < 60 * 20


def test_sub_groups_know_their_waiting_pods() -> None:
    policy = SubGroupPolicy(name="p", match_label_keys=["part"])
    pods = [pod(f"ns1/p-{n}", group="pg1", cpu=1, labels={"part": str(n % 2)} if n < 4 else {}) for n in range(5)]
    [job] = cluster(group("ns1/pg1", sub_groups=[policy]), pods).snapshot().jobs
    line = sub_group_line.WaitingTasks(job, [job.tasks[key] for key in sorted(job.tasks, reverse=True)])
    assert [[task.name for task in line.of(one)] for one in line.groups] == [["p-3", "p-1"], ["p-2", "p-0"]]
    assert [task.name for task in line.of(None)] == ["p-4"]
    assert line.groups == list(reversed(sub_groups(job).all))
