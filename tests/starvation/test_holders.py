"""For whom nodes are set aside, in which order, and what others may do with them meanwhile."""

from __future__ import annotations

import pytest

from explanations.close_scenes import close_gang, gpu_pod, hard, rack
from starvation.scenes import gang, group, node, patch, pod, priority_class, queue, scene
from starvation.stories import EVERYWHERE, LENDING, THRESHOLD

HIGH, LOW = priority_class("high", 100), priority_class("low", 1)


def full(*numbers: int, cpu: float = 2, run: float = 30) -> list[dict[str, object]]:
    """Nodes of three CPUs on which something runs."""
    nodes = [node(f"n{number}", 3) for number in numbers]
    return [*nodes, *(pod(f"old-{number}", cpu, on=f"n{number}", run=run) for number in numbers)]


# -- the clock ------------------------------------------------------------------------------------------------------


def test_an_evicted_job_starves_anew_unless_the_clock_is_that_of_its_creation() -> None:
    # A pod of a Job runs from 0; an urgent one takes its node at 6 and keeps it. The pod is made again at once.
    # More than four seconds of waiting are over at 11; by its creation the job has starved when it is evicted.
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "victim"},
        "spec": {
            "tasks": [
                {
                    "name": "t", "replicas": 1,
                    "template": {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": 3}}}]}},
                }
            ]
        },
    }  # fmt: skip
    documents = [HIGH, node("n1", 3), job, pod("urgent", 3, at=6, run=30, priority="high")]
    story = scene(documents, reserve={"starvingJobTimeThreshold": 4}, until=14)
    ((first, _),) = story.run().happened("Reserved")
    by_creation = {"starvingJobTimeThreshold": 4, "starvationClock": "creation"}
    ((sooner, _),) = story.but(reserve=by_creation).run().happened("Reserved")
    assert first >= 6 + 4
    assert sooner <= 8


def test_a_job_that_waits_outside_starves_too() -> None:
    # It has to pass the threshold, not only to reach it.
    story = scene(full(1), pod("big", 3, at=1), reserve={"starvingJobTimeThreshold": 4}, until=9)
    assert story.run().happened("Reserved") == [(6.0, "big")]


def jobs_of(name: str, cpu: int, *, at: float, run: float) -> dict[str, object]:
    """A Job of one pod: its pod is made only when it is let in."""
    template = {
        "metadata": {"annotations": {"sim.stromboli.io/run": f"{run}s"}},
        "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "annotations": {"sim.stromboli.io/at": f"{at}s"}},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": template}]},
    }  # fmt: skip


def test_a_job_that_is_not_let_in_starves_too_and_is_let_in_then() -> None:
    # Jobs of one CPU keep a node of four full, so there is never room for the minimum of the big Job, four CPUs: it has
    # no pods that nodes could be set aside for. Having waited for more than five seconds it gets them at 8, the node
    # is set aside a cycle later, and the last who runs there is gone four seconds after that.
    small = [jobs_of(f"small-{number:02}", 1, at=number, run=4) for number in range(30)]
    story = scene(
        node("n1", 4), small, jobs_of("big", 4, at=2, run=3), reserve={"starvingJobTimeThreshold": 5}, until=29
    )
    outcome = story.run()
    assert (8.0, "big-t-0") in outcome.happened("Submitted")
    assert outcome.started["big-t-0"] <= 2 + 5 + 4 + 3
    assert "big-t-0" not in story.but(reserve=None).run().started


def test_not_more_are_let_in_than_nodes_are_set_aside_for() -> None:
    big = [jobs_of(f"big-{number}", 4, at=0, run=3) for number in range(4)]
    story = scene(
        node("n1", 4), pod("old", 4, on="n1", run=30), big, reserve={"starvingJobTimeThreshold": 2, "maxHolders": 2}
    )
    assert [name for _, name in story.run().happened("Submitted")] == ["old", "big-0-t-0", "big-1-t-0"]


def test_nobody_is_let_in_against_the_limit_of_a_queue() -> None:
    big = jobs_of("big", 5, at=0, run=3)
    big["spec"] = {**big["spec"], "queue": "q"}  # type: ignore[dict-item]
    limited = queue("q", capability={"cpu": 4})
    # The cluster is full as well: 8 CPUs, of which 2 are free.
    olds = [pod("old-1", 2, queue="q", on="n1", run=30), pod("old-2", 4, on="n1", run=30)]
    outcome = scene(limited, node("n1", 8), olds, big, reserve=THRESHOLD).run()
    assert [name for _, name in outcome.happened("Submitted")] == ["old-1", "old-2"]


