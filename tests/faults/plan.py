"""A seed becomes a world: its nodes, and a list of steps with times, in which everything that goes wrong is written.

Nothing else is drawn about faults. So steps can be taken away one by one from a plan that fails, and what is left is a
plan again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Final

from .simulated.rules import FAULTS

BEGIN: Final = 8.0  # seconds: by then there is a leader
CALM: Final = 65.0  # no fault after this
END: Final = CALM + 62.0

_PROCESSES: Final = ("scheduler-a", "scheduler-b", "controllers-a", "controllers-b", "descheduler-a", "descheduler-b")
_WHO: Final = ("scheduler-*", "scheduler-*", "scheduler-*", "controllers-*", "controllers-*", "descheduler-*",
               "kubelets", "*")  # fmt: skip
_REQUESTS: Final = ("POST pods/binding", "POST pods/binding", "POST pods/eviction", "POST pods", "PATCH podgroups*",
                    "PATCH jobs*", "PATCH pods/status", "PATCH reservations*", "POST podgroups", "DELETE *",
                    "GET leases", "PUT leases", "PATCH queues*", "* reservations*", "POST *", "PATCH *")  # fmt: skip
_READS: Final = ("LIST pods", "LIST podgroups", "LIST jobs", "LIST nodes", "LIST reservations", "LIST queues", "LIST *",
                 "GET pods", "GET leases", "GET reservations", "GET *")  # fmt: skip
_WATCHES: Final = ("WATCH pods", "WATCH pods", "WATCH podgroups", "WATCH jobs", "WATCH nodes", "WATCH reservations",
                   "WATCH queues", "WATCH *")  # fmt: skip


@dataclass(frozen=True)
class Step:
    at: float
    do: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:.2f} {self.do} {json.dumps(self.arguments, sort_keys=True)}"


@dataclass(frozen=True)
class Plan:
    seed: int
    nodes: dict[str, int]
    steps: list[Step]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Plan:
        read = json.loads(text)
        return Plan(read["seed"], read["nodes"], [Step(**step) for step in read["steps"]])


def draw(seed: int) -> Plan:
    dice = Random(seed)
    nodes = {f"n{number}": dice.choice((4, 4, 6, 8)) for number in range(dice.randint(2, 4))}
    steps = [Step(0.0, "settings", {"guarantee": dice.random() < 0.3, "weight": dice.randint(1, 3)})]
    steps += _work(dice, nodes)
    steps += _faults(dice)
    steps += _traps(dice, steps)
    steps += _meetings(dice)
    return Plan(seed, nodes, sorted((step for step in steps if step.at < CALM), key=lambda step: step.at))


# -- what users do --------------------------------------------------------------------------------------------------


def _when(dice: Random) -> float:
    return round(dice.uniform(BEGIN, CALM - 3), 2)


def _work(dice: Random, nodes: dict[str, int]) -> list[Step]:
    steps: list[Step] = []
    cpu = (0.5, 1, 1, 2, 3)
    for number in range(dice.randint(2, 5)):
        at, name = round(dice.uniform(BEGIN - 2, CALM - 12), 2), f"job{number}"
        replicas = dice.randint(1, 5)
        steps.append(Step(at, "job", {
            "name": name, "queue": dice.choice(("q-a", "q-a", "q-b", "default")), "replicas": replicas,
            "least": dice.choice((replicas, replicas, max(1, replicas - 1), 1)), "cpu": dice.choice(cpu),
            "run": dice.choice((None, None, 4.0, 12.0, 30.0)), "priority": dice.choice(("", "low", "low", "high")),
            "grace": dice.choice((0, 1, 2, 8, 15, 30)), "fails": dice.random() < 0.1,
            "restarts": dice.choice(("", "", "RestartJob", "RestartTask")),
        }))  # fmt: skip
        if dice.random() < 0.7:
            later = round(at + dice.choice((0.02, 0.1, 0.5, 1.5, dice.uniform(2, 15))), 2)
            act = dice.choice(("delete-job", "scale-job", "suspend-job", "delete-pod", "scale-job", "recreate-job"))
            steps.append(Step(later, act, {"name": name, "replicas": dice.randint(1, 6), "pick": dice.random()}))
            if act == "suspend-job":
                steps.append(Step(round(later + dice.uniform(0.1, 10), 2), "resume-job", {"name": name}))
    if dice.random() < 0.6:
        at = _when(dice)
        steps.append(Step(at, "service", {
            "name": "web", "replicas": dice.randint(1, 4), "cpu": dice.choice((0.5, 1, 2)),
            "budget": dice.randint(0, 2), "priority": dice.choice(("", "low")),
        }))  # fmt: skip
        steps.append(Step(round(at + dice.uniform(1, 20), 2), "scale-service", {
            "name": "web", "replicas": dice.randint(0, 5),
        }))  # fmt: skip
    for number in range(dice.choice((0, 0, 1, 1, 2))):
        at = _when(dice)
        steps.append(Step(at, "reservation", {
            "name": f"hold{number}", "cpu": dice.choice((1, 2, 3)), "once": dice.random() < 0.5,
            "ttl": dice.choice(("10s", "25s", "1h")), "priority": dice.choice(("", "high")),
        }))  # fmt: skip
        for user in range(dice.randint(0, 2)):
            steps.append(Step(round(at + dice.choice((0.0, 0.3, 3.0, 9.9, 10.1)), 2), "pod", {
                "name": f"user{number}{user}", "cpu": dice.choice((1, 1, 2)), "app": f"hold{number}",
                "run": dice.choice((None, 8.0)), "priority": dice.choice(("", "high")),
            }))  # fmt: skip
        if dice.random() < 0.3:
            steps.append(Step(round(at + dice.uniform(0.5, 12), 2), "delete-reservation", {"name": f"hold{number}"}))
    for number in range(dice.choice((0, 0, 1, 2))):
        steps.append(Step(_when(dice), "pod", {
            "name": f"plain{number}", "cpu": dice.choice(cpu), "app": "", "run": dice.choice((None, 5.0)),
            "priority": dice.choice(("", "high")),
        }))  # fmt: skip
    if dice.random() < 0.15:
        at = _when(dice)
        steps.append(Step(at, "bad-job", {"name": "wrong", "bad": dice.choice(("queue", "cpu"))}))
        steps.append(Step(round(at + dice.uniform(0.2, 8), 2), "correct-job", {"name": "wrong"}))
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        steps += _node_trouble(dice, sorted(nodes))
    if dice.random() < 0.15:
        steps.append(Step(_when(dice), "queue-weight", {"name": "q-a", "weight": dice.randint(1, 8)}))
    return steps


def _node_trouble(dice: Random, nodes: list[str]) -> list[Step]:
    name, at = dice.choice(nodes), round(dice.uniform(BEGIN, CALM - 15), 2)
    back = round(at + dice.uniform(2, 14), 2)
    act = dice.choice(("cordon", "shrink", "lose", "delete-node"))
    undo = {"cordon": "uncordon", "shrink": "grow", "lose": "return", "delete-node": "create-node"}[act]
    return [Step(at, act, {"name": name}), Step(back, undo, {"name": name})]


# -- what machines and networks do ----------------------------------------------------------------------------------


def _faults(dice: Random) -> list[Step]:
    steps: list[Step] = []
    for _ in range(dice.randint(1, 8)):
        fault = dice.choice(tuple(FAULTS))
        if fault.endswith("-watch"):
            what = dice.choice(_WATCHES)
        elif fault == "stale-read":
            what = dice.choice(_READS)
        else:
            what = dice.choice(_REQUESTS) if dice.random() < 0.9 else "*"
        steps.append(Step(round(dice.uniform(0.0, CALM - 8), 2), "fault", {
            "fault": fault, "who": dice.choice(_WHO), "what": what, "times": dice.choice((1, 1, 2, 5)),
            "lasts": round(dice.uniform(1, 30), 1),
            "amount": round(dice.choice((0.3, 1.0, 3.0, 7.0)) * dice.uniform(0.5, 1), 2),
        }))  # fmt: skip
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        steps += _process_trouble(dice, dice.choice(_PROCESSES), round(dice.uniform(0.5, CALM - 25), 2))
    if dice.random() < 0.15:
        at = _when(dice)
        steps += [
            Step(at, "crash-server", {}),
            Step(min(round(at + dice.uniform(0.5, 6), 2), CALM), "start-server", {}),
        ]
    if dice.random() < 0.2:
        steps.append(Step(_when(dice), "compact", {}))
    if dice.random() < 0.15:  # a bind that is done although nobody waits for it any more
        steps.append(_fault(_when(dice), "late-write", "scheduler-*", "POST pods/binding", times=dice.choice((1, 3)),
                            lasts=15.0, amount=round(dice.uniform(4.9, 5.9), 2)))  # fmt: skip
    return steps


def _process_trouble(dice: Random, who: str, at: float) -> list[Step]:
    kind = dice.choice(("kill", "kill", "freeze", "freeze", "partition", "partition", "stop", "clock"))
    lasts = round(dice.choice((dice.uniform(0.1, 3), dice.uniform(4, 14), dice.uniform(14, 22))), 2)
    match kind:
        case "freeze":
            return [Step(at, "freeze", {"who": who}), Step(round(at + lasts, 2), "thaw", {"who": who})]
        case "partition":
            return [Step(at, "partition", {"who": who}), Step(round(at + lasts, 2), "heal", {"who": who})]
        case "clock":
            return [Step(at, "clock", {"who": who, "by": round(dice.uniform(-10, 10), 1)})]
    back = round(at + min(lasts, 6), 2)
    steps = [Step(at, kind, {"who": who}), Step(back, "restart", {"who": who})]
    if dice.random() < 0.4:  # what it lists at its start is old
        what = dice.choice(("LIST *", "LIST pods", "* reservations", "LIST jobs"))
        steps.append(_fault(back, "stale-read", who, what,
                            times=5, lasts=5.0, amount=round(dice.uniform(0.5, 8), 1)))  # fmt: skip
    return steps


def _fault(at: float, fault: str, who: str, what: str, *, times: int, lasts: float, amount: float) -> Step:
    return Step(
        at, "fault", {"fault": fault, "who": who, "what": what, "times": times, "lasts": lasts, "amount": amount}
    )


def _traps(dice: Random, steps: list[Step]) -> list[Step]:
    """Trouble just when something is being done, which times drawn alone would rarely meet: a few awaits after a step
    of a user."""
    acts = [step for step in steps if step.do not in ("settings", "fault") and "who" not in step.arguments]
    found: list[Step] = []
    for step in dice.sample(acts, min(len(acts), dice.choice((0, 1, 1, 2, 3)))):
        kind = dice.choice(("scheduler", "scheduler", "scheduler", "controllers", "descheduler"))
        act, after = dice.choice(("freeze", "freeze", "kill")), round(10 ** dice.uniform(0, 1.8))
        lasts = round(dice.choice((dice.uniform(0.1, 3), dice.uniform(14, 20))), 2)
        if step.at + lasts < CALM - 2:
            for letter in dice.choice(("a", "b", "a", "b", "ab")):
                found.append(
                    Step(step.at, "trap", {"who": f"{kind}-{letter}", "act": act, "after": after, "lasts": lasts})
                )
    return found


_MET: Final = ("POST pods/binding", "POST pods/binding", "POST pods/eviction", "POST pods/eviction", "POST pods",
               "PATCH pods/status", "PATCH reservations*", "POST reservations", "DELETE reservations",
               "PATCH podgroups*", "PATCH jobs*", "POST podgroups", "PUT leases")  # fmt: skip
_ACTS: Final = {
    "POST pods/binding": ("kill", "freeze", "partition", "delete-it", "cordon", "shrink", "lose", "rival"),
    "POST pods/eviction": ("kill", "freeze", "delete-waiting", "delete-waiting", "delete-it", "rival", "rival"),
}  # fmt: skip


def _meetings(dice: Random) -> list[Step]:
    """Trouble just before or after a write."""
    found = []
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        what = dice.choice(_MET)
        act = dice.choice(_ACTS.get(what, ("kill", "kill", "freeze", "delete-waiting", "rival", "delete-reservations")))
        found.append(Step(round(dice.uniform(0.0, CALM - 15), 2), "meet", {
            "what": what, "when": dice.choice(("before", "after")), "act": act, "skip": dice.choice((0, 0, 1, 2, 4)),
            "delay": dice.choice((0.0, 0.0, 0.003, 0.02, 0.3)),
            "lasts": round(dice.choice((dice.uniform(0.2, 4), dice.uniform(6, 18))), 2),
        }))  # fmt: skip
    return found
