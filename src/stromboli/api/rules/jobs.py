"""Jobs: their tasks, volumes and plugins, and what may change once they exist."""

from __future__ import annotations

import re
from typing import Final

from stromboli.api.defaults import MAX_RETRY
from stromboli.api.kinds.batch import Job, JobSpec, JobVolume, PartitionPolicy, TaskSpec
from stromboli.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER, ROOT_QUEUE

from .rule import Door, Rule, given, text, unless
from .unchanged import unchanged, unchanged_in_each

JOB_PLUGINS: Final = ("env", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
REQUIRED_PLUGINS: Final = {"mpi": ("ssh", "svc"), "pytorch": ("svc",), "ray": ("svc",), "tensorflow": ("svc",)}
"""The plugins that a plugin cannot work without; they are added with their default arguments."""
MAX_LABEL: Final = 63  # characters in the value of a label

_NAMES_MUST: Final = "must not have two tasks of one name"
_PLUGINS_MUST: Final = f"must be one of {', '.join(JOB_PLUGINS)}"
_PATHS_MUST: Final = "must not have two volumes with one mountPath"
_LABEL_MUST: Final = f"must be at most {MAX_LABEL} characters, because it is a label of the pods"


def _names(spec: JobSpec) -> str:
    names = [task.name for task in spec.tasks if task.name]
    repeated = [name for name in names if names.count(name) > 1]
    return f"must not have two tasks named {min(repeated)}" if repeated else ""


def _dependencies(spec: JobSpec) -> str:
    known = {task.name for task in spec.tasks}
    named = {name for task in spec.tasks if task.depends_on is not None for name in task.depends_on.name}
    may_be_unnamed = any(task.name == f"default{index}" for index, task in enumerate(spec.tasks))
    strange = [name for name in named - known if not (may_be_unnamed and re.fullmatch(_UNNAMED, name))]
    return f'dependsOn must name tasks of this job, not "{min(strange)}"' if strange else ""


def _gang(spec: JobSpec) -> str:
    replicas = sum(task.replicas for task in spec.tasks)
    holds = spec.min_available is None or spec.min_available <= replicas
    return unless(holds, f"must be at most the {replicas} replicas of all tasks, not {spec.min_available}")


def _not_the_root(spec: JobSpec) -> str:
    return unless(spec.queue != ROOT_QUEUE, "must not be root: jobs go to the queues below it")


def _plugins(spec: JobSpec) -> str:
    unknown = [name for name in spec.plugins if name not in JOB_PLUGINS]
    return f'{_PLUGINS_MUST}, not "{min(unknown)}"' if unknown else ""


def _paths(spec: JobSpec) -> str:
    paths = [volume.mount_path for volume in spec.volumes]
    repeated = [path for path in paths if paths.count(path) > 1]
    return f"must not have two volumes with the mountPath {min(repeated)}" if repeated else ""


def _one_claim(volume: JobVolume) -> str:
    holds = bool(volume.volume_claim_name) != (volume.volume_claim is not None)
    return unless(holds, "must have either a volumeClaimName or a volumeClaim")


def _name_as_label(job: Job) -> str:
    length = len(job.metadata.name)
    return unless(length <= MAX_LABEL, f"{_LABEL_MUST}, not {length}")


def _queue_as_label(spec: JobSpec) -> str:
    return unless(len(spec.queue) <= MAX_LABEL, f"{_LABEL_MUST}, not {len(spec.queue)}")


def _minimum(task: TaskSpec) -> str:
    holds = task.min_available is None or task.min_available <= task.replicas
    return unless(holds, f"must be at most replicas ({task.replicas}), not {task.min_available}")


def _partitions(task: TaskSpec) -> str:
    parts = task.partition_policy
    product = task.replicas if parts is None else parts.total_partitions * parts.partition_size
    return unless(
        product == task.replicas,
        f"must have totalPartitions × partitionSize = replicas ({task.replicas}), not {product}",
    )


def _least_partitions(parts: PartitionPolicy) -> str:
    least, total = parts.min_partitions or 0, parts.total_partitions
    return unless(least <= total, f"{_LEAST_MUST} ({total}), not {least}")


def _pods_of_least_partitions(task: TaskSpec) -> str:
    parts = task.partition_policy
    if parts is None or not parts.min_partitions or task.min_available is None:
        return ""
    pods = parts.min_partitions * parts.partition_size
    return unless(task.min_available == pods, f"{_PODS_MUST} ({pods}), not {task.min_available}")


def _itself(task: TaskSpec) -> str:
    holds = task.depends_on is None or not task.name or task.name not in task.depends_on.name
    return unless(holds, "must not lead back to the task itself")


def _same_tasks(new: JobSpec, old: JobSpec) -> str:
    return unless(len(new.tasks) == len(old.tasks), _TASKS_MUST)


_LEAST_MUST: Final = "must be at most totalPartitions"
_PODS_MUST: Final = "must be minPartitions × partitionSize"
_UNNAMED: Final = "default[0-9]+"  # what a task without a name is called once its defaults are set
_TASKS_MUST: Final = "must not gain or lose tasks: only their replicas and minAvailable can change"
_SUM: Final = "self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()"
_KNOWN: Final = (
    "self.tasks.exists(o, has(o.name) && o.name == n)"
    f" || n.matches('^{_UNNAMED}$') && self.tasks.exists(o, !{given('o.name')})"
)
_STRANGE: Final = (
    "self.tasks.filter(t, has(t.dependsOn) && has(t.dependsOn.name))"
    f".map(t, t.dependsOn.name.filter(n, !({_KNOWN})))"
    ".filter(names, names.size() > 0)"
)
_REPEATED: Final = (
    f"self.tasks.filter(t, {given('t.name')} && !self.tasks.exists_one(o, has(o.name) && o.name == t.name))"
)
_TOTAL: Final = "(has({0}.totalPartitions) ? {0}.totalPartitions : 0)"
_SIZE: Final = "(has(self.partitionPolicy.partitionSize) ? self.partitionPolicy.partitionSize : 0)"
_PRODUCT: Final = f"{_TOTAL.format('self.partitionPolicy')} * {_SIZE}"
_LEAST_PODS: Final = f"self.partitionPolicy.minPartitions * {_SIZE}"

RULES: Final = (
    Rule(
        on=JobSpec, field="tasks", must=_NAMES_MUST, broken=_names,
        cel=f"self.tasks.all(t, !{given('t.name')} || self.tasks.exists_one(o, has(o.name) && o.name == t.name))",
        says=f"'must not have two tasks named ' + {_REPEATED}.map(t, t.name).min()",
    ),
    Rule(
        on=JobSpec, field="tasks", must="dependsOn must name tasks of this job", broken=_dependencies,
        cel="self.tasks.all(t, !has(t.dependsOn) || !has(t.dependsOn.name)"
        f" || t.dependsOn.name.all(n, {_KNOWN}))",
        says=f"""'dependsOn must name tasks of this job, not "' + {_STRANGE}.map(names, names.min()).min() + '"'""",
        door=Door.POLICY,
    ),
    Rule(
        on=JobSpec, field="minAvailable", must="must be at most the replicas of all tasks", broken=_gang,
        cel=f"!has(self.minAvailable) || self.minAvailable <= {_SUM}",
        says=f"'must be at most the ' + string({_SUM}) + ' replicas of all tasks, not ' + string(self.minAvailable)",
        door=Door.POLICY,
    ),
    Rule(
        on=JobSpec, field="queue", must="must not be root: jobs go to the queues below it", broken=_not_the_root,
        cel=f"!has(self.queue) || self.queue != '{ROOT_QUEUE}'",
    ),
    Rule(
        on=JobSpec, field="queue", must=_LABEL_MUST, broken=_queue_as_label,
        cel=f"!has(self.queue) || self.queue.size() <= {MAX_LABEL}",
        says=f"'{_LABEL_MUST}, not ' + {text('self.queue.size()')}",
    ),
    Rule(
        on=JobSpec, field="plugins", must=_PLUGINS_MUST, broken=_plugins,
        cel=f"!has(self.plugins) || self.plugins.all(p, p in {list(JOB_PLUGINS)})",
        says=f"""'{_PLUGINS_MUST}, not "' + self.plugins.filter(p, !(p in {list(JOB_PLUGINS)})).min() + '"'""",
        door=Door.POLICY,
    ),
    Rule(
        on=JobSpec, field="volumes", must=_PATHS_MUST, broken=_paths,
        cel="!has(self.volumes) || self.volumes.all(v, self.volumes.exists_one(o, o.mountPath == v.mountPath))",
        says="'must not have two volumes with the mountPath ' + self.volumes.filter(v,"
        " !self.volumes.exists_one(o, o.mountPath == v.mountPath)).map(v, v.mountPath).min()",
    ),
    Rule(
        on=JobVolume, field="", must="must have either a volumeClaimName or a volumeClaim", broken=_one_claim,
        cel=f"{given('self.volumeClaimName')} != has(self.volumeClaim)",
    ),
    Rule(
        on=Job, field="metadata.name", must=_LABEL_MUST, broken=_name_as_label,
        cel=f"self.metadata.name.size() <= {MAX_LABEL}",
        says=f"'{_LABEL_MUST}, not ' + {text('self.metadata.name.size()')}",
    ),
    Rule(
        on=TaskSpec, field="minAvailable", must="must be at most replicas", broken=_minimum,
        cel="!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)",
        says="'must be at most replicas (' + string(has(self.replicas) ? self.replicas : 0) + '), not '"
        " + string(self.minAvailable)",
    ),
    Rule(
        on=TaskSpec, field="partitionPolicy", must="must have totalPartitions × partitionSize = replicas",
        broken=_partitions,
        cel=f"!has(self.partitionPolicy) || {_PRODUCT} == (has(self.replicas) ? self.replicas : 0)",
        says="'must have totalPartitions × partitionSize = replicas ('"
        f" + string(has(self.replicas) ? self.replicas : 0) + '), not ' + string({_PRODUCT})",
    ),
    Rule(
        on=PartitionPolicy, field="minPartitions", must=_LEAST_MUST, broken=_least_partitions,
        cel=f"!has(self.minPartitions) || self.minPartitions <= {_TOTAL.format('self')}",
        says=f"'{_LEAST_MUST} (' + string({_TOTAL.format('self')}) + '), not ' + string(self.minPartitions)",
    ),
    Rule(
        on=TaskSpec, field="minAvailable", must=_PODS_MUST, broken=_pods_of_least_partitions,
        cel="!has(self.minAvailable) || !has(self.partitionPolicy) || !has(self.partitionPolicy.minPartitions)"
        f" || self.partitionPolicy.minPartitions == 0 || self.minAvailable == {_LEAST_PODS}",
        says=f"'{_PODS_MUST} (' + string({_LEAST_PODS}) + '), not ' + string(self.minAvailable)",
    ),
    Rule(
        on=TaskSpec, field="dependsOn", must="must not lead back to the task itself", broken=_itself,
        cel="!has(self.name) || !has(self.dependsOn) || !has(self.dependsOn.name)"
        " || !(self.name in self.dependsOn.name)",
    ),
    Rule(
        on=JobSpec, field="tasks", must=_TASKS_MUST, broken=_same_tasks, on_update=True,
        cel="self.tasks.size() == oldSelf.tasks.size()",
    ),
    *unchanged_in_each(
        JobSpec, "tasks", TaskSpec,
        except_for=("replicas", "minAvailable"), must="must not change: only replicas and minAvailable of a task can",
        defaults={"maxRetry": MAX_RETRY},
    ),
    *unchanged(
        JobSpec,
        except_for=("tasks", "minAvailable", "priorityClassName"), must="must not change once the job exists",
        defaults={"queue": DEFAULT_QUEUE, "schedulerName": DEFAULT_SCHEDULER, "maxRetry": MAX_RETRY},
    ),
)  # fmt: skip
