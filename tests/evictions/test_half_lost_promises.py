"""A gang for which pods are leaving two nodes loses one of them.

In all scenes queues `a` and `b` have the same weight. Queue `a` has two services on each node, which stay, and has
borrowed the other two CPUs of each. At 5 s a gang of queue `b` comes, two pods of 2 CPUs: it deserves 4 CPUs, and its
victims take 20 s to leave n1 and n2, until 25 s. Node n2 is gone at 10 s.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import builders
from starvation.scenes import Document, Scene, gang, node, patch, pod, queue, restart, scene
from stromboli.api import PodGroupCondition
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import JobKey
from stromboli.scheduling.eviction.returned_promises import ReturnedPromises
from stromboli.scheduling.explanation.gang_reasons import promise_returned

START = 946684800  # of virtual time


def on(name: str, grace: float = 20) -> list[Document]:
    """What queue `a` has on a node of 4 CPUs."""
    services = [pod(f"service-{name}-{number}", 1, on=name, queue="a", preemptable=False) for number in range(2)]
    return services + [pod(f"borrower-{name}-{number}", 1, on=name, queue="a", grace=grace) for number in range(2)]


def half_lost(*more: Document | list[Document], until: float = 60) -> Scene:
    return scene(
        node("n1", 4), node("n2", 4, until=10), queue("a"), queue("b"), on("n1"), on("n2"),
        gang("training", 2, 2, queue="b", at=5), *more, until=until,
    )  # fmt: skip


def evicted(told: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those of them that did not go with their node."""
    return [(time, who) for time, who in told if time != 10]


FOUR = sorted((5.0, f"borrower-{name}-{number}") for name in ("n1", "n2") for number in range(2))


def test_the_room_is_given_back_when_the_gang_cannot_start_any_more() -> None:
    # Of the 4 CPUs of n1, each queue deserves 2, and the gang needs 4. Its 2 CPUs there are for whoever can use them.
    late = pod("late", 1, queue="a", at=12)
    outcome = half_lost(late).run()
    assert outcome.started == {"late": 25.0}
    assert outcome.why("training-0")[0] == "QueueOverDeserved"
    assert evicted(outcome.happened("Evicted")) == FOUR
    assert outcome.report["nodes"]["n1"]["promisedTo"] == []


def test_restarts_change_nothing() -> None:
    story = half_lost(pod("late", 1, queue="a", at=12), until=30)
    undisturbed = story.run().text
    for second in range(31):
        assert story.run(restart(second, "scheduler")).text == undisturbed, f"after a restart at {second}"
    assert story.run(*[restart(second) for second in range(31)]).text == undisturbed


def test_the_clock_goes_on_from_where_it_was() -> None:
    outcome = half_lost(until=30).run()
    conditions = outcome.report["podGroups"]["default/training"]["conditions"]
    assert [c["lastTransitionTime"] for c in conditions if c["type"] == "Waiting"] == [5.0]


def test_what_is_good_is_kept_and_completed_with_free_room() -> None:
    # With n3 there are 8 CPUs again. The gang has 2 of n1 when the borrowers are gone, and 2 of n3.
    outcome = half_lost(node("n3", 4, at=8)).run()
    assert outcome.started == {"training-0": 25.0, "training-1": 25.0}
    assert {outcome.nodes[f"training-{number}"] for number in range(2)} == {"n1", "n3"}
    assert evicted(outcome.happened("Evicted")) == FOUR
    between = half_lost(node("n3", 4, at=8)).at(15)
    kept = {name: (told["promised"], told["promisedTo"]) for name, told in between.report["nodes"].items()}
    assert kept == {name: ({"cpu": "2"}, ["default/training"]) for name in ("n1", "n3")}


def test_a_promise_is_not_completed_with_the_room_of_another() -> None:
    # Room leaves n3 for another pod. The gang, which goes before it and loses its place on n2, may not have it.
    third = [node("n3", 4), *on("n3"), pod("younger", 2, queue="b", at=6, selector={"only": "n3"})]
    third[0]["metadata"]["labels"] = {"only": "n3"}
    outcome = half_lost(third).run()
    assert outcome.started["younger"] == 26.0
    assert outcome.nodes["younger"] == "n3"


