"""Locks prefer whole domains, among sets whose score is within a tenth of the best one.

Without any use, sets of equally many equal nodes have equal scores, and names decide. Racks take every second node, or
every fifth, so that names alone would break them all.
"""

from __future__ import annotations

from builders import node
from queue_locks.lock_objects import Setting, locking_queue


def equal_nodes(number: int, wanted: int, racks: int) -> Setting:
    found = Setting([node(f"n{row:02}", cpu=8) for row in range(number)], [locking_queue("q1", {"cpu": 8 * wanted})])
    for rack in range(racks):
        found.rack(f"r{rack}", *range(rack, number, racks))
    return found


def locked(setting: Setting) -> list[str]:
    setting.round(at=0)
    return setting.locked("q1")


def test_without_a_tree_names_decide() -> None:
    assert locked(equal_nodes(8, 4, racks=0)) == ["n00", "n01", "n02", "n03"]


def test_a_whole_rack_is_locked() -> None:
    assert locked(equal_nodes(8, 4, racks=2)) == ["n00", "n02", "n04", "n06"]


# The queue uses a half of n00 and of n01. With both, the set scores 0.4 + 0.35 · 1/4 + 0.15/4 + 0.1 · 3/4 = 0.6. The
# rack with one of them scores 0.4 + 0.35/8 + 0.15/4 + 0.1 · 7/8 = 0.56875, and 0.6 is 1.055 times that.
def test_it_may_cost_a_tenth_of_the_score() -> None:
    setting = equal_nodes(8, 4, racks=2)
    setting.use({0: (0.5, 0), 1: (0.5, 0)})
    assert locked(setting) == ["n00", "n02", "n04", "n06"]


# It uses all of both: 0.4 + 0.35/2 + 0.15/4 + 0.1/2 = 0.6625, and 0.4 + 0.35/4 + 0.15/4 + 0.1 · 3/4 = 0.6, so the first
# is 1.104 times the second.
def test_it_may_not_cost_more() -> None:
    setting = equal_nodes(8, 4, racks=2)
    setting.use({0: (1, 0), 1: (1, 0)})
    assert locked(setting) == ["n00", "n01", "n02", "n03"]


def test_of_many_nodes_one_rack_is_locked() -> None:
    assert locked(equal_nodes(40, 8, racks=5)) == [f"n{row:02}" for row in range(0, 40, 5)]


def test_of_many_nodes_two_racks_are_locked() -> None:
    # 16 of 40 nodes, in racks of 8
    found = {int(name[1:]) % 5 for name in locked(equal_nodes(40, 16, racks=5))}
    assert len(found) == 2


def test_what_is_locked_stays_when_the_tree_comes_later() -> None:
    setting = equal_nodes(8, 4, racks=0)
    before = locked(setting)
    setting.rack("r0", 0, 2, 4, 6)
    setting.round(at=5)
    assert setting.locked("q1") == before
