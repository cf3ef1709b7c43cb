"""A fake of our client, without HTTP: the same methods on objects in memory, in virtual time.

    with_virtual_time(story())

A test decides the fate of each request (`fate`): when the server acts on it, if at all, and what the client gets, and
when. So a response can be lost before or after the server acted, and the server can act after the client gave up.
Watches show everything `lag` seconds later. Nothing here waits: time jumps to the next thing that happens.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import msgspec

from stromboli.api import ApiObject, Pod, decode_json, merge_patch
from stromboli.kube.client import PODS, UNREACHABLE, Envelope, Failure, Page, Resource, resource_of
from stromboli.kube.client.wire import ListMeta

T = TypeVar("T")
Document = dict[str, Any]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when there is nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            # A little beyond: whoever reckons what is left to wait must not end up with less than a clock can tell.
            self._now = max(self._now, self._scheduled[0]._when + 1e-6)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def with_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(story)


async def until(condition: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Until it is so, by the loop's clock, whichever that is."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Fate:
    acts: float | None = 0.001
    """Seconds until the server does what it was asked; None: it never does."""
    answers: float = 0.001
    """Seconds from there (or from the start, if it does nothing) until the client hears of it."""
    says: Failure | None = None
    """What the client hears, whatever was done."""
    hears_after: float | None = None
    """Seconds from the start until the client hears what it is to hear, done or not."""


def broken() -> Failure:
    return Failure(0, "the connection broke")


def lost_before() -> Fate:
    return Fate(acts=None, says=broken())


def lost_after() -> Fate:
    return Fate(says=broken())


def done_late(seconds: float) -> Fate:
    """The connection breaks at once, and the server acts all the same, later."""
    return Fate(acts=seconds, says=broken(), hears_after=0.001)


def refused(status: int, reason: str, *, cause: str = "") -> Fate:
    return Fate(acts=None, says=Failure(status, f"{reason}, says the server", reason=reason, cause=cause))


@dataclass(frozen=True, slots=True)
class _Change:
    revision: int
    shown_at: float
    type: str
    plural: str
    document: Document


@dataclass(slots=True)
class FakeApi:
    fate: Callable[[str, str], Fate] = lambda verb, key: Fate()
    """By verb (get, list, watch, create, patch, delete, bind, evict) and key, or plural for lists and watches."""
    lag: float = 0.005
    down: bool = False
    undefined: set[str] = field(default_factory=set)
    """Plurals that the server does not know."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    binds: list[tuple[str, str, str]] = field(default_factory=list)
    """Those that were carried out: key, uid and node."""
    patches: list[tuple[str, str, Document]] = field(default_factory=list)
    revision: int = 100
    random: Random = field(default_factory=lambda: Random(1))
    _objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    _history: list[_Change] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _acting: set[asyncio.Task[Any]] = field(default_factory=set)
    _cuts: int = 0

    # -- behind the client's back -------------------------------------------------------------------------------

    def put(self, obj: ApiObject) -> None:
        self._store(resource_of(type(obj)).plural, json.loads(msgspec.json.encode(obj)))

    def remove(self, kind: type[ApiObject], key: str) -> None:
        self._drop(resource_of(kind).plural, key)

    def stored(self, kind: type[T], key: str) -> T | None:
        document = self._objects.get((resource_of(kind).plural, key))  # type: ignore[type-var]
        return None if document is None else decode_json(json.dumps(document), kind)  # type: ignore[type-var]

    def all(self, kind: type[T]) -> list[T]:
        plural = resource_of(kind).plural  # type: ignore[type-var]
        return [self.stored(kind, key) for place, key in sorted(self._objects) if place == plural]  # type: ignore[misc]

    def count(self, verb: str, key: str = "") -> int:
        return sum(one == verb and key in of for one, of in self.asked)

    async def settle(self) -> None:
        """Until nothing is left that the server may still do."""
        while self._acting:
            await asyncio.wait(self._acting)

    # -- what a client can do -----------------------------------------------------------------------------------

    async def serves(self, group_version: str) -> bool:
        await self._request("get", group_version, lambda: None)
        return True

    async def serves_kind(self, resource: Resource[Any]) -> bool:
        await self._request("get", resource.plural, lambda: None)
        return resource.plural not in self.undefined

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> bytes:
        plural = path.rpartition("/")[2]
        if path.startswith("/apis/scheduling.k8s.io/") and plural != "priorityclasses":
            raise Failure(404, "the server has no groups of pods", reason="NotFound")
        await self._request("list", plural, lambda: self._defined(plural))
        return b"{}"

    async def get(self, resource: Resource[Any], key: str) -> Any:
        return self._typed(resource, await self._request("get", key, lambda: self._found(resource.plural, key)))

    async def pages(self, resource: Resource[Any], **selectors: str) -> AsyncGenerator[Page, None]:
        def listed() -> Page:
            self._defined(resource.plural)
            items = [
                msgspec.Raw(json.dumps(document).encode())
                for (plural, _), document in sorted(self._objects.items())
                if plural == resource.plural
            ]
            return Page(metadata=ListMeta(resource_version=str(self.revision)), items=items)

        yield await self._request("list", resource.plural, listed)

    async def envelopes(
        self, resource: Resource[Any], version: str, **selectors: str
    ) -> AsyncGenerator[Envelope, None]:
        await self._request("watch", resource.plural, lambda: self._defined(resource.plural))
        seen, cuts = int(version), self._cuts
        clock = asyncio.get_running_loop().time
        while not self.down and cuts == self._cuts:
            news = self._news
            for change in [one for one in self._history if one.revision > seen]:
                seen = change.revision
                if change.plural == resource.plural:
                    await asyncio.sleep(change.shown_at - clock())
                    yield Envelope(change.type, msgspec.Raw(json.dumps(change.document).encode()))
            await news.wait()
        raise broken()

    async def create(self, resource: Resource[Any], obj: Any, *, namespace: str = "") -> Any:
        document = json.loads(msgspec.json.encode(obj))
        meta = document["metadata"]
        key = f"{namespace or meta.get('namespace')}/{meta['name']}" if resource.namespaced else meta["name"]

        def created() -> Document:
            self._defined(resource.plural)
            if (resource.plural, key) in self._objects:
                raise Failure(409, "it is there already", reason="AlreadyExists")
            if resource.has_status:
                document.pop("status", None)
            return self._store(resource.plural, document)

        return self._typed(resource, await self._request("create", key, created))

    async def patch(
        self,
        resource: Resource[Any],
        key: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        strategic: bool = False,
    ) -> Any:
        change = json.loads(msgspec.json.encode(patch))

        def patched() -> Document:
            found = self._found(resource.plural, key)
            wanted = change.get("metadata", {})
            for precondition in ("uid", "resourceVersion"):
                if wanted.get(precondition, found["metadata"][precondition]) != found["metadata"][precondition]:
                    raise Failure(409, f"the {precondition} is another", reason="Conflict")
            merged = merge_patch(found, change)
            if strategic and "conditions" in change.get("status", {}):
                conditions = {one["type"]: one for one in found.get("status", {}).get("conditions", [])}
                conditions |= {one["type"]: one for one in change["status"]["conditions"]}
                merged["status"]["conditions"] = list(conditions.values())
            self.patches.append((resource.plural, key, change))
            return self._store(resource.plural, merged)

        return self._typed(resource, await self._request("patch", key, patched))

    async def delete(self, resource: Resource[Any], key: str, *, uid: str = "", propagation: str = "") -> None:
        def deleted() -> None:
            found = self._found(resource.plural, key)
            if uid and found["metadata"]["uid"] != uid:
                raise Failure(409, "another has its name", reason="Conflict")
            self._drop(resource.plural, key)

        await self._request("delete", key, deleted)

    async def bind(self, key: str, uid: str, node: str, *, annotations: Mapping[str, str] | None = None) -> None:
        def bound() -> None:
            found = self._found(PODS.plural, key)
            if found["metadata"]["uid"] != uid or found["spec"].get("nodeName"):
                raise Failure(409, "it has a node, or is another", reason="Conflict")
            said = {"annotations": dict(annotations or {})}
            self._store(PODS.plural, merge_patch(found, {"spec": {"nodeName": node}, "metadata": said}))
            self.binds.append((key, uid, node))

        await self._request("bind", key, bound)

    async def evict(self, key: str, uid: str) -> None:
        def evicted() -> None:
            found = self._found(PODS.plural, key)
            if found["metadata"]["uid"] != uid:
                raise Failure(409, "another has its name", reason="Conflict")
            leaving = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
            self._store(PODS.plural, merge_patch(found, leaving))

        await self._request("evict", key, evicted)

    # -- how it is done -----------------------------------------------------------------------------------------

    async def _request(self, verb: str, key: str, act: Callable[[], T]) -> T:
        self.asked.append((verb, key))
        if self.down:
            await asyncio.sleep(0.001)
            raise Failure(0, "cannot connect", reason=UNREACHABLE)
        fate = self.fate(verb, key)
        doing: asyncio.Task[T] | None = None
        if fate.acts is not None:
            doing = asyncio.create_task(_after(fate.acts, act))
            self._acting.add(doing)
            doing.add_done_callback(self._done)
        if fate.hears_after is not None:
            await asyncio.sleep(fate.hears_after)
        else:
            if doing is not None:
                await asyncio.wait([doing])
            await asyncio.sleep(fate.answers)
        if fate.says is not None:
            raise fate.says
        assert doing is not None
        return await asyncio.shield(doing)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._acting.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone

    def _defined(self, plural: str) -> None:
        if plural in self.undefined:
            raise Failure(404, "the server could not find the requested resource", reason="NotFound")

    def _found(self, plural: str, key: str) -> Document:
        found = self._objects.get((plural, key))
        if found is None:
            raise Failure(404, f"{key} is not there", reason="NotFound")
        return found

    def _store(self, plural: str, document: Document) -> Document:
        document = copy.deepcopy(document)
        meta = document["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        old = self._objects.get((plural, key))
        self.revision += 1
        if not meta.get("uid"):
            meta["uid"] = old["metadata"]["uid"] if old else f"uid-{self.revision}"
        meta["resourceVersion"] = str(self.revision)
        self._objects[plural, key] = document
        self._tell("MODIFIED" if old and old["metadata"]["uid"] == meta["uid"] else "ADDED", plural, document)
        return document

    def _drop(self, plural: str, key: str) -> None:
        gone = copy.deepcopy(self._objects.pop((plural, key)))
        self.revision += 1
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", plural, gone)

    def _tell(self, type: str, plural: str, document: Document) -> None:
        now = asyncio.get_running_loop().time()
        self._history.append(_Change(self.revision, now + self.lag, type, plural, document))
        self._wake()

    def cut_watches(self) -> None:
        self._cuts += 1
        self._wake()

    def go_down(self) -> None:
        self.down = True
        self._wake()

    def pods_over_time(self) -> Iterator[dict[str, Pod]]:
        """The pods after each change of one, by key."""
        pods: dict[str, Pod] = {}
        for change in self._history:
            if change.plural == PODS.plural:
                pod = decode_json(json.dumps(change.document), Pod)
                if change.type == "DELETED":
                    pods.pop(PODS.key(pod))
                else:
                    pods[PODS.key(pod)] = pod
                yield pods

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _typed(self, resource: Resource[Any], document: Document) -> Any:
        return decode_json(json.dumps(document), resource.type)


async def _after(seconds: float, act: Callable[[], T]) -> T:
    await asyncio.sleep(seconds)
    return act()
