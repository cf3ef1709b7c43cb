"""What failed is not tried again before something changes; and when something changes, it is."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from builders import budget, cluster, group, node, pod, pods, priority_class, queue
from evictions.crowded_clusters import CONFIGURATIONS, crowded
from properties.random_clusters import World
from stromboli.api import Condition, KObject, Node, Pod, PodGroup, PodGroupCondition, Queue
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Cluster, Deleted, Task
from stromboli.scheduling.actions import preempt
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Evict
from stromboli.scheduling.eviction import VictimSearch
from stromboli.scheduling.gang import place_gang
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

CONFIGURATION = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def scheduler(text: str = CONFIGURATION, registry: Registry | None = None) -> Scheduler:
    registry = registry or Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.load(text), registry)


# -- a scheduler that remembers decides like one that has just started ------------------------------------------------


class Disturbed:
    """A world in which something happens between two cycles, or nothing."""

    def __init__(self, seed: int) -> None:
        self.world = World(crowded(seed), grace=2, replaces=seed % 3 == 0)
        self.random = Random(seed)
        self.born = 0

    def disturb(self) -> None:
        random, world = self.random, self.world
        happens = random.randint(0, 9)
        objects = [obj for _, obj in sorted(world.objects.items())]
        if happens == 0:
            running = [obj for obj in objects if isinstance(obj, Pod) and obj.spec.node_name]
            if running:
                self._finish(random.choice(running))
        elif happens == 1:
            line = random.choice([obj for obj in objects if isinstance(obj, Queue)])
            world.put(replace(line, spec=replace(line.spec, weight=random.randint(1, 4))))
        elif happens == 2:
            machine = random.choice([obj for obj in objects if isinstance(obj, Node)])
            world.put(replace(machine, spec=replace(machine.spec, unschedulable=not machine.spec.unschedulable)))
        elif happens == 3:
            world.put(budget("ns1/b", allowed=random.randint(0, 3), selector={"app": "x"}))
        elif happens == 4:
            self.born += 1
            world.put(node(f"n9{self.born}", cpu=4, memory="8Gi", created=0))
        elif happens == 5:
            gang = random.choice([obj for obj in objects if isinstance(obj, PodGroup)])
            world.put(replace(gang, spec=replace(gang.spec, priority_class_name=random.choice(["low", "high"]))))

    def _finish(self, done: Pod) -> None:
        if done.metadata.deletion_timestamp is None and done.status.phase == "Running":
            self.world.put(replace(done, status=replace(done.status, phase="Succeeded")))


def story(seed: int, text: str, *, forgets: bool) -> list[Cycle]:
    disturbed = Disturbed(seed)
    deciding = scheduler(text)
    cycles = []
    for _ in range(8):
        if forgets:
            deciding = scheduler(text)
        disturbed.world.now += 1.0
        cycles.append(deciding.run(disturbed.world.cluster, disturbed.world.now))
        disturbed.world.carry_out(cycles[-1].decisions)
        disturbed.disturb()
    return cycles


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_scheduler_that_remembers_decides_and_explains_like_a_new_one(configuration: str) -> None:
    text = CONFIGURATIONS[configuration]
    for seed in range(200, 212):
        remembering, forgetting = story(seed, text, forgets=False), story(seed, text, forgets=True)
        for number, (one, other) in enumerate(zip(remembering, forgetting, strict=True)):
            assert (one.decisions, one.waiting) == (other.decisions, other.waiting), f"seed {seed}, cycle {number}"
            # A job that had a place has waited since now, so what is due for it is due later in each cycle.
            if other.next_due is not None:
                assert one.next_due is not None
                assert one.next_due <= other.next_due


# -- what is tried ----------------------------------------------------------------------------------------------------


@pytest.fixture
def hunts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs for which victims were searched, in order."""
    made: list[str] = []

    class Counted(VictimSearch):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            made.append(self.job.key)

    monkeypatch.setattr(preempt, "VictimSearch", Counted)
    return made


