"""Room for a job that waits: the fewest and cheapest moves, or none."""

from __future__ import annotations

import pytest

from builders import group, node, pod
from descheduling.plans import NOW, moves, plans_of, policy, replicas
from descheduling.scenes import defragment, scene
from descheduling.scenes import node as scenes_node
from descheduling.scenes import pod as pending
from descheduling.scenes import policy as scene_policy
from descheduling.scenes import replicas as scenes_replicas
from stromboli.api import OwnerReference
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import JobKey, Node, Task
from stromboli.descheduling import Options
from stromboli.descheduling.plugins.pending_room import PendingRoom
from volumes.volume_scenes import claim, storage_class, with_claims


def waiting(name: str, gpu: int, *, count: int = 1) -> list[object]:
    return [
        group(f"default/{name}", min_member=count, phase="Inqueue"),
        *(pod(f"default/{name}-{number}", gpu=gpu, group=name) for number in range(count)),
    ]


PENDING = policy({"forPending": True})


def test_the_motivating_case() -> None:
    # 7/8, 6/8 and 7/8 GPUs: 4 are free in all, and no node has more than 2. Two pods of one GPU leave b for a and c.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abc"),
        *replicas("a", 7, on="a", gpu=1), *replicas("b", 6, on="b", gpu=1), *replicas("c", 7, on="c", gpu=1),
        *waiting("big", 4),
    ]  # fmt: skip
    (plan,) = plans_of(objects, PENDING)
    assert moves(plan) == [("b-0", "b", "a"), ("b-1", "b", "c")]
    assert plan.job == "default/big"
    assert [(place.pod, place.node) for place in plan.places] == [("default/big-0", "b")]


def test_one_large_pod_moves_rather_than_two_small_ones() -> None:
    # The job needs 2 more on either node. b has pods of one GPU, c one of two, and d has room for two.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "bcd"),
        *replicas("b", 6, on="b", gpu=1), *replicas("c", 3, on="c", gpu=2), *replicas("d", 6, on="d", gpu=1),
        *waiting("big", 4),
    ]  # fmt: skip
    (plan,) = plans_of(objects, PENDING)
    assert moves(plan) == [("c-0", "c", "b")]


def test_nothing_moves_if_one_pod_finds_no_place() -> None:
    # Two nodes of 2 GPUs with a pod each, one of which must not be moved: the other one moves. If neither may, none.
    nodes = [node("a", gpu=2, cpu=8), node("b", gpu=2, cpu=8)]
    fixed = replicas("x", 1, on="a", gpu=1, preemptable=False)
    objects = [*nodes, *fixed, *replicas("y", 1, on="b", gpu=1), *waiting("big", 2)]
    (plan,) = plans_of(objects, PENDING)
    assert moves(plan) == [("y-0", "b", "a")]
    both = [*nodes, *fixed, *replicas("y", 1, on="b", gpu=1, preemptable=False), *waiting("big", 2)]
    assert plans_of(both, PENDING) == []


def test_a_job_that_fits_needs_no_plan() -> None:
    objects = [node("a", gpu=8, cpu=64), *replicas("x", 4, on="a", gpu=1), *waiting("big", 4)]
    assert plans_of(objects, PENDING) == []


def test_a_named_job_gets_room_although_the_policy_has_thresholds() -> None:
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "ab"),
        *replicas("a", 7, on="a", gpu=1), *replicas("b", 5, on="b", gpu=1), *waiting("big", 4),
    ]  # fmt: skip
    thresholds = policy({})
    assert plans_of(objects, thresholds) == []
    (plan,) = plans_of(objects, thresholds, options=Options(job=JobKey("default/big")))
    assert moves(plan) == [("b-0", "b", "a")]


