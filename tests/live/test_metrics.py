"""The metrics, and that their documentation is complete."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from builders import GPU, START, cluster, group, node, pod, pods, queue, quota
from documents.pages import PROJECT
from stromboli.api import ObjectMeta, Queue, QueueStatus, Reservation, ReservationStatus
from stromboli.cluster import Applied, Cluster, Deleted, JobKey
from stromboli.controllers import Create, Delete
from stromboli.kube.controllers import ControllerMetrics
from stromboli.kube.descheduler import DeschedulerMetrics
from stromboli.kube.runtime import LoopLag, ProcessMetrics
from stromboli.kube.scheduler import SchedulerMetrics
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, Evict
from stromboli.scheduling.registry import Registry

NOW = START + 100.0
GIB = 2**30


class Process:
    """A process with all parts, and whoever reads its metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.lag = LoopLag(clock=lambda: 0.0)
        self.shared = ProcessMetrics(self.registry, self.lag)
        self.scheduler = SchedulerMetrics(self.shared, clock=lambda: NOW)
        self.controllers = ControllerMetrics(self.shared)
        self.descheduler = DeschedulerMetrics(self.shared)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def all(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a name, by the values of their labels."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def process() -> Process:
    return Process()


def decide(process: Process, known: Cluster) -> Cycle:
    registry = Registry(installed_plugins=(), installed_actions=())
    return process.scheduler.timed_cycle(Scheduler(registry.default(), registry), known, NOW)


# -- the page -------------------------------------------------------------------------------------------------------


def test_every_metric_has_its_row(process: Process) -> None:
    """And its type, its labels and a full sentence of help."""
    process.scheduler.evicted("Preempted")
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for family in process.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = (family.type, tuple(sorted(labels)))
        assert family.documentation[0].isupper(), name
        if not name.startswith("process_"):
            assert family.documentation.endswith("."), name
    documented: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in (PROJECT / "docs/metrics.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            labels = tuple(sorted(label.strip("` ") for label in cells[2].split(",") if label.strip()))
            documented[cells[0].strip("`")] = (cells[1], labels)
    if not any(name.startswith("process_") for name in found):  # only Linux tells a process about itself
        documented = {name: row for name, row in documented.items() if not name.startswith("process_")}
    assert not found.keys() - documented.keys(), "without a row"
    assert not documented.keys() - found.keys(), "rows for what does not exist"
    for name, (kind, labels) in documented.items():
        assert found[name][0] == kind, name
        assert found[name][1] in ((), labels), name  # none, if nothing of the kind has happened yet


# -- what is so -----------------------------------------------------------------------------------------------------


def test_queues_have_what_their_pods_have_want_and_deserve(process: Process) -> None:
    # q1 has 2 CPU of 8 and asks for 1 more; q2 (weight 3) has nothing and asks for 4. Both are given all of it.
    known = cluster(
        node("n1", cpu=8, memory="8Gi", gpu=4),
        queue("q1", weight=1, capability={"cpu": 3}),
        queue("q2", weight=3),
        group("a/g1", queue="q1", phase="Inqueue"),
        pod("a/p1", group="g1", cpu=2, memory="1Gi", gpu=1, node="n1", phase="Running"),
        group("a/g2", queue="q1", phase="Pending"),
        pod("a/p2", group="g2", cpu=1, memory="1Gi", gpu=8),  # more GPUs than there are
        group("b/g3", queue="q2", phase="Inqueue"),
        pod("b/p3", group="g3", cpu=4, memory="2Gi"),
    )
    decide(process, known)
    assert process.all("volcano_queue_weight") == {("q1",): 1, ("q2",): 3, ("default",): 1}
    assert process.all("volcano_queue_allocated_milli_cpu") == {("q1",): 2000, ("q2",): 4000, ("default",): 0}
    assert process.value("volcano_queue_allocated_memory_bytes", queue_name="q2") == 2 * GIB
    assert process.all("volcano_queue_allocated_scalar_resources") == {("q1", GPU): 1000}
    assert process.all("volcano_queue_request_milli_cpu") == {("q1",): 3000, ("q2",): 4000, ("default",): 0}
    assert process.all("volcano_queue_request_scalar_resources") == {("q1", GPU): 9000}
    assert process.all("volcano_queue_deserved_milli_cpu") == {("q1",): 3000, ("q2",): 4000, ("default",): 0}
    assert process.all("volcano_queue_deserved_scalar_resources") == {("q1", GPU): 4000}
    assert process.all("volcano_queue_capacity_milli_cpu") == {("q1",): 3000}
    assert process.all("volcano_queue_capacity_memory_bytes") == {}
    # q1: CPU 2 of 3, memory 1 of 2, GPU 1 of 4; q2 has all it deserves.
    assert process.all("volcano_queue_share") == {("q1",): 2 / 3, ("q2",): 1.0, ("default",): 0.0}
    assert process.all("volcano_queue_overused") == {("q1",): 0, ("q2",): 1, ("default",): 0}


def test_a_deleted_queue_is_removed_from_the_metrics(process: Process) -> None:
    """Also while there are groups that name it."""
    gone = queue("q1")
    known = cluster(node("n1", cpu=1), gone, group("a/g", queue="q1"))
    decide(process, known)
    assert ("q1",) in process.all("volcano_queue_weight")
    known.apply(Deleted(gone))
    decide(process, known)
    for family in process.registry.collect():
        assert not [sample for sample in family.samples if sample.labels.get("queue_name") == "q1"]


def test_who_deserves_everything_is_not_overused(process: Process) -> None:
    known = cluster(
        node("n1", cpu=1), group("a/g", phase="Running"), pod("a/p", group="g", cpu=1, node="n1", phase="Running")
    )
    decide(process, known)
    assert process.all("volcano_queue_share") == {("default",): 1.0}
    assert process.all("volcano_queue_overused") == {("default",): 0}


def test_gauges_show_the_state_at_the_end_of_the_cycle(process: Process) -> None:
    """News that come while somebody reads are the next cycle's."""
    running = pod("a/p", group="g", cpu=1, node="n1", phase="Running")
    known = cluster(node("n1", cpu=1), group("a/g", phase="Running"), running)
    decide(process, known)
    known.apply(Deleted(running))
    assert process.all("volcano_queue_allocated_milli_cpu") == {("default",): 1000}
    decide(process, known)
    assert process.all("volcano_queue_allocated_milli_cpu") == {("default",): 0}


def test_without_a_plugin_that_divides_nothing_is_deserved(process: Process) -> None:
    known = cluster(node("n1", cpu=1))
    process.scheduler.observe(known, Cycle(), 0.1)
    assert process.all("volcano_queue_weight") == {("default",): 1}
    for name in ("deserved_milli_cpu", "share", "overused"):
        assert process.all(f"volcano_queue_{name}") == {}


def test_namespaces_have_shares_over_all_queues(process: Process) -> None:
    # a has 2 of 8 CPU in two queues, and weight 2; c has a weight and nothing else.
    known = cluster(
        node("n1", cpu=8, memory="8Gi"),
        queue("q1"),
        queue("q2"),
        quota("a/weight", weight=2),
        quota("c/weight", weight=5),
        group("a/g1", queue="q1", phase="Running"),
        pod("a/p1", group="g1", cpu=1, node="n1", phase="Running"),
        group("a/g2", queue="q2", phase="Running"),
        pod("a/p2", group="g2", cpu=1, node="n1", phase="Running"),
        group("b/g3", queue="q2", phase="Running"),
        pod("b/p3", group="g3", cpu=1, memory="4Gi", node="n1", phase="Running"),
    )
    decide(process, known)
    assert process.all("volcano_namespace_weight") == {("a",): 2, ("b",): 1, ("c",): 5}
    assert process.all("volcano_namespace_share") == {("a",): 0.25, ("b",): 0.5, ("c",): 0.0}
    assert process.all("volcano_namespace_weighted_share") == {("a",): 0.125, ("b",): 0.5, ("c",): 0.0}


def test_waiting_pods_by_reason(process: Process) -> None:
    known = cluster(
        node("n1", cpu=2),
        group("a/gang", min_member=3, phase="Inqueue"),
        pods("a/gang", 3, group="gang", cpu=1),
        group("a/gated", phase="Inqueue"),
        pod("a/gated", group="gated", cpu=1, gated=True),
    )
    cycle = decide(process, known)
    assert len(cycle.waiting) == 4
    reasons = process.all("stromboli_waiting_pods")
    assert reasons[("SchedulingGated",)] == 1
    assert sum(reasons.values()) == 4
    assert process.value("volcano_unschedule_job_count") == 2
    assert process.all("volcano_unschedule_task_count") == {("a/gang",): 3, ("a/gated",): 1}


def test_an_allocated_pod_does_not_count_as_started(process: Process) -> None:
    """There is room for one of the gang, and the other one's is still being left: nothing is bound yet."""
    known = cluster(
        node("n1", cpu=1),
        node("n2", cpu=1),
        group("a/old", phase="Running"),
        pod("a/old", group="old", cpu=1, node="n2", phase="Running", deleted=True),
        group("a/gang", min_member=2, phase="Inqueue"),
        pods("a/gang", 2, group="gang", cpu=1),
    )
    decide(process, known)
    assert process.all("volcano_unschedule_task_count") == {("a/gang",): 2}


def test_reservations_by_phase(process: Process) -> None:
    known = cluster(node("n1", cpu=2))
    for number, phase in enumerate(("Waiting", "Waiting", "Available")):
        meta = ObjectMeta(name=f"r{number}", uid=f"r{number}")
        known.apply(Applied(Reservation(metadata=meta, status=ReservationStatus(phase=phase, node_name="n1"))))
    process.scheduler.observe(known, Cycle(), 0.1)
    assert process.all("stromboli_reservations") == {("Waiting",): 2, ("Available",): 1}


def test_groups_of_queues_are_those_the_controllers_counted(process: Process) -> None:
    q1 = Queue(metadata=ObjectMeta(name="q1"), status=QueueStatus(pending=1, running=2, inqueue=3))
    q2 = replace(q1, metadata=ObjectMeta(name="q2"), status=QueueStatus(unknown=4, completed=5))
    process.controllers.observe([q1, q2])
    assert process.all("volcano_queue_pod_group_running_count") == {("q1",): 2, ("q2",): 0}
    assert process.all("volcano_queue_pod_group_completed_count") == {("q1",): 0, ("q2",): 5}
    assert process.all("volcano_queue_pod_group_inqueue_count") == {("q1",): 3, ("q2",): 0}
    process.controllers.observe([q2])
    assert process.all("volcano_queue_pod_group_pending_count") == {("q2",): 0}


# -- what happened --------------------------------------------------------------------------------------------------


def test_a_cycle_is_timed_and_counted(process: Process) -> None:
    known = cluster(
        node("n1", cpu=2),
        group("a/g", min_member=2, phase="Inqueue", created=0),
        pod("a/p1", group="g", cpu=1, created=40),
        pod("a/p2", group="g", cpu=1, created=90),
    )
    cycle = decide(process, known)
    process.scheduler.cycle_done(0.25, cycle)
    assert process.value("volcano_e2e_scheduling_latency_milliseconds_count") == 1
    assert process.value("volcano_open_session_duration_milliseconds_count") == 1
    actions = process.all("volcano_action_scheduling_latency_milliseconds_count")
    assert list(actions) == [(action.name,) for action in Registry().default().actions]
    assert set(actions.values()) == {1}
    assert process.value("stromboli_cycle_seconds_sum") == 0.25
    assert process.value("stromboli_decisions_total", kind="Bind") == 2
    assert process.value("volcano_schedule_attempts_total", result="scheduled") == 2
    assert process.value("volcano_schedule_attempts_total", result="unschedulable") == 0
    # Now is 100 s after the start: one pod is 60 s old, the other 10 s.
    assert process.value("volcano_task_scheduling_latency_milliseconds_sum", stage="Assumed") == 70_000


def test_jobs_that_a_cut_cycle_did_not_reach_count_once_until_the_next(process: Process) -> None:
    late, later = JobKey("a/late"), JobKey("a/later")
    process.scheduler.cycle_done(
        1.0, Cycle(cut={"allocate": 7}, not_reached={"allocate": [late, later], "preempt": [late]})
    )
    assert process.value("stromboli_jobs_not_reached") == 2
    process.scheduler.cycle_done(1.0, Cycle())
    assert process.value("stromboli_jobs_not_reached") == 0


def test_victims_are_those_of_the_last_cycle(process: Process) -> None:
    known = cluster(node("n1", cpu=2))
    victims = [
        Evict("a/p1", "n1", "Preempted", "…"),  # type: ignore[arg-type]
        Evict("a/p2", "n1", "Reclaimed", "…"),  # type: ignore[arg-type]
    ]
    process.scheduler.observe(known, Cycle(decisions=list(victims)), 0.1)
    assert process.value("volcano_pod_preemption_victims") == 1
    process.scheduler.observe(known, Cycle(), 0.1)
    assert process.value("volcano_pod_preemption_victims") == 0


def test_a_timed_cycle_decides_what_an_untimed_one_does(process: Process) -> None:
    def scene() -> Cluster:
        return cluster(
            node("n1", cpu=2), node("n2", cpu=2),
            group("a/g", min_member=3, phase="Inqueue"), pods("a/p", 4, group="g", cpu=1),
        )  # fmt: skip

    registry = Registry(installed_plugins=(), installed_actions=())
    assert decide(process, scene()) == Scheduler(registry.default(), registry).run(scene(), NOW)


def test_counters_start_at_zero_and_count(process: Process) -> None:
    s = process.scheduler
    steps: list[tuple[Any, str, dict[str, str]]] = [
        (lambda: s.bound(0.02), "stromboli_binds_total", {"outcome": "bound"}),
        (s.bind_failed, "stromboli_binds_total", {"outcome": "failed"}),
        (s.bind_failed, "volcano_schedule_attempts_total", {"result": "error"}),
        (s.evict_failed, "stromboli_evictions_refused_total", {}),
        (s.cycle_failed, "stromboli_cycle_failures_total", {}),
        (lambda: s.reloaded(accepted=True), "stromboli_configuration_loads_total", {"outcome": "accepted"}),
        (lambda: s.reloaded(accepted=False), "stromboli_configuration_loads_total", {"outcome": "refused"}),
    ]
    for happens, name, labels in steps:
        before = process.value(name, **labels)
        assert before is not None, name
        happens()
        assert process.value(name, **labels) == before + 1, name
    assert process.value("stromboli_bind_seconds_sum") == 0.02
    s.evicted("Preempted")
    assert process.value("stromboli_evictions_total", reason="Preempted") == 1


def test_the_state_of_the_process(process: Process) -> None:
    assert process.all("stromboli_leader") == {("scheduler",): 0, ("controllers",): 0, ("descheduler",): 0}
    process.scheduler.set_leader(True)
    assert process.all("stromboli_leader") == {("scheduler",): 1, ("controllers",): 0, ("descheduler",): 0}
    process.scheduler.buffered(7)
    assert process.value("stromboli_buffered_events") == 7
    on_their_way = 3
    process.scheduler.in_flight(lambda: on_their_way)
    assert process.value("stromboli_binds_in_flight") == 3
    on_their_way = 0
    assert process.value("stromboli_binds_in_flight") == 0
    process.lag.record(0.04)
    assert process.value("stromboli_event_loop_lag_seconds") == 0.04
    process.scheduler.wrote("pods", "written")
    process.controllers.wrote("pods", "written")
    assert process.value("stromboli_writes_total", kind="pods", outcome="written") == 2
    process.shared.relisted("pods")
    assert process.value("stromboli_watch_relists_total", resource="pods") == 1


def test_passes_of_controllers(process: Process) -> None:
    q1 = Queue(metadata=ObjectMeta(name="q1"))
    process.controllers.pass_done("queue", 0.5, [Create(q1), Create(q1), Delete(q1)])
    assert process.value("stromboli_controller_pass_seconds_sum", controller="queue") == 0.5
    assert process.all("stromboli_controller_changes_total") == {("queue", "Create"): 2, ("queue", "Delete"): 1}
