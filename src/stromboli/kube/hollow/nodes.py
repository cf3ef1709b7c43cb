"""The hollow nodes themselves: how they come, how they show that they are alive, and how they go.

A hollow node is a Node object that nobody stands behind, marked by a label. Nodes without the label are somebody's
machines and are never touched, whatever they are called. One that is there already, from an earlier run, is taken over.

Thousands of nodes must not be a burden to the server. They are created side by side, but a few at a time. And rather
than all of them waking up every ten seconds, they take turns: the renewals of a round go out one after the other,
evenly over the round, so that the server never sees a crowd.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from stromboli.api import Node, ResourceList
from stromboli.api.timestamps import format_timestamp
from stromboli.errors import UserError
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_already_there, is_not_found
from stromboli.kube.client.parallel import side_by_side
from stromboli.kube.client.rate_limit import Backoff
from stromboli.kube.client.resources import LEASES, NODES, Resource
from stromboli.kube.runtime.logs import Log

from .pod_lifecycle import fake_address

HOLLOW_LABEL: Final = "stromboli.io/hollow"
_LEASES_OF_NODES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40  # as kubelets do; after that long in silence a cluster takes a node for dead
_SHORTEST_ROUND: Final = 10.0
_LONGEST_ROUND: Final = 20.0  # half of what is allowed: one renewal in each round may fail
_RENEWALS_PER_SECOND: Final = 200  # rounds get longer rather than to renew more than this
_REFRESH_EVERY: Final = 300.0  # the whole status, as kubelets do where nothing changes
_TRIES: Final = 5
_NOT_READY: Final = "node.kubernetes.io/not-ready"

T = TypeVar("T")

_log = Log("hollow")


class Fleet:
    """Nodes of one shape, with these names."""

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        capacity: ResourceList,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        width: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.names = list(names)
        self._client = client
        self._capacity = dict(capacity)
        self._labels = dict(labels or {})
        self._taints = list(taints)
        self._width = width
        self._progress = progress
        self._version = ""
        self._ours = False  # until we have seen that all names are free, or hollow nodes'
        self._alive: list[str] = []  # those whose hearts beat

    async def register(self) -> None:
        """Every node is there and ready. If a name belongs to a node that is not hollow: UserError, nothing done."""
        major, minor = await self._client.server_version()
        self._version = f"v{major}.{minor}.0-hollow"
        listed = await self._client.list(NODES)
        known = {node.metadata.name: node for node in listed.items}
        for name in self.names:
            if name in known:
                _refuse_real(known[name])
        self._ours = True

        async def settle(name: str) -> None:
            node = await self._adopted(known[name]) if name in known else await self._created(name)
            await self._opened(node)
            await self._begin_lease(name)
            self._alive.append(name)

        await side_by_side(self.names, _patiently(settle), width=self._width, done=self._progress)

    async def heart_beat(self) -> None:
        """Keep the nodes alive, for ever."""
        renewing = min(max(len(self.names) / _RENEWALS_PER_SECOND, _SHORTEST_ROUND), _LONGEST_ROUND)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._rounds(self._renew, every=renewing))
            both.create_task(self._rounds(self._refresh, every=_REFRESH_EVERY))

    async def remove(self) -> int:
        """Take away the nodes that `register` made or took over, even if it was interrupted; returns how many."""
        if not self._ours:
            return 0
        names = set(self.names)
        listed = await self._client.list(NODES, label_selector=f"{HOLLOW_LABEL}=true")

        async def gone(node: Node) -> None:
            await self._delete(NODES, node.metadata.name, node.metadata.uid)
            await self._delete(LEASES, f"{_LEASES_OF_NODES}/{node.metadata.name}")

        there = [node for node in listed.items if node.metadata.name in names]
        await side_by_side(there, _patiently(gone), width=self._width)
        return len(there)

    async def _delete(self, resource: Resource[Any], key: str, uid: str = "") -> None:
        try:
            await self._client.delete(resource, key, uid=uid)
        except Failure as failure:
            if not is_not_found(failure):
                raise

    # -- coming -----------------------------------------------------------------------------------------------------

    async def _created(self, name: str) -> Node:
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
            if not is_already_there(failure):
                raise
        there = await self._client.get(NODES, name)
        _refuse_real(there)
        return await self._adopted(there)

    async def _adopted(self, node: Node) -> Node:
        name = node.metadata.name
        await self._client.patch(NODES, name, {"metadata": {"labels": self._labels_of(name)}})
        status = self._status_of(name)
        for offer, before in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
            status[offer] = dict.fromkeys(before) | self._capacity  # None: what it offers no longer
        return await self._client.patch(NODES, name, {"status": status}, subresource="status", strategic=True)

    async def _opened(self, node: Node) -> None:
        """New nodes are born with a taint, which a controller takes off that not every cluster has."""
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

    # -- staying ----------------------------------------------------------------------------------------------------

    async def _rounds(self, beat: Callable[[str], Awaitable[None]], *, every: float) -> None:
        """One node after the other, evenly over the round, for ever; as many at once as the server is slow."""
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
                    if not failing:  # Said once: an outage is one, however many nodes it stops.
                        _log.warning("heart-beats fail; trying on", node=name, error=str(failure))
                    failing = True

        async def take_turns() -> None:
            while True:
                # A node that was deleted meanwhile is left out of the next round.
                names = list(self._alive)
                begun = time.monotonic()
                for turn, name in enumerate(names):
                    await turns.put(name)
                    await asyncio.sleep(begun + every * turn / len(names) - time.monotonic())
                await asyncio.sleep(begun + every - time.monotonic())

        async with asyncio.TaskGroup() as together:
            together.create_task(take_turns())
            for _ in range(self._width):
                together.create_task(work())

    async def _begin_lease(self, name: str) -> None:
        try:
            body = {"metadata": {"name": name}, "spec": _lease(name)}
            await self._client.create(LEASES, body, namespace=_LEASES_OF_NODES)
        except Failure as failure:
            if not is_already_there(failure):
                raise
            await self._client.patch(LEASES, f"{_LEASES_OF_NODES}/{name}", {"spec": _lease(name)})

    async def _renew(self, name: str) -> None:
        try:
            await self._client.patch(LEASES, f"{_LEASES_OF_NODES}/{name}", {"spec": _lease(name)})
        except Failure as failure:
            if not is_not_found(failure):
                raise
            await self._begin_lease(name)

    async def _refresh(self, name: str) -> None:
        now = format_timestamp(int(time.time()))
        try:
            await self._client.patch(
                NODES, name, {"status": {"conditions": _conditions(now)}}, subresource="status", strategic=True
            )
        except Failure as failure:
            if not is_not_found(failure):
                raise
            self._alive.remove(name)
            _log.warning("a node was deleted by somebody else and stays away", node=name)


def _patiently(do: Callable[[T], Awaitable[None]]) -> Callable[[T], Awaitable[None]]:
    """One broken connection must not end what was done thousands of times; these writes may all be repeated."""

    async def tried(item: T) -> None:
        backoff = Backoff()
        for _ in range(_TRIES - 1):
            try:
                return await do(item)
            except Failure as failure:
                if 0 < failure.status < 500:
                    raise
            await asyncio.sleep(backoff.next())
        await do(item)

    return tried


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
    return {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": _precise(time.time())}


def _refuse_real(node: Node) -> None:
    if node.metadata.labels.get(HOLLOW_LABEL) != "true":
        raise UserError(
            f"Node {node.metadata.name} exists and is no hollow node; nothing was done to it. "
            "Choose other names with --name-prefix."
        )


def _precise(seconds: float) -> str:
    """Leases are dated to the microsecond, always with six digits."""
    whole, rest = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{format_timestamp(whole)[:-1]}.{rest:06d}Z"
