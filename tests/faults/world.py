"""A cluster with all its processes in one loop: what there is at the start, and how steps act on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

from stromboli.embedded.server import ApiServer, Request, Response
from stromboli.embedded.store import Store
from stromboli.kube.crds.definitions import definitions

from . import documents as make
from .plan import Plan
from .simulated.history import History
from .simulated.loop import VirtualLoop
from .simulated.processes import Machine, Process, controllers, descheduler, kubelets, page, scheduler
from .simulated.rules import Rules
from .simulated.server import Objects, Server

EPOCH: Final = 1_893_456_000.0  # 2030-01-01
SPARES: Final = ("spare", "spare-2")  # room for everybody in the end, also if one is locked for a queue
_ROUNDS: Final = 20


@cache
def _start() -> Objects:
    """What is the same in all worlds, made once."""
    api = ApiServer(Store(), random=Random(1), now=EPOCH)
    documents = [("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one) for one in definitions().values()]
    for namespace in (make.NAMESPACE, "stromboli-system"):
        documents.append(("/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for name, value in (("low", 10), ("high", 1000)):
        documents.append(("/apis/scheduling.k8s.io/v1/priorityclasses", make.priority_class(name, value)))
    for path, document in documents:
        body = json.dumps(document).encode()
        outcome = api.handle(Request("POST", path, {}, {"content-type": "application/json"}, body), EPOCH)
        assert isinstance(outcome, Response), outcome
        assert outcome.status == 201, outcome
    return Objects(api.store)


class World:
    def __init__(self, plan: Plan) -> None:
        self.loop = VirtualLoop()
        dice = Random(plan.seed * 7919 + 1)
        self.history = History()
        self.rules = Rules()
        self.server = Server(self.loop, Random(dice.getrandbits(64)), self.rules, self.history, EPOCH, _start())
        self.loop.network = self.server.network
        self.plan = plan
        self.nodes = plan.nodes
        self.lost: set[str] = set()
        self.everybody_new: dict[str, int] = {}
        self._create_nodes()
        self.processes: dict[str, Process] = {}
        mains: dict[str, Callable[..., Any]] = {
            "scheduler": scheduler(make.CONFIGURATION, plan.period), "controllers": controllers(make.CONFIGURATION),
            "descheduler": descheduler(make.CONFIGURATION, make.POLICY),
        }  # fmt: skip
        for name in plan.replicas:
            self._add(name, mains[name[:-2]], dice)
        if plan.has_page:
            self._add("page", page(make.CONFIGURATION), dice)
        nodes = [*self.nodes, *SPARES]
        self._add("kubelets", kubelets(nodes, self.lost, with_volumes=plan.has_volumes), dice, exact=True)

    def _add(self, name: str, main: Callable[..., Any], dice: Random, *, exact: bool = False) -> None:
        offset, rate = (0.0, 1.0) if exact else (dice.uniform(-5.0, 5.0), dice.uniform(0.995, 1.005))
        machine = Machine(self.loop, EPOCH, offset, rate)
        seeded = Random(dice.getrandbits(64))
        self.processes[name] = Process(
            name, self.loop, machine, self.history, seeded, main, self.server.network.closed
        )  # fmt: skip

    def _create_nodes(self) -> None:
        for name, cpu in self.nodes.items():
            self.add_node(name, cpu)

    def add_node(self, name: str, cpu: int) -> None:
        document = make.node(name, cpu)
        self.must("POST", make.NODES, document)
        self.patch(f"{make.NODES}/{name}", {"spec": {"taints": None}})

    # -- what users and machines do -----------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        response = self.server.call(method, path, body, kind)
        return response.status, response.json()

    def must(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        status, answer = self.ask(method, path, body, kind)
        assert status < 300, (method, path, answer)
        return answer

    def patch(self, path: str, body: Any) -> tuple[int, Any]:
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def say(self, who: str, text: str) -> None:
        self.history.say(self.loop.time(), who, text)

    # -- running ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for process in self.processes.values():
            process.start()

    def run_until(self, when: float) -> None:
        async def wait() -> None:
            await asyncio.sleep(when - self.loop.time())

        if when > self.loop.time():
            self.loop.run_until_complete(wait())

    def end(self) -> None:
        """Cancel everything, so that nothing is left to be cleaned up at a time of its own."""
        self.history.closed = True
        self.server.network.is_down = True
        for _ in range(_ROUNDS):  # what is cleaned up may wait for something
            if not sum(process.end() for process in self.processes.values()):
                break
            self.server.network.cut_all()
            self.run_until(self.loop.time() + 1.0)
        self.loop.close()
