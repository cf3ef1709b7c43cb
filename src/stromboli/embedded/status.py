"""Failures as Kubernetes reports them: an HTTP status, and a Status object with a reason for programs and a message for
people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .schema import FieldError

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """Ends a request with a Status object."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None, *, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = {name: value for name, value in (details or {}).items() if value}
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            status["details"] = self.details
        return {**status, "code": self.code}


def _details(resource: str, name: str, **more: Any) -> dict[str, Any]:
    plural, _, group = resource.partition(".")
    return {"name": name, "group": group, "kind": plural, **more}


def not_found(resource: str, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def unknown_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: str, name: str) -> StatusError:
    return StatusError(409, "AlreadyExists", f'{resource} "{name}" already exists', _details(resource, name))


def conflict(resource: str, name: str, problem: str = MODIFIED) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {problem}'
    return StatusError(409, "Conflict", message, _details(resource, name))


def forbidden(resource: str, name: str, problem: str, causes: list[dict[str, str]] | None = None) -> StatusError:
    about = f'{resource} "{name}"' if name else resource
    details = _details(resource, name, causes=causes or [])
    return StatusError(403, "Forbidden", f"{about} is forbidden: {problem}", details)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    qualified = f"{kind}.{group}" if group else kind
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    texts = list(dict.fromkeys(str(error) for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def not_acceptable(offered: Sequence[str]) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}")


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}",
    )


def too_large(limit: int) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def head_too_large() -> StatusError:
    return StatusError(431, "RequestHeaderFieldsTooLarge", "the request has too many headers")


def body_timeout() -> StatusError:
    return StatusError(408, "Timeout", "the body of the request did not come in time")


def unsupported_encoding() -> StatusError:
    return StatusError(415, "UnsupportedMediaType", "the body of the request must not be compressed")


def foreign_request(problem: str) -> StatusError:
    return StatusError(403, "Forbidden", f"Forbidden: {problem}")


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def too_many_requests(message: str, *, seconds: int, causes: list[dict[str, str]]) -> StatusError:
    details = {"causes": causes, "retryAfterSeconds": seconds}
    return StatusError(429, "TooManyRequests", message, details, retry_after=seconds)


def not_stored(problem: str) -> StatusError:
    message = f"the change was not made: {problem}"
    return StatusError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 5}, retry_after=5)


def timeout(message: str) -> StatusError:
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    return StatusError(504, "Timeout", message, details | {"retryAfterSeconds": 1}, retry_after=1)


def success(resource: str, name: str, uid: str) -> dict[str, Any]:
    """The answer to a deletion."""
    details = {key: value for key, value in _details(resource, name, uid=uid).items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
