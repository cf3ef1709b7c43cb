"""Admission within the ResourceQuotas of a namespace: what counts as used, and what each job needs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from builders import GPU, Amounts, cluster, group, node, pod, pods, quota, session
from stromboli.api import KObject, ResourceQuota
from stromboli.api.kinds.core import ResourceQuotaStatus
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.scheduling.actions.enqueue import Enqueue
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.reasons import refused


def limited(
    name: str, used: Amounts | None = None, *, scopes: list[str] | None = None, **hard: object
) -> ResourceQuota:
    """In the names of resources `_` stands for a dot."""
    amounts = {entry.replace("_", "."): amount for entry, amount in hard.items()}
    plain = quota(name, hard=amounts)  # type: ignore[arg-type]
    spec = replace(plain.spec, scopes=scopes or [])
    return replace(plain, spec=spec, status=ResourceQuotaStatus(used=dict(used or {})))


def applicant(name: str, cpu: int, pods: int = 1, **more: object) -> KObject:
    return group(name, phase="Pending", min_member=pods, min_resources={"cpu": cpu, **more})  # type: ignore[dict-item]


def admit(known: Cluster) -> Mapping[str, Refusal]:
    """Why jobs are not admitted."""
    current = session(known, tiers=[["gang", "resourcequota"]], actions=["enqueue"])
    Enqueue(Arguments()).execute(current)
    waiting = [job for job in known.jobs.values() if job.phase == "Pending"]
    return {str(job.key): current.notes.of(job).refusals[-1] for job in waiting}


# Four CPUs are allowed, of which one runs and one waits. Two more fit, three do not; other namespaces have no quota.
def test_a_job_is_admitted_if_the_quota_leaves_enough() -> None:
    known = cluster(
        node("n1", cpu=100), limited("team/q", cpu=4),
        group("team/old"), pod("team/o-0", group="old", cpu=1, node="n1"), pod("team/o-1", group="old", cpu=1),
        applicant("team/fits", 2), applicant("other/free", 50),
    )  # fmt: skip
    assert admit(known) == {}
    known.apply(Applied(applicant("team/more", 3)))
    (refusal,) = admit(known).values()
    assert refused(refusal) == (
        "ResourceQuota team/q would be exceeded: 3 cpu requested, 2 used, 2 kept for other pods, at most 4 allowed. "
        "Wait for pods of the namespace to end, or raise the quota."
    )


# Both fit alone: the first one takes what there is.
def test_nothing_is_promised_twice_in_one_cycle() -> None:
    known = cluster(node("n1", cpu=100), limited("q", cpu=4), applicant("a", 3), applicant("b", 3))
    assert list(admit(known)) == ["default/b"]


# Of the three CPUs that were promised, one pod exists: two will be created, and two that exist are used.
def test_what_admitted_jobs_will_create_still_counts() -> None:
    known = cluster(
        node("n1", cpu=100), limited("q", cpu=8),
        group("old", min_member=3, min_resources={"cpu": 3}), pod("o-0", group="old", cpu=1, node="n1"),
        applicant("fits", 5),
    )  # fmt: skip
    assert admit(known) == {}
    known.apply(Applied(applicant("more", 1)))
    (refusal,) = admit(known).values()
    assert (refusal.have, refusal.kept, refusal.need, refusal.total) == (1000, 7000, 1000, 8000)


# Its own two pods are used already, so a bare group of three needs one more.
def test_pods_that_exist_are_not_needed_again() -> None:
    known = cluster(
        node("n1", cpu=100), limited("q", cpu=3),
        group("g", phase="Pending", min_member=3, min_resources={"cpu": 3}), pods("p", 2, group="g", cpu=1),
    )  # fmt: skip
    assert admit(known) == {}


@pytest.mark.parametrize(
    ("hard", "used", "refuses"),
    [
        ({"cpu": 4}, {}, False),
        ({"cpu": 4}, {"cpu": "1"}, True),  # somebody else's pods
        ({"requests_cpu": "3999m"}, {}, True),
        ({"memory": "4Gi"}, {}, False),
        ({"requests_memory": "3Gi"}, {}, True),
        ({"pods": 2}, {}, False),
        ({"pods": 1}, {}, True),
        ({"count/pods": 3}, {"count/pods": 2}, True),
        ({f"requests.{GPU}": 1}, {}, True),
        ({"limits_cpu": 1, "services": 0, "requests_storage": "1Gi", "count/jobs.batch": 0}, {}, False),
    ],
)
def test_each_entry_limits_what_it_names(hard: dict[str, object], used: Amounts, refuses: bool) -> None:
    asks = applicant("g", 4, pods=2, memory="4Gi", **{GPU: 2})
    known = cluster(node("n1", cpu=100, gpu=8), limited("q", used, **hard), asks)
    assert bool(admit(known)) is refuses


def test_pods_that_have_ended_are_not_used() -> None:
    known = cluster(
        node("n1", cpu=100), limited("q", pods=1, cpu=1),
        group("old"), pod("o", group="old", cpu=1, node="n1", phase="Succeeded"), applicant("g", 1),
    )  # fmt: skip
    assert admit(known) == {}


def test_pods_of_other_schedulers_are_used() -> None:
    known = cluster(
        node("n1", cpu=100), limited("q", cpu=2), pod("x", cpu=2, node="n1", scheduler="default-scheduler"),
        applicant("g", 1),
    )  # fmt: skip
    assert list(admit(known)) == ["default/g"]


def test_a_quota_with_scopes_and_one_that_is_gone_limit_nothing() -> None:
    known = cluster(node("n1", cpu=100), limited("q", cpu=1, scopes=["Terminating"]), applicant("a", 2))
    assert admit(known) == {}
    strict = limited("strict", cpu=1)
    known = cluster(node("n1", cpu=100), strict, applicant("b", 2))
    assert list(admit(known)) == ["default/b"]
    known.apply(Deleted(strict))
    assert admit(known) == {}


def test_every_quota_of_the_namespace_has_to_agree() -> None:
    known = cluster(node("n1", cpu=100), limited("a", cpu=9), limited("b", cpu=1), applicant("g", 2))
    (refusal,) = admit(known).values()
    assert refusal.subject == "default/b"


# The quota has room for 50 CPUs, the cluster has not; the quota stands in the upper tier, and does not overrule it.
def test_enough_quota_is_no_room() -> None:
    known = cluster(node("n1", cpu=10), limited("q", cpu=50), applicant("g", 20))
    current = session(known, tiers=[["resourcequota"], ["overcommit"]], actions=["enqueue"])
    Enqueue(Arguments()).execute(current)
    assert known.jobs["default/g"].phase == "Pending"  # type: ignore[index]


def test_without_quotas_jobs_are_admitted_all_at_once() -> None:
    known = cluster(node("n1", cpu=10), quota("q", weight=3), applicant("g", 2))
    current = session(known, tiers=[["resourcequota"]], actions=["enqueue"])
    assert not current.points.job_enqueueable.calls
    assert admit(known) == {}