@pytest.fixture
def placements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that allocate tried to place, in order."""
    made: list[str] = []

    def counted(session: Session, statement: object, job: object, *rest: object, **more: object) -> None:
        made.append(job.key)  # type: ignore[attr-defined]
        place_gang(session, statement, job, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("stromboli.scheduling.attempt.attempts.place_gang", counted)
    monkeypatch.setattr("stromboli.scheduling.gang.gang_placement.place_gang", counted)
    return made


def full() -> Cluster:
    """Two nodes of four CPUs, full of pods of low priority, one with a pod of another scheduler, and a gang of three
    pods with four CPUs each: too large."""
    return cluster(
        priority_class("low", 1),
        priority_class("high", 100),
        node("n1", cpu=4),
        node("n2", cpu=4),
        node("n9", cpu=4),
        pod("stays", cpu=4, node="n9", scheduler="another"),
        group("runs", priority_class="low", phase="Running"),
        [pod(f"runs-{n}", group="runs", cpu=2, node=f"n{n // 2 + 1}") for n in range(4)],
        group("gang", priority_class="high", min_member=3),
        pods("gang", 3, group="gang", cpu=4),
    )


def test_an_unchanged_cluster_is_not_searched_again(hunts: list[str], placements: list[str]) -> None:
    known, deciding = full(), scheduler()
    first = deciding.run(known, 1.0)
    assert set(hunts) == set(placements) == {"default/gang"}
    hunts.clear()
    placements.clear()
    second = deciding.run(known, 2.0)
    assert (hunts, placements) == ([], [])
    assert second.waiting == first.waiting


@pytest.mark.parametrize(
    "change",
    [
        Applied(node("n3", cpu=4, created=0)),
        Deleted(pod("runs-0", group="runs", cpu=2, node="n1", created=0)),
        Applied(group("gang", priority_class="high", min_member=2, created=0)),
        Applied(priority_class("high", 200)),
        Applied(budget("default/b", allowed=1, selector={})),
        Applied(queue("default", weight=2)),
    ],
    ids=lambda event: type(event.object).__name__,
)
def test_after_a_change_it_is_tried_again(change: Applied | Deleted, hunts: list[str]) -> None:
    known, deciding = full(), scheduler()
    deciding.run(known, 1.0)
    hunts.clear()
    known.apply(change)
    deciding.run(known, 2.0)
    assert hunts


def test_once_there_is_room_it_starts() -> None:
    known, deciding = full(), scheduler()
    for now in (1.0, 2.0):
        assert not [made for made in deciding.run(known, now).decisions if isinstance(made, Bind | Evict)]
    known.apply(Applied(node("n3", cpu=8, created=0)))  # for two of three pods; the third evicts two pods
    evicted = [made for made in deciding.run(known, 3.0).decisions if isinstance(made, Evict)]
    assert len(evicted) == 2


def test_another_cluster_is_another_matter() -> None:
    deciding = scheduler()
    deciding.run(full(), 1.0)
    other = full()
    other.apply(Applied(node("n3", cpu=8, created=0)))
    assert [made for made in deciding.run(other, 2.0).decisions if isinstance(made, Evict)]


class AfterTen(Plugin):
    """Permits evictions from ten seconds on, and says so."""

    name = "afterten"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    def open(self, session: Session) -> None:
        def verdict(evictor: Task, candidate: Task, whole: bool) -> Verdict:
            if session.now < 10.0:
                session.due(10.0)
                return Verdict.NO
            return Verdict.YES

        session.add_preemptable(verdict, protects=False)


def test_what_depends_on_time_is_tried_again_when_it_is_due(hunts: list[str]) -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("afterten", AfterTen)
    deciding = scheduler(CONFIGURATION.replace("{name: priority}", "{name: afterten}, {name: priority}"), registry)
    known = full()
    known.apply(Applied(group("gang", priority_class="high", min_member=1, created=0)))
    assert deciding.run(known, 1.0).next_due == 10.0
    hunts.clear()
    assert deciding.run(known, 2.0).next_due == 10.0
    assert not hunts
    assert [made for made in deciding.run(known, 10.0).decisions if isinstance(made, Evict)]


# -- what is a change -------------------------------------------------------------------------------------------------


def versions() -> list[tuple[str, KObject, bool]]:
    """Objects that follow one of `full()`, and whether they could change a decision."""
    waits, gang, line = pod("gang-0", group="gang", cpu=4), group("gang", min_member=3), queue("default")
    told = [Condition(type="PodScheduled", status="False", reason="InsufficientNode", message="…")]
    why = PodGroupCondition(type="Unschedulable", status="True", reason="NotEnoughResources", message="…")
    since, later = (
        PodGroupCondition(type="Waiting", status="True", reason="NotReady", last_transition_time=format_timestamp(at))
        for at in (0.0, 60.0)
    )
    reserved = PodGroupCondition(type="Starving", status="True", reason="Reserved")
    return [
        ("why a pod waits", replace(waits, status=replace(waits.status, conditions=told)), False),
        ("a pod is gated", pod("gang-0", group="gang", cpu=4, gated=True), True),
        ("a pod has another label", pod("gang-0", group="gang", cpu=4, labels={"app": "x"}), True),
        ("a pod leaves", pod("gang-0", group="gang", cpu=4, deleted=True), True),
        ("why a gang waits", replace(gang, status=replace(gang.status, conditions=[why])), False),
        ("since when it waits", replace(gang, status=replace(gang.status, conditions=[why, since])), False),
        # Its pods came later than the group. Every scheduler reads that in the objects, so the record is no news.
        ("since its pods came", replace(gang, status=replace(gang.status, conditions=[why, later])), False),
        ("what is done for it", replace(gang, status=replace(gang.status, conditions=[why, reserved])), True),
        ("a gang is smaller", group("gang", min_member=2), True),
        ("what a queue has", replace(line, status=replace(line.status, allocated={"cpu": 8})), False),
        ("a queue is closed", queue("default", state="Closed"), True),
        ("a node again", node("n1", cpu=4), False),
        ("a node is not ready", node("n1", cpu=4, ready=False), True),
        ("a node is larger", node("n1", cpu=5), True),
    ]


@pytest.mark.parametrize(("after", "counts"), [case[1:] for case in versions()], ids=[case[0] for case in versions()])
def test_only_what_could_change_a_decision_counts_as_a_change(after: KObject, counts: bool) -> None:
    known = Cluster()
    for obj in (pod("gang-0", group="gang", cpu=4), group("gang", min_member=3), queue("default"), node("n1", cpu=4)):
        known.apply(Applied(obj))
    before = known.ledger.changes
    known.apply(Applied(after))
    assert (known.ledger.changes > before) == counts


def test_another_record_of_the_waiting_time_counts_as_a_change() -> None:
    known, gang = Cluster(), group("gang", min_member=3)
    times = [format_timestamp(at) for at in (0.0, 60.0)]
    records = [
        PodGroupCondition(type="Waiting", status="True", reason="NotReady", last_transition_time=times[0]),
        PodGroupCondition(type="Waiting", status="False", reason="Promised", last_transition_time=times[0]),
        PodGroupCondition(
            type="Waiting", status="False", reason="NotCounted", last_transition_time=times[1], transition_id=times[0]
        ),
        PodGroupCondition(type="Waiting", status="True", reason="NotReady", last_transition_time=times[1]),
        PodGroupCondition(type="Scheduled", status="True", reason="TasksReady"),
    ]
    changes = []
    for record in records:
        before = known.ledger.changes
        known.apply(Applied(replace(gang, status=replace(gang.status, conditions=[record]))))
        changes.append(known.ledger.changes > before)
    # The first one is a new object. It waits since the same time while it is promised a place.
    assert changes == [True, False, True, True, True]
