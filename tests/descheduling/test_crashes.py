"""A descheduler that is killed after any of its writes: the next one resumes the moves, or undoes them.

The writes of a whole story are counted. It is told again once for each of them, and the process ends right after that
write: the rest of the pass is lost, and a new descheduler starts from the objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from descheduling.decision_scenes import NO_SUCCESSOR, STATE
from descheduling.scenes import Outcome, Scene
from descheduling.test_decisions import MOTIVATING
from stromboli.descheduling import Write
from stromboli.simulation.descheduler_component import DeschedulerComponent
from stromboli.simulation.virtual_time import Microseconds


def motivating_is_whole(outcome: Outcome) -> bool:
    """Both moves are complete and the job has run; or nothing moved."""
    running = [len(outcome.running_on(name)) for name in "abc"]
    done = outcome.report["jobs"]["default/big"]["phase"] == "Completed"
    return (running, done) in (([8, 4, 8], True), ([7, 6, 7], False))


def gang_is_whole(outcome: Outcome) -> bool:
    running = [len(outcome.running_on(name)) for name in "ab"]
    return running in ([8, 0], [6, 2]) and min(outcome.running_over_time("g-")[4:], default=4) >= 2


def set_is_gone(outcome: Outcome) -> bool:
    return [len(outcome.running_on(name)) for name in "ab"] == [6, 0]


STORIES: dict[str, tuple[Scene, Callable[[Outcome], bool]]] = {
    "for a job": (MOTIVATING, motivating_is_whole),
    "of a gang": (STATE, gang_is_whole),
    "without a successor": (NO_SUCCESSOR, set_is_gone),
}


class Crash:
    """Ends the descheduler after its `after`th write, once; counts all writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int | None = None) -> None:
        self.count = 0
        self.happened = False
        carry_out = DeschedulerComponent._carry_out

        def carry_out_until_the_crash(component: DeschedulerComponent, writes: list[Write], at: Microseconds) -> None:
            left = len(writes) if after is None or self.happened else after - self.count
            carry_out(component, writes[: max(0, left)], at)
            self.count += min(len(writes), max(0, left))
            if writes and left <= len(writes) and after is not None and not self.happened:
                self.happened = True
                component.restart()

        monkeypatch.setattr(DeschedulerComponent, "_carry_out", carry_out_until_the_crash)


def writes_of(scene: Scene) -> int:
    with pytest.MonkeyPatch.context() as patch:
        crash = Crash(patch)
        assert scene.but().outcome
    return crash.count


@pytest.mark.parametrize("story", STORIES)
def test_a_crash_after_any_write(story: str) -> None:
    scene, is_whole = STORIES[story]
    total = writes_of(scene)
    assert total > 5
    for after in range(1, total + 1):
        with pytest.MonkeyPatch.context() as patch:
            crash = Crash(patch, after)
            outcome = scene.but().outcome
        assert crash.happened, after
        for kind in ("Evicted", "ReservationAvailable"):
            counts = Counter(name for _, _, name, _ in outcome.events(kind))
            assert all(count == 1 for count in counts.values()), (after, kind, counts)
        assert outcome.held == [], after
        assert is_whole(outcome), after
