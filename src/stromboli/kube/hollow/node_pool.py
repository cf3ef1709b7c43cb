"""The Node objects of hollow nodes: registration, heartbeats, removal.

A hollow node is a Node object without a machine, marked by a label. Nodes without the label are real and are never
changed, whatever their names are. A hollow node that exists already, from an earlier run, is taken over, but not while
its lease is fresh: then another process runs it.

Thousands of nodes must not overload the server. They are created with bounded concurrency. And instead of renewing all
leases at once every ten seconds, the renewals of a round are spread evenly over the round.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from stromboli.api import Node, ResourceList
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.errors import UserError
from stromboli.kube.client import (
    LEASES,
    NODES,
    Backoff,
    Client,
    Failure,
    Resource,
    for_each_concurrently,
    is_already_exists,
    is_not_found,
)
from stromboli.kube.runtime import Log

from .pod_lifecycle import fake_address

HOLLOW_LABEL: Final = "stromboli.io/hollow"
PROCESS_ANNOTATION: Final = "stromboli.io/hollow-process"
_NODE_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40  # as kubelets do; after that long without renewal a node counts as dead
_MIN_ROUND: Final = 10.0
_MAX_ROUND: Final = 20.0  # half of the lease: one renewal in each round may fail
_RENEWALS_PER_SECOND: Final = 200  # with more nodes, rounds get longer
_REFRESH_EVERY: Final = 300.0  # of the whole status, as kubelets do when nothing changes
_ATTEMPTS: Final = 5
_NOT_READY: Final = "node.kubernetes.io/not-ready"

T = TypeVar("T")

_log = Log("hollow")


class HollowNodePool:
    """Nodes of one size, with these names."""

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        capacity: ResourceList,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        concurrency: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.names = list(names)
        self._client = client
        self._capacity = dict(capacity)
        self._labels = dict(labels or {})
        self._taints = list(taints)
        self._concurrency = concurrency
        self._progress = progress
        self._version = ""
        self._may_remove = False  # until all names are known to be free or hollow nodes'
        self._alive: list[str] = []  # nodes that send heartbeats
        self._lost: set[str] = set()  # nodes that pretend to be lost: they send none

    async def register(self) -> None:
        """Create or take over every node. Raises UserError, without any change, if one of them is a real node."""
        major, minor = await self._client.server_version()
        self._version = f"v{major}.{minor}.0-hollow"
        listed = await self._client.list(NODES)
        known = {node.metadata.name: node for node in listed.items}
        for name in self.names:
            if name in known:
                _refuse_real_node(known[name])
        await self._refuse_nodes_in_use(known)
        self._may_remove = True

        async def set_up(name: str) -> None:
            node = await self._take_over(known[name]) if name in known else await self._create(name)
            await self._remove_not_ready_taint(node)
            await self._create_lease(name)
            self._alive.append(name)

        await for_each_concurrently(
            self.names, _with_retries(set_up), limit=self._concurrency, on_progress=self._progress
        )

    async def run_heartbeats(self) -> None:
        """Keep the nodes alive, until cancelled."""
        renewing = min(max(len(self.names) / _RENEWALS_PER_SECOND, _MIN_ROUND), _MAX_ROUND)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds(self._renew, every=renewing))
            group.create_task(self._rounds(self._refresh, every=_REFRESH_EVERY))

    async def set_ready(self, name: str, ready: bool) -> None:
        """Make a node Ready, or lose it."""
        (self._lost.discard if ready else self._lost.add)(name)
        now = format_timestamp(int(time.time()))
        conditions = [{**one, "lastTransitionTime": now} for one in _conditions(now) if one["type"] == "Ready"]
        if not ready:
            conditions[0] |= {"status": "False", "reason": "KubeletNotReady", "message": "made NotReady on request"}
        patch = {"status": {"conditions": conditions}}
        await self._client.patch(NODES, name, patch, subresource="status", strategic=True)

    async def remove(self) -> int:
        """Delete the nodes that `register` created or took over, even if it was interrupted; returns how many."""
        if not self._may_remove:
            return 0
        names = set(self.names)
        listed = await self._client.list(NODES, label_selector=f"{HOLLOW_LABEL}=true")

        async def remove(node: Node) -> None:
            await self._delete(NODES, node.metadata.name, node.metadata.uid)
            await self._delete(LEASES, f"{_NODE_LEASE_NAMESPACE}/{node.metadata.name}")

        present = [node for node in listed.items if node.metadata.name in names]
        await for_each_concurrently(present, _with_retries(remove), limit=self._concurrency)
        return len(present)

    async def release(self) -> None:
        """Leave the nodes as they are for the next run, which takes over only nodes without a fresh lease."""

        async def release(name: str) -> None:
            await self._delete(LEASES, f"{_NODE_LEASE_NAMESPACE}/{name}")

        await for_each_concurrently(list(self._alive), _with_retries(release), limit=self._concurrency)

    async def _refuse_nodes_in_use(self, known: Mapping[str, Node]) -> None:
        """Two processes on the same nodes would delete each other's pods and nodes."""
        taken = known.keys() & set(self.names)
        if not taken:
            return
        now = time.time()
        for lease in (await self._client.list(LEASES, namespace=_NODE_LEASE_NAMESPACE)).items:
            name, renewed = lease.metadata.name, lease.spec.renew_time
            fresh = renewed is not None and now - parse_timestamp(renewed) < _LEASE_SECONDS
            if name in taken and fresh and not _was_killed(lease.metadata.annotations.get(PROCESS_ANNOTATION, "")):
                raise UserError(
                    f"Node {name} is in use by another `stromboli hollow-nodes`; nothing was changed. Choose other "
                    f"names with --name-prefix. If that process was killed, try again {_LEASE_SECONDS} seconds later."
                )

    async def _delete(self, resource: Resource[Any], key: str, uid: str = "") -> None:
        try:
            await self._client.delete(resource, key, uid=uid)
        except Failure as failure:
            if not is_not_found(failure):
                raise

    # -- registration -----------------------------------------------------------------------------------------------

    async def _create(self, name: str) -> Node:
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": self._labels_of(name)},
            "spec": {"taints": self._taints},
            "status": self._status_of(name),
        }
        try:
            return await self._client.create(NODES, body)
        except Failure as failure:
            if not is_already_exists(failure):
                raise
        node = await self._client.get(NODES, name)
        _refuse_real_node(node)
        return await self._take_over(node)

    async def _take_over(self, node: Node) -> Node:
        name = node.metadata.name
        await self._client.patch(NODES, name, {"metadata": {"labels": self._labels_of(name)}})
        status = self._status_of(name)
        for field, before in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
            status[field] = dict.fromkeys(before) | self._capacity  # None removes resources that it no longer has
        return await self._client.patch(NODES, name, {"status": status}, subresource="status", strategic=True)

    async def _remove_not_ready_taint(self, node: Node) -> None:
        """The server taints new nodes, and not every cluster has the controller that removes the taint."""
        kept = [taint for taint in node.spec.taints if taint.key != _NOT_READY]
        if len(kept) < len(node.spec.taints):
            taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in kept]
            await self._client.patch(NODES, node.metadata.name, {"spec": {"taints": taints or None}})

    def _labels_of(self, name: str) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self._labels,
            HOLLOW_LABEL: "true",
        }

    def _status_of(self, name: str) -> dict[str, Any]:
        now = format_timestamp(int(time.time()))
        address = fake_address(name)
        return {
            "capacity": self._capacity,
            "allocatable": self._capacity,
            "conditions": [{**condition, "lastTransitionTime": now} for condition in _conditions(now)],
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "operatingSystem": "linux",
                "architecture": "amd64",
                "kubeletVersion": self._version,
                "osImage": "hollow",
                "containerRuntimeVersion": "hollow://",
            },
        }

    # -- heartbeats -------------------------------------------------------------------------------------------------

    async def _rounds(self, beat: Callable[[str], Awaitable[None]], *, every: float) -> None:
        """Send the heartbeats of all nodes in each round, spread evenly; concurrently if the server is slow."""
        turns: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        failing = False

        async def work() -> None:
            nonlocal failing
            while True:
                name = await turns.get()
                try:
                    await beat(name)
                    failing = False
                except Failure as failure:
                    if not failing:  # logged once for each outage, not for each node
                        _log.warning("heartbeats fail; retrying", node=name, error=str(failure))
                    failing = True

        async def feed() -> None:
            while True:
                # without nodes that were deleted in the meantime
                names = list(self._alive)
                started = time.monotonic()
                for turn, name in enumerate(names):
                    await turns.put(name)
                    await asyncio.sleep(started + every * turn / len(names) - time.monotonic())
                await asyncio.sleep(started + every - time.monotonic())

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            for _ in range(self._concurrency):
                group.create_task(work())

    async def _create_lease(self, name: str) -> None:
        try:
            body = {"metadata": {"name": name, "annotations": _process()}, "spec": _lease(name)}
            await self._client.create(LEASES, body, namespace=_NODE_LEASE_NAMESPACE)
        except Failure as failure:
            if not is_already_exists(failure):
                raise
            changes = {"metadata": {"annotations": _process()}, "spec": _lease(name)}
            await self._client.patch(LEASES, f"{_NODE_LEASE_NAMESPACE}/{name}", changes)

    async def _renew(self, name: str) -> None:
        if name in self._lost:
            return
        try:
            await self._client.patch(LEASES, f"{_NODE_LEASE_NAMESPACE}/{name}", {"spec": _lease(name)})
        except Failure as failure:
            if not is_not_found(failure):
                raise
            await self._create_lease(name)

    async def _refresh(self, name: str) -> None:
        if name in self._lost:
            return
        now = format_timestamp(int(time.time()))
        try:
            await self._client.patch(
                NODES, name, {"status": {"conditions": _conditions(now)}}, subresource="status", strategic=True
            )
        except Failure as failure:
            if not is_not_found(failure):
                raise
            self._alive.remove(name)
            _log.warning("a node was deleted from outside; not creating it again", node=name)


