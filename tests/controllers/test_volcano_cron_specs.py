"""Volcano's end-to-end specs about CronJobs (`test/e2e/cronjob/cronjob_basic.go`, August 2026), by their names.

They wait for minutes until something is so, or stays so; here the minutes are counted.
"""

from __future__ import annotations

from typing import Any

from controllers.fake_cluster import FakeCluster
from controllers.test_cron_jobs import active, end, every_minute, jobs, started, the
from stromboli.api import Job, names
from stromboli.api.timestamps import parse_timestamp


def minutes(count: int, *, ends: str = "", **facts: Any) -> FakeCluster:
    """A CronJob for so many minutes. `ends`: how each Job ends, half a minute later; "" if it goes on."""
    cluster = started(every_minute(**facts))
    for minute in range(1, count + 1):
        cluster.advance(60)
        if ends and minute in jobs(cluster):
            cluster.advance(30)
            end(cluster, minute, ends)
            cluster.now -= 30
    return cluster


def test_create_and_schedule_basic_cronjob() -> None:
    cluster = minutes(3, ends="Completed")
    assert the(cluster).status.last_schedule_time is not None
    assert len(jobs(cluster)) >= 2
    first = next(iter(cluster.list(Job)))
    assert parse_timestamp(first.metadata.annotations[names.SCHEDULED_AT]) > 0


def test_cronjob_with_suspend_functionality() -> None:
    cluster = minutes(3, suspend=True)
    assert jobs(cluster) == ()


def test_cronjob_with_allow_concurrency() -> None:
    cluster = minutes(3, concurrency_policy="Allow")
    assert len(active(cluster)) >= 2
    assert len(jobs(cluster)) >= 2


def test_cronjob_with_forbid_concurrency() -> None:
    cluster = started(every_minute(concurrency_policy="Forbid"))
    cluster.advance(60)
    for _ in range(5):
        cluster.advance(60)
        assert (active(cluster), jobs(cluster)) == ([1], (1,))


def test_cronjob_with_replace_concurrency() -> None:
    cluster = started(every_minute(concurrency_policy="Replace"))
    cluster.advance(60)
    for minute in range(2, 7):
        cluster.advance(60)
        assert (active(cluster), jobs(cluster)) == ([minute], (minute,))


def test_many_miss_schedule() -> None:
    """As if it had been created two hours ago."""
    cluster = started(every_minute())
    cluster.advance(2 * 3600)
    assert (jobs(cluster), the(cluster).status.last_schedule_time) == ((120,), "2026-01-01T02:00:00Z")


def test_remove_finished_job_from_cronjob_active() -> None:
    cluster = started(every_minute())
    cluster.advance(60)
    assert active(cluster) == [1]
    end(cluster, 1)
    assert active(cluster) == []


def test_delete_finished_and_suc_jobs_with_limit() -> None:
    for count in range(2, 6):
        cluster = minutes(count, ends="Completed", successful_jobs_history_limit=1)
        assert jobs(cluster) == (count,)


def test_delete_finished_and_fail_jobs_with_limit() -> None:
    for count in range(2, 6):
        cluster = minutes(count, ends="Failed", failed_jobs_history_limit=1)
        assert jobs(cluster) == (count,)
