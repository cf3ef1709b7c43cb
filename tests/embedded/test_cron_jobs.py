"""A CronJob in `stromboli up`: its Jobs run, with every field of the template, and old ones go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded.api import Api
from embedded.test_hyper_nodes import seen
from embedded.test_up import JOBS, PODS, in_cluster, volcano_job
from stromboli.console.up.cluster import Plan
from stromboli.console.up.machines import Machines

CRON_JOBS = JOBS.replace("jobs", "cronjobs")


def test_a_job_every_second(tmp_path: Path) -> None:
    plan = Plan(
        folder=tmp_path / "data", persistent=False, period=0.2,
        machines=[Machines(["n0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})],
    )  # fmt: skip

    def script(api: Api) -> None:
        template = volcano_job("x", 1, ["true"])["spec"]
        pod = template["tasks"][0]["template"]
        pod["spec"]["terminationGracePeriodSeconds"] = 7
        pod["spec"]["hostname"] = "somewhere"
        api.create(CRON_JOBS, {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "tick"},
            "spec": {
                "schedule": "@every 1s", "concurrencyPolicy": "Forbid",
                "jobTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": template},
            },
        })  # fmt: skip
        seen(api, CRON_JOBS, lambda one: bool(one.get("status", {}).get("lastScheduleTime")))
        made: dict[str, Any] = api.get(JOBS)["items"][0]
        assert made["metadata"]["labels"] == {"team": "a"}
        assert made["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
        assert made["spec"]["tasks"][0]["template"]["spec"]["hostname"] == "somewhere"
        seen(api, PODS, lambda one: one["spec"].get("hostname") == "somewhere" and "nodeName" in one["spec"])

    in_cluster(plan, script)
