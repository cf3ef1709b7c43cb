"""Which of several replicas acts: the one that holds the lease.

The lease is a Kubernetes Lease, kept as client-go keeps it, so that `kubectl get lease` shows what people know and a
replica of another make would respect it. The holder renews it every two seconds. The others watch it change. One of
them takes it when it has not changed for as long as the lease lasts, *by its own clock*: times of different machines
are never compared, the ones in the object are for people. Every write carries the version it was based on, so of two
that take the lease at once the server refuses one.

That alone would not be enough. A process that was stopped for a minute does not know it, and its next write would be
one too many. So `held` is a fence with a shorter life than the lease, to be asked before everything that only the
leader may do:

    renewal sent ─────── renew_within ──────▶ held is False
         │  └─ server writes it ── others see it ─────── duration ──────▶ somebody else may take it
         └── the fence starts here, before the request leaves: whatever the answer takes is lost time, never gained

What is between the two, five seconds as a rule, is for requests that are on their way while the fence falls, and for
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
from typing import Final

from msgspec.structs import replace

from stromboli.api import ObjectMeta
from stromboli.errors import UserError
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_already_there, is_conflict, is_not_found
from stromboli.kube.client.kinds import Lease, LeaseSpec
from stromboli.kube.client.resources import LEASES

from .logs import Log

_CLOCK: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
_JITTER: Final = 0.5  # of the time between two looks at somebody else's lease

_log = Log("leadership")


def steady() -> float:
    """Seconds by a clock that nobody sets and that goes on while the machine sleeps: a leader that was suspended for
    an hour must not take the lease for a fresh one."""
    return time.clock_gettime(_CLOCK)


class Leadership:
    """One replica's part in it. `held` says whether this one may act, now."""

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
        clock: Callable[[], float] = steady,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`identity` is different for every process that ever was, also after a restart on the same machine."""
        if not duration > renew_within > every > 0:
            raise UserError(
                f"a lease of {duration:g}s, renewed every {every:g}s and given up after {renew_within:g}s without "
                "renewal: the first must be the longest and the second the shortest"
            )
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._duration = duration
        self._renew_within = renew_within
        self._every = every
        self._clock = clock
        self._random = random
        self._renewed: float | None = None  # when our last renewal that succeeded was sent; None: the lease is not ours
        self._seen: LeaseSpec | None = None  # the lease as last seen, and when it was first seen so
        self._seen_at = 0.0
        self._leading = False  # what was last said in the log
        self._complaint = ""  # likewise
        self._released = False
        self._asking = asyncio.Lock()
        self._confirmed = asyncio.Event()

    @property
    def held(self) -> bool:
        if self._renewed is None or self._released:
            return False
        return self._clock() - self._renewed < self._renew_within

    async def wait(self) -> None:
        """Until the lease is ours."""
        while not self.held:
            self._confirmed.clear()
            await self._confirmed.wait()

    async def run(self) -> None:
        """Compete for the lease and renew it, until cancelled or released. What was lost is competed for again."""
        while not self._released:
            await self._try()
            await asyncio.sleep(self._pause())

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait for its end. Nothing is held from the first moment."""
        self._released = True
        async with self._asking:
            if self._seen is None or self._seen.holder_identity != self._identity:
                return  # it is not ours to give
            try:
                async with asyncio.timeout(self._patience):
                    lease = await self._client.get(LEASES, self._key)
                    if lease.spec.holder_identity != self._identity:
                        return
                    # The shortest life there is: a reader that does not mind the empty name waits no longer either.
                    now = _micro_time()
                    empty = LeaseSpec(
                        holder_identity="",
                        lease_duration_seconds=1,
                        acquire_time=now,
                        renew_time=now,
                        lease_transitions=lease.spec.lease_transitions,
                    )
                    await self._client.replace(LEASES, replace(lease, spec=empty))
            except (Failure, TimeoutError) as problem:
                _log.warning("lease not released, the next leader waits for its end", lease=self._key, **_why(problem))
            else:
                _log.info("lease released", lease=self._key)

    @property
    def _key(self) -> str:
        return f"{self._namespace}/{self._name}"

    @property
    def _patience(self) -> float:
        """How long an answer may take. Half of what there is, so that a renewal gets a second chance."""
        return self._renew_within / 2

    async def _try(self) -> None:
        async with self._asking:
            if self._released:
                return
            try:
                async with asyncio.timeout(self._patience):
                    await self._claim()
            except (Failure, TimeoutError) as problem:
                self._complain(problem)
            else:
                self._complaint = ""
        if self._leading and not self.held:
            self._leading = False
            _log.warning("no longer the leader", lease=self._key)

    async def _claim(self) -> None:
        """Take or renew the lease, if nobody else has it."""
        try:
            lease = await self._client.get(LEASES, self._key)
        except Failure as failure:
            if not is_not_found(failure):
                raise
            # Whoever held it when it was deleted may not know yet, and holds on until its fence falls.
            if not self._is_taken():
                sent = self._clock()
                self._confirm(await self._client.create(LEASES, self._new(), namespace=self._namespace), sent)
            return
        self._look_at(lease.spec)
        if not self._is_taken():
            sent = self._clock()
            self._confirm(await self._client.replace(LEASES, replace(lease, spec=self._claimed(lease.spec))), sent)

    def _look_at(self, spec: LeaseSpec) -> None:
        if spec.holder_identity != self._identity:
            self._renewed = None
            if spec.holder_identity and (self._seen is None or self._seen.holder_identity != spec.holder_identity):
                _log.info("another process leads", lease=self._key, holder=spec.holder_identity)
        if spec != self._seen:
            self._seen = spec
            self._seen_at = self._clock()

    def _confirm(self, written: Lease, sent: float) -> None:
        self._renewed = sent
        self._look_at(written.spec)
        if self.held:
            self._confirmed.set()
            if not self._leading:
                self._leading = True
                _log.info("became the leader", lease=self._key, identity=self._identity)

    def _is_taken(self) -> bool:
        """Whether somebody else has the lease, as far as we can tell by our own clock."""
        return self._left() > 0

    def _left(self) -> float:
        """How long somebody else's lease lasts from now on."""
        if self._seen is None or self._seen.holder_identity in (None, "", self._identity):
            return 0.0
        # The holder's word counts: it may be set up for longer leases than we are.
        return self._seen_at + (self._seen.lease_duration_seconds or self._duration) - self._clock()

    def _pause(self) -> float:
        if self.held:
            return self._every
        pause = self._every * (1 + _JITTER * self._random())
        # Not a moment later than need be, but not all at the same moment.
        left = self._left()
        return min(pause, left + self._every * self._random() / 10) if left > 0 else pause

    def _new(self) -> Lease:
        meta = ObjectMeta(name=self._name, namespace=self._namespace)
        return Lease(metadata=meta, spec=self._ours(since=None, transitions=0))

    def _claimed(self, spec: LeaseSpec) -> LeaseSpec:
        transitions = spec.lease_transitions or 0
        if spec.holder_identity == self._identity:
            return self._ours(since=spec.acquire_time, transitions=transitions)
        return self._ours(since=None, transitions=transitions + 1)

    def _ours(self, *, since: str | None, transitions: int) -> LeaseSpec:
        now = _micro_time()
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=math.ceil(self._duration),
            acquire_time=since or now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _complain(self, problem: Failure | TimeoutError) -> None:
        """Once for each thing that goes wrong, however often it does."""
        if is_conflict(problem) or is_already_there(problem):
            return  # somebody else was faster; the next look tells who
        why = _why(problem)
        if why["reason"] != self._complaint:
            self._complaint = why["reason"]
            _log.warning("lease could not be asked for", lease=self._key, **why)


class Alone:
    """The only replica there is: it always leads."""

    held = True

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait(self) -> None:
        return

    async def release(self) -> None:
        return


def _why(problem: Failure | TimeoutError) -> dict[str, str]:
    return {"reason": problem.message if isinstance(problem, Failure) else "the server did not answer in time"}


def _micro_time() -> str:
    """Always with six digits: the servers read nothing else."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
