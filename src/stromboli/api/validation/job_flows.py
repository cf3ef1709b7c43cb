"""What the fields of a JobFlow must be. Its templates are judged as the Jobs that are made of them."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Final

from stromboli.api.defaults import default
from stromboli.api.errors import ApiError, quote
from stromboli.api.kinds.batch import Job
from stromboli.api.kinds.flow import FlowProbe, JobFlow, JobTemplate
from stromboli.api.kinds.metadata import ObjectMeta

from . import limits, rules

RETAIN_POLICIES: Final = ("", "retain", "delete")
TASK_PHASES: Final = ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")
MAX_FLOWS: Final = 500
MAX_TARGETS: Final = 500
MAX_PROBES: Final = 50
MAX_TEXT: Final = 2048  # characters of an HTTP path, or of the value of a header
PATH_PATTERN: Final = r"^(/[!-~]*)?$"
HEADER_NAME_PATTERN: Final = r"^[-A-Za-z0-9]*$"
HEADER_VALUE_PATTERN: Final = r"^[ -~]*$"


def check_job_flow(obj: JobFlow) -> None:
    spec = obj.spec
    rules.one_of(spec.job_retain_policy, RETAIN_POLICIES, "spec.jobRetainPolicy")
    limits.at_most(MAX_FLOWS, spec.flows, "spec.flows", "flows")
    for index, flow in enumerate(spec.flows):
        at = f"spec.flows[{index}]"
        rules.required(flow.name, f"{at}.name")
        rules.dns_subdomain(flow.name, f"{at}.name")
        if flow.depends_on is not None:
            limits.at_most(MAX_TARGETS, flow.depends_on.targets, f"{at}.dependsOn.targets", "targets")
            if flow.depends_on.probe is not None:
                _probe(flow.depends_on.probe, f"{at}.dependsOn.probe")


def check_no_cycle(obj: JobFlow) -> None:
    """Of flows with the same name the first counts. Each step leaves out those that depend on nothing any more."""
    waiting: dict[str, set[str]] = {}
    for flow in obj.spec.flows:
        waiting.setdefault(flow.name, set(flow.depends_on.targets if flow.depends_on is not None else ()))
    left = dict(waiting)
    while left:
        free = [name for name, targets in left.items() if not any(target in left for target in targets)]
        if not free:
            raise ApiError("spec.flows", f"must not lead back to a flow over its targets, as {_circle(left)} do")
        for name in free:
            del left[name]


def _circle(left: dict[str, set[str]]) -> str:
    """One of the circles among these, each of which depends on another."""
    path = [min(left)]
    while True:
        following = min(target for target in left[path[-1]] if target in left)
        if following in path:
            circle = path[path.index(following) :]
            return f"{', '.join(circle[:-1])} and {circle[-1]}" if len(circle) > 1 else circle[0]
        path.append(following)


def as_job(template: JobTemplate) -> Job:
    """The Job that a template is for, with the defaults that it will have. Its name and annotations will be others."""
    job = Job(metadata=ObjectMeta(name="job", namespace=template.metadata.namespace), spec=deepcopy(template.spec))
    default(job)
    return job


def _probe(probe: FlowProbe, at: str) -> None:
    for index, http in enumerate(probe.http_get_list):
        here = f"{at}.httpGetList[{index}]"
        rules.between(http.port, 0, 65535, f"{here}.port")
        _matches(http.path, PATH_PATTERN, f"{here}.path", "must begin with / and have no spaces")
        if http.http_header is not None:
            name, value = http.http_header.name, http.http_header.value
            _matches(name, HEADER_NAME_PATTERN, f"{here}.httpHeader.name", "must be the name of a header")
            _matches(value, HEADER_VALUE_PATTERN, f"{here}.httpHeader.value", "must be on one line")
    for index, tcp in enumerate(probe.tcp_socket_list):
        rules.between(tcp.port, 0, 65535, f"{at}.tcpSocketList[{index}].port")
    for index, status in enumerate(probe.task_status_list):
        rules.one_of(status.phase, TASK_PHASES, f"{at}.taskStatusList[{index}].phase")
    for field, probes in (
        ("httpGetList", probe.http_get_list),
        ("tcpSocketList", probe.tcp_socket_list),
        ("taskStatusList", probe.task_status_list),
    ):
        limits.at_most(MAX_PROBES, probes, f"{at}.{field}", "probes")


def _matches(value: str, pattern: str, at: str, must: str) -> None:
    if len(value) > MAX_TEXT or re.fullmatch(pattern, value) is None:
        raise ApiError(at, f"{must}, and be at most {MAX_TEXT} characters, not {quote(value)}")