def test_a_holder_that_needs_one_more_node_keeps_those_it_has() -> None:
    # Two of three pods must start together; at 6 it is all three.
    more = patch("PodGroup", "g", {"spec": {"minMember": 3}}, at=6)
    outcome = scene(full(1, 2, 3), gang("g", 3, 3, 3, least=2), more, reserve=EVERYWHERE, until=10).run()
    assert outcome.happened("Reserved") == [(3.0, "g-0"), (3.0, "g-1"), (6.0, "g-2")]
    assert outcome.happened("Unreserved") == []


# -- R10 and the number of holders ----------------------------------------------------------------------------------


def test_a_job_of_higher_priority_that_starts_in_the_round_comes_first() -> None:
    # One CPU is idle. Something urgent takes it in the very round in which big has starved; then big waits a round.
    story = scene(HIGH, full(1), pod("big", 3), pod("urgent", at=3, priority="high", run=30), reserve=THRESHOLD)
    assert story.run().happened("Reserved") == [(4.0, "big")]


def test_a_job_of_equal_priority_does_not_make_it_wait() -> None:
    story = scene(full(1), pod("big", 3), pod("other", at=3, run=30), reserve=THRESHOLD)
    assert story.run().happened("Reserved") == [(3.0, "big")]


def test_only_so_many_jobs_hold_nodes_the_most_important_first() -> None:
    jobs = [pod("a", 3), pod("b", 3, priority="low"), pod("c", 3), pod("d", 3, priority="high")]
    story = scene(LOW, HIGH, full(1, 2, 3, 4), jobs, reserve={**EVERYWHERE, "maxHolders": 2}, leave_out=("preempt",))
    # high 100, low 1, the others 0
    assert story.run().reserved == {"n1": ["d"], "n2": ["b"]}
    assert story.but(reserve=EVERYWHERE).run().happened("Reserved") == [(3.0, "d"), (3.0, "b"), (3.0, "a"), (3.0, "c")]


def test_those_who_wait_longest_come_first() -> None:
    jobs = [pod("a", 3, at=2), pod("b", 3, at=1), pod("c", 3, at=3)]
    story = scene(full(1, 2, 3), jobs, reserve={**EVERYWHERE, "maxHolders": 2})
    assert story.run().happened("Reserved") == [(4.0, "b"), (5.0, "a")]


def test_a_job_of_higher_priority_displaces_the_last_holder() -> None:
    # Both jobs of low priority hold; the urgent one has starved at 6 and takes the place of who came later.
    jobs = [pod("a", 3), pod("b", 3, at=1), pod("urgent", 3, at=3, priority="high")]
    outcome = scene(HIGH, full(1, 2, 3), jobs, reserve={**EVERYWHERE, "maxHolders": 2}, leave_out=("preempt",)).run()
    assert outcome.happened("Unreserved") == [(6.0, "b")]
    assert "urgent" in outcome.messages("Unreserved")[0]
    assert sorted(holder for holders in outcome.reserved.values() for holder in holders) == ["a", "urgent"]


def test_a_job_of_equal_priority_displaces_nobody() -> None:
    jobs = [pod("a", 3), pod("b", 3, at=1), pod("c", 3, at=3)]
    outcome = scene(full(1, 2, 3), jobs, reserve={**EVERYWHERE, "maxHolders": 2}).run()
    assert outcome.happened("Unreserved") == []


def test_who_is_first_in_line_is_not_passed_by_those_who_need_less() -> None:
    # `first` holds n1 and starts there when it is empty, at 8. `wide` is next and needs both nodes. If `narrow`, who
    # came after it, were given n2 meanwhile, and then somebody else n1, wide would never have two.
    documents = [
        node("n1", 3), node("n2", 3), pod("old-1", 3, on="n1", run=8), pod("old-2", 3, on="n2", run=10),
        pod("first", 3, run=2), *gang("wide", 3, 3, at=1, run=2), pod("narrow", 3, at=2, run=20),
    ]  # fmt: skip
    outcome = scene(documents, reserve=EVERYWHERE, until=14).run()
    assert outcome.started["first"] == 8
    assert outcome.happened("Reserved")[:3] == [(3.0, "first"), (8.0, "wide-0"), (8.0, "wide-1")]
    assert outcome.started["wide-0"] == outcome.started["wide-1"] == 10
    assert outcome.started["narrow"] == 12
    assert outcome.warnings("ReservationLimitExceeded") == []  # it only has to wait for its turn