def test_nobody_new_is_evicted_until_the_former_victims_are_gone() -> None:
    # n3 comes with n2's loss, full of borrowers of queue a. The gang could have two of them evicted at 10 s; it waits
    # for those of n1 first, and begins anew at 25 s: one pod on n1, which is free, and two victims on n3.
    third = [node("n3", 4, at=10), *[{**one, "metadata": _at(one, 10)} for one in on("n3")]]
    outcome = half_lost(third).run()
    assert evicted(outcome.happened("Evicted")) == [*FOUR, (25.0, "borrower-n3-0"), (25.0, "borrower-n3-1")]
    assert outcome.started == {"training-0": 45.0, "training-1": 45.0}
    told = half_lost(third).at(15).report["podGroups"]["default/training"]["conditions"]
    assert format_timestamp(START + 25) in next(c["message"] for c in told if c["type"] == "Promise")


def _at(document: Document, time: float) -> Document:
    meta = document["metadata"]
    return {**meta, "annotations": {**meta["annotations"], "sim.stromboli.io/at": f"{time}s"}}


def test_victims_on_a_lost_node_are_not_waited_for() -> None:
    # Nothing that leaves a node which is not ready makes room, so the pod looks elsewhere at once.
    not_ready = patch("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, at=10)
    outcome = scene(
        node("n1", 4), node("n2", 4), queue("a"), queue("b"), on("n1"), on("n2"), pod("only", 2, queue="b", at=5),
        not_ready, until=40,
    ).run()  # fmt: skip
    gone = outcome.happened("Evicted")
    assert [name for time, name in gone if time == 10] == ["borrower-n2-0", "borrower-n2-1"]
    assert outcome.started == {"only": 30.0}


@pytest.mark.parametrize("grace", [2, 200])
def test_the_constants_do_not_matter(grace: float) -> None:
    """Victims ten times faster and slower: nothing stays idle once they are gone."""
    outcome = scene(
        node("n1", 4), node("n2", 4, until=6), queue("a"), queue("b"), on("n1", grace), on("n2", grace),
        gang("training", 2, 2, queue="b", at=5), pod("late", 1, queue="a", at=6), until=grace + 30,
    ).run()  # fmt: skip
    assert outcome.started == {"late": 5.0 + grace}


def test_others_are_told_whose_the_kept_room_is() -> None:
    story = scene(
        node("n1", 4), node("n2", 4), queue("a"), queue("b"), on("n1"), on("n2"),
        gang("training", 2, 2, queue="b", at=5), pod("small", 1, queue="b", at=6), until=10,
    )  # fmt: skip
    message = story.run().why("small")[1]
    assert "4 kept for other pods (default/training)" in message


@pytest.mark.parametrize(("leaves", "waits"), [(20, True), (60, False)])
def test_only_who_must_be_gone_by_then_is_waited_for(leaves: float, waits: bool) -> None:
    """The group waits for its former victims until 30 s from now, at the latest. One pod of the node leaves after that,
    or before, and one that could leave at once stays."""
    now = builders.START + 1000
    leaving = builders.pod("leaving", cpu=1, node="n1", deleted=True)
    staying = builders.pod("staying", cpu=1, node="n1")
    given_back = promise_returned(format_timestamp(now + 30))
    condition = PodGroupCondition(type="Promise", status="True", reason="Returned", message=given_back)
    waiting = builders.group("g", min_member=1)
    known = builders.cluster(
        builders.node("n1", cpu=4),
        replace(waiting, status=replace(waiting.status, conditions=[condition])),
        builders.pod("g-0", cpu=4, group="g"),
        replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=format_timestamp(now + leaves))),
        replace(staying, spec=replace(staying.spec, termination_grace_period_seconds=0)),
    )
    opened = builders.session(known, now=now)
    until = opened.state(ReturnedPromises).until(known.jobs[JobKey("default/g")])
    assert until == (now + 30 if waits else None)
