"""Preemption inside a queue, by cases whose answers are known beforehand (PR1 to PR16, PRI1, VO1, V1 to V4).

`high` and `low` are priority classes of 100000 and 10. Amounts are CPUs unless something else is named.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from builders import group, node, plugin, pod, pods, priority_class, queue
from oracles.stories import PREEMPTION, Entry, Story
from stromboli.api import Container, ContainerPort, KObject, ResourceRequirements
from stromboli.cluster import Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

CLASSES = [priority_class("high", 100000), priority_class("low", 10)]


def story(*objects: KObject | Iterable[KObject], tiers: Iterable[Iterable[Entry]] = PREEMPTION) -> Story:
    return Story(CLASSES, *objects, actions="preempt", tiers=tiers).run()


# PR1. 10 - 2 = 8 are idle and 1 is asked for: allocate will see to it.
def test_pr1_nobody_goes_while_there_is_room() -> None:
    told = story(
        node("n1", cpu=10),
        group("pg1", min_member=3),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        pod("p", group="pg1", cpu=1),
    )
    assert told.evicted == []


# PR2. Both jobs have their minimum of 1; what they want beyond it is no reason to evict anybody.
def test_pr2_a_job_that_has_its_minimum_does_not_preempt() -> None:
    told = story(
        node("n1", cpu=3),
        group("pg1", min_member=1, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pods("a", 2, group="pg1", cpu=1, node="n1"),
        pod("b-0", group="pg2", cpu=1, node="n1"),
        pod("b-1", group="pg2", cpu=1),
    )
    assert told.evicted == []


# PR3. Of the two that run, one says it is not to be preempted. One is enough for the high job's minimum of 1.
def test_pr3_only_the_preemptable_pod_goes() -> None:
    told = story(
        node("n1", cpu=2),
        group("pg1", min_member=1, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("a", group="pg1", cpu=1, node="n1", preemptable=True),
        pod("b", group="pg1", cpu=1, node="n1", preemptable=False),
        pods("p", 2, group="pg2", cpu=1),
    )
    assert told.evicted == ["a"]


# PR3'. All three may go and three wait, but the job needs one to start: one goes. What it wants beyond its minimum it
# gets when there is room.
def test_pr3_a_job_takes_no_more_than_its_minimum() -> None:
    told = story(
        node("n1", cpu=3),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pods("r", 3, group="pg1", cpu=1, node="n1"),
        pods("p", 3, group="pg2", cpu=1),
    )
    assert len(told.evicted) == 1


# PR4. 6 - 3 = 3 are idle, 5 are asked for: two of 1 have to go, and just two may (the third stays, and with it the low
# job's minimum of 1).
def test_pr4_as_many_as_needed_and_no_more() -> None:
    told = story(
        node("n1", cpu=6),
        group("pg1", min_member=1, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pods("a", 2, group="pg1", cpu=1, node="n1", preemptable=True),
        pod("b", group="pg1", cpu=1, node="n1", preemptable=False),
        pod("p", group="pg2", cpu=5),
    )
    assert told.evicted == ["a-0", "a-1"]
    assert told.nominated == {"p": "n1"}


# PR5. The node has 12 - 3 = 9 idle, but the queue may have 4: 3 + 3 > 4. Evicting one pod of 3 leaves 0 + 3; of three
# pods of 1, two have to go: 1 + 3 = 4.
# PR6. With a capability of 6, 3 + 3 = 6 fits as it is.
@pytest.mark.parametrize(
    ("capability", "running", "evicted"),
    [(4, [3], ["r0"]), (4, [1, 1, 1], ["r1", "r2"]), (6, [3], []), (6, [1, 1, 1], [])],
    ids=["PR5", "PR5-small", "PR6", "PR6-small"],
)
def test_pr5_pr6_the_queues_limit_forces_it_not_the_node(
    capability: int, running: list[int], evicted: list[str]
) -> None:
    told = story(
        node("n1", cpu=12),
        queue("q1", capability={"cpu": capability}),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue="q1", min_member=1, priority_class="high"),
        [pod(f"r{i}", group="pg1", cpu=cpu, node="n1") for i, cpu in enumerate(running)],
        pod("p", group="pg2", cpu=3),
    )
    assert told.evicted == evicted


# PR7. The queue is at its 3; one of 1 has to go. One must not, one is an important pod of its job, one is neither.
def test_pr7_the_least_important_of_those_that_may_go() -> None:
    told = story(
        node("n1", cpu=12),
        queue("q1", capability={"cpu": 3}),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue="q1", min_member=1, priority_class="high"),
        pod("kept", group="pg1", cpu=1, node="n1", preemptable=False),
        pod("plain", group="pg1", cpu=1, node="n1", preemptable=True),
        pod("important", group="pg1", cpu=1, node="n1", preemptable=True, priority=100000),
        pod("p", group="pg2", cpu=1),
    )
    assert told.evicted == ["plain"]


# PR8. The node takes one pod and runs one that asks for nothing; the high pod asks for 3 of its 10.
# PR9. The high pod asks for nothing, either. Same place, same answer, and it is bound when the place is free.
@pytest.mark.parametrize("asked", [3, None], ids=["PR8", "PR9"])
def test_pr8_pr9_a_place_among_the_nodes_pods_can_be_preempted(asked: int | None) -> None:
    told = Story(
        CLASSES,
        node("n1", cpu=10, pods=1),
        group("pg1", min_member=1, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("r", group="pg1", node="n1"),
        pod("p", group="pg2", cpu=asked),
        actions="allocate, preempt, backfill",
        tiers=PREEMPTION,
    ).run()
    assert told.evicted == ["r"]
    assert told.nominated == {"p": "n1"}
    told.carry_out(successors=True)
    assert told.run().binds == {"p": "n1"}


# The node has 4: 1 idle and 3 on their way out for a pod of 4. A pod of 1 would fit in what is idle, but the 4 need it
# as well; it has to wait, in this cycle and in those that follow until the room is used.
def test_room_that_others_were_evicted_for_is_not_given_away_in_pieces() -> None:
    told = Story(
        CLASSES,
        node("n1", cpu=4),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("r", group="pg1", cpu=3, node="n1"),
        pod("p", group="pg2", cpu=4),
        actions="allocate, preempt, backfill",
        tiers=PREEMPTION,
    ).run()
    assert told.evicted == ["r"]
    told.add(group("pg3", priority_class="high"), pod("small", group="pg3", cpu=1))
    assert told.run().binds == {}  # r is still leaving
    told.remove("r")
    assert told.run().binds == {"p": "n1"}


# A scheduler that starts afresh, while the evicted pod is still leaving, reads the promise from the waiting pod: it
# neither evicts the other one as well nor gives the room to somebody else.
def test_a_promise_survives_a_restart_of_the_scheduler() -> None:
    leaving = pod("r1", group="pg1", cpu=2, node="n1", deleted=True)
    waiting = pod("p", group="pg2", cpu=2)
    waiting.status.nominated_node_name = "n1"
    told = Story(
        CLASSES,
        node("n1", cpu=2),
        node("n2", cpu=2),
        group("pg0", priority_class="high"),
        pod("first", group="pg0", cpu=2),
        group("pg1", min_member=0, priority_class="low"),
        leaving,
        pod("r2", group="pg1", cpu=2, node="n2", preemptable=False),
        group("pg2", min_member=1, priority_class="high"),
        waiting,
        actions="allocate, preempt",
        tiers=PREEMPTION,
    ).run()
    assert (told.binds, told.evicted) == ({}, [])
    told.remove("r1")
    assert told.run().binds == {"p": "n1"}


# The other way round nobody goes: what asks for room is not evicted for a pod that asks for none.
def test_pr8_nothing_that_asks_for_room_goes_for_a_pod_that_asks_for_none() -> None:
    told = story(
        node("n1", cpu=10, pods=1),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("r", group="pg1", cpu=3, node="n1"),
        pod("p", group="pg2"),
    )
    assert told.evicted == []


# PR10. The pod's own policy forbids it to preempt.
@pytest.mark.parametrize(("may_preempt", "evicted"), [(True, ["r"]), (False, [])])
def test_pr10_a_pod_that_never_preempts(may_preempt: bool, evicted: list[str]) -> None:
    told = story(
        node("n1", cpu=1),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("r", group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=1, may_preempt=may_preempt),
    )
    assert told.evicted == evicted


# PR11. 4 > 3: even with both of 1 gone, the queue may not take it. All evictions are taken back.
def test_pr11_what_does_not_help_does_not_happen() -> None:
    told = story(
        node("n1", cpu=10),
        queue("q1", capability={"cpu": 3}),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue="q1", min_member=1, priority_class="high"),
        pods("r", 2, group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=4),
    )
    assert told.evicted == []
    assert told.task("r-0").status.name == told.task("r-1").status.name == "RUNNING"


# PR12. The queue has 1 + 4 of 6 and gets 3 more. On n1 the victim of 1 would make room (2 + 1 = 3), but 5 - 1 + 3 = 7
# is more than 6; on n2 the victim of 4 makes room and 5 - 4 + 3 = 4.
def test_pr12_the_node_where_it_really_works() -> None:
    told = story(
        node("n1", cpu=3),
        node("n2", cpu=4),
        queue("q1", capability={"cpu": 6}),
        group("pg1", queue="q1", min_member=0, priority_class="low"),
        group("pg2", queue="q1", min_member=1, priority_class="high"),
        pod("small", group="pg1", cpu=1, node="n1"),
        pod("large", group="pg1", cpu=4, node="n2"),
        pod("p", group="pg2", cpu=3),
    )
    assert told.evicted == ["large"]
    assert told.nominated == {"p": "n2"}


# PR12'. On n1 one pod of middle priority would have to go, on n2 two of low priority: the harm is measured by the most
# important victim first, and only then by how many there are. Equal ones count: then n1 with its one is better.
@pytest.mark.parametrize(("on_n1", "evicted"), [("mid", ["b-0", "b-1"]), ("low", ["a"])])
def test_pr12_the_node_where_the_least_harm_is_done(on_n1: str, evicted: list[str]) -> None:
    told = story(
        priority_class("mid", 50),
        node("n1", cpu=2),
        node("n2", cpu=2),
        group("pg0", min_member=0, priority_class=on_n1),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("a", group="pg0", cpu=2, node="n1"),
        pods("b", 2, group="pg1", cpu=1, node="n2"),
        pod("p", group="pg2", cpu=2),
    )
    assert told.evicted == evicted


# PR13. 2 CPUs, one used by q1, whose only job is content, one by q2's low job. q2's high job takes the latter,
# whichever queue is looked at first.
@pytest.mark.parametrize(("content", "hungry"), [("q1", "q2"), ("q2", "q1")])
def test_pr13_the_order_of_queues_does_not_matter(content: str, hungry: str) -> None:
    told = story(
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("calm", queue=content, min_member=1),
        group("pg1", queue=hungry, min_member=0, priority_class="low"),
        group("pg2", queue=hungry, min_member=1, priority_class="high"),
        pod("calm", group="calm", cpu=1, node="n1"),
        pod("r", group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=1),
    )
    assert told.evicted == ["r"]


def with_port(key: str, group: str, node: str = "") -> KObject:
    wants = ResourceRequirements(requests={"cpu": 1})
    ports = [ContainerPort(container_port=80, host_port=8080)]
    return pod(key, group=group, node=node, containers=[Container(name="main", resources=wants, ports=ports)])


# PR14. 10 - 2 = 8 are idle, so it is not for the CPUs: the port of the node is taken, and only the pod that holds it
# can help. The other one stays, though it would be the first choice otherwise (it is younger).
def test_pr14_the_one_whose_leaving_satisfies_the_filter() -> None:
    told = story(
        node("n1", cpu=10),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        with_port("holder", "pg1", "n1"),
        pod("bystander", group="pg1", cpu=1, node="n1"),
        with_port("p", "pg2"),
    )
    assert told.evicted == ["holder"]


# With dominant shares alone deciding, and every job that wants more counting as starving.
SHARES: list[list[Entry]] = [
    [plugin("priority", preemptable=False)],
    ["gang", "conformance", "drf", "proportion", "predicates", "nodeorder"],
]


# PR15. 12 CPUs, all used by one job, its minimum 1. A second job wants as much: 6 and 6. A third: 4, 4 and 4. Then it
# is quiet: nobody is evicted any more.
@pytest.mark.parametrize(("arriving", "each"), [(1, 6), (2, 4)])
def test_pr15_jobs_end_with_equal_parts(arriving: int, each: int) -> None:
    told = Story(
        CLASSES,
        [node(f"n{i}", cpu=6) for i in range(2)],
        group("pg0", min_member=1, priority_class="low"),
        [pod(f"a-{i}", group="pg0", cpu=1, node=f"n{i % 2}") for i in range(12)],
        [group(f"pg{i + 1}", min_member=1, priority_class="high") for i in range(arriving)],
        *[pods(name, 12, group=f"pg{i + 1}", cpu=1) for i, name in enumerate("bc"[:arriving])],
        actions="allocate, preempt",
        tiers=SHARES,
    )
    told.live(12, successors=True)
    assert [told.running(f"pg{i}") for i in range(arriving + 1)] == [each] * (arriving + 1)
    assert told.live(4, successors=True) == 0


# Inside a job: its important pod takes the place of a lesser sibling, if the job has its minimum (2 run, 1 is needed).
# But not in a gang of 3 of which 2 run: one would be missing before and after, so one would be evicted for nothing.
@pytest.mark.parametrize(("min_member", "evictions"), [(1, 1), (3, 0)])
def test_a_pod_takes_the_place_of_a_lesser_sibling(min_member: int, evictions: int) -> None:
    told = story(
        node("n1", cpu=2),
        group("pg1", min_member=min_member),
        pods("r", 2, group="pg1", cpu=1, node="n1", priority=1),
        pod("p", group="pg1", cpu=1, priority=100),
        tiers=[["priority"], ["gang", "conformance", "proportion", "predicates"]],
    )
    assert len(told.evicted) == evictions


# PR16. A gang of 4 fills the cluster; another gang of 4, of the same priority, may not take any of it.
def test_pr16_an_equal_gang_evicts_nobody() -> None:
    told = story(
        node("n1", cpu=4),
        group("pg1", min_member=4),
        group("pg2", min_member=4),
        pods("r", 4, group="pg1", cpu=1, node="n1"),
        pods("p", 4, group="pg2", cpu=1),
    )
    assert told.evicted == []
    assert "Unschedulable" in told.conditions("pg2")


# -- who has a say ------------------------------------------------------------------------------------------------


# PRI1. The flag of the plugin decides whether priority is a reason to evict.
@pytest.mark.parametrize(("enabled", "evicted"), [(True, ["r"]), (False, [])])
def test_pri1_priority_without_its_word_in_preemption(enabled: bool, evicted: list[str]) -> None:
    told = story(
        node("n1", cpu=1),
        group("pg1", min_member=0, priority_class="low"),
        group("pg2", min_member=1, priority_class="high"),
        pod("r", group="pg1", cpu=1, node="n1"),
        pod("p", group="pg2", cpu=1),
        tiers=[["conformance", "gang", plugin("priority", preemptable=enabled), "proportion"]],
    )
    assert told.evicted == evicted


# VO1. Two jobs of equal priority, equal in all but the priority of their pods: the lower pod goes first, whatever the
# names and ages. In reclaim as well, where the evictor is of another queue.
@pytest.mark.parametrize("lower", ["a", "b"])
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_vo1_among_equals_the_pod_of_lower_priority_goes_first(action: str, lower: str) -> None:
    higher = "b" if lower == "a" else "a"
    told = Story(
        CLASSES,
        node("n1", cpu=2),
        queue("q1"),
        queue("q2"),
        group("a", queue="q1", min_member=0, priority_class="low"),
        group("b", queue="q1", min_member=0, priority_class="low"),
        pod("a", group="a", cpu=1, node="n1", priority=1 if lower == "a" else 2),
        pod("b", group="b", cpu=1, node="n1", priority=1 if lower == "b" else 2),
        group("pg2", queue="q1" if action == "preempt" else "q2", priority_class="high"),
        pod("p", group="pg2", cpu=1),
        actions=action,
        tiers=PREEMPTION,
    ).run()
    assert told.evicted == [lower]
    assert told.task(higher).status.name == "RUNNING"


def says(name: str, *, yes: str = "", no: str = "") -> type[Plugin]:
    """A plugin that permits some pods, refuses others, and has nothing to say of the rest."""
    words = {**dict.fromkeys(yes.split(), Verdict.YES), **dict.fromkeys(no.split(), Verdict.NO)}

    def verdict(evictor: Task, candidate: Task, whole: bool) -> Verdict:
        return words.get(candidate.name, Verdict.NOTHING)

    class Says(Plugin):
        def open(self, session: Session) -> None:
            session.add_preemptable(verdict, protects=False)

    Says.name = name
    return Says


def victims(*tiers: list[type[Plugin]]) -> list[str]:
    """Who of a, b and c goes for three pods that want a place each, as far as there are victims."""
    return story(
        node("n1", cpu=3),
        group("pg1", min_member=0),
        [pod(name, group="pg1", cpu=1, node="n1") for name in "abc"],
        group("pg2", min_member=1),
        pods("p", 3, group="pg2", cpu=1),
        tiers=[["priority"], *tiers],
    ).evicted


# V1. The first permits a and b and refuses c, the second permits b and c and refuses a: b is left.
def test_v1_a_no_beats_a_yes() -> None:
    assert victims([says("one", yes="a b", no="c"), says("two", yes="b c", no="a")]) == ["b"]


# V2. Who has nothing to say neither adds nor takes away.
def test_v2_silence_is_no_word() -> None:
    assert victims([says("one", yes="a b"), says("silent")]) == ["a", "b"]


# V3. No plugin, no yes, no victim.
def test_v3_without_a_word_nobody_goes() -> None:
    assert victims([]) == []
    assert victims([says("silent")]) == []


# V4. Elsewhere a first tier that refuses everybody leaves it to the second tier to choose anybody. Here a tier that has
# a word on a candidate decides about it: of a and b the first says no, so only c is left to the second.
def test_v4_a_lower_tier_does_not_overrule_a_no() -> None:
    assert victims([says("one", no="a b c")], [says("two", yes="a b c")]) == []
    assert victims([says("one", no="a b")], [says("two", yes="a b c")]) == ["c"]
    assert victims([says("one", yes="a")], [says("two", yes="b", no="a c")]) == ["a", "b"]
