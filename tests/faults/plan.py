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

BEGIN: Final = 4.0  # seconds: by then there is a leader
CALMS: Final = (32.0, 42.0, 60.0)  # one of these is when the last fault ends
LONGEST: Final = max(CALMS)
REPLICAS: Final = tuple(f"{kind}-{letter}" for kind in ("scheduler", "controllers", "descheduler") for letter in "ab")

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
    calm: float = LONGEST
    """No fault after this."""
    period: float = 1.0
    """Seconds between cycles of the scheduler."""
    replicas: tuple[str, ...] = REPLICAS
    has_page: bool = False

    @property
    def has_volumes(self) -> bool:
        return any(step.do == "storage" for step in self.steps)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Plan:
        read = json.loads(text)
        return Plan(**{**read, "steps": [Step(**step) for step in read["steps"]], "replicas": tuple(read["replicas"])})


def draw(seed: int) -> Plan:
    dice = Random(seed)
    moves = dice.random() < 0.12
    sizes = (4,) if moves else (4, 4, 6, 8)
    nodes = {f"n{number}": dice.choice(sizes) for number in range(2 if moves else dice.randint(2, 4))}
    steps = [Step(0.0, "settings", {"guarantee": dice.random() < 0.3, "weight": dice.randint(1, 3)})]
    calm, period = LONGEST if moves else dice.choice(CALMS), dice.choice((1.0, 2.0, 3.0))
    replicas = REPLICAS[: dice.choice((6,) if moves else (4, 4, 5, 6))]  # many worlds can do without deschedulers
    steps += _room_to_make(dice) if moves else _work(dice, nodes, calm)
    steps += _faults(dice, calm, replicas)
    steps += _traps(dice, steps, calm, replicas)
    steps += _meetings(dice, calm, has_users=any(step.arguments.get("app") for step in steps))
    steps = sorted((step for step in steps if step.at < calm), key=lambda step: step.at)
    return Plan(seed, nodes, steps, calm, period, replicas, has_page=dice.random() < 0.1)


# -- what users do --------------------------------------------------------------------------------------------------


def _when(dice: Random, calm: float) -> float:
    return round(dice.uniform(BEGIN, calm - 3), 2)


def _room_to_make(dice: Random) -> list[Step]:
    """Small pods on each of two nodes, and one that needs a whole node: the descheduler has something to do."""
    steps = [Step(BEGIN, "service", {
        "name": "web", "replicas": 2, "cpu": dice.choice((1, 2)), "budget": dice.choice((0, 0, 1)), "priority": "",
    })]  # fmt: skip
    at = round(dice.uniform(BEGIN + 3, 18), 2)
    steps.append(Step(at, "pod", {"name": "big", "cpu": dice.choice((3, 4)), "app": "", "run": None, "priority": ""}))
    if dice.random() < 0.5:
        steps.append(Step(round(dice.uniform(at, 50), 2), "pod", {
            "name": "rival", "cpu": dice.choice((1, 2)), "app": "", "run": 5.0, "priority": dice.choice(("", "high")),
        }))  # fmt: skip
    if dice.random() < 0.3:
        steps.append(Step(round(dice.uniform(at, 50), 2), "delete-pod", {
            "name": dice.choice(("web", "big")), "pick": dice.random(),
        }))  # fmt: skip
    if dice.random() < 0.3:
        steps.append(Step(round(dice.uniform(at, 50), 2), "scale-service", {
            "name": "web", "replicas": dice.randint(1, 3),
        }))  # fmt: skip
    return steps


