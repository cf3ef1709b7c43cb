"""The picture of a cluster says what the scheduler's own books say."""

from __future__ import annotations

import json

from msgspec.structs import replace

from builders import START, established, group, node, pod, pods, queue, quota
from stromboli.api import Job, JobSpec, JobState, JobStatus, KObject, ObjectMeta, OwnerReference, decode, names
from stromboli.api.kinds.metadata import Condition
from stromboli.api.timestamps import parse_timestamp
from stromboli.insight import Picture, State, document, explain, inspect
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry


def state(*objects: KObject | list[KObject]) -> State:
    flat = [one for item in objects for one in (item if isinstance(item, list) else [item])]
    return State([established(obj, position) for position, obj in enumerate([*flat, queue("default")])], START + 1000)


def scheduler() -> Scheduler:
    registry = Registry()
    return Scheduler(registry.default(), registry)


def picture(*objects: KObject | list[KObject]) -> Picture:
    return inspect(state(*objects), scheduler()).picture


def test_a_queue_borrows_what_another_lends() -> None:
    # 8 CPUs, equal weights: 4 each. Queue a has 6, so it borrows 2. Queue b wants 4 and has 2, so it lends 2.
    seen = picture(
        node("n1", cpu=8),
        queue("a"),
        queue("b"),
        group("ns/a", queue="a", phase="Running"),
        group("ns/b", queue="b", min_member=2, phase="Running"),
        [pod(f"ns/a-{i}", group="a", cpu=3, node="n1", preemptable=False) for i in range(2)],
        pod("ns/b-0", group="b", cpu=2, node="n1"),
        pod("ns/b-1", group="b", cpu=2),
    )
    a, b, default = seen.queues
    assert (a.allocated, a.deserved, a.borrowed, a.lent) == ({"cpu": 6000}, {"cpu": 4000}, {"cpu": 2000}, {})
    assert (b.allocated, b.waiting, b.deserved) == ({"cpu": 2000}, {"cpu": 2000}, {"cpu": 4000})
    assert (b.borrowed, b.lent) == ({}, {"cpu": 2000})
    assert (a.share, b.deserved_share, default.allocated) == (0.75, 0.5, {})
    assert (a.jobs, b.jobs) == ({"Running": 1}, {"Running": 1})


def test_the_queue_above_all_others_borrows_from_nobody() -> None:
    # All 4 CPUs are used by a: root, which is above a, has them too, and that is no loan.
    used = [group("ns/a", queue="a", phase="Running"), pod("ns/a-0", group="a", cpu=4, node="n1")]
    seen = picture(node("n1", cpu=4), queue("root"), queue("a"), *used)
    root = next(one for one in seen.queues if one.name == "root")
    assert (root.allocated, root.borrowed, root.lent) == ({"cpu": 4000}, {}, {})


def test_a_queue_above_others_borrows_what_they_borrow() -> None:
    # Shares of `proportion` do not follow the tree. Below top, dev deserves all of its 3 CPUs, and a pod of top itself
    # deserves its one: nothing of the 4 that top shows is borrowed.
    objects = [node("n1", cpu=8), queue("top"), queue("dev", parent="top"), queue("ops", parent="top"), queue("other")]
    used = [group("ns/d", queue="dev"), *[pod(f"ns/d-{i}", group="d", cpu=1, node="n1") for i in range(3)]]
    used += [group("ns/t", queue="top"), pod("ns/t-0", group="t", cpu=1, node="n1")]
    top = next(one for one in picture(*objects, *used).queues if one.name == "top")
    assert (top.allocated, top.borrowed) == ({"cpu": 4000}, {})
    # Of 8 CPUs dev and other deserve 4 each. Two more for dev are one more than that, for top as well.
    used = [group("ns/d", queue="dev"), *[pod(f"ns/d-{i}", group="d", cpu=1, node="n1") for i in range(5)]]
    used += [group("ns/o", queue="other"), *[pod(f"ns/o-{i}", group="o", cpu=1) for i in range(4)]]
    seen = {one.name: one.borrowed for one in picture(*objects, *used).queues}
    assert (seen["dev"], seen["top"], seen["other"]) == ({"cpu": 1000}, {"cpu": 1000}, {})


