"""What the page knows beyond the objects: codes of reasons, and when waiting jobs are expected to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import count
from threading import Event
from typing import Any

from msgspec.structs import replace

from builders import START, established, group, node, pod, queue
from stromboli.api import KObject, Pod, names
from stromboli.api.timestamps import format_timestamp
from stromboli.console.whatif.page_answers import PageAnswers
from stromboli.insight import State
from stromboli.kube.page_server.outlook import ExpectedRun, Outlook, look_ahead
from stromboli.kube.page_server.trials import Trials
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry


def estimated(described: Pod, seconds: int, *, since: float | None = None) -> Pod:
    notes = {**described.metadata.annotations, names.ESTIMATE: f"{seconds}s"}
    described = replace(described, metadata=replace(described.metadata, annotations=notes))
    if since is None:
        return described
    status = replace(described.status, phase="Running", start_time=format_timestamp(START + since))
    return replace(described, status=status)


def ahead(*objects: KObject) -> Outlook:
    registry = Registry()
    everything = [established(obj, number) for number, obj in enumerate([*objects, queue("default")])]
    state = State(everything, START + 10)
    return look_ahead(state, Scheduler(registry.default(), registry), PageAnswers())


def test_a_waiting_job_is_expected_when_another_ends() -> None:
    # The node has 4 CPUs. `old` uses 3 until 60; `late` needs 2 for 30 seconds, and `huge` never fits.
    found = ahead(
        node("n1", cpu=4),
        group("ns/old", phase="Running"), estimated(pod("ns/old-0", group="old", cpu=3, node="n1"), 60, since=0),
        group("ns/late", phase="Inqueue"), estimated(pod("ns/late-0", group="late", cpu=2), 30),
        group("ns/huge", phase="Inqueue"), pod("ns/huge-0", group="huge", cpu=9),
    )  # fmt: skip
    assert found.codes == {"ns/late": "InsufficientNode", "ns/huge": "InsufficientNode"}
    assert found.runs == {"ns/late": ExpectedRun(START + 60, START + 90)}


def test_a_job_that_does_not_say_how_long_it_runs_has_no_end() -> None:
    found = ahead(
        node("n1", cpu=4),
        group("ns/old", phase="Running"), estimated(pod("ns/old-0", group="old", cpu=3, node="n1"), 60, since=0),
        group("ns/late", phase="Inqueue"), pod("ns/late-0", group="late", cpu=2),
    )  # fmt: skip
    assert found.runs == {"ns/late": ExpectedRun(START + 60, None)}


def test_what_would_start_it() -> None:
    registry = Registry()
    objects = [node("n1", cpu=4), group("ns/wide", min_member=2, phase="Inqueue"), queue("default")]
    objects += [pod(f"ns/wide-{number}", group="wide", cpu=3) for number in range(2)]
    state = State([established(obj, number) for number, obj in enumerate(objects)], START + 10)
    answers, scheduler = PageAnswers(), Scheduler(registry.default(), registry)
    steps: list[dict[str, Any]] = []
    found = answers.prospects(state, scheduler, "ns/wide", steps.append)
    assert found is not None
    assert (found["startsNow"], found["expectedStart"]) == (False, None)
    assert {"sentence": "starts now with minMember 1", "evicts": [], "at": None} in found["counterfactuals"]
    assert steps[0] == {"trying": "as it is", "tried": 0, "most": 40, "counterfactuals": []}
    assert any(step["trying"] == "with minMember 1" for step in steps)
    # What is found is told before the forecast, which may take long.
    assert steps[-1]["trying"] == "as it is"
    assert steps[-1]["counterfactuals"] == found["counterfactuals"]
    assert answers.prospects(state, scheduler, "ns/other", steps.append) is None


def test_trials_end_when_nobody_reads_the_answers() -> None:
    ended = Event()

    def work(tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        try:
            for number in count():
                tell({"tried": number})
        finally:
            ended.set()
        raise AssertionError("it is stopped before")

    async def main() -> None:
        trials = Trials()
        async with aclosing(trials.answers(work)) as answers:
            assert await anext(answers) == {"tried": 0}
        assert await asyncio.to_thread(ended.wait, 60)
        trials.close()

    asyncio.run(main())
