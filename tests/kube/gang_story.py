"""Gangs that follow each other on a real API server, while the scheduler and the controllers are killed half way.

Three nodes of 4 CPUs, and in every round eight Jobs of 3, 4 or 5 pods of 1 CPU in one queue: 32 pods for 12 CPUs. The
scheduler binds a few pods per second, so there is time to kill it while some pods of a gang have a node and others have
none. A gang does its work only as a whole, as an MPI job does: its run begins when all pods have a node. So what is
left half bound stays so, unless a scheduler completes it.

In another story the gangs are groups of groups: 32 pods in four sub-groups, each in a rack of its own. There are six
racks of two nodes, so one gang runs and the other one waits.

`Ledger` judges from what the API server said of the pods, and from nothing else.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube.client import eventually
from kube.cluster import Cluster, History, Program
from kube.moves import controllers

TIMEOUT = 120.0
LIMIT = 60.0  # seconds in which a gang is whole after its first bind, whoever was killed meanwhile
RUN = 2.0  # seconds for which a whole gang works
SETTLED = 0.3  # seconds after a kill in which the server may still carry out requests of the dead
NODES = 3
CPUS = 4
SIZES = (4, 5, 3, 4, 5, 3, 4, 4)
RATES = ((4, 1), (6, 3))
"""Binds per second and at once, in turn. With several at once, one gang is whole and the next one is not."""


VICTIMS = (("scheduler",), ("scheduler", "controllers"), ("scheduler",), ("controllers",))
"""Who is killed, by round."""


@dataclass(frozen=True)
class Shape:
    """What is submitted in each round, and where it runs."""

    nodes: int
    sizes: tuple[int, ...]  # of the gangs
    steps: tuple[int, ...]  # how many pods of a gang have a node when somebody is killed, in turn
    sub_groups: int = 0  # of each gang
    rack: int = 0  # nodes of a rack
    victims: tuple[tuple[str, ...], ...] = VICTIMS


GANGS = Shape(NODES, SIZES, (1, 2, 1, 3))
SUB_GROUPS = Shape(nodes=12, sizes=(32, 32), steps=(3, 14, 27), sub_groups=4, rack=2, victims=(("scheduler",),))


def gang_of(pod: Any) -> str:
    name: str = pod["metadata"].get("labels", {}).get("volcano.sh/job-name", "")
    return name


def index_of(pod: Any) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


@dataclass
class Gang:
    size: int
    life: int = 0  # of the scheduler that bound the first pod
    nodes: dict[str, str] = field(default_factory=dict)  # by the uid of each pod that was ever bound
    pods: set[str] = field(default_factory=set)  # the uids of all pods ever seen
    half_since: float = 0.0
    whole_since: float | None = None

    @property
    def is_half(self) -> bool:
        return 0 < len(self.nodes) < self.size


class Ledger:
    """What became of the gangs of a round, from the changes of their pods. `faults` are sentences."""

    def __init__(
        self, history: History, sizes: dict[str, int], sub_groups: int = 0, racks: Mapping[str, str] | None = None
    ) -> None:
        """`sub_groups`: of each gang, each in one of the `racks`, which are given by node."""
        self._history = history
        self._sub_groups = sub_groups
        self._racks = racks or {}
        self._read = 0
        self._room: Counter[str] = Counter()
        self._ended: set[str] = set()
        self.gangs = {name: Gang(size) for name, size in sizes.items()}
        self.sub_groups = {
            (name, number): Gang(size // sub_groups) for name, size in sizes.items() for number in range(sub_groups)
        }
        self.life = 1  # which scheduler runs
        self.burst = 1  # how many binds it sends at once
        self.binds: list[str] = []  # gangs, in the order of their binds
        self.faults: list[str] = []

    def read(self) -> None:
        for pod in self._history.pods()[self._read :]:
            self._read += 1
            name = gang_of(pod)
            if name in self.gangs:
                self._take(name, pod)

    def _take(self, name: str, pod: Any) -> None:
        gang, uid, node = self.gangs[name], pod["metadata"]["uid"], pod["spec"].get("nodeName")
        gang.pods.add(uid)
        if len(gang.pods) > gang.size:
            self.faults.append(f"{name} has a pod too many: {pod['metadata']['name']}")
        if uid in self._ended:
            return
        if pod["metadata"].get("deletionTimestamp") or pod["status"]["phase"] == "Failed":
            self.faults.append(f"{pod['metadata']['name']} was lost")
        if node and uid not in gang.nodes:
            self._bind(name, uid, node)
            if self._sub_groups:
                self._bind_in_rack(name, index_of(pod) * self._sub_groups // gang.size, uid, node)
        elif node and gang.nodes[uid] != node:
            self.faults.append(f"{pod['metadata']['name']} was on {gang.nodes[uid]} and is on {node}")
        if node and pod["status"]["phase"] == "Succeeded":
            self._ended.add(uid)
            self._room[node] -= 1

    def _bind(self, name: str, uid: str, node: str) -> None:
        gang = self.gangs[name]
        if not gang.nodes:
            gang.life, gang.half_since = self.life, time.monotonic()
            self._check_order(name, under_way=self.burst - 1)
        gang.nodes[uid] = node
        self.binds.append(name)
        self._room[node] += 1
        if self._room[node] > CPUS:
            self.faults.append(f"{node} has {self._room[node]} pods")
        if len(gang.nodes) == gang.size:
            gang.whole_since = time.monotonic()
            if gang.life == self.life:
                self._check_order(name)

    def _bind_in_rack(self, name: str, number: int, uid: str, node: str) -> None:
        sub_group = self.sub_groups[name, number]
        if not sub_group.nodes:
            sub_group.half_since = time.monotonic()
        sub_group.nodes[uid] = node
        racks = sorted({self._racks[one] for one in sub_group.nodes.values()})
        if len(racks) > 1:
            self.faults.append(f"sub-group {number} of {name} is in {' and '.join(racks)}")
        if len(sub_group.nodes) == sub_group.size:
            sub_group.whole_since = time.monotonic()

    def _check_order(self, started: str, under_way: int = 0) -> None:
        """All pods are equal: where there is room for a gang, there is room for one that lacks no more pods. Requests
        that are sent together arrive in any order, so a half gang may lack those that are `under_way`. What this same
        scheduler has begun to bind is not half bound yet."""
        for name, gang in self.gangs.items():
            lacks = gang.size - len(gang.nodes)
            if gang.is_half and gang.life < self.life and under_way < lacks <= self.gangs[started].size:
                self.faults.append(f"{started} was started before {name}, which lacked {lacks} of {gang.size}")

    def halves(self) -> list[str]:
        return [name for name, gang in self.gangs.items() if gang.is_half]

    def longest_half(self) -> float:
        """Seconds for which a gang, or a sub-group if there are any, had nodes for some of its pods only."""
        now = time.monotonic()
        groups = [*self.sub_groups.values()] or [*self.gangs.values()]
        return max(((one.whole_since or now) - one.half_since for one in groups if one.nodes), default=0.0)

    def check(self) -> None:
        """At the end of a round: every gang has started, in time and as a whole."""
        for name, gang in self.gangs.items():
            if len(gang.nodes) < gang.size:
                self.faults.append(f"{name} has {len(gang.nodes)} of {gang.size} pods on nodes")
        if self.longest_half() > LIMIT:
            self.faults.append(f"one was half bound for {self.longest_half():.1f} seconds")
        assert not self.faults, "; ".join(self.faults)


@dataclass
class Round:
    victims: tuple[str, ...]
    kills: int = 0
    hits: int = 0  # kills after which a gang was half bound
    binds: int = 0
    longest_half: float = 0.0
    seconds: float = 0.0


class GangStory:
    def __init__(self, cluster: Cluster, shape: Shape = GANGS) -> None:
        self.cluster = cluster
        self.shape = shape
        nodes = cluster.hollow_nodes(shape.nodes, cpu=CPUS)
        self._racks = {node: f"rack-{number // shape.rack}" for number, node in enumerate(nodes)} if shape.rack else {}
        for rack in sorted(set(self._racks.values())):
            cluster.hyper_node(rack, [node for node, its_rack in self._racks.items() if its_rack == rack])
        self.queue = cluster.queue("gangs")
        self._jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        self._programs: dict[str, Program] = {}
        self._numbers = itertools.count()
        self._rates = itertools.cycle(RATES)
        self._finished: set[str] = set()  # gangs of this round whose pods were told to end
        for component in ("controllers", "scheduler"):
            self.start(component)

    def start(self, component: str) -> None:
        if component == "scheduler":
            qps, self._burst = next(self._rates)
            slowly = ("--qps", str(qps), "--burst", str(self._burst), "--period", "200ms")
            self._programs[component] = self.cluster.scheduler(*slowly)
        else:
            self._programs[component] = controllers(self.cluster)
            eventually(self._programs[component].is_ready, timeout=TIMEOUT)

    def submit(self, name: str, size: int) -> None:
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "nodeSelector": {"pool": self.cluster.name}, "containers": [container], "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
        }  # fmt: skip
        task: dict[str, Any] = {"name": "w", "replicas": size, "template": {"spec": spec}}
        if self.shape.sub_groups:
            task["partitionPolicy"] = {
                "totalPartitions": self.shape.sub_groups, "partitionSize": size // self.shape.sub_groups,
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            }  # fmt: skip
        self.cluster.admin.create(self._jobs, {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
            "spec": {
                "schedulerName": self.cluster.name, "queue": self.queue, "minAvailable": size, "tasks": [task],
            },
        })  # fmt: skip

    def play(self, victims: tuple[str, ...], kills: int) -> Round:
        began = time.monotonic()
        round_ = Round(victims)
        number = next(self._numbers)
        sizes = {f"g{number}-{index}": size for index, size in enumerate(self.shape.sizes)}
        history = self.cluster.history()
        ledger = Ledger(history, sizes, self.shape.sub_groups, self._racks)
        ledger.burst = self._burst
        for name, size in sizes.items():
            self.submit(name, size)
        for step in itertools.islice(itertools.cycle(self.shape.steps), kills):
            if not self._reach_half(ledger, step):
                break
            self._kill(ledger, round_)
            time.sleep(2.0 * (round_.kills % 2))
            for component in reversed(victims):
                self.start(component)
            ledger.burst = self._burst
        eventually(lambda: self._is_over(ledger), timeout=TIMEOUT)
        history.close()
        round_.binds, round_.longest_half = len(ledger.binds), ledger.longest_half()
        round_.seconds = time.monotonic() - began
        ledger.check()
        for name in sizes:
            self.cluster.admin.delete(f"{self._jobs}/{name}")
        self.cluster.admin.delete(self._pods, gracePeriodSeconds=0)  # nobody else collects garbage here
        return round_

    def _reach_half(self, ledger: Ledger, step: int) -> bool:
        """Wait until a gang gets a node and has so many, and lacks others; False if all gangs are whole."""
        ledger.read()
        seen = len(ledger.binds)
        while True:
            self._finish_runs(ledger)
            new = ledger.binds[seen:]
            if any(ledger.gangs[name].is_half and len(ledger.gangs[name].nodes) >= step for name in new):
                return True
            if all(gang.whole_since for gang in ledger.gangs.values()):
                return False
            if ledger.longest_half() > LIMIT:
                ledger.check()
            time.sleep(0.01)

    def _kill(self, ledger: Ledger, round_: Round) -> None:
        for component in round_.victims:
            self._programs[component].kill()
        round_.kills += 1
        if "scheduler" not in round_.victims:
            round_.hits += bool(ledger.halves())
            return
        time.sleep(SETTLED)
        bound = [pod for pod in self.cluster.pods().values() if pod["spec"].get("nodeName")]
        count = sum(gang_of(pod) in ledger.gangs for pod in bound)
        eventually(lambda: self._has_read(ledger, count), timeout=TIMEOUT, every=0.01)
        round_.hits += bool(ledger.halves())
        ledger.life += 1

    def _has_read(self, ledger: Ledger, binds: int) -> bool:
        ledger.read()
        return len(ledger.binds) >= binds

    def _finish_runs(self, ledger: Ledger) -> None:
        """The pods of a gang succeed when it has been whole for a while."""
        ledger.read()
        state = {"terminated": {"exitCode": 0}}
        said = {"name": "main", "image": "work", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        for name, gang in ledger.gangs.items():
            if name in self._finished or not gang.whole_since or time.monotonic() - gang.whole_since < RUN:
                continue
            self._finished.add(name)
            for index in range(gang.size):
                path = f"{self._pods}/{name}-w-{index}/status"
                self.cluster.admin.patch(path, {"status": {"phase": "Succeeded", "containerStatuses": [said]}})

    def _is_over(self, ledger: Ledger) -> bool:
        """Every Job is completed; its controller counts what succeeded."""
        self._finish_runs(ledger)
        jobs = {job["metadata"]["name"]: job for job in self.cluster.admin.list(self._jobs)}
        return all(jobs[name].get("status", {}).get("state", {}).get("phase") == "Completed" for name in ledger.gangs)


@contextmanager
def gang_story(cluster: Cluster, shape: Shape = GANGS) -> Iterator[GangStory]:
    yield GangStory(cluster, shape)


def kill_rounds(
    story: GangStory, kills: int, *, in_round: int = 5, say: Callable[[str], None] = lambda line: None
) -> list[Round]:
    """Rounds until the scheduler was killed so many times while a gang was half bound; in every fourth round only the
    controllers are killed. Raises AssertionError if a gang is left half bound or one that holds nothing goes before
    it, or a pod is lost, bound twice or bound where there is no room."""
    played: list[Round] = []
    for victims in itertools.cycle(story.shape.victims):
        left = kills - sum(one.hits for one in played if "scheduler" in one.victims)
        if left <= 0:
            break
        one = story.play(victims, min(left, in_round))
        played.append(one)
        say(
            f"round {len(played)}: {' and '.join(victims)} killed {one.kills} times, {one.hits} with a half gang; "
            f"{one.binds} binds, one half bound for at most {one.longest_half:.1f} s, {one.seconds:.0f} s"
        )
    return played


def as_table(rounds: list[Round]) -> list[dict[str, Any]]:
    """By who was killed, and then all."""
    rows = {" and ".join(victims): [one for one in rounds if one.victims == victims] for victims in VICTIMS}
    rows["all"] = rounds
    return [
        {
            "killed": killed, "rounds": len(found), "kills": sum(one.kills for one in found),
            "half gang hit": sum(one.hits for one in found), "binds": sum(one.binds for one in found),
            "longest half bound": round(max(one.longest_half for one in found), 1),
        }
        for killed, found in rows.items()
        if found
    ]  # fmt: skip
