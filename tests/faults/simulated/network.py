"""Connections in memory between the product's own client and the server: bytes in order, each way with its delays.

One direction of one connection keeps its order, as TCP does; nothing else is in order. A partition holds what is on its
way until it ends, and drops what was sent on connections that were closed meanwhile. Pieces end where the seed says,
also in the middle of an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, Protocol

from .loop import OWNER, Owner, VirtualLoop

LATENCY: Final = (0.0002, 0.004)  # seconds each way
NOBODY: Final = Context()


class Peer(Protocol):
    """The server's end of a connection."""

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


class Network:
    def __init__(self, loop: VirtualLoop, dice: Random, accept: Callable[[Wire], Peer]) -> None:
        self.loop = loop
        self.dice = dice
        self.is_down = False
        """Nobody listens."""
        self._accept = accept
        self._wires: list[Wire] = []
        self._cut_off: dict[str, int] = {}

    async def connect(self, factory: Callable[[], asyncio.Protocol]) -> tuple[asyncio.Transport, asyncio.Protocol]:
        owner = OWNER.get()
        assert owner is not None, "somebody outside the world connects"
        await asyncio.sleep(self.latency())
        while self.is_cut_off(owner.name):  # nobody answers, not even with a refusal
            await asyncio.sleep(1.0)
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = factory()
        wire = Wire(self, owner, protocol, copy_context())
        wire.peer = self._accept(wire)
        self._wires = [one for one in self._wires if one.is_open]
        self._wires.append(wire)
        protocol.connection_made(wire)
        return wire, protocol

    def latency(self) -> float:
        low, high = LATENCY
        return low + (high - low) * self.dice.random()

    # -- faults -------------------------------------------------------------------------------------------------

    def is_cut_off(self, name: str) -> bool:
        return self._cut_off.get(name, 0) > 0

    def partition(self, name: str) -> None:
        self._cut_off[name] = self._cut_off.get(name, 0) + 1

    def heal(self, name: str) -> None:
        if not self.is_cut_off(name):  # the step that cut it off was taken away
            return
        self._cut_off[name] -= 1
        if not self.is_cut_off(name):
            for wire in list(self._wires):
                if wire.owner.name == name:
                    wire.heal()

    def cut_all(self, name: str = "") -> None:
        for wire in list(self._wires):
            if not name or wire.owner.name == name:
                wire.cut()

    def closed(self, owner: Owner) -> None:
        """The process is gone, and its machine says so."""
        for wire in list(self._wires):
            if wire.owner is owner:
                wire.gone()


class Wire(asyncio.Transport):
    """One connection. The client's end is a transport; the server's end uses `send` and `cut`."""

    def __init__(self, network: Network, owner: Owner, protocol: asyncio.Protocol, context: Context) -> None:
        super().__init__()
        self.owner = owner
        self.is_open = True
        self.peer: Peer | None = None
        self._network = network
        self._loop = network.loop
        self._protocol = protocol
        self._context = context
        self._next = {"up": 0.0, "down": 0.0}  # when the last bytes of each way arrive
        self._held: list[tuple[Callable[[bytes], None], bytes]] = []
        self._unread: list[bytes] | None = None  # what came while reading was paused

    # -- the client's end ---------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        self.owner.steps()
        if self.is_open:
            self._travel("up", self._arrive_up, bytes(data))

    def abort(self) -> None:
        if self.is_open:
            self.is_open = False
            self._held.clear()
            self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
            self._loop.call_later(self._network.latency(), self._tell_peer, context=NOBODY)

    def close(self) -> None:
        self.abort()

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None:
        if self._unread is None:
            self._unread = []

    def resume_reading(self) -> None:
        if self._unread is not None:
            data, self._unread = b"".join(self._unread), None
            if data:
                self._arrive_down(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    # -- the server's end ---------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if not self.is_open:
            return
        if len(data) > 40 and self._network.dice.random() < 0.05:
            middle = self._network.dice.randrange(1, len(data))
            self._travel("down", self._arrive_down, data[:middle])
            data = data[middle:]
        self._travel("down", self._arrive_down, data)

    def cut(self) -> None:
        """A reset: what is on its way is lost."""
        if self.is_open:
            self.is_open = False
            self._held.clear()
            error = ConnectionResetError()
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)
            self._tell_peer()

    def end(self) -> None:
        """An orderly close, after what was sent."""
        self._travel("down", lambda _: self._ended(), b"")

    def _ended(self) -> None:
        if self.is_open:
            self.is_open = False
            self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
            self._tell_peer()

    def gone(self) -> None:
        if self.is_open:
            self.is_open = False
            self._held.clear()
            self._tell_peer()

    def heal(self) -> None:
        held, self._held = self._held, []
        for arrive, data in held:
            arrive(data)

    # -- on the way ---------------------------------------------------------------------------------------------

    def _travel(self, way: str, arrive: Callable[[bytes], None], data: bytes) -> None:
        when = max(self._next[way], self._loop.time() + self._network.latency())
        self._next[way] = when
        self._loop.call_at(when, self._land, arrive, data, context=NOBODY)

    def _land(self, arrive: Callable[[bytes], None], data: bytes) -> None:
        if not self.is_open:
            return
        if self._network.is_cut_off(self.owner.name) or self._held:
            self._held.append((arrive, data))
        else:
            arrive(data)

    def _arrive_up(self, data: bytes) -> None:
        if self.is_open and self.peer is not None:
            self.peer.received(data)

    def _arrive_down(self, data: bytes) -> None:
        if not self.is_open:
            return
        if self._unread is not None:
            self._unread.append(data)
        else:
            self._loop.call_soon(self._receive, data, context=self._context)

    def _receive(self, data: bytes) -> None:
        """In the client's process; it may have closed the connection meanwhile."""
        self.owner.steps()
        if self.owner.is_frozen:  # just now; what arrives after this must not overtake it
            self._loop.keep(self.owner, self._receive, data, context=self._context)
        elif self.is_open:
            self._protocol.data_received(data)

    def _tell_peer(self) -> None:
        if self.peer is not None:
            peer, self.peer = self.peer, None
            peer.lost()