def test_a_gang_gets_several_nodes() -> None:
    # Two pods of 4 GPUs: a and b miss one each, c and d have one to spare each.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abcd"),
        *replicas("a", 5, on="a", gpu=1), *replicas("b", 5, on="b", gpu=1), *replicas("c", 7, on="c", gpu=1),
        *replicas("d", 7, on="d", gpu=1), *waiting("big", 4, count=2),
    ]  # fmt: skip
    (plan,) = plans_of(objects, PENDING)
    assert {(source, target) for _, source, target in moves(plan)} == {("a", "c"), ("b", "d")}
    assert [place.node for place in plan.places] == ["a", "b"]


def test_pods_do_not_move_to_nodes_that_are_set_aside_for_the_job() -> None:
    # Two pods of 4 GPUs. a has room for one and 1 GPU beside it, but is closed to others once it is set aside. So the
    # pod that leaves b goes to c, although a would be the tighter fit.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abc"), *replicas("a", 3, on="a", gpu=1),
        *replicas("b", 5, on="b", gpu=1), *replicas("c", 6, on="c", gpu=1), *waiting("big", 4, count=2),
    ]  # fmt: skip
    (plan,) = plans_of(objects, PENDING)
    assert [place.node for place in plan.places] == ["a", "b"]
    assert moves(plan) == [("b-0", "b", "c")]


def test_a_node_that_takes_a_pod_is_not_set_aside() -> None:
    # A gang of 6 and 2 GPUs. b has room for the larger pod if one pod goes to a, which then has 2 GPUs left. But a is
    # not set aside for the smaller pod: two more pods leave b instead.
    gang = [
        group("default/big", min_member=2, phase="Inqueue"),
        pod("default/big-0", gpu=6, group="big"), pod("default/big-1", gpu=2, group="big"),
    ]  # fmt: skip
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "ab"), *replicas("a", 5, on="a", gpu=1, preemptable=False),
        *replicas("b", 3, on="b", gpu=1), *gang,
    ]  # fmt: skip
    (plan,) = plans_of(objects, PENDING)
    assert set(moves(plan)) == {("b-0", "b", "a"), ("b-1", "b", "a"), ("b-2", "b", "a")}
    assert [place.node for place in plan.places] == ["b", "b"]
    # c has room for the smaller one, so one move is enough.
    more = [node("c", gpu=2, cpu=64), *objects]
    (plan,) = plans_of(more, PENDING)
    assert (moves(plan), [place.node for place in plan.places]) == ([("b-0", "b", "a")], ["b", "c"])


def test_two_jobs_of_one_run_get_different_nodes() -> None:
    # b, c and e miss one GPU each for 4. The gang of 4 and 2 GPUs gets b and, for its smaller pod, one of the others,
    # which is closed to the second job then, and to the pods that leave.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abcde"), *replicas("a", 5, on="a", gpu=1, preemptable=False),
        *(each for name in "bce" for each in replicas(name, 5, on=name, gpu=1)),
        *replicas("d", 5, on="d", gpu=1, preemptable=False),
        group("default/big", min_member=2, phase="Inqueue"),
        pod("default/big-0", gpu=4, group="big"), pod("default/big-1", gpu=2, group="big"), *waiting("next", 4),
    ]  # fmt: skip
    first, second = plans_of(objects, PENDING)
    nodes = {place.node for place in (*first.places, *second.places)}
    assert len(nodes) == len(first.places) + len(second.places) == 3
    assert not nodes & {target for plan in (first, second) for _, _, target in moves(plan)}


@pytest.mark.parametrize(("selector", "served"), [({}, []), ({"pool": "other"}, ["default/big"])])
def test_a_namespace_with_less_goes_first(selector: dict[str, str], served: list[str]) -> None:
    # All pods on a and b are services, so nothing drains by itself, and one move makes room for a pod of 2 GPUs. But
    # namespace other waits for these nodes as well, and has nothing so far: the scheduler would not set a node aside
    # for default, which has 2 of 4 GPUs. If other waits for nodes of another pool, it may.
    objects = [
        node("a", gpu=2, cpu=8), node("b", gpu=2, cpu=8), *replicas("x", 1, on="a", gpu=1),
        *replicas("y", 1, on="b", gpu=1), *waiting("big", 2),
        group("other/z", phase="Inqueue"), pod("other/z-0", gpu=1, cpu=1, group="z", node_selector=selector),
    ]  # fmt: skip
    assert [plan.job for plan in plans_of(objects, PENDING)] == served


