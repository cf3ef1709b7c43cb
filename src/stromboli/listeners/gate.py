"""Accepts connections, and makes room for new ones when all places are taken.

Whoever connects holds a place before it has shown anything. If a full listener refused new connections, half-sent
requests of one attacker would keep everybody out, also those who ask for health. So it closes an old connection
instead: the oldest one that has not shown a token. Whoever asks for something sends its request at once and has its
answer long before it is the oldest. Connections that have shown a token are never closed for others; they have at most
three quarters of the places, and those with one and the same token at most half.

    accepted ──handshake──▶ waits for its first request ──▶ answered, idle, … ──▶ closed
       │                       │                              │
       └─────── closed after first_request_seconds ───┘       └── trusted once it has shown a token

Addresses other than this machine's own have a share each: one that has too many connections loses its own oldest.

A connection that has shown no token may send little: a head, once a body that nobody reads, and then requests of a
usual size. What would be read without end costs time also where nothing of it is kept, such as blank lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from .limits import Limits
from .memory import forget_frames, give_back_memory
from .refusal_log import RefusalLog
from .turns import Turns

_BACKLOG: Final = 1024
_SHUTDOWN_SECONDS: Final = 2.0  # that a peer has to end TLS in an orderly way
_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_MANY_CLOSED: Final = 32  # connections; their buffers may be 10 MiB
_VERY_MANY_CLOSED: Final = 20_000  # connections; what is left of them may be 30 MiB
_PAUSE: Final = 0.05  # seconds, when the system has no more files
_READ_AHEAD: Final = 512 * 1024  # bytes that may come with a head in one piece, before anybody has seen it
_USUAL_REQUEST: Final = 8 * 1024  # bytes

FULL: Final = "all places are taken"
SLOW: Final = "no request came in time"
MADE_ROOM: Final = "closed for a newer connection"
TOO_MANY_OF_PEER: Final = "too many connections of one address"
TOO_LONG: Final = "too much was sent without the token"
HANDSHAKE: Final = "the TLS handshake failed"
NO_FILES: Final = "too many open files"


_NOBODY: Final = asyncio.Protocol()  # does nothing


class Connection(asyncio.Protocol):
    """One connection. Stands before the protocol that reads it, and knows when it ends. That protocol is made after the
    handshake: many come no further."""

    def __init__(self, gate: Gate, peer: str) -> None:
        self.peer = peer
        self.holder: str | None = None
        """The name of the token that it has shown."""
        self._gate = gate
        self._inner = _NOBODY
        self._transport: asyncio.Transport | None = None
        self.connecting: asyncio.Task[None] | None = None
        self._has_asked = False
        self._sent = 0  # bytes, while it has shown no token, less what each request may have
        self._turn: asyncio.Future[None] | None = None  # that a request without a token waits for
        limits = gate.limits
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            limits.first_request_seconds, self._expire
        )

    def heard(self) -> None:
        """A whole head has come: from now on whoever reads it watches the time."""
        self._sent = max(self._sent - _USUAL_REQUEST, 0)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def trust(self, holder: str) -> bool:
        """The token was right. False if its holder, or all of them, have the places that they may have."""
        return self.holder == holder or self._gate.trust(self, holder)

    async def turn(self) -> None:
        """Before each request is answered, and after `trust`. Raises CancelledError if the connection is closed
        meanwhile."""
        if self.holder is None and self._has_asked:
            self._turn = self._gate.turns.next()
            await self._turn
        else:
            self._has_asked = True
            await asyncio.sleep(0)

    def close(self) -> None:
        self.heard()
        self.give_up()
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> None:
        """Nobody will need what it waits for."""
        if self._transport is None and self.connecting is not None:
            self.connecting.cancel()
        if self._turn is not None:
            self._turn.cancel()

    def _expire(self) -> None:
        self._gate.log.note(SLOW)
        self.close()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner = self._gate.protocols()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.holder is None:
            self._sent += len(data)
            body = self._gate.limits.body_bytes if self._deadline is None else 0
            if self._sent > _READ_AHEAD + body:
                self._gate.log.note(TOO_LONG)
                self.close()
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard()
        self.give_up()
        self._transport = None
        self._gate.gone(self)
        self._inner.connection_lost(exc)
        self._inner = _NOBODY


def connection_of(transport: asyncio.BaseTransport | None) -> Connection | None:
    """The connection of a transport; None if it has ended meanwhile."""
    found = transport.get_protocol() if transport is not None else None
    return found if isinstance(found, Connection) else None


class Gate:
    """`protocols` makes what reads a connection."""

    def __init__(
        self,
        limits: Limits,
        log: RefusalLog,
        protocols: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits
        self.log = log
        self.protocols = protocols
        self.turns = Turns()
        self._tls = tls
        self._places = limits.places()
        self._strangers: dict[Connection, None] = {}  # those without a token, the oldest first
        self._trusted: set[Connection] = set()
        self._of_holder: Counter[str] = Counter()
        self._of_peer: Counter[str] = Counter()
        self._accepting: list[asyncio.Task[None]] = []
        self._closed = 0  # since memory was last given back
        self._closed_long_ago = 0  # before that, since old garbage was last collected

    def __len__(self) -> int:
        return len(self._strangers) + len(self._trusted)

    async def open(self, host: str, port: int) -> int:
        """Listen; returns the port, which is any free one if `port` is 0. Raises OSError."""
        sockets = await _bind(host, port)
        self._accepting = [asyncio.create_task(self._accept(one)) for one in sockets]
        return int(sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening. Connections are closed by whoever reads them; those that wait, for the end of a handshake or
        for their turn, end here."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._accepting = []
        for connection in [*self._strangers, *self._trusted]:
            connection.give_up()

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in [*self._strangers, *self._trusted]:
            connection.close()

    # -- the state of connections -------------------------------------------------------------------------------------

    def trust(self, connection: Connection, holder: str) -> bool:
        if connection not in self._strangers:
            return connection in self._trusted  # it shows another token now: the first one counts
        if len(self._trusted) >= self._places * 3 // 4 or self._of_holder[holder] >= self._places // 2:
            self.log.note(FULL)
            return False
        del self._strangers[connection]
        self._trusted.add(connection)
        self._of_holder[holder] += 1
        connection.holder = holder
        return True

    def gone(self, connection: Connection) -> None:
        if connection not in self._strangers and connection not in self._trusted:
            return
        self._strangers.pop(connection, None)
        self._trusted.discard(connection)
        if connection.holder is not None:
            self._of_holder[connection.holder] -= 1
            if not self._of_holder[connection.holder]:
                del self._of_holder[connection.holder]
        self._of_peer[connection.peer] -= 1
        if not self._of_peer[connection.peer]:
            del self._of_peer[connection.peer]
        self._closed += 1
        if self._closed == _MANY_CLOSED:
            # A moment later: this connection and others are still being taken apart.
            asyncio.get_running_loop().call_later(1.0, self._tidy_up)

    def _tidy_up(self) -> None:
        self._closed_long_ago += self._closed
        self._closed = 0
        give_back_memory(also_old=self._closed_long_ago >= _VERY_MANY_CLOSED)
        self._closed_long_ago %= _VERY_MANY_CLOSED

    def _makes_room(self, peer: str) -> bool:
        """Whether there is a place for one more, of this address."""
        if not _is_own(peer) and self._of_peer[peer] >= self.limits.per_peer:
            self.log.note(TOO_MANY_OF_PEER)
            return self._close_oldest(peer)
        if len(self) >= self._places:
            self.log.note(MADE_ROOM)
            return self._close_oldest(None)
        return True

    def _close_oldest(self, peer: str | None) -> bool:
        for connection in self._strangers:
            if peer in (None, connection.peer):
                self.gone(connection)  # now, not when the transport says so: the place is free
                connection.close()
                return True
        return False

    # -- accepting ----------------------------------------------------------------------------------------------------

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                        self.log.note(NO_FILES)
                        self._close_oldest(None)
                    await asyncio.sleep(_PAUSE)
                    continue
                self._admit(accepted, str(address[0]) if address else "")
                await asyncio.sleep(0)  # many that connect must not keep the others from being answered

    def _admit(self, accepted: socket.socket, peer: str) -> None:
        if not self._makes_room(peer):
            accepted.close()
            return
        connection = Connection(self, peer)
        self._strangers[connection] = None
        self._of_peer[peer] += 1
        connection.connecting = asyncio.create_task(self._connect(connection, accepted))

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": self._tls,
                "ssl_handshake_timeout": self.limits.first_request_seconds,
                "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
            }
        try:
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, **tls)
        except OSError as error:
            self.log.note(HANDSHAKE)
            self._never_connected(connection, accepted)
            forget_frames(error)
        except asyncio.CancelledError as error:
            self._never_connected(connection, accepted)
            forget_frames(error)
        finally:
            connection.connecting = None

    def _never_connected(self, connection: Connection, accepted: socket.socket) -> None:
        connection.heard()
        self.gone(connection)
        accepted.close()


async def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if sockets and not port:  # the port that the system chose for the first is meant for all
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            try:
                sockets.append(_listening(family, kind, protocol, address))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                problem = error  # such as ::1 where there is no IPv6; another address will do
        if not sockets:
            raise problem or OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _listening(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(_BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _is_own(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer.partition("%")[0]).is_loopback
    except ValueError:
        return False


def listen_problem(error: OSError) -> str:
    """Why an address cannot be listened on, for people."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
