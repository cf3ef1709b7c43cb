"""What controllers read and what they return.

A controller is a function from objects and the time to changes. It reads through `Objects`, which any environment can
provide (the simulator's store, a reflector's cache), and returns `Change` values for the caller to apply. The objects
belong to the caller: a controller copies one (`msgspec.structs.replace`) before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from stromboli.api import CronJobTemplate, Job, JobFlow, JobTemplate, KObject, Pod, PodTemplateSpec, TaskSpec

T = TypeVar("T", bound=KObject)


class Objects(Protocol):
    def get(self, kind: type[T], key: str) -> T | None: ...

    def list(self, kind: type[T]) -> Iterable[T]:
        """All objects of a kind in the order of their keys."""
        ...


@dataclass(frozen=True, slots=True)
class FromTemplate:
    """A Job is made of a JobTemplate, with changes that are as a user wrote them."""

    template: JobTemplate
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """Create the object if it does not exist. A pod made from a task's template names the task, what a workload makes
    names the template of its pods, and a Job of a CronJob or JobFlow the template that it was made from: it may have
    fields that our types do not, and a caller that knows them adds them."""

    object: KObject
    source: TaskSpec | CronJobTemplate | FromTemplate | PodTemplateSpec | None = None
    owner: KObject | None = None  # for whom it is, if it does not say so itself


@dataclass(frozen=True, slots=True)
class Update:
    """The object as it should be. Its uid and resourceVersion identify the version that it replaces."""

    object: KObject


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object as a user would: a running pod gets its grace period."""

    object: KObject
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Notify:
    """An event about an object, for people."""

    object: KObject
    reason: str
    message: str
    warning: bool = False
    nodes: tuple[str, ...] = ()  # that it is about


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """An object that a job needs besides its group and its pods, such as a Service. We write it and never read it, so
    there is no type for it: `content` returns everything but the metadata."""

    api_version: str
    kind: str
    name: str
    content: Callable[[], Mapping[str, Any]]
    create_only: bool = False  # written if it does not exist, and never updated
    unread: bool = False  # as well, and not even looked at: its name has the UID of the job, so one that exists is ours


@dataclass(frozen=True, slots=True)
class EnsureOwned:
    """Write an object that a job owns. Later changes of this job may be applied only when it exists."""

    object: Job
    owned: OwnedObject


@dataclass(frozen=True, slots=True)
class Probe:
    """Talk to a pod, and report the answer with `ControllerManager.probe_answered`. Nothing else depends on it."""

    object: JobFlow
    pod: Pod
    port: int
    path: str | None = None  # of an HTTP request; None: only connect
    header: tuple[str, str] | None = None

    @property
    def question(self) -> tuple[str, int, str | None, tuple[str, str] | None]:
        """The same for all flows that ask it."""
        return self.pod.metadata.uid, self.port, self.path, self.header


Change = Create | Update | Delete | Notify | EnsureOwned | Probe