def test_copies_of_a_job_get_the_same_answer_from_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    # a and b miss one GPU each for a job of 4, c and d have one to spare each: two of ten jobs get room. The third
    # search is in vain, so that the others need none.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abcd"),
        *replicas("a", 5, on="a", gpu=1), *replicas("b", 5, on="b", gpu=1), *replicas("c", 7, on="c", gpu=1),
        *replicas("d", 7, on="d", gpu=1), *(each for number in range(10) for each in waiting(f"big{number}", 4)),
    ]  # fmt: skip
    searched = []
    search = PendingRoom._make_room

    def counted(self: PendingRoom, task: Task, mark: tuple[int, int]) -> Node | None:
        searched.append(task.key)
        return search(self, task, mark)

    monkeypatch.setattr(PendingRoom, "_make_room", counted)
    plans = plans_of(objects, PENDING)
    assert [plan.job for plan in plans] == ["default/big0", "default/big1"]
    assert len(searched) == 3


def test_one_run_serves_no_more_jobs_than_may_hold_nodes() -> None:
    # Six jobs of 4 GPUs wait, and for each there is a pair of nodes where one move makes room. The action reserve
    # allows 4 holders.
    def pairs(count: int) -> list[object]:
        return [
            each
            for number in range(count)
            for each in (
                node(f"s{number}", gpu=8, cpu=64), node(f"t{number}", gpu=8, cpu=64),
                *replicas(f"s{number}", 5, on=f"s{number}", gpu=1), *replicas(f"t{number}", 7, on=f"t{number}", gpu=1),
            )
        ]  # fmt: skip

    jobs = [each for number in range(6) for each in waiting(f"big{number}", 4)]
    assert [plan.job for plan in plans_of([*pairs(6), *jobs], PENDING)] == [f"default/big{n}" for n in range(4)]


def test_a_job_that_cannot_be_helped_keeps_nobody_from_its_moves() -> None:
    # Each node has one free GPU. One move makes room for a job of 2; a job of 8 needs seven, and there are no places.
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "ab"), *replicas("a", 7, on="a", gpu=1),
        *replicas("b", 7, on="b", gpu=1), *waiting("large", 8), *waiting("small", 2),
    ]  # fmt: skip
    assert [plan.job for plan in plans_of(objects, PENDING)] == ["default/small"]


@pytest.mark.parametrize(("waited", "served"), [(1199, False), (1200, True)])
def test_a_job_waits_for_each_of_its_moves(waited: float, served: bool) -> None:
    # Two moves make room for a job of 4 GPUs; ten minutes of waiting are worth one. A job by name need not wait.
    big = waiting("big", 4)
    for each in big:
        each.metadata.creation_timestamp = format_timestamp(NOW - waited)
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abc"), *replicas("a", 7, on="a", gpu=1),
        *replicas("b", 6, on="b", gpu=1), *replicas("c", 7, on="c", gpu=1), *big,
    ]  # fmt: skip
    chosen = policy({"forPending": True, "minPendingTimePerMove": "10m"})
    assert bool(plans_of(objects, chosen)) is served
    assert plans_of(objects, chosen, options=Options(job=JobKey("default/big")))


