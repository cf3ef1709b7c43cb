"""The rules for Jobs of `batch/v1`. What we do not have is refused, so that nobody waits for it."""

from __future__ import annotations

from stromboli.api.errors import ApiError
from stromboli.api.kinds.jobs import BatchJob, BatchJobSpec, PodFailurePolicy
from stromboli.api.validation import rules
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.api.validation.pods import check_template

_MODES = ("", "NonIndexed", "Indexed")
_ACTIONS = ("Count", "Ignore", "FailJob")
_REPLACEMENTS = ("", "TerminatingOrFailed", "Failed")


def check_batch_job(job: BatchJob) -> None:
    check_batch_job_spec(job.spec, "spec")


def check_batch_job_spec(spec: BatchJobSpec, at: str) -> None:
    for count, field in (
        (spec.parallelism, "parallelism"), (spec.completions, "completions"),
        (spec.backoff_limit, "backoffLimit"), (spec.ttl_seconds_after_finished, "ttlSecondsAfterFinished"),
    ):  # fmt: skip
        rules.at_least(count or 0, 0, f"{at}.{field}")
    if spec.active_deadline_seconds is not None:
        rules.at_least(spec.active_deadline_seconds, 1, f"{at}.activeDeadlineSeconds")
    rules.one_of(spec.completion_mode, _MODES, f"{at}.completionMode")
    rules.one_of(spec.pod_replacement_policy, _REPLACEMENTS, f"{at}.podReplacementPolicy")
    is_indexed = spec.completion_mode == "Indexed"
    if is_indexed and spec.completions is None:
        raise ApiError(f"{at}.completions", "is required when completionMode is Indexed")
    if (spec.parallelism or 0) > MAX_JOB_REPLICAS:
        raise ApiError(f"{at}.parallelism", f"must be at most {MAX_JOB_REPLICAS}, not {spec.parallelism}")
    if is_indexed and (spec.completions or 0) > MAX_JOB_REPLICAS:
        raise ApiError(f"{at}.completions", f"must be at most {MAX_JOB_REPLICAS}, not {spec.completions}")
    _check_absent(spec, at)
    check_template(spec.template, f"{at}.template")
    policy = spec.template.spec.restart_policy
    rules.one_of(policy, ("", "Never", "OnFailure"), f"{at}.template.spec.restartPolicy")
    if spec.pod_failure_policy is not None:
        if policy == "OnFailure":
            raise ApiError(f"{at}.template.spec.restartPolicy", "must be Never with podFailurePolicy")
        _check_failure_policy(spec.pod_failure_policy, f"{at}.podFailurePolicy")


def _check_absent(spec: BatchJobSpec, at: str) -> None:
    for is_given, field in (
        (spec.backoff_limit_per_index is not None, "backoffLimitPerIndex"),
        (spec.max_failed_indexes is not None, "maxFailedIndexes"),
        (spec.success_policy is not None, "successPolicy"),
        (bool(spec.managed_by), "managedBy"),
    ):
        if is_given:
            raise ApiError(f"{at}.{field}", "is not supported: nobody here acts on it")


def _check_failure_policy(policy: PodFailurePolicy, at: str) -> None:
    for index, rule in enumerate(policy.rules):
        here = f"{at}.rules[{index}]"
        rules.one_of(rule.action, _ACTIONS, f"{here}.action")
        if (rule.on_exit_codes is None) == (not rule.on_pod_conditions):
            raise ApiError(here, "must have either onExitCodes or onPodConditions")
        codes = rule.on_exit_codes
        if codes is not None:
            rules.one_of(codes.operator, ("In", "NotIn"), f"{here}.onExitCodes.operator")
            rules.required(codes.values, f"{here}.onExitCodes.values")
            if codes.operator == "In" and 0 in codes.values:
                raise ApiError(f"{here}.onExitCodes.values", "must not have 0 for the operator In: that is a success")
