"""How long the live scheduler leaves an object alone after errors on it, told by what it sees of the object."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from builders import cluster, group
from stromboli.api import PodGroup
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted
from stromboli.containment import ContainedError, ObjectRef
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.containment import LiveContainment

ODD = ObjectRef("PodGroup", "ns/odd")
GROUP = group("ns/odd", min_member=2)
LARGER = replace(GROUP, spec=replace(GROUP.spec, min_member=3))
COUNTED = replace(GROUP, status=replace(GROUP.status, running=1))


@pytest.fixture
def charged() -> tuple[LiveContainment, Cluster]:
    """Three errors, the last one at 10: the group is put aside for four seconds."""
    containment = LiveContainment(ErrorReporter("test", None))
    for at in (1.0, 3.0, 10.0):
        containment.charge([ContainedError(ODD, "ValueError", "boom", "a.py:1", "")], at)
    known = cluster(GROUP)
    known.set_aside({ODD: False})
    return containment, known


@pytest.mark.parametrize(
    ("event", "until"),
    [
        (Applied(LARGER), 11.0),  # the change may be the remedy, but not more often than once in a second
        (Applied(COUNTED), 14.0),  # what a controller counted is none
        (Deleted(GROUP), 10.0),
        (Applied(group("ns/other")), 14.0),
    ],
)
def test_an_object_that_changes_is_tried_again_soon(
    charged: tuple[LiveContainment, Cluster], event: ClusterEvent, until: float
) -> None:
    containment, known = charged
    containment.observe(event, known)
    assert [at for at in range(10, 20) if ODD in containment.inputs(at).put_aside] == list(range(10, int(until)))


def test_an_object_that_cannot_be_applied_is_left_out_until_it_changes() -> None:
    containment, error = LiveContainment(ErrorReporter("test", None)), ContainedError(ODD, "E", "boom", "a.py:1", "")
    other: ClusterEvent = Applied(group("ns/other"))
    assert containment.cannot_apply(GROUP, error)
    assert not containment.cannot_apply(GROUP, error), "there is nothing more to leave out"
    assert containment.without_broken([Applied(GROUP), other]) == [other]
    assert containment.without_broken([Applied(LARGER), other]) == [Applied(LARGER), other]
    same: PodGroup = GROUP
    assert containment.without_broken([Applied(same)]) == [Applied(same)], "the other version was applied meanwhile"
