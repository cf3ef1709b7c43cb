"""`svc`: the pods of a job find each other by name.

    Service <job>             headless; the cluster's DNS resolves `<pod>.<job>`
    NetworkPolicy <job>       only pods of the job can reach pods of the job
    ConfigMap <job>-svc       per task: `<task>.host` (a line per address), VC_<TASK>_HOSTS, VC_<TASK>_NUM

The ConfigMap is mounted at /etc/volcano and updated when the job is scaled: a running pod sees the file change. The
environment has the same lists, as they were when the container started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stromboli.api import ApiError, Job, Pod, TaskSpec, names
from stromboli.api.validation import rules
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment, with_volume
from .host_names import addresses, host_names

MOUNTED_AT = "/etc/volcano"


class Svc:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(
            arguments,
            {"publish-not-ready-addresses": False, "disable-network-policy": False, "inject-hosts-env": True},
        )
        self._publishes_not_ready = flags.switch("publish-not-ready-addresses")
        self._has_network_policy = not flags.switch("disable-network-policy")
        self._in_environment = flags.switch("inject-hosts-env")

    def check(self, job: Job) -> None:
        """The API server would reject every single pod; one error for the job is easier to read."""
        for index, task in enumerate(job.spec.tasks):
            for name in host_names(job, task)[-1:]:
                try:
                    rules.dns_label(name, "")
                except ApiError:
                    raise ApiError(
                        f"spec.tasks[{index}].name",
                        f"must make host names of at most 63 letters, digits and dashes for the plugin svc, not {name}",
                    ) from None

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        objects = [
            OwnedObject("v1", "ConfigMap", _map_name(job), lambda: {"data": _lists(job)}),
            OwnedObject("v1", "Service", job.metadata.name, lambda: {"spec": self._service(job)}),
        ]
        if self._has_network_policy:
            objects.append(
                OwnedObject(
                    "networking.k8s.io/v1", "NetworkPolicy", job.metadata.name, lambda: {"spec": _own_pods_only(job)}
                )
            )
        return objects

    def decorate(self, pod: Pod, job: Job) -> Pod:
        spec = replace(
            pod.spec,
            hostname=pod.spec.hostname or pod.metadata.name,
            subdomain=pod.spec.subdomain or job.metadata.name,
        )
        named: Pod = replace(pod, spec=spec)
        if self._in_environment:
            named = with_environment(named, [_from_map(job, name) for name in _variables(job)])
        volume = {"name": _map_name(job), "configMap": {"name": _map_name(job)}}
        return with_volume(named, volume, MOUNTED_AT)

    def _service(self, job: Job) -> Mapping[str, Any]:
        return {
            "clusterIP": "None",
            "selector": _labels(job),
            "publishNotReadyAddresses": self._publishes_not_ready,
        }


def _map_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _labels(job: Job) -> dict[str, str]:
    return {names.JOB_NAME: job.metadata.name, names.JOB_NAMESPACE: job.metadata.namespace}


def _own_pods_only(job: Job) -> Mapping[str, Any]:
    own = {"matchLabels": _labels(job)}
    return {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]}


def _lists(job: Job) -> dict[str, str]:
    """The addresses of each task's pods, for the files and for the variables."""
    lists: dict[str, str] = {}
    for task in job.spec.tasks:
        known = addresses(job, task)
        lists[f"{_variable_name(task)}.host"] = "\n".join(known)
        lists[_hosts_variable(task)] = ",".join(known)
        lists[_number_variable(task)] = str(len(known))
    return lists


def _variables(job: Job) -> list[str]:
    return [name for task in job.spec.tasks for name in (_hosts_variable(task), _number_variable(task))]


def _from_map(job: Job, name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": _map_name(job), "key": name}}}


def _variable_name(task: TaskSpec) -> str:
    return task.name.replace("-", "_")


def _hosts_variable(task: TaskSpec) -> str:
    return f"VC_{_variable_name(task).upper()}_HOSTS"


def _number_variable(task: TaskSpec) -> str:
    return f"VC_{_variable_name(task).upper()}_NUM"