def test_a_search_in_vain_does_not_count_for_jobs_that_may_have_more_moves() -> None:
    # Two jobs of 4 GPUs need two moves. The first in line has the higher priority, and has waited for one move only.
    first, second = waiting("first", 4), waiting("second", 4)
    for each, waited, priority in ((first, 700, 10), (second, 1300, 0)):
        each[0].metadata.creation_timestamp = each[1].metadata.creation_timestamp = format_timestamp(NOW - waited)
        each[1].spec.priority = priority
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "abc"), *replicas("a", 7, on="a", gpu=1),
        *replicas("b", 6, on="b", gpu=1), *replicas("c", 7, on="c", gpu=1), *first, *second,
    ]  # fmt: skip
    (plan,) = plans_of(objects, policy({"forPending": True, "minPendingTimePerMove": "10m"}))
    assert plan.job == "default/second"


def test_a_job_is_found_by_the_name_of_its_owner() -> None:
    objects = [
        *(node(name, gpu=8, cpu=64) for name in "ab"),
        *replicas("a", 7, on="a", gpu=1), *replicas("b", 5, on="b", gpu=1), *waiting("training-1234", 4),
    ]  # fmt: skip
    owner = OwnerReference(kind="Job", name="training", uid="training", controller=True)
    objects[-2].metadata.owner_references = [owner]
    (plan,) = plans_of(objects, PENDING, options=Options(job=JobKey("default/training")))
    assert plan.job == "default/training-1234"
    assert plan.goal == "makes room for default/training on node b"
    unknown = Options(job=JobKey("default/train"))
    assert plans_of(objects, PENDING, options=unknown) == []
    assert unknown.is_unknown


def test_a_run_for_a_job_does_nothing_else() -> None:
    # b is used by a quarter, so the other plugin moves its pod; the job waits for more than any node has.
    objects = [
        node("a", cpu=8), node("b", cpu=8), *replicas("a", 5, on="a", cpu=1), *replicas("b", 2, on="b", cpu=1),
        group("default/big", min_member=1, phase="Inqueue"), pod("default/big-0", cpu=9, group="big"),
    ]  # fmt: skip
    other = policy({"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 40}}, plugin="LowNodeUtilization")
    assert plans_of(objects, other) != []
    asked = Options(job=JobKey("default/big"))
    assert plans_of(objects, other, options=asked) == []
    assert asked.notes == ["no plugin of the policy makes room for a job; Defragmentation does"]
    assert not asked.is_unknown


def test_a_job_that_moves_make_room_for_has_not_starved() -> None:
    """It waits for 6 seconds, and the threshold is two days. The Reservations of the moves have ended, and are still in
    the output."""
    outcome = scene(
        *(scenes_node(name, gpu=4) for name in "ab"), scenes_replicas("x", "a", 3, gpu=1),
        scenes_replicas("y", "b", 3, gpu=1), pending("big", gpu=2, at=1),
        policy=scene_policy(defragment("gpu", forPending=True)), until=20,
    ).outcome  # fmt: skip
    assert outcome.report["pods"]["default/big"]["phase"] == "Running"
    assert outcome.report["summary"]["starved"] == 0
    assert [one["phase"] for one in outcome.report["reservations"].values()] == ["Succeeded"]


def test_nobody_moves_again_for_a_job_whose_volume_cannot_be_made() -> None:
    """The first plan frees b, where the volume is tried in vain again and again. Nobody leaves another node as well."""
    full = [("x", "a", 3), ("y", "b", 2), ("w", "b", 1), ("z", "c", 3)]
    outcome = scene(
        *(scenes_node(name, gpu=4) for name in "abc"),
        *(scenes_replicas(name, on, count, gpu=1) for name, on, count in full),
        storage_class(takes=2, fails="always"), claim("d"), with_claims(pending("big", gpu=3, at=1), "d"),
        policy=scene_policy(defragment("gpu", forPending=True)), until=1800,
    ).outcome  # fmt: skip
    assert outcome.reasons("Warning").count("ProvisioningFailed") > 3
    assert {where for _, _, _, where in outcome.events("Evicted")} == {"b"}
    assert outcome.held == []
