"""What can go wrong between us and an API server, as one exception.

Whoever writes to a cluster has to tell apart three things: the server said no (and why), the server asks us to come
back later, and nobody knows whether the server acted at all because the connection broke. All three are a `Failure`;
its status and reason say which. Whatever the other end sent (a Status object, a proxy's HTML page, nothing), the
message is one plain sentence and holds nothing of the request, so that it can be logged and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

NOT_REACHED = 0
GONE = 410
TOO_MANY_REQUESTS = 429
# The reason of a Failure about an answer that came and made no sense to us. A write has happened then.
UNREADABLE = "Unreadable"
# The reason of a Failure (status 0) to connect: the server has seen nothing of the request.
UNREACHABLE = "Unreachable"
# The reason of a Failure (status 0) to find out who we are. Nothing was sent.
NO_CREDENTIALS = "Credentials"
# The cause of a Failure (status 429) of an eviction that a budget forbids.
DISRUPTION_BUDGET = "DisruptionBudget"


class Failure(Exception):
    """What an API server answered, or (status 0) that it could not be reached or the connection broke."""

    def __init__(
        self, status: int, message: str, *, reason: str = "", retry_after: float | None = None, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.cause = cause


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def answered(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure that an HTTP answer other than a success stands for."""
    said = _said(body)
    retry_after = _seconds(headers.get("Retry-After", ""))
    if said is None:
        return Failure(status, f"the server answered {_named(status)}", retry_after=retry_after)
    failure = _failure(said, status)
    if retry_after is not None:
        failure.retry_after = retry_after
    return failure


def told(status_object: msgspec.Raw | bytes) -> Failure:
    """The failure in an ERROR event of a watch: the same Status object, without an answer around it."""
    said = _said(bytes(status_object))
    if said is None:
        return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "the server ended the watch with an error it did not name")
    return _failure(said, said.code or HTTPStatus.INTERNAL_SERVER_ERROR)


def may_try_again(method: str, failure: Failure) -> bool:
    """Whether sending the same request once more may help and cannot do harm."""
    if failure.status == NOT_REACHED:
        # With a reason (no trust, no credentials, no answer for as long as we cared to wait) it would not help.
        return failure.reason == UNREACHABLE or (method == "GET" and not failure.reason)
    # A budget in the way of an eviction says 429 as well. That is an answer: it will hold until some pod is ready.
    if failure.cause == DISRUPTION_BUDGET:
        return False
    if method == "GET":
        return failure.status == TOO_MANY_REQUESTS or failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    refused = failure.status in (TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return refused and failure.retry_after is not None


def _failure(said: _Status, status: int) -> Failure:
    details = said.details or _Details()
    return Failure(
        int(status),
        said.message or f"the server answered {_named(status)}",
        reason=said.reason,
        retry_after=details.retry_after_seconds or None,
        cause=details.causes[0].reason if details.causes else "",
    )


def _said(body: bytes) -> _Status | None:
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return said if said.kind == "Status" else None


def _seconds(text: str) -> float | None:
    # The other form of Retry-After, a date, is never sent by an API server and would need both clocks to agree.
    return float(text) if text.isascii() and text.isdigit() else None


def _named(status: int) -> str:
    try:
        return f"{int(status)} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def is_not_found(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.status == HTTPStatus.NOT_FOUND


def is_conflict(error: BaseException) -> bool:
    """Somebody else was faster: the object has changed, or is not the one we meant."""
    return isinstance(error, Failure) and error.status == HTTPStatus.CONFLICT and not is_already_there(error)


def is_already_there(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.reason == "AlreadyExists"


def is_gone(error: BaseException) -> bool:
    """The history we asked for is no longer kept: only a new list helps."""
    return isinstance(error, Failure) and error.status == GONE