def test_who_could_never_be_served_holds_up_nobody() -> None:
    documents = [*full(1, 2), *gang("monster", 3, 3, 3), pod("narrow", 3, at=1)]
    outcome = scene(documents, reserve=EVERYWHERE).run()
    assert outcome.happened("Reserved") == [(4.0, "narrow")]


def test_a_queue_above_what_it_deserves_is_passed_over() -> None:
    # 6 CPUs and two queues that want all: 3 each. q has 4 of them, so its job has to wait for its share, not for room.
    wanted = pod("wanted", 4, queue="other", selector={"zone": "z"})
    documents = [
        queue("q"), queue("other"), node("n1", 3), node("n2", 3), pod("mine-1", 2, queue="q", on="n1"),
        pod("mine-2", 2, queue="q", on="n2"), pod("big", 3, queue="q"), wanted, pod("theirs", 3, queue="other", at=1),
    ]  # fmt: skip
    outcome = scene(documents, reserve=EVERYWHERE, leave_out=("reclaim",)).run()
    assert outcome.happened("Reserved") == [(4.0, "theirs")]


def test_roles_are_counted_as_the_gang_will_count_them() -> None:
    # One chief and one worker are needed, of three workers and a chief. Two workers would never start.
    first = group("big", 2)
    first["spec"]["minTaskMember"] = {"chief": 1, "worker": 1}
    pods = [pod(f"big-{number}", 3, group="big") for number in range(4)]
    for number, document in enumerate(pods):
        document["metadata"]["annotations"]["volcano.sh/task-spec"] = "chief" if number == 3 else "worker"
    story = scene(full(1, 2, 3, run=8), first, pods, reserve={**THRESHOLD, "reservedNodePercent": 60}, until=9)
    assert story.run().happened("Reserved") == [(3.0, "big-0"), (3.0, "big-3")]
    assert {"big-0", "big-3"} <= story.run().started.keys()


# -- what others may do ---------------------------------------------------------------------------------------------


def test_nobody_evicts_pods_on_a_node_set_aside_for_somebody_else() -> None:
    # preempt: the urgent pod could evict `old`, which has no priority, but for the node being closed to it.
    reserve = {**THRESHOLD, "yieldToHigherPriority": False}
    documents = [HIGH, full(1), pod("big", 3), pod("urgent", at=4, priority="high")]
    outcome = scene(*documents, reserve=reserve).run()
    assert outcome.happened("Evicted") == []
    assert outcome.why("urgent")[0] == "NodeResourceReserved"
    # reclaim: so could a queue that has nothing. `big` is within the 3 CPUs that its queue deserves.
    mine = [pod("old-1", 2, queue="q", on="n1", run=30), pod("big", 3, queue="q"), pod("theirs", queue="other", at=4)]
    outcome = scene(queue("q", weight=3), queue("other"), node("n1", 4), mine, reserve=reserve).run()
    assert outcome.happened("Evicted") == []
    assert outcome.pending == {"big", "theirs"}


def test_a_sibling_may_use_what_is_set_aside_and_uses_it_up() -> None:
    # One of two pods is enough. n1 is set aside for big-0; then big-1 comes, more important inside the job.
    pods = [pod("big-0", 3, group="big"), pod("big-1", 3, group="big", at=5, priority="high")]
    outcome = scene(HIGH, full(1, run=8), group("big", 1), pods, reserve=THRESHOLD).run()
    assert outcome.happened("Reserved")[0] == (3.0, "big-0")
    assert outcome.started == {"big-1": 8}
    assert outcome.happened("Unreserved")[0] == (8.0, "big-0")
    assert outcome.messages("Unreserved")[0] == "a pod of the same job takes the place"


def test_what_a_holder_finds_meanwhile_does_not_open_its_nodes() -> None:
    # Two nodes of four CPUs, three wanted on each; n1 is empty. The fourth CPU of n1 stays closed, also where places of
    # gangs that cannot start are kept and lent.
    documents = [node("n1", 4), node("n2", 4), pod("old", 4, on="n2", run=8), *gang("big", 3, 3), pod("small", at=5)]
    for backfill in ({}, LENDING, {**LENDING, "mode": "wait"}):
        outcome = scene(documents, reserve=EVERYWHERE, backfill=backfill, until=7).run()
        assert outcome.reserved == {"n1": ["big"], "n2": ["big"]}
        assert outcome.why("small")[0] == "NodeResourceReserved"


