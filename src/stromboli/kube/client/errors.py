"""The exception for everything that can go wrong between us and an API server.

A caller that writes to a cluster must distinguish three cases: the server refused (and why), the server asks to retry
later, or the connection broke and nobody knows whether the server acted. All three are a `Failure`; its status and
reason tell which. Whatever the response was (a Status object, a proxy's HTML page, nothing), the message is one plain
sentence without any part of the request, so that it can be logged and shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from http import HTTPStatus
from socket import gaierror
from ssl import SSLCertVerificationError, SSLError

import msgspec

from stromboli import plain_json

NO_RESPONSE = 0
GONE = 410
TOO_MANY_REQUESTS = 429
# The reason of a Failure about a response that could not be decoded. A write has happened.
UNREADABLE = "Unreadable"
# The reason of a Failure (status 0) to connect: the server has not received the request.
UNREACHABLE = "Unreachable"
# The reason of a Failure (status 0) to get credentials. Nothing was sent.
NO_CREDENTIALS = "Credentials"
# The cause of a Failure (status 429) of an eviction that a disruption budget forbids.
DISRUPTION_BUDGET = "DisruptionBudget"
# The reason of a Failure (status 0) about a response that is larger than we read.
TOO_LARGE = "TooLarge"


LONGEST_PAUSE = 60.0  # seconds that a server can make us wait; it may ask for more


class Failure(Exception):
    """An error response of an API server, or (status 0) no response: not reachable, or the connection broke."""

    def __init__(
        self, status: int, message: str, *, reason: str = "", retry_after: float | None = None, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = None if retry_after is None else min(max(retry_after, 0.0), LONGEST_PAUSE)
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


def failure_from_response(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """The failure in an HTTP response that is not a success. The names of the headers are in lower case."""
    parsed = _parse_status(body)
    retry_after = _seconds(headers.get("retry-after", ""))
    if parsed is None:
        return Failure(status, f"the server answered {_status_phrase(status)}", retry_after=retry_after)
    return _failure(parsed, status, retry_after)


def failure_from_status(raw: msgspec.Raw | bytes) -> Failure:
    """The failure in an ERROR event of a watch: the same Status object, without an HTTP response."""
    parsed = _parse_status(bytes(raw))
    if parsed is None:
        return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "the server ended the watch with an unknown error")
    return _failure(parsed, parsed.code or HTTPStatus.INTERNAL_SERVER_ERROR)


def unreachable(server: str, error: OSError) -> Failure:
    """Nothing was sent."""
    # The numbers of OpenSSL and of the resolver are not those of the system.
    if error.errno and not isinstance(error, SSLError | gaierror):
        problem = os.strerror(error.errno)
    else:
        problem = error.strerror or str(error) or type(error).__name__
    return Failure(NO_RESPONSE, f"cannot connect to {server}: {problem}", reason=UNREACHABLE)


def untrusted(server: str, error: SSLCertVerificationError) -> Failure:
    problem = getattr(error, "verify_message", "") or "verification failed"
    return Failure(NO_RESPONSE, f"the certificate of {server} is not trusted: {problem}", reason="Untrusted")


def no_answer_in_time(server: str) -> Failure:
    return Failure(NO_RESPONSE, f"{server} did not answer in time", reason="Timeout")


def broken_connection(server: str) -> Failure:
    """The request may have been sent."""
    return Failure(NO_RESPONSE, f"the connection to {server} broke")


def too_large(server: str) -> Failure:
    """The request was sent, and the server may have acted."""
    return Failure(NO_RESPONSE, f"the response of {server} is larger than what is read", reason=TOO_LARGE)


def not_as_encoded(server: str) -> Failure:
    """The request was sent, and the server may have acted."""
    problem = "is not what its Content-Encoding says, or breaks off"
    return Failure(NO_RESPONSE, f"the response of {server} {problem}")


def endless_list(plural: str) -> Failure:
    return Failure(NO_RESPONSE, f"the list of {plural} has no end, or more objects than are read", reason="Endless")


def is_too_large(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.reason == TOO_LARGE


def is_retriable(method: str, failure: Failure) -> bool:
    """Whether sending the same request again may help and is safe."""
    if failure.status == NO_RESPONSE:
        # With another reason (untrusted certificate, no credentials, timeout) it would not help.
        return failure.reason == UNREACHABLE or (method == "GET" and not failure.reason)
    # A disruption budget causes 429 as well. It is a refusal that holds until some pod is ready.
    if failure.cause == DISRUPTION_BUDGET:
        return False
    if method == "GET":
        return failure.status == TOO_MANY_REQUESTS or failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    refused = failure.status in (TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return refused and failure.retry_after is not None


def _failure(status_object: _Status, status: int, retry_after: float | None = None) -> Failure:
    details = status_object.details or _Details()
    return Failure(
        int(status),
        status_object.message or f"the server answered {_status_phrase(status)}",
        reason=status_object.reason,
        retry_after=(details.retry_after_seconds or None) if retry_after is None else retry_after,
        cause=details.causes[0].reason if details.causes else "",
    )


def _parse_status(body: bytes) -> _Status | None:
    try:
        parsed = plain_json.decode(body, _Status)
    except msgspec.DecodeError:
        return None
    return parsed if parsed.kind == "Status" else None


def _seconds(text: str) -> float | None:
    # API servers never send the other form of Retry-After, a date, which would depend on both clocks.
    return float(text) if text.isascii() and text.isdigit() else None


def _status_phrase(status: int) -> str:
    try:
        return f"{int(status)} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def is_not_found(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.status == HTTPStatus.NOT_FOUND


def is_conflict(error: BaseException) -> bool:
    """The object has changed in the meantime, or another object has the name."""
    return isinstance(error, Failure) and error.status == HTTPStatus.CONFLICT and not is_already_exists(error)


def is_already_exists(error: BaseException) -> bool:
    return isinstance(error, Failure) and error.reason == "AlreadyExists"


def is_gone(error: BaseException) -> bool:
    """The server no longer has the requested resourceVersion: list again."""
    return isinstance(error, Failure) and error.status == GONE
