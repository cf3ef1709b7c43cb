"""The Job controller: it creates a job's PodGroup and pods, and carries out its policies and commands.

`controller` runs a pass over a job. `state_machine` says which phase follows, `lifecycle_policy` and
`action_requests` which action to take, `pods` and `pod_group` what to create, and `plugins` and `volumes` what to add
to the pods.
"""

from __future__ import annotations

from .job_controller import JobController
from .job_pods import parse_pod_name
from .pod_budget import PodLimits
from .validation import check_job

__all__ = ["JobController", "PodLimits", "check_job", "parse_pod_name"]
