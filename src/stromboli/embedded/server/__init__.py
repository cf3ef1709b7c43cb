"""A request and a time in, a response or a watch out."""

from .api_server import ApiServer
from .documents import VERSION
from .messages import LogResponse, Outcome, Request, Response, WatchResponse, error_response
from .watch import Watch

__all__ = [
    "VERSION",
    "ApiServer",
    "LogResponse",
    "Outcome",
    "Request",
    "Response",
    "Watch",
    "WatchResponse",
    "error_response",
]