def test_a_node_shows_its_use_and_its_jobs() -> None:
    seen = picture(
        node("n1", cpu=4, memory="8Gi"),
        node("n2", cpu=4, cordoned=True),
        group("ns/g", phase="Running"),
        pod("ns/p", group="g", cpu=1, memory="6Gi", node="n1", backfill=True),
        pod("ns/gone", group="g", cpu=1, node="n1", deleted=True),
    )
    n1, n2 = seen.nodes
    assert n1.used == {"cpu": 2000, "memory": 6 << 30}
    assert n1.idle == {"cpu": 2000, "memory": 2 << 30}
    assert (n1.releasing, n1.backfilled) == ({"cpu": 1000}, {"cpu": 1000, "memory": 6 << 30})
    assert (n1.use, n1.jobs, n1.pods) == (0.75, ["ns/g"], 2)
    assert (n2.schedulable, n2.use, n2.jobs) == (False, 0.0, [])
    assert seen.capacity == {"cpu": 8000, "memory": 8 << 30}


def test_a_waiting_job_has_the_reason_of_the_cycle() -> None:
    seen = picture(
        node("n1", cpu=4),
        group("ns/g", min_member=3, phase="Inqueue"),
        pods("ns/g", 3, group="g", cpu=2),
    )
    (job,) = seen.jobs
    assert (job.name, job.kind, job.phase, job.pods.waiting, job.requested) == (
        "ns/g", "PodGroup", "Inqueue", 3, {"cpu": 6000},
    )  # fmt: skip
    assert job.reason == "GangShort"
    assert "2 of the 3 pods" in job.message
    assert job.waits
    assert seen.job("ns/g") is job


def test_a_job_without_pods_has_a_reason_too() -> None:
    seen = picture(node("n1", cpu=4), group("ns/g", min_member=2, phase="Pending", min_resources={"cpu": 40}))
    assert seen.jobs[0].reason == "InsufficientNode"
    assert seen.jobs[0].message.startswith("The gang can never start")


def test_a_finished_job_is_listed_without_its_group() -> None:
    done = Job(
        metadata=ObjectMeta(name="done", namespace="ns"),
        spec=JobSpec(queue="default", min_available=2),
        status=JobStatus(state=JobState(phase="Completed"), succeeded=2),
    )
    seen = picture(node("n1", cpu=4), done)
    assert [(job.name, job.phase, job.pods.succeeded, job.waits) for job in seen.jobs] == [
        ("ns/done", "Completed", 2, False)
    ]


def test_the_end_of_a_job_is_known_by_its_estimates() -> None:
    running = pod("ns/p", group="g", cpu=1, node="n1", annotations={names.ESTIMATE: "10m"})
    running.status.start_time = "2030-01-01T00:00:10Z"
    seen = picture(node("n1", cpu=4), group("ns/g", phase="Running"), running)
    assert (seen.jobs[0].started, seen.jobs[0].ends) == (START + 10, START + 610)


def test_namespaces_show_their_weight_and_share() -> None:
    seen = picture(
        node("n1", cpu=4), quota("ns/q", weight=3), group("ns/g", phase="Running"),
        pod("ns/p", group="g", cpu=1, node="n1"),
    )  # fmt: skip
    (namespace,) = seen.namespaces
    assert (namespace.queue, namespace.namespace, namespace.weight, namespace.share) == ("default", "ns", 3, 0.25)


def test_a_reservation_says_for_whom_and_how_long() -> None:
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}}
    job = {"controller": {"kind": "Job", "namespace": "ns", "name": "j"}}
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]}}
    made: list[KObject] = []
    single = {"object": {"name": "p", "namespace": "ns"}}
    by_name = ("r1", [job, selector], {}), ("r2", [selector], {"ttl": 0, "queue": "q"}), ("r3", [single], {})
    for name, owners, more in by_name:
        spec = {"template": template, "owners": owners, **more}
        kind = {"apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation"}
        made.append(decode({**kind, "metadata": {"name": name}, "spec": spec}))
    r1, r2, r3 = picture(queue("q"), made).reservations
    assert (r1.owner, r1.queue, r1.phase) == ("Job ns/j or 1 more", "", "Pending")
    assert r1.expires == r1.created + 86_400
    assert (r2.owner, r2.queue, r2.expires) == ("app=a", "q", None)
    assert r3.owner == "Pod ns/p"


def test_a_document_is_plain_data() -> None:
    plain = document(picture(node("n1", cpu="1500m", memory="3Gi")))
    assert json.loads(json.dumps(plain)) == plain
    assert plain["now"] == "2030-01-01T00:16:40Z"
    assert plain["nodes"][0]["allocatable"] == {"cpu": "1500m", "memory": "3Gi"}
    assert plain["queues"][0]["deservedShare"] == 0.0


