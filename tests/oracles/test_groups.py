"""What is said about groups at the end of a cycle, who is let in, and how jobs are counted (GA, PG, EN, JI).

Amounts are CPUs unless something else is named.
"""

from __future__ import annotations

import pytest

from builders import group, node, pod, pods, queue, session
from oracles.stories import FAIR, Story

GANGS = [["gang"], ["drf", "predicates", "nodeorder"]]  # where queues have no say, nodes are what is short

# -- gangs --------------------------------------------------------------------------------------------------------


def gang_of_three(*others: object, min_member: int = 3) -> Story:
    """Two run and, with the others given, make up the group."""
    return Story(
        node("n1", cpu=3),
        group("pg", min_member=min_member, phase="Running"),
        pods("r", 2, group="pg", cpu=1, node="n1"),
        list(others),  # type: ignore[arg-type]
        actions="allocate",
        tiers=FAIR,
    )


# GA1. Two of three run and the third is on its way out: nothing is short of room, it will end by itself. But if its
# successor waits already (for the room of the leaving one: 3 - 2 - 1 = 0 is idle), or one of the three was deleted
# before it ever had a node, the gang is not whole, and that is said.
def test_ga1_a_gang_that_is_only_terminating_is_not_called_unschedulable() -> None:
    story = gang_of_three(pod("leaving", group="pg", cpu=1, node="n1", deleted=True)).run()
    assert not story.is_written("pg") or "Unschedulable" not in story.conditions("pg")
    assert story.phase("pg") == "Running"


def test_ga1_a_gang_whose_successor_waits_is_reported() -> None:
    story = gang_of_three(
        pod("leaving", group="pg", cpu=1, node="n1", deleted=True), pod("successor", group="pg", cpu=1)
    ).run()
    assert story.why("successor") == "WaitingForRelease"
    assert "Unschedulable" in story.conditions("pg")


def test_ga1_a_pod_that_never_had_a_node_is_not_taken_for_one_that_leaves() -> None:
    story = gang_of_three(pod("never", group="pg", cpu=1, deleted=True)).run()
    assert "too few pods: 3 required, 2 created" in story.conditions("pg")["Unschedulable"]
    story.carry_out()
    story.run()
    assert not story.is_written("pg")  # said once is enough


# A group that has its minimum is not unschedulable, whatever else it waits for.
def test_ga1_a_gang_that_only_wants_more_is_not_reported() -> None:
    story = gang_of_three(pod("more", group="pg", cpu=9), min_member=2).run()
    assert list(story.conditions("pg")) == ["Scheduled"]
    assert story.phase("pg") == "Running"


# GA2. Six tasks, one of each: waiting, promised room, running; asking for nothing and for 1.
#   ready     2 running + 1 that waits and asks for nothing                  = 3
#   pipelined 3 + 2 promised                                                 = 5
#   starving  2 running + 2 promised = 4 < minimum (what waits does not count, whatever it asks for)
@pytest.mark.parametrize(
    ("minimum", "ready", "pipelined", "starving"), [(5, False, True, True), (3, True, True, False)]
)
def test_ga2_what_counts_towards_the_minimum(minimum: int, ready: bool, pipelined: bool, starving: bool) -> None:
    story = Story(
        node("n1", cpu=9),
        group("pg", min_member=minimum),
        pod("waits-free", group="pg"),
        pod("waits", group="pg", cpu=1),
        pod("promised-free", group="pg"),
        pod("promised", group="pg", cpu=1),
        pod("runs-free", group="pg", node="n1"),
        pod("runs", group="pg", cpu=1, node="n1"),
        actions="allocate",
        tiers=FAIR,
    )
    current = session(story.known, tiers=[["gang"]])
    statement = current.statement()
    for name in ("promised-free", "promised"):
        assert statement.pipeline(story.task(name), story.known.nodes["n1"])
    job = story.job("pg")
    assert (current.job_ready(job), current.job_pipelined(job), current.job_starving(job)) == (
        ready, pipelined, starving,
    )  # fmt: skip
    assert job.pending_best_effort == 1


# GA3. 8 CPUs, half of them busy; a gang of 5 has room for 4. Nothing starts, and it is said why; when the 4 are free,
# all 5 run.
def test_ga3_half_the_cluster_and_one_more() -> None:
    story = Story(
        [node(f"n{i}", cpu=4) for i in range(2)],
        group("busy", min_member=1),
        pods("r", 4, group="busy", cpu=1, node="n0"),
        group("pg", min_member=5),
        pods("p", 5, group="pg", cpu=1),
        actions="allocate",
        tiers=GANGS,
    ).run()
    assert story.binds == {}
    assert story.why("p-0") == "GangShort"
    assert story.conditions("pg")["Unschedulable"].startswith("5/5 tasks in gang unschedulable: Only 4 of the 5 pods")
    story.carry_out()
    story.remove(*[f"r-{i}" for i in range(4)])
    assert len(story.run().binds) == 5
    assert list(story.conditions("pg")) == ["Scheduled"]


