"""A cluster in a few dictionaries, for stories about controllers.

It does what an API server, a scheduler and the nodes would do to objects, when the test says so, and
carries out what controllers ask for until they ask for nothing more. `settle` fails when controllers never
come to rest, which is how every test here also says that they are idempotent; and it fails when a visit to
every object finds something to do that visits to what has changed did not find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from stromboli.api import (
    BatchJob,
    Command,
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ControllerRevision,
    Job,
    JobSpec,
    KObject,
    LifecyclePolicy,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodSpec,
    PodTemplateSpec,
    Queue,
    ReplicaSet,
    ReplicaSetSpec,
    ResourceRequirements,
    TaskSpec,
    default,
    key,
)
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Deleted
from stromboli.controllers import Change, ControllerManager, Create, Delete, EnsureOwned, Notify, Probe, Update

T = TypeVar("T", bound=KObject)


_DEPENDENTS: tuple[type[KObject], ...] = (
    Pod,
    PodGroup,
    ReplicaSet,
    ControllerRevision,
    BatchJob,
)  # what goes with its owner


class FakeCluster:
    def __init__(
        self, *objects: KObject, now: float = 0.0, controllers: Callable[[], ControllerManager] = ControllerManager
    ) -> None:
        self.now = now
        self._make_controllers = controllers
        self.controllers = controllers()
        self.notices: list[Notify] = []
        self.probes: list[Probe] = []  # what pods were asked, and did not answer yet
        self.provided: dict[str, Mapping[str, Any]] = {}  # what belongs to jobs, by kind and name
        self.grace = 0.0
        self.collects_garbage = True  # deletes what a deleted object owned
        self._objects: dict[type[KObject], dict[str, KObject]] = {}
        self._ends: dict[str, float] = {}
        self._uids = 0
        for obj in objects:
            self.add(obj)

    # What controllers read.

    def get(self, kind: type[T], key: str) -> T | None:
        return self._objects.get(kind, {}).get(key)  # type: ignore[return-value]

    def list(self, kind: type[T]) -> Iterable[T]:
        return [obj for _, obj in sorted(self._objects.get(kind, {}).items())]  # type: ignore[misc]

    # What happens to a cluster.

    def add(self, obj: T) -> T:
        assert self.get(type(obj), key(obj)) is None, f"{key(obj)} exists"
        self._uids += 1
        metadata = replace(
            obj.metadata,
            uid=obj.metadata.uid or f"uid-{self._uids}",
            creation_timestamp=obj.metadata.creation_timestamp or format_timestamp(self.now),
        )
        obj = replace(obj, metadata=metadata)
        if isinstance(obj, Pod) and obj.spec.node_name:
            obj = replace(obj, status=replace(obj.status, phase="Running"))
        self._store(obj)
        return obj

    def remove(self, obj: KObject, *, evicted: bool = False) -> None:
        """As a user would: a pod gets its grace period."""
        present = self.get(type(obj), key(obj))
        assert present is not None
        if isinstance(present, Pod):
            if present.metadata.deletion_timestamp is None and evicted:
                self.controllers.pod_deleted(present, self.now, evicted=True)
            if self.grace and present.status.phase not in ("Succeeded", "Failed"):
                stamp = format_timestamp(self.now + self.grace)
                metadata = replace(present.metadata, deletion_timestamp=stamp)
                self._store(replace(present, metadata=metadata))
                self._ends[key(present)] = self.now + self.grace
                return
        self._drop(present)

    def evict(self, pod_key: str) -> None:
        self.remove(self.pod(pod_key), evicted=True)

    def run(self, *pod_keys: str) -> None:
        """Bind pods and start them; all pending ones unless some are named."""
        for pod in self.list(Pod):
            if key(pod) in pod_keys or (not pod_keys and pod.status.phase == "Pending"):
                started = replace(pod, spec=replace(pod.spec, node_name="n1"))
                self._store(replace(started, status=replace(pod.status, phase="Running")))

    def finish(self, pod_key: str, *, exit_code: int = 0) -> None:
        pod = self.pod(pod_key)
        ended = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code))
        status = replace(
            pod.status,
            phase="Failed" if exit_code else "Succeeded",
            container_statuses=[ContainerStatus(name="main", state=ended)],
        )
        self._store(replace(pod, status=status))

    def enqueue(self, phase: str = "Inqueue") -> None:
        """What a scheduler's enqueue does to every group that waits for it."""
        for group in self.list(PodGroup):
            if group.status.phase == "Pending":
                self._store(replace(group, status=replace(group.status, phase=phase)))

    def start(self) -> None:
        """Let jobs in and run their pods, as a scheduler with enough room would."""
        self.settle()
        self.enqueue()
        self.settle()
        self.run()
        self.settle()

    def put(self, obj: KObject) -> None:
        assert self.get(type(obj), key(obj)) is not None
        self._store(obj)

    def command(self, action: str, target: Job | Queue, name: str = "order") -> Command:
        return self.add(
            Command(
                metadata=ObjectMeta(name=name, namespace=target.metadata.namespace or "default"),
                action=action,
                target=OwnerReference(kind=target.kind, name=target.metadata.name, uid=target.metadata.uid),
            )
        )

    # Time.

    def settle(self) -> list[Change]:
        """Run the controllers until they have nothing more to say, and tell what they did."""
        done: list[Change] = []
        for _ in range(20):
            changes = self.pass_once()
            if not changes:
                self._check_that_no_visit_was_missed()
                return done
            for change in changes:
                self._carry_out(change)
            done += changes
        raise AssertionError(f"controllers do not come to rest: {changes}")

    def _check_that_no_visit_was_missed(self) -> None:
        for of_kind in self._objects.values():
            for obj in of_kind.values():
                self.controllers.observe(Applied(obj))
        missed = self.pass_once()
        assert not missed, f"the objects involved were not visited: {missed}"

    def pass_once(self) -> list[Change]:
        """One pass of the controllers, whose changes are not carried out."""
        return self.controllers.reconcile(self, self.now)

    def advance(self, seconds: float) -> list[Change]:
        self.now += seconds
        for pod_key, end in sorted(self._ends.items()):
            if end <= self.now:
                self._drop(self.pod(pod_key))
        return self.settle()

    def restart(self) -> None:
        self.controllers = self._make_controllers()

    def next_due(self) -> float | None:
        return self.controllers.next_due(self.now)

    # Reading.

    def pod(self, pod_key: str) -> Pod:
        return self._known(Pod, pod_key)

    def job(self, job_key: str) -> Job:
        return self._known(Job, job_key)

    def queue(self, name: str) -> Queue:
        return self._known(Queue, name)

    def group(self, group_key: str) -> PodGroup:
        return self._known(PodGroup, group_key)

    def replica_set(self, set_key: str) -> ReplicaSet:
        return self._known(ReplicaSet, set_key)

    def names(self, kind: type[KObject]) -> tuple[str, ...]:
        return tuple(obj.metadata.name for obj in self.list(kind))

    def phase(self, job_key: str) -> str:
        return self.job(job_key).status.state.phase

    def _known(self, kind: type[T], object_key: str) -> T:
        found = self.get(kind, object_key)
        assert found is not None, f"there is no {kind.__name__} {object_key}"
        return found

    def _carry_out(self, change: Change) -> None:
        match change:
            case Create(obj):
                self.add(obj)
            case Update(obj):
                self.put(obj)
            case Delete(obj):
                self.remove(obj)
            case Notify():
                self.notices.append(change)
            case Probe():
                self.probes.append(change)
            case EnsureOwned(_, owned):
                name = f"{owned.kind} {owned.name}"
                if name not in self.provided or not (owned.create_only or owned.unread):
                    self.provided[name] = owned.content()

    def _store(self, obj: KObject) -> None:
        self._objects.setdefault(type(obj), {})[key(obj)] = obj
        self.controllers.observe(Applied(obj))

    def _drop(self, obj: KObject) -> None:
        del self._objects[type(obj)][key(obj)]
        self.controllers.observe(Deleted(obj))
        if isinstance(obj, Pod):
            self._ends.pop(key(obj), None)
            self.controllers.pod_deleted(obj, self.now, evicted=False)
        if not self.collects_garbage:
            return
        uid = obj.metadata.uid
        for dependent in [obj for kind in _DEPENDENTS for obj in self.list(kind)]:
            if any(owner.uid == uid for owner in dependent.metadata.owner_references):
                self.remove(dependent)


