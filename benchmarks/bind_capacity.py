"""How much of what an API server takes the scheduler uses, and how long it takes to start.

A backlog of pods is bound twice, on the same server and in the same run, over as many connections:

    bare       a loop that does nothing but send binds, with a plain aiohttp session; the nodes are fixed before
    scheduler  `stromboli scheduler`, started when all pods exist

and that is repeated, in alternating order, because the speed of a server varies from minute to minute. A bind counts
when a watch shows it, in both. `part` is the rate of the scheduler divided by the rate of the bare loop beside it.

    python benchmarks/bind_capacity.py --kubeconfig test.kubeconfig [--pods 3000] [--nodes 100] [--rounds 3]

prints one JSON document: medians, and the figures of each round. Processor times are of the bare loop and of the
scheduler; those per bind are from the first bind to the last. The server must have the CRDs. Use a test cluster: all
objects have the name of the run and are removed at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.bench.child_process import ChildProcess
from stromboli.kube.bench.workload import PART, Workload
from stromboli.kube.client import PODS, Client, Reflector, for_each_concurrently, load_client_config

WRITERS = 16  # connections that create and delete pods
BINDERS = 32  # connections of the bare loop; the scheduler has as many workers
PATIENCE = 120.0  # seconds without a bind after which a run has failed


class Round(msgspec.Struct):
    """One backlog, bound by both."""

    bare_per_second: float = 0.0
    bare_cpu_microseconds_per_bind: float = 0.0
    scheduler_per_second: float = 0.0
    scheduler_cpu_microseconds_per_bind: float = 0.0
    start_to_first_bind_seconds: float = 0.0
    start_to_first_bind_cpu_seconds: float = 0.0
    part: float = 0.0


class Binds:
    """When the watch showed the first and the last bind of a part, and what a process had used by then."""

    def __init__(self, client: Client, namespace: str, part: str, pid: int | None) -> None:
        self.first = self.last = self.first_cpu = self.last_cpu = 0.0
        self.pid = pid
        self._bound: set[str] = set()
        self._news = asyncio.Event()
        self._reflector = Reflector(
            client, PODS, self._on_event, namespace=namespace,
            field_selector="spec.nodeName!=", label_selector=f"{PART}={part}",
        )  # fmt: skip

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Binds]:
        watching = asyncio.create_task(self._reflector.run())
        await self._reflector.synced.wait()
        try:
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def reach(self, count: int) -> None:
        while len(self._bound) < count:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE)
        self.last_cpu = _cpu_of(self.pid)

    @property
    def per_second(self) -> float:
        # The time starts with the first bind, so that one does not count.
        return (len(self._bound) - 1) / (self.last - self.first)

    @property
    def cpu_per_bind(self) -> float:
        """In microseconds."""
        return (self.last_cpu - self.first_cpu) / len(self._bound) * 1e6

    def _on_event(self, event: Applied | Deleted) -> None:
        self.last = time.monotonic()
        if not self._bound:
            self.first, self.first_cpu = self.last, _cpu_of(self.pid)
        self._bound.add(event.object.metadata.name)
        self._news.set()


class Bench:
    def __init__(self, arguments: argparse.Namespace, writing: Client, watching: Client) -> None:
        self.workload = Workload(writing, nodes=arguments.nodes, gang_size=arguments.gang_size, connections=WRITERS)
        self._kubeconfig: Path = arguments.kubeconfig
        self._pods: int = arguments.pods
        self._nodes: int = arguments.nodes
        self._watching = watching

    async def bare(self, result: Round, part: str) -> None:
        await self.workload.for_each_pod(part, self._pods, self.workload.create_unscheduled)
        async with Binds(self._watching, self.workload.name, part, None).watched() as binds:
            loop = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--kubeconfig", str(self._kubeconfig), "--pods", str(self._pods),
                "--nodes", str(self._nodes), "--bare-loop", f"{self.workload.name}/{part}",
                start_new_session=True,  # like the scheduler: Linux divides a busy machine by sessions
            )  # fmt: skip
            binds.pid = loop.pid
            await binds.reach(self._pods)
            await loop.wait()
        result.bare_per_second, result.bare_cpu_microseconds_per_bind = binds.per_second, binds.cpu_per_bind
        await self.workload.clear(part)

    async def scheduler(self, result: Round, part: str) -> None:
        await self.workload.create_groups(part, self._pods)
        await self.workload.for_each_pod(part, self._pods, self.workload.create)
        async with Binds(self._watching, self.workload.name, part, None).watched() as binds:
            child = ChildProcess([
                "scheduler", "--kubeconfig", str(self._kubeconfig), "--scheduler-name", self.workload.name,
                "--no-leader-elect", "--probe-port", "0", "--log-level", "error",
            ])  # fmt: skip
            await child.start()
            try:
                binds.pid = child.pid
                await binds.reach(self._pods)
            finally:
                await child.stop()
        result.scheduler_per_second = binds.per_second
        result.scheduler_cpu_microseconds_per_bind = binds.cpu_per_bind
        result.start_to_first_bind_seconds = binds.first - child.started_at
        result.start_to_first_bind_cpu_seconds = binds.first_cpu
        await self.workload.clear(part)


async def bare_loop(arguments: argparse.Namespace) -> None:
    """Bind the pods of a part, in a process of its own."""
    config = load_client_config(arguments.kubeconfig, None)
    identity = await config.credentials.identify()
    tls = identity.ssl or config.ssl
    namespace, _, part = arguments.bare_loop.partition("/")
    headers = {"Content-Type": "application/json", **identity.headers}
    connector = aiohttp.TCPConnector(limit=BINDERS, ssl=tls if tls is not None else True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def bind(number: int) -> None:
            pod, node = f"{part}-{number}", f"{namespace}-{number % arguments.nodes}"
            binding = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": namespace, "name": pod},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }  # fmt: skip
            url = f"{config.server.rstrip('/')}/api/v1/namespaces/{namespace}/pods/{pod}/binding"
            async with session.post(url, data=msgspec.json.encode(binding)) as response:
                response.raise_for_status()
                await response.read()

        await for_each_concurrently(range(arguments.pods), bind, limit=BINDERS)


def _cpu_of(pid: int | None) -> float:
    """Seconds of processor time that a process has used; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(rounds: list[Round]) -> dict[str, float]:
    """The median of each figure."""
    return {name: round(statistics.median(getattr(one, name) for one in rounds), 3) for name in Round.__struct_fields__}


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    config = load_client_config(arguments.kubeconfig, None)
    rounds: list[Round] = []
    async with Client(config, connections=WRITERS) as writing, Client(config) as watching:
        bench = Bench(arguments, writing, watching)
        try:
            await bench.workload.set_up()
            for number in range(arguments.rounds):
                result = Round()
                order = [(bench.bare, "bare"), (bench.scheduler, "ours")]
                for run, part in order if number % 2 == 0 else reversed(order):
                    await run(result, f"{part}{number}")
                result.part = result.scheduler_per_second / result.bare_per_second
                rounds.append(result)
                print(f"round {number + 1}: {result}", file=sys.stderr)
        finally:
            await bench.workload.tear_down(lambda line: print(line, file=sys.stderr))
    return {
        "pods": arguments.pods, "nodes": arguments.nodes, "gangSize": arguments.gang_size,
        "medians": summary(rounds), "rounds": rounds,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--gang-size", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare-loop", metavar="NAMESPACE/PART", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare_loop:
        asyncio.run(bare_loop(arguments))
        return
    print(json.dumps(msgspec.to_builtins(asyncio.run(measure(arguments))), indent=2))


if __name__ == "__main__":
    main()
