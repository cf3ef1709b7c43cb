"""What travels between a client and an API server, around and before the objects.

Lists and watches are taken apart in two steps: first the envelope, with each object left as the bytes it came in, then
object by object. So one object that does not fit our types costs that object, not the page or the stream it came with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from stromboli.api import ApiError, ApiObject, decode_json

from .errors import NOT_REACHED, UNREADABLE, Failure
from .resources import Resource

T = TypeVar("T", bound=ApiObject)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK; of a bookmark's object only the resourceVersion means anything."""
    object: T


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """Part of a list, its objects not decoded yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class Envelope(msgspec.Struct):
    """What a line of a watch holds, its object not decoded yet."""

    type: str
    object: msgspec.Raw


class ServerVersion(msgspec.Struct):
    major: str = ""
    minor: str = ""


class ApiResource(msgspec.Struct):
    name: str = ""
    group: str = ""
    version: str = ""


class ApiResources(msgspec.Struct):
    resources: list[ApiResource] = msgspec.field(default_factory=list)


def parsed(body: bytes, type: type[P]) -> P:
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Failure(HTTPStatus.OK, "the answer is no Kubernetes object", reason=UNREADABLE) from None


def decoded(data: msgspec.Raw | bytes, resource: Resource[T]) -> T:
    try:
        return decode_json(bytes(data), resource.type)
    except ApiError as error:
        raise Failure(HTTPStatus.OK, f"the answer cannot be read: {error}", reason=UNREADABLE) from None


class Lines:
    """Cuts a stream into lines, however long: aiohttp's own readline gives up on what is larger than its buffer."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            whole = b"".join((*self._begun, line))
            self._begun.clear()
            yield whole
        if rest:
            self._begun.append(rest)

    def end(self) -> None:
        if self._begun:
            raise Failure(NOT_REACHED, "the watch was cut off in the middle of an object")
