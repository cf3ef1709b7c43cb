"""Leader election: of several replicas, the one that holds the lease acts.

The lease is a Kubernetes Lease in client-go's format, so `kubectl get lease` shows it as usual and replicas that use
client-go would respect it. The holder renews it every two seconds. The others read it. One of them takes it when it has
not changed for as long as the lease lasts, *by its own clock*: the clocks of different machines are never compared, and
the times in the object are for people. Every write carries the resourceVersion it is based on, so of two replicas that
take the lease at once the server refuses one.

That alone is not enough. A process that was suspended for a minute does not know it, and its next write would be one
too many. So `is_leader` is a fence that ends before the lease does, to be checked before everything that only the
leader may do:

    renewal sent ─────── renew_within ──────▶ is_leader is False
         │  └─ server writes it ── others see it ─────── duration ──────▶ another replica may take the lease
         └── the fence starts here, before the request is sent: the time the response takes only shortens it

The time between the two, five seconds by default, is for requests that are in flight when the fence ends, and for
clocks that do not run equally fast.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec.structs import replace

from stromboli.api import ObjectMeta
from stromboli.errors import UserError
from stromboli.kube.client import (
    LEASES,
    Client,
    Failure,
    Lease,
    LeaseSpec,
    is_already_exists,
    is_conflict,
    is_not_found,
)

from .logs import Log

_CLOCK: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
_JITTER: Final = 0.5  # of the time between two reads of another replica's lease

_log = Log("leadership")


def suspend_aware_clock() -> float:
    """Seconds of a clock that cannot be set and that runs on while the machine is suspended: a leader that was
    suspended for an hour must not think that its lease is fresh."""
    return time.clock_gettime(_CLOCK)


class Fence(Protocol):
    @property
    def is_leader(self) -> bool:
        """Whether this replica may act now."""
        ...


class Leadership(Fence, Protocol):
    async def run(self) -> None: ...

    async def wait_until_leader(self) -> None: ...

    async def release(self) -> None: ...


class LeaderElector:
    """Competes for the lease on behalf of one replica. `is_leader` says whether this one may act now."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        duration: float = 15.0,
        renew_within: float = 10.0,
        every: float = 2.0,
        clock: Callable[[], float] = suspend_aware_clock,
        wall_clock: Callable[[], float] = time.time,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`identity` must be unique to the process, also after a restart on the same machine. `wall_clock` gives the
        times in the lease, which are for people."""
        if not duration > renew_within > every > 0:
            raise UserError(
                f"lease of {duration:g}s, renewed every {every:g}s, given up after {renew_within:g}s without renewal: "
                "the first must be the longest time and the second the shortest"
            )
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._duration = duration
        self._renew_within = renew_within
        self._every = every
        self._clock = clock
        self._wall_clock = wall_clock
        self._random = random
        self._renewed: float | None = None  # when our last successful renewal was sent; None: the lease is not ours
        self._seen: LeaseSpec | None = None  # the lease as last read, and when we first read it so
        self._seen_at = 0.0
        self._leading = False  # as last logged
        self._last_error = ""  # as last logged
        self._released = False
        self._requesting = asyncio.Lock()
        self._acquired = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        if self._renewed is None or self._released:
            return False
        return self._clock() - self._renewed < self._renew_within

    async def wait_until_leader(self) -> None:
        while not self.is_leader:
            self._acquired.clear()
            await self._acquired.wait()

    async def run(self) -> None:
        """Compete for the lease and renew it, until cancelled or released. A lost lease is competed for again."""
        while not self._released:
            await self._try()
            await asyncio.sleep(self._pause())

    async def release(self) -> None:
        """Give up the lease, so that the next leader need not wait until it expires. `is_leader` is False at once."""
        self._released = True
        async with self._requesting:
            if self._seen is None or self._seen.holder_identity != self._identity:
                return  # another replica has it
            try:
                async with asyncio.timeout(self._request_timeout):
                    lease = await self._client.get(LEASES, self._key)
                    if lease.spec.holder_identity != self._identity:
                        return
                    # The shortest duration possible, for readers that ignore the empty holder.
                    now = _micro_time(self._wall_clock())
                    empty = LeaseSpec(
                        holder_identity="",
                        lease_duration_seconds=1,
                        acquire_time=now,
                        renew_time=now,
                        lease_transitions=lease.spec.lease_transitions,
                    )
                    await self._client.replace(LEASES, replace(lease, spec=empty))
            except (Failure, TimeoutError) as problem:
                _log.warning(
                    "lease not released; the next leader waits until it expires", lease=self._key, **_why(problem)
                )
            else:
                _log.info("lease released", lease=self._key)

    @property
    def _key(self) -> str:
        return f"{self._namespace}/{self._name}"

    @property
    def _request_timeout(self) -> float:
        """How long a request may take: half of the fence, so that a renewal gets a second attempt."""
        return self._renew_within / 2

    async def _try(self) -> None:
        async with self._requesting:
            if self._released:
                return
            try:
                async with asyncio.timeout(self._request_timeout):
                    await self._claim()
            except (Failure, TimeoutError) as problem:
                self._log_failure(problem)
            else:
                self._last_error = ""
        if self._leading and not self.is_leader:
            self._leading = False
            _log.warning("no longer the leader", lease=self._key)

    async def _claim(self) -> None:
        """Take or renew the lease, if no other replica has it."""
        try:
            lease = await self._client.get(LEASES, self._key)
        except Failure as failure:
            if not is_not_found(failure):
                raise
            # The holder may not know yet that the lease was deleted, and acts until its fence ends.
            if not self._is_taken():
                sent = self._clock()
                self._confirm(await self._client.create(LEASES, self._new(), namespace=self._namespace), sent)
            return
        self._observe(lease.spec)
        if not self._is_taken():
            sent = self._clock()
            self._confirm(await self._client.replace(LEASES, replace(lease, spec=self._claimed(lease.spec))), sent)

    def _observe(self, spec: LeaseSpec) -> None:
        if spec.holder_identity != self._identity:
            self._renewed = None
            if spec.holder_identity and (self._seen is None or self._seen.holder_identity != spec.holder_identity):
                _log.info("another process is the leader", lease=self._key, holder=spec.holder_identity)
        if spec != self._seen:
            self._seen = spec
            self._seen_at = self._clock()

    def _confirm(self, written: Lease, sent: float) -> None:
        self._renewed = sent
        self._observe(written.spec)
        if self.is_leader:
            self._acquired.set()
            if not self._leading:
                self._leading = True
                _log.info("became the leader", lease=self._key, identity=self._identity)

    def _is_taken(self) -> bool:
        """Whether another replica has the lease, by our own clock."""
        return self._remaining() > 0

    def _remaining(self) -> float:
        """Seconds until another replica's lease expires."""
        if self._seen is None or self._seen.holder_identity in (None, "", self._identity):
            return 0.0
        # The duration in the lease counts: the holder may be configured for longer leases than we are.
        return self._seen_at + (self._seen.lease_duration_seconds or self._duration) - self._clock()

    def _pause(self) -> float:
        if self.is_leader:
            return self._every
        pause = self._every * (1 + _JITTER * self._random())
        # As soon as it expires, but not all replicas at the same moment.
        remaining = self._remaining()
        return min(pause, remaining + self._every * self._random() / 10) if remaining > 0 else pause

    def _new(self) -> Lease:
        meta = ObjectMeta(name=self._name, namespace=self._namespace)
        return Lease(metadata=meta, spec=self._ours(since=None, transitions=0))

    def _claimed(self, spec: LeaseSpec) -> LeaseSpec:
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self._identity:
            return self._ours(since=spec.acquire_time, transitions=transitions)
        return self._ours(since=None, transitions=transitions + 1)

    def _ours(self, *, since: str | None, transitions: int) -> LeaseSpec:
        now = _micro_time(self._wall_clock())
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=math.ceil(self._duration),
            acquire_time=since or now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _log_failure(self, problem: Failure | TimeoutError) -> None:
        """Log a failure once, however often it is repeated."""
        if is_conflict(problem) or is_already_exists(problem):
            return  # another replica was faster; the next read shows which
        why = _why(problem)
        if why["reason"] != self._last_error:
            self._last_error = why["reason"]
            _log.warning("cannot acquire or renew the lease", lease=self._key, **why)


class SoleReplica:
    """The only replica: it is always the leader."""

    is_leader = True

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait_until_leader(self) -> None:
        return

    async def release(self) -> None:
        return


def _why(problem: Failure | TimeoutError) -> dict[str, str]:
    return {"reason": problem.message if isinstance(problem, Failure) else "the server did not answer in time"}


def _micro_time(seconds: float) -> str:
    """Always with six digits: the server accepts nothing else."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
