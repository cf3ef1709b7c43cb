"""Twenty things that went wrong in schedulers of this family, each as a story in which it must not happen again.

Amounts are CPUs unless something else is named.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from builders import GPU, budget, cluster, group, node, plugin, pod, pods, priority_class, queue
from oracles.stories import FAIR, PREEMPTION, Entry, Story, scheduler
from stromboli.api import KObject, names
from stromboli.cluster import Applied, Cluster, Deleted, Job
from stromboli.scheduling.callbacks import Refusal, Verdict, Vote
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

CLASSES = [priority_class("high", 100000), priority_class("low", 10)]
EVERYTHING = "enqueue, reclaim, allocate, preempt, backfill"
ALL_TIERS = [
    ["priority", "gang", "conformance", "pdb"],
    ["overcommit", plugin("drf", preemptable=False), "predicates", "proportion", "nodeorder"],
]


# 1. What a cycle learns about one cluster is gone when the next begins: a scheduler that worked on a full cluster for a
# while decides about another one just as a new scheduler does.
def test_01_no_state_is_kept_from_one_cycle_to_the_next() -> None:
    def busy() -> Cluster:
        return cluster(
            node("n1", cpu=2), group("pg"), pods("r", 2, group="pg", cpu=1, node="n1"), pod("p", group="pg", cpu=1)
        )

    def idle() -> Cluster:
        return cluster(node("n1", cpu=4), group("pg"), pods("p", 3, group="pg", cpu=1))

    used, fresh = scheduler(EVERYTHING, ALL_TIERS), scheduler(EVERYTHING, ALL_TIERS)
    for _ in range(3):
        assert not any(isinstance(d, Bind) for d in used.run(busy(), 1000.0).decisions)
    assert used.run(idle(), 1000.0) == fresh.run(idle(), 1000.0)


# 2. A gang of 9 comes first (it is older) and finds room for 4. The jobs after it, of 2 each, are tried all the same.
def test_02_a_job_that_cannot_start_does_not_end_the_pass() -> None:
    story = Story(
        node("n1", cpu=4),
        group("big", min_member=9),
        group("a", min_member=2),
        group("b", min_member=2),
        pods("big", 9, group="big", cpu=1),
        pods("a", 2, group="a", cpu=1),
        pods("b", 2, group="b", cpu=1),
        actions="allocate",
        tiers=[["gang"], ["predicates"]],
    ).run()
    assert set(story.binds) == {"a-0", "a-1", "b-0", "b-1"}


# 3. 4 CPUs and no overcommitment. The first job was let in for 2 and its pods are being bound: it has 2, and is owed
# nothing more. Counted twice that would be 4; counted once, the second job's 2 fit.
def test_03_a_pod_that_is_being_bound_is_not_counted_as_promised_too() -> None:
    story = Story(
        node("n1", cpu=4),
        group("first", min_member=2, min_resources={"cpu": 2}),
        pods("a", 2, group="first", cpu=1),
        actions="enqueue, allocate",
        tiers=[["gang"], ["proportion", plugin("overcommit", {"overcommit-factor": 1.0})]],
    ).run()
    assert set(story.binds) == {"a-0", "a-1"}
    story.add(group("second", phase="Pending", min_resources={"cpu": 2}))
    assert story.run().phase("second") == "Inqueue"
    story.add(group("third", phase="Pending", min_resources={"cpu": 1}))
    assert story.run().phase("third") == "Pending"  # 2 bound and 2 promised


# 4. A gang of 2 could have one place by an eviction, but not two (the other pod must not go): nobody is evicted. The
# same between queues.
@pytest.mark.parametrize(("action", "second_queue"), [("preempt", "q1"), ("reclaim", "q2")])
def test_04_nobody_is_evicted_for_a_gang_that_is_not_placed(action: str, second_queue: str) -> None:
    story = Story(
        CLASSES,
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue=second_queue, min_member=2, priority_class="high"),
        pod("may", group="pg1", cpu=1, node="n1", preemptable=True),
        pod("must-not", group="pg1", cpu=1, node="n1", preemptable=False),
        pods("p", 2, group="pg2", cpu=1),
        actions=action,
        tiers=PREEMPTION,
    ).run()
    assert story.evicted == []
    assert story.nominated == {}


# 4'. The same with a pod that asks for nothing: it has no node by its selector, so the gang of 2 will not start, and
# nobody goes for its other pod.
@pytest.mark.parametrize(("action", "second_queue"), [("preempt", "q1"), ("reclaim", "q2")])
@pytest.mark.parametrize(("selector", "evicted"), [({}, ["r-1"]), ({"disk": "ssd"}, [])])
def test_04_nor_for_one_that_lacks_a_pod_without_requests(
    action: str, second_queue: str, selector: dict[str, str], evicted: list[str]
) -> None:
    story = Story(
        CLASSES,
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue=second_queue, min_member=2, priority_class="high"),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        pod("asks", group="pg2", cpu=1),
        pod("free", group="pg2", node_selector=selector),
        actions=action,
        tiers=PREEMPTION,
    ).run()
    assert story.evicted == evicted


# 5. Two equal nodes, full. Whoever is evicted, the pod goes to that very node, and to no other, even if another one
# becomes free first.
def test_05_a_pod_goes_where_others_were_evicted_for_it() -> None:
    story = Story(
        CLASSES,
        [node(f"n{i}", cpu=2) for i in (1, 2)],
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        [pod(f"r{i}", group="pg1", cpu=2, node=f"n{i}") for i in (1, 2)],
        pod("p", group="pg2", cpu=2),
        actions="allocate, preempt",
        tiers=PREEMPTION,
    ).run()
    (victim,) = story.evicted
    (home,) = story.evicted_from
    assert story.nominated == {"p": home}
    story.carry_out()
    story.remove(*({"r1", "r2"} - {victim}))
    assert story.run().binds == {"p": home}


# 6. Both queues have a high job that waits and a low one that runs: each makes room for its own, in one cycle.
def test_06_one_queues_turn_does_not_use_up_anothers() -> None:
    story = Story(
        CLASSES,
        node("n1", cpu=2),
        [queue(name) for name in ("q1", "q2")],
        [group(f"{q}-low", queue=q, min_member=0, priority_class="low") for q in ("q1", "q2")],
        [group(f"{q}-high", queue=q, min_member=1, priority_class="high") for q in ("q1", "q2")],
        [pod(f"{q}-r", group=f"{q}-low", cpu=1, node="n1") for q in ("q1", "q2")],
        [pod(f"{q}-p", group=f"{q}-high", cpu=1) for q in ("q1", "q2")],
        actions="preempt",
        tiers=PREEMPTION,
    ).run()
    assert story.evicted == ["q1-r", "q2-r"]


# 7. Neither pod names a role. That the first has no node says nothing about the second.
def test_07_pods_without_a_role_are_not_taken_for_alike() -> None:
    story = Story(
        node("n1", cpu=2),
        group("pg", min_member=1),
        pod("a-1", group="pg", cpu=1, node_selector={"disk": "ssd"}),
        pod("a-2", group="pg", cpu=1),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"a-2": "n1"}


# 8. A pod waits for the room of one that leaves: that is said while it is so. Then the node is gone, and with it the
# hope; nothing of it is left in the books or in what is said.
def test_08_what_was_hoped_for_does_not_outlive_its_cycle() -> None:
    story = Story(
        node("n1", cpu=1),
        group("old", min_member=0),
        pod("leaving", group="old", cpu=1, node="n1", deleted=True),
        group("pg"),
        pod("p", group="pg", cpu=1),
        actions="allocate",
        tiers=[["gang"], ["predicates"]],
    ).run()
    assert (story.why("p"), story.nominated) == ("WaitingForRelease", {})
    story.known.apply(Deleted(node("n1")))
    story.run()
    assert story.task("p").status.name == "PENDING"
    assert story.message("p") == "The cluster has no nodes; add some."


# 9. The budget is for pods labelled app=db. A pod without labels is none of them, and may go.
def test_09_a_pod_without_labels_can_be_evicted_where_there_are_budgets() -> None:
    story = Story(
        CLASSES,
        node("n1", cpu=2),
        budget("db", allowed=0, selector={"app": "db"}),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("bare", group="pg1", cpu=1, node="n1"),
        pod("db", group="pg1", cpu=1, node="n1", labels={"app": "db"}),
        pods("p", 2, group="pg2", cpu=1),
        actions="preempt",
        tiers=[["priority", "gang", "conformance", "pdb"], ["proportion"]],
    ).run()
    assert story.evicted == ["bare"]


def says(name: str, words: dict[str, Verdict]) -> type[Plugin]:
    class Says(Plugin):
        def open(self, session: Session) -> None:
            session.add_preemptable(lambda e, candidate, w: words.get(candidate.name, Verdict.NOTHING), protects=False)

    Says.name = name
    return Says


# 10. One plugin refuses a, the next refuses b: nobody is left. A third that would permit both, in the same tier or in
# a lower one, does not bring them back.
@pytest.mark.parametrize("same_tier", [True, False])
def test_10_who_was_refused_is_not_brought_back(same_tier: bool) -> None:
    one = says("one", {"a": Verdict.YES, "b": Verdict.NO})
    two = says("two", {"a": Verdict.NO, "b": Verdict.YES})
    three = says("three", {"a": Verdict.YES, "b": Verdict.YES})
    tiers: list[list[Entry]] = [[one, two, three]] if same_tier else [[one, two], [three]]
    story = Story(
        node("n1", cpu=2),
        group("pg1", min_member=0),
        [pod(name, group="pg1", cpu=1, node="n1") for name in "ab"],
        group("pg2", min_member=1),
        pod("p", group="pg2", cpu=1),
        actions="preempt",
        tiers=[["priority"], *tiers],
    ).run()
    assert story.evicted == []


# 11. Elsewhere a test of shares over a hierarchy of queues asserted the contrary of what it meant, so nobody knew. Two
# departments share 4 CPUs and 4 GB; one has a team for each. (More in the tests of the plugin, against sums by hand.)
def test_11_a_hierarchy_divides_as_it_says() -> None:
    def team(path: str, **wants: int) -> list[list[KObject]]:
        name = path.rpartition("/")[2]
        its_queue = queue(name)
        its_queue.metadata.annotations[names.HIERARCHY] = path
        return [[its_queue], [group(name, queue=name)], [*pods(name, 4, group=name, **wants)]]

    story = Story(
        node("n1", cpu=4, memory=4),
        *team("root/sci", cpu=1, memory=1),
        *team("root/eng/dev", cpu=1),
        *team("root/eng/prod", memory=1),
        actions="allocate",
        tiers=[["gang"], [plugin("drf", hierarchy=True), "predicates"]],
    ).run()
    assert [sum(pod.startswith(name) for pod in story.binds) for name in ("sci", "dev", "prod")] == [2, 2, 2]


# 12. The same objects, heard of in another order: the same decisions, to the byte and in the same order.
def test_12_the_order_of_news_does_not_decide() -> None:
    def objects() -> list[list[KObject]]:
        """In parts whose order is changed; every object says when it was created, two pairs at the same time."""
        return [
            [node(f"n{i}", cpu=2, memory="4Gi", created=0) for i in range(3)],
            [queue("q1", created=1), queue("q2", weight=2, created=1), queue("default", created=1)],
            [
                group("one/a", queue="q1", min_member=2, created=2),
                group("two/a", queue="q1", min_member=1, created=2),
                group("one/b", queue="q2", min_member=1, created=2, priority_class="high"),
                group("two/c", queue="q2", min_member=3, created=3),
            ],
            [pod(f"one/a-{i}", group="a", cpu=1, memory="1Gi", created=4) for i in range(3)],
            [pod(f"two/a-{i}", group="a", cpu=1, memory="1Gi", created=4) for i in range(3)],
            [pod("two/run", group="a", cpu=2, memory="1Gi", node="n1", created=4)],
            [pod(f"one/b-{i}", group="b", cpu=2, memory="1Gi", created=4) for i in range(2)],
        ]

    def decided(order: tuple[int, ...], backwards: bool) -> str:
        parts = objects()
        chosen = [parts[i][::-1] if backwards else parts[i] for i in order]
        known = cluster(priority_class("high", 100), *chosen)
        return repr(scheduler(EVERYTHING, ALL_TIERS).run(known, 2_000_000_000.0))

    first = decided(tuple(range(7)), False)
    assert "Bind" in first
    orders = list(permutations(range(7)))[::157]
    assert {decided(order, backwards) for order in orders for backwards in (False, True)} == {first}


# 13. The group of running and waiting pods is deleted, then their queue: nothing fails, nobody else is held up by it,
# and as nobody's pods they are neither placed nor evicted.
def test_13_pods_of_a_deleted_group_do_no_harm() -> None:
    lost = group("lost", queue="q1", min_member=1)
    story = Story(
        CLASSES,
        node("n1", cpu=3),
        queue("q1"),
        queue("q2"),
        lost,
        pod("orphan-runs", group="lost", cpu=1, node="n1"),
        pod("orphan-waits", group="lost", cpu=1),
        group("pg", queue="q2", priority_class="high"),
        pods("p", 3, group="pg", cpu=1),
        actions=EVERYTHING,
        tiers=ALL_TIERS,
    )
    story.known.apply(Deleted(lost))
    assert set(story.run().binds) == {"p-0", "p-1"}
    story.known.apply(Deleted(queue("q1")))
    story.carry_out()
    assert (story.run().binds, story.evicted) == ({}, [])


# 14. 3 run where the node has 2 now: 2 - 3 = -1. The other node serves as before, and this one takes nobody, not even
# in exchange for one eviction (-1 + 1 = 0 < 1).
def test_14_a_node_with_less_than_nothing_idle_is_no_error() -> None:
    story = Story(
        CLASSES,
        node("n1", cpu=3, created=0),
        node("n2", cpu=1, created=0),
        group("pg1", min_member=0, priority_class="low"),
        pods("r", 3, group="pg1", cpu=1, node="n1"),
        group("pg2", min_member=1, priority_class="high"),
        pods("p", 2, group="pg2", cpu=1),
        actions=EVERYTHING,
        tiers=ALL_TIERS,
    )
    story.known.apply(Applied(node("n1", cpu=2, created=0)))
    assert (story.run().binds, story.evicted) == ({"p-0": "n2"}, [])


# 15. The node takes 4 pods. a has 3 small pods (3/4 of the places, 0.3 of 10 CPUs), b has one of 4 (a quarter of the
# places, 0.4 of the CPUs): by what they use, a has the smaller share and goes first. A queue limited in CPUs, a group
# that states a number of pods: places are a matter of nodes.
def test_15_the_number_of_pods_is_no_resource_to_be_shared() -> None:
    story = Story(
        node("n1", cpu=10, pods=5),
        queue("q1", capability={"cpu": 10}),
        group("b", queue="q1"),
        group("a", queue="q1"),
        pods("a-r", 3, group="a", cpu=1, node="n1"),
        pod("b-r", group="b", cpu=4, node="n1"),
        pod("a-p", group="a", cpu=1),
        pod("b-p", group="b", cpu=1),
        group("many", queue="q1", phase="Pending", min_resources={"cpu": 1, "pods": 500}),
        actions="enqueue, allocate",
        tiers=[["gang"], ["drf", "overcommit", "proportion", "predicates"]],
    ).run()
    assert story.binds == {"a-p": "n1"}
    assert story.why("b-p") == "PredicatePodCount"
    assert story.phase("many") == "Inqueue"
    assert "pods" not in story.cycle.deserved["q1"]


class Bouncer(Plugin):
    """Lets nobody in whose name is `unwelcome`."""

    name = "bouncer"

    def open(self, session: Session) -> None:
        session.add_job_enqueueable(self._vote)

    def _vote(self, job: Job) -> Vote | Refusal:
        return Vote.REJECT if job.name == "unwelcome" else Vote.PERMIT


# 16. 2 CPUs. The first job asks for 2 and is let in by two plugins, but not by the third: it must not stand in the
# books of the two, or the second one's 2 would not fit. Wherever the third stands.
@pytest.mark.parametrize("place", [0, 1, 2])
def test_16_a_job_that_was_refused_is_promised_nothing(place: int) -> None:
    tier: list[Entry] = ["proportion", plugin("overcommit", {"overcommit-factor": 1.0})]
    tier.insert(place, Bouncer)
    story = Story(
        node("n1", cpu=2),
        group("unwelcome", phase="Pending", min_resources={"cpu": 2}),
        group("welcome", phase="Pending", min_resources={"cpu": 2}),
        actions="enqueue",
        tiers=[tier],
    ).run()
    assert (story.phase("unwelcome"), story.phase("welcome")) == ("Pending", "Inqueue")


# 17. A weight of 0 counts as 1: 4 CPUs for two queues, 2 each, and no division by nothing.
def test_17_a_queue_of_weight_nothing_counts_as_one() -> None:
    story = Story(
        node("n1", cpu=4),
        queue("q1", weight=0),
        queue("q2", weight=1),
        group("pg1", queue="q1"),
        group("pg2", queue="q2"),
        pods("a", 4, group="pg1", cpu=1),
        pods("b", 4, group="pg2", cpu=1),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert sorted(story.binds) == ["a-0", "a-1", "b-0", "b-1"]
    assert story.cycle.deserved["q1"] == story.cycle.deserved["q2"] == {"cpu": 2000}


# 18. Jobs of one pod each, more than fit, whose owners make a new pod at once for each that is evicted.
# In one queue, of equal priority: nobody has a reason to evict anybody. In two queues of 2 CPUs together: q1 has both,
# one is taken back, and then there is peace.
@pytest.mark.parametrize(("queues", "evictions"), [(("q1", "q1"), 0), (("q1", "q2"), 1)])
def test_18_jobs_of_one_pod_do_not_evict_each_other_for_ever(queues: tuple[str, str], evictions: int) -> None:
    story = Story(
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        [group(f"a{i}", queue=queues[0], min_member=1) for i in range(2)],
        [pod(f"a{i}", group=f"a{i}", cpu=1, node="n1") for i in range(2)],
        [group(f"b{i}", queue=queues[1], min_member=1) for i in range(2)],
        [pod(f"b{i}", group=f"b{i}", cpu=1) for i in range(2)],
        actions=EVERYTHING,
        tiers=ALL_TIERS,
    )
    assert story.live(10, successors=True) == evictions


# 19. Two queues, 4 CPUs and 4 GPUs. q1 has its 2 CPUs, and more CPUs it does not get; of the GPUs it deserves 2 and has
# none, so a pod that asks for one GPU and no CPU is placed.
def test_19_a_queue_without_cpus_left_still_gets_its_gpus() -> None:
    story = Story(
        node("n1", cpu=4, gpu=4),
        queue("q1"),
        queue("q2"),
        group("pg1", queue="q1", min_member=1),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        group("pg2", queue="q2", min_member=1),
        pods("other", 2, group="pg2", cpu=1, node="n1"),
        pods("other-waits", 4, group="pg2", cpu=1, gpu=1),
        group("pg3", queue="q1", min_member=1),
        pod("device", group="pg3", resources={GPU: 1}),
        group("pg4", queue="q1", min_member=1),
        pod("more", group="pg4", cpu=1),
        actions="allocate",
        tiers=FAIR,
    ).run()
    assert story.binds == {"device": "n1"}
    assert story.why("more") == "QueueOverDeserved"


# 20. What was heard before a cycle is seen in it: a pod and its group in the cycle after they came, a node that came
# last of all, room that was freed a moment ago.
def test_20_news_are_seen_in_the_very_next_cycle() -> None:
    story = Story(actions="allocate", tiers=[["gang"], ["predicates"]])
    assert story.run().binds == {}
    story.add(pod("early", group="pg", cpu=1))  # its group comes after it
    assert story.run().binds == {}
    story.add(group("pg", min_member=1))
    assert story.run().message("early") == "The cluster has no nodes; add some."
    story.add(node("n1", cpu=1))
    assert story.run().binds == {"early": "n1"}
    story.carry_out()
    story.add(pod("late", group="pg", cpu=1))
    assert story.run().binds == {}
    story.remove("early")
    assert story.run().binds == {"late": "n1"}
