"""Every checker sees what it is there for: a true run is in order, and the same run with one thing forged is not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from all_features.case import Case, case_of
from all_features.checkers import repetition
from all_features.generator.documents import restart
from all_features.generator.draw import draw
from all_features.history import Life
from all_features.judge import CHECKERS
from all_features.verdict import Verdict
from all_features.world import Document, Run, World

SEED = 406  # a world in which all of this happens
ABOVE_ITS_LIMIT = 20273  # a world that puts pods on nodes beyond the limit of their queue, and moves them


@cache
def true_run() -> Run:
    return draw(SEED).observe()


def findings(run: Run, checker: str) -> list[str]:
    verdict = Verdict()
    CHECKERS[checker](case_of(run), verdict)
    return [found.text for found in verdict.findings if found.check == checker]


def forged(change: Callable[[Run], object], documents: Callable[[list[Document]], object] | None = None) -> Run:
    """A copy of the run that somebody changed, and perhaps of the documents that it is said to come from."""
    run = true_run()
    world = World(deepcopy(run.world.documents), run.world.config, run.world.policy, run.world.until)
    if documents is not None:
        documents(world.documents)
    copy = replace(run, world=world, samples=deepcopy(run.samples))
    copy.report = deepcopy(run.report)
    change(copy)
    return copy


def nothing(run: Run) -> None:
    pass


def outage(component: str) -> Document:
    """It is away all the time."""
    return restart(0, component, 1000)


def case() -> Case:
    return case_of(true_run())


def exact_gang() -> Life:
    """A member of a gang that needs all of its pods, and runs to its end."""
    lives = [life for life in case().history.lives if life.pod.unit.is_gang and life.how == "Finished"]
    members = Counter(life.pod.unit.name for life in lives)
    return next(life for life in lives if 1 < life.pod.unit.least == members[life.pod.unit.name])


@pytest.mark.parametrize("checker", sorted(CHECKERS))
def test_a_true_run_is_in_order(checker: str) -> None:
    assert findings(true_run(), checker) == []


def test_a_pod_on_a_node_that_is_gone() -> None:
    def move(run: Run) -> None:
        next(event for event in run.report["events"] if event["type"] == "Bound")["node"] = "elsewhere"

    assert any("does not exist" in text for text in findings(forged(move), "ledger"))


def test_a_node_that_is_too_full() -> None:
    def shrink(documents: list[Document]) -> None:
        for document in documents:
            if document["kind"] == "Node":
                document["status"]["allocatable"]["pods"] = 1

    assert any("request" in text for text in findings(forged(nothing, shrink), "ledger"))


def test_half_a_gang() -> None:
    start = exact_gang()

    def leave_out(run: Run) -> None:
        run.report["events"] = [
            event for event in run.report["events"]
            if not (event["type"] == "Bound" and event["object"] == start.pod.key)
        ]  # fmt: skip

    assert any(start.pod.unit.name in text for text in findings(forged(leave_out), "gangs"))


def test_part_of_a_gang_is_evicted() -> None:
    victim = exact_gang()

    def evict(run: Run) -> None:
        event = next(
            event for event in run.report["events"]
            if event["type"] == "Finished" and event["object"] == victim.pod.key
        )  # fmt: skip
        event |= {"type": "Evicted", "reason": "Preempted", "t": victim.start + 1}
        run.report["events"].sort(key=lambda event: event["t"])

    assert any("go, and" in text for text in findings(forged(evict), "gangs"))


def test_a_queue_above_its_limit() -> None:
    def limit(documents: list[Document]) -> None:
        for document in documents:
            if document["kind"] == "Queue":
                document["spec"]["capability"] = {"cpu": "100m"}

    assert any("uses" in text for text in findings(forged(nothing, limit), "quotas"))


def test_books_that_count_twice_or_forget() -> None:
    def count_twice(run: Run) -> None:
        for sample in run.samples:
            for told in sample["queues"].values():
                told["allocated"] = {"cpu": "1000"}

    def forget(run: Run) -> None:
        for sample in run.samples:
            for told in sample["queues"].values():
                told["allocated"] = {}

    assert any("more than all nodes" in text for text in findings(forged(count_twice), "books"))
    assert any("than its books say" in text for text in findings(forged(forget), "books"))


def test_a_pod_of_another_queue_on_a_locked_node() -> None:
    def lock(run: Run) -> None:
        nodes = {event["node"] for event in run.report["events"] if event["type"] == "Bound"}
        lock = {"t": 0.0, "type": "Locked", "object": "nobody", "reason": "", "message": ""}
        locks = [{**lock, "node": node} for node in sorted(nodes)]
        others = [
            event for event in run.report["events"]
            if event["type"] not in ("Locked", "Unlocked", "ReservationAvailable", "Reserved")
        ]  # fmt: skip
        run.report["events"] = [*locks, *others]

    assert any("locked for nobody" in text for text in findings(forged(lock), "locks"))


@pytest.mark.parametrize(("away", "taken_back"), [("controllers", True), ("controllers", False), ("scheduler", True)])
def test_a_lock_whose_guarantee_was_taken_back_while_the_controllers_are_away(away: str, taken_back: bool) -> None:
    """The lock is over then, and only then, though nobody says so."""

    def lock(run: Run) -> None:
        nodes = {event["node"] for event in run.report["events"] if event["type"] == "Bound"}
        lock = {"t": 0.0, "type": "Locked", "object": "clinic", "reason": "", "message": ""}
        kinds = ("Submitted", "Bound", "Finished", "Deleted")
        others = [event for event in run.report["events"] if event["type"] in kinds]
        run.report["events"] = [*({**lock, "node": node} for node in sorted(nodes)), *others]

    def take_back(documents: list[Document]) -> None:
        edits = [one for one in documents if one["kind"] == "Patch" and one["target"]["kind"] == "Queue"]
        documents[:] = [*(one for one in documents if one not in edits), outage(away)]
        for document in documents:
            if document["kind"] == "Queue" and taken_back:
                document["spec"].pop("guarantee", None)

    found = [text for text in findings(forged(lock, take_back), "locks") if "locked for clinic" in text]
    assert bool(found) != (away == "controllers" and taken_back)


def test_moves_of_a_queue_that_the_scenario_put_above_its_limit() -> None:
    """Two pods of 2 CPUs are moved, of a queue that may have 3. A pod that is not the successor of one is too many."""
    world = draw(ABOVE_ITS_LIMIT)
    run = world.observe()
    assert findings(run, "quotas") == []
    run.report["events"] = [event for event in run.report["events"] if event["type"] != "ReservationSucceeded"]
    assert any("queue limited uses 4000 of 3000 cpu" in text for text in findings(run, "quotas"))


@pytest.mark.parametrize(
    ("away", "is_seen"), [("descheduler", True), ("scheduler", False), ("controllers", False), ("all", False)]
)
def test_the_amounts_of_reservations_are_judged_unless_who_writes_them_is_away(away: str, is_seen: bool) -> None:
    def miscount(run: Run) -> None:
        for sample in run.samples:
            for told in sample["reservations"].values():
                told["allocated"] = {"cpu": "77"}

    texts = findings(forged(miscount, lambda documents: documents.append(outage(away))), "reservations")
    assert any("allocated, and its users request" in text for text in texts) == is_seen
    assert any(", and Reservations there have" in text for text in texts) == is_seen


@pytest.mark.parametrize(("away", "is_seen"), [("descheduler", True), ("scheduler", True), ("controllers", False)])
def test_reservations_end_in_time_unless_the_controllers_are_away(away: str, is_seen: bool) -> None:
    def shorten(documents: list[Document]) -> None:
        for document in documents:
            if document["kind"] == "Reservation":
                document["spec"]["ttl"] = "1s"
        documents.append(outage(away))

    def lose_nodes(run: Run) -> None:
        for sample in run.samples:
            sample["nodes"] = {}

    texts = findings(forged(lose_nodes, shorten), "reservations")
    assert any("is Available after its time" in text for text in texts) == is_seen
    assert any("which does not exist" in text for text in texts) == is_seen


def test_a_stranger_uses_a_reservation() -> None:
    def use(run: Run) -> None:
        stranger = next(name for name in run.report["pods"] if "/st" in name)
        for sample in run.samples:
            for told in sample["reservations"].values():
                told["owners"] = [stranger]

    assert any("uses" in text for text in findings(forged(use), "reservations"))


def test_a_volume_for_two_claims() -> None:
    def share(run: Run) -> None:
        for sample in run.samples:
            for told in sample["claims"].values():
                told |= {"phase": "Bound", "volume": "one-for-all"}

    assert any("is the volume of" in text for text in findings(forged(share), "volumes"))


def test_a_broken_budget() -> None:
    def want_more(documents: list[Document]) -> None:
        for document in documents:
            if document["kind"] == "PodDisruptionBudget":
                spec = document["spec"]
                spec.pop("maxUnavailable", None)
                spec["minAvailable"] = 9

    assert any("wants 9" in text for text in findings(forged(nothing, want_more), "budgets"))


def test_a_move_without_an_end_and_what_it_leaves() -> None:
    def forget(run: Run) -> None:
        ends = ("MigrationSucceeded", "MigrationFailed")
        run.report["events"] = [event for event in run.report["events"] if event["type"] not in ends]

    def leave(run: Run) -> None:
        run.report["reservations"]["migration-x"] = {
            "phase": "Available", "node": "n0", "allocatable": {}, "allocated": {}, "owners": [],
        }  # fmt: skip

    assert any("has no end" in text for text in findings(forged(forget), "moves"))
    assert any("is left of a move" in text for text in findings(forged(leave), "moves"))


def test_a_sentence_that_does_not_add_up_and_a_pod_without_one() -> None:
    def miscount(run: Run) -> None:
        for told in run.report["pods"].values():
            told["message"] = f"0 of {len(run.report['nodes'])} nodes are available: 1 cordoned."

    def silence(run: Run) -> None:
        for told in run.report["pods"].values():
            told["message"] = ""

    assert any("are not" in text for text in findings(forged(miscount), "explanations"))
    assert any("without a message" in text for text in findings(forged(silence), "explanations"))


def test_somebody_waits_who_fits() -> None:
    def empty(run: Run) -> None:
        for told in run.report["nodes"].values():
            told |= {"used": {}, "held": {}, "reservedFor": [], "lockedBy": None, "promised": {}}
        for told in run.report["queues"].values():
            told["allocated"] = {}

    def lift(documents: list[Document]) -> None:
        for document in documents:
            if document["kind"] == "Queue":
                document["spec"] = {"weight": 1}

    assert any("would fit" in text for text in findings(forged(empty, lift), "liveness"))


def test_room_that_is_kept_for_ever() -> None:
    def keep(run: Run) -> None:
        next(iter(run.report["nodes"].values()))["promised"] = {"cpu": "1"}

    assert any("nobody leaves" in text for text in findings(forged(keep), "promises"))


def test_too_many_nodes_set_aside() -> None:
    def set_aside(run: Run) -> None:
        pods = sorted({event["object"] for event in run.report["events"] if event["type"] == "Submitted"})
        first = run.report["events"][0]
        run.report["events"] = [
            *({**first, "t": 0.0, "type": "Reserved", "object": pod, "node": "n0"} for pod in pods),
            *run.report["events"],
        ]

    assert any("is set aside for" in text for text in findings(forged(set_aside), "starvation"))


def test_another_output_of_the_same_world() -> None:
    def change(run: Run) -> None:
        run.report["events"][0]["t"] = 77.0

    run, verdict = forged(change), Verdict()
    run.text = json.dumps(run.report).encode()
    repetition.check(run, SEED, verdict)
    assert [found.check for found in verdict.findings] == ["repetition"]
