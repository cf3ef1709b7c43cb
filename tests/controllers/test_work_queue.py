"""The work queue: which keys a pass visits."""

from __future__ import annotations

from random import Random

from stromboli.controllers.work_queue import WorkQueue


def test_each_added_key_is_taken_once_and_in_order() -> None:
    queue = WorkQueue()
    for key in ("b", "a", "b"):
        queue.add(key)
    queue.add_all(["c", "a"])
    assert len(queue) == 3
    assert queue.take(0.0) == ["a", "b", "c"]
    assert queue.take(0.0) == []


def test_a_key_is_taken_when_it_is_due() -> None:
    queue = WorkQueue()
    queue.set_due("a", 10.0)
    queue.set_due("b", 5.0)
    assert (queue.take(4.9), queue.next_due(4.9)) == ([], 5.0)
    assert (queue.take(5.0), queue.next_due(5.0)) == (["b"], 10.0)
    assert (queue.take(10.0), queue.next_due(10.0)) == (["a"], None)


def test_a_later_time_replaces_an_earlier_one_and_none_removes_it() -> None:
    queue = WorkQueue()
    queue.set_due("a", 5.0)
    queue.set_due("a", 8.0)
    queue.set_due("b", 6.0)
    queue.set_due("b", None)
    assert queue.next_due(0.0) == 8.0
    assert queue.take(7.0) == []
    assert queue.take(8.0) == ["a"]


def test_a_time_that_has_passed_is_not_the_next_one() -> None:
    queue = WorkQueue()
    queue.set_due("a", 5.0)
    queue.set_due("b", 9.0)
    assert queue.next_due(5.0) == 9.0


def test_it_agrees_with_a_dictionary_of_times() -> None:
    """A thousand random steps, with times set again and again for a few keys."""
    dice = Random(4)
    queue = WorkQueue()
    added: set[str] = set()
    dues: dict[str, float] = {}
    now = 0.0
    for _ in range(1000):
        key = dice.choice("abcdef")
        match dice.randrange(4):
            case 0:
                queue.add(key)
                added.add(key)
            case 1 | 2:
                due = dice.choice([None, now + dice.randint(1, 20)])
                queue.set_due(key, due)
                dues.pop(key, None)
                if due is not None:
                    dues[key] = due
            case 3:
                now += dice.randint(0, 3)
                ready = {key for key, due in dues.items() if due <= now}
                assert queue.take(now) == sorted(added | ready)
                added.clear()
                dues = {key: due for key, due in dues.items() if due > now}
                assert queue.next_due(now) == min(dues.values(), default=None)
