"""Objects that the API server stores and a simulation would refuse or warn about."""

from __future__ import annotations

from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import Guarantee, Job, ObjectMeta, PodGroup, PodGroupSpec, Queue, QueueSpec, default, names
from stromboli.controllers import ControllerManager


def strict() -> ControllerManager:
    return ControllerManager(validate=True)


def queue(name: str, *, annotations: dict[str, str] | None = None, created: str = "", **spec: object) -> Queue:
    metadata = ObjectMeta(name=name, annotations=annotations or {}, creation_timestamp=created or None)
    made = Queue(metadata=metadata, spec=QueueSpec(**spec))  # type: ignore[arg-type]
    default(made)
    return made


def warnings(cluster: FakeCluster) -> list[tuple[str, str, str]]:
    return [(n.object.metadata.name, n.reason, n.message) for n in cluster.notices if n.warning]


def rejected(cluster: FakeCluster) -> dict[str, str]:
    return {
        made.metadata.name: condition.message
        for made in cluster.list(Queue)
        for condition in made.status.conditions
        if condition.type == "Accepted" and condition.status == "False"
    }


class TestFieldsWithoutEffect:
    def test_one_event_for_each_generation_and_not_for_each_pass(self) -> None:
        cluster = FakeCluster(queue("q", extend_clusters=[{"name": "x"}]), controllers=strict)
        for _ in range(3):
            cluster.settle()
        said = ("q", "NoEffect", "Without effect in this version: spec.extendClusters.")
        assert warnings(cluster) == [said]
        present = cluster.queue("q")
        metadata = replace(present.metadata, generation=present.metadata.generation + 1)
        cluster.put(replace(present, metadata=metadata, spec=replace(present.spec, weight=3)))
        for _ in range(2):
            cluster.settle()
        assert warnings(cluster) == [said, said]

    def test_status_updates_do_not_repeat_it(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 1, topology_policy="restricted")), controllers=strict)
        cluster.start()
        cluster.settle()
        assert [reason for _, reason, _ in warnings(cluster)] == ["NoEffect"]

    def test_a_simulation_does_it_itself(self) -> None:
        cluster = FakeCluster(queue("q", extend_clusters=[{"name": "x"}]))
        cluster.settle()
        assert warnings(cluster) == []


class TestQueueTrees:
    def test_a_child_with_more_than_its_parent_is_rejected(self) -> None:
        cluster = FakeCluster(queue("a", capability={"cpu": 4}), controllers=strict)
        cluster.settle()
        cluster.add(queue("b", parent="a", capability={"cpu": 5}))
        cluster.settle()
        because = "spec.capability: the capability of the queue b (5 cpu) must be at most that of its parent a (4 cpu)"
        assert rejected(cluster) == {"b": because}
        assert warnings(cluster) == [("b", "Invalid", because)]
        assert cluster.queue("a").status.state == "Open"

    def test_guarantees_of_children_together(self) -> None:
        cluster = FakeCluster(queue("a", capability={"cpu": 4}), controllers=strict)
        for name in ("b", "c"):
            cluster.now += 1
            cluster.add(queue(name, parent="a", guarantee=Guarantee(resource={"cpu": 3})))
        cluster.settle()
        assert list(rejected(cluster)) == ["c"]

    def test_a_path_inside_that_of_another(self) -> None:
        outer = {names.HIERARCHY: "root/x", names.HIERARCHY_WEIGHTS: "1/1"}
        inner = {names.HIERARCHY: "root/x/y", names.HIERARCHY_WEIGHTS: "1/1/1"}
        cluster = FakeCluster(queue("a", annotations=outer), controllers=strict)
        cluster.now += 1
        cluster.add(queue("0", annotations=inner))
        cluster.settle()
        assert list(rejected(cluster)) == ["0"]

    def test_who_changed_last_is_rejected_and_not_its_children(self) -> None:
        parent = queue("a", capability={"cpu": 8}, created="2020-01-01T00:00:00Z")
        cluster = FakeCluster(parent, queue("b", parent="a", capability={"cpu": 5}), controllers=strict)
        cluster.settle()
        present = cluster.queue("a")
        cluster.put(replace(present, spec=replace(present.spec, capability={"cpu": 4})))
        cluster.settle()
        assert list(rejected(cluster)) == ["a"]
        # The condition outlives the process.
        cluster.restart()
        cluster.settle()
        assert list(rejected(cluster)) == ["a"]
        cluster.put(replace(cluster.queue("a"), spec=parent.spec))
        cluster.settle()
        assert rejected(cluster) == {}

    def test_a_simulation_does_it_itself(self) -> None:
        cluster = FakeCluster(queue("a", capability={"cpu": 4}), queue("b", parent="a", capability={"cpu": 5}))
        cluster.settle()
        assert rejected(cluster) == {}


def group(name: str, queue_name: str) -> PodGroup:
    made = PodGroup(metadata=ObjectMeta(name=name, namespace="ns"), spec=PodGroupSpec(min_member=1, queue=queue_name))
    default(made)
    return made


class TestSubmissions:
    def test_jobs_and_groups_for_queues_that_do_not_take_them(self) -> None:
        cluster = FakeCluster(
            queue("parent"), queue("child", parent="parent"), queue("shut"),
            job("ns/a", task("t", 1), queue="nowhere"), group("b", "shut"), job("ns/c", task("t", 1), queue="parent"),
            controllers=strict,
        )  # fmt: skip
        shut = cluster.queue("shut")
        cluster.put(replace(shut, status=replace(shut.status, state="Closed")))
        for _ in range(2):
            cluster.settle()
        assert sorted(warnings(cluster)) == [
            ("a", "Refused", 'spec.queue: there is no queue "nowhere"'),
            ("b", "Refused", 'spec.queue: the queue "shut" is Closed, so it accepts no groups'),
            ("c", "Refused", 'spec.queue: the queue "parent" has queues below it; only a leaf queue accepts jobs'),
        ]
        assert {made.status.state.phase for made in cluster.list(Job)} == {"Pending"}

    def test_a_queue_that_we_are_about_to_create_is_no_mistake(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 1)), controllers=strict)
        cluster.settle()
        assert warnings(cluster) == []

    def test_jobs_of_a_rejected_queue_say_so(self) -> None:
        cluster = FakeCluster(
            queue("a", capability={"cpu": 4}, created="2020-01-01T00:00:00Z"),
            queue("b", parent="a", capability={"cpu": 5}, created="2021-01-01T00:00:00Z"),
            job("ns/j", task("t", 1), queue="b"), controllers=strict,
        )  # fmt: skip
        cluster.settle()
        message = 'spec.queue: the queue "b" is invalid, so it accepts no jobs; its condition says why'
        assert ("j", "Refused", message) in warnings(cluster)
