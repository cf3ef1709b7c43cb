"""JobFlow and JobTemplate of `flow.volcano.sh/v1alpha1`: Jobs that are created one after the other.

Which fields there are follows Volcano's definitions. A patch of a template is kept as it was written: it may name any
part of a Job, and fields that our types do not have.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from .batch import JobSpec, TaskState
from .metadata import ApiObject, ApiStruct


class HttpHeader(ApiStruct):
    name: str = ""
    value: str = ""


class HttpGetProbe(ApiStruct):
    """Pods of a task answer an HTTP request; of all tasks, if none is named."""

    task_name: str = ""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocketProbe(ApiStruct):
    """Pods of a task accept connections."""

    port: int
    task_name: str = ""


class TaskStatusProbe(ApiStruct):
    """Pods of a task have reached a phase."""

    task_name: str = ""
    phase: str = ""


class FlowProbe(ApiStruct):
    http_get_list: list[HttpGetProbe] = field(default_factory=list)
    tcp_socket_list: list[TcpSocketProbe] = field(default_factory=list)
    task_status_list: list[TaskStatusProbe] = field(default_factory=list)


class FlowDependsOn(ApiStruct):
    targets: list[str] = field(default_factory=list)
    probe: FlowProbe | None = None


class FlowPatch(ApiStruct):
    """What is changed in the template: any part of the spec of a Job, as it was written."""

    job_spec: dict[str, Any] = field(default_factory=dict)


class Flow(ApiStruct):
    """One Job: the name of its template, and what it waits for."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(ApiStruct):
    flows: list[Flow] = field(default_factory=list)
    job_retain_policy: str = ""


class FlowJobHistory(ApiStruct):
    """How long a Job was in one phase."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobStatus(ApiStruct):
    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: list[FlowJobHistory] = field(default_factory=list)


class FlowJobCondition(ApiStruct):
    phase: str = ""
    create_time: str | None = None
    running_duration: str = ""
    task_status_count: dict[str, TaskState] = field(default_factory=dict)


class JobFlowState(ApiStruct):
    phase: str = ""


class JobFlowStatus(ApiStruct):
    pending_jobs: list[str] = field(default_factory=list)
    running_jobs: list[str] = field(default_factory=list)
    failed_jobs: list[str] = field(default_factory=list)
    completed_jobs: list[str] = field(default_factory=list)
    terminated_jobs: list[str] = field(default_factory=list)
    un_know_jobs: list[str] = field(default_factory=list)
    job_status_list: list[FlowJobStatus] = field(default_factory=list)
    conditions: dict[str, FlowJobCondition] = field(default_factory=dict)
    state: JobFlowState = field(default_factory=JobFlowState)


class JobFlow(ApiObject):
    """Creates Jobs from templates, each when those that it depends on are done."""

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobFlow"
    spec: JobFlowSpec = field(default_factory=JobFlowSpec)
    status: JobFlowStatus = field(default_factory=JobFlowStatus)


class JobTemplateStatus(ApiStruct):
    job_depends_on_list: list[str] = field(default_factory=list)


class JobTemplate(ApiObject):
    """A Job that is created when a JobFlow names it."""

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobTemplate"
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobTemplateStatus = field(default_factory=JobTemplateStatus)
