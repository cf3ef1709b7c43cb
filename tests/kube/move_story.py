"""Moves on a real API server, again and again, while components are killed.

Three nodes of 8 CPUs. Two of them have 4 CPUs of x each; w (6 pods, a gang that needs 2) and v (2 pods, a gang that
needs 1) fill both. Then two pods of w and one of v are sent to the third node, which is emptied by one plan of three
moves: there is exactly one place for each. On the way a component is killed and another one started, and somebody
deletes a pod of w that does not move: its successor must not take a place of the others. In the end all three pods have
moved or none has, nothing is kept any more, and at every step both gangs had their minimum.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube.client import eventually
from kube.cluster import Cluster, History, Program
from kube.moves import TOKEN, SetKeeper, app_of, apply_with, controllers, cordon, descheduler, migrations, state_of

TIMEOUT = 120.0
LOW = {
    "ResourceType": "cpu", "lowThresholds": {"cpu": 40}, "defragmentThresholds": {"cpu": 60},
    "protectionThresholds": {"cpu": 100}, "coolDownTime": 0,
}  # fmt: skip
SIZE = {"w": 6, "v": 2}
LEAVING = {"w": 2, "v": 1}
MINIMUM = {"w": 2, "v": 1}
COMPONENTS = ("descheduler", "scheduler", "controllers")


@dataclass
class Round:
    component: str
    step: str
    away: float  # seconds until the next one starts, or the same one goes on
    reached: bool = True  # whether it was killed at that step; some are over before one can look
    evicted: int = 0  # of the pods that were to leave
    least: dict[str, int] = field(default_factory=dict)  # by gang: pods that ran at the same time
    states: set[str] = field(default_factory=set)
    seconds: float = 0.0

    @property
    def moved(self) -> bool:
        return self.evicted == sum(LEAVING.values())


class MoveStory:
    def __init__(self, cluster: Cluster, nodes: list[str]) -> None:
        self.cluster = cluster
        self.low, *self.full = nodes
        self.programs = {"controllers": controllers(cluster), "scheduler": self._scheduler()}

    def start(self, component: str) -> None:
        if component == "controllers":
            self.programs[component] = controllers(self.cluster)
            eventually(self.programs[component].is_ready, timeout=TIMEOUT)
        elif component == "scheduler":
            self.programs[component] = self._scheduler()
        else:  # few writes a second, so that there is time to kill it between two of them
            slow = ("--qps", "8", "--burst", "1")
            self.programs[component] = descheduler(self.cluster, *slow, interval="24h", arguments=LOW)

    def _scheduler(self) -> Program:
        return self.cluster.scheduler("--period", "200ms")

    # -- what is so -------------------------------------------------------------------------------------------------

    def pods(self) -> list[Any]:
        return [pod for pod in self.cluster.pods().values() if app_of(pod) in LEAVING]

    def on_low_node(self, app: str = "") -> list[Any]:
        return [
            pod for pod in self.pods() if pod["spec"].get("nodeName") == self.low and (not app or app_of(pod) == app)
        ]

    def elsewhere(self, app: str) -> list[Any]:
        return [pod for pod in self.pods() if app_of(pod) == app and pod["spec"].get("nodeName") in self.full]

    def is_settled(self) -> bool:
        """All pods run, nothing terminates, nothing is kept, and no group says that a move runs."""
        pods = self.pods()
        runs = all(pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp") for pod in pods)
        whole = Counter(app_of(pod) for pod in pods) == SIZE
        return runs and whole and migrations(self.cluster) == [] and not self.states() & {"Pending", "Running"}

    def states(self) -> set[str]:
        return {state_of(self.cluster, name) for name in LEAVING}

    def has_reached(self, step: str, before: Collection[str]) -> bool:
        """`before`: the uids of the pods at the start of the round."""
        if step == "evicted":
            return any(_is_terminating(pod) for pod in self.pods())
        if step == "used":
            return any(pod["metadata"]["uid"] not in before and pod["spec"].get("nodeName") for pod in self.pods())
        moves = [one.get("status", {}) for one in migrations(self.cluster)]
        match step:
            case "planned":
                return bool(moves)
            case "available":
                return len(moves) == sum(LEAVING.values()) and all(one.get("phase") == "Available" for one in moves)
            case "marked":
                return any(one.get("evictionTime") for one in moves)
        raise ValueError(step)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Two pods of w and one of v are on the low node, and no others."""
        self._resettle([self.low], lambda app: self.on_low_node(app)[LEAVING[app] :])
        self._resettle(self.full, lambda app: self.elsewhere(app)[: LEAVING[app] - len(self.on_low_node(app))])
        assert Counter(app_of(pod) for pod in self.on_low_node()) == LEAVING

    def _resettle(self, nodes: list[str], chosen: Callable[[str], list[Any]]) -> None:
        """Pods are deleted, and their successors go to other nodes than these."""
        pods = [pod for app in LEAVING for pod in chosen(app)]
        if not pods:
            return
        for node in nodes:
            cordon(self.cluster, node, True)
        for pod in pods:
            self.cluster.delete_pod(pod["metadata"]["name"], grace=0)
        gone = {pod["metadata"]["uid"] for pod in pods}
        eventually(
            lambda: self.is_settled() and not gone & {pod["metadata"]["uid"] for pod in self.pods()}, timeout=TIMEOUT
        )
        for node in nodes:
            cordon(self.cluster, node, False)

    def play(self, component: str, step: str, away: float, *, stops: bool = False) -> Round:
        """`stops`: the component is not killed; it stands still for as long."""
        round_ = Round(component, step, away)
        began = time.monotonic()
        self.prepare()
        history = self.cluster.history()
        before = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        leaving = {pod["metadata"]["uid"] for pod in self.on_low_node()}
        sibling = self.elsewhere("w")[0]["metadata"]["name"]
        asking = threading.Thread(target=self._ask)
        asking.start()
        try:
            eventually(lambda: self.has_reached(step, before), timeout=20, every=0.01)
        except AssertionError:
            round_.reached = False
        program = self.programs[component]
        (program.pause if stops else program.kill)()
        self.cluster.delete_pod(sibling, grace=0)
        time.sleep(away)
        if stops:
            program.resume()
        else:
            self.start(component)
        asking.join()
        eventually(self.is_settled, timeout=TIMEOUT)
        round_.least = {app: least_running(history, list(before.values()), app) for app in LEAVING}
        history.close()
        round_.evicted = len(leaving - {pod["metadata"]["uid"] for pod in self.pods()})
        round_.states = self.states()
        round_.seconds = time.monotonic() - began
        return round_

    def _ask(self) -> None:
        """For a run. Nobody answers if the descheduler is killed meanwhile."""
        try:
            apply_with(self.programs["descheduler"], TOKEN)
        except (OSError, http.client.HTTPException, ValueError, IndexError):
            return

    def check(self, round_: Round) -> None:
        assert round_.moved or round_.evicted == 0, f"the plan is broken: {round_}"
        # Only a descheduler that ends before it has asked for all places gives the plan up.
        assert round_.moved or (round_.component, round_.step) == ("descheduler", "planned"), f"nothing moved: {round_}"
        for app, least in MINIMUM.items():
            assert round_.least[app] >= least, f"gang {app} had {round_.least[app]} pods: {round_}"
        self.cluster.assert_no_node_is_overfull()


