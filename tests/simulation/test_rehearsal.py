"""A rehearsal goes on as the cluster itself would."""

from __future__ import annotations

from pathlib import Path

import pytest

from stromboli.api import Pod, PodGroup, names
from stromboli.scheduling.registry import Registry
from stromboli.simulation.rehearsal import Rehearsal, objects_at, with_known_ends

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EPOCH = 946_684_800.0  # when a simulation begins


def started(file: str, job: str, after: float, *, seconds: float = 3600) -> float | None:
    """When a job starts, by a rehearsal of what an example has become after some time."""
    registry = Registry()
    configuration = registry.default()
    objects, now = objects_at([str(EXAMPLES / file)], after, registry, configuration)
    assert now == EPOCH + after
    outcome = Rehearsal(objects, now, registry, configuration).run(job, seconds=seconds)
    return None if outcome.started is None else outcome.started - EPOCH


# When the jobs start is what the simulator itself says, and what the documents show.
@pytest.mark.parametrize(
    ("file", "job", "start", "after"),
    [
        ("demo.yaml", "science/render", 12.0, (10.0, 11.0)),
        ("gang.yaml", "lab/training-2", 32.0, (0.0, 10.0, 16.0, 31.0)),
        ("starvation.yaml", "default/training", 72.0, (1.0, 36.0, 70.0)),
        ("preemption.yaml", "default/urgent", 13.0, (10.0, 11.0, 12.0)),
        ("backfill.yaml", "default/gang", 52.0, (2.0, 26.0)),
    ],
)
def test_a_job_starts_when_the_simulation_starts_it(
    file: str, job: str, start: float, after: tuple[float, ...]
) -> None:
    assert [started(file, job, moment) for moment in after] == [start] * len(after)


def test_a_short_rehearsal_does_not_look_beyond_its_end() -> None:
    """Cycles in which nothing happens are skipped, but not the end."""
    assert started("gang.yaml", "lab/training-2", 10.0, seconds=5) is None
    assert started("gang.yaml", "lab/training-2", 30.0, seconds=5) == 32.0


def test_a_job_that_runs_has_to_grow() -> None:
    """Seven pods of the crawler wait until the render job ends at 72 s."""
    assert started("demo.yaml", "web/crawler", 20.0) == 72.0


def test_what_is_submitted_is_refused_as_on_a_server() -> None:
    registry = Registry()
    configuration = registry.default()
    objects, now = objects_at([str(EXAMPLES / "gang.yaml")], 5.0, registry, configuration)
    job = next(obj for obj in objects if obj.kind == "Job")
    outcome = Rehearsal(objects, now, registry, configuration, submitted=[job]).run("lab/training-1", seconds=5)
    assert outcome.refused == "A Job of that name exists already."


def test_estimates_become_ends() -> None:
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace = "p", "ns"
    pod.metadata.annotations = {names.GROUP_NAME: "g", names.SIM_RUN: "soon"}
    group = PodGroup()
    group.metadata.name, group.metadata.namespace = "g", "ns"
    group.metadata.annotations = {names.ESTIMATE: "90s"}
    changed, _ = with_known_ends([pod, group])
    # What cannot be read says nothing, and the group's estimate counts.
    assert changed.metadata.annotations == {names.GROUP_NAME: "g", names.SIM_RUN: "1m30s"}
    assert pod.metadata.annotations[names.SIM_RUN] == "soon"