def test_a_suspended_job_keeps_its_minimum_and_its_age() -> None:
    """Its group is gone, and while its pods terminate only they are left."""
    job = Job(
        metadata=ObjectMeta(name="train", namespace="ns", uid="u", creation_timestamp="2000-01-01T00:00:00Z"),
        spec=JobSpec(min_available=3),
        status=JobStatus(state=JobState(phase="Aborting")),
    )
    owner = OwnerReference(api_version=job.api_version, kind="Job", name="train", uid="u", controller=True)
    left = pod("ns/train-0", group="train-u", cpu=1, node="n1")
    left = replace(left, metadata=replace(left.metadata, owner_references=[owner]))
    (seen,) = picture(node("n1", cpu=8), job, left).jobs
    assert (seen.name, seen.phase, seen.min_available) == ("ns/train", "Aborting", 3)
    assert seen.created == parse_timestamp("2000-01-01T00:00:00Z")


def test_the_reason_that_other_programs_look_for_is_no_code() -> None:
    waits = pod("ns/a", group="a", cpu=1)
    said = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="No room.")
    waits = replace(waits, status=replace(waits.status, conditions=[said]))
    (seen,) = picture(node("n1", cpu=8), group("ns/a", phase="Inqueue"), waits).jobs
    assert (seen.reason, seen.message) == ("", "No room.")


def test_a_group_whose_pods_failed_has_not_completed() -> None:
    """Volcano's PodGroups have no phase for failure."""
    ended = picture(
        node("n1", cpu=4),
        group("ns/lost", phase="Completed"),
        pod("ns/lost-0", group="lost", phase="Failed", node="n1"),
        group("ns/some", min_member=1, phase="Completed"),
        pod("ns/some-0", group="some", phase="Failed", node="n1"),
        pod("ns/some-1", group="some", phase="Succeeded", node="n1"),
    )
    assert {job.name: job.phase for job in ended.jobs} == {"ns/lost": "Failed", "ns/some": "Completed"}


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Whoever creates the queue should not have to ask again to learn about the missing class."""
    wrong = group("ns/g", queue="nope")
    wrong = replace(wrong, spec=replace(wrong.spec, priority_class_name="missing"))
    why = explain(state(node("n1", cpu=4), wrong, pod("ns/p", group="g", cpu=1)), scheduler(), "ns/g")
    assert why is not None
    assert [reason.code for reason in why.reasons] == ["NoQueue", "NoPriorityClass"]
    assert why.reasons[1].message.startswith("PriorityClass missing does not exist")


def test_pods_that_controllers_create_are_not_the_users_to_create() -> None:
    owned = group("ns/g", min_member=2)
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="train", uid="u", controller=True)
    ours = replace(owned, metadata=replace(owned.metadata, owner_references=[owner]))
    for one, creator in ((owned, "Create the others or lower minMember."), (ours, "The controllers create the others")):
        why = explain(state(node("n1", cpu=4), one, pod("ns/p", group="g", cpu=1)), scheduler(), "ns/g")
        assert why is not None
        assert why.dominant == "NotEnoughPods"
        assert creator in why.reasons[0].message


def test_a_job_without_pods_says_what_it_will_request() -> None:
    # Three pods of 2 CPUs; the group is not admitted, so none of them exists.
    task = {"name": "t", "replicas": 3, "template": {"spec": {"containers": [{"name": "c", "resources": {
        "requests": {"cpu": 2}}}]}}}  # fmt: skip
    submitted = decode({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "namespace": "ns"},
        "spec": {"minAvailable": 2, "tasks": [task]},
    })  # fmt: skip
    alone = picture(node("n1", cpu=1), submitted)
    assert [job.requested for job in alone.jobs] == [{"cpu": 6000}]
    kept_out = picture(node("n1", cpu=1), group("ns/g", min_member=2, phase="Pending", min_resources={"cpu": 4}))
    assert [job.requested for job in kept_out.jobs] == [{"cpu": 4000}]


def test_what_a_queue_waits_for_is_what_its_jobs_lack() -> None:
    """The Job of 2 pods with 3 CPUs is not admitted, so it has no pods. A pod of 5 waits, and one of 2 runs. A
    Reservation that fits nowhere is no job."""
    job = decode({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "late", "namespace": "ns"},
        "spec": {"minAvailable": 2, "tasks": [{"name": "t", "replicas": 2, "template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}}]},
    })  # fmt: skip
    hopeless = decode({
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "r"}}}], "template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]}}},
    })  # fmt: skip
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="late", uid="u", controller=True)
    waiting = group("ns/late-u", min_member=2, phase="Pending", min_resources={"cpu": 6})
    waiting = replace(waiting, metadata=replace(waiting.metadata, owner_references=[owner]))
    some = group("ns/some", phase="Running")
    running, other = pod("ns/some-0", group="some", cpu=2, node="n1"), pod("ns/some-1", group="some", cpu=5)
    (default,) = picture(node("n1", cpu=4), job, waiting, hopeless, some, running, other).queues
    assert default.waiting == {"cpu": 11000}