def _is_terminating(pod: Any) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def least_running(history: History, before: list[Any], app: str) -> int:
    """How many pods of an app were bound and not terminating, at the least, since a moment with these pods."""
    runs = {pod["metadata"]["uid"] for pod in before if app_of(pod) == app}
    least = len(runs)
    for pod in history.pods():
        if app_of(pod) != app:
            continue
        uid = pod["metadata"]["uid"]
        (runs.add if pod["spec"].get("nodeName") and not _is_terminating(pod) else runs.discard)(uid)
        least = min(least, len(runs))
    return least


@contextmanager
def move_story(cluster: Cluster) -> Iterator[MoveStory]:
    nodes = cluster.hollow_nodes(3, cpu=8)
    low, *full = nodes
    cluster.group("x", 0)
    for app, least in MINIMUM.items():
        cluster.group(app, least)
    cordon(cluster, low, True)
    fillers = [
        SetKeeper(cluster, f"x{number}", 4, group="x", nodeSelector={"kubernetes.io/hostname": node})
        for number, node in enumerate(full)
    ]
    w, v = (SetKeeper(cluster, app, count) for app, count in SIZE.items())
    with fillers[0].kept(), fillers[1].kept(), w.kept(), v.kept():
        story = MoveStory(cluster, nodes)
        story.start("descheduler")
        eventually(story.is_settled, timeout=TIMEOUT)
        cordon(cluster, low, False)
        yield story


STEPS = ("planned", "available", "marked", "evicted", "used")
"""After which a component is killed."""
CASES = [(component, step) for step in STEPS for component in COMPONENTS]


def kill_rounds(story: MoveStory, rounds: int, say: Callable[[str], None] = lambda line: None) -> list[Round]:
    """Every case in turn, with no pause and with three seconds until the next one starts; every sixth round the
    descheduler stands still at its first eviction instead. Raises AssertionError if a plan is broken."""
    played = []
    for number in range(rounds):
        component, step = CASES[number % len(CASES)]
        away = 0.0 if number // len(CASES) % 2 else 3.0
        stops = number % 6 == 5
        if stops:
            component, step, away = "descheduler", "evicted", 3.0
        one = story.play(component, step, away, stops=stops)
        what = "stopped" if stops else "killed"
        say(
            f"{number + 1} of {rounds}: {component} {what} at {step} ({'reached' if one.reached else 'over'}), away "
            f"{away:g} s: {one.evicted} moved, least {one.least}, {sorted(one.states)}, {one.seconds:.1f} s"
        )
        story.check(one)
        played.append(one)
    return played


def as_table(rounds: list[Round]) -> list[dict[str, Any]]:
    """By component and step: how many rounds, how many of them moved all pods, and the least that ran of each gang."""
    rows: dict[tuple[str, str], list[Round]] = {}
    for one in rounds:
        rows.setdefault((one.component, one.step), []).append(one)
    return [
        {
            "component": component, "step": step, "rounds": len(found), "reached": sum(one.reached for one in found),
            "moved": sum(one.moved for one in found), "given up": sum(one.evicted == 0 for one in found),
            **{f"least {app}": min(one.least[app] for one in found) for app in LEAVING},
        }
        for (component, step), found in sorted(rows.items())
    ]  # fmt: skip