def test_a_node_set_aside_is_open_to_those_who_were_promised_it_before() -> None:
    # At 4 the urgent pod evicts `old`, which is gone two seconds later. At 5 the big one has starved and the node is
    # set aside for it, but it was promised to the urgent one; otherwise `old` would have had to go in vain.
    documents = [
        HIGH, node("n1", 3), pod("old", 3, on="n1", run=30, grace=2), pod("big", 3, at=2),
        pod("urgent", 3, at=4, run=4, priority="high"),
    ]  # fmt: skip
    for scope in ("node", "amount"):
        outcome = scene(documents, reserve={**THRESHOLD, "scope": scope}, until=11).run()
        assert outcome.happened("Evicted") == [(4.0, "old")]
        assert outcome.happened("Reserved")[0] == (5.0, "big")
        assert outcome.started == {"urgent": 6, "big": 10}


def test_what_a_gang_counts_on_is_set_aside_when_it_has_starved() -> None:
    # `mode: wait`: at 3 the gang counts on both CPUs, of which B has one until 9. Nobody after it in line, like
    # `later`, may have the node set aside; and where that is not possible, the gang goes on counting on it.
    documents = [
        node("n1", 2), pod("x", on="n1", run=3), *gang("a", 1, 1, run=4), pod("b", run=9), pod("later", 2, at=1, run=4),
        pod("small", at=4, run=30),
    ]  # fmt: skip
    lending = {**LENDING, "mode": "wait"}
    story = scene(documents, reserve={"starvingJobTimeThreshold": 4}, backfill=lending, until=14)
    outcome = story.run()
    assert outcome.happened("Reserved")[:2] == [(5.0, "a-0"), (5.0, "a-1")]
    assert outcome.started["a-0"] == outcome.started["a-1"] == 9
    assert outcome.started["later"] == 13
    for reserve in (None, {"starvingJobTimeThreshold": 4, "reservedNodePercent": 0}):
        assert story.but(reserve=reserve).run().started["a-0"] == 9


def test_a_gang_that_is_too_wide_to_have_nodes_set_aside_goes_on_counting_on_lent_room() -> None:
    # One of two nodes may be set aside, and the gang needs both. B has one of four CPUs until 9.
    documents = [
        node("n1", 2), node("n2", 2), pod("x", 2, on="n1", run=3), *gang("a", 2, 2, run=4), pod("b", run=9),
        pod("small", at=7, run=30),
    ]  # fmt: skip
    story = scene(documents, reserve=THRESHOLD, backfill={**LENDING, "mode": "wait"}, until=10)
    outcome = story.run()
    assert outcome.warnings("ReservationLimitExceeded") == [(3.0, "a")]
    assert outcome.started["a-0"] == outcome.started["a-1"] == 9


@pytest.mark.parametrize("lending", [{}, LENDING])
def test_where_only_an_amount_is_set_aside_the_rest_can_be_used(lending: dict[str, object]) -> None:
    # 8 CPUs and 8 Gi; 1 CPU and 4 Gi are in use until 9. The big one wants 1 CPU and 6 Gi: 2 Gi are missing.
    # Others may have 7 - 1 = 6 CPUs, and no memory.
    documents = [
        node("n1", 8, memory="8Gi"), pod("old", 1, memory="4Gi", on="n1", run=9), pod("big", 1, memory="6Gi"),
        *(pod(f"cores-{number}", 3, at=4, run=20) for number in range(3)), pod("bytes", 1, memory="1Gi", at=4, run=20),
    ]  # fmt: skip
    story = scene(documents, reserve={**THRESHOLD, "scope": "amount"}, backfill=lending, until=10)
    outcome = story.at(8)
    assert outcome.running == {"old", "cores-0", "cores-1"}
    assert outcome.pending == {"big", "bytes", "cores-2"}
    assert story.run().started["big"] == 9
    assert story.but(reserve=THRESHOLD).at(8).running == {"old"}


def test_a_holder_may_be_given_other_jobs_places_only_by_waiting() -> None:
    # Nothing of the above evicts anybody, whatever the holder's priority: that is preempt's business.
    outcome = scene(LOW, full(1), pod("big", 3, priority="low"), reserve=THRESHOLD, leave_out=("preempt",)).run()
    assert outcome.happened("Evicted") == []
    assert outcome.reserved == {"n1": ["big"]}


# -- explanations ---------------------------------------------------------------------------------------------------


