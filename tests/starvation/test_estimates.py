"""Work that says how long it runs, on room that is kept for somebody else.

On n1 two of three CPUs are in use until 8 s, by a pod that says so. A job of three CPUs has starved at 3 s and n1 is
set aside for it. Whoever wants the third CPU at 4 s has four seconds.
"""

from __future__ import annotations

import pytest

from starvation.scenes import Document, gang, node, pod, queue, restart, scene
from starvation.stories import EVERYWHERE, LENDING, STORIES, THRESHOLD

USING = {"useEstimates": True}
N1 = [node("n1", 3), pod("old", 2, on="n1", run=8, estimate=8)]
BIG = pod("big", 3, run=3)


def test_short_work_runs_where_it_delays_nobody() -> None:
    story = STORIES["short work on reserved room"]
    outcome = story.run()
    assert outcome.started["short"] == 4  # and ends at 7
    assert outcome.pod("short")["backfill"]
    assert outcome.started["big"] == 8
    # As without them: long would end at 9; the third does not say how long it runs.
    assert story.but(backfill={}).run().started["big"] == 8
    assert min(outcome.started["long"], outcome.started["silent"]) >= 8


def test_what_would_just_end_in_time_is_let_in() -> None:
    for runs, let_in in ((4, True), (4.5, False)):
        outcome = scene(N1, BIG, pod("short", at=4, run=runs, estimate=runs), reserve=THRESHOLD, backfill=USING).run()
        assert (outcome.started.get("short") == 4) == let_in
        assert outcome.started["big"] == 8


def test_unless_switched_on_nothing_changes() -> None:
    story = STORIES["short work on reserved room"].but(backfill={})
    without = [{**document} for document in story.documents]
    for document in without:
        notes = {k: v for k, v in document["metadata"].get("annotations", {}).items() if "estimate" not in k}
        document["metadata"] = {**document["metadata"], "annotations": notes}
    assert story.run().text == story.but(documents=without).run().text
    # And switched on, it changes nothing where nobody says anything.
    assert story.but(documents=without, backfill=USING).run().text == story.but(documents=without).run().text


def test_who_says_nothing_may_end_at_any_moment() -> None:
    silent = [node("n1", 3), pod("old", 2, on="n1", run=8)]
    outcome = scene(silent, BIG, pod("short", at=4, run=1, estimate=1), reserve=THRESHOLD, backfill=USING).run()
    assert outcome.started == {"big": 8}


def test_who_has_overrun_its_estimate_may_end_at_any_moment() -> None:
    late = [node("n1", 3), pod("old", 2, on="n1", run=8, estimate=3)]
    outcome = scene(late, BIG, pod("short", at=4, run=1, estimate=1), reserve=THRESHOLD, backfill=USING).run()
    assert outcome.started == {"big": 8}


def test_the_estimate_may_stand_at_the_group_or_the_job() -> None:
    at_group = gang("short", 1, at=4, run=3, notes={"scheduling.stromboli.io/estimate": "3s"})
    assert scene(N1, BIG, at_group, reserve=THRESHOLD, backfill=USING).run().started["short-0"] == 4
    template = {
        "metadata": {"annotations": {"sim.stromboli.io/run": "2s"}},
        "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": 1}}}]},
    }
    job: Document = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "short", "annotations": {"sim.stromboli.io/at": "4s"}},
        "spec": {"runningEstimate": "2s", "tasks": [{"name": "t", "replicas": 1, "template": template}]},
    }  # fmt: skip
    # Its pod is made when the Job is let in, in the cycle at 4, and seen in the next.
    assert scene(N1, BIG, job, reserve=THRESHOLD, backfill=USING).run().started["short-t-0"] == 5


def test_a_gang_is_let_in_whole_or_not_at_all() -> None:
    # One CPU is free on the node set aside, and two are wanted.
    outcome = scene(N1, BIG, gang("pair", 1, 1, at=4, run=2, estimate=2), reserve=THRESHOLD, backfill=USING).run()
    assert outcome.started == {"big": 8}


def test_an_empty_node_is_used_while_another_drains() -> None:
    # Both nodes are set aside for a gang; n1 is empty and n2 is in use until 12.
    documents = [
        node("n1", 3), node("n2", 3), pod("old", 3, on="n2", run=12, estimate=12), *gang("big", 3, 3, run=3),
        *(pod(f"short-{number}", at=4, run=4, estimate=4) for number in range(4)),
    ]  # fmt: skip
    outcome = scene(documents, reserve=EVERYWHERE, backfill=USING, until=13).run()
    assert [outcome.started[f"short-{number}"] for number in range(4)] == [4, 4, 4, 8]
    assert outcome.started["big-0"] == outcome.started["big-1"] == 12


def test_a_job_that_could_start_elsewhere_sooner_is_not_delayed_either() -> None:
    # n1 and n2 are set aside for a gang, as most is idle there: n1 is empty, n2 half full until 20. n3 is quite full,
    # but only until 9, and half of the nodes is two: at 9 the gang can start on n1 and n3. Something that stays on n1
    # until 12 would be gone long before n2 is free, and yet delay it.
    documents = [
        node("n1", 4), node("n2", 4), node("n3", 4), pod("old-2", 2, on="n2", run=20, estimate=20),
        pod("old-3", 4, on="n3", run=9, estimate=9), *gang("big", 4, 4, run=3),
        pod("long", at=4, run=8, estimate=8), pod("short", at=4, run=5, estimate=5),
    ]  # fmt: skip
    story = scene(documents, reserve=THRESHOLD, backfill=USING, until=12)
    assert story.at(3).reserved == {"n1": ["big"], "n2": ["big"]}
    outcome = story.run()
    assert outcome.started["big-0"] == outcome.started["big-1"] == 9
    assert outcome.started["short"] == 4
    assert outcome.started.get("long", 99) >= 9


def test_room_that_is_waited_for_is_used_meanwhile() -> None:
    # `mode: wait`: at 3 the gang counts on both CPUs, of which B has one until 12 and says so.
    documents = [
        node("n1", 2), pod("x", on="n1", run=3, estimate=3), *gang("a", 1, 1, run=4), pod("b", run=12, estimate=12),
        pod("c", at=4, run=5, estimate=5), pod("d", at=4, run=9, estimate=9), pod("e", at=4, run=2),
    ]  # fmt: skip
    waiting = {**LENDING, "mode": "wait"}
    story = scene(documents, backfill={**waiting, **USING}, until=14)
    outcome = story.run()
    assert outcome.started["c"] == 4
    assert outcome.started["a-0"] == outcome.started["a-1"] == 12
    assert not {"d", "e"} & outcome.started.keys()
    assert story.but(backfill=waiting).run().started["a-0"] == 12
    assert story.at(6).why("a-0")[0] == "ConditionallyReady"
    for second in range(14):
        assert story.run(restart(second)).text == outcome.text


@pytest.mark.parametrize("other", ["", "other"])
def test_a_queue_gets_no_more_than_it_deserves_by_it(other: str) -> None:
    # 3 CPUs and two queues. `default` has 2, deserves 1.5 at most once the other one asks for room, and so is refused;
    # the other one has nothing.
    short = pod("short", at=4, run=3, estimate=3, queue=other)
    documents = [queue("other"), N1, pod("big", 3, run=3, queue="other"), short]
    outcome = scene(*documents, reserve=THRESHOLD, backfill=USING, leave_out=("reclaim",)).run()
    assert (outcome.started.get("short") == 4) == bool(other)
    assert outcome.started["big"] == 8
