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
    most = reserve.get("maxHolders", 4)
    events = case.history.events
    held: dict[str, str] = {}  # pod -> unit
    for index, event in enumerate(events):
        if event["type"] == "Reserved":
            held[event["object"]] = case.scenario.pod(event["object"]).unit.name
        elif event["type"] == "Unreserved":
            held.pop(event["object"], None)
        following = events[index + 1]["t"] if index + 1 < len(events) else case.history.end
        if event["type"] == "Reserved" and following > event["t"]:
            verdict.judged["starvation: holders"] += 1
    for sample in case.run.samples:
        for name, told in sample["nodes"].items():
            jobs = told["reservedFor"]
            verdict.judged["starvation: nodes set aside"] += bool(jobs)
            if len(jobs) > 1 and reserve.get("scope", "node") == "node":
                verdict.fail("starvation", sample["end"], f"{name} is set aside for {', '.join(jobs)}")
        waiting = [one for one in sample["reservations"].values() if one["phase"] == "Waiting"]
        verdict.judged["starvation: limits"] += bool(waiting)
    holders = set(held.values())
    if len(holders) > most:
        verdict.fail("starvation", case.history.end, f"{len(holders)} jobs hold nodes, of at most {most}")
