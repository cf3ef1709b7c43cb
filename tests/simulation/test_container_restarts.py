"""Containers that are started again on their node: when, how often, and what others see of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from simulation.test_workloads import job, node, patch, simulate, template, times, workload

Document = dict[str, Any]


def pod(policy: str = "", *, run: str = "5s", code: int = 0, **timing: str) -> Document:
    made = template(timing={"run": run, "exit-code": str(code), **timing})
    if policy:
        made["spec"]["restartPolicy"] = policy
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **made["metadata"]}, "spec": made["spec"]}


def test_pauses_are_those_of_a_kubelet(tmp_path: Path) -> None:
    # Runs of 5 s: 0-5, at once 5-10, after 10 s 20-25, after 20 s 45-50, after 40 s 90-95, after 80 s 175-180.
    report = simulate(tmp_path, node(), pod("OnFailure", code=1), until="100s")
    assert times(report, "Restarted") == [5.0, 10.0, 25.0, 50.0, 95.0]
    assert report["pods"]["default/p"]["phase"] == "Running"
    assert times(report, "Bound") == [0.0]
    assert [e["message"] for e in report["events"] if e["type"] == "Restarted"][:2] == [
        "Its containers ended with exit code 1 and start again at once.",
        "Its containers ended with exit code 1 and start again in 10s.",
    ]


def test_a_pause_is_never_longer_than_five_minutes_and_a_long_run_begins_anew(tmp_path: Path) -> None:
    report = simulate(tmp_path, node(), pod("Always", run="1s"), until="40m")
    ends = times(report, "Restarted")
    assert max(later - earlier for earlier, later in pairwise(ends)) == 301.0
    # Runs of ten minutes: each is followed at once by the next.
    report = simulate(tmp_path, node(), pod("Always", run="10m"), until="40m")
    assert times(report, "Restarted") == [600.0, 1200.0, 1800.0, 2400.0]


def test_a_pod_is_over_unless_its_policy_says_otherwise_in_so_many_words(tmp_path: Path) -> None:
    for policy, code, phase in (
        ("", 0, "Succeeded"), ("", 1, "Failed"), ("Never", 1, "Failed"), ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"), ("Always", 0, "Running"),
    ):  # fmt: skip
        report = simulate(tmp_path, node(), pod(policy, code=code), until="30s")
        assert report["pods"]["default/p"]["phase"] == phase, (policy, code)


def test_a_pod_that_restarts_keeps_its_node(tmp_path: Path) -> None:
    other = pod(run="1s")
    other["metadata"]["name"] = "z"
    report = simulate(tmp_path, node(cpu=1), pod("Always"), other, until="60s")
    assert sum(one["phase"] == "Pending" for one in report["pods"].values()) == 1


def test_a_pod_whose_fault_is_mended_ends(tmp_path: Path) -> None:
    # Ends at 5 s and 10 s, and waits until 20 s. At 12 s its exit code becomes 0, so it has succeeded at 25 s.
    change = {"metadata": {"annotations": {"sim.stromboli.io/exit-code": "0"}}}
    report = simulate(tmp_path, node(), pod("OnFailure", code=1), patch("12s", "Pod", change, "p"))
    assert times(report, "Finished") == [25.0]
    assert report["pods"]["default/p"]["phase"] == "Succeeded"


def test_a_pod_that_is_deleted_while_it_waits_is_gone(tmp_path: Path) -> None:
    leaving = pod("Always", until="15s")
    report = simulate(tmp_path, node(), leaving)
    assert times(report, "Deleted") == [15.0]
    assert times(report, "Restarted") == [5.0, 10.0]
    assert report["end"] == 15.0


def test_a_run_ends_although_a_pod_restarts_for_ever(tmp_path: Path) -> None:
    report = simulate(tmp_path, node(), pod("Always", run="1s"))
    assert [e["reason"] for e in report["events"] if e["type"] == "Warning"] == ["Repeats"]


def test_a_rollout_stops_at_pods_that_do_not_stay_up(tmp_path: Path) -> None:
    # Pods count after 8 s, and those of the second template end after 5 s, again and again: none ever counts, and of
    # the 4 old pods none may be missing.
    broken = template(timing={"run": "5s", "exit-code": "1"})
    broken["spec"]["restartPolicy"] = "Always"
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    report = simulate(
        tmp_path,
        node(),
        workload("Deployment", replicas=4, minReadySeconds=8, strategy=rolling),
        patch("20s", "Deployment", {"spec": {"template": broken}}),
        until="10m",
    )
    assert times(report, "Submitted") == [0.0] * 4 + [20.0]
    assert times(report, "Deleted") == []


def test_a_job_gives_up_after_so_many_restarts(tmp_path: Path) -> None:
    # backoffLimit 3: ends at 5 s and 10 s, restarts at 5, 10 + 10 = 20 and 25 + 20 = 45 s. The third is the last.
    report = simulate(tmp_path, node(), job(timing={"run": "5s", "exit-code": "1"}, policy="OnFailure", backoffLimit=3))
    assert times(report, "Restarted") == [5.0, 10.0, 25.0]
    assert times(report, "Deleted") == [45.0]
