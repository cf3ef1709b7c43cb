"""The page follows a cluster: what its document says after each change, and what is sent of it."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from builders import START, established, group, node, pod, queue
from stromboli.api import (
    Job,
    JobSpec,
    KObject,
    MigrationInfo,
    MigrationState,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodGroup,
)
from stromboli.api.kinds.pods import ContainerState, ContainerStateTerminated, ContainerStatus
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import Event
from stromboli.kube.page_server.document_changes import changes
from stromboli.kube.page_server.live_document import LiveDocument
from stromboli.page import MOST_POINTS, Document
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

REGISTRY = Registry()


class Watching:
    """A page without sockets: what it would show."""

    def __init__(self) -> None:
        self._live = LiveDocument("test", "volcano")
        self._scheduler = Scheduler(REGISTRY.default(), REGISTRY)
        self._position = 0
        self.document: Document | None = None
        self.sent: dict[str, Any] = {}

    def see(
        self, *objects: KObject, deleted: tuple[KObject, ...] = (), evicted: tuple[Event, ...] = (), at: float
    ) -> Document:
        happened: list[Applied | Deleted] = [Applied(obj) for obj in objects]
        happened += [Deleted(obj) for obj in deleted]
        jobs = [obj for obj in objects if isinstance(obj, Job)]
        before, after = self.document, self._live.refresh(happened, evicted, jobs, self._scheduler, START + at)
        if before is not None:
            sample = None if self._live.samples.was_thinned else self._live.samples.tail()
            self.sent = msgspec.to_builtins(changes(before, after, sample))
        self.document = after
        return after


def objects(*described: KObject) -> list[KObject]:
    return [established(obj, position) for position, obj in enumerate(described)]


def running(described: Pod, on: str, since: float) -> Pod:
    spec = msgspec.structs.replace(described.spec, node_name=on)
    status = msgspec.structs.replace(described.status, phase="Running", start_time=format_timestamp(START + since))
    return msgspec.structs.replace(described, spec=spec, status=status)


def test_a_job_waits_and_runs_and_is_gone() -> None:
    page = Watching()
    n1, default, g, p = objects(
        node("n1", cpu=4), queue("default"), group("ns/g", phase="Inqueue"), pod("ns/p", group="g", cpu=3)
    )
    assert isinstance(p, Pod)
    seen = page.see(n1, default, g, p, at=10)
    [job] = seen.jobs
    assert (job.key, job.state, job.waited, job.pods) == ("ns/g", "waiting", None, {"Pending": 1})
    assert seen.series.waiting_pods == [1.0]

    seen = page.see(running(p, "n1", 12), at=13)
    [span] = seen.spans
    assert (span.pod, span.job, span.node, span.start, span.end) == ("ns/p", "ns/g", "n1", START + 12, None)
    assert seen.jobs[0].runs == [(START + 12, None)]
    assert seen.nodes[0].used == {"cpu": 3000}
    assert seen.series.resources["cpu"].used == [0.0, 3000.0, 3000.0]  # at 10 s, from 12 s on, and at 13 s

    seen = page.see(deleted=(running(p, "n1", 12),), at=20)
    assert (seen.spans[0].end, seen.spans[0].outcome) == (START + 20, "Deleted")
    assert seen.nodes[0].used == {"cpu": 0}


def test_an_eviction_is_known_by_its_event_before_and_after_the_deletion() -> None:
    for event_first in (True, False):
        page = Watching()
        n1, default, g, p = objects(
            node("n1", cpu=4), queue("default"), group("ns/g", phase="Running"), pod("ns/p", group="g", cpu=3)
        )
        assert isinstance(p, Pod)
        p = running(p, "n1", 5)
        event = Event(
            metadata=ObjectMeta(uid="e1"), reason="Reclaimed", message="Because.",
            involved_object=ObjectReference(kind="Pod", namespace="ns", name="p", uid=p.metadata.uid),
            last_timestamp=format_timestamp(START + 8),
        )  # fmt: skip
        page.see(n1, default, g, p, at=6)
        if event_first:
            page.see(evicted=(event,), at=9)
            seen = page.see(deleted=(p,), at=10)
        else:
            page.see(deleted=(p,), at=9)
            seen = page.see(evicted=(event,), at=10)
        assert seen.spans[0].outcome == "Evicted"
        [eviction] = seen.evictions
        assert (eviction.time, eviction.pod, eviction.job, eviction.node) == (START + 8, "ns/p", "ns/g", "n1")
        assert (eviction.queue, eviction.reason, eviction.message) == ("default", "Reclaimed", "Because.")
        assert seen.jobs[0].evictions == 1


def test_what_queues_deserve_comes_from_the_plugin() -> None:
    page = Watching()
    seen = page.see(
        *objects(
            node("n1", cpu=9), queue("a", weight=2), queue("b"),
            group("ns/a", queue="a", phase="Inqueue"), group("ns/b", queue="b", phase="Inqueue"),
            pod("ns/a", group="a", cpu=9), pod("ns/b", group="b", cpu=9),
        ),
        at=10,
    )  # fmt: skip
    assert {row.name: row.deserved for row in seen.queues} == {"a": {"cpu": 6000}, "b": {"cpu": 3000}}


def test_a_job_without_pods_is_listed() -> None:
    page = Watching()
    job = Job(metadata=ObjectMeta(name="j", namespace="ns"), spec=JobSpec(min_available=3))
    seen = page.see(*objects(node("n1", cpu=1), queue("default"), job), at=10)
    assert [(row.key, row.kind, row.state, row.minimum) for row in seen.jobs] == [("ns/j", "Job", "waiting", 3)]


def test_only_rows_that_changed_are_sent() -> None:
    page = Watching()
    n1, n2, default = objects(node("n1", cpu=4), node("n2", cpu=4), queue("default"))
    page.see(n1, n2, default, at=1)
    page.see(at=2)
    assert (page.sent["rows"], page.sent["sample"]["times"]) == ({}, [START + 2])
    page.see(deleted=(n2,), at=3)
    assert page.sent["rows"] == {"nodes": {"gone": ["n2"]}}
    page.see(*objects(node("n1", cpu=8)), at=4)
    assert [row["name"] for row in page.sent["rows"]["nodes"]["set"]] == ["n1"]


def test_nodes_that_are_cordoned_are_not_available() -> None:
    seen = Watching().see(*objects(node("n1", cpu=4, cordoned=True), node("n2", cpu=4)), at=1)
    assert {row.name: row.available for row in seen.nodes} == {"n1": False, "n2": True}


def test_moves_are_kept_with_how_full_both_nodes_were() -> None:
    # n1: 2 of 4 = 50 %, n2: 1 of 4 = 25 %. The pod of one CPU moves from n2 to n1: then 75 % and 0 %.
    page = Watching()
    n1, n2, default, g, stays, moves = objects(
        node("n1", cpu=4), node("n2", cpu=4), queue("default"), group("ns/g", phase="Running"),
        pod("ns/stays", group="g", cpu=2), pod("ns/moves", group="g", cpu=1),
    )  # fmt: skip
    assert isinstance(g, PodGroup)
    assert isinstance(stays, Pod)
    assert isinstance(moves, Pod)
    info = MigrationInfo(pod=ObjectReference(name="moves", uid="u"), source_node="n2", target_node="n1")
    planned = msgspec.structs.replace(g, spec=msgspec.structs.replace(g.spec, migration_info=[info]))
    page.see(n1, n2, default, planned, running(stays, "n1", 1), running(moves, "n2", 1), at=10)
    state = MigrationState(phase="Succeeded", last_transition_time=format_timestamp(START + 19))
    status = msgspec.structs.replace(planned.status, migration_state=state)
    successor = msgspec.structs.replace(moves, metadata=msgspec.structs.replace(moves.metadata, uid="next"))
    page.see(deleted=(running(moves, "n2", 1),), at=17)
    page.see(msgspec.structs.replace(planned, status=status), running(successor, "n1", 18), at=20)
    seen = page.see(g, at=30)  # the next plan replaces what the group says
    [move] = seen.migrations
    assert (move.pod, move.job, move.source, move.target) == ("ns/moves", "ns/g", "n2", "n1")
    assert (move.phase, move.planned, move.ended) == ("Succeeded", START + 10, START + 19)
    assert (move.source_before, move.source_after) == (0.25, 0.0)
    assert (move.target_before, move.target_after) == (0.5, 0.75)


def test_samples_stay_few_and_are_sent_whole_when_thinned() -> None:
    page = Watching()
    page.see(*objects(node("n1", cpu=4), queue("default")), at=0)
    whole = 0
    for second in range(1, 2 * MOST_POINTS + 10):
        seen = page.see(at=second)
        whole += "series" in page.sent
        assert len(seen.series.times) <= 2 * MOST_POINTS
        assert len(seen.series.resources["cpu"].capacity) == len(seen.series.times)
    assert whole == 1


def finished(described: Pod, at: float) -> Pod:
    state = ContainerState(terminated=ContainerStateTerminated(finished_at=format_timestamp(START + at)))
    statuses = [ContainerStatus(name="main", state=state)]
    status = msgspec.structs.replace(described.status, phase="Succeeded", container_statuses=statuses)
    return msgspec.structs.replace(described, status=status)


# The page refreshes at 0 s and at 20 s. A pod of 3 CPUs has run from 5 s to 15 s: 75 % of the node, not 0 %.
def test_what_ran_between_two_refreshes_is_drawn() -> None:
    page = Watching()
    n1, default, g, p = objects(
        node("n1", cpu=4), queue("default"), group("ns/g", phase="Running"), pod("ns/p", group="g", cpu=3)
    )
    assert isinstance(p, Pod)
    page.see(n1, default, g, at=0)
    seen = page.see(finished(running(p, "n1", 5), 15), at=20)
    assert [time - START for time in seen.series.times] == [0, 5, 15, 20]
    assert seen.series.resources["cpu"].used == [0, 3000, 0, 0]
    assert [time - START for time in page.sent["sample"]["times"]] == [5, 15, 20]


# Two refreshes in the second that a pod started in. Its time is that of the whole second, before both, and the first
# two samples have not seen it: 4 of 8 CPUs from the start on, without a notch.
def test_shares_of_queues_have_no_notch() -> None:
    page = Watching()
    n1, default, g, first, second = objects(
        node("n1", cpu=8), queue("default"), group("ns/g", phase="Running"), pod("ns/p", group="g", cpu=2),
        pod("ns/q", group="g", cpu=2),
    )  # fmt: skip
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    page.see(n1, default, g, first, second, at=4.2)
    page.see(running(first, "n1", 5), at=5.3)
    page.see(at=5.6)
    seen = page.see(running(second, "n1", 5), at=5.9)
    times = [round(time - START, 1) for time in seen.series.times]
    shares = dict(zip(times, seen.series.queues["default"], strict=True))
    assert shares == {4.2: 0.0, 5.0: 0.5, 5.3: 0.5, 5.6: 0.5, 5.9: 0.5}


@pytest.mark.parametrize("seed", range(20))
def test_all_views_agree_at_every_instant(seed: int) -> None:
    """Resources in use over time, pods over time, the facts, the nodes and the store of a browser."""
    random = Random(seed)
    page = Watching()
    pods = [pod(f"ns/p{i}", group="g", cpu=random.choice((1, 2))) for i in range(12)]
    n1, default, g, *waiting = objects(node("n1", cpu=64), queue("default"), group("ns/g", phase="Running"), *pods)
    page.see(n1, default, g, *waiting, at=0)
    in_browser = msgspec.to_builtins(page.document)["series"] if page.document else {}
    active: list[tuple[Pod, float]] = []
    now = 0.0
    for _ in range(15):
        before, now = now, now + random.uniform(0.3, 6)
        happened: list[KObject] = []
        deleted: list[KObject] = []
        for _ in range(random.randrange(3)):
            # Clusters round to seconds, so what is seen now may have happened before the last refresh.
            at = float(max(0, int(random.uniform(before - 1, now))))
            if waiting and random.random() < 0.6:
                one = waiting.pop()
                assert isinstance(one, Pod)
                active.append((running(one, "n1", at), at))
                happened.append(active[-1][0])
            elif active:
                ended, since = active.pop(random.randrange(len(active)))
                if random.random() < 0.3:
                    deleted.append(ended)
                else:
                    happened.append(finished(ended, max(since, at)))
        seen = page.see(*happened, deleted=tuple(deleted), at=now)
        series, sample = seen.series, page.sent["sample"]
        for time, used in zip(series.times, series.resources["cpu"].used, strict=True):
            on_nodes = sum(
                span.amounts["cpu"]
                for span in seen.spans
                if span.start <= time and (span.end is None or round(span.end, 3) > time)
            )
            assert used == on_nodes, time - START
        [shown] = seen.nodes
        assert series.resources["cpu"].used[-1] == shown.used.get("cpu", 0)
        assert dict(seen.facts)["Used of cpu"] == f"{series.resources['cpu'].used[-1] / 64000:.0%}"
        kept = [time for time in in_browser["times"] if time < sample["times"][0]]
        in_browser["times"] = [*kept, *sample["times"]]
        assert in_browser["times"] == series.times == sorted(set(series.times))
