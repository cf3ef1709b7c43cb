"""The descheduler: runs the profiles of a policy on the cluster as it knows it, and carries on the moves under way.

A world reports every change of an object to `observe`, and calls `advance` after changes and `run` when a run is due.
Both return writes. What the descheduler remembers may be lost at any time: a new one makes the same plans, because all
that matters is in objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stromboli.api import Job, KObject, Node, Pod, PodGroup, ReplicaSet, StatefulSet, names
from stromboli.cluster import Applied, Cluster, ClusterEvent, JobKey
from stromboli.scheduling.cycle import Scheduler

from . import migration
from .migration import Write, start_plan
from .node_protection import protect_nodes
from .planning import Anomalies, Objects, Plan, RealUse, View, resting_until
from .planning.real_use import requested
from .plugin import EvictorPlugin, Guard
from .policy import Policy, Profile
from .registry import Registry
from .run import Options, Run
from .strategy import BalancePlugin, DeschedulePlugin


class Descheduler:
    def __init__(
        self,
        policy: Callable[[], Policy],
        registry: Registry,
        new_scheduler: Callable[[], Scheduler],
        *,
        scheduler_name: str = names.DEFAULT_SCHEDULER,
        real_use: RealUse = requested,
        everything: Callable[[], Iterable[object]] | None = None,
        keep_nodes: bool = False,
    ) -> None:
        """`new_scheduler` returns the scheduler whose configuration is in force; its predicates decide where pods could
        go. `everything` lists all objects, to start over from. `keep_nodes`: mark nodes that somebody counts on, so
        that cluster-autoscaler does not remove them."""
        self._policy = policy
        self._registry = registry
        self._new_scheduler = new_scheduler
        self._scheduler_name = scheduler_name
        self.real_use = real_use
        self._everything = everything
        self._keep_nodes = keep_nodes
        self.cluster = Cluster(scheduler_name=scheduler_name)
        self._outdated = everything is not None
        self._anomalies = Anomalies()

    def observe(self, event: ClusterEvent) -> None:
        if not self._outdated:
            self.cluster.apply(event)

    # -- runs ---------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self._policy()

    def plan(
        self, objects: Objects, now: float, *, profiles: Iterable[Profile] | None = None, options: Options | None = None
    ) -> list[Plan]:
        """The plans of one run; nothing is written."""
        policy = self._policy()
        self._rebuild()
        session = self._new_scheduler().open(self.cluster.snapshot(), now)
        # Opening a session may settle things, such as giving up reserved nodes. The scheduler decides about those; here
        # they would only make our copy differ from the objects.
        self._outdated = bool(session.cycle.decisions) and self._everything is not None
        view = View(
            session, objects, real_use=self.real_use, node_selector=policy.node_selector,
            scheduler_name=self._scheduler_name, anomalies=self._anomalies,
        )  # fmt: skip
        plans: list[Plan] = []
        chosen = list(policy.profiles if profiles is None else profiles)
        runs: list[Run] = []
        for profile in chosen:
            runs.append(self._run_of(profile, view, policy, options, runs[-1] if runs else None))
        if options is not None and options.job is not None:
            if not _exists(options.job, view, objects):
                options.is_unknown = True
                return []
            if not any(plugin.makes_room for profile in chosen for plugin in self._balance(profile)):
                options.notes.append("no plugin of the policy makes room for a job; Defragmentation does")
        else:
            for profile, run in zip(chosen, runs, strict=True):
                for name in profile.deschedule:
                    self._registry.create(profile, name, DeschedulePlugin).deschedule(run)
        for profile, run in zip(chosen, runs, strict=True):
            for plugin in self._balance(profile):
                if plugin.makes_room or run.options.job is None:
                    plugin.balance(run)
            plans += run.plans
        return plans

    def _balance(self, profile: Profile) -> list[BalancePlugin]:
        return [self._registry.create(profile, name, BalancePlugin) for name in profile.balance]

    def _run_of(self, profile: Profile, view: View, policy: Policy, options: Options | None, before: Run | None) -> Run:
        run = Run(
            view,
            profile=profile.name,
            evictors=[self._registry.create(profile, name, EvictorPlugin) for name in profile.evictors],
            limits=policy.limits,
            options=options,
            before=before,
        )
        guards: list[tuple[str, Guard]] = []
        for each in policy.profiles:
            for name, plugin in zip(each.balance, self._balance(each), strict=True):
                guard = plugin.guard(run)
                if guard is not None:
                    guards.append((name, guard))
        run.guards = guards
        return run

    def run(
        self, objects: Objects, now: float, *, profiles: Iterable[Profile] | None = None, options: Options | None = None
    ) -> list[Write]:
        """Make plans and begin with them."""
        plans = self.plan(objects, now, profiles=profiles, options=options)
        return [write for plan in plans for write in start_plan(plan, objects, now)]

    def advance(self, objects: Objects, now: float) -> list[Write]:
        """Carry on the moves under way."""
        writes = migration.advance(objects, now)
        return [*writes, *protect_nodes(objects, now)] if self._keep_nodes else writes

    def next_deadline(self, objects: Objects, now: float) -> float | None:
        deadlines = [migration.next_deadline(objects, now)]
        if self._keep_nodes:
            ends = (resting_until(node) for node in objects.list(Node) if names.KEEPS_NODE in node.metadata.annotations)
            deadlines += [end for end in ends if end is not None and end > now]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _rebuild(self) -> None:
        if not self._outdated or self._everything is None:
            return
        self._outdated = False
        self.cluster = Cluster(scheduler_name=self._scheduler_name)
        for obj in self._everything():
            self.cluster.apply(Applied(obj))  # type: ignore[arg-type]


def _exists(job: JobKey, view: View, objects: Objects) -> bool:
    """Whether there is something of that name that has pods, or had some."""
    kinds: tuple[type[KObject], ...] = (Job, PodGroup, ReplicaSet, StatefulSet, Pod)
    return view.job(job) is not None or any(objects.get(kind, job) is not None for kind in kinds)
