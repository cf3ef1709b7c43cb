"""The same world gives the same output: with its documents in another order, and with restarts of the scheduler and of
the controllers."""

from __future__ import annotations

import json
from random import Random

from all_features.scenario import Scenario
from all_features.verdict import Verdict
from all_features.world import Document, Report, Run, World

RESTARTS = 3
LONGEST = 80  # seconds: later restarts would be in quiet times


def check(run: Run, seed: int, verdict: Verdict) -> None:
    shuffled = list(run.world.documents)
    Random(seed).shuffle(shuffled)
    added = restarts(run.world, seed)
    verdict.judged["repetition: another order"] += 1
    verdict.judged["repetition: restarts"] += len(added)
    told = ", ".join(f"{one['component']} {one['at']}" for one in added)
    # Both at once, which is cheaper; only if that differs it is asked which of them it is.
    if run.world.output([*shuffled, *added]) != run.text:
        # Reports that are made while it goes on must not change it.
        _compare(run, run.world.documents, "when nobody looks at it", verdict, exact=True)
        run = Run(run.world, run.world.output())
        _compare(run, shuffled, "in another order of documents", verdict, exact=True)
        _compare(run, [*run.world.documents, *added], f"with restarts ({told})", verdict, exact=False)


def restarts(world: World, seed: int) -> list[Document]:
    """Times depend on the seed alone, so that a smaller world is restarted at the same ones. A restart would end the
    outage of a component that is away."""
    drawn: list[tuple[int, str]] = []
    for number, component in enumerate(("scheduler", "controllers")):
        dice = Random(seed + number)
        drawn += [(time, component) for time in sorted(dice.randrange(LONGEST) for _ in range(RESTARTS))]
    outages = Scenario(world).outages()
    return [
        _restart(time, component)
        for time, component in drawn
        if time <= world.until and not any(since <= time <= until for since, until, _ in outages)
    ]


def _restart(at: int, component: str) -> Document:
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{at}s", "component": component}


def _compare(run: Run, documents: list[Document], how: str, verdict: Verdict, *, exact: bool) -> None:
    """`exact`: byte for byte. After a restart, what one cycle does may be said in another order."""
    text = run.world.output(documents)
    if text == run.text:
        return
    before, after = run.report, json.loads(text)
    first = next(
        ((one, other) for one, other in zip(_events(before), _events(after), strict=False) if one != other), None
    )
    if first is not None:
        verdict.fail("repetition", first[0]["t"], f"the run differs {how}: {first[0]} and {first[1]}")
        return
    parts = [name for name in before if before[name] != after[name] and (exact or name != "events")]
    if parts:
        verdict.fail("repetition", run.world.until, f"the report differs {how}: {', '.join(parts)}")


def _events(report: Report) -> list[Document]:
    found: list[Document] = report["events"]
    return sorted(
        found, key=lambda event: (event["t"], event["type"], event["object"], event["node"], event["message"])
    )
