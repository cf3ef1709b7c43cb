"""A JobFlow in `stromboli up`: Jobs of templates and patches, with every field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded.api import Api
from embedded.test_hyper_nodes import seen
from embedded.test_up import JOBS, PODS, in_cluster, volcano_job
from stromboli.console.up.cluster import Plan
from stromboli.console.up.machines import Machines

API = "flow.volcano.sh/v1alpha1"
FLOWS = f"/apis/{API}/namespaces/default/jobflows"
TEMPLATES = f"/apis/{API}/namespaces/default/jobtemplates"


def template(name: str, command: list[str], **pod: Any) -> dict[str, Any]:
    spec = volcano_job(name, 1, command)["spec"]
    spec["tasks"][0]["template"]["spec"] |= {"terminationGracePeriodSeconds": 0, **pod}
    return {"apiVersion": API, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


def test_a_client_starts_when_its_server_runs(tmp_path: Path) -> None:
    plan = Plan(
        folder=tmp_path / "data", persistent=False, period=0.2,
        machines=[Machines(["n0"], {"cpu": "4", "memory": "8Gi", "pods": "110"})],
    )  # fmt: skip

    def script(api: Api) -> None:
        api.create(TEMPLATES, template("server", ["sleep", "60"]))
        api.create(TEMPLATES, template("client", ["true"], hostname="somewhere"))
        patch = {"tasks": [{"name": "main", "template": {"spec": {"subdomain": "lab"}}}]}
        probe = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
        api.create(FLOWS, {
            "apiVersion": API, "kind": "JobFlow", "metadata": {"name": "f"},
            "spec": {"flows": [
                {"name": "server"},
                {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}, "patch": {"jobSpec": patch}},
            ]},
        })  # fmt: skip
        seen(api, PODS, lambda one: one["metadata"]["name"] == "f-client-main-0" and "nodeName" in one["spec"])
        seen(api, FLOWS, lambda one: len(one.get("status", {}).get("jobStatusList", [])) == 2)
        made = api.get(f"{JOBS}/f-client")
        assert made["metadata"]["labels"]["volcano.sh/createdByJobTemplate"] == "default.client"
        pod = made["spec"]["tasks"][0]["template"]["spec"]
        assert (pod["hostname"], pod["subdomain"]) == ("somewhere", "lab")
        assert api.get(f"{FLOWS}/f")["status"]["state"] == {"phase": "Running"}
        seen(api, TEMPLATES, lambda one: one.get("status", {}).get("jobDependsOnList") == ["f-client"])
        api.delete(f"{JOBS}/f-server")

    in_cluster(plan, script)
