"""What counts as waiting: only the time in which nothing but the scheduler keeps a job from starting.

Always a node of three CPUs that is in use for long, and two jobs that need all of it. The node is set aside for the one
that has waited longer, in the first cycle in which that is more than the threshold of 10 s.
"""

from __future__ import annotations

from typing import Any

import pytest

from starvation.scenes import Document, Scene, group, node, patch, pod, priority_class, queue, restart, scene

RESERVE = {"starvingJobTimeThreshold": 10, "reservedNodePercent": 100}
FULL = [node("n1", 3), pod("old", on="n1", run=500)]
GATE = {"schedulingGates": [{"name": "example.com/not-yet"}]}


def story(*parts: Any, until: float = 60, reserve: Document | None = None) -> Scene:
    return scene(FULL, *parts, reserve=RESERVE if reserve is None else reserve, until=until)


def reserved(told: Scene) -> list[tuple[float, str]]:
    return told.run().happened("Reserved")[:1]


def gated(document: Document) -> Document:
    return {**document, "spec": {**document["spec"], **GATE}}


def opened(name: str, at: float) -> Document:
    return patch("Pod", name, {"spec": {"schedulingGates": None}}, at=at)


# -- pods that come late --------------------------------------------------------------------------------------------

LATE_PODS = story(group("early", 1), pod("late", 3, group="early", at=30), pod("patient", 3, at=25))


def test_a_group_has_not_starved_when_its_pods_come() -> None:
    # The group is there from 0 s on, its pod from 30; the other pod has waited since 25.
    assert reserved(LATE_PODS) == [(36, "patient")]
    assert story(group("early", 1), pod("late", 3, group="early", at=30)).run().happened("Reserved") == [(41, "late")]


def test_a_gang_waits_from_its_last_pod_on() -> None:
    members = [pod(f"late-{number}", group="early", at=at) for number, at in enumerate((5, 30, 20))]
    assert reserved(story(group("early", 3), members, until=45)) == [(41, "late-0")]
    # Two are enough for it, and are there from 20 s on.
    assert reserved(story(group("early", 2), members[0], members[2], pod("x", 2, on="n1", run=500))) == [(31, "late-0")]


def test_a_group_that_loses_its_pods_waits_again_when_it_has_new_ones() -> None:
    # 8 s until its pod is deleted, and the rest from 30 s on.
    first, second = pod("first", 3, group="early", until=8), pod("second", 3, group="early", at=30)
    assert reserved(story(group("early", 1), first, second)) == [(33, "second")]


def test_a_group_without_pods_that_is_not_admitted_has_not_starved_either() -> None:
    # It asks for more than is free, so it is kept out; but nobody will create pods when it is admitted.
    early = group("early", 1)
    early["spec"]["minResources"] = {"cpu": 3}
    late = pod("late", 3, group="early", at=30)
    assert reserved(story(early, late, pod("patient", 3, at=25))) == [(36, "patient")]


# -- gates ----------------------------------------------------------------------------------------------------------

GATED = story(gated(pod("gated", 3)), opened("gated", 30), pod("patient", 3, at=25))


def test_a_pod_with_gates_does_not_wait() -> None:
    assert reserved(GATED) == [(36, "patient")]
    assert story(gated(pod("gated", 3)), opened("gated", 30)).run().happened("Reserved") == [(41, "gated")]


def test_a_gang_with_one_gated_pod_does_not_wait() -> None:
    members = [pod("gang-0", group="gang"), gated(pod("gang-1", 2, group="gang"))]
    assert reserved(story(group("gang", 2), members, opened("gang-1", 30))) == [(41, "gang-0")]
    # The one with the gate is not needed. The other waits for CPUs as well, because of x.
    x = pod("x", 2, on="n1", run=500)
    assert reserved(story(group("gang", 1), members, x)) == [(11, "gang-0")]


# -- closed queues --------------------------------------------------------------------------------------------------


def closed(at: float, state: str = "Closed") -> Document:
    return patch("Queue", "team", {"status": {"state": state}}, at=at)


CLOSED = story(
    queue("team"), closed(6), closed(30, "Open"), pod("stopped", 3, queue="team"), pod("patient", 3, at=25)
)  # fmt: skip


def test_a_job_in_a_closed_queue_does_not_wait() -> None:
    # It has waited 6 s at 6 and 10 s at 34, before the other one.
    assert reserved(CLOSED) == [(35, "stopped")]


# -- promises -------------------------------------------------------------------------------------------------------


def broken_promise() -> Scene:
    """From 6 s on there is a second node, with a pod of lower priority that is evicted for the job, and takes 20 s to
    leave. Before it has, at 16 s, the node is gone."""
    small = [node("n2", 3, at=6, until=16), pod("low", 3, on="n2", at=6, until=17, grace=20, priority="low")]
    return story(priority_class("low", -1), small, pod("job", 3))


def test_a_promise_that_is_given_back_does_not_set_the_clock_to_zero() -> None:
    # It has waited since 0 s, so it has starved when the promise is given back.
    outcome = broken_promise().run()
    assert outcome.happened("Evicted")[0] == (6, "low")
    assert "Preempted" in outcome.messages("Evicted")[0]
    assert outcome.happened("Reserved")[0] == (16, "job")


def test_a_job_that_has_run_begins_to_wait_anew() -> None:
    # It starts on a second node at 6 s, which is gone at 16 s. Its pod is created again.
    runs = [node("n2", 3, at=6, until=16), group("job", 1)]
    pods = [pod("first", 3, group="job", until=16), pod("second", 3, group="job", at=17)]
    outcome = story(runs, pods).run()
    assert outcome.started["first"] == 6
    assert outcome.happened("Reserved") == [(28, "second")]


# -- restarts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told", [LATE_PODS, GATED, CLOSED, broken_promise()], ids=["late pods", "gates", "closed queue", "broken promise"]
)
def test_restarts_change_nothing(told: Scene) -> None:
    watched = told.but(until=38)
    undisturbed = watched.run().text
    everything = [restart(second) for second in range(39)]
    for moment in everything[::3]:
        assert watched.run(moment).text == undisturbed, f"after a restart at {moment['at']}"
    assert watched.run(*everything).text == undisturbed