def _work(dice: Random, nodes: dict[str, int], calm: float) -> list[Step]:
    steps: list[Step] = []
    cpu = (0.5, 1, 1, 2, 3)
    for number in range(dice.randint(2, 5)):
        at, name = round(dice.uniform(BEGIN - 2, calm - 12), 2), f"job{number}"
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
        at = _when(dice, calm)
        steps.append(Step(at, "service", {
            "name": "web", "replicas": dice.randint(1, 4), "cpu": dice.choice((0.5, 1, 2)),
            "budget": dice.randint(0, 2), "priority": dice.choice(("", "low")),
        }))  # fmt: skip
        steps.append(Step(round(at + dice.uniform(1, 20), 2), "scale-service", {
            "name": "web", "replicas": dice.randint(0, 5),
        }))  # fmt: skip
    for number in range(dice.choice((0, 0, 1, 1, 2))):
        at = _when(dice, calm)
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
        steps.append(Step(_when(dice, calm), "pod", {
            "name": f"plain{number}", "cpu": dice.choice(cpu), "app": "", "run": dice.choice((None, 5.0)),
            "priority": dice.choice(("", "high")),
        }))  # fmt: skip
    if dice.random() < 0.15:
        at = _when(dice, calm)
        steps.append(Step(at, "bad-job", {"name": "wrong", "bad": dice.choice(("queue", "cpu"))}))
        steps.append(Step(round(at + dice.uniform(0.2, 8), 2), "correct-job", {"name": "wrong"}))
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        steps += _node_trouble(dice, sorted(nodes), calm)
    if dice.random() < 0.2:
        steps.append(Step(0.0, "storage", {"disks": dice.choice((1, 1, 2))}))
        for number in range(dice.randint(1, 5)):
            steps.append(Step(_when(dice, calm), "pod-with-volume", {
                "name": f"data{number}", "cpu": dice.choice(cpu), "storage": dice.choice(("local", "local", "quick")),
                "run": dice.choice((None, 5.0)), "priority": dice.choice(("", "high")),
            }))  # fmt: skip
    if dice.random() < 0.15:
        steps.append(Step(_when(dice, calm), "queue-weight", {"name": "q-a", "weight": dice.randint(1, 8)}))
    return steps


def _node_trouble(dice: Random, nodes: list[str], calm: float) -> list[Step]:
    name, at = dice.choice(nodes), round(dice.uniform(BEGIN, calm - 15), 2)
    back = round(at + dice.uniform(2, 14), 2)
    act = dice.choice(("cordon", "shrink", "lose", "delete-node"))
    undo = {"cordon": "uncordon", "shrink": "grow", "lose": "return", "delete-node": "create-node"}[act]
    return [Step(at, act, {"name": name}), Step(back, undo, {"name": name})]


# -- what machines and networks do ----------------------------------------------------------------------------------


def _faults(dice: Random, calm: float, replicas: tuple[str, ...]) -> list[Step]:
    steps: list[Step] = []
    for _ in range(dice.randint(1, 8)):
        fault = dice.choice(tuple(FAULTS))
        if fault.endswith("-watch"):
            what = dice.choice(_WATCHES)
        elif fault == "stale-read":
            what = dice.choice(_READS)
        else:
            what = dice.choice(_REQUESTS) if dice.random() < 0.9 else "*"
        steps.append(Step(round(dice.uniform(0.0, calm - 8), 2), "fault", {
            "fault": fault, "who": dice.choice(_WHO), "what": what, "times": dice.choice((1, 1, 2, 5)),
            "lasts": round(dice.uniform(1, 30), 1),
            "amount": round(dice.choice((0.3, 1.0, 3.0, 7.0)) * dice.uniform(0.5, 1), 2),
        }))  # fmt: skip
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        steps += _process_trouble(dice, dice.choice(replicas), round(dice.uniform(0.5, calm - 25), 2))
    if dice.random() < 0.15:
        at = _when(dice, calm)
        steps += [
            Step(at, "crash-server", {}),
            Step(min(round(at + dice.uniform(0.5, 6), 2), calm), "start-server", {}),
        ]
    if dice.random() < 0.2:
        steps.append(Step(_when(dice, calm), "compact", {}))
    if dice.random() < 0.15:  # a bind that is done although nobody waits for it any more
        times, amount = dice.choice((1, 3)), round(dice.choice((dice.uniform(0.5, 4), dice.uniform(4.9, 5.9))), 2)
        steps.append(_fault(_when(dice, calm), "late-write", "scheduler-*", "POST pods/binding",
                            times=times, lasts=15.0, amount=amount))  # fmt: skip
    if dice.random() < 0.15:  # nobody knows whether a Command is claimed
        fault = dice.choice(("lose-response", "hold-response", "done-500", "500", "lose-request"))
        steps.append(_fault(BEGIN, fault, "controllers-*", "DELETE commands", times=1, lasts=LONGEST, amount=1.0))
    if dice.random() < 0.15:  # what was true when it was sent
        times, amount = dice.choice((2, 5)), round(dice.uniform(1.0, 4.5), 2)
        what = dice.choice(("PATCH pods/status", "PATCH pods/status", "PATCH */status"))
        steps.append(_fault(_when(dice, calm), "late-write", dice.choice(("scheduler-*", "[sc]*")), what,
                            times=times, lasts=20.0, amount=amount))  # fmt: skip
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


