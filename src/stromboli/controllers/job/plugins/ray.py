"""`ray`: a Ray cluster of a head and its workers. Their containers get the command that starts Ray.

    Service <job>-head-svc    the ports of the head: of its store (gcs), of its dashboard, and for clients

The images need a shell and Ray, and no command of their own: it is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stromboli.api import ApiError, Container, ContainerPort, Job, Pod, names
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .host_names import addresses
from .task_lookup import check_tasks, task_name_of, task_named


class Ray:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(
            arguments,
            {
                "head": "head", "headContainer": "head", "worker": "worker", "workerContainer": "worker",
                "port": 6379, "dashboardPort": 8265, "clientPort": 10001,
            },
        )  # fmt: skip
        self._head = flags.text("head")
        self._worker = flags.text("worker")
        self._containers = {self._head: flags.text("headContainer"), self._worker: flags.text("workerContainer")}
        self._ports = {
            "gcs": flags.number("port"),
            "dashboard": flags.number("dashboardPort"),
            "client-server": flags.number("clientPort"),
        }

    def check(self, job: Job) -> None:
        check_tasks(job, "ray", head=self._head)
        for flag, name in (("headContainer", self._head), ("workerContainer", self._worker)):
            task, container = task_named(job, name), self._containers[name]
            if task is not None and all(one.name != container for one in task.template.spec.containers):
                raise ApiError(
                    "spec.plugins.ray", f"needs a container named {container} in task {name}; set another with --{flag}"
                )

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return [OwnedObject("v1", "Service", f"{job.metadata.name}-head-svc", lambda: {"spec": self._service(job)})]

    def decorate(self, pod: Pod, job: Job) -> Pod:
        name = task_name_of(pod)
        if name not in self._containers:
            return pod
        head = task_named(job, self._head)
        assert head is not None, "validation rejects a job without a head"
        if name == self._head:
            arguments = (
                f"--head --block --dashboard-host=0.0.0.0 --port={self._ports['gcs']}"
                f" --dashboard-port={self._ports['dashboard']} --ray-client-server-port={self._ports['client-server']}"
            )
        else:
            arguments = f"--block --address={next(iter(addresses(job, head)), '')}:{self._ports['gcs']}"
        containers = [
            self._started(one, arguments, name) if one.name == self._containers[name] else one
            for one in pod.spec.containers
        ]
        started: Pod = replace(pod, spec=replace(pod.spec, containers=containers))
        return started

    def _started(self, container: Container, arguments: str, task: str) -> Container:
        declared = {port.container_port for port in container.ports}
        opened = [
            ContainerPort(name=name, container_port=port) for name, port in self._ports.items() if port not in declared
        ]
        changed: Container = replace(
            container,
            command=["sh", "-c", f"ray start {arguments}"],
            ports=[*container.ports, *(opened if task == self._head else ())],
        )
        return changed

    def _service(self, job: Job) -> Mapping[str, Any]:
        return {
            "selector": {
                names.JOB_NAME: job.metadata.name,
                names.JOB_NAMESPACE: job.metadata.namespace,
                names.TASK_SPEC: self._head,
            },
            # By number: a container that declares a port itself may call it otherwise.
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in self._ports.items()
            ],
        }
