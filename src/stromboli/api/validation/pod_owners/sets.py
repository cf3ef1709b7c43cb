"""The rules for the sets of `apps/v1`, which keep equal pods."""

from __future__ import annotations

from stromboli.api.errors import ApiError, quote
from stromboli.api.kinds.apps import Amount, DaemonSet, Deployment, ReplicaSet, StatefulSet
from stromboli.api.kinds.metadata import LabelSelector
from stromboli.api.kinds.pods import PodTemplateSpec
from stromboli.api.selectors import matches_labels
from stromboli.api.validation import rules
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.api.validation.pods import check_template
from stromboli.api.validation.storage import check_claim

_STRATEGIES = ("", "RollingUpdate", "Recreate")
_SET_STRATEGIES = ("", "RollingUpdate", "OnDelete")
_POLICIES = ("", "OrderedReady", "Parallel")


def check_set(replicas: ReplicaSet | StatefulSet) -> None:
    spec = replicas.spec
    check_count(spec.replicas, "spec.replicas")
    check_selected(spec.selector, spec.template)
    rules.at_least(spec.min_ready_seconds, 0, "spec.minReadySeconds")


def check_stateful_set(stateful: StatefulSet) -> None:
    check_set(stateful)
    spec, strategy = stateful.spec, stateful.spec.update_strategy
    rules.one_of(spec.pod_management_policy, _POLICIES, "spec.podManagementPolicy")
    rules.one_of(strategy.type, _SET_STRATEGIES, "spec.updateStrategy.type")
    rules.at_least(spec.revision_history_limit or 0, 0, "spec.revisionHistoryLimit")
    if spec.ordinals is not None:
        rules.at_least(spec.ordinals.start, 0, "spec.ordinals.start")
    rolling, at = strategy.rolling_update, "spec.updateStrategy.rollingUpdate"
    if rolling is not None:
        if strategy.type == "OnDelete":
            raise ApiError(at, "must not be given when the type is OnDelete")
        rules.at_least(rolling.partition, 0, f"{at}.partition")
        check_unavailable(rolling.max_unavailable, at)
        if _is_zero(rolling.max_unavailable):
            raise ApiError(f"{at}.maxUnavailable", "must not be 0, or no pod could ever be replaced")
    for index, claim in enumerate(spec.volume_claim_templates):
        at = f"spec.volumeClaimTemplates[{index}]"
        rules.required(claim.metadata.name, f"{at}.metadata.name")
        rules.dns_label(claim.metadata.name, f"{at}.metadata.name")
        try:
            check_claim(claim)
        except ApiError as error:
            raise ApiError(f"{at}.{error.field}", error.message) from None


def check_daemon_set(daemons: DaemonSet) -> None:
    spec, strategy = daemons.spec, daemons.spec.update_strategy
    check_selected(spec.selector, spec.template)
    rules.at_least(spec.min_ready_seconds, 0, "spec.minReadySeconds")
    rules.at_least(spec.revision_history_limit or 0, 0, "spec.revisionHistoryLimit")
    rules.one_of(strategy.type, _SET_STRATEGIES, "spec.updateStrategy.type")
    rolling, at = strategy.rolling_update, "spec.updateStrategy.rollingUpdate"
    if rolling is None:
        return
    if strategy.type == "OnDelete":
        raise ApiError(at, "must not be given when the type is OnDelete")
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    check_surge_and_unavailable(surge, unavailable, at)
    if _is_zero(unavailable) and surge is None:
        raise ApiError(f"{at}.maxUnavailable", "must not be 0 without maxSurge, or no pod could ever be replaced")
    if surge is not None and not _is_zero(surge) and unavailable is not None and not _is_zero(unavailable):
        raise ApiError(f"{at}.maxSurge", "must not be given together with maxUnavailable")


def check_deployment(deployment: Deployment) -> None:
    spec = deployment.spec
    check_count(spec.replicas, "spec.replicas")
    check_selected(spec.selector, spec.template)
    rules.at_least(spec.min_ready_seconds, 0, "spec.minReadySeconds")
    rules.at_least(spec.revision_history_limit or 0, 0, "spec.revisionHistoryLimit")
    deadline = spec.progress_deadline_seconds
    rules.at_least(deadline or 0, 0, "spec.progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.min_ready_seconds:
        raise ApiError(
            "spec.progressDeadlineSeconds",
            f"must be more than minReadySeconds ({spec.min_ready_seconds}), not {deadline}",
        )
    strategy = spec.strategy
    rules.one_of(strategy.type, _STRATEGIES, "spec.strategy.type")
    if strategy.type == "Recreate" and strategy.rolling_update is not None:
        raise ApiError("spec.strategy.rollingUpdate", "must not be given when the type is Recreate")
    if strategy.rolling_update is not None:
        rolling = strategy.rolling_update
        check_surge_and_unavailable(rolling.max_surge, rolling.max_unavailable, "spec.strategy.rollingUpdate")


def check_surge_and_unavailable(surge: Amount | None, unavailable: Amount | None, at: str) -> None:
    _amount(surge, f"{at}.maxSurge")
    check_unavailable(unavailable, at)
    if _is_zero(surge) and _is_zero(unavailable):
        raise ApiError(f"{at}.maxUnavailable", "must not be 0 when maxSurge is 0, or no pod could ever be replaced")


def check_unavailable(unavailable: Amount | None, at: str) -> None:
    _amount(unavailable, f"{at}.maxUnavailable")
    if isinstance(unavailable, str) and int(unavailable[:-1]) > 100:
        raise ApiError(f"{at}.maxUnavailable", f"must be at most 100%, not {quote(unavailable)}")


def check_count(count: int, at: str) -> None:
    rules.at_least(count, 0, at)
    if count > MAX_JOB_REPLICAS:
        raise ApiError(at, f"must be at most {MAX_JOB_REPLICAS}, not {count}")


def check_selected(selector: LabelSelector | None, template: PodTemplateSpec) -> None:
    if selector is None:
        raise ApiError("spec.selector", "is required")
    rules.label_selector(selector, "spec.selector")
    check_template(template, "spec.template")
    if not matches_labels(selector, template.metadata.labels):
        raise ApiError("spec.template.metadata.labels", "must match spec.selector, or the set would not own its pods")


def _amount(value: Amount | None, at: str) -> None:
    if isinstance(value, int):
        rules.at_least(value, 0, at)
    elif value is not None:
        digits = value.removesuffix("%")
        if not value.endswith("%") or not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
            raise ApiError(at, f'must be a number of pods or a percentage such as "25%", not {quote(value)}')


def _is_zero(value: Amount | None) -> bool:
    return value is not None and int(str(value).removesuffix("%")) == 0