def test_the_holder_is_told_what_is_missing_and_for_whom_it_waits() -> None:
    # 3 of 3 CPUs and 2 Gi are wanted; 2.5 CPUs and 3.5 of 4 Gi are in use.
    documents = [
        node("n1", 3, memory="4Gi"), pod("old-a", 1, memory="3Gi", on="n1"), pod("old-b", 1.5, memory="512Mi", on="n1"),
        pod("big", 3, memory="2Gi"),
    ]  # fmt: skip
    code, sentence = scene(documents, reserve=THRESHOLD).run().why("big")
    assert code == "StarvingReserved"
    assert "n1 (2.5 cpu and 1536Mi memory missing, waiting for default/old-a, default/old-b)" in sentence


def test_others_are_told_who_has_the_node() -> None:
    documents = [full(1), gang("big", 3), pod("small", at=4)]
    code, sentence = scene(*documents, reserve=THRESHOLD).run().why("small")
    assert code == "NodeResourceReserved"
    assert sentence == "0 of 1 nodes are available: 1 reserved for default/big."


def test_a_limit_is_warned_of_once_and_stands_in_the_conditions_as_long_as_it_matters() -> None:
    # At 6 the gang asks for one pod only and gets its node; at 9 for two again, which is too many.
    less = patch("PodGroup", "big", {"spec": {"minMember": 1}}, at=6)
    more = patch("PodGroup", "big", {"spec": {"minMember": 2}}, at=9)
    story = scene(full(1, 2), gang("big", 3, 3), less, more, reserve=THRESHOLD, until=12)
    assert story.run().warnings("ReservationLimitExceeded") == [(3.0, "big")]
    told = {}
    for time in (2, 5, 8, 11):
        conditions = story.at(time).report["podGroups"]["default/big"]["conditions"]
        told[time] = [condition["reason"] for condition in conditions if condition["type"] == "Starving"]
    limit = "ReservationLimitExceeded"
    assert told == {2: [], 5: [limit], 8: ["Reserved"], 11: [limit]}


# -- where a pod goes -----------------------------------------------------------------------------------------------


def test_a_pod_goes_where_room_was_set_aside_for_it_although_another_node_is_empty_as_well() -> None:
    # n2 has one CPU idle when big starves, so it is set aside. Both nodes are empty at 8.
    story = scene(
        node("n1", 3), node("n2", 3), pod("old-1", 3, on="n1", run=8), pod("old-2", 2, on="n2", run=8),
        pod("big", 3, at=1), reserve={"starvingJobTimeThreshold": 2}, until=12,
    )  # fmt: skip
    assert story.at(6).reserved == {"n2": ["big"]}
    assert story.run().nodes["big"] == "n2"


@pytest.mark.parametrize(("pods", "reserved"), [(1, {}), (2, {"n1": ["g"]})])
def test_nodes_are_set_aside_for_a_gang_only_with_slots_for_its_pods_without_requests(
    pods: int, reserved: dict[str, list[str]]
) -> None:
    # g-0 takes one slot of n1, and g-1, which requests nothing, another one. On n2 a static pod is one more than there
    # are slots by now: that takes nothing away on n1.
    static = pod("static", 0.5, on="n2")
    static["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "static"
    story = scene(
        node("n1", 3, pods=pods), pod("old", 3, on="n1", run=30), node("n2", 1, pods=0), static,
        gang("g", 3, 0, at=1), reserve={"starvingJobTimeThreshold": 2}, until=6,
    )  # fmt: skip
    assert story.run().reserved == reserved


def test_only_the_domain_that_a_close_group_would_get_is_kept_for_it_while_it_waits_in_line() -> None:
    # One GPU per node. The group needs both nodes of rb, because a static pod stays in ra, and rb-0 is set aside for h.
    # So it waits in line, and rb-1 is kept for it. The last node of ra is of no use to it, and k gets it.
    ra, rb = rack("ra", 1, 1), rack("rb", 1, 1)
    rb[0]["metadata"]["labels"] = {"for": "h"}
    static = gpu_pod("static", on="ra-0")
    static["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "static"
    story = scene(
        ra, rb, static, [gpu_pod(f"old-{name}", on=name, run=60) for name in ("ra-1", "rb-0", "rb-1")],
        gpu_pod("h", at=1, selector={"for": "h"}), close_gang("g", 2, topology=hard(highestTierAllowed=1), at=2),
        gpu_pod("k", at=3), reserve={"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}, until=6,
    )  # fmt: skip
    assert story.run().reserved == {"rb-0": ["h"], "ra-1": ["k"]}
