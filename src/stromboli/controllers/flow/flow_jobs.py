"""The Jobs of a JobFlow: which there are to be, and what each is made of."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stromboli.api import ApiError, Flow, Job, JobFlow, JobSpec, JobTemplate, ObjectMeta, default, names, validate
from stromboli.controllers.pod_owners import owner_reference_to

from .patches import patched

_LONGEST_LABEL: Final = 63


def flows_of(job_flow: JobFlow) -> list[Flow]:
    """Of flows with the same name, the first."""
    found: dict[str, Flow] = {}
    for flow in job_flow.spec.flows:
        found.setdefault(flow.name, flow)
    return list(found.values())


def job_name(job_flow: JobFlow, flow: str) -> str:
    return f"{job_flow.metadata.name}-{flow}"


def new_job(job_flow: JobFlow, flow: Flow, template: JobTemplate) -> Job:
    """Raises an ApiError if the patch makes no valid Job of the template."""
    created_by = {
        names.CREATED_BY_FLOW: f"{job_flow.metadata.namespace}.{job_flow.metadata.name}",
        names.CREATED_BY_TEMPLATE: f"{template.metadata.namespace}.{template.metadata.name}",
    }
    submitter = job_flow.metadata.annotations.get(names.SUBMITTER)
    metadata = ObjectMeta(
        name=job_name(job_flow, flow.name),
        namespace=job_flow.metadata.namespace,
        labels={name: value for name, value in created_by.items() if len(value) <= _LONGEST_LABEL},
        annotations=created_by | ({names.SUBMITTER: submitter} if submitter else {}),
        owner_references=[owner_reference_to(job_flow)],
    )
    job = Job(metadata=metadata, spec=_spec(flow, template))
    default(job)
    validate(job)
    return job


def _spec(flow: Flow, template: JobTemplate) -> JobSpec:
    spec: dict[str, Any] = msgspec.to_builtins(template.spec)
    if flow.patch is not None:
        spec = patched(spec, flow.patch.job_spec)
    try:
        return msgspec.convert(spec, JobSpec)
    except msgspec.ValidationError as error:
        raise ApiError(f"spec.flows[{flow.name}].patch.jobSpec", str(error)) from None
