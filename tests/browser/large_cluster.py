"""A thousand nodes and two thousand jobs, on a page of their own: objects as an API server would have them, through the
code of the page, without an API server and without machines.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from random import Random

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from builders import START, established, group, node, pod, queue
from stromboli.api import Condition, KObject, Pod, QueueReservation, QueueStatus, names
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster.events import Applied
from stromboli.kube.page_server.document_changes import encode_event
from stromboli.kube.page_server.http_server import ActionRequest, PageHttpServer, PageOptions
from stromboli.kube.page_server.live_document import LiveDocument
from stromboli.page import Document
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

NODES = 1000
JOBS = 2000
TOKEN = "token-of-the-browser-tests"
_QUEUES = {"research": 3, "production": 2, "teaching": 1, "clinic": 1}


def large_document() -> Document:
    live = LiveDocument("A large cluster", "volcano")
    registry = Registry()
    scheduler = Scheduler(registry.default(), registry)
    objects = list(_objects())
    document = live.refresh([Applied(obj) for obj in objects], [], [], scheduler, START + 4000)
    for minute in range(0, 60, 10):  # samples for the pictures over time
        document = live.refresh([], [], [], scheduler, START + 4010 + 60 * minute)
    return document


def _objects() -> Iterator[KObject]:
    random = Random(17)
    for position, (name, weight) in enumerate(_QUEUES.items()):
        described = queue(name, weight=weight)
        if name == "clinic":
            described = replace(
                described,
                spec=replace(described.spec, guarantee=replace(described.spec.guarantee, policy="Best-Effort")),
                status=QueueStatus(
                    state="Open", reservation=QueueReservation(nodes=[f"node-{n:03}" for n in range(940, 980)])
                ),
            )
        yield established(described, position)
    for number in range(NODES):
        gpu = 8 if number % 10 == 0 else None
        yield established(node(f"node-{number:03}", cpu=32, memory="128Gi", gpu=gpu, cordoned=number % 97 == 0), number)
    free = {f"node-{number:03}": 32 for number in range(NODES)}
    for number in range(JOBS):
        yield from _job(number, random, free)


def _job(number: int, random: Random, free: dict[str, int]) -> Iterator[KObject]:
    namespace = f"team-{number % 12}"
    name = f"job-{number:04}"
    size, cpu = random.choice((1, 1, 2, 4, 8)), random.choice((1, 2, 4, 8))
    runs = number % 10 < 7
    chosen = random.choices(sorted(free), k=size) if runs else []
    runs = runs and all(free[one] >= cpu * chosen.count(one) for one in chosen)
    owner = list(_QUEUES)[number % len(_QUEUES)]
    yield established(
        group(f"{namespace}/{name}", queue=owner, min_member=size, phase="Running" if runs else "Inqueue"), number
    )
    for index in range(size):
        described = pod(f"{namespace}/{name}-{index}", group=name, cpu=cpu, memory=f"{cpu}Gi")
        made = established(described, number)
        assert isinstance(made, Pod)
        yield _running(made, chosen[index], number, random) if runs else _waiting(made, size)
        if runs:
            free[chosen[index]] -= cpu


def _running(made: Pod, node_name: str, number: int, random: Random) -> Pod:
    began = format_timestamp(START + 2000 + number * 0.9 + random.randrange(60))
    meta = made.metadata
    if number % 9 == 0:
        meta = replace(meta, annotations={**meta.annotations, names.BACKFILL: "true"})
    return replace(
        made, metadata=meta, spec=replace(made.spec, node_name=node_name),
        status=replace(made.status, phase="Running", start_time=began),
    )  # fmt: skip


def _waiting(made: Pod, size: int) -> Pod:
    message = f"Only 0 of {size} pods fit: 1000 of 1000 nodes are not available: 1000 with insufficient cpu."
    condition = Condition(
        type="PodScheduled", status="False", reason="InsufficientGang", message=message,
        last_transition_time=format_timestamp(START),
    )  # fmt: skip
    return replace(made, status=replace(made.status, conditions=[condition]))


@contextmanager
def served(document: Document) -> Iterator[str]:
    """The address of a page that shows the document, with the token."""
    event = encode_event("document", {"document": document, "canWrite": False})
    started = threading.Event()
    addresses: list[str] = []
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def why(job: str) -> bytes | None:
        return encode_json({"reasons": [{"code": "InsufficientGang", "message": "Not enough.", "nextStep": "Wait."}]})

    async def act(wanted: ActionRequest) -> tuple[HTTPStatus, str]:
        raise AssertionError("the page is read-only")

    async def main() -> None:
        stop = asyncio.Event()
        ends.append((asyncio.get_running_loop(), stop))
        server = PageHttpServer(PageOptions(TOKEN), lambda: event, why, why, act)
        await server.start()
        addresses.append(f"{server.url}#token={TOKEN}")
        started.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield addresses[0]
    finally:
        loop, stop = ends[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
