"""CronJobs: which times of their schedules get Jobs, and which Jobs are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import (
    CronJob,
    CronJobSpec,
    CronJobTemplate,
    Job,
    JobSpec,
    ObjectMeta,
    ObjectReference,
    default,
)
from stromboli.api.timestamps import format_timestamp
from stromboli.controllers import ControllerManager

API = "batch.volcano.sh/v1alpha1"
MIDNIGHT = 1_767_225_600.0  # 2026-01-01, a Thursday
FIRST = int(MIDNIGHT // 60)  # the number in the name of the Job of midnight


def every_minute(schedule: str = "* * * * *", annotations: dict[str, str] | None = None, **facts: Any) -> CronJob:
    template = CronJobTemplate(
        metadata=ObjectMeta(labels={"team": "a"}, annotations={"note": "x", "scheduling.stromboli.io/user": "forged"}),
        spec=JobSpec(tasks=[task("work", 1)]),
    )
    made = CronJob(
        metadata=ObjectMeta(name="tick", namespace="ns", annotations=annotations or {}),
        spec=CronJobSpec(schedule=schedule, job_template=template, **facts),
    )
    default(made)
    return made


def started(cron_job: CronJob, now: float = MIDNIGHT) -> FakeCluster:
    cluster = FakeCluster(cron_job, now=now)
    cluster.settle()
    return cluster


def jobs(cluster: FakeCluster) -> tuple[int, ...]:
    """The minutes since midnight whose Jobs there are."""
    return tuple(int(name.removeprefix("tick-")) - FIRST for name in cluster.names(Job))


def the(cluster: FakeCluster) -> CronJob:
    found = cluster.get(CronJob, "ns/tick")
    assert found is not None
    return found


def change(cluster: FakeCluster, **facts: Any) -> None:
    cluster.put(replace(the(cluster), spec=replace(the(cluster).spec, **facts)))
    cluster.settle()


def end(cluster: FakeCluster, minute: int, phase: str = "Completed") -> None:
    found = cluster.job(f"ns/tick-{FIRST + minute}")
    state = replace(found.status.state, phase=phase, last_transition_time=format_timestamp(cluster.now))
    cluster.put(replace(found, status=replace(found.status, state=state)))
    cluster.settle()


def active(cluster: FakeCluster) -> list[int]:
    return [int(one.name.removeprefix("tick-")) - FIRST for one in the(cluster).status.active]


def test_a_job_at_each_time_of_the_schedule() -> None:
    cluster = started(every_minute())
    assert jobs(cluster) == ()
    assert cluster.next_due() == MIDNIGHT + 60
    cluster.advance(59)
    assert jobs(cluster) == ()
    cluster.advance(1)
    assert jobs(cluster) == (1,)
    status = the(cluster).status
    made = cluster.job(f"ns/tick-{FIRST + 1}")
    assert status.last_schedule_time == "2026-01-01T00:01:00Z"
    name, uid = made.metadata.name, made.metadata.uid
    assert status.active == [ObjectReference(API, "Job", "ns", name, uid)]
    cluster.advance(60)
    assert jobs(cluster) == (1, 2)


def test_what_a_job_gets_from_its_cron_job() -> None:
    cluster = started(every_minute("0 8 * * *", {"scheduling.stromboli.io/user": "ada"}, time_zone="Europe/Rome"))
    cluster.advance(7 * 3600)
    (made,) = cluster.list(Job)
    assert made.metadata.labels == {"team": "a"}
    assert made.metadata.annotations == {
        "note": "x",
        "scheduling.stromboli.io/user": "ada",
        "volcano.sh/cronjob-scheduled-timestamp": "2026-01-01T08:00:00+01:00",
    }
    (owner,) = made.metadata.owner_references
    uid = the(cluster).metadata.uid
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
        API,
        "CronJob",
        "tick",
        uid,
        True,
    )
    assert [one.name for one in made.spec.tasks] == ["work"]


def test_a_claim_about_who_submitted_it_is_not_believed() -> None:
    cluster = started(every_minute())
    cluster.advance(60)
    (made,) = cluster.list(Job)
    assert "scheduling.stromboli.io/user" not in made.metadata.annotations


def test_a_suspended_one_creates_nothing_and_makes_up_for_the_last_time_only() -> None:
    cluster = started(every_minute(suspend=True))
    cluster.advance(300)
    assert (jobs(cluster), cluster.next_due()) == ((), None)
    change(cluster, suspend=False)
    assert jobs(cluster) == (5,)


def test_concurrency_allow() -> None:
    cluster = started(every_minute())
    for _ in range(3):
        cluster.advance(60)
    assert (jobs(cluster), active(cluster)) == ((1, 2, 3), [1, 2, 3])


def test_concurrency_forbid_waits_for_the_one_that_runs() -> None:
    cluster = started(every_minute(concurrency_policy="Forbid"))
    for _ in range(3):
        cluster.advance(60)
    assert jobs(cluster) == (1,)
    said = [notice for notice in cluster.notices if notice.reason == "JobAlreadyActive"]
    assert len(said) == 2  # once for each time
    cluster.now += 10
    end(cluster, 1)
    assert (jobs(cluster), active(cluster)) == ((1, 3), [3])


def test_concurrency_forbid_with_a_deadline_leaves_out_what_is_late() -> None:
    cluster = started(every_minute(concurrency_policy="Forbid", starting_deadline_seconds=5))
    cluster.advance(60)
    cluster.advance(60)
    cluster.advance(10)
    end(cluster, 1)
    assert jobs(cluster) == (1,)
    cluster.advance(50)
    assert jobs(cluster) == (1, 3)


def test_concurrency_replace_deletes_the_one_that_runs() -> None:
    cluster = started(every_minute(concurrency_policy="Replace"))
    cluster.advance(60)
    cluster.advance(60)
    assert (jobs(cluster), active(cluster)) == ((2,), [2])


def test_of_many_missed_times_the_last_one_counts() -> None:
    cluster = started(every_minute())
    cluster.advance(200 * 60)
    assert jobs(cluster) == (200,)
    assert [notice.reason for notice in cluster.notices if notice.warning] == ["TooManyMissedTimes"]
    cluster = started(every_minute(starting_deadline_seconds=180))
    cluster.advance(200 * 60)
    assert jobs(cluster) == (200,)
    assert not [notice for notice in cluster.notices if notice.reason == "TooManyMissedTimes"]


def test_a_job_that_ended_is_not_active() -> None:
    cluster = started(every_minute())
    cluster.advance(60)
    end(cluster, 1)
    assert (active(cluster), the(cluster).status.last_successful_time) == ([], "2026-01-01T00:01:00Z")


def test_history_limits() -> None:
    cluster = started(every_minute(successful_jobs_history_limit=2, failed_jobs_history_limit=1))
    phases = ("Completed", "Failed", "Completed", "Terminated", "Completed", "Aborted")
    for number, phase in enumerate(phases, start=1):
        cluster.advance(60)
        end(cluster, number, phase)
    assert jobs(cluster) == (3, 4, 5, 6)
    cluster.advance(60)
    assert active(cluster) == [6, 7]  # an aborted one can be resumed


def test_no_history() -> None:
    cluster = started(every_minute(successful_jobs_history_limit=0, failed_jobs_history_limit=0))
    cluster.advance(60)
    end(cluster, 1)
    assert jobs(cluster) == ()
    cluster.advance(30)
    assert jobs(cluster) == ()


def test_a_new_schedule_counts_from_now_on() -> None:
    cluster = started(every_minute("0 12 * * *"))
    cluster.advance(13 * 3600)
    assert jobs(cluster) == (12 * 60,)
    cluster.advance(3600)
    change(cluster, schedule="30 13 * * *")
    cluster.advance(3600)
    assert jobs(cluster) == (12 * 60,)
    cluster.advance(24 * 3600)
    assert jobs(cluster) == (12 * 60, 24 * 60 + 13 * 60 + 30)


def test_a_restart_in_every_minute_changes_nothing() -> None:
    plain, restarted = (started(every_minute("*/2 * * * *", concurrency_policy="Forbid")) for _ in range(2))
    for minute in range(1, 9):
        for cluster in (plain, restarted):
            cluster.advance(60)
            if minute == 5:
                end(cluster, 2)
        restarted.restart()
        restarted.settle()
        assert (jobs(plain), the(plain).status) == (jobs(restarted), the(restarted).status)


def test_a_job_that_was_created_and_not_noted_is_not_created_again() -> None:
    cluster = started(every_minute())
    cluster.now += 60
    for made in cluster.pass_once():
        if isinstance(getattr(made, "object", None), Job):
            cluster.add(made.object)
    cluster.restart()
    cluster.settle()
    assert (jobs(cluster), the(cluster).status.last_schedule_time) == ((1,), "2026-01-01T00:01:00Z")


def test_a_creation_that_failed_is_tried_again_later() -> None:
    cluster = started(every_minute("0 * * * *"))
    cluster.now += 3600
    assert cluster.pass_once()  # refused: nothing of it is carried out
    assert cluster.settle() == []
    assert cluster.next_due() == MIDNIGHT + 3610
    cluster.advance(10)
    assert jobs(cluster) == (60,)


def test_a_job_of_somebody_else_with_that_name() -> None:
    cluster = started(every_minute())
    cluster.add(job(f"ns/tick-{FIRST + 1}", task("work", 1)))
    cluster.advance(60)
    assert (active(cluster), [notice.reason for notice in cluster.notices]) == ([], ["ForeignJob"])
    cluster.advance(60)
    assert jobs(cluster) == (1, 2)


def test_an_invalid_one_says_so_and_creates_nothing() -> None:
    cluster = FakeCluster(
        every_minute("* 9-8 * * *"), now=MIDNIGHT, controllers=partial(ControllerManager, validate=True)
    )
    cluster.settle()
    cluster.advance(24 * 3600)
    (accepted,) = the(cluster).status.conditions
    sentence = "spec.schedule: the hour '9-8' ends before it begins"
    assert (accepted.type, accepted.status, accepted.message) == ("Accepted", "False", sentence)
    assert [notice.message for notice in cluster.notices if notice.reason == "Invalid"] == [sentence]
    assert jobs(cluster) == ()
    change(cluster, schedule="* 8-9 * * *")
    assert the(cluster).status.conditions == []
    cluster.advance(8 * 3600)
    assert jobs(cluster) == (24 * 60 + 8 * 60,)