def _with_retries(do: Callable[[T], Awaitable[None]]) -> Callable[[T], Awaitable[None]]:
    """Retry on connection and server errors. These writes can all be repeated."""

    async def attempt(item: T) -> None:
        backoff = Backoff()
        for _ in range(_ATTEMPTS - 1):
            try:
                return await do(item)
            except Failure as failure:
                if 0 < failure.status < 500:
                    raise
            await asyncio.sleep(backoff.next())
        await do(item)

    return attempt


def _conditions(now: str) -> list[dict[str, Any]]:
    return [
        {"type": name, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now}
        for name, status, reason, message in (
            ("Ready", "True", "KubeletReady", "hollow node is ready"),
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "hollow node uses no memory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "hollow node uses no disk"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "hollow node starts no processes"),
        )
    ]


def _lease(name: str) -> dict[str, Any]:
    return {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": _micro_time(time.time())}


def _process() -> dict[str, str]:
    """Which process renews a lease: its machine and its number there."""
    return {PROCESS_ANNOTATION: f"{socket.gethostname()}/{os.getpid()}"}


def _was_killed(process: str) -> bool:
    """Whether the process ran on this machine and does so no more. Of other machines we know nothing."""
    machine, _, number = process.rpartition("/")
    if machine != socket.gethostname() or not (number.isascii() and number.isdigit() and len(number) <= 9):
        return False
    try:
        os.kill(int(number), 0)  # only asks whether it exists
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _refuse_real_node(node: Node) -> None:
    if node.metadata.labels.get(HOLLOW_LABEL) != "true":
        raise UserError(
            f"Node {node.metadata.name} exists and is not a hollow node; it was not changed. "
            "Choose other names with --name-prefix."
        )


def _micro_time(seconds: float) -> str:
    """Leases have timestamps in microseconds, always with six digits."""
    whole, rest = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{format_timestamp(whole)[:-1]}.{rest:06d}Z"
