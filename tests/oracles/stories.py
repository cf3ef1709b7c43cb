"""A cluster, its scheduler, and what becomes of both cycle after cycle.

    story = Story(node("n1", cpu=2), group("pg1"), pod("p1", group="pg1", cpu=1), actions="allocate", tiers=[["gang"]])
    story.run()
    assert story.binds == {"p1": "n1"}

`run` is one cycle of the real scheduler, and checks the books of the cluster against a rebuild. `carry_out` plays the
world: what was bound runs, what was evicted is gone (and its successor waits, if owners are to make one), statuses are
written. Pods and groups of the namespace `default` go by their bare names.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from builders import START, Ready, cluster, established
from stromboli.api import KObject, Pod
from stromboli.cluster import Applied, Cluster, Deleted, Job, JobKey, Status, Task, TaskKey
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.configuration.configuration_file import ActionOption, Configuration, PluginOption, Tier
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Evict, PatchGroup, PatchPod
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry

Entry = str | PluginOption | Ready | type[Plugin]

FAIR = [["gang"], ["drf", "proportion", "predicates", "nodeorder"]]
"""Gangs, fair queues and fair jobs; what the cases of allocation are told with."""
PREEMPTION = [["conformance", "gang", "priority", "proportion", "predicates"]]
RECLAIMING = [["priority", "gang", "conformance"], ["proportion", "predicates", "nodeorder"]]


class Story:
    def __init__(
        self,
        *objects: KObject | Iterable[KObject],
        actions: str,
        tiers: Iterable[Iterable[Entry]],
        known: Cluster | None = None,
    ) -> None:
        """`tiers` may name plugin classes of the test's own."""
        self.known = cluster(*objects) if known is None else known
        self.scheduler = scheduler(actions, tiers)
        self.cycle = Cycle()
        self.now = START + 1000.0
        self._born = 0

    # -- one cycle ----------------------------------------------------------------------------------------------

    def run(self) -> Story:
        self.cycle = self.scheduler.run(self.known, self.now)
        self.known.validate()
        self.now += 1.0
        return self

    @property
    def binds(self) -> dict[str, str]:
        """Which pod goes where, in the order of the decisions."""
        return {_short(d.task): d.node for d in self.cycle.decisions if isinstance(d, Bind)}

    @property
    def evicted(self) -> list[str]:
        """Who has to go, by name."""
        return sorted(_short(d.task) for d in self.cycle.decisions if isinstance(d, Evict))

    @property
    def evicted_from(self) -> set[str]:
        return {d.node for d in self.cycle.decisions if isinstance(d, Evict)}

    @property
    def nominated(self) -> dict[str, str]:
        """Which waiting pod is promised which node, beyond this cycle."""
        patches = (d for d in self.cycle.decisions if isinstance(d, PatchPod))
        return {_short(patch.task): patch.nominated for patch in patches if patch.nominated}

    def why(self, pod: str) -> str:
        """The code of the reason for which a pod waits; its sentence is `message`."""
        return self.cycle.waiting[TaskKey(_full(pod))].code

    def message(self, pod: str) -> str:
        return self.cycle.waiting[TaskKey(_full(pod))].message

    def conditions(self, group: str) -> dict[str, str]:
        """What was written about a group in this cycle, by the type of the condition."""
        (patch,) = self._patches(group)
        return {condition.type: condition.message for condition in patch.conditions}

    def is_written(self, group: str) -> bool:
        return bool(self._patches(group))

    def phase(self, group: str) -> str:
        return self.job(group).phase

    def _patches(self, group: str) -> list[PatchGroup]:
        return [d for d in self.cycle.decisions if isinstance(d, PatchGroup) and d.job == _full(group)]

    # -- what is known ------------------------------------------------------------------------------------------

    def job(self, key: str) -> Job:
        return self.known.jobs[JobKey(_full(key))]

    def task(self, key: str) -> Task:
        return self.known.tasks[TaskKey(_full(key))]

    def running(self, group: str) -> int:
        return self.job(group).counts[Status.RUNNING]

    def cores(self, queue: str) -> float:
        """CPUs that a queue has."""
        allocated = next(q for q in self.known.queues.values() if q.name == queue).allocated
        return self.known.axis.amounts(allocated).get("cpu", 0) / 1000

    # -- what happens outside -----------------------------------------------------------------------------------

    def add(self, *objects: KObject | Iterable[KObject]) -> None:
        for item in objects:
            for obj in item if isinstance(item, Iterable) else (item,):
                self._born += 1
                self.known.apply(Applied(established(obj, 500 + self._born)))

    def remove(self, *pods: str) -> None:
        for pod in pods:
            self.known.apply(Deleted(self.task(pod).pod))

    def leave(self, *pods: str) -> None:
        """Somebody deletes pods: they are on their way out."""
        for pod in pods:
            old = self.task(pod).pod
            self.known.apply(Applied(replace(old, metadata=replace(old.metadata, deletion_timestamp=_STAMP))))

    def carry_out(self, *, successors: bool = False) -> None:
        """`successors`: the owner of an evicted pod makes another one at once, of the same name."""
        for decision in self.cycle.decisions:
            match decision:
                case Bind(task=task, node=node):
                    pod = self.known.tasks[task].pod
                    there, runs = replace(pod.spec, node_name=node), replace(pod.status, phase="Running")
                    self.known.apply(Applied(replace(pod, spec=there, status=runs)))
                case Evict(task=task):
                    pod = self.known.tasks[task].pod
                    self.known.apply(Deleted(pod))
                    if successors:
                        self.known.apply(Applied(self._successor(pod)))
                case PatchGroup() as patch:
                    group = self.known.jobs[patch.job].object
                    assert group is not None
                    status = replace(
                        group.status,
                        phase=patch.phase,
                        conditions=list(patch.conditions),
                        running=patch.running,
                        succeeded=patch.succeeded,
                        failed=patch.failed,
                    )
                    self.known.apply(Applied(replace(group, status=status)))
                case _:
                    pass

    def _successor(self, pod: Pod) -> Pod:
        self._born += 1
        metadata = replace(pod.metadata, uid=f"{pod.metadata.uid}+{self._born}")
        return replace(
            pod,
            metadata=metadata,
            spec=replace(pod.spec, node_name=""),
            status=replace(pod.status, phase="Pending"),
        )

    def live(self, cycles: int, *, successors: bool = False) -> int:
        """So many cycles, each carried out. Returns how many evictions there were."""
        evictions = 0
        for _ in range(cycles):
            self.run()
            evictions += len(self.evicted)
            self.carry_out(successors=successors)
        return evictions


_STAMP = "2030-01-01T00:00:00Z"


def scheduler(actions: str, tiers: Iterable[Iterable[Entry]]) -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    configuration = Configuration(
        actions=tuple(ActionOption(name.strip()) for name in actions.split(",")),
        tiers=tuple(Tier(tuple(_option(entry, registry) for entry in tier)) for tier in tiers),
    )
    return Scheduler(configuration, registry)


def _option(entry: Entry, registry: Registry) -> PluginOption:
    if isinstance(entry, PluginOption):
        return entry
    if isinstance(entry, str):
        return PluginOption(entry, arguments=Arguments(owner=f"plugin {entry}"))
    assert isinstance(entry, type), "the scheduler makes its plugins itself"
    registry.register_plugin(entry.name, entry)
    return PluginOption(entry.name)


def _full(key: str) -> str:
    return key if "/" in key else f"default/{key}"


def _short(key: str) -> str:
    return key.removeprefix("default/")
