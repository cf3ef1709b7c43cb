"""When things happen: the contract of virtual time."""

from pathlib import Path

import pytest

from simulation.scenario_runner import FirstFit, happened, run, run_text

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ns1, annotations: {{{annotations}}}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 3}}}}}}]}}
---
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4}}
---
"""


def pod(name: str, **annotations: str) -> str:
    said = ", ".join(f"sim.stromboli.io/{key.replace('_', '-')}: {value}" for key, value in annotations.items())
    return POD.format(name=name, annotations=said)


def test_a_pod_runs_from_its_bind_and_the_next_one_gets_its_room_in_the_cycle_of_its_end() -> None:
    # a 0..10, b 10..15, c comes at 12 and runs 15..105.
    report = run("one-node", "in-turn")
    assert happened(report, "Bound", "Finished") == [
        (0.0, "Bound", "ns1/a"),
        (10.0, "Finished", "ns1/a"),
        (10.0, "Bound", "ns1/b"),
        (15.0, "Finished", "ns1/b"),
        (15.0, "Bound", "ns1/c"),
        (105.0, "Finished", "ns1/c"),
    ]
    assert report["end"] == 105.0
    assert report["pods"]["ns1/b"] == {
        "phase": "Succeeded",
        "node": "n1",
        "queue": "default",
        "podGroup": report["pods"]["ns1/b"]["podGroup"],
        "backfill": False,
        "submitted": 0.0,
        "bound": 10.0,
        "finished": 15.0,
        "reason": "",
        "message": "",
    }
    assert report["pods"]["ns1/c"]["phase"] == "Failed"


def test_time_jumps_over_cycles_that_would_change_nothing() -> None:
    # b waits from 0 on and gets its room at 10, when a ends; c comes at 12, waits until 15 and ends at 105. One more
    # cycle follows each bind, and shows that nothing else changes.
    scheduler = FirstFit()
    run("one-node", "in-turn", scheduler=scheduler)
    assert scheduler.times == [0.0, 1.0, 10.0, 11.0, 12.0, 15.0, 16.0, 105.0]


def test_every_cycle_is_run_on_request_while_a_pod_waits() -> None:
    # b waits until 10, so 0..10 are all run. From 15 on nobody waits: one cycle to settle, then the end at 105.
    scheduler = FirstFit()
    run("one-node", "in-turn", scheduler=scheduler, every_cycle=True)
    assert scheduler.times == [*map(float, range(17)), 105.0]


def test_a_jump_lands_on_the_first_cycle_that_is_not_too_early(tmp_path: Path) -> None:
    # Period 2, due at 7.5: the cycle of 8 answers it. The one of 10 shows it settled.
    scheduler = FirstFit()
    run_text(tmp_path, NODE + pod("p", at="7.5s"), period=2, scheduler=scheduler)
    assert scheduler.times == [0.0, 8.0, 10.0]


def test_at_one_moment_pods_finish_then_leave_then_come_then_patches_then_restarts() -> None:
    # 4 CPUs, 2 taken. The pod of 8 fits in the cycle of 5 s only if the patch to 16 came before it; the second
    # b/leaves can be there only if the first had left.
    report = run("one-node", "same-time")
    assert [event for event in happened(report) if event[0] == 5.0] == [
        (5.0, "Finished", "z/ends"),
        (5.0, "Deleted", "b/leaves"),
        (5.0, "Submitted", "a/comes"),
        (5.0, "Submitted", "b/leaves"),
        (5.0, "Bound", "a/comes"),
        (5.0, "Bound", "b/leaves"),
    ]


def test_what_happens_between_two_cycles_has_its_own_time_and_is_answered_in_the_next(tmp_path: Path) -> None:
    # Created at 2.5, bound at 4 (period 2), runs 1.5: finished at 5.5.
    report = run_text(tmp_path, NODE + pod("p", at="2.5s", run="1500ms"), period=2)
    assert report["pods"]["ns1/p"] | {"podGroup": ""} == {
        "phase": "Succeeded", "node": "n1", "queue": "default", "podGroup": "", "backfill": False,
        "submitted": 2.5, "bound": 4.0, "finished": 5.5, "reason": "", "message": "",
    }  # fmt: skip


def test_fractions_of_a_second_add_up_exactly(tmp_path: Path) -> None:
    # Three pods of 0.7 s in turn: 0, 0.7, 1.4, 2.1. In floats 0.7 + 0.7 + 0.7 is less than 2.1.
    pods = "".join(pod(name, run="0.7") for name in ("a", "b", "c"))
    report = run_text(tmp_path, NODE + pods, period=0.7)
    assert [report["pods"][f"ns1/{name}"]["finished"] for name in ("a", "b", "c")] == [0.7, 1.4, 2.1]


def test_a_run_goes_on_to_until_and_includes_it(tmp_path: Path) -> None:
    report = run_text(tmp_path, NODE + pod("p", at="20s"), until=20)
    assert report["end"] == 20.0
    assert report["pods"]["ns1/p"]["bound"] == 20.0


def test_what_is_due_after_the_last_cycle_still_happens_but_is_not_answered(tmp_path: Path) -> None:
    # Cycles at 0, 5 and 10; a ends at 11, b is there from 12 on, the run is over at 12.
    report = run_text(tmp_path, NODE + pod("a", run="11s") + pod("b", at="12s"), period=5, until=12)
    assert report["end"] == 12.0
    assert report["pods"]["ns1/a"]["finished"] == 11.0
    assert report["pods"]["ns1/b"]["phase"] == "Pending"


def test_nothing_after_until_happens(tmp_path: Path) -> None:
    report = run_text(tmp_path, NODE + pod("a", run="5s") + pod("b", at="5s"), until=4)
    assert report["pods"]["ns1/a"]["phase"] == "Running"
    assert "ns1/b" not in report["pods"]


def test_a_run_ends_although_a_pod_can_never_run(tmp_path: Path) -> None:
    report = run_text(tmp_path, NODE + pod("a") + pod("b"))
    assert report["pods"]["ns1/a"]["phase"] == "Running"
    waiting = report["pods"]["ns1/b"]
    assert (waiting["phase"], waiting["reason"], waiting["message"]) == (
        "Pending", "InsufficientNode", "No node has room.",
    )  # fmt: skip
    assert report["end"] == 0.0


@pytest.mark.parametrize("at", ["90", "90s", "1m30s", "1.5m", "90000ms"])
def test_a_duration_may_be_written_in_many_ways(tmp_path: Path, at: str) -> None:
    report = run_text(tmp_path, NODE + pod("p", at=at))
    assert report["pods"]["ns1/p"]["submitted"] == 90.0


def test_an_empty_scenario_is_over_at_once(tmp_path: Path) -> None:
    report = run_text(tmp_path, "# nothing\n")
    assert (report["end"], report["events"], list(report["queues"])) == (0.0, [], ["default"])
