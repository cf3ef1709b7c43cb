"""A seed becomes a world: its nodes, and a list of steps with times, in which everything that goes wrong is written.

Nothing else is drawn about faults. So steps can be taken away one by one from a plan that fails, and what is left is a
plan again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Final

from .step import BEGIN, CALMS, LONGEST, REPLICAS, Step, when
from .trouble import armed, faults, meetings, traps

SLOW: Final = 0.015  # of worlds
MINUTES: Final = 260.0  # seconds until the last fault in one of these


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

    @property
    def longest_grace(self) -> float:
        """Seconds that a pod can take to leave."""
        return max((step.arguments.get("grace", 0.0) for step in self.steps), default=0.0)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Plan:
        read = json.loads(text)
        return Plan(**{**read, "steps": [Step(**step) for step in read["steps"]], "replicas": tuple(read["replicas"])})


def draw(seed: int) -> Plan:
    more = Random(f"more {seed}")
    return _with_more(_slow(seed, more) if more.random() < SLOW else _drawn(seed), more)


def _drawn(seed: int) -> Plan:
    dice = Random(seed)
    moves = dice.random() < 0.12
    sizes = (4,) if moves else (4, 4, 6, 8)
    nodes = {f"n{number}": dice.choice(sizes) for number in range(2 if moves else dice.randint(2, 4))}
    steps = [Step(0.0, "settings", {"guarantee": dice.random() < 0.3, "weight": dice.randint(1, 3)})]
    calm, period = LONGEST if moves else dice.choice(CALMS), dice.choice((1.0, 2.0, 3.0))
    replicas = REPLICAS[: dice.choice((6,) if moves else (4, 4, 5, 6))]  # many worlds can do without deschedulers
    steps += _room_to_make(dice) if moves else _work(dice, nodes, calm)
    steps += faults(dice, calm, replicas)
    steps += traps(dice, steps, calm, replicas)
    steps += meetings(dice, calm, has_users=any(step.arguments.get("app") for step in steps))
    steps = sorted((step for step in steps if step.at < calm), key=lambda step: step.at)
    return Plan(seed, nodes, steps, calm, period, replicas, has_page=dice.random() < 0.1)


# -- what users do --------------------------------------------------------------------------------------------------


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
        at = when(dice, calm)
        steps.append(Step(at, "service", {
            "name": "web", "replicas": dice.randint(1, 4), "cpu": dice.choice((0.5, 1, 2)),
            "budget": dice.randint(0, 2), "priority": dice.choice(("", "low")),
        }))  # fmt: skip
        steps.append(Step(round(at + dice.uniform(1, 20), 2), "scale-service", {
            "name": "web", "replicas": dice.randint(0, 5),
        }))  # fmt: skip
    for number in range(dice.choice((0, 0, 1, 1, 2))):
        at = when(dice, calm)
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
        steps.append(Step(when(dice, calm), "pod", {
            "name": f"plain{number}", "cpu": dice.choice(cpu), "app": "", "run": dice.choice((None, 5.0)),
            "priority": dice.choice(("", "high")),
        }))  # fmt: skip
    if dice.random() < 0.15:
        at = when(dice, calm)
        steps.append(Step(at, "bad-job", {"name": "wrong", "bad": dice.choice(("queue", "cpu"))}))
        steps.append(Step(round(at + dice.uniform(0.2, 8), 2), "correct-job", {"name": "wrong"}))
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        steps += _node_trouble(dice, sorted(nodes), calm)
    if dice.random() < 0.2:
        steps.append(Step(0.0, "storage", {"disks": dice.choice((1, 1, 2))}))
        for number in range(dice.randint(1, 5)):
            steps.append(Step(when(dice, calm), "pod-with-volume", {
                "name": f"data{number}", "cpu": dice.choice(cpu), "storage": dice.choice(("local", "local", "quick")),
                "run": dice.choice((None, 5.0)), "priority": dice.choice(("", "high")),
            }))  # fmt: skip
    if dice.random() < 0.15:
        steps.append(Step(when(dice, calm), "queue-weight", {"name": "q-a", "weight": dice.randint(1, 8)}))
    return steps


def _node_trouble(dice: Random, nodes: list[str], calm: float) -> list[Step]:
    name, at = dice.choice(nodes), round(dice.uniform(BEGIN, calm - 15), 2)
    back = round(at + dice.uniform(2, 14), 2)
    act = dice.choice(("cordon", "shrink", "lose", "delete-node"))
    undo = {"cordon": "uncordon", "shrink": "grow", "lose": "return", "delete-node": "create-node"}[act]
    return [Step(at, act, {"name": name}), Step(back, undo, {"name": name})]


# -- what is drawn beside all that ------------------------------------------------------------------------------------

_FLASHES: Final = {"pod": "pods", "job": "jobs", "reservation": "reservations", "node": "nodes"}
_USERS_AT: Final = ("POST pods", "PATCH jobs*", "POST podgroups", "PATCH podgroups*", "POST pods/binding",
                    "POST pods/eviction", "DELETE commands", "PATCH queues*")  # fmt: skip


def _with_more(plan: Plan, dice: Random) -> Plan:
    """Some plans have something more, drawn apart."""
    steps = []
    if dice.random() < 0.25:  # while nobody watches
        what, at = dice.choice(tuple(_FLASHES)), round(dice.uniform(BEGIN, plan.calm - 14), 2)
        who, amount = dice.choice(("scheduler-*", "controllers-*", "*")), round(dice.uniform(1.0, 7.0), 2)
        steps.append(armed(round(at - 0.1, 2), "gap-watch", who, f"WATCH {_FLASHES[what]}",
                            times=dice.choice((1, 2, 6)), lasts=8.0, amount=amount))  # fmt: skip
        for number in range(2):
            lasts = round(dice.choice((0.02, 0.3, amount * 0.8, amount * 1.5)), 2)
            steps.append(Step(round(at + number * amount * 0.2, 2), "flash", {
                "what": what, "name": f"flash{number}", "lasts": lasts,
            }))  # fmt: skip
    if dice.random() < 0.3:  # users at the worst moment; an admission while others are evicted, and the other way round
        act = dice.choice(("suspend", "scale", "delete-job", "admit", "drain"))
        what = {"admit": "POST pods/eviction", "drain": "PATCH podgroups*"}.get(act) or dice.choice(_USERS_AT)
        steps.append(Step(round(dice.uniform(0.0, plan.calm - 15), 2), "meet", {
            "what": what, "when": dice.choice(("before", "after")), "act": act, "skip": dice.choice((0, 1, 3)),
            "delay": dice.choice((0.0, 0.0, 0.003, 0.1)), "lasts": round(dice.uniform(0.2, 9), 2),
        }))  # fmt: skip
    if dice.random() < 0.1:  # a pod is listed by its Reservation, and not bound yet
        at = round(dice.uniform(BEGIN, plan.calm - 16), 2)
        steps.append(Step(at, "reservation", {
            "name": "kept", "cpu": 2, "once": dice.random() < 0.7, "ttl": dice.choice(("10s", "1h")),
            "priority": "high",
        }))  # fmt: skip
        given = {"cpu": dice.choice((1, 2)), "app": "kept", "run": None, "priority": dice.choice(("", "high"))}
        steps.append(Step(round(at + dice.uniform(2, 5), 2), "pod", {"name": "keeper", **given}))
        steps.append(Step(at, "meet", {
            "what": "PATCH reservations/status", "about": '"currentOwners":[{', "who": "scheduler-*",
            "when": dice.choice(("after", "after", "before")),
            "act": dice.choice(("freeze", "freeze", "kill", "partition")),
            "skip": 0, "delay": dice.choice((0.0, 0.0, 0.002)), "lasts": dice.choice((1.0, 4.0, 16.5)),
        }))  # fmt: skip
    if dice.random() < 0.08:
        steps += _early(dice, plan.calm)
    if dice.random() < 0.08:
        steps += _slow_list(dice, plan)
    return replace(plan, steps=sorted([*plan.steps, *steps], key=lambda step: step.at)) if steps else plan


def _early(dice: Random, calm: float) -> list[Step]:
    """One of two cannot renew its lease for a while, and by the clock of the other one that is longer than it is."""
    kind = dice.choice(("scheduler", "scheduler", "controllers"))
    at, (behind, ahead) = round(dice.uniform(BEGIN, calm - 22), 2), dice.choice(("ab", "ba"))
    steps = [
        Step(at, "clock", {"who": f"{kind}-{letter}", "by": round(sign * dice.uniform(3, 6), 1)})
        for letter, sign in ((behind, -1), (ahead, 1))
    ]
    who, begin, lasts = f"{kind}-{behind}", round(at + dice.uniform(0, 3), 2), round(dice.uniform(9, 16), 2)
    if dice.random() < 0.7:
        fault = dice.choice(("500", "503", "429", "lose-request"))
        steps.append(armed(begin, fault, who, "* leases", times=20, lasts=lasts, amount=1.0))
    else:
        steps += [Step(begin, "partition", {"who": who}), Step(round(begin + lasts, 2), "heal", {"who": who})]
    return steps


def _slow_list(dice: Random, plan: Plan) -> list[Step]:
    """Pods are bound, created and deleted between a list and its answer, and what happened then is seen late."""
    at, amount = round(dice.uniform(BEGIN + 2, plan.calm - 16), 2), round(dice.uniform(1.0, 4.0), 2)
    steps = [
        armed(at, "gone-watch", "scheduler-*", "WATCH pods", times=2, lasts=5.0, amount=0.0),
        armed(at, "late-response", "scheduler-*", "LIST pods", times=2, lasts=6.0, amount=amount),
        armed(round(at + 0.5, 2), "stall-watch", "scheduler-*", "WATCH pods", times=2, lasts=6.0, amount=3.0),
        Step(round(at + 0.02, 2), "flash", {"what": "pod", "name": "flash-a", "lasts": round(amount * 0.6, 2)}),
    ]
    for node in plan.nodes:
        steps += [
            Step(round(at - 1.0, 2), "cordon", {"name": node}),
            Step(round(at + amount * dice.uniform(0.2, 0.9), 2), "uncordon", {"name": node}),
        ]
    for number in range(2):
        given = {"cpu": 1, "app": "", "run": dice.choice((None, 5.0)), "priority": "high"}
        steps.append(Step(round(at - 0.9, 2), "pod", {"name": f"waits{number}", **given}))
    return steps


def _slow(seed: int, dice: Random) -> Plan:
    """Room for a gang is made by pods that take minutes to leave, one after the other."""
    nodes = {f"n{number}": 4 for number in range(dice.randint(2, 3))}
    job = {"least": 1, "run": None, "fails": False, "restarts": "", "queue": "q-a"}
    steps = [Step(0.0, "settings", {"guarantee": False, "weight": 1})]
    for number, _ in enumerate(nodes):
        steps.append(Step(BEGIN + number, "job", {
            **job, "name": f"job{number}", "replicas": dice.choice((2, 4)), "cpu": dice.choice((1, 2)),
            "grace": dice.choice((1, 70, 100, 140)), "priority": "low",
        }))  # fmt: skip
    gang = dice.randint(2, 4)
    at = round(dice.uniform(12, 40), 2)
    steps.append(Step(at, "job", {
        **job, "name": "gang", "replicas": gang, "least": gang, "cpu": 2, "grace": 1, "priority": "high",
        "run": dice.choice((None, 30.0)),
    }))  # fmt: skip
    if dice.random() < 0.4:
        act = dice.choice(("delete-job", "suspend-job", "scale-job", "recreate-job"))
        steps.append(Step(round(at + dice.uniform(1, 150), 2), act, {"name": "gang", "replicas": 1, "pick": 0.5}))
        if act == "suspend-job":
            steps.append(Step(MINUTES - 20, "resume-job", {"name": "gang"}))
    steps.append(Step(round(at + dice.uniform(1, 90), 2), "pod", {
        "name": "rival", "cpu": 1, "app": "", "run": 5.0, "priority": dice.choice(("", "low", "high")),
    }))  # fmt: skip
    steps += faults(dice, MINUTES, REPLICAS[:4]) + traps(dice, steps, MINUTES, REPLICAS[:4])
    steps = sorted((step for step in steps if step.at < MINUTES), key=lambda step: step.at)
    return Plan(seed, nodes, steps, MINUTES, period=3.0, replicas=REPLICAS[:4])
