"""Jobs of batch/v1: how many pods run, who is counted as what, and when it is over."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, template
from stromboli.api import (
    BatchJob,
    BatchJobSpec,
    ContainerStatus,
    ObjectMeta,
    OnExitCodes,
    OnPodCondition,
    OwnerReference,
    Pod,
    PodFailurePolicy,
    PodFailurePolicyRule,
    default,
    key,
)
from stromboli.controllers.workloads.owned_pods import TRACKING, OwnedPods


def batch_job(**spec: Any) -> BatchJob:
    made = BatchJob(metadata=ObjectMeta(name="work", namespace="ns"), spec=BatchJobSpec(template=template(), **spec))
    default(made)
    return made


def indexed(completions: int, **spec: Any) -> BatchJob:
    return batch_job(completion_mode="Indexed", completions=completions, **spec)


def present(cluster: FakeCluster) -> BatchJob:
    found = cluster.get(BatchJob, "ns/work")
    assert found is not None
    return found


def change(cluster: FakeCluster, **spec: Any) -> None:
    now = present(cluster)
    cluster.put(replace(now, spec=replace(now.spec, **spec)))
    cluster.settle()


def active(cluster: FakeCluster) -> list[str]:
    return [key(one) for one in cluster.list(Pod) if one.status.phase in ("Pending", "Running")]


def end(cluster: FakeCluster, pod: str, exit_code: int = 0) -> None:
    cluster.finish(pod, exit_code=exit_code)
    cluster.settle()


def numbers(cluster: FakeCluster) -> tuple[int, int, int]:
    status = present(cluster).status
    return status.active, status.succeeded, status.failed


def ended(cluster: FakeCluster) -> tuple[str, str]:
    """The condition with which it ended, and why."""
    found = [one for one in present(cluster).status.conditions if one.type in ("Complete", "Failed")]
    return (found[0].type, found[0].reason) if found else ("", "")


def test_so_many_pods_run_at_a_time_until_enough_have_succeeded() -> None:
    cluster = FakeCluster(batch_job(completions=3, parallelism=2))
    cluster.settle()
    assert cluster.names(Pod) == ("work-0", "work-1")
    assert cluster.pod("ns/work-0").metadata.labels["job-name"] == "work"
    assert TRACKING in cluster.pod("ns/work-0").metadata.finalizers
    assert present(cluster).status.start_time == "1970-01-01T00:00:00Z"
    cluster.run()
    end(cluster, "ns/work-0")
    assert numbers(cluster) == (2, 1, 0)
    assert TRACKING not in cluster.pod("ns/work-0").metadata.finalizers
    end(cluster, "ns/work-1")
    assert numbers(cluster) == (1, 2, 0)  # one more is enough
    assert cluster.names(Pod) == ("work-0", "work-1", "work-2")
    end(cluster, "ns/work-2")
    assert numbers(cluster) == (0, 3, 0)
    assert ended(cluster) == ("Complete", "CompletionsReached")
    assert present(cluster).status.completion_time is not None


def test_a_work_queue_is_done_when_one_has_succeeded_and_all_have_ended() -> None:
    cluster = FakeCluster(batch_job(parallelism=3))
    cluster.settle()
    assert present(cluster).spec.completions is None
    cluster.run()
    end(cluster, "ns/work-0")
    assert len(active(cluster)) == 2  # no new ones
    end(cluster, "ns/work-1", exit_code=1)
    assert ended(cluster) == ("", "")
    end(cluster, "ns/work-2")
    assert ended(cluster)[0] == "Complete"


def test_each_index_succeeds_once() -> None:
    cluster = FakeCluster(indexed(3, parallelism=2))
    cluster.settle()
    assert cluster.names(Pod) == ("work-0-0", "work-1-1")
    made = cluster.pod("ns/work-1-1")
    assert made.metadata.annotations["batch.kubernetes.io/job-completion-index"] == "1"
    assert made.spec.hostname == "work-1"
    assert {"name": "JOB_COMPLETION_INDEX", "value": "1"} in made.spec.containers[0].env
    cluster.run()
    end(cluster, "ns/work-1-1")
    assert present(cluster).status.completed_indexes == "1"
    assert cluster.names(Pod) == ("work-0-0", "work-1-1", "work-2-2")
    end(cluster, "ns/work-0-0", exit_code=1)
    cluster.advance(10)
    assert cluster.names(Pod) == ("work-0-0", "work-0-3", "work-1-1", "work-2-2")
    end(cluster, "ns/work-0-3")
    end(cluster, "ns/work-2-2")
    status = present(cluster).status
    assert (status.completed_indexes, status.succeeded, status.failed) == ("0-2", 3, 1)
    assert ended(cluster)[0] == "Complete"


def test_after_a_failure_it_waits_twice_as_long_each_time() -> None:
    # 10 s, 20 s, 40 s; the fourth failure is one more than backoffLimit.
    cluster = FakeCluster(batch_job(backoff_limit=3))
    cluster.settle()
    for number, pause in enumerate((10.0, 20.0, 40.0)):
        fail_now(cluster, f"ns/work-{number}")
        assert cluster.next_due() == cluster.now + pause
        cluster.advance(pause - 1)
        assert active(cluster) == []
        cluster.advance(1)
        assert active(cluster) == [f"ns/work-{number + 1}"]
    fail_now(cluster, "ns/work-3")
    assert ended(cluster) == ("Failed", "BackoffLimitExceeded")
    assert numbers(cluster) == (0, 0, 4)
    assert cluster.next_due() is None


def fail_now(cluster: FakeCluster, pod: str) -> None:
    """With the time at which its container ended."""
    cluster.run()
    cluster.finish(pod, exit_code=1)
    done = cluster.pod(pod)
    (container,) = done.status.container_statuses
    terminated = container.state.terminated
    assert terminated is not None
    from stromboli.api.timestamps import format_timestamp

    terminated.finished_at = format_timestamp(cluster.now)
    cluster.put(done)
    cluster.settle()


def test_a_failure_of_many_stops_those_that_run() -> None:
    cluster = FakeCluster(batch_job(completions=4, parallelism=4, backoff_limit=0))
    cluster.settle()
    cluster.run()
    end(cluster, "ns/work-0", exit_code=1)
    assert ended(cluster) == ("Failed", "BackoffLimitExceeded")
    assert cluster.names(Pod) == ("work-0",)


def test_a_deadline_ends_it_and_some_time_later_it_is_gone() -> None:
    cluster = FakeCluster(batch_job(active_deadline_seconds=30, ttl_seconds_after_finished=60))
    cluster.settle()
    assert cluster.next_due() == 30.0
    cluster.advance(30)
    assert ended(cluster) == ("Failed", "DeadlineExceeded")
    assert cluster.names(Pod) == ()
    assert cluster.next_due() == 90.0
    cluster.advance(60)
    assert cluster.names(BatchJob) == ()


def test_a_suspended_job_has_no_pods_and_its_deadline_does_not_count() -> None:
    cluster = FakeCluster(batch_job(suspend=True, active_deadline_seconds=30))
    cluster.settle()
    assert cluster.names(Pod) == ()
    assert [(one.type, one.status) for one in present(cluster).status.conditions] == [("Suspended", "True")]
    cluster.advance(100)
    change(cluster, suspend=False)
    assert cluster.names(Pod) == ("work-0",)
    assert [(one.type, one.status) for one in present(cluster).status.conditions] == [("Suspended", "False")]
    assert cluster.next_due() == 130.0
    change(cluster, suspend=True)
    assert cluster.names(Pod) == ()
    assert numbers(cluster) == (0, 0, 0)  # who was stopped has not failed


def test_fewer_at_a_time_stops_some() -> None:
    cluster = FakeCluster(batch_job(completions=5, parallelism=3))
    cluster.settle()
    change(cluster, parallelism=1)
    assert len(cluster.names(Pod)) == 1
    assert numbers(cluster) == (1, 0, 0)


def test_an_evicted_pod_counts_as_failed_and_is_replaced_a_second_later() -> None:
    cluster = FakeCluster(batch_job(completions=2, parallelism=2))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.evict("ns/work-0")
    cluster.settle()
    assert numbers(cluster) == (1, 0, 1)
    assert cluster.names(Pod) == ("work-1",)
    cluster.restart()
    cluster.advance(1)
    assert cluster.names(Pod) == ("work-1", "work-2")
    assert numbers(cluster) == (2, 0, 1)


def test_a_pod_that_is_going_counts_as_failed_and_is_replaced_at_once() -> None:
    cluster = FakeCluster(batch_job())
    cluster.grace = 30.0
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.evict("ns/work-0")
    cluster.settle()
    assert numbers(cluster) == (1, 0, 1)
    assert cluster.names(Pod) == ("work-0", "work-1")
    cluster.advance(30)
    assert numbers(cluster) == (1, 0, 1)


def test_pods_may_be_replaced_only_when_they_are_gone() -> None:
    cluster = FakeCluster(batch_job(pod_replacement_policy="Failed"))
    cluster.grace = 30.0
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.evict("ns/work-0")
    cluster.settle()
    assert cluster.names(Pod) == ("work-0",)
    cluster.advance(30)
    assert cluster.names(Pod) == ("work-1",)


def policy(action: str, *, codes: list[int] | None = None, condition: str = "") -> PodFailurePolicy:
    on_codes = None if codes is None else OnExitCodes(operator="In", values=codes)
    on_conditions = [OnPodCondition(type=condition)] if condition else []
    return PodFailurePolicy(
        rules=[PodFailurePolicyRule(action=action, on_exit_codes=on_codes, on_pod_conditions=on_conditions)]
    )


def test_an_eviction_may_be_ignored() -> None:
    cluster = FakeCluster(batch_job(backoff_limit=0, pod_failure_policy=policy("Ignore", condition="DisruptionTarget")))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.evict("ns/work-0")
    cluster.settle()
    assert numbers(cluster) == (0, 0, 0)
    cluster.advance(1)
    assert cluster.names(Pod) == ("work-1",)
    end(cluster, "ns/work-1")
    assert ended(cluster)[0] == "Complete"


def test_an_exit_code_may_fail_the_job_or_not_count() -> None:
    cluster = FakeCluster(batch_job(pod_failure_policy=policy("FailJob", codes=[42])))
    cluster.settle()
    end(cluster, "ns/work-0", exit_code=41)
    assert ended(cluster) == ("", "")
    cluster.advance(10)
    end(cluster, "ns/work-1", exit_code=42)
    assert ended(cluster) == ("Failed", "PodFailurePolicy")
    (condition,) = present(cluster).status.conditions
    assert "container main has ended with exit code 42" in condition.message
    ignoring = FakeCluster(batch_job(backoff_limit=0, pod_failure_policy=policy("Ignore", codes=[42])))
    ignoring.settle()
    end(ignoring, "ns/work-0", exit_code=42)
    assert ended(ignoring) == ("", "")
    assert numbers(ignoring)[2] == 0


def test_restarts_of_containers_count_towards_the_limit() -> None:
    made = batch_job(backoff_limit=2)
    made.spec.template.spec.restart_policy = "OnFailure"
    cluster = FakeCluster(made)
    cluster.settle()
    cluster.run()
    for restarts in (1, 2):
        assert ended(cluster) == ("", "")
        pod = cluster.pod("ns/work-0")
        status = replace(pod.status, container_statuses=[ContainerStatus(name="main", restart_count=restarts)])
        cluster.put(replace(pod, status=status))
        cluster.settle()
    assert ended(cluster) == ("Failed", "BackoffLimitExceeded")


def test_pods_go_with_their_job() -> None:
    cluster = FakeCluster(batch_job(completions=2, parallelism=2))
    cluster.settle()
    cluster.remove(present(cluster))
    cluster.settle()
    assert cluster.names(Pod) == ()


def test_the_pods_of_a_job_that_was_deleted_after_them_are_still_known() -> None:
    """A namespace that ends deletes its pods before its Jobs. Their finalizers have to be removed all the same."""
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="work", uid="u", controller=True)
    metadata = ObjectMeta(name="work-1", namespace="ns", uid="p", owner_references=[owner], finalizers=[TRACKING])
    going = replace(metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    pods = OwnedPods(by_name=False)
    for one in (metadata, going):
        list(pods.update(Pod(metadata=one), exists=True))
    pods.owner_deleted("Job", "ns", "work", "u")
    assert pods.others("Job", "ns", "work", "") == ["u"]
    assert list(pods.of("Job", "ns", "work", "u").tracked) == ["ns/work-1"]
    list(pods.update(Pod(metadata=going), exists=False))
    assert pods.others("Job", "ns", "work", "") == []
    assert not pods._uids


steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 5)),
        st.tuples(st.just("succeed"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("evict"), st.integers(0, 5)),
        st.tuples(st.just("suspend"), st.integers(0, 1)),
        st.tuples(st.just("parallelism"), st.integers(0, 4)),
        st.tuples(st.just("wait"), st.integers(0, 20)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=20,
)


@given(steps, st.sampled_from([0.0, 2.0]), st.booleans())
def test_whatever_happens_every_pod_is_counted_once_and_the_job_is_done(
    story: list[tuple[str, int]], grace: float, with_indexes: bool
) -> None:
    cluster = FakeCluster(batch_job(
        completions=4, parallelism=2, backoff_limit=1000, completion_mode="Indexed" if with_indexes else ""
    ))  # fmt: skip
    cluster.grace = grace
    cluster.settle()
    succeeded = failed = 0
    for what, number in story:
        here = [one for one in cluster.list(Pod) if key(one) in active(cluster)]
        going = [one for one in here if one.metadata.deletion_timestamp is not None]
        chosen = here[number] if number < len(here) and here[number] not in going else None
        match what:
            case "run" if chosen is not None and chosen.status.phase == "Pending":
                cluster.run(key(chosen))
            case "succeed" if chosen is not None:
                cluster.finish(key(chosen))
                succeeded += 1
            case "fail" if chosen is not None:
                cluster.finish(key(chosen), exit_code=1)
                failed += 1
            case "evict" if chosen is not None:
                cluster.evict(key(chosen))
                failed += 1
            case "suspend":
                change(cluster, suspend=bool(number))
            case "parallelism":
                change(cluster, parallelism=number)
            case "wait":
                cluster.advance(float(number))
            case "restart":
                cluster.restart()
        cluster.settle()
        assert numbers(cluster)[1:] == (succeeded, failed)
    change(cluster, suspend=False, parallelism=2)
    for _ in range(30):
        if ended(cluster)[0]:
            break
        for name in active(cluster):
            if cluster.pod(name).metadata.deletion_timestamp is None:
                cluster.finish(name)
                succeeded += 1
        cluster.settle()
        cluster.advance(400.0)
    assert ended(cluster)[0] == "Complete"
    assert numbers(cluster) == (0, succeeded, failed)
    assert succeeded == 4
    assert not any(TRACKING in one.metadata.finalizers for one in cluster.list(Pod))
