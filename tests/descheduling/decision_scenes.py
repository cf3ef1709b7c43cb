"""Scenes about decisions in which moves meet other features: reserved nodes, loads, locks, outages, autoscalers.

Each comes with a function that checks its outcome. The same outcome is expected with restarts, so the checks name no
second at which something happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from descheduling.scenes import (
    FOR_PENDING,
    Document,
    Scene,
    defragment,
    job,
    node,
    patch,
    pod,
    policy,
    queue,
    replicas,
    restart,
    run_by_hand,
    scene,
)

Check = Callable[[Scene], None]

# -- 63: a plan for a job, and reserved nodes -----------------------------------------------------------------------

# The job needs 6 of 8 GPUs. Services use 3 on a, so it can hold only b, whose 4 pods end in 10 minutes. On a one move
# would be enough; on b, which it holds, it takes two.
HOLDER = scene(
    node("a", gpu=8), node("b", gpu=8), node("c", gpu=8), replicas("a", "a", 3, gpu=1),
    replicas("b", "b", 4, gpu=1, notes={"scheduling.stromboli.io/estimate": "600s"}), replicas("c", "c", 6, gpu=1),
    job("big", 1, gpu=6, at=2, movable=False), run_by_hand(10),
    policy=policy(FOR_PENDING, interval=0), until=24,
    config={
        "actions": "enqueue, allocate, reserve, backfill",
        "configurations": [{"name": "reserve", "arguments": {
            "starvingJobTimeThreshold": 1, "reservedNodePercent": 100,
        }}],
        "tiers": [{"plugins": [{"name": name} for name in (
            "priority", "gang", "predicates", "proportion", "nodeorder", "reservation",
        )]}],
    },
)  # fmt: skip

# 7, 6 and 7 of 8 GPUs, a job of 4. It is deleted in the second of the plan: nothing moves, nothing is set aside.
GIVEN_UP = scene(
    *(node(name, gpu=8) for name in "abc"), replicas("a", "a", 7, gpu=1), replicas("b", "b", 6, gpu=1),
    replicas("c", "c", 7, gpu=1), job("big", 1, gpu=4, at=2, until=5.5, movable=False),
    policy=policy(FOR_PENDING), until=20,
)  # fmt: skip


# The same nodes and job; the pods on b are of another namespace, which has less (6 GPUs, default 14) and waits for
# nothing, until its pods move. Their successors have their places, so the job keeps its node.
OTHER_NAMESPACE = scene(
    *(node(name, gpu=8) for name in "abc"), replicas("a", "a", 7, gpu=1), replicas("c", "c", 7, gpu=1),
    [{**document, "metadata": {**document["metadata"], "namespace": "other"}}
     for document in replicas("b", "b", 6, gpu=1, grace=3)],
    job("big", 1, gpu=4, at=2, movable=False), run_by_hand(5), policy=policy(FOR_PENDING, interval=0), until=30,
)  # fmt: skip


def check_holder(found: Scene) -> None:
    outcome = found.outcome
    assert {event["node"] for event in outcome.report["events"] if event["type"] == "Reserved"} == {"b"}
    assert sorted(name for _, _, name, _ in outcome.events("MigrationSucceeded")) == ["b-0", "b-1"]
    assert outcome.report["pods"]["default/big-w-0"]["node"] == "b"
    assert len(outcome.running_on("a")) + len(outcome.running_on("c")) == 3 + 6 + 2
    assert outcome.held == []


def check_other_namespace(found: Scene) -> None:
    report = found.outcome.report
    assert found.outcome.moves["succeeded"] == 2
    assert report["pods"]["default/big-w-0"]["node"] == "b"
    given_up = [event["message"] for event in report["events"] if event["type"] == "Unreserved"]
    assert given_up == ["the pod starts"]


def check_given_up(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.times("Evicted") == []
    assert outcome.held == []
    assert [len(outcome.running_on(name)) for name in "abc"] == [7, 6, 7]


# -- 64: two evictors and one gang ----------------------------------------------------------------------------------

# A gang of 5 with a minimum of 4: b is emptied at 5 s, and at the same time a queue claims its part of both nodes.
EVICTORS = scene(
    node("a", cpu=6), node("b", cpu=6), queue("lender", weight=1), queue("claimant", weight=3),
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
     "spec": {"minMember": 4, "queue": "lender"}},
    replicas("g", ["a", "a", "a", "a", "b"], cpu=1, group="gang", queue="lender", grace=1),
    replicas("other", "a", 1, cpu=1, queue="lender"),
    *(pod(f"claim-{number}", cpu=1, queue="claimant", at=5) for number in range(8)),
    policy=policy(defragment(low=30, middle=60, high=100)), until=20,
)  # fmt: skip


def check_evictors(found: Scene) -> None:
    counts = found.outcome.running_over_time("g-")
    assert min(counts[4:]) >= 4, counts
    assert found.outcome.times("Evicted"), "somebody wants something of the gang"


# -- 66: Defragmentation and LoadAware ------------------------------------------------------------------------------

BOTH: Final = (
    defragment(low=30, middle=60, high=95, coolDownTime=100),
    ("LoadAware", {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 70}, "coolDownTime": 100}),
)

# Requests: a 6 of 10, b 1 of 10. The pods of a really use 6.5, that of b 1: together 75 %, above the target of 70.
OVERLOAD = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 5, cpu=1, usage="cpu=1"),
    replicas("w", "a", 1, cpu=1, usage="cpu=1500m"), replicas("y", "b", 1, cpu=1, usage="cpu=1"),
    policy=policy(*BOTH), until=20,
)  # fmt: skip

# a uses 9 of 10 by 4 pods that request 1 each (40 %). If one left, 30 % would stay, if two, 20 %: below low (30).
REMAINDER = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 4, cpu=1, usage="cpu=2250m"),
    replicas("y", "b", 4, cpu=1, usage="cpu=100m"),
    policy=policy(*BOTH), until=20,
)  # fmt: skip


def check_overload(found: Scene) -> None:
    assert found.outcome.moves["planned"] == 0


def check_remainder(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 1
    assert len(outcome.running_on("a")) == 3


# -- 67: locked and held nodes --------------------------------------------------------------------------------------

LOCKING: Final[Document] = {
    "actions": "enqueue, reclaim, allocate, preempt, reserve, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}, {"name": "pdb"}]},
        {"plugins": [
            {"name": "predicates"}, {"name": "proportion"},
            {"name": "nodeorder", "arguments": {"leastrequested.weight": 0}}, {"name": "binpack"},
            {"name": "node_reservation"}, {"name": "reservation"},
        ]},
    ],
}  # fmt: skip


def locking(resource: Document) -> Document:
    return queue("q", guarantee={"policy": "Best-Effort", "resource": resource})


# a is locked for q, whose 8 pods run there. y of another queue on b goes to c, though a is the fuller node.
LOCKED_TARGET = scene(
    *(node(name, cpu=10) for name in "abc"), locking({"cpu": 10}),
    replicas("x", "a", 8, cpu=1, queue="q"), replicas("y", "b", 1, cpu=1), replicas("z", "c", 6, cpu=1),
    run_by_hand(8), policy=policy(defragment(middle=50), interval=0), config=LOCKING, until=20,
)  # fmt: skip

# a is locked for q, because it is as large as q needs; its pods are of another queue. b (1.2 of 12 = 10 %) is used less
# than a (1.5 of 10 = 15 %), but a is emptied first. c has 7 of 12 CPUs then, and y would make it 8.2 = 68 %, beyond
# protection (65 %).
LOCKED_SOURCE = scene(
    node("a", cpu=10), node("b", cpu=12), node("c", cpu=12), locking({"cpu": 10}),
    replicas("x", "a", 3, cpu=0.5), replicas("y", "b", 1, cpu=1.2), replicas("z", "c", 11, cpu=0.5),
    run_by_hand(8), policy=policy(defragment(middle=40, high=65), interval=0), config=LOCKING, until=20,
)  # fmt: skip

# b has a pod of 1 CPU and holds another CPU for an owner that does not exist: it cannot be emptied.
HELD = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1),
    {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "held"},
        "spec": {
            "nodeName": "b", "owners": [{"labelSelector": {"matchLabels": {"app": "none"}}}],
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
        },
    },
    policy=policy(defragment()), until=20,
)  # fmt: skip


def check_locked_target(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.report["nodes"]["a"]["lockedBy"] == "q"
    assert outcome.moves["succeeded"] == 1
    assert len(outcome.running_on("a")) == 8
    assert outcome.running_on("b") == []
    assert len(outcome.running_on("c")) == 7


def check_locked_source(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.report["nodes"]["a"]["lockedBy"] == "q"
    assert outcome.running_on("a") == []
    assert outcome.running_on("b") == ["y-0"]
    assert outcome.moves["succeeded"] == 3


def check_held(found: Scene) -> None:
    assert found.outcome.moves["planned"] == 0


# -- 69: outages ----------------------------------------------------------------------------------------------------

# b (1 of 10) is emptied into a (6 of 10). The scheduler is away after the eviction. Meanwhile a pod of 4 CPUs arrives,
# which would fill a: it goes to b, because the place on a is kept.
AWAY = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1, grace=1),
    run_by_hand(5), restart(6.2, "scheduler", away=20), pod("z", cpu=4, at=10),
    policy=policy(defragment(), interval=0), until=40,
)  # fmt: skip

# The set is scaled to 0 while its pod terminates: no successor can come, so the place is given up at once.
NO_SUCCESSOR = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1, grace=1),
    run_by_hand(5), patch(6.5, "ReplicaSet", "y", {"spec": {"replicas": 0}}),
    policy=policy(defragment(coolDownTime=10000), interval=0), until=30,
)  # fmt: skip

# Nobody knows how many pods this owner wants, and its controller is away: the place is kept for 30 minutes from the
# eviction, then given up.
UNKNOWN_OWNER = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1),
    replicas("y", "b", 1, cpu=1, grace=1, kind="ReplicationController")[1:],
    run_by_hand(5), policy=policy(defragment(coolDownTime=10000), interval=0), until=1900,
)  # fmt: skip


def check_away(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves == {"planned": 1, "succeeded": 1, "failed": 0, "workLost": 6.0}
    assert len([name for name in outcome.running_on("a") if name.startswith("y-")]) == 1
    assert outcome.running_on("b") == ["z"]
    assert outcome.held == []


def check_no_successor(found: Scene) -> None:
    outcome = found.outcome
    (evicted,) = outcome.times("Evicted")
    (failed,) = outcome.times("MigrationFailed")
    assert failed <= evicted + 2
    assert outcome.reasons("MigrationFailed") == ["NoSuccessor"]
    assert outcome.held == []


def check_unknown_owner(found: Scene) -> None:
    outcome = found.outcome
    (evicted,) = outcome.times("Evicted")
    assert outcome.times("MigrationFailed") == [evicted + 1800]
    assert outcome.reasons("MigrationFailed") == ["ReservationExpired"]
    assert outcome.held == []


# -- 70: autoscalers ------------------------------------------------------------------------------------------------

# Two pods of one GPU leave b for a job; b was emptied for somebody until its cooldown ends.
COUNTED_ON = scene(
    *(node(name, gpu=8) for name in "abc"),
    replicas("a", "a", 7, gpu=1), replicas("b", "b", 6, gpu=1), replicas("c", "c", 7, gpu=1),
    job("big", 1, gpu=4, at=2, movable=False),
    policy=policy(FOR_PENDING), until=30, flags=("--keep-nodes",),
)  # fmt: skip
RESTED = scene(
    COUNTED_ON.documents, policy=policy(("Defragmentation", {"forPending": True, "coolDownTime": 15})), until=40,
    flags=("--keep-nodes",),
)  # fmt: skip
# By thresholds alone: an autoscaler should remove b.
SPARE = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1),
    policy=policy(defragment()), until=20, flags=("--keep-nodes",),
)  # fmt: skip


def check_counted_on(found: Scene) -> None:
    assert found.outcome.moves["succeeded"] == 2
    assert found.outcome.kept_nodes == ["b"]


def check_rested(found: Scene) -> None:
    assert found.outcome.moves["succeeded"] == 2
    assert found.outcome.kept_nodes == []


def check_spare(found: Scene) -> None:
    assert found.outcome.running_on("b") == []
    assert found.outcome.kept_nodes == []


# -- 71: who may be moved -------------------------------------------------------------------------------------------


def _of_other_scheduler() -> list[Document]:
    documents = replicas("other", "b", 1, cpu=1)
    for document in documents:
        spec = document["spec"].get("template", document)["spec"]
        spec["schedulerName"] = "default-scheduler"
    return documents


def _in_rollout() -> list[Document]:
    """Two sets of one Deployment, each with a pod on its own node."""
    documents = [*replicas("old", "c", 1, cpu=1), *replicas("new", "d", 1, cpu=1)]
    for document in documents:
        if document["kind"] == "ReplicaSet":
            document["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
            ]
    return documents


def _restarting() -> Document:
    document = job("whole", 1, cpu=1, selector={"name": "e"})
    document["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    return document


# Nodes with 1 of 10 CPUs each. Only y on h may leave, for a, which has room for all of them.
WHO = scene(
    node("a", cpu=20), *(node(name, cpu=10, labels={"name": name}) for name in "bcdefgh"),
    replicas("x", "a", 12, cpu=1),
    _of_other_scheduler(), _in_rollout(), _restarting(),
    job("batch", 1, cpu=1, selector={"name": "f"}, movable=False),
    replicas("gone", "g", 1, cpu=1, grace=60), patch(4, "ReplicaSet", "gone", {"spec": {"replicas": 0}}),
    replicas("y", "h", 1, cpu=1),
    policy=policy(defragment(strictTargets=True, middle=50)), until=20,
)  # fmt: skip


def check_who(found: Scene) -> None:
    outcome = found.outcome
    assert [name for _, _, name, _ in outcome.events("MigrationSucceeded")] == ["y-0"]
    assert [name for _, _, name, _ in outcome.events("MigrationStarted")] == ["y-0"]
    assert [name for _, _, name, _ in outcome.events("MigrationPlanned")] == ["y-0"]
    assert len(outcome.running_on("a")) == 13
    assert [outcome.running_on(name) for name in "cdef"] == [["old-0"], ["new-0"], ["whole-w-0"], ["batch-w-0"]]


# -- 72: the state of a group ---------------------------------------------------------------------------------------

# Two pods of one gang of 4 (minimum 2) leave b in one plan.
STATE = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 4, cpu=1),
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
     "spec": {"minMember": 2}},
    replicas("g", ["a", "a", "b", "b"], cpu=1, group="gang", grace=3), run_by_hand(5),
    policy=policy(defragment(), interval=0), until=20,
)  # fmt: skip


def check_state(found: Scene) -> None:
    group = found.outcome.report["podGroups"]["default/gang"]
    assert found.outcome.moves["succeeded"] == 2
    assert group["migrationState"] == "Succeeded"


# -- 73: thresholds -------------------------------------------------------------------------------------------------

# Nothing is configured: GPUs, low 30, defragment 75, protection 95. d (2 of 8 = 25 %) is emptied, e (3 of 8 = 37.5 %)
# is not. a (7 of 8 = 87.5 %) would be full, beyond protection. b (6 of 8 = 75 %) takes one and is at 87.5 % then, so
# the other goes to c (5 of 8 = 62.5 %).
DEFAULTS = scene(
    *(node(name, gpu=8) for name in "abcde"),
    *(replicas(name, name, count, gpu=1) for name, count in zip("abcde", (7, 6, 5, 2, 3), strict=True)),
    policy=policy(("Defragmentation", {})), until=20,
)  # fmt: skip


def check_defaults(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    assert [len(outcome.running_on(name)) for name in "abcde"] == [7, 7, 6, 0, 3]


# -- 85: a pod that is moved is charged once ------------------------------------------------------------------------

# A queue may have 8 CPUs and has 6: x 4 on a, y 2 on b. b is emptied into a; the old pods need 5 s to end. z (2 CPUs)
# fits into the 8 while they terminate: if their places were charged as well, 8 would be used. more (1 CPU) waits all
# along: if nobody paid for y, there would be room for it.
CHARGED_ONCE = scene(
    node("a", cpu=8), node("b", cpu=8), node("c", cpu=8, labels={"critical": "true"}),
    queue("q", capability={"cpu": 8}),
    replicas("x", "a", 4, cpu=1, queue="q"), replicas("y", "b", 2, cpu=1, queue="q", grace=5),
    run_by_hand(5), pod("z", cpu=2, queue="q", at=7), pod("more", cpu=1, queue="q", at=8),
    policy=policy(defragment(high=100), interval=0), until=30,
)  # fmt: skip

# The same without room for anybody else: the queue may have 6 and has 6. The successors need not wait for the old pods.
AT_ITS_LIMIT = scene(
    node("a", cpu=8), node("b", cpu=8), queue("q", capability={"cpu": 6}),
    replicas("x", "a", 4, cpu=1, queue="q"), replicas("y", "b", 2, cpu=1, queue="q", grace=5), run_by_hand(5),
    policy=policy(defragment(high=100), interval=0), until=30,
)  # fmt: skip


def check_charged_once(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    gone = min(outcome.times("Evicted")) + 5
    (started,) = outcome.times("Bound", "z")
    assert started < gone
    assert min(outcome.times("MigrationSucceeded")) >= gone  # until then the Reservation says that it moves
    assert outcome.times("Bound", "more") == []


def check_at_its_limit(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    bound = {name: at for at, _, name, _ in outcome.events("Bound") if name.startswith("y-")}
    assert len(bound) == 2
    assert all(at <= outcome.times("Submitted", name)[-1] + 1 for name, at in bound.items())


CASES: Final[dict[str, tuple[Scene, Check]]] = {
    "63 holder": (HOLDER, check_holder),
    "63 other namespace": (OTHER_NAMESPACE, check_other_namespace),
    "63 given up": (GIVEN_UP, check_given_up),
    "64 evictors": (EVICTORS, check_evictors),
    "66 overload": (OVERLOAD, check_overload),
    "66 remainder": (REMAINDER, check_remainder),
    "67 target": (LOCKED_TARGET, check_locked_target),
    "67 source": (LOCKED_SOURCE, check_locked_source),
    "67 held": (HELD, check_held),
    "69 away": (AWAY, check_away),
    "69 no successor": (NO_SUCCESSOR, check_no_successor),
    "69 unknown owner": (UNKNOWN_OWNER, check_unknown_owner),
    "70 counted on": (COUNTED_ON, check_counted_on),
    "70 rested": (RESTED, check_rested),
    "70 spare": (SPARE, check_spare),
    "71 who": (WHO, check_who),
    "72 state": (STATE, check_state),
    "73 defaults": (DEFAULTS, check_defaults),
    "85 charged once": (CHARGED_ONCE, check_charged_once),
    "85 at its limit": (AT_ITS_LIMIT, check_at_its_limit),
}
