"""Objects that break the rules on servers that let them in."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import Condition, Job, JobVolume, ObjectMeta, PodGroup, PodGroupSpec, Queue, QueueSpec, default
from stromboli.controllers import ControllerManager


def strict() -> ControllerManager:
    return ControllerManager(validate=True)


def queue(name: str, **spec: object) -> Queue:
    made = Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(**spec))  # type: ignore[arg-type]
    default(made)
    return made


class TestJobs:
    def test_an_invalid_job_waits_and_says_why(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 1, min_available=2)), controllers=strict)
        cluster.settle()
        state = cluster.job("ns/j").status.state
        assert (state.phase, state.reason) == ("Pending", "Invalid")
        assert "spec.tasks[0].minAvailable: must be at most replicas (1), not 2" in state.message
        assert cluster.names(PodGroup) == ()
        assert [(notice.reason, notice.warning) for notice in cluster.notices] == [("Invalid", True)]

    @pytest.mark.parametrize("requests", [[1], "much", {"storage": [1]}, {"storage": {}}, {"storage": "-1"}, 7])
    def test_a_claim_that_cannot_be_read_is_refused(self, requests: object) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}}
        refused = job("ns/j", task("t", 1), volumes=[JobVolume(mount_path="/scratch", volume_claim=claim)])
        cluster = FakeCluster(refused, controllers=strict)
        cluster.settle()
        state = cluster.job("ns/j").status.state
        assert state.reason == "Invalid"
        assert "spec.volumes[0].volumeClaim.resources.requests" in state.message

    def test_names_that_no_pod_could_carry_are_refused(self) -> None:
        """63 characters fit into a label, and one more does not."""
        long = "n" * 64
        cluster = FakeCluster(
            job(f"ns/{long}", task("t", 1)), job("ns/j", task("t", 1), queue=long), job(f"ns/{long[1:]}", task("t", 1)),
            controllers=strict,
        )  # fmt: skip
        cluster.settle()
        said = {made.metadata.name: made.status.state.message for made in cluster.list(Job)}
        because = "must be at most 63 characters, because it is a label of the pods, not 64"
        assert said == {long: f"metadata.name: {because}", "j": f"spec.queue: {because}", long[1:]: ""}

    def test_a_corrected_one_goes_on(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 1, min_available=2)), controllers=strict)
        cluster.settle()
        present = cluster.job("ns/j")
        cluster.put(replace(present, spec=job("ns/j", task("t", 2, min_available=2)).spec))
        cluster.settle()
        assert cluster.job("ns/j").status.state.reason == ""
        assert len(cluster.names(PodGroup)) == 1

    def test_one_that_breaks_the_rules_while_it_runs_is_left_as_it_is(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 2)), controllers=strict)
        cluster.start()
        present = cluster.job("ns/j")
        cluster.put(replace(present, spec=replace(present.spec, min_available=5)))
        cluster.settle()
        assert cluster.phase("ns/j") == "Running"
        assert cluster.job("ns/j").status.state.reason == "Invalid"
        assert cluster.pod("ns/j-t-1").status.phase == "Running"

    def test_it_obeys_no_command_and_says_so(self) -> None:
        cluster = FakeCluster(job("ns/j", task("t", 1, min_available=2)), controllers=strict)
        cluster.command("AbortJob", cluster.job("ns/j"))
        cluster.settle()
        assert cluster.phase("ns/j") == "Pending"
        assert "CommandRefused" in [notice.reason for notice in cluster.notices]


class TestQueues:
    def test_an_invalid_queue_keeps_its_state_and_says_why(self) -> None:
        cluster = FakeCluster(queue("q", weight=1, deserved={"cpu": 4}, capability={"cpu": 2}), controllers=strict)
        cluster.command("CloseQueue", cluster.queue("q"))
        cluster.settle()
        status = cluster.queue("q").status
        assert status.state == ""
        assert [(c.type, c.status, c.reason) for c in status.conditions] == [("Accepted", "False", "Invalid")]
        assert "must be at most the capability" in status.conditions[0].message
        assert sorted(notice.reason for notice in cluster.notices) == ["CommandRefused", "Invalid"]

    def test_a_corrected_one_goes_on(self) -> None:
        cluster = FakeCluster(queue("q", weight=1, deserved={"cpu": 4}, capability={"cpu": 2}), controllers=strict)
        cluster.settle()
        present = cluster.queue("q")
        other = Condition(type="Other", status="True")
        status = replace(present.status, conditions=[*present.status.conditions, other])
        cluster.put(replace(present, spec=queue("q", weight=2).spec, status=status))
        cluster.settle()
        assert cluster.queue("q").status.state == "Open"
        assert cluster.queue("q").status.conditions == [other]

    def test_the_root_is_made_where_it_is_wanted(self) -> None:
        cluster = FakeCluster(controllers=lambda: ControllerManager(required_queues=("default", "root")))
        cluster.settle()
        assert cluster.names(Queue) == ("default", "root")


class TestGroups:
    def test_it_is_said_once_and_not_fought_for(self) -> None:
        group = PodGroup(metadata=ObjectMeta(name="g", namespace="ns"), spec=PodGroupSpec(min_member=-1, queue="q"))
        cluster = FakeCluster(group, controllers=strict)
        cluster.settle()
        present = cluster.group("ns/g")
        assert [c.message for c in present.status.conditions] == ["spec.minMember: must be 0 or more, not -1"]
        cluster.put(replace(present, status=replace(present.status, conditions=[])))
        cluster.settle()
        assert cluster.group("ns/g").status.conditions == []

    def test_a_corrected_one_is_no_longer_accused(self) -> None:
        group = PodGroup(metadata=ObjectMeta(name="g", namespace="ns"), spec=PodGroupSpec(min_member=-1, queue="q"))
        cluster = FakeCluster(group, controllers=strict)
        cluster.settle()
        present = cluster.group("ns/g")
        cluster.put(replace(present, spec=replace(present.spec, min_member=1)))
        cluster.settle()
        assert cluster.group("ns/g").status.conditions == []


def test_objects_that_were_checked_before_are_not_asked_again() -> None:
    cluster = FakeCluster(job("ns/j", task("t", 1, min_available=2)))
    cluster.settle()
    assert cluster.job("ns/j").status.state.reason == ""
