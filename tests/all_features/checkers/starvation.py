"""Jobs that have waited too long: limits of what is set aside for them, and nobody holds what it could use.

No more jobs hold nodes than `maxHolders`, and no node is set aside for two. At a quiet end, a job that holds nodes on
which it fits has started: that is a case of liveness, where its own nodes are open to it. The bound of decision 74 is
judged by `tests/together`, in worlds where it can be computed.
"""

from __future__ import annotations

from all_features.case import Case
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    reserve = case.scenario.action("reserve")
    most, alone = reserve.get("maxHolders", 4), reserve.get("scope", "node") == "node"
    held: dict[str, tuple[str, str]] = {}  # by pod: its unit, and the node
    events = case.history.events
    for index, event in enumerate(events):
        # What a plan of the descheduler sets aside, the scheduler may still take back in its next cycle.
        if event["type"] == "Reserved" and event["reason"] != "Defragmentation":
            held[event["object"]] = (case.scenario.pod(event["object"]).unit.name, event["node"])
        elif event["type"] == "Unreserved":
            held.pop(event["object"], None)
        if index + 1 < len(events) and events[index + 1]["t"] == event["t"]:
            continue  # the cycle is not over
        holders = {unit for unit, _ in held.values()}
        verdict.judged["starvation: holders"] += len(holders)
        if len(holders) > most:
            text = f"{len(holders)} jobs hold nodes, of at most {most}: {', '.join(sorted(holders))}"
            verdict.fail("starvation", event["t"], text)
        for node in {node for _, node in held.values()} if alone else ():
            units = {unit for unit, where in held.values() if where == node}
            if len(units) > 1:
                verdict.fail("starvation", event["t"], f"{node} is set aside for {', '.join(sorted(units))}")
