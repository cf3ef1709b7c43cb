"""The messages around the objects: lists, watch events, discovery.

Lists and watches are decoded in two steps: first the envelope, with each object left as bytes, then object by object.
So an object that does not fit our types affects only itself, not its whole page or stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from stromboli import plain_json
from stromboli.api import ApiError, ApiObject, decode_json

from .errors import NO_RESPONSE, TOO_LARGE, UNREADABLE, Failure
from .resources import Resource

LARGEST_LINE = 64 << 20  # bytes
# Each value of a response becomes an object of some hundred bytes, however few bytes it was. The largest object that a
# server stores has a tenth of these, and a page that has more is read in smaller parts.
MOST_VALUES = 1_000_000

T = TypeVar("T", bound=ApiObject)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK; the object of a bookmark has only a resourceVersion."""
    object: T


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None  # objects on later pages, if the server counts them


class Page(msgspec.Struct):
    """Part of a list, with objects that are not decoded yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class Envelope(msgspec.Struct):
    """A line of a watch, with an object that is not decoded yet."""

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


def decode_message(body: bytes, type: type[P]) -> P:
    _check_values(body)
    try:
        return plain_json.decode_shallow(body, type)
    except msgspec.DecodeError:
        raise Failure(HTTPStatus.OK, "the response is not a Kubernetes object", reason=UNREADABLE) from None


def decode_object(data: msgspec.Raw | bytes, resource: Resource[T]) -> T:
    body = bytes(data)
    _check_values(body)
    try:
        return decode_json(body, resource.type)
    except ApiError as error:
        raise Failure(HTTPStatus.OK, f"the response cannot be decoded: {error}", reason=UNREADABLE) from None


def _check_values(body: bytes) -> None:
    """There is a comma between two values; those inside of texts are counted too, which does no harm."""
    if len(body) > MOST_VALUES and body.count(b",") > MOST_VALUES:
        raise Failure(NO_RESPONSE, "the response has more values than are read", reason=TOO_LARGE)


class LineSplitter:
    """Splits a stream into lines. A line is one object; the largest that a server stores has a few MiB."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = bytes(self._partial + line) if self._partial else line
            self._partial.clear()
            yield whole
        if rest:
            self._partial += rest
            if len(self._partial) > LARGEST_LINE:
                problem = "the watch sent an object that is larger than what is read"
                raise Failure(NO_RESPONSE, problem, reason=TOO_LARGE)

    def end(self) -> None:
        if self._partial:
            raise Failure(NO_RESPONSE, "the watch broke off in the middle of an object")
