"""What goes wrong: requests, machines, networks, and what happens just when something is written."""

from __future__ import annotations

from random import Random
from typing import Final

from .simulated.rules import FAULTS
from .step import BEGIN, LONGEST, Step, when

_WHO: Final = ("scheduler-*", "scheduler-*", "scheduler-*", "controllers-*", "controllers-*", "descheduler-*",
               "kubelets", "*")  # fmt: skip
_REQUESTS: Final = ("POST pods/binding", "POST pods/binding", "POST pods/eviction", "POST pods", "PATCH podgroups*",
                    "PATCH jobs*", "PATCH pods/status", "PATCH reservations*", "POST podgroups", "DELETE *",
                    "GET leases", "PUT leases", "PATCH queues*", "* reservations*", "POST *", "PATCH *")  # fmt: skip
_READS: Final = ("LIST pods", "LIST podgroups", "LIST jobs", "LIST nodes", "LIST reservations", "LIST queues", "LIST *",
                 "GET pods", "GET leases", "GET reservations", "GET *")  # fmt: skip
_WATCHES: Final = ("WATCH pods", "WATCH pods", "WATCH podgroups", "WATCH jobs", "WATCH nodes", "WATCH reservations",
                   "WATCH queues", "WATCH *")  # fmt: skip


def faults(dice: Random, calm: float, replicas: tuple[str, ...]) -> list[Step]:
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
        at = when(dice, calm)
        steps += [
            Step(at, "crash-server", {}),
            Step(min(round(at + dice.uniform(0.5, 6), 2), calm), "start-server", {}),
        ]
    if dice.random() < 0.2:
        steps.append(Step(when(dice, calm), "compact", {}))
    if dice.random() < 0.15:  # a bind that is done although nobody waits for it any more
        times, amount = dice.choice((1, 3)), round(dice.choice((dice.uniform(0.5, 4), dice.uniform(4.9, 5.9))), 2)
        steps.append(armed(when(dice, calm), "late-write", "scheduler-*", "POST pods/binding",
                            times=times, lasts=15.0, amount=amount))  # fmt: skip
    if dice.random() < 0.15:  # nobody knows whether a Command is claimed
        fault = dice.choice(("lose-response", "hold-response", "done-500", "500", "lose-request"))
        steps.append(armed(BEGIN, fault, "controllers-*", "DELETE commands", times=1, lasts=LONGEST, amount=1.0))
    if dice.random() < 0.15:  # what was true when it was sent
        times, amount = dice.choice((2, 5)), round(dice.uniform(1.0, 4.5), 2)
        what = dice.choice(("PATCH pods/status", "PATCH pods/status", "PATCH */status"))
        steps.append(armed(when(dice, calm), "late-write", dice.choice(("scheduler-*", "[sc]*")), what,
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
        steps.append(armed(back, "stale-read", who, what,
                            times=5, lasts=5.0, amount=round(dice.uniform(0.5, 8), 1)))  # fmt: skip
    return steps


def armed(at: float, fault: str, who: str, what: str, *, times: int, lasts: float, amount: float) -> Step:
    return Step(
        at, "fault", {"fault": fault, "who": who, "what": what, "times": times, "lasts": lasts, "amount": amount}
    )


def traps(dice: Random, steps: list[Step], calm: float, replicas: tuple[str, ...]) -> list[Step]:
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


def meetings(dice: Random, calm: float, *, has_users: bool) -> list[Step]:
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