def template(
    cpu: int | str = 1,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    priority_class: str = "",
) -> PodTemplateSpec:
    main = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=labels or {}, annotations=annotations or {}),
        spec=PodSpec(containers=[main], priority_class_name=priority_class),
    )


def replica_set(set_key: str, replicas: int, *, annotations: dict[str, str] | None = None) -> ReplicaSet:
    namespace, _, name = set_key.rpartition("/")
    return ReplicaSet(
        metadata=ObjectMeta(name=name, namespace=namespace, annotations=annotations or {}),
        spec=ReplicaSetSpec(replicas=replicas, template=template(labels={"app": name})),
    )


def owned_by(kind: str, name: str, uid: str = "") -> OwnerReference:
    version = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch.volcano.sh/v1alpha1"}[kind]
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=True)


def task(name: str, replicas: int, **facts: Any) -> TaskSpec:
    """A task; `cpu` and `priority_class` are those of its pods, all else are fields of the task."""
    pods = template(facts.pop("cpu", 1), priority_class=facts.pop("priority_class", ""))
    return TaskSpec(name=name, replicas=replicas, template=pods, **facts)


def job(job_key: str, *tasks: TaskSpec, annotations: dict[str, str] | None = None, **facts: Any) -> Job:
    """A job as an API server would have it, defaults filled in; the facts are fields of its spec."""
    namespace, _, name = job_key.rpartition("/")
    made = Job(
        metadata=ObjectMeta(name=name, namespace=namespace, annotations=annotations or {}),
        spec=JobSpec(tasks=list(tasks), **facts),
    )
    default(made)
    return made


def policy(action: str, *events: str, exit_code: int | None = None, timeout: str | None = None) -> LifecyclePolicy:
    return LifecyclePolicy(action=action, events=list(events), exit_code=exit_code, timeout=timeout)