# -- phases -------------------------------------------------------------------------------------------------------


# PG1. The phase of a group of 2 follows from what its pods do.
PHASES = {
    "one runs, the other finds no room": (
        [pod("a", group="pg", cpu=1, node="n1"), pod("b", group="pg", cpu=9)], "Unknown",
    ),
    "one runs, the other was deleted": ([pod("a", group="pg", cpu=1, node="n1")], "Unknown"),
    # A scheduler was killed between the two binds. The group was admitted, and need not be again.
    "one is bound and does not run yet, the other finds no room": (
        [pod("a", group="pg", cpu=1, node="n1", phase="Pending"), pod("b", group="pg", cpu=9)], "Inqueue",
    ),
    "one of two is terminating": (
        [pod("a", group="pg", cpu=1, node="n1"), pod("b", group="pg", cpu=1, node="n1", deleted=True)], "Running",
    ),
    "both are terminating": (pods("a", 2, group="pg", cpu=1, node="n1", deleted=True), "Running"),
    "both have succeeded": (pods("a", 2, group="pg", cpu=1, node="n1", phase="Succeeded"), "Completed"),
    "one has succeeded, one runs": (
        [pod("a", group="pg", cpu=1, node="n1"), pod("b", group="pg", cpu=1, node="n1", phase="Succeeded")], "Running",
    ),
    "deleted before they ever had a node": (pods("a", 2, group="pg", cpu=1, deleted=True), "Pending"),
    "terminating, and fewer than the minimum": (pods("a", 1, group="pg", cpu=1, node="n1", deleted=True), "Pending"),
    "both run": (pods("a", 2, group="pg", cpu=1, node="n1"), "Running"),
    "both get their nodes in this cycle": (pods("a", 2, group="pg", cpu=1), "Running"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(PHASES))
def test_pg1_the_phase_of_a_group(case: str) -> None:
    members, phase = PHASES[case]
    story = Story(
        node("n1", cpu=2), group("pg", min_member=2, phase="Running"), members, actions="allocate", tiers=FAIR
    ).run()
    assert story.phase("pg") == phase


def test_pg1_what_was_admitted_and_waits_stays_admitted() -> None:
    # Without the action enqueue every group is admitted.
    waiting = pods("p", 2, group="pg", cpu=9)
    for phase in ("Inqueue", "Pending"):
        waiting_group = group("pg", min_member=2, phase=phase)
        story = Story(node("n1", cpu=2), waiting_group, waiting, actions="allocate", tiers=FAIR).run()
        assert story.phase("pg") == "Inqueue"


# -- letting in ---------------------------------------------------------------------------------------------------


# EN1. Nothing stated: let in. Running: stays so. In a queue that does not exist: not looked at. 8 wanted where the
# queue may have 1: kept out, and told so, though no pod of it exists yet. In a closed queue: kept out in any case.
def test_en1_who_is_let_in() -> None:
    story = Story(
        node("n1", cpu=10),
        queue("q1", capability={"cpu": 1}),
        group("plain", queue="q1", phase="Pending"),
        group("runs", queue="q1", phase="Running"),
        pod("r", group="runs", cpu="100m", node="n1"),
        group("lost", queue="nowhere", phase="Pending"),
        group("big", queue="q1", phase="Pending", min_resources={"cpu": 8}),
        queue("q2", state="Closed"),
        group("shut", queue="q2", phase="Pending"),
        actions="enqueue",
        tiers=[["gang"], ["proportion", "overcommit"]],
    ).run()
    phases = {name: story.phase(name) for name in ("plain", "runs", "lost", "big", "shut")}
    assert phases == {"plain": "Inqueue", "runs": "Running", "lost": "Pending", "big": "Pending", "shut": "Pending"}
    assert not story.is_written("lost")
    said = "The pod can never start: 8 cpu requested, and queue q1 may have at most 1."
    assert said in story.conditions("big")["Unschedulable"]
    assert "is not open" in story.conditions("shut")["Unschedulable"]


# -- jobs ---------------------------------------------------------------------------------------------------------


# JI1. Two pods of 1 run and one of 2 waits: the job has 2, and wants 2 more. They leave one by one: 1, 1, 0 remain.
def test_ji1_what_a_job_has_follows_its_pods() -> None:
    story = Story(
        node("n1", cpu=9),
        queue("q1"),
        group("pg", queue="q1"),
        pods("r", 2, group="pg", cpu=1, node="n1"),
        pod("p", group="pg", cpu=2),
        actions="allocate",
        tiers=FAIR,
    )
    job, axis = story.job("pg"), story.known.axis

    def has() -> int:
        return axis.amounts(job.allocated).get("cpu", 0)

    assert (has(), axis.amounts(job.queue.wanted)["cpu"], len(job.tasks)) == (2000, 2000, 3)
    for pods_left, name, left in [(2, "r-0", 1000), (1, "p", 1000), (0, "r-1", 0)]:
        story.remove(name)
        assert (has(), len(job.tasks)) == (left, pods_left)
    assert axis.amounts(job.queue.wanted).get("cpu", 0) == 0
    story.known.validate()


# JI2. The queue may have 3 CPUs and 4 GiB. Its job was let in for <2, 4> and has <3, 3>: of the CPUs 1 is more than it
# was let in for, which keeps nobody out; of the memory it has 1 to come. So a job that needs 1 CPU is let in
# (3 - 1 + 1 ≤ 3), and one that needs 2 is not; nor is one that needs 1 GiB (3 + 1 + 1 > 4).
@pytest.mark.parametrize(
    ("needs", "phase"), [({"cpu": 1}, "Inqueue"), ({"cpu": 2}, "Pending"), ({"memory": "1Gi"}, "Pending")]
)
def test_ji2_elastic_is_what_exceeds_the_minimum_in_each_resource(needs: dict[str, str | int], phase: str) -> None:
    story = Story(
        node("n1", cpu=9, memory="9Gi"),
        queue("q1", capability={"cpu": 3, "memory": "4Gi"}),
        group("pg", queue="q1", phase="Running", min_resources={"cpu": 2, "memory": "4Gi"}),
        pods("r", 3, group="pg", cpu=1, memory="1Gi", node="n1"),
        group("next", queue="q1", phase="Pending", min_resources=needs),
        actions="enqueue",
        tiers=[["gang"], ["proportion"]],
    ).run()
    assert story.phase("next") == phase


# JI3. Six pods must start together, three find a node (3 × 1 of 3): the sentence has the numbers. The node is idle at
# the end of the cycle, so it is not called full; and a gang that can never start says so first.
# A queue that deserves all there is must not be blamed for the size of the cluster, so proportion changes nothing.
@pytest.mark.parametrize("tiers", [GANGS, FAIR])
def test_ji3_the_sentence_about_a_gang_that_is_short(tiers: list[list[str]]) -> None:
    story = Story(
        node("n1", cpu=3), group("pg", min_member=6), pods("p", 6, group="pg", cpu=1), actions="allocate", tiers=tiers
    ).run()
    said = "Only 3 of the 6 pods that must start together fit now. "
    never = "The gang can never start: it needs 6 equal pods, and empty nodes have room for only 3. "
    assert story.message("p-0") == f"{never}{said}1 of 1 nodes has room for some of them."
    assert story.why("p-0") == "GangShort"
    assert story.conditions("pg")["Unschedulable"].startswith("6/6 tasks in gang unschedulable: " + never)


# Three pods must start together, and only one was created: three are missing of three, not of one.
def test_a_gang_that_is_not_complete_is_short_of_all_that_it_needs() -> None:
    story = Story(
        node("n1", cpu=3), group("pg", min_member=3), pods("p", 1, group="pg", cpu=1), actions="allocate", tiers=GANGS
    ).run()
    assert story.why("p-0") == "NotEnoughPods"
    assert story.conditions("pg")["Unschedulable"].startswith("3/3 tasks in gang unschedulable: The gang has too few")


# JI4. The minimums of roles are replaced, not added to.
def test_ji4_new_role_minimums_replace_the_old() -> None:
    story = Story(
        node("n1", cpu=2),
        group("pg", min_member=2, roles={"master": 2}),
        pod("m", group="pg", cpu=1, role="master"),
        pod("w", group="pg", cpu=1, role="worker"),
        actions="allocate",
        tiers=FAIR,
    )
    assert story.run().binds == {}
    story.add(group("pg", min_member=2, roles={"worker": 1}))
    assert story.job("pg").role_minimums == {"worker": 1}
    assert set(story.run().binds) == {"m", "w"}
