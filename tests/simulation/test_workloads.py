"""Workloads in scenarios: when their pods come, start, and are replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stromboli.console.main import cli

Document = dict[str, Any]


def simulate(folder: Path, *documents: Document, until: str | None = None) -> Document:
    file = folder / "scenario.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    limit = () if until is None else ("--until", until)
    result = CliRunner().invoke(cli, ["simulate", str(file), *limit, "-o", "json"])
    assert result.exit_code == 0, result.output
    report: Document = json.loads(result.stdout)
    return report


def node(name: str = "n", cpu: int = 8, **more: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu}},
        **more,
    }


def template(app: str = "web", *, cpu: int = 1, image: str = "x:1", timing: dict[str, str] | None = None) -> Document:
    annotations = {f"sim.stromboli.io/{name}": value for name, value in (timing or {}).items()}
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": {"containers": [container]}}


def workload(kind: str, name: str = "web", version: str = "apps/v1", **spec: Any) -> Document:
    annotations = {"sim.stromboli.io/at": spec.pop("at", "0s")}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def patch(at: str, kind: str, change: Document, name: str = "web", **target: str) -> Document:
    return {
        "apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": at,
        "target": {"kind": kind, "name": name, **target}, "patch": change,
    }  # fmt: skip


def restarts(seconds: int) -> list[Document]:
    return [
        {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{second}s", "component": "controllers"}
        for second in range(seconds)
    ]


def told(report: Document, *types: str) -> list[tuple[float, str, str]]:
    """Time, type and pod of events; of a pod what comes behind the name of its owner."""
    return [(e["t"], e["type"], e["object"].partition("/")[2]) for e in report["events"] if e["type"] in types]


def times(report: Document, type: str) -> list[float]:
    return [t for t, _, _ in told(report, type)]


def test_a_deployment_is_rolled_out_as_fast_as_its_pods_become_available(tmp_path: Path) -> None:
    # 4 replicas, 1 more and 1 less allowed, 2 s until a pod counts. At 10 s the new set gets 1 pod (5 in all), an old
    # one goes (3 left), and a second new one comes. At 12 s both count, two old ones go and two new ones come, and at
    # 14 s the last old one goes.
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    story = [
        node(),
        workload("Deployment", replicas=4, minReadySeconds=2, strategy=rolling),
        patch("10s", "Deployment", {"spec": {"template": template(image="x:2")}}),
    ]
    report = simulate(tmp_path, *story)
    assert times(report, "Submitted") == [0.0] * 4 + [10.0] * 2 + [12.0] * 2
    assert times(report, "Deleted") == [10.0, 12.0, 12.0, 14.0]
    assert sorted(one["phase"] for one in report["pods"].values()) == ["Failed"] * 4 + ["Running"] * 4
    again = simulate(tmp_path, *story, *restarts(20))
    assert again["events"] == report["events"]


def test_a_rollout_that_finds_no_room_waits_with_its_old_pods(tmp_path: Path) -> None:
    # The new pods ask for 9 CPU, which no node has. None of the 4 old ones may be missing.
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    report = simulate(
        tmp_path,
        node(),
        workload("Deployment", replicas=4, strategy=rolling),
        patch("10s", "Deployment", {"spec": {"template": template(cpu=9)}}),
    )
    assert sorted(one["phase"] for one in report["pods"].values()) == ["Pending"] + ["Running"] * 4


def test_a_deployment_has_its_queue(tmp_path: Path) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    made = workload("Deployment", replicas=1)
    made["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "q"
    report = simulate(tmp_path, node(), queue, made)
    assert [one["queue"] for one in report["pods"].values()] == ["q"]


def test_a_stateful_set_is_rolled_out_from_the_highest_number_down(tmp_path: Path) -> None:
    # Each pod counts after 2 s. In order: 0 at 0 s, 1 at 2 s, 2 at 4 s. From 10 s on the partition keeps number 0, so 2
    # is replaced at 10 s and 1 at 12 s.
    story = [
        node(),
        workload("StatefulSet", replicas=3, minReadySeconds=2, updateStrategy={"rollingUpdate": {"partition": 1}}),
        patch("10s", "StatefulSet", {"spec": {"template": template(image="x:2")}}),
    ]
    report = simulate(tmp_path, *story)
    assert told(report, "Submitted") == [
        (0.0, "Submitted", "web-0"), (2.0, "Submitted", "web-1"), (4.0, "Submitted", "web-2"),
        (10.0, "Submitted", "web-2"), (12.0, "Submitted", "web-1"),
    ]  # fmt: skip
    assert simulate(tmp_path, *story, *restarts(20))["events"] == report["events"]


def test_a_stateful_set_gets_its_volumes(tmp_path: Path) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    report = simulate(tmp_path, node(), workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim]))
    assert [one["phase"] for one in report["claims"].values()] == ["Bound", "Bound"]
    assert sorted(report["claims"]) == ["default/data-web-0", "default/data-web-1"]


def test_a_daemon_set_reaches_nodes_as_they_come_and_leaves_what_it_does_not_fit(tmp_path: Path) -> None:
    late = node("late")
    late["metadata"]["annotations"] = {"sim.stromboli.io/at": "5s"}
    tainted = node("tainted", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    report = simulate(tmp_path, node("early"), late, tainted, workload("DaemonSet"))
    assert [(e["t"], e["node"]) for e in report["events"] if e["type"] == "Bound"] == [(0.0, "early"), (5.0, "late")]


def test_a_pod_of_a_daemon_set_waits_for_room_on_its_own_node(tmp_path: Path) -> None:
    # The node is full until 10 s. The other one has room, and that pod does not go there.
    filling = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "filling", "annotations": {"sim.stromboli.io/run": "10s"}},
        "spec": {"nodeName": "full", "containers": [{"name": "c", "resources": {"requests": {"cpu": 8}}}]},
    }  # fmt: skip
    report = simulate(tmp_path, node("full"), node("free"), filling, workload("DaemonSet"))
    bound = [(e["t"], e["node"]) for e in report["events"] if e["type"] == "Bound"]
    assert bound == [(0.0, "free"), (10.0, "full")]


def test_a_daemon_set_is_rolled_out_node_by_node(tmp_path: Path) -> None:
    # Pods count after 3 s, and one node at a time may be without one that counts.
    report = simulate(
        tmp_path,
        *(node(f"n{number}") for number in range(3)),
        workload("DaemonSet", minReadySeconds=3),
        patch("10s", "DaemonSet", {"spec": {"template": template(image="x:2")}}),
    )
    assert times(report, "Deleted") == [10.0, 13.0, 16.0]
    assert times(report, "Submitted") == [0.0, 0.0, 0.0, 10.0, 13.0, 16.0]


def job(name: str = "work", *, timing: dict[str, str] | None = None, policy: str = "Never", **spec: Any) -> Document:
    made = template(name, timing=timing)
    made["spec"]["restartPolicy"] = policy
    at = {"sim.stromboli.io/at": spec.pop("at", "0s")}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": at},
        "spec": {"template": made, **spec},
    }  # fmt: skip


def test_a_job_runs_its_pods_in_turns(tmp_path: Path) -> None:
    # 5 pods of 10 s each, 2 at a time: 10 + 10 + 10 = 30 s. Its Job is deleted 20 s later, with its pods.
    story = [
        node(),
        job(timing={"run": "10s"}, completions=5, parallelism=2, completionMode="Indexed", ttlSecondsAfterFinished=20),
    ]
    report = simulate(tmp_path, *story)
    assert times(report, "Finished") == [10.0, 10.0, 20.0, 20.0, 30.0]
    assert times(report, "Deleted") == [50.0] * 5
    assert simulate(tmp_path, *story, *restarts(60))["events"] == report["events"]


def test_a_job_that_fails_tries_again_with_pauses(tmp_path: Path) -> None:
    # Runs of 5 s: fails at 5 s, again at 5 + 10 + 5 = 20 s, and at 20 + 20 + 5 = 45 s for the third time.
    report = simulate(tmp_path, node(), job(timing={"run": "5s", "exit-code": "3"}, backoffLimit=2))
    assert times(report, "Finished") == [5.0, 20.0, 45.0]
    assert times(report, "Submitted") == [0.0, 15.0, 40.0]


def test_a_job_of_kubernetes_and_one_of_volcano_may_have_one_name(tmp_path: Path) -> None:
    volcano = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": template(timing={"run": "5s"})}]},
    }  # fmt: skip
    change = patch("2s", "Job", {"spec": {"suspend": True}}, "work", apiVersion="batch/v1")
    report = simulate(tmp_path, node(), volcano, job(timing={"run": "5s"}), change)
    assert {name: one["phase"] for name, one in report["pods"].items()} == {
        "default/work-0": "Failed", "default/work-t-0": "Succeeded",
    }  # fmt: skip


def test_a_preempted_pod_of_a_job_is_replaced_and_may_count_for_nothing(tmp_path: Path) -> None:
    # At 5 s a pod of higher priority takes the node for 10 s. The Job's pod has failed then, and is made again a second
    # later; with backoffLimit 0 that is the end of the Job, unless evictions are ignored.
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 100))
    ]
    urgent = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "urgent", "annotations": {"sim.stromboli.io/at": "5s", "sim.stromboli.io/run": "10s"}},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": 8}}}],
        },
    }  # fmt: skip
    ignore = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    for policy, pods in ((None, ["work-0"]), (ignore, ["work-0", "work-1"])):
        made = job(timing={"run": "20s"}, backoffLimit=0, **({"podFailurePolicy": policy} if policy else {}))
        made["spec"]["template"]["spec"]["priorityClassName"] = "low"
        report = simulate(tmp_path, node(), *classes, urgent, made)
        assert [name for _, _, name in told(report, "Evicted")] == ["work-0"]
        assert [name for _, _, name in told(report, "Submitted") if name.startswith("work")] == pods


def test_a_cron_job_of_kubernetes_in_virtual_time(tmp_path: Path) -> None:
    # Virtual time starts on 2000-01-01 at 0:00 UTC, which is 1:00 in Berlin: two o'clock there comes after one hour.
    made = {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "0 2 * * *", "timeZone": "Europe/Berlin",
            "jobTemplate": {"spec": job(timing={"run": "1m"})["spec"]},
        },
    }  # fmt: skip
    report = simulate(tmp_path, node(), made, until="50h")
    assert times(report, "Bound") == [3600.0, 90000.0, 176400.0]


def test_a_run_with_a_cron_job_ends_when_its_days_repeat(tmp_path: Path) -> None:
    made = {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job(timing={"run": "1m"})["spec"]}},
    }  # fmt: skip
    report = simulate(tmp_path, node(), made)
    assert [e["reason"] for e in report["events"] if e["type"] == "Warning"] == ["Repeats"]
