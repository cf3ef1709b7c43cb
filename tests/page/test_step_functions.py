"""Values over time keep the area under their curve when they are thinned."""

from __future__ import annotations

import pytest

from stromboli.page import StepFunction, thinned


def test_amounts_come_and_go() -> None:
    function = StepFunction()
    function.add(3, 0.0, 10.0)
    function.add(2, 5.0, 20.0)
    function.add(9, 7.0, 7.0)  # over when it begins
    assert function.times() == {0.0, 5.0, 10.0, 20.0}
    assert function.values([0.0, 4.0, 5.0, 10.0, 20.0]) == [3.0, 3.0, 5.0, 2.0, 0.0]


def test_amounts_that_cancel_out_are_no_step() -> None:
    function = StepFunction()
    function.add(1, 0.0, 5.0)
    function.add(1, 5.0, 9.0)
    assert function.times() == {0.0, 9.0}


def test_few_steps_stay_as_they_are() -> None:
    times, values = thinned([0.0, 1.0, 5.0], {"a": [1.0, 2.0, 3.0]}, 10.0, most=3)
    assert (times, values) == ([0.0, 1.0, 5.0], {"a": [1.0, 2.0, 3.0]})


def test_many_steps_become_means() -> None:
    """Four steps in two intervals of 5 s: (1 s × 10 + 4 s × 0) / 5 = 2, and (3 s × 4 + 2 s × 1) / 5 = 2.8."""
    times, values = thinned([0.0, 1.0, 5.0, 8.0], {"a": [10.0, 0.0, 4.0, 1.0]}, 10.0, most=2)
    assert times == [0.0, 5.0]
    assert values["a"] == [2.0, 2.8]


def test_thinning_keeps_the_area() -> None:
    starts = [number * 0.37 for number in range(1000)]
    column = [float(number * 7919 % 13) for number in range(1000)]
    area = sum(value * 0.37 for value in column)
    times, values = thinned(starts, {"a": column}, 370.0, most=40)
    assert len(times) == 40
    assert sum(values["a"]) * 370.0 / 40 == pytest.approx(area, rel=1e-5)
