"""Jobs and CronJobs of `batch/v1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stromboli.api.schedules import parse_schedule, time_zone
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.validation.cron_jobs import MAX_NAME
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid, required

from . import durations
from .strategy import AGE, NAME, Column, Context, Object, Strategy, dig
from .workloads import containers, default_template, immutable, limit_errors, selector, template_errors


def _completions(job: Object, now: float) -> str:
    done, wanted = dig(job, "status", "succeeded", default=0), dig(job, "spec", "completions")
    if wanted is None:
        parallelism = dig(job, "spec", "parallelism", default=1)
        return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    return f"{done}/{wanted}"


def _duration(job: Object, now: float) -> str:
    start, end = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if not start:
        return ""
    return durations.human((parse_timestamp(end) if end else now) - parse_timestamp(start))


def _job_status(job: Object, now: float) -> str:
    holding = {one.get("type") for one in dig(job, "status", "conditions", default=[]) if one.get("status") == "True"}
    for condition in ("Complete", "Failed", "Suspended"):
        if condition in holding:
            return condition
    return "Running" if dig(job, "metadata", "deletionTimestamp") is None else "Terminating"


class JobStrategy(Strategy):
    default_propagation = "Orphan"  # Kubernetes keeps it so for old clients; kubectl always says what it wants
    selectable: Mapping[str, tuple[str, ...]] = {"status.successful": ("status", "succeeded")}
    columns = (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        Column("Containers", containers("name"), priority=1),
        Column("Images", containers("image"), priority=1),
        Column("Selector", selector, priority=1),
    )

    def default(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        # Neither given: one pod. Only parallelism given: a work queue, which has no number of completions.
        if spec.get("completions") is None and not obj["metadata"].get("uid") and spec.get("parallelism") in (None, 1):
            spec["completions"] = 1
        default_template(obj)

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        if spec.get("manualSelector"):
            return
        uid = obj["metadata"]["uid"]
        name = obj["metadata"].get("name", "")
        labels = {"controller-uid": uid, "job-name": name}
        labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        template["labels"] = {**(template.get("labels") or {}), **labels}
        spec["selector"] = {"matchLabels": {"controller-uid": uid}}

    def validate(self, obj: Object) -> list[FieldError]:
        is_indexed = dig(obj, "spec", "completionMode") == "Indexed"
        # Who is to complete is written down index by index. Without indexes it is only a number.
        errors = template_errors(obj) + limit_errors(obj, "parallelism", *(("completions",) if is_indexed else ()))
        policy = dig(obj, "spec", "template", "spec", "restartPolicy", default="")
        if policy in ("", "Always"):
            errors.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
        if is_indexed and dig(obj, "spec", "completions") is None:
            errors.append(required("spec.completions", "when completion mode is Indexed"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        fields: tuple[str, ...] = ("selector", "template", "completionMode")
        if dig(old, "spec", "completionMode") != "Indexed":
            fields = ("completions", *fields)
        return immutable(obj, old, *fields)


def _last_schedule(obj: Object, now: float) -> str:
    return (
        durations.since(dig(obj, "status", "lastScheduleTime"), now) if dig(obj, "status", "lastScheduleTime") else ""
    )


def _template_of(obj: Object) -> Object:
    """The Job that a CronJob creates, as an object."""
    return {"metadata": {}, "spec": dig(obj, "spec", "jobTemplate", "spec", default={})}


class CronJobStrategy(Strategy):
    default_propagation = "Background"
    columns = (
        NAME,
        Column("Schedule", lambda obj, now: dig(obj, "spec", "schedule", default="")),
        Column("Timezone", lambda obj, now: dig(obj, "spec", "timeZone", default="<none>")),
        Column("Suspend", lambda obj, now: bool(dig(obj, "spec", "suspend")), type="boolean"),
        Column("Active", lambda obj, now: len(dig(obj, "status", "active", default=[])), type="integer"),
        Column("Last Schedule", _last_schedule),
        AGE,
        Column("Containers", lambda obj, now: containers("name")(_template_of(obj), now), priority=1),
        Column("Images", lambda obj, now: containers("image")(_template_of(obj), now), priority=1),
    )

    def default(self, obj: Object) -> None:
        default_template(_template_of(obj))

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = {}

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = [
            replace(error, field=f"spec.jobTemplate.{error.field}")
            for error in JobStrategy().validate(_template_of(obj))
        ]
        schedule, zone = str(spec.get("schedule") or ""), spec.get("timeZone")
        if "TZ=" in schedule:
            errors.append(invalid("spec.schedule", schedule, "must not name a time zone: use spec.timeZone"))
        try:
            parse_schedule(schedule)
        except ValueError as error:
            errors.append(invalid("spec.schedule", schedule, str(error)))
        if zone is not None:
            try:
                time_zone(zone)
            except ValueError as error:
                errors.append(invalid("spec.timeZone", zone, str(error)))
        if len(obj["metadata"].get("name", "")) > MAX_NAME:
            problem = f"must be no more than {MAX_NAME} characters"
            errors.append(invalid("metadata.name", obj["metadata"]["name"], problem))
        return errors
