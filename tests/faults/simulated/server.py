"""The embedded API server's handlers and store, behind connections in memory, with the faults of each request.

A request is handled at one instant, as in the real server. What is added here is when that is, whether it is, and what
becomes of the answer. A restarted server has every object and no history, so watches get 410 from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from httptools import HttpRequestParser

from stromboli.embedded.server import ApiServer, Request, Response, WatchResponse
from stromboli.embedded.store import Change, ObjectKey, Store
from stromboli.embedded.upkeep import Upkeep

from .history import History
from .loop import VirtualLoop
from .network import NOBODY, Network, Wire
from .rules import Rule, Rules

BOOKMARK_EVERY: Final = 60.0
READ_AGAIN: Final = 45.0  # seconds until a read that got no answer was surely repeated
WATCH_AGAIN: Final = 13.0  # seconds until a watch that broke has surely caught up
LATE_ENOUGH: Final = 0.9  # seconds in which a server still acts for a client that has hung up
_WATCHES: Final = ("cut-watch", "stall-watch", "gone-watch", "repeat-watch", "gap-watch")
_READS: Final = ("stale-read",)


class Objects:
    """What a server finds when it starts: everything that was acknowledged."""

    def __init__(self, store: Store) -> None:
        self._version = store.version
        self._objects = [
            (record.key, record.version, record.data) for resource in list(store.resources())
            for record in store.list(resource)
        ]  # fmt: skip

    def load(self) -> tuple[int, Iterable[tuple[ObjectKey, int, bytes]]]:
        return self._version, self._objects

    def write(self, key: ObjectKey, version: int, data: bytes | None) -> None:
        return


@dataclass
class _Gap:
    """In what one process sees of one resource."""

    until: float
    born: set[ObjectKey] = field(default_factory=set)  # nobody has seen them there


class Server:
    def __init__(
        self, loop: VirtualLoop, dice: Random, rules: Rules, history: History, epoch: float, start: Objects
    ) -> None:
        self.loop = loop
        self.dice = dice
        self.rules = rules
        self.history = history
        self.epoch = epoch
        self.listeners: list[Callable[[Change, str], None]] = []
        """With whose write it was."""
        self.arriving: Callable[[str, str, Request], None] = lambda who, what, request: None
        self.handled: Callable[[str, object, str, Request, Response], None] = lambda *arguments: None
        self.meetings: Callable[[str, str, str, Request], None] = lambda *arguments: None
        """Before and after a write: by whom, and what."""
        self.stale: Callable[[str, float], None] = lambda who, until: None
        """Some process may not know until then what happened before."""
        self.network = Network(loop, dice, lambda wire: _Connection(self, wire))
        self.waiting: dict[str, list[_Watch]] = {}
        self.gaps: dict[tuple[str, str], _Gap] = {}
        """By process and resource, which can neither be watched nor listed. The next watch gets 410."""
        self._uids = Random(dice.getrandbits(64))
        self._upkeep_due = False
        self._open(Store(start))

    def _open(self, store: Store) -> None:
        self.store = store
        self.api = ApiServer(store, random=self._uids, now=self.now())
        self.upkeep = Upkeep(self.api)
        store.listen(self._on_change)
        self._plan_upkeep()

    def now(self) -> float:
        return self.epoch + self.loop.time()

    def crash(self) -> None:
        self.network.is_down = True
        self.network.cut_all()
        self._open(Store(Objects(self.store)))

    def recover(self) -> None:
        self.network.is_down = False

    def compact(self) -> None:
        for resource in list(self.store.resources()):
            self.store.history(resource).forget(self.store.version)

    # -- direct requests of the world itself -------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Response:
        address = urlsplit(path)
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, unquote(address.path), dict(parse_qsl(address.query)), {"content-type": kind}, data)
        outcome = self.api.handle(request, self.now())
        assert isinstance(outcome, Response)
        return outcome

    # -- changes ------------------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        for watch in self.waiting.get(change.record.key.resource, ()):
            watch.wake()
        for (_, resource), gap in self.gaps.items():
            self._in_gap(resource, gap, change)
        for listener in self.listeners:
            listener(change, self.history.writer)
        self._plan_upkeep()

    def _in_gap(self, resource: str, gap: _Gap, change: Change) -> None:
        key = change.record.key
        if self.loop.time() >= gap.until or key.resource.partition(".")[0] != resource.partition(".")[0]:
            return
        if change.type == "ADDED":
            gap.born.add(key)
        elif change.type == "DELETED":
            seen = "was never seen" if key in gap.born else "was last seen before"
            self.rules.note("deleted-in-gap", f"{resource}, which {seen}")

    def _plan_upkeep(self) -> None:
        if not self._upkeep_due:
            self._upkeep_due = True
            self.loop.call_later(0.002 + 0.05 * self.dice.random() ** 4, self._run_upkeep, context=NOBODY)

    def _run_upkeep(self) -> None:
        self._upkeep_due = False
        if self.network.is_down:
            self.loop.call_later(1.0, self._plan_upkeep, context=NOBODY)
            return
        if self.upkeep.turn(self.now()):
            self._plan_upkeep()
            return
        due = self.upkeep.next_due(self.now())
        if due is not None:
            self.loop.call_later(max(0.01, due - self.now()), self._plan_upkeep, context=NOBODY)


class _Connection:
    """Parses requests, and answers them one after the other."""

    def __init__(self, server: Server, wire: Wire) -> None:
        self._server = server
        self._wire = wire
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = b""
        self._watch: _Watch | None = None
        self._lost_at: float | None = None

    def received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def lost(self) -> None:
        self._lost_at = self._server.loop.time()
        if self._watch is not None:
            self._watch.stop()

    # -- the parser ---------------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path, query = _address(self._url)
        method = self._parser.get_method().decode()
        request = Request(method, path, dict(query), self._headers, self._body)
        self._url, self._headers, self._body = b"", {}, b""
        self._arrived(request)

    # -- one request --------------------------------------------------------------------------------------------

    def _arrived(self, request: Request) -> None:
        server, what = self._server, name_of(request)
        watching = what.startswith("WATCH")
        if server.gaps and not self._pass_gap(what):
            return
        rule = None if watching else server.rules.meet(self._wire.owner.name, what, server.loop.time())
        if rule is not None and not _fits(rule.fault, request.method):
            rule.times += 1
            server.rules.hits[rule.fault, what] -= 1
            rule = None
        delay = 0.0002 + 0.002 * server.dice.random()
        if rule is not None:
            server.history.fault(server.loop.time(), self._wire.owner.name, what, request, rule.fault, rule.amount)
            if request.method == "GET":
                server.stale(self._wire.owner.name, server.loop.time() + READ_AGAIN)
            elif "/status" in what:
                server.stale(f"{self._wire.owner.name} writes", server.loop.time() + READ_AGAIN)
            if "events" in what or "eviction" in what:
                server.stale(f"{self._wire.owner.name} says", server.loop.time() + READ_AGAIN)
            if rule.fault == "lose-request":
                self._wire.cut()
                return
            if rule.fault == "ignore-request":
                return
            if rule.fault == "late-write":
                delay += rule.amount
        server.loop.call_later(delay, self._handle, request, what, rule, context=NOBODY)

    def _pass_gap(self, what: str) -> bool:
        server, (method, _, resource) = self._server, what.partition(" ")
        gap = server.gaps.get((self._wire.owner.name, resource))
        if gap is None or method not in ("WATCH", "LIST"):
            return True
        if server.loop.time() < gap.until:
            self._wire.cut()
            return False
        if method == "WATCH":
            del server.gaps[self._wire.owner.name, resource]
            self._respond(_status(410, "Expired", "too old resource version"))
        return method == "LIST"

    def _handle(self, request: Request, what: str, rule: Rule | None) -> None:
        server, wire = self._server, self._wire
        if server.network.is_down:
            wire.cut()
            return
        if self._lost_at is not None and server.loop.time() - self._lost_at > LATE_ENOUGH:
            return
        refused = None if rule is None else _refusal(rule, server.dice)
        if refused is not None:
            self._respond(refused)
            return
        if rule is not None and rule.fault == "stale-read":
            self._respond(server_stale(server, request, rule))
            return
        if request.method != "GET":
            server.meetings("before", wire.owner.name, what, request)
            server.arriving(wire.owner.name, what, request)
            server.history.writer = wire.owner.name
        outcome = server.api.handle(request, server.now())
        server.history.writer = ""
        if isinstance(outcome, WatchResponse):
            self._watch = _Watch(server, wire, outcome, what)
            return
        assert isinstance(outcome, Response)
        if request.method != "GET":
            server.history.request(server.loop.time(), wire.owner.name, what, request, outcome)
            server.handled(wire.owner.name, wire.owner, what, request, outcome)
            if outcome.status < 300:
                server.meetings("after", wire.owner.name, what, request)
        if rule is not None and rule.fault == "lose-response":
            wire.cut()
        elif rule is not None and rule.fault == "done-500":
            self._respond(_status(500, "InternalError", "the server has lost its leader"))
        elif rule is not None and rule.fault == "late-response":
            server.loop.call_later(rule.amount, self._respond, outcome, context=NOBODY)
        elif rule is None or rule.fault != "hold-response":
            self._respond(outcome)

    def _respond(self, response: Response) -> None:
        headers = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
        head = f"HTTP/1.1 {response.status} X\r\nContent-Type: application/json\r\n{headers}"
        self._wire.send(f"{head}Content-Length: {len(response.body)}\r\n\r\n".encode() + response.body)


class _Watch:
    def __init__(self, server: Server, wire: Wire, outcome: WatchResponse, what: str) -> None:
        self._server = server
        self._wire = wire
        self._watch = outcome.watch
        self._what = what
        self._planned = False
        self._stalled_until = 0.0
        self._sent: list[bytes] = []
        self._closed = False
        now = server.loop.time()
        server.waiting.setdefault(self._watch.resource, []).append(self)
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._end = server.loop.call_at(now + outcome.seconds, self._finish, context=NOBODY)
        self._bookmark = server.loop.call_later(BOOKMARK_EVERY, self._send_bookmark, context=NOBODY)
        self.wake()

    def stop(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.waiting[self._watch.resource].remove(self)
            self._end.cancel()
            self._bookmark.cancel()

    def wake(self) -> None:
        if not self._planned and not self._closed:
            self._planned = True
            loop = self._server.loop
            when = max(loop.time() + 0.0005 + 0.01 * self._server.dice.random() ** 3, self._stalled_until)
            loop.call_at(when, self._poll, context=NOBODY)

    def _poll(self) -> None:
        self._planned = False
        if self._closed:
            return
        if self._server.loop.time() < self._stalled_until:
            self.wake()
            return
        server = self._server
        lines = self._watch.poll(server.now())
        rule = None
        if lines:
            rule = server.rules.meet(self._wire.owner.name, self._what, server.loop.time(), _WATCHES)
        if rule is not None:
            server.history.fault(server.loop.time(), self._wire.owner.name, self._what, None, rule.fault, rule.amount)
            lasts = rule.amount if rule.fault in ("stall-watch", "gap-watch") else 0.0
            server.stale(self._wire.owner.name, server.loop.time() + lasts + WATCH_AGAIN)
            if rule.fault == "cut-watch":
                data = b"".join(lines)
                self._send(data[: len(data) // 2])
                server.loop.call_later(0.005, self._wire.cut, context=NOBODY)
                self.stop()
                return
            if rule.fault == "gap-watch":
                server.gaps[self._wire.owner.name, self._what.partition(" ")[2]] = _Gap(
                    server.loop.time() + rule.amount
                )
                self.stop()
                self._wire.cut()
                return
            if rule.fault == "gone-watch":
                status = _status(410, "Expired", "too old resource version").body
                self._send(b'{"type":"ERROR","object":' + status + b"}\n")
                self._finish()
                return
            if rule.fault == "repeat-watch":
                lines = self._sent[-3:] + lines
            if rule.fault == "stall-watch":
                self._stalled_until = server.loop.time() + rule.amount
                server.loop.call_at(self._stalled_until, self._send, b"".join(lines), context=NOBODY)
                lines = []
        self._sent = (self._sent + lines)[-5:]
        if lines:
            self._send(b"".join(lines))
        if self._watch.ended:
            self._finish()
        elif self._watch.is_behind:
            self.wake()

    def _send(self, data: bytes) -> None:
        if data and not self._closed:
            self._wire.send(b"%x\r\n%b\r\n" % (len(data), data))

    def _send_bookmark(self) -> None:
        if not self._closed:
            if self._watch.bookmarks and not self._planned and self._server.loop.time() >= self._stalled_until:
                self._send(self._watch.bookmark())
            self._bookmark = self._server.loop.call_later(BOOKMARK_EVERY, self._send_bookmark, context=NOBODY)

    def _finish(self) -> None:
        if not self._closed:
            self.stop()
            self._wire.send(b"0\r\n\r\n")


@lru_cache(4096)
def _address(url: bytes) -> tuple[str, dict[str, str]]:
    address = urlsplit(url.decode())
    return unquote(address.path), dict(parse_qsl(address.query, keep_blank_values=True))


def name_of(request: Request) -> str:
    """Such as `POST pods/binding`, `LIST jobs.batch.volcano.sh`."""
    parts = [part for part in request.path.split("/") if part]
    group = ""
    if parts and parts[0] == "api":
        parts = parts[2:]
    elif parts and parts[0] == "apis":
        group = "." + parts[1] if len(parts) > 1 and "." in parts[1] else ""
        parts = parts[3:]
    if parts and parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    if not parts:
        return f"{request.method} discovery"
    resource = parts[0] + ("" if group.endswith("k8s.io") or "volcano" in group else group)
    if len(parts) == 3:
        resource += f"/{parts[2]}"
    method = request.method
    if method == "GET" and len(parts) == 1:
        method = "WATCH" if request.query.get("watch") == "true" else "LIST"
    return f"{method} {resource}"


def _fits(fault: str, method: str) -> bool:
    if fault in _WATCHES:
        return False
    if fault in _READS:
        return method == "GET"
    if fault in ("lose-response", "done-500", "409", "422"):
        return method != "GET"
    return True


def _refusal(rule: Rule, dice: Random) -> Response | None:
    match rule.fault:
        case "409":
            return _status(409, "Conflict", "the object has been modified; please apply your changes to the latest")
        case "422":
            return _status(422, "Invalid", "denied for the sake of the test")
        case "429":
            return _status(429, "TooManyRequests", "too many requests", retry_after=dice.choice((1, 2, 5)))
        case "500":
            return _status(500, "InternalError", "etcdserver: request timed out")
        case "503":
            return _status(503, "ServiceUnavailable", "no endpoints", retry_after=dice.choice((0, 1, 3)))
    return None


def _status(code: int, reason: str, message: str, retry_after: int = 0) -> Response:
    value: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    value |= {"message": message, "reason": reason, "code": code}
    headers: tuple[tuple[str, str], ...] = ()
    if retry_after:
        headers = (("Retry-After", str(retry_after)),)
        value["details"] = {"retryAfterSeconds": retry_after}
    return Response(code, json.dumps(value).encode(), headers=headers)


def server_stale(server: Server, request: Request, rule: Rule) -> Response:
    """A read as a lagging replica answers it: all of it from one old moment."""
    plain = server.api.handle(request, server.now())
    assert isinstance(plain, Response)
    if "continue" in request.query or name_of(request).endswith("discovery"):
        return plain
    parts = request.path.rstrip("/").split("/")
    listing = name_of(request).startswith("LIST")
    path = request.path if listing else "/".join(parts[:-1])
    version = max(server.store.version - int(rule.amount * 4) - 1, 1)
    query = {**request.query, "resourceVersion": str(version), "resourceVersionMatch": "Exact"}
    if not listing:
        query = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
    old = server.api.handle(Request("GET", path, query, request.headers), server.now())
    if not isinstance(old, Response) or old.status != 200:
        return plain
    if listing:
        return old
    listed = json.loads(old.body)
    for item in listed.get("items") or ():
        if item["metadata"]["name"] == parts[-1]:
            item |= {"kind": listed["kind"].removesuffix("List"), "apiVersion": listed["apiVersion"]}
            return Response(200, json.dumps(item).encode())
    return _status(404, "NotFound", "not found, in an old state")