def _traps(dice: Random, steps: list[Step], calm: float, replicas: tuple[str, ...]) -> list[Step]:
    """Trouble just when something is being done, which times drawn alone would rarely meet: a few awaits after a step
    of a user."""
    acts = [step for step in steps if step.do not in ("settings", "fault") and "who" not in step.arguments]
    found: list[Step] = []
    for step in dice.sample(acts, min(len(acts), dice.choice((0, 1, 1, 2, 3)))):
        kind = dice.choice(("scheduler", "scheduler", "scheduler", "controllers", "descheduler"))
        act, after = dice.choice(("freeze", "freeze", "kill")), round(10 ** dice.uniform(0, 1.8))
        lasts = round(dice.choice((dice.uniform(0.1, 3), dice.uniform(14, 20))), 2)
        if step.at + lasts < calm - 2:
            for letter in dice.choice(("a", "b", "a", "b", "ab")):
                who = f"{kind}-{letter}"
                if who in replicas:
                    thinking = act == "freeze" and dice.random() < 0.5
                    found.append(Step(step.at, "trap", {
                        "who": who, "act": act, "after": dice.randint(1, 8) if thinking else after, "lasts": lasts,
                        "thinking": thinking,
                    }))  # fmt: skip
    return found


_MET: Final = ("POST pods/binding", "POST pods/binding", "POST pods/eviction", "POST pods/eviction", "POST pods",
               "PATCH pods/status", "PATCH reservations*", "POST reservations", "DELETE reservations",
               "PATCH podgroups*", "PATCH jobs*", "POST podgroups", "PUT leases")  # fmt: skip
_ACTS: Final = {
    "POST pods/binding": ("kill", "freeze", "partition", "delete-it", "cordon", "shrink", "lose", "rival"),
    "POST pods/eviction": ("kill", "freeze", "delete-waiting", "delete-waiting", "delete-it", "rival", "rival"),
}  # fmt: skip


def _meetings(dice: Random, calm: float, *, has_users: bool) -> list[Step]:
    """Trouble just before or after a write."""
    found = []
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        what = dice.choice(_MET)
        act = dice.choice(_ACTS.get(what, ("kill", "kill", "freeze", "delete-waiting", "rival", "delete-reservations")))
        found.append(Step(round(dice.uniform(0.0, calm - 15), 2), "meet", {
            "what": what, "when": dice.choice(("before", "after")), "act": act, "skip": dice.choice((0, 0, 1, 2, 4)),
            "delay": dice.choice((0.0, 0.0, 0.003, 0.02, 0.3)),
            "lasts": round(dice.choice((dice.uniform(0.2, 4), dice.uniform(6, 18))), 2),
        }))  # fmt: skip
    if has_users and dice.random() < 0.6:  # when a pod is listed by its Reservation, and not bound yet
        found.append(Step(0.0, "meet", {
            "what": "PATCH reservations/status", "when": "after", "act": dice.choice(("freeze", "freeze", "kill")),
            "skip": dice.choice((1, 1, 1, 2, 3)), "delay": 0.0, "lasts": dice.choice((2.0, 16.5)), "who": "scheduler-*",
        }))  # fmt: skip
    return found
