"""What a queue has is, for people, what it has together with the queues below it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from builders import cluster, group, node, pod, queue
from queue_locks import lock_scenes
from queue_locks.lock_scenes import Document, play, pods
from stromboli.cluster import Queue
from stromboli.cluster.queue_index import with_queues_below
from stromboli.insight.inspection import take_picture
from stromboli.kube.scheduler.state_metrics import state_of
from stromboli.scheduling.decisions import Cycle

TREE = [
    lock_scenes.queue("top"),
    lock_scenes.queue("eng", parent="top"),
    lock_scenes.queue("dev", parent="eng"),
    lock_scenes.queue("prod", parent="eng"),
    lock_scenes.queue("sales", parent="top"),
]


def has(report: Document) -> dict[str, str]:
    return {name: told["allocated"].get("cpu", "0") for name, told in report["queues"].items()}


@pytest.mark.parametrize(("sharing", "tree"), [("capacity", True), ("proportion", False)])
def test_the_report_adds_up_what_is_below(sharing: str, tree: bool) -> None:
    """dev 3, prod 2, sales 1: eng has 5, and top 6."""
    outcome = play(
        lock_scenes.node("n1", 8), TREE, pods("a", 3, queue="dev"), pods("b", 2, queue="prod"),
        pods("c", 1, queue="sales"), sharing=sharing, tree=tree,
    )  # fmt: skip
    assert has(outcome.report) == {"default": "0", "dev": "3", "eng": "5", "prod": "2", "sales": "1", "top": "6"}


def test_so_do_the_page_the_metrics_and_the_status() -> None:
    known = cluster(
        node("n1", cpu=8), queue("top"), queue("eng", parent="top"), queue("dev", parent="eng"),
        group("a", queue="dev"), pod("a", group="a", cpu=2, node="n1"), pod("w", group="a", cpu=3),
    )  # fmt: skip
    picture = {one.name: one for one in take_picture(known, (), 0.0).queues}
    assert [picture[name].allocated for name in ("dev", "eng", "top")] == [{"cpu": 2000}] * 3
    assert [picture[name].waiting for name in ("dev", "eng", "top")] == [{"cpu": 3000}] * 3
    state = state_of(known, Cycle()).queues
    assert [int(state[name].allocated[0]) for name in ("dev", "eng", "top")] == [2000] * 3


def test_a_queue_named_root_is_above_all_others() -> None:
    known = cluster(
        node("n1", cpu=8), queue("root"), queue("dev"), group("a", queue="dev"), pod("a", group="a", cpu=2, node="n1"),
    )  # fmt: skip
    assert _sums(known.queues.values()) == {"default": 0, "dev": 2000, "root": 2000}


def test_queues_that_are_each_others_parents_are_added_up_once() -> None:
    known = cluster(
        node("n1", cpu=8), queue("one", parent="two"), queue("two", parent="one"),
        group("a", queue="one"), pod("a", group="a", cpu=2, node="n1"),
        group("b", queue="two"), pod("b", group="b", cpu=1, node="n1"),
    )  # fmt: skip
    assert _sums(known.queues.values()) == {"default": 0, "one": 3000, "two": 3000}


def _sums(queues: Collection[Queue]) -> dict[str, int]:
    return {str(name): int(amount[0]) for name, amount in with_queues_below(queues, lambda q: q.allocated).items()}
