"""CronJobs of batch/v1: the same schedules as Volcano's, and Jobs that say in conditions how they ended."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, template
from controllers.test_cron_jobs import FIRST, MIDNIGHT
from stromboli.api import (
    BatchCronJob,
    BatchCronJobSpec,
    BatchJob,
    BatchJobCondition,
    BatchJobSpec,
    BatchJobTemplate,
    Job,
    ObjectMeta,
    Pod,
    default,
)
from stromboli.api.timestamps import format_timestamp


def started(schedule: str = "* * * * *", now: float = MIDNIGHT, **facts: Any) -> FakeCluster:
    job = BatchJobTemplate(metadata=ObjectMeta(labels={"team": "a"}), spec=BatchJobSpec(template=template()))
    made = BatchCronJob(
        metadata=ObjectMeta(name="tick", namespace="ns"),
        spec=BatchCronJobSpec(schedule=schedule, job_template=job, **facts),
    )
    default(made)
    cluster = FakeCluster(made, now=now)
    cluster.settle()
    return cluster


def jobs(cluster: FakeCluster) -> tuple[int, ...]:
    """The minutes since midnight whose Jobs there are."""
    return tuple(int(name.removeprefix("tick-")) - FIRST for name in cluster.names(BatchJob))


def the(cluster: FakeCluster) -> BatchCronJob:
    found = cluster.get(BatchCronJob, "ns/tick")
    assert found is not None
    return found


def end(cluster: FakeCluster, minute: int, kind: str = "Complete") -> None:
    found = cluster.get(BatchJob, f"ns/tick-{FIRST + minute}")
    assert found is not None
    stamp = format_timestamp(cluster.now)
    condition = BatchJobCondition(type=kind, status="True", last_transition_time=stamp)
    done = stamp if kind == "Complete" else None
    cluster.put(replace(found, status=replace(found.status, conditions=[condition], completion_time=done)))
    cluster.settle()


def test_each_time_gets_a_job_with_its_pods() -> None:
    cluster = started()
    assert jobs(cluster) == ()
    assert cluster.next_due() == MIDNIGHT + 60
    cluster.advance(60)
    assert jobs(cluster) == (1,)
    assert cluster.names(Pod) == (f"tick-{FIRST + 1}-0",)
    made = cluster.get(BatchJob, f"ns/tick-{FIRST + 1}")
    assert made is not None
    assert made.metadata.labels == {"team": "a"}
    assert made.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T00:01:00Z"
    assert made.metadata.owner_references[0].kind == "CronJob"
    assert [one.name for one in the(cluster).status.active] == [made.metadata.name]
    assert the(cluster).status.last_schedule_time == "2026-01-01T00:01:00Z"
    assert cluster.names(Job) == ()


def test_who_may_run_beside_whom() -> None:
    forbidding = started(concurrency_policy="Forbid")
    forbidding.advance(60)
    forbidding.advance(60)
    assert jobs(forbidding) == (1,)
    assert [one.reason for one in forbidding.notices] == ["JobAlreadyActive"]
    end(forbidding, 1)
    assert jobs(forbidding) == (1, 2)
    replacing = started(concurrency_policy="Replace")
    replacing.advance(60)
    replacing.advance(60)
    assert jobs(replacing) == (2,)


def test_a_time_zone_and_a_deadline() -> None:
    # 9:00 in Berlin is 8:00 UTC in winter. At 8:30 the controllers come back: 600 s are over, 3600 s are not.
    for deadline, expected in ((600, ()), (3600, (8 * 60,))):
        cluster = started("0 9 * * *", time_zone="Europe/Berlin", starting_deadline_seconds=deadline)
        cluster.now = MIDNIGHT + 8.5 * 3600
        cluster.restart()
        cluster.settle()
        assert jobs(cluster) == expected


def test_so_many_that_ended_are_kept() -> None:
    cluster = started(successful_jobs_history_limit=2, failed_jobs_history_limit=1)
    for minute in range(1, 7):
        cluster.advance(60)
        end(cluster, minute, "Failed" if minute % 2 else "Complete")
    assert jobs(cluster) == (4, 5, 6)
    assert the(cluster).status.last_successful_time == "2026-01-01T00:06:00Z"


def test_a_suspended_one_creates_nothing() -> None:
    cluster = started(suspend=True)
    cluster.advance(600)
    assert jobs(cluster) == ()
    assert cluster.next_due() is None
