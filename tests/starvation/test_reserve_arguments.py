"""What the arguments of the reserve action may be. A mistake is an error with the name of the key, not a rule."""

from __future__ import annotations

import pytest

from stromboli.scheduling.configuration import Arguments, ConfigurationError
from stromboli.scheduling.starvation.reserve_arguments import ReserveRules


def read(key: str, value: object) -> ReserveRules:
    return ReserveRules.read(Arguments({key: value}, lines={key: 3}, owner='action "reserve"', where="scheduler.yaml"))


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("starvingJobTimeThreshold", 0, None),
        ("reservedNodePercent", 0, 100),
        ("maxHolders", 0, None),
        ("reservationTimeout", 0, None),
    ],
)
def test_amounts_have_limits(key: str, least: float, most: float | None) -> None:
    for value in (least, *([] if most is None else [most])):
        read(key, value)
    for value in (least - 1, *([] if most is None else [most + 1])):
        with pytest.raises(ConfigurationError, match=key):
            read(key, value)


def test_a_reservation_times_out_after_the_threshold_unless_it_says_otherwise() -> None:
    assert read("starvingJobTimeThreshold", 60).timeout == 60
    assert read("reservationTimeout", 60).threshold == 172_800


@pytest.mark.parametrize(("key", "value"), [("reservedNodePercent", 0), ("maxHolders", 0)])
def test_nothing_is_set_aside_on_no_nodes_or_for_no_jobs(key: str, value: object) -> None:
    assert not read(key, value).sets_aside
    assert read(key, 1).sets_aside
