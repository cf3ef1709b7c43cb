"""What comes of each story."""

from __future__ import annotations

from starvation.stories import LENDING, STORIES


def test_a_gang_that_needs_more_nodes_than_may_be_set_aside_is_told_so_once() -> None:
    # Two nodes, half of them may be set aside: one. The gang needs both.
    outcome = STORIES["X3, half of the nodes"].run()
    assert outcome.warnings("ReservationLimitExceeded") == [(3.0, "big")]
    assert "big-0" not in [name for _, name in outcome.happened("Reserved")]
    (message,) = [event["message"] for event in outcome.report["events"] if event["type"] == "Warning"]
    assert "at most 1 may be reserved" in message
    conditions = STORIES["X3, half of the nodes"].at(5).report["podGroups"]["default/big"]["conditions"]
    assert {c["reason"] for c in conditions if c["type"] == "Starving"} == {"ReservationLimitExceeded"}


def test_a_gang_gets_all_its_nodes_set_aside_where_that_is_allowed() -> None:
    story = STORIES["X3, all nodes"]
    outcome = story.run()
    assert outcome.happened("Reserved")[:2] == [(3.0, "big-0"), (3.0, "big-1")]
    assert story.at(7).reserved == {"n1": ["big"], "n2": ["big"]}
    assert "small" not in story.at(7).started  # one CPU would have done at 7, when the first node was empty
    assert outcome.started["big-0"] == outcome.started["big-1"] == 8
    assert outcome.warnings("ReservationLimitExceeded") == []


def test_when_the_holder_is_deleted_others_use_the_node_in_the_same_cycle() -> None:
    outcome = STORIES["X4"].run()
    assert outcome.happened("Reserved") == [(3.0, "big")]
    assert outcome.happened("Unreserved") == [(6.0, "big")]
    assert outcome.started == {"small": 6.0}
    assert outcome.report["reservations"] == {}


def test_what_is_set_aside_yields_to_a_higher_priority() -> None:
    # At 5 two of three CPUs are idle and kept for pod-4. The urgent pod wants two and runs until 8.
    outcome = STORIES["X5"].run()
    assert outcome.started["urgent"] == 5
    assert outcome.happened("Unreserved")[0] == (5.0, "pod-4")
    assert outcome.started["pod-4"] == 8
    # Set aside again in the first cycle in which no higher one found a place. In that one 6 came first, not 7 any more.
    assert outcome.happened("Reserved")[:2] == [(3.0, "pod-4"), (6.0, "pod-4")]
    assert outcome.started["pod-6"] == 6
    assert "pod-7" not in outcome.started


def test_unless_it_is_told_not_to_yield() -> None:
    outcome = STORIES["X5, without yielding"].run()
    assert outcome.started["pod-4"] == 6
    assert "urgent" not in outcome.started


def test_pods_that_ask_for_nothing_start_on_nodes_set_aside() -> None:
    outcome = STORIES["X6"].run()
    assert outcome.started["nothing"] == 5
    assert outcome.nodes["nothing"] == "n1"
    assert outcome.started["big"] == 8  # and does not have to wait for it: it ends at 8, but holds nothing
    assert "small" not in outcome.started


def test_borrowers_on_a_node_set_aside_have_no_successors() -> None:
    # Two of three CPUs are in use until 8; the gang of three finds one, which B borrows until 5. It starves at 4.
    waiting = STORIES["X15"]
    outcome = waiting.run()
    assert outcome.pod("b")["backfill"]
    assert outcome.happened("Reserved")[:3] == [(4.0, "a-0"), (4.0, "a-1"), (4.0, "a-2")]
    assert waiting.at(7).running == {"x"}  # the stream has been there since 1, and a CPU is free since 5
    assert {outcome.started[f"a-{number}"] for number in range(3)} == {8}


def test_borrowers_on_a_node_set_aside_go_when_the_holder_could_start() -> None:
    # As above, but B would run until 20: it is evicted when X has ended, not before.
    story = STORIES["X15"]
    documents = [document for document in story.documents if document["metadata"]["name"] != "b"]
    patient = [document for document in story.documents if document["metadata"]["name"] == "b"]
    patient[0]["metadata"]["annotations"] = {"sim.stromboli.io/run": "20s"}
    outcome = story.but(documents=[*documents, *patient], backfill=LENDING).run()
    assert outcome.happened("Evicted") == [(8.0, "b")]
    assert {outcome.started[f"a-{number}"] for number in range(3)} == {9}


def test_both_pods_of_a_job_on_one_node() -> None:
    # 2 + 1 CPUs on a node of 3, of which 1 is in use until 6.
    outcome = STORIES["RS1"].run()
    assert outcome.happened("Reserved")[:2] == [(2.0, "pg2-0"), (2.0, "pg2-1")]
    assert STORIES["RS1"].at(5).reserved == {"n1": ["pg2"]}
    assert outcome.started == {"pg2-0": 6.0, "pg2-1": 6.0}


def test_nothing_is_kept_for_a_job_that_would_not_fit_an_empty_cluster() -> None:
    # 2 + 2 CPUs never fit 3, so the small pod has the node.
    outcome = STORIES["RS2"].run()
    assert outcome.happened("Reserved") == []
    assert outcome.started == {"small": 4.0}
    assert outcome.warnings("ReservationLimitExceeded") == []


def test_the_least_used_nodes_are_set_aside() -> None:
    # 2, 1 and 1.5 CPUs are in use; of three nodes ceil(1.5) = 2 may be set aside.
    assert STORIES["RS3"].at(4).reserved == {"n2": ["pg2"], "n3": ["pg2"]}
    # 4, 3, 2 and 1 of five are in use, cores and memory alike: 6.67, 13.33, 20 and 26.67.
    assert STORIES["RS5"].at(4).reserved == {"n3": ["pg2"], "n4": ["pg2"]}


def test_all_or_nothing() -> None:
    # Three nodes are needed, two of four may be set aside.
    outcome = STORIES["RS4"].run()
    assert outcome.happened("Reserved") == []
    assert outcome.warnings("ReservationLimitExceeded") == [(2.0, "pg2")]
