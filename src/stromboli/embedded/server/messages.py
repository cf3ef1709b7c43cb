"""What goes in and what comes out: requests and responses without any network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from stromboli.embedded.admission import ADMINISTRATOR, User
from stromboli.embedded.status import StatusError

if TYPE_CHECKING:
    from .watch import Watch

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Decoded, and without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    user: User = ADMINISTRATOR


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """A response without an end: events come from the watch until it ends or the time is over."""

    watch: Watch
    seconds: float
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True, slots=True)
class LogResponse:
    """The output of a container, which whoever runs the container has."""

    pod: dict[str, Any]
    container: str
    query: Mapping[str, str]
    status: int = 200


Outcome = Response | WatchResponse | LogResponse


def json_response(value: Any, status: int = 200, warnings: tuple[str, ...] = ()) -> Response:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return Response(status, body, headers=tuple(("Warning", f'299 - "{_quoted(one)}"') for one in warnings))


def _quoted(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text[:256])
    return printable.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')


def error_response(error: StatusError) -> Response:
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.code, msgspec.json.encode(error.status()), headers=headers)
